/* test_tokenizer.c - tokenizers against what the tokenizers library and llama.cpp's lists say, and hostile ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>
#include <unistd.h>

#include "models/tokenizer.h"
#include "models/tokenizer_json.h"
#include "tests/text_data.h"

static struct kvc_tokenizer *open_folder(const char *name) {
    char path[1000], part[200];
    struct kvc_error error = {0};
    struct kvc_tokenizer *tokenizer;
    snprintf(part, sizeof part, "tokenizers/%s", name);
    data_path(path, sizeof path, part);
    if (kvc_tokenizer_from_folder(path, UINT64_MAX, &tokenizer, &error) != KVC_OK)
        fail_msg("%s", error.text);
    return tokenizer;
}

static struct kvc_tokenizer *open_gguf(const char *path, struct kvc_gguf **file) {
    struct kvc_error error = {0};
    struct kvc_tokenizer *tokenizer;
    if (kvc_gguf_open(path, file, &error) != KVC_OK ||
        kvc_tokenizer_from_gguf(*file, path, UINT64_MAX, &tokenizer, &error) != KVC_OK)
        fail_msg("%s", error.text);
    return tokenizer;
}

static void show(const char *what, const int32_t *ids, size_t count) {
    fprintf(stderr, "  %s:", what);
    for (size_t i = 0; i < count && i < 60; i++)
        fprintf(stderr, " %d", (int)ids[i]);
    fprintf(stderr, "\n");
}

/* Compares one text's ids; true where they are equal. */
static bool same_ids(const struct kvc_tokenizer *tokenizer, const char *text, size_t bytes, const int32_t *wanted,
                     size_t wanted_count, unsigned flags) {
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
                      const char *wanted, size_t wanted_bytes) {
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

static size_t take_ids(const json_t *list, int32_t *ids, size_t room) {
    size_t count = json_array_size(list);
    assert_true(count <= room);
    for (size_t i = 0; i < count; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return count;
}

/* `decode`: texts too, which a GGUF file's tokenizer may rightly write in another way. */
static void compare_expected(const struct kvc_tokenizer *tokenizer, const char *name, bool decode) {
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
        bool same =
            same_ids(tokenizer, json_string_value(text), json_string_length(text), ids, count, KVC_TOKENIZE_SPECIAL);
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

static void test_against_tokenizers(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2",
                                        "starcoder",
                                        "llama3",
                                        "qwen2",
                                        "gpt4o",
                                        "tekken",
                                        "words",
                                        "sentencepiece",
                                        "metaspace-first",
                                        "metaspace-always",
                                        "odd-splits",
                                        "words-punctuation"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct kvc_tokenizer *tokenizer = open_folder(names[i]);
        compare_expected(tokenizer, names[i], true);
        kvc_tokenizer_close(tokenizer);
    }
}

/* The same vocabularies written as GGUF give the same ids. */
static void test_gguf_equals_json(void **state) {
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
static void test_shared_vocabularies(void **state) {
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

static uint64_t random_next(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* Byte-level and byte-fallback vocabularies give every string of bytes back, whole or token by token. */
static void test_bytes_round_trip(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2", "starcoder", "llama3", "gpt4o", "tekken", "sentencepiece"};
    static const char *const texts[] = {"\xff",
                                        "\x80\x80",
                                        "a\xc3",
                                        "\xc3(",
                                        "\xe2\x82",
                                        "\xf0\x9f\x99",
                                        "\xed\xa0\x80",
                                        "\xf4\x90\x80\x80",
                                        "\xc0\x80",
                                        "ok \xff\xfe\xfd ok",
                                        "\xf8\x88\x80\x80\x80",
                                        "x\xe2\x82\xac\xe2\x82",
                                        "  \xff  \n\xff"};
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
                    text[k] =
                        (char)(random_next(&seed) % 3 ? 0x80 + random_next(&seed) % 0x80 : random_next(&seed) % 256);
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
static void test_composing(void **state) {
    (void)state;
    struct kvc_tokenizer *tokenizer = open_folder("qwen2");
    int32_t *ids;
    size_t count;
    assert_int_equal(kvc_tokenizer_encode(tokenizer,
                                          "\xff"
                                          "e\xcc\x81\xff",
                                          5, 0, &ids, &count, NULL),
                     KVC_OK);
    assert_true(same_text(tokenizer, ids, count, false, "\xff\xc3\xa9\xff", 4));
    free(ids);
    kvc_tokenizer_close(tokenizer);
}

static void test_special_tokens(void **state) {
    (void)state;
    struct kvc_tokenizer *tokenizer = open_folder("llama3");
    static const char text[] = "hi<|eot_id|>";
    int32_t *ids;
    size_t count;
    assert_int_equal(kvc_tokenizer_encode(tokenizer, text, sizeof text - 1, KVC_TOKENIZE_SPECIAL, &ids, &count, NULL),
                     KVC_OK);
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

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* 100 KB must not take time that grows with their square: text, one letter, spaces, opening brackets. */
static void test_long_texts(void **state) {
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

static void test_bundled_kind(void **state) {
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
    {"{\"added_tokens\":[{\"id\":0,\"content\":\"b\"}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
     "another"},
    {"{\"added_tokens\":[{\"id\":-5,\"content\":\"b\"}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}"
     "}",
     "id"},
    {"{\"added_tokens\":[{\"id\":5}],\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}", "content"},
    {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":\"Isolated\"},\"model\":{"
     "\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
     "compile"},
    {"{\"pre_tokenizer\":{\"type\":\"Nonsense\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
     "Nonsense"},
    {"{\"normalizer\":{\"type\":\"Precompiled\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
     "Precompiled"},
    {"{\"decoder\":{\"type\":\"CTC\"},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}", "CTC"},
    {"{\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"x\"}}],\"special_"
     "tokens\":{\"x\":{\"ids\":[7000]}}},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
     "outside"},
};

static void test_hostile_json(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        struct kvc_tokenizer *tokenizer;
        struct kvc_error error = {0};
        enum kvc_status status =
            kvc_tokenizer_from_bytes(hostile[i].json, strlen(hostile[i].json), "file", 1000, &tokenizer, &error);
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
static void test_hostile_patterns(void **state) {
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
        snprintf(json, sizeof json,
                 "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Isolated\"},"
                 "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
                 cases[i].pattern);
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

/* ---- hostile GGUF files, written here ---- */

struct image {
    unsigned char bytes[4000];
    size_t count;
    uint64_t keys;
};

static void add(struct image *image, const void *data, size_t bytes) {
    assert_true(bytes <= sizeof image->bytes - image->count);
    memcpy(image->bytes + image->count, data, bytes);
    image->count += bytes;
}

static void add_number(struct image *image, uint64_t value, size_t bytes) {
    for (size_t i = 0; i < bytes; i++, value >>= 8)
        add(image, &(unsigned char){(unsigned char)value}, 1);
}

static void add_text(struct image *image, const char *text) {
    add_number(image, strlen(text), 8);
    add(image, text, strlen(text));
}

static void add_key(struct image *image, const char *key, uint32_t type) {
    char name[100];
    snprintf(name, sizeof name, "tokenizer.ggml.%s", key);
    add_text(image, name);
    add_number(image, type, 4);
    image->keys++;
}

/* A list of words separated by spaces. */
static void add_texts(struct image *image, const char *key, const char *words) {
    char copy[1000];
    uint64_t count = 0;
    add_key(image, key, KVC_GGUF_ARRAY);
    add_number(image, KVC_GGUF_STRING, 4);
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        count++;
    add_number(image, count, 8);
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
        for (char *c = word; *c; c++)
            if (*c == '~') /* stands for a space */
                *c = ' ';
        add_text(image, word);
    }
}

static void add_list(struct image *image, const char *key, enum kvc_gguf_type type, const uint32_t *values,
                     size_t count) {
    add_key(image, key, KVC_GGUF_ARRAY);
    add_number(image, type, 4);
    add_number(image, count, 8);
    for (size_t i = 0; i < count; i++)
        add_number(image, values[i], 4);
}

static enum kvc_status open_image(const struct image *image, uint64_t vocab, struct kvc_tokenizer **tokenizer,
                                  struct kvc_error *error) {
    struct image whole = {.count = 0};
    struct kvc_gguf *file;
    char path[] = "/tmp/kvcull-tokenizer-XXXXXX";
    int handle = mkstemp(path);
    assert_true(handle >= 0);
    FILE *out = fdopen(handle, "wb");
    assert_non_null(out);
    add(&whole, "GGUF", 4);
    add_number(&whole, 3, 4);
    add_number(&whole, 0, 8);
    add_number(&whole, image->keys, 8);
    add(&whole, image->bytes, image->count);
    assert_int_equal(fwrite(whole.bytes, 1, whole.count, out), whole.count);
    assert_int_equal(fclose(out), 0);
    enum kvc_status status = kvc_gguf_open(path, &file, error);
    remove(path);
    if (status != KVC_OK)
        fail_msg("%s", error->text);
    status = kvc_tokenizer_from_gguf(file, "file", vocab, tokenizer, error);
    kvc_gguf_close(file);
    return status;
}

enum { NORMAL = 1, CONTROL = 3, BYTE = 6 };
#define ONE 0x3f800000u /* 1.0f */

static void test_hostile_gguf(void **state) {
    (void)state;
    static const struct {
        const char *model, *pre, *tokens, *merges;
        uint32_t types[6], scores[6];
        size_t type_count, score_count;
        uint64_t eos, vocab;
        const char *says; /* NULL: it loads */
    } cases[] = {
        {"llama", "default", "a b ab", NULL, {1, 1, 1}, {ONE, ONE, ONE}, 3, 3, 0, 3, NULL},
        {"llama", "default", "a b a", NULL, {1, 1, 1}, {ONE, ONE, ONE}, 3, 3, 0, 30, NULL},
        {"llama", "default", "a <0x-1>", NULL, {1, 6}, {ONE, ONE}, 2, 2, 0, 2, "<0x-1>"},
        {"llama", "default", "a <0xZZ>", NULL, {1, 6}, {ONE, ONE}, 2, 2, 0, 2, "<0xZZ>"},
        {"llama", "default", "a <0x100>", NULL, {1, 6}, {ONE, ONE}, 2, 2, 0, 2, "<0x100>"},
        {"llama", "default", "a <0xZZ>", NULL, {1, 1}, {ONE, ONE}, 2, 2, 0, 2, NULL},
        {"llama", "default", "a b", NULL, {1, 1}, {ONE}, 2, 1, 0, 2, "scores"},
        {"llama", "default", "a b", NULL, {1}, {ONE, ONE}, 1, 2, 0, 2, "types"},
        {"llama", "default", "a b", NULL, {1, 7}, {ONE, ONE}, 2, 2, 0, 2, "type"},
        {"llama", "default", "a b", NULL, {1, 0xffffffffu}, {ONE, ONE}, 2, 2, 0, 2, "type"},
        {"llama", "default", "a b", NULL, {1, 1}, {ONE, 0x7fc00000u}, 2, 2, 0, 2, "score"},
        {"llama", "default", "a b", NULL, {1, 1}, {ONE, ONE}, 2, 2, 2, 2, "eos_token_id"},
        {"llama", "default", "a b", NULL, {1, 1}, {ONE, ONE}, 2, 2, 0, 1, "2 tokens"},
        {"llama", "default", "a b", NULL, {1, 1}, {0}, 2, 0, 0, 2, "scores"},
        {"gpt2", "gpt-2", "a b ab", "a~b", {1, 1, 1}, {0}, 3, 0, 0, 3, NULL},
        {"gpt2", "gpt-2", "a b ab", "a~c", {1, 1, 1}, {0}, 3, 0, 0, 3, "merge 0"},
        {"gpt2", "gpt-2", "a b ab", "b~a", {1, 1, 1}, {0}, 3, 0, 0, 3, "merge 0"},
        {"gpt2", "gpt-2", "a b ab", "a~b ab", {1, 1, 1}, {0}, 3, 0, 0, 3, "merge 1"},
        {"gpt2", "gpt-2", "a b ab", NULL, {1, 1, 1}, {0}, 3, 0, 0, 3, "merges"},
        {"gpt2", "unheard-of", "a b ab", "a~b", {1, 1, 1}, {0}, 3, 0, 0, 3, "unheard-of"},
        {"bert", "default", "a b", NULL, {1, 1}, {0}, 2, 0, 0, 2, "bert"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct image image = {.count = 0};
        struct kvc_tokenizer *tokenizer;
        struct kvc_error error = {0};
        add_key(&image, "model", KVC_GGUF_STRING);
        add_text(&image, cases[i].model);
        add_key(&image, "pre", KVC_GGUF_STRING);
        add_text(&image, cases[i].pre);
        add_texts(&image, "tokens", cases[i].tokens);
        if (cases[i].merges)
            add_texts(&image, "merges", cases[i].merges);
        add_list(&image, "token_type", KVC_GGUF_I32, cases[i].types, cases[i].type_count);
        if (cases[i].score_count)
            add_list(&image, "scores", KVC_GGUF_F32, cases[i].scores, cases[i].score_count);
        add_key(&image, "eos_token_id", KVC_GGUF_U32);
        add_number(&image, cases[i].eos, 4);
        enum kvc_status status = open_image(&image, cases[i].vocab, &tokenizer, &error);
        if (cases[i].says ? status != KVC_INPUT || !strstr(error.text, cases[i].says) || strchr(error.text, '\n')
                          : status != KVC_OK)
            fail_msg("case %zu: status %d, \"%s\", wanted \"%s\"", i, (int)status, error.text,
                     cases[i].says ? cases[i].says : "success");
        kvc_tokenizer_close(tokenizer);
    }
}

/* Pieces are joined by score, then from the left; control tokens are never made of plain text. */
static void test_scores(void **state) {
    (void)state;
    struct image image = {.count = 0};
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    static const uint32_t types[] = {CONTROL, NORMAL, NORMAL, NORMAL, NORMAL, NORMAL, NORMAL, BYTE};
    static const uint32_t scores[] = {0x41200000u /* 10 */, 0, 0, 0, ONE, 0x40000000u /* 2 */, ONE, 0};
    add_key(&image, "model", KVC_GGUF_STRING);
    add_text(&image, "llama");
    add_texts(&image, "tokens", "abc a b c ab bc aa <0x64>");
    add_list(&image, "token_type", KVC_GGUF_I32, types, 8);
    add_list(&image, "scores", KVC_GGUF_F32, scores, 8);
    add_key(&image, "add_space_prefix", KVC_GGUF_BOOL);
    add_number(&image, 0, 1);
    if (open_image(&image, 8, &tokenizer, &error) != KVC_OK)
        fail_msg("%s", error.text);
    assert_true(same_ids(tokenizer, "abc", 3, (const int32_t[]){1, 5}, 2, 0));
    assert_true(same_ids(tokenizer, "abc", 3, (const int32_t[]){0}, 1, KVC_TOKENIZE_SPECIAL));
    assert_true(same_ids(tokenizer, "ab", 2, (const int32_t[]){4}, 1, 0));
    assert_true(same_ids(tokenizer, "aaa", 3, (const int32_t[]){6, 1}, 2, 0));
    assert_true(same_ids(tokenizer, "ad", 2, (const int32_t[]){1, 7}, 2, 0));
    int32_t *ids;
    size_t count;
    assert_int_equal(kvc_tokenizer_encode(tokenizer, "az", 2, 0, &ids, &count, &error), KVC_INPUT);
    assert_non_null(strstr(error.text, "7a"));
    kvc_tokenizer_close(tokenizer);
}

/* "the--end" cut at '-' in each of the five ways; inverted, the letters are what is cut at. */
static void test_behaviors(void **state) {
    (void)state;
    static const struct {
        enum kvc_behavior behavior;
        bool invert;
        const char *words; /* with a space between */
    } cases[] = {
        {KVC_SPLIT_REMOVED, false, "the end"},
        {KVC_SPLIT_ISOLATED, false, "the - - end"},
        {KVC_SPLIT_MERGED_PREVIOUS, false, "the- - end"},
        {KVC_SPLIT_MERGED_NEXT, false, "the - -end"},
        {KVC_SPLIT_CONTIGUOUS, false, "the -- end"},
        {KVC_SPLIT_REMOVED, true, "- -"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct kvc_split_step step = {.kind = KVC_STEP_SPLIT, .behavior = cases[i].behavior, .invert = cases[i].invert};
        struct kvc_words words = {0};
        char joined[100] = "";
        assert_int_equal(kvc_pattern_compile("-", 1, "test", &step.pattern, NULL), KVC_OK);
        assert_int_equal(kvc_split(&step, 1, "the--end", 8, true, &words, NULL), KVC_OK);
        for (size_t k = 0; k < words.count; k++) {
            strcat(joined, k ? " " : "");
            strncat(joined, words.text.data + words.spans[k].at, words.spans[k].bytes);
        }
        assert_string_equal(joined, cases[i].words);
        kvc_words_free(&words);
        kvc_pattern_free(&step.pattern);
    }
}

/* Forty replacements that each double the text end in an error, not in 2^40 bytes. */
static void test_growing_normalizer(void **state) {
    (void)state;
    static const char step[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aa\"}";
    char json[4000] = "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[";
    for (int i = 0; i < 40; i++) {
        strcat(json, i ? "," : "");
        strcat(json, step);
    }
    strcat(json, "]},\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}");
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    int32_t *ids;
    size_t count;
    if (kvc_tokenizer_from_bytes(json, strlen(json), "file", 10, &tokenizer, &error) != KVC_OK)
        fail_msg("%s", error.text);
    assert_int_equal(kvc_tokenizer_encode(tokenizer, "a", 1, 0, &ids, &count, &error), KVC_INPUT);
    assert_non_null(strstr(error.text, "normalizer"));
    kvc_tokenizer_close(tokenizer);
}

static void test_missing_folder(void **state) {
    (void)state;
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    assert_int_equal(kvc_tokenizer_from_folder("/nonexistent", 10, &tokenizer, &error), KVC_INPUT);
    assert_non_null(strstr(error.text, "/nonexistent/tokenizer.json"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_tokenizers),  cmocka_unit_test(test_gguf_equals_json),
        cmocka_unit_test(test_shared_vocabularies), cmocka_unit_test(test_bytes_round_trip),
        cmocka_unit_test(test_composing),           cmocka_unit_test(test_special_tokens),
        cmocka_unit_test(test_long_texts),          cmocka_unit_test(test_bundled_kind),
        cmocka_unit_test(test_hostile_json),        cmocka_unit_test(test_hostile_patterns),
        cmocka_unit_test(test_hostile_gguf),        cmocka_unit_test(test_scores),
        cmocka_unit_test(test_behaviors),           cmocka_unit_test(test_growing_normalizer),
        cmocka_unit_test(test_missing_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
