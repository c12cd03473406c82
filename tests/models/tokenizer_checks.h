/* tokenizer_checks.h - opens tokenizers and compares ids and texts, for tests of tokenizers. */
#ifndef KVC_TESTS_MODELS_TOKENIZER_CHECKS_H
#define KVC_TESTS_MODELS_TOKENIZER_CHECKS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "models/tokenizer/tokenizer.h"
#include "models/tokenizer/json.h"
#include "tests/models/text_data.h"

static inline struct kvc_tokenizer *open_folder(const char *name) {
    char path[1000], part[200];
    struct kvc_error error = {0};
    struct kvc_tokenizer *tokenizer;
    snprintf(part, sizeof part, "tokenizers/%s", name);
    data_path(path, sizeof path, part);
    if (kvc_tokenizer_from_folder(path, UINT64_MAX, &tokenizer, &error) != KVC_OK)
        fail_msg("%s", error.text);
    return tokenizer;
}

static inline struct kvc_tokenizer *open_gguf(const char *path, struct kvc_gguf **file) {
    struct kvc_error error = {0};
    struct kvc_tokenizer *tokenizer = NULL;
    if (kvc_gguf_open(path, file, &error) != KVC_OK ||
        kvc_tokenizer_from_gguf(*file, path, UINT64_MAX, &tokenizer, &error) != KVC_OK)
        fail_msg("%s", error.text);
    return tokenizer;
}

static inline void show(const char *what, const int32_t *ids, size_t count) {
    fprintf(stderr, "  %s:", what);
    for (size_t i = 0; i < count && i < 60; i++)
        fprintf(stderr, " %d", (int)ids[i]);
    fprintf(stderr, "\n");
}

/* Encodes one text. Returns true if its ids are equal to `wanted`. */
static inline bool same_ids(const struct kvc_tokenizer *tokenizer, const char *text, size_t bytes,
                            const int32_t *wanted, size_t wanted_count, unsigned flags) {
    int32_t *ids;
    size_t count;
    struct kvc_error error = {0};
    if (kvc_tokenizer_encode(tokenizer, text, NULL, bytes, flags, &ids, &count, &error) != KVC_OK) {
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

static inline bool same_text(const struct kvc_tokenizer *tokenizer, const int32_t *ids, size_t count, bool special,
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

static inline size_t take_ids(const json_t *list, int32_t *ids, size_t capacity) {
    size_t count = json_array_size(list);
    assert_true(count <= capacity);
    for (size_t i = 0; i < count; i++)
        ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return count;
}

/* Compares the ids of all test texts with the stored ids. If `decode` is true, also compares decoded texts, which may
 * legitimately differ for the tokenizer of a GGUF file. */
static inline void compare_expected(const struct kvc_tokenizer *tokenizer, const char *name, bool decode) {
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

#endif
