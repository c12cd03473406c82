/* test_reader.c - how the server divides answers into thoughts, content and calls. Each sample is read at once, cut at
 * every byte, and cut short at every byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "serve/reader.h"
#include "tests/check.h"

enum { TOOLS = 1, THOUGHTS = 2, CHANNELS = 4, WORDY = 8, SINGLE = 16, BOTH = TOOLS | THOUGHTS };

#define ADD "{\"name\": \"add\", \"arguments\": {\"x\": 5, \"y\": \"\u00e9}\"}}"
#define ARGUMENTS "{\"x\": 5, \"y\": \"\u00e9}\"}"
#define STOP "{\"name\": \"stop\"}"
#define CHANNEL(name, text) "<|channel|>" name "<|message|>" text

/* `parts`: the reasoning, the content, then name and arguments of each call, separated by bars. A final ! says that the
 * answer ends with a complete call. */
static const struct sample {
    unsigned flags;
    const char *text, *parts;
} samples[] = {
    /* Hermes, Qwen, Granite 4 */
    {BOTH, "<tool_call>\n" ADD "\n</tool_call>", "||add|" ARGUMENTS "!"},
    {BOTH, "I add. \n<tool_call>" ADD "</tool_call>\n<tool_call>\n" STOP "</tool_call>\n",
     "|I add.|add|" ARGUMENTS "|stop|{}!"},
    {BOTH | SINGLE, "<tool_call>" STOP "</tool_call><tool_call>" ADD "</tool_call>", "||stop|{}!"},
    {BOTH, "<tool_call>" ADD, "||add|" ARGUMENTS "!"},
    {BOTH, "<tool_call>" STOP "</tool_call> Done. ", "|Done.|stop|{}!"},
    {BOTH, "a <tool_call>" STOP "</tool_call>\nb", "|a \nb|stop|{}!"},
    {BOTH, "<tool_call>{\"arguments\": {\"x\": [1, {}]}, \"name\": \"add\"}</tool_call>", "||add|{\"x\": [1, {}]}!"},
    {BOTH, "<tool_call>{\"name\": \"stop\", \"arguments\": null, \"id\": 3.5}", "||stop|{}!"},
    {BOTH, "<tool_call>{\"name\": \"add\", \"arguments\": {\"t\": \"</tool_call>\\\"\"}}</tool_call>",
     "||add|{\"t\": \"</tool_call>\\\"\"}!"},
    {BOTH, "<think>\nhm\n</think>\n\n<tool_call>" STOP "</tool_call>", "hm||stop|{}!"},
    {THOUGHTS, "<tool_call>" STOP "</tool_call>", "|<tool_call>" STOP "</tool_call>"},
    /* alone: Llama 3 and others */
    {BOTH, "{\"name\": \"add\", \"parameters\": {\"x\": 1}}", "||add|{\"x\": 1}!"},
    {BOTH, " " STOP "; {\"name\": \"add\", \"parameters\": {}}", "||stop|{}|add|{}!"},
    {BOTH, "<|python_tag|>" STOP, "||stop|{}!"},
    {BOTH, " [" STOP ", " ADD "]", "||stop|{}|add|" ARGUMENTS "!"},
    {BOTH, "{\"name\": \"stop\", \"arguments\": \" {\\\"a\\\": \\\"\\ud83d\\ude00\\u00e9\\/\\\"}\"}",
     "||stop|{\"a\": \"\U0001F600\u00e9/\"}!"},
    {BOTH, "{\"arguments\": \"{\\\"a\\\": 1}\", \"name\": \"stop\"}", "||stop|{\"a\": 1}!"},
    {BOTH, "{\"name\": \"s\\u0074op\", \"arguments\": \"\"}", "||stop|{}!"},
    /* Mistral */
    {BOTH, "[TOOL_CALLS] [" ADD "]", "||add|" ARGUMENTS "!"},
    {BOTH, "[TOOL_CALLS]add[ARGS]{\"x\": 1}[TOOL_CALLS]stop[CALL_ID]a1b2c3d4e[ARGS] {}", "||add|{\"x\": 1}|stop|{}!"},
    {BOTH, "Yes.[TOOL_CALLS]stop{}", "|Yes.|stop|{}!"},
    {BOTH, "[THINK]a[/THINK]b", "a|b"},
    /* Granite 3, Phi-4 */
    {BOTH, "<|tool_call|>[" STOP "]<|/tool_call|>", "||stop|{}!"},
    {BOTH, "<think>a</think><response>b</response>", "a|b"},
    {BOTH | WORDY, "Here is my thought process:\na\nHere is my response:\nb", "a|b"},
    {BOTH, "Here is my thought process:\na", "|Here is my thought process:\na"},
    /* Command-R */
    {BOTH,
     "<|START_THINKING|>a<|END_THINKING|><|START_ACTION|>[\n {\"tool_call_id\": \"0\", \"tool_name\": \"add\", "
     "\"parameters\": {\"x\": 1}},\n {\"tool_call_id\": \"1\", \"tool_name\": \"stop\", \"parameters\": {}}\n]"
     "<|END_ACTION|>",
     "a||add|{\"x\": 1}|stop|{}!"},
    {BOTH, "<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>", "a|b"},
    {BOTH,
     "Plan: add.\nAction: ```json\n[\n    {\n        \"tool_name\": \"add\",\n        \"parameters\": {\n"
     "            \"x\": 1\n        }\n    }\n]\n```",
     "|Plan: add.|add|{\n            \"x\": 1\n        }!"},
    {BOTH, "Action:```json\n[{\"tool_name\": \"stop\", \"parameters\": {}}]```\nx", "|x|stop|{}!"},
    /* gpt-oss */
    {BOTH | CHANNELS, CHANNEL("analysis", "hm\n") "<|end|><|start|>assistant" CHANNEL("final", "Hello <b> "),
     "hm|Hello <b> "},
    {BOTH | CHANNELS,
     CHANNEL("analysis", "hm") "<|end|><|start|>assistant" CHANNEL(
         "analysis", "so") "<|end|>"
                           "<|start|>assistant<|channel|>commentary to=functions.add <|constrain|>json<|message|> "
                           "{\"t\": \"<|end|>\"} ",
     "hm\n\nso||add|{\"t\": \"<|end|>\"} !"},
    {BOTH | CHANNELS,
     CHANNEL("commentary", "I call.") "<|end|><|start|>assistant to=functions.stop<|channel|>commentary "
                                      "json<|message|>",
     "|I call.|stop|{}!"},
    {BOTH | CHANNELS, CHANNEL("commentary to=functions.stop", "{}<|call|>") "<|start|>assistant" CHANNEL("final", "x"),
     "|x|stop|{}!"},
    {BOTH | CHANNELS, CHANNEL("commentary to=functions.other", "{}"),
     "|" CHANNEL("commentary to=functions.other", "{}")},
    {BOTH | CHANNELS, CHANNEL("commentary to=browser.search", "{}"), "|" CHANNEL("commentary to=browser.search", "{}")},
    {TOOLS | CHANNELS, CHANNEL("analysis", "a") "<|end|>" CHANNEL("final", "b"),
     "|" CHANNEL("analysis", "a") "<|end|>\n\nb"},
    {BOTH | CHANNELS, "no channel", "|no channel"},
    {BOTH | CHANNELS, CHANNEL("final", "a") "<|end|><|start|>assistant<|chan", "|a"},
    /* thoughts */
    {THOUGHTS, " <think>\n a\n\nb </think>\n\n c \n", "a\n\nb|c \n"},
    {THOUGHTS, "<think>\n\n</think>\n\nx", "|x"},
    {THOUGHTS, "<think> a </thin", "a </thin|"},
    {THOUGHTS, "<think>a</think>", "a|"},
    {THOUGHTS, "x <think>a</think>", "|x <think>a</think>"},
    {THOUGHTS, "<think>a</think><think>b</think>", "a|<think>b</think>"},
    {THOUGHTS, "<seed:think>a</seed:think>b", "a|b"},
    {TOOLS, "<think>a</think>b", "|<think>a</think>b"},
    /* no calls: the text is content, to the byte */
    {BOTH, "", "|"},
    {BOTH, "plain", "|plain"},
    {BOTH, " blank \n", "| blank \n"},
    {BOTH, "a < b <tool <", "|a < b <tool <"},
    {BOTH, "{\"name\": \"other\", \"arguments\": {}}", "|{\"name\": \"other\", \"arguments\": {}}"},
    {BOTH, "{\"name\": \"add\", \"arguments\": [1]}", "|{\"name\": \"add\", \"arguments\": [1]}"},
    {BOTH, "{\"name\": \"add\", \"arguments\": \"1\"}", "|{\"name\": \"add\", \"arguments\": \"1\"}"},
    {BOTH, "{\"name\": \"add\", \"size\": 1, \"arguments\": {}}",
     "|{\"name\": \"add\", \"size\": 1, \"arguments\": {}}"},
    {BOTH, "{\"name\": \"add\\u0000\", \"arguments\": {}}", "|{\"name\": \"add\\u0000\", \"arguments\": {}}"},
    {BOTH, "{\"arguments\": {}, \"name\": \"other\"}", "|{\"arguments\": {}, \"name\": \"other\"}"},
    {BOTH, "{\"arguments\": {}}", "|{\"arguments\": {}}"},
    {BOTH, "{\"name\": \"add\", \"id\": }", "|{\"name\": \"add\", \"id\": }"},
    {BOTH, "{\"a\": 1}", "|{\"a\": 1}"},
    {BOTH, "[1]", "|[1]"},
    {BOTH, "[]", "|[]"},
    {BOTH, "[TOOL_CALLS]", "|[TOOL_CALLS]"},
    {BOTH, "[TOOL_CALLS]add[OTHER]{}", "|[TOOL_CALLS]add[OTHER]{}"},
    {BOTH, "<tool_call>no</tool_call>", "|<tool_call>no</tool_call>"},
    {BOTH, "<tool_call><tool_call>" STOP "</tool_call>", "|<tool_call>|stop|{}!"},
    {BOTH, "say {\"name\": \"stop\"}", "|say {\"name\": \"stop\"}"},
    /* calls that go wrong after they have begun */
    {BOTH, "<tool_call>" STOP "</tool_call><tool_call>x", "|<tool_call>x|stop|{}!"},
    {BOTH, "[" STOP ", {\"name\": \"other\"}]", "|{\"name\": \"other\"}]|stop|{}!"},
    {BOTH, "[" STOP ", ]", "||stop|{}!"},
    {BOTH, "<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 1", "||add|{\"x\": 1"},
    {BOTH, "<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": }</tool_call>", "||add|{\"x\": }!"},
    {BOTH, "<tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 1}</tool_call> b", "|b|add|{\"x\": 1}!"},
    {BOTH, "{\"name\": \"add\", \"name\": \"stop\", \"arguments\": {}, \"arguments\": {\"x\": 1}}", "||add|{}!"},
    {BOTH, "{\"name\": \"add\", \"arguments\": \"{\\\"\\uZ\\ud800\\ud800x",
     "||add|{\"\xef\xbf\xbdZ\xef\xbf\xbd\xef\xbf\xbdx"},
};

static json_t *functions;

static struct serve_reader begun(unsigned flags) {
    return (struct serve_reader){.functions = flags & TOOLS ? functions : NULL,
                                 .thoughts = flags & THOUGHTS,
                                 .channels = flags & CHANNELS,
                                 .wordy = flags & WORDY,
                                 .single = flags & SINGLE};
}

static void add(struct serve_text *out, const struct serve_text *text) {
    if (text->bytes > 0)
        serve_text_add(out, text->data, text->bytes);
}

/* Writes the parts as samples have them. */
static void describe(const struct serve_reader *reader, bool called, struct serve_text *out) {
    *out = (struct serve_text){0};
    add(out, &reader->reasoning.text);
    serve_text_put(out, "|");
    add(out, &reader->content.text);
    for (size_t i = 0; i < reader->call_count; i++) {
        serve_text_print(out, "|%s|", reader->calls[i].name);
        add(out, &reader->calls[i].arguments);
    }
    serve_text_put(out, called ? "!" : "");
    assert_false(out->failed);
}

/* Reads pieces of a text. Each must only add to what was read before. */
static void read_cut(unsigned flags, const char *text, const size_t *cuts, size_t count, struct serve_text *out) {
    struct serve_reader reader = begun(flags);
    struct serve_text before = {0}, content = {0};
    size_t calls = 0;
    for (size_t i = 0; i + 1 < count; i++) {
        serve_reader_read(&reader, text + cuts[i], cuts[i + 1] - cuts[i]);
        assert_true(reader.call_count >= calls);
        calls = reader.call_count;
        if (before.bytes > 0)
            assert_memory_equal(reader.reasoning.text.data, before.data, before.bytes);
        if (content.bytes > 0)
            assert_memory_equal(reader.content.text.data, content.data, content.bytes);
        before.bytes = content.bytes = 0;
        add(&before, &reader.reasoning.text);
        add(&content, &reader.content.text);
    }
    const bool called = serve_reader_end(&reader, false);
    assert_false(reader.failed);
    describe(&reader, called, out);
    serve_text_free(&before);
    serve_text_free(&content);
    serve_reader_free(&reader);
}

static void read_at_once(unsigned flags, const char *text, size_t bytes, struct serve_text *out) {
    const size_t cuts[] = {0, bytes};
    read_cut(flags, text, cuts, 2, out);
}

/* Returns the number of cuts at which the parts differ from those of the text read at once. */
static size_t differing_cuts(unsigned flags, const char *text, size_t bytes, const struct serve_text *whole) {
    size_t *each = malloc((bytes + 1) * sizeof *each), wrong = 0;
    struct serve_text got;
    assert_non_null(each);
    for (size_t cut = 0; cut <= bytes + 1; cut++) {
        const size_t two[] = {0, cut, bytes};
        if (cut <= bytes)
            each[cut] = cut;
        read_cut(flags, text, cut <= bytes ? two : each, cut <= bytes ? 3 : bytes + 1, &got);
        wrong += got.bytes != whole->bytes || memcmp(got.data, whole->data, got.bytes) != 0;
        serve_text_free(&got);
    }
    free(each);
    return wrong;
}

static void test_samples(void **state) {
    size_t wrong = 0;
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        const struct sample *s = &samples[i];
        struct serve_text got;
        read_at_once(s->flags, s->text, strlen(s->text), &got);
        if (strcmp(got.data, s->parts) != 0) {
            print_error("%s\n  gives    %s\n  expected %s\n", s->text, got.data, s->parts);
            wrong++;
        }
        const size_t cuts = differing_cuts(s->flags, s->text, strlen(s->text), &got);
        if (cuts > 0)
            print_error("%s\n  differs at %zu cuts\n", s->text, cuts);
        wrong += cuts > 0;
        serve_text_free(&got);
    }
    assert_int_equal(wrong, 0);
}

/* An answer that ends early has the same parts however it was cut. */
static void test_short(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        for (size_t bytes = 0; bytes < strlen(samples[i].text); bytes++) {
            struct serve_text got;
            read_at_once(samples[i].flags, samples[i].text, bytes, &got);
            assert_int_equal(differing_cuts(samples[i].flags, samples[i].text, bytes, &got), 0);
            serve_text_free(&got);
        }
}

static uint64_t draw(uint64_t *seed, uint64_t below) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (*seed >> 33) % below;
}

/* Answers of fragments in any order, with wrong bytes between them. */
static void test_hostile(void **state) {
    static const char *const fragments[] = {ADD,
                                            STOP,
                                            ARGUMENTS,
                                            "{\"name\": \"add\", \"arguments\": ",
                                            "{\"arguments\": \"{\\\"",
                                            "\\u12",
                                            "\\ud83d",
                                            "\xff\xfe",
                                            "\xe2\x82",
                                            "{",
                                            "}",
                                            "[",
                                            "]",
                                            ",",
                                            ":",
                                            "\"",
                                            "\\",
                                            " ",
                                            "\n",
                                            "x",
                                            ";",
                                            "null",
                                            "to=functions.add"};
    const size_t few = sizeof fragments / sizeof *fragments;
    const int rounds = kvc_test_thinned() ? 100 : 2000;
    size_t marks = 0;
    uint64_t seed = 1;
    (void)state;
    while (reader_marks[marks].text)
        marks++;
    for (int round = 0; round < rounds; round++) {
        struct serve_text text = {0}, got;
        const unsigned flags = (unsigned)draw(&seed, 32);
        for (uint64_t n = draw(&seed, 9); n > 0; n--) {
            const uint64_t which = draw(&seed, marks + few);
            serve_text_put(&text, which < marks ? reader_marks[which].text : fragments[which - marks]);
            if (draw(&seed, 20) == 0)
                serve_text_add(&text, "", 1);
        }
        read_at_once(flags, text.data ? text.data : "", text.bytes, &got);
        assert_int_equal(differing_cuts(flags, text.data ? text.data : "", text.bytes, &got), 0);
        serve_text_free(&got);
        serve_text_free(&text);
    }
}

/* Memory grows at most in proportion to depth and length. */
static void test_long(void **state) {
    enum { LONG = 1 << 17 };
    static const char *const begins[] = {"<tool_call>{\"name\": \"add\", \"arguments\": ",
                                         "{\"arguments\": ",
                                         "",
                                         "<think>",
                                         "[TOOL_CALLS]",
                                         "<tool_call>{\"id\": "};
    static const char *const bodies[] = {"{",           "[",       "\\\"", "<",
                                         "<tool_call>", "{\"a\":", " ",    "<tool_call>{\"arguments\":\""};
    char *text = malloc(LONG + 100);
    (void)state;
    assert_non_null(text);
    for (size_t b = 0; b < sizeof begins / sizeof *begins; b++)
        for (size_t c = 0; c < sizeof bodies / sizeof *bodies; c++)
            for (unsigned flags = BOTH; flags <= (BOTH | CHANNELS); flags += CHANNELS) {
                struct serve_reader reader = begun(flags);
                size_t bytes = (size_t)sprintf(text, "%s", begins[b]);
                while (bytes < LONG)
                    bytes += (size_t)sprintf(text + bytes, "%s", bodies[c]);
                serve_reader_read(&reader, text, bytes);
                (void)serve_reader_end(&reader, false);
                assert_false(reader.failed);
                assert_true(reader.content.text.bytes + reader.reasoning.text.bytes <= bytes);
                serve_reader_free(&reader);
            }
    free(text);
}

static void test_prompts(void **state) {
    static const char *const open[] = {"a<think>", "<think>\n", "x[THINK] ", "<|START_THINKING|>"},
                             *const closed[] = {"", "think>", "<think>\n\n</think>\n\n", "<think> x",
                                                "Here is my thought process:"};
    (void)state;
    for (size_t i = 0; i < sizeof open / sizeof *open; i++)
        assert_non_null(serve_reader_opened(open[i], strlen(open[i])));
    for (size_t i = 0; i < sizeof closed / sizeof *closed; i++)
        assert_null(serve_reader_opened(closed[i], strlen(closed[i])));
    struct serve_reader reader = begun(BOTH);
    assert_true(serve_reader_wants(&reader, "[TOOL_CALLS]") && serve_reader_wants(&reader, "[ARGS]") &&
                serve_reader_wants(&reader, "[THINK]"));
    assert_false(serve_reader_wants(&reader, "<|end|>") || serve_reader_wants(&reader, "<s>"));
    reader = begun(CHANNELS);
    assert_true(serve_reader_wants(&reader, "<|end|>"));
    assert_false(serve_reader_wants(&reader, "[THINK]") || serve_reader_wants(&reader, "<tool_call>"));
}

int main(void) {
    functions = json_loads("[{\"name\": \"add\"}, {\"name\": \"stop\"}]", 0, NULL);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples), cmocka_unit_test(test_short),
                                       cmocka_unit_test(test_hostile), cmocka_unit_test(test_long),
                                       cmocka_unit_test(test_prompts)};
    const int failed = functions ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    json_decref(functions);
    return failed;
}
