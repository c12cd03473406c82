/* test_template.c - chat templates against jinja2 with the models' own templates, and against the families' published
 * forms. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "models/chat/template.h"
#include "models/tokenizer/json.h"
#include "models/tokenizer/parts.h"
#include "tests/models/text_data.h"

/* A tokenizer that only has a template and the special tokens that it writes; "" for none. */
static struct kvc_tokenizer *make_tokenizer(const char *jinja, const char *bos, const char *eos) {
    static const char json[] = "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}";
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    if (kvc_tokenizer_from_bytes(json, sizeof json - 1, "test", 2, &tokenizer, &error) != KVC_OK)
        fail_msg("%s", error.text);
    assert_true(kvc_vocab_set(tokenizer, 0, bos, strlen(bos), KVC_TOKEN_CONTROL));
    assert_true(kvc_vocab_set(tokenizer, 1, eos, strlen(eos), KVC_TOKEN_CONTROL));
    tokenizer->bos = *bos ? 0 : -1;
    tokenizer->eos = *eos ? 1 : -1;
    json_t *text = jinja ? json_string(jinja) : NULL;
    if (text && kvc_templates_from_json(tokenizer, text, &error) != KVC_OK)
        fail_msg("%s", error.text);
    json_decref(text);
    return tokenizer;
}

static enum kvc_status chat_text(const struct kvc_tokenizer *tokenizer, const struct kvc_chat_options *options,
                                 const struct kvc_message *messages, size_t count, char **text,
                                 struct kvc_error *error) {
    struct kvc_rendered made = {0};
    const enum kvc_status status = kvc_chat_render(tokenizer, options, messages, count, &made, error);
    *text = made.text;
    return status;
}

static bool renders(const struct kvc_tokenizer *tokenizer, const char *name, const struct kvc_message *messages,
                    size_t count, bool answer, const char *wanted) {
    char *text = NULL;
    struct kvc_error error = {0};
    const struct kvc_chat_options options = {.template_name = name, .answer = answer};
    enum kvc_status status = chat_text(tokenizer, &options, messages, count, &text, &error);
    bool same = wanted ? status == KVC_OK && !strcmp(text, wanted) : status == KVC_USAGE && error.text[0];
    if (!same)
        fprintf(stderr, "%s: got\n%s\nwanted\n%s\n", name ? name : "own template", status == KVC_OK ? text : error.text,
                wanted ? wanted : "an error");
    free(text);
    return same;
}

static void test_against_jinja(void **state) {
    (void)state;
    json_t *expected = data_json("templates/expected.json");
    assert_non_null(expected);
    const json_t *conversations = json_object_get(expected, "conversations"), *rows = json_object_get(expected, "rows");
    const char *shared = getenv("KVCULL_SHARED");
    size_t failures = 0, recognized = 0, refusals = 0;
    assert_true(json_array_size(rows) > 200);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        size_t number = (size_t)json_integer_value(json_object_get(row, "conversation"));
        const json_t *conversation = json_array_get(conversations, number);
        struct kvc_message messages[16];
        size_t count = json_array_size(conversation);
        assert_true(count <= 16);
        for (size_t k = 0; k < count; k++) {
            const json_t *message = json_array_get(conversation, k);
            messages[k].role = json_string_value(json_object_get(message, "role"));
            messages[k].content = json_string_value(json_object_get(message, "content"));
        }
        const char *family = json_string_value(json_object_get(row, "family"));
        const char *wanted =
            json_is_null(json_object_get(row, "text")) /* the template refuses */ ? NULL
                                                                                  : json_string_value(
                                                                                        json_object_get(row, "text"));
        bool answer = json_is_true(json_object_get(row, "answer"));
        refusals += !wanted;
        char path[1000];
        size_t bytes;
        snprintf(path, sizeof path, "%s/templates/%s", shared ? shared : "../shared",
                 json_string_value(json_object_get(row, "file")));
        char *jinja = read_whole(path, &bytes);
        struct kvc_tokenizer *tokenizer = make_tokenizer(jinja, json_string_value(json_object_get(row, "bos")),
                                                         json_string_value(json_object_get(row, "eos")));
        bool same = renders(tokenizer, family, messages, count, answer, wanted);
        if (jinja)
            same &= renders(tokenizer, NULL, messages, count, answer, wanted);
        recognized += jinja != NULL;
        if (!same)
            fprintf(stderr, "%s: conversation %zu\n", family, number);
        failures += !same;
        kvc_tokenizer_close(tokenizer);
        free(jinja);
    }
    if (!recognized)
        print_message("the models' own templates are not there: families are chosen by name only\n");
    json_decref(expected);
    assert_int_equal(failures, 0);
    assert_true(refusals > 0);
}

static const struct kvc_message talk[] = {
    {"system", "Be kind."}, {"user", "One"}, {"assistant", "Two"}, {"user", "Three"}};
#define VICUNA_SYSTEM                                                                                                  \
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives "                     \
    "helpful, detailed, and polite answers to the user's questions."

/* The template's name, the conversation with its system message and without it; both end with the opening of the
 * answer. */
static const struct {
    const char *name, *with_system, *without;
} forms[] = {
    {"llama2", "<s>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nOne [/INST] Two </s><s>[INST] Three [/INST]",
     "<s>[INST] One [/INST] Two </s><s>[INST] Three [/INST]"},
    {"llama3",
     "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|><|start_header_id|>user"
     "<|end_header_id|>\n\nOne<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nTwo<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nThree<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
     "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nOne<|eot_id|><|start_header_id|>assistant"
     "<|end_header_id|>\n\nTwo<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nThree<|eot_id|>"
     "<|start_header_id|>assistant<|end_header_id|>\n\n"},
    {"mistral-v0.2", "<s>[INST] Be kind.\n\nOne [/INST]Two</s>[INST] Three [/INST]",
     "<s>[INST] One [/INST]Two</s>[INST] Three [/INST]"},
    {"mistral-v0.3", "<s>[INST] One[/INST] Two</s>[INST] Be kind.\n\nThree[/INST]",
     "<s>[INST] One[/INST] Two</s>[INST] Three[/INST]"},
    {"chatml",
     "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nOne<|im_end|>\n<|im_start|>assistant\nTwo"
     "<|im_end|>\n<|im_start|>user\nThree<|im_end|>\n<|im_start|>assistant\n",
     "<|im_start|>user\nOne<|im_end|>\n<|im_start|>assistant\nTwo<|im_end|>\n<|im_start|>user\nThree<|im_end|>\n"
     "<|im_start|>assistant\n"},
    {"qwen2",
     "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nOne<|im_end|>\n<|im_start|>assistant\nTwo"
     "<|im_end|>\n<|im_start|>user\nThree<|im_end|>\n<|im_start|>assistant\n",
     "<|im_start|>system\nYou are a helpful "
     "assistant.<|im_end|>\n<|im_start|>user\nOne<|im_end|>\n<|im_start|>assistant\n"
     "Two<|im_end|>\n<|im_start|>user\nThree<|im_end|>\n<|im_start|>assistant\n"},
    {"phi3",
     "<s><|system|>\nBe kind.<|end|>\n<|user|>\nOne<|end|>\n<|assistant|>\nTwo<|end|>\n<|user|>\nThree<|end|>\n"
     "<|assistant|>\n",
     "<s><|user|>\nOne<|end|>\n<|assistant|>\nTwo<|end|>\n<|user|>\nThree<|end|>\n<|assistant|>\n"},
    {"phi4",
     "<|im_start|>system<|im_sep|>Be kind.<|im_end|><|im_start|>user<|im_sep|>One<|im_end|><|im_start|>assistant"
     "<|im_sep|>Two<|im_end|><|im_start|>user<|im_sep|>Three<|im_end|><|im_start|>assistant<|im_sep|>",
     "<|im_start|>user<|im_sep|>One<|im_end|><|im_start|>assistant<|im_sep|>Two<|im_end|><|im_start|>user<|im_sep|>"
     "Three"
     "<|im_end|><|im_start|>assistant<|im_sep|>"},
    {"phi4-mini", "<|system|>Be kind.<|end|><|user|>One<|end|><|assistant|>Two<|end|><|user|>Three<|end|><|assistant|>",
     "<|user|>One<|end|><|assistant|>Two<|end|><|user|>Three<|end|><|assistant|>"},
    {"vicuna", "<s>Be kind. USER: One ASSISTANT: Two</s>USER: Three ASSISTANT:",
     "<s>" VICUNA_SYSTEM " USER: One ASSISTANT: Two</s>USER: Three ASSISTANT:"},
};

static void test_published_forms(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        assert_true(renders(NULL, forms[i].name, talk, 4, true, forms[i].with_system));
        assert_true(renders(NULL, forms[i].name, talk + 1, 3, true, forms[i].without));
    }
}

static void test_errors(void **state) {
    (void)state;
    struct kvc_tokenizer *none = make_tokenizer(NULL, "", ""), *broken = make_tokenizer("a\n{% if %}", "", ""),
                         *dated = make_tokenizer("{{ strftime_now('%Y') }}", "", "");
    struct kvc_error error = {0};
    char *text = NULL;
    const struct kvc_message no_role = {"", "x"}, empty = {"user", NULL};
    const struct {
        const struct kvc_tokenizer *tokenizer;
        struct kvc_chat_options options;
        const struct kvc_message *messages;
        size_t count;
        enum kvc_status status;
        const char *says;
    } all[] = {
        {none, {0}, talk, 4, KVC_USAGE, "llama3.1"},
        {broken, {0}, talk, 4, KVC_INPUT, "line 2"},
        {dated, {0}, talk, 4, KVC_USAGE, "date"},
        {dated, {.date = "today"}, talk, 4, KVC_INPUT, "2025-06-30"},
        {none, {.template_name = "nonsense"}, talk, 4, KVC_USAGE, "nonsense"},
        {none, {.template_name = "llama3", .template_text = "a"}, talk, 4, KVC_USAGE, "give one of the two"},
        {none, {.template_text = "{{ raise_exception('no') }}"}, talk, 4, KVC_USAGE, "the given chat template"},
        {none, {.template_name = "llama3"}, talk, 0, KVC_USAGE, "no messages"},
        {none, {.template_name = "llama3"}, &no_role, 1, KVC_USAGE, "no role"},
        {none, {.template_name = "llama3"}, &empty, 1, KVC_USAGE, "no content"},
        {none, {.template_name = "llama2"}, talk + 2, 1, KVC_USAGE, "turns"},
        {none, {.template_name = "llama3", .tools = "[]"}, talk, 1, KVC_USAGE, "does not support tools"},
        {broken, {.tools = "{}"}, talk, 1, KVC_INPUT, "tools: the JSON must be an array"},
        {broken, {.documents = "[1"}, talk, 1, KVC_INPUT, "documents: not valid JSON"},
        {broken, {.variables = "[]"}, talk, 1, KVC_USAGE, "variables: the JSON must be an object"},
        {broken, {.earlier = "[{\"content\": 1}]"}, talk, 1, KVC_INPUT, "message 0"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(chat_text(all[i].tokenizer, &all[i].options, all[i].messages, all[i].count, &text, &error),
                         all[i].status);
        if (!strstr(error.text, all[i].says))
            fail_msg("%s", error.text);
    }
    assert_null(text);
    kvc_tokenizer_close(none);
    kvc_tokenizer_close(broken);
    kvc_tokenizer_close(dated);
    const char *name, *summary;
    size_t count = 0;
    while (kvc_chat_template(count, &name, &summary)) {
        assert_true(*name && *summary);
        const struct kvc_chat_options options = {.template_name = name, .answer = true};
        assert_int_equal(chat_text(NULL, &options, talk + 1, 1, &text, &error), KVC_OK);
        free(text);
        count++;
    }
    assert_int_equal(count, 15);
}

/* What a caller specifies besides the messages, as a template sees it. */
static void test_options(void **state) {
    (void)state;
    struct kvc_tokenizer *tokenizer = make_tokenizer(
        "{{ messages|length }}{{ messages[0].tool_calls[0].function.arguments.city }} {{ tools|map(attribute='name')|"
        "join(',') }} {{ documents[0].text }} {{ enable_thinking }} {{ bos_token }} {{ strftime_now('%d %b %Y') }}",
        "<s>", "");
    const struct kvc_chat_options options = {
        .earlier = "[{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"arguments\":{\"city\":\"Bern\"}}}]}]",
        .tools = "[{\"name\":\"a\"},{\"name\":\"b\"}]",
        .documents = "[{\"text\":\"T\"}]",
        .variables = "{\"enable_thinking\":false}",
        .date = "2024-02-29"};
    struct kvc_error error;
    char *text = NULL;
    assert_int_equal(chat_text(tokenizer, &options, talk, 1, &text, &error), KVC_OK);
    assert_string_equal(text, "2Bern a,b T False <s> 29 Feb 2024");
    free(text);
    kvc_tokenizer_close(tokenizer);
}

/* A token that ends a turn: named in the files, or else written by the template after an answer. */
static void test_turn_end(void **state) {
    (void)state;
    static const char plain[] = "{% for m in messages %}{{ m.role ~ ':' ~ m.content ~ ' <|end|>\\n' }}{% endfor %}";
    static const struct {
        const char *jinja;
        bool named, ends;
    } all[] = {{plain, false, true},
               {plain, true, false}, /* another token is named as the end */
               {"{{ '<|stop|>' }}{% for m in messages %}{{ m.content ~ '<|end|>' }}{% endfor %}", false, false},
               {"{% for m in messages %}{{ m.content ~ 'x<|end|>' }}{% endfor %}", false, false},
               {"{{ nothing.at.all }}", false, false},
               {NULL, false, false}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct kvc_tokenizer *tokenizer = make_tokenizer(all[i].jinja, "<|end|>", "<|stop|>");
        const struct kvc_added end = {.id = 0, .special = true};
        struct kvc_error error = {0};
        tokenizer->bos = -1;
        tokenizer->pieces[1].ends_turn = true;
        assert_int_equal(kvc_added_insert(tokenizer, &end, "<|end|>", 7, &error), KVC_OK);
        assert_int_equal(kvc_added_sort(tokenizer, &error), KVC_OK);
        if (all[i].named) { /* as the files would name them; here one token is both */
            tokenizer->pieces[0].ends_turn = true;
            tokenizer->pieces[1].ends_turn = true;
        }
        assert_int_equal(kvc_chat_find_turn_end(tokenizer, &error), KVC_OK);
        assert_int_equal(kvc_tokenizer_ends_turn(tokenizer, 0), all[i].ends || all[i].named);
        assert_true(kvc_tokenizer_ends_turn(tokenizer, 1));
        kvc_tokenizer_close(tokenizer);
    }
}

/* Bytes that end a character must not be mistaken for spaces (U+0085, U+00A0), nor may invalid bytes. */
static void test_trimming(void **state) {
    (void)state;
    const struct kvc_message messages[] = {{"user", "\xe3\x80\x80 \xe4\xb8\xa0\xc2\x85\x1f"},
                                           {"assistant", "\xa0 x \x85"}};
    assert_true(renders(NULL, "llama2", messages, 2, false, "<s>[INST] \xe4\xb8\xa0 [/INST] \xa0 x \x85 </s>"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_jinja), cmocka_unit_test(test_published_forms), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_options),       cmocka_unit_test(test_turn_end),        cmocka_unit_test(test_trimming),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
