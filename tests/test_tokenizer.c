/* test_tokenizer.c - tokenizers against what the tokenizers library and llama.cpp's lists say, and hostile ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>

#include "models/tokenizer.h"
#include "models/tokenizer_json.h"
#include "tests/text_data.h"

static struct kvc_tokenizer *open_folder(const char *name)
{
    char path[1000], part[200];
    struct kvc_error error = {0};
    struct kvc_tokenizer *tokenizer;
    snprintf(part, sizeof part, "tokenizers/%s", name);
    data_path(path, sizeof path, part);
    if (kvc_tokenizer_from_folder(path, UINT64_MAX, &tokenizer, &error) != KVC_OK)
        fail_msg("%s", error.text);
    return tokenizer;
}

static struct kvc_tokenizer *open_gguf(const char *path, struct kvc_gguf **file)
{
    struct kvc_error error = {0};
    struct kvc_tokenizer *tokenizer;
    if (kvc_gguf_open(path, file, &error) != KVC_OK ||
        kvc_tokenizer_from_gguf(*file, path, UINT64_MAX, &tokenizer, &error) != KVC_OK)
        fail_msg("%s", error.text);
    return tokenizer;
}

static void show(const char *what, const int32_t *ids, size_t count)
{
    fprintf(stderr, "  %s:", what);
    for (size_t i = 0; i < count && i < 60; i++)
        fprintf(stderr, " %d", (int)ids[i]);
    fprintf(stderr, "\n");
}

/* Compares one text's ids; true where they are equal. */
static bool same_ids(const struct kvc_tokenizer *tokenizer, const char *text, size_t bytes, const int32_t *wanted,
                     size_t wanted_count, unsigned flags)
{
    int32_t *ids;
    size_t count;
    struct kvc_error error = {0};
    if (kvc_tokenizer_encode(tokenizer, text, bytes, flags, &ids, &count, &error) != KVC_OK) {
        fprintf(stderr, "  %s\n", error.text);
        return false;
    }
    bool same = count == wanted_count && (!count || !memcmp(ids, wanted, count * sizeof *ids));
    if (!same) {
        fprintf(stderr, "differs on \"%.100s\"\n", text);
        show("wanted", wanted, wanted_count);
        show("got", ids, count);
    }
    free(ids);
    return same;
}

static bool same_text(const struct kvc_tokenizer *tokenizer, const int32_t *ids, size_t count, bool special,
                      const char *wanted, size_t wanted_bytes)
{
    char *text;
    size_t bytes;
    struct kvc_error error = {0};
    if (kvc_tokenizer_decode(tokenizer, ids, count, special, &text, &bytes, &error) != KVC_OK) {
        fprintf(stderr, "  %s\n", error.text);
        return false;
    }
    bool same = bytes == wanted_bytes && !memcmp(text, wanted, bytes) && !text[bytes];
    if (!same)
        fprintf(stderr, "decodes to\n  \"%.100s\", wanted\n  \"%.100s\"\n", text, wanted);
    free(text);
    return same;
}

static size_t take_ids(const json_t *list, int32_t *ids, size_t room)
{
    size_t count = json_array_size(list);
    assert_true(count <= room);
    for (size_t i = 0; i < count; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return count;
}

/* `decode`: texts too, which a GGUF file's tokenizer may rightly write in another way. */
static void compare_expected(const struct kvc_tokenizer *tokenizer, const char *name, bool decode)
{
    char path[200];
    static int32_t ids[20000];
    size_t failures = 0;
    json_t *texts = data_json("tokenizers/texts.json");
    snprintf(path, sizeof path, "tokenizers/%s/expected.json", name);
    json_t *expected = data_json(path), *rows = json_object_get(expected, "texts");
    assert_true(texts && expected && json_array_size(texts) > 100 && json_array_size(rows) == json_array_size(texts));
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const json_t *text = json_array_get(texts, i), *row = json_array_get(rows, i);
        size_t count = take_ids(json_object_get(row, "ids"), ids, 20000);
        const json_t *decoded = json_object_get(row, "decoded");
        decoded = decoded ? decoded : text;
        bool same = same_ids(tokenizer, json_string_value(text), json_string_length(text), ids, count,
                             KVC_TOKENIZE_SPECIAL);
        if (decode)
            same &= same_text(tokenizer, ids, count, true, json_string_value(decoded), json_string_length(decoded));
        if (!same)
            fprintf(stderr, "%s: text %zu\n", name, i);
        failures += !same;
    }
    size_t count = take_ids(json_object_get(expected, "with_bos"), ids, 20000);
    failures += !same_ids(tokenizer, "Hello world", 11, ids, count, KVC_TOKENIZE_BOS | KVC_TOKENIZE_SPECIAL);
    json_decref(texts);
    json_decref(expected);
    assert_int_equal(failures, 0);
}

static void test_against_tokenizers(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2",  "starcoder",     "llama3",          "qwen2",            "gpt4o", "tekken",
                                        "words", "sentencepiece", "metaspace-first", "metaspace-always", "odd-splits"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct kvc_tokenizer *tokenizer = open_folder(names[i]);
        compare_expected(tokenizer, names[i], true);
        kvc_tokenizer_close(tokenizer);
    }
}

/* The same vocabularies written as GGUF give the same ids. */
static void test_gguf_equals_json(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2", "starcoder", "llama3", "qwen2", "tekken", "sentencepiece"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[1000], part[200];
        struct kvc_gguf *file;
        snprintf(part, sizeof part, "tokenizers/%s/vocab.gguf", names[i]);
        data_path(path, sizeof path, part);
        struct kvc_tokenizer *tokenizer = open_gguf(path, &file);
        compare_expected(tokenizer, names[i], true);
        kvc_tokenizer_close(tokenizer);
        kvc_gguf_close(file);
    }
}

/* Real vocabularies, where the shared files are there. */
static void test_shared_vocabularies(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt-2", "starcoder", "llama-spm", "phi-3"};
    const char *shared = getenv("KVCULL_SHARED");
    char path[1000];
    snprintf(path, sizeof path, "%s/vocab", shared ? shared : "../shared");
    FILE *there = fopen(path, "r");
    if (!there) {
        print_message("%s is not there: real vocabularies are not compared\n", path);
        skip();
    }
    fclose(there);
    size_t compared = 0, failures = 0;
    for (size_t i = 0; i < 4; i++) {
        struct kvc_gguf *file;
        size_t bytes;
        snprintf(path, sizeof path, "%s/vocab/ggml-vocab-%s.gguf", shared ? shared : "../shared", names[i]);
        struct kvc_tokenizer *tokenizer = open_gguf(path, &file);
        strcat(path, ".inp");
        char *texts = read_whole(path, &bytes);
        strcpy(strrchr(path, '.'), ".out");
        char *lists = read_whole(path, &bytes);
        assert_true(texts && lists);
        static const char divider[] = "\n__ggml_vocab_test__\n";
        char *line = lists;
        for (char *text = texts; text && *line;) {
            char *end = strstr(text, divider), *line_end = strchr(line, '\n');
            static int32_t ids[2000];
            size_t count = 0;
            if (end)
                *end = 0;
            if (line_end)
                *line_end = 0;
            for (char *at = strtok(line, " "); at; at = strtok(NULL, " "))
                ids[count++] = (int32_t)strtol(at, NULL, 10);
            size_t text_bytes = strlen(text);
            bool same = same_ids(tokenizer, text, text_bytes, ids, count, 0);
            same = same && same_text(tokenizer, ids, count, false, text, text_bytes);
            if (!same)
                fprintf(stderr, "%s: text %zu\n", names[i], compared);
            failures += !same;
            compared++;
            text = end ? end + sizeof divider - 1 : NULL;
            line = line_end ? line_end + 1 : line + strlen(line);
        }
        free(texts);
        free(lists);
        kvc_tokenizer_close(tokenizer);
        kvc_gguf_close(file);
    }
    assert_int_equal(failures, 0);
    assert_true(compared >= 4 * 40);
}

static uint64_t random_next(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* Byte-level and byte-fallback vocabularies give every string of bytes back, whole or token by token. */
static void test_bytes_round_trip(void **state)
{
    (void)state;
    static const char *const names[] = {"gpt2", "starcoder", "llama3", "gpt4o", "tekken", "sentencepiece"};
    static const char *const texts[] = {"\xff", "\x80\x80", "a\xc3", "\xc3(", "\xe2\x82", "\xf0\x9f\x99", "\xed\xa0\x80",
                                        "\xf4\x90\x80\x80", "\xc0\x80", "ok \xff\xfe\xfd ok", "\xf8\x88\x80\x80\x80",
                                        "x\xe2\x82\xac\xe2\x82", "  \xff  \n\xff"};
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        struct kvc_tokenizer *tokenizer = open_folder(names[n]);
        uint64_t seed = 7 + n;
        for (size_t i = 0; i < 400; i++) {
            char text[200];
            size_t bytes = i < sizeof texts / sizeof *texts ? strlen(texts[i]) : random_next(&seed) % sizeof text;
            if (i < sizeof texts / sizeof *texts)
                memcpy(text, texts[i], bytes);
            else
                for (size_t k = 0; k < bytes; k++) /* mostly bytes that begin or go on with a character */
                    text[k] = (char)(random_next(&seed) % 3 ? 0x80 + random_next(&seed) % 0x80 : random_next(&seed) % 256);
            int32_t *ids;
            size_t count, at = 0;
            struct kvc_error error = {0};
            assert_int_equal(kvc_tokenizer_encode(tokenizer, text, bytes, 0, &ids, &count, &error), KVC_OK);
            assert_true(same_text(tokenizer, ids, count, false, text, bytes));
            for (size_t k = 0; k < count; k++) {
                char part[300];
                size_t length = kvc_tokenizer_token_bytes(tokenizer, ids[k], k == 0, part, sizeof part);
                assert_true(length <= bytes - at && !memcmp(part, text + at, length));
                at += length;
            }
            assert_int_equal(at, bytes);
            free(ids);
        }
        kvc_tokenizer_close(tokenizer);
    }
}

/* Qwen2 composes first, also between bytes that are not UTF-8. */
static void test_composing(void **state)
{
    (void)state;
    struct kvc_tokenizer *tokenizer = open_folder("qwen2");
    int32_t *ids;
    size_t count;
    assert_int_equal(kvc_tokenizer_encode(tokenizer, "\xff" "e\xcc\x81\xff", 5, 0, &ids, &count, NULL), KVC_OK);
    assert_true(same_text(tokenizer, ids, count, false, "\xff\xc3\xa9\xff", 4));
    free(ids);
    kvc_tokenizer_close(tokenizer);
}

static void test_special_tokens(void **state)
{
    (void)state;
    struct kvc_tokenizer *tokenizer = open_folder("llama3");
    static const char text[] = "hi<|eot_id|>";
    int32_t *ids;
    size_t count;
    assert_int_equal(kvc_tokenizer_encode(tokenizer, text, sizeof text - 1, KVC_TOKENIZE_SPECIAL, &ids, &count, NULL), KVC_OK);
    int32_t eot = ids[count - 1];
    assert_true(kvc_tokenizer_ends_turn(tokenizer, eot));
    assert_false(kvc_tokenizer_ends_turn(tokenizer, ids[0]));
    assert_false(kvc_tokenizer_ends_turn(tokenizer, -1));
    assert_false(kvc_tokenizer_ends_turn(tokenizer, INT32_MAX));
    assert_true(same_text(tokenizer, ids, count, true, text, sizeof text - 1));
    assert_true(same_text(tokenizer, ids, count, false, "hi", 2));
    assert_int_equal(kvc_tokenizer_token_bytes(tokenizer, eot, false, NULL, 0), 0);
    free(ids);
    /* Without the flag it is plain text. */
    assert_int_equal(kvc_tokenizer_encode(tokenizer, text, sizeof text - 1, 0, &ids, &count, NULL), KVC_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_not_equal(ids[i], eot);
    assert_true(same_text(tokenizer, ids, count, false, text, sizeof text - 1));
    free(ids);
    struct kvc_error error = {0};
    char *out;
    size_t bytes;
    assert_int_equal(kvc_tokenizer_decode(tokenizer, &(int32_t){5000000}, 1, true, &out, &bytes, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "5000000"));
    assert_int_equal(kvc_tokenizer_decode(tokenizer, &(int32_t){-1}, 1, true, &out, &bytes, &error), KVC_USAGE);
    kvc_tokenizer_close(tokenizer);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* 100 KB must not take time that grows with their square: text, one letter, spaces, opening brackets. */
static void test_long_texts(void **state)
{
    (void)state;
    static const char *const names[] = {"llama3", "qwen2", "gpt4o", "sentencepiece", "metaspace-first"};
    enum { BYTES = 100000 };
    char *text = malloc(BYTES);
    assert_non_null(text);
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        struct kvc_tokenizer *tokenizer = open_folder(names[n]);
        for (int kind = 0; kind < 5; kind++) {
            static const char *const units[] = {"The quick brown fox said 123. ", "a", " ", "<|", "\xff"};
            size_t unit = strlen(units[kind]);
            for (size_t i = 0; i < BYTES; i++)
                text[i] = units[kind][i % unit];
            int32_t *ids;
            size_t count;
            double start = seconds();
            assert_int_equal(kvc_tokenizer_encode(tokenizer, text, BYTES, 0, &ids, &count, NULL), KVC_OK);
            double took = seconds() - start;
            if (getenv("KVCULL_TEST_TIMES"))
                print_message("%s, \"%s\": %zu tokens, %.3f s\n", names[n], units[kind], count, took);
            assert_true(took < 20); /* squares would take minutes; slow machines and valgrind must pass */
            if (strcmp(names[n], "metaspace-first") != 0)
                assert_true(same_text(tokenizer, ids, count, true, text, BYTES));
            free(ids);
        }
        kvc_tokenizer_close(tokenizer);
    }
    free(text);
}

static void test_bundled_kind(void **state)
{
    (void)state;
    struct kvc_tokenizer *tokenizer = open_folder("words");
    int32_t *ids;
    size_t count;
    char part[32];
    assert_int_equal(kvc_tokenizer_encode(tokenizer, " The\n QUICK fox ", 16, 0, &ids, &count, NULL), KVC_OK);
    assert_int_equal(count, 3);
    assert_true(same_text(tokenizer, ids, count, false, "the quick fox", 13));
    assert_int_equal(kvc_tokenizer_token_bytes(tokenizer, ids[1], false, part, sizeof part), 6);
    assert_memory_equal(part, " quick", 6);
    assert_int_equal(kvc_tokenizer_token_bytes(tokenizer, ids[1], true, part, 3), 5); /* says what it needs */
    assert_memory_equal(part, "qui", 3);
    free(ids);
    kvc_tokenizer_close(tokenizer);
}

#define BPE(vocab, merges) "{\"model\":{\"type\":\"BPE\",\"vocab\":" vocab ",\"merges\":" merges "}}"
static const struct {
    const char *json, *says;
} hostile[] = {
    {"", "JSON"},
    {"[]", "vocab"},
    {"{\"model\":", "JSON"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]]}}", "BPE"},
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}", "WordPiece"},
    {BPE("{\"a\":-1}", "[]"), "id"},
    {BPE("{\"a\":1e300}", "[]"), "id"},
    {BPE("{\"a\":9223372036854775807}", "[]"), "id"},
    {BPE("{\"a\":4000000000}", "[]"), "id"},
    {BPE("{\"a\":1000}", "[]"), "below 1000"},
    {BPE("{\"a\":\"x\"}", "[]"), "id"},
    {BPE("{\"a\":0,\"b\":0}", "[]"), "two pieces"},
    {BPE("{\"a\":0,\"a\":1}", "[]"), "JSON"},
    {BPE("{\"a\":0,\"b\":1}", "[\"a b\"]"), "merge 0"},
    {BPE("{\"a\":0,\"b\":1}", "[\"a c\"]"), "merge 0"},
    {BPE("{\"a\":0}", "[\"aa\"]"), "merge 0"},
    {BPE("{\"a\":0}", "[[\"a\"]]"), "merge 0"},
    {BPE("{\"a\":0}", "[5]"), "merge 0"},
    {BPE("{\"a\":0}", "{}"), "merges"},
    {BPE("[]", "[]"), "vocab"},
    {"{\"model\":{\"vocab\":{\"a\":0},\"type\":\"BPE\"}}", "merges"},
    {"{\"added_tokens\":[{\"id\":0,\"content\":\"b\"}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}", "another"},
    {"{\"added_tokens\":[{\"id\":-5,\"content\":\"b\"}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}", "id"},
    {"{\"added_tokens\":[{\"id\":5}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}", "content"},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}", "compile"},
    {"{\"pre_tokenizer\":{\"type\":\"Nonsense\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}", "Nonsense"},
    {"{\"normalizer\":{\"type\":\"Precompiled\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}", "Precompiled"},
    {"{\"decoder\":{\"type\":\"CTC\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}", "CTC"},
    {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}],\"special_tokens\":{\"x\":{\"ids\":[7000]}}},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}", "outside"},
};

static void test_hostile_json(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        struct kvc_tokenizer *tokenizer;
        struct kvc_error error = {0};
        enum kvc_status status = kvc_tokenizer_from_bytes(hostile[i].json, strlen(hostile[i].json), "file", 1000, &tokenizer,
                                                          &error);
        if (status != KVC_INPUT || !strstr(error.text, hostile[i].says) || strchr(error.text, '\n'))
            fail_msg("case %zu: status %d, \"%s\", wanted \"%s\"", i, (int)status, error.text, hostile[i].says);
        assert_null(tokenizer);
    }
    enum { DEEP = 10000 };
    char *deep = malloc(2 * DEEP);
    assert_non_null(deep);
    memset(deep, '[', DEEP);
    memset(deep + DEEP, ']', DEEP);
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    assert_int_equal(kvc_tokenizer_from_bytes(deep, 2 * DEEP, "file", 1000, &tokenizer, &error), KVC_INPUT);
    free(deep);
}

/* Patterns that backtrack without end are stopped, ones that match nothing or backwards do no harm. */
static void test_hostile_patterns(void **state)
{
    (void)state;
    static const struct {
        const char *pattern;
        enum kvc_status wanted;
    } cases[] = {{"(a|a)+[^a]", KVC_INPUT}, {"", KVC_OK}, {"x*", KVC_OK}, {"(?=a)", KVC_OK}, {"(?<=a)", KVC_OK}};
    char text[61];
    memset(text, 'a', 60);
    text[60] = 0;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char json[500];
        struct kvc_tokenizer *tokenizer;
        struct kvc_error error = {0};
        snprintf(json, sizeof json, "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Isolated\"},"
                 "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}", cases[i].pattern);
        assert_int_equal(kvc_tokenizer_from_bytes(json, strlen(json), "file", 1000, &tokenizer, &error), KVC_OK);
        int32_t *ids = NULL;
        size_t count;
        enum kvc_status status = kvc_tokenizer_encode(tokenizer, text, 60, 0, &ids, &count, &error);
        assert_int_equal(status, cases[i].wanted);
        if (status == KVC_OK) {
            assert_int_equal(count, 60);
            free(ids);
        }
        kvc_tokenizer_close(tokenizer);
    }
}

static void test_missing_folder(void **state)
{
    (void)state;
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    assert_int_equal(kvc_tokenizer_from_folder("/nonexistent", 10, &tokenizer, &error), KVC_INPUT);
    assert_non_null(strstr(error.text, "/nonexistent/tokenizer.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_tokenizers), cmocka_unit_test(test_gguf_equals_json),
        cmocka_unit_test(test_shared_vocabularies), cmocka_unit_test(test_bytes_round_trip),
        cmocka_unit_test(test_composing),           cmocka_unit_test(test_special_tokens),
        cmocka_unit_test(test_long_texts),          cmocka_unit_test(test_bundled_kind),
        cmocka_unit_test(test_hostile_json),        cmocka_unit_test(test_hostile_patterns),
        cmocka_unit_test(test_missing_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
