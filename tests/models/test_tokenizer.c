/* test_tokenizer.c - tokenizers on bytes, special tokens, long texts and splits. */
#include "tests/check.h"
#include "tests/models/tokenizer_checks.h"

#include <time.h>

static uint64_t random_next(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return *seed >> 33;
}

/* Byte-level and byte-fallback vocabularies reproduce every string of bytes, whole or token by token. */
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
                for (size_t k = 0; k < bytes; k++) /* mostly bytes of multibyte characters */
                    text[k] =
                        (char)(random_next(&seed) % 3 ? 0x80 + random_next(&seed) % 0x80 : random_next(&seed) % 256);
            int32_t *ids;
            size_t count, at = 0;
            struct kvc_error error = {0};
            assert_int_equal(kvc_tokenizer_encode(tokenizer, text, NULL, bytes, 0, &ids, &count, &error), KVC_OK);
            assert_true(same_text(tokenizer, ids, count, false, text, bytes));
            for (size_t k = 0; k < count; k++) {
                char part[300];
                size_t length;
                FINE(kvc_tokenizer_token_bytes(tokenizer, ids[k], k == 0, part, sizeof part, &length, &error));
                assert_true(length <= bytes - at && !memcmp(part, text + at, length));
                at += length;
            }
            assert_int_equal(at, bytes);
            free(ids);
        }
        kvc_tokenizer_close(tokenizer);
    }
}

/* Qwen2 composes characters first, even between bytes that are not UTF-8. */
static void test_composing(void **state) {
    (void)state;
    struct kvc_tokenizer *tokenizer = open_folder("qwen2");
    int32_t *ids;
    size_t count;
    assert_int_equal(kvc_tokenizer_encode(tokenizer,
                                          "\xff"
                                          "e\xcc\x81\xff",
                                          NULL, 5, 0, &ids, &count, NULL),
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
    assert_int_equal(
        kvc_tokenizer_encode(tokenizer, text, NULL, sizeof text - 1, KVC_TOKENIZE_SPECIAL, &ids, &count, NULL), KVC_OK);
    int32_t eot = ids[count - 1];
    assert_false(
        kvc_tokenizer_ends_turn(tokenizer, eot)); /* recognized by its name only; the folder has no other file */
    assert_false(kvc_tokenizer_ends_turn(tokenizer, ids[0]));
    assert_false(kvc_tokenizer_ends_turn(tokenizer, -1));
    assert_false(kvc_tokenizer_ends_turn(tokenizer, INT32_MAX));
    assert_true(same_text(tokenizer, ids, count, true, text, sizeof text - 1));
    assert_true(same_text(tokenizer, ids, count, false, "hi", 2));
    size_t bytes;
    struct kvc_error error = {0};
    FINE(kvc_tokenizer_token_bytes(tokenizer, eot, false, NULL, 0, &bytes, &error));
    assert_int_equal(bytes, 0);
    free(ids);
    /* Without the flag it is plain text. */
    assert_int_equal(kvc_tokenizer_encode(tokenizer, text, NULL, sizeof text - 1, 0, &ids, &count, NULL), KVC_OK);
    for (size_t i = 0; i < count; i++)
        assert_int_not_equal(ids[i], eot);
    assert_true(same_text(tokenizer, ids, count, false, text, sizeof text - 1));
    free(ids);
    char *out;
    assert_int_equal(kvc_tokenizer_decode(tokenizer, &(int32_t){5000000}, 1, true, &out, &bytes, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "5000000"));
    assert_int_equal(kvc_tokenizer_decode(tokenizer, &(int32_t){-1}, 1, true, &out, &bytes, &error), KVC_USAGE);
    assert_int_equal(kvc_tokenizer_token_bytes(tokenizer, 5000000, false, NULL, 0, &bytes, &error), KVC_USAGE);
    assert_non_null(strstr(error.text, "5000000"));
    kvc_tokenizer_close(tokenizer);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The time for 100 KB must not grow with the square of their length: for text, one letter, spaces, opening brackets. */
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
            assert_int_equal(kvc_tokenizer_encode(tokenizer, text, NULL, BYTES, 0, &ids, &count, NULL), KVC_OK);
            double took = seconds() - start;
            if (getenv("KVCULL_TEST_TIMES"))
                print_message("%s, \"%s\": %zu tokens, %.3f s\n", names[n], units[kind], count, took);
            assert_true(took < 20); /* quadratic time would be minutes; slow machines and valgrind must pass */
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
    size_t bytes;
    struct kvc_error error = {0};
    char part[32];
    assert_int_equal(kvc_tokenizer_encode(tokenizer, " The\n QUICK fox ", NULL, 16, 0, &ids, &count, NULL), KVC_OK);
    assert_int_equal(count, 3);
    assert_true(same_text(tokenizer, ids, count, false, "the quick fox", 13));
    FINE(kvc_tokenizer_token_bytes(tokenizer, ids[1], false, part, sizeof part, &bytes, &error));
    assert_int_equal(bytes, 6);
    assert_memory_equal(part, " quick", 6);
    FINE(kvc_tokenizer_token_bytes(tokenizer, ids[1], true, part, 3, &bytes, &error));
    assert_int_equal(bytes, 5); /* reports the size it needs */
    assert_memory_equal(part, "qui", 3);
    free(ids);
    kvc_tokenizer_close(tokenizer);
}

/* "the--end" split at '-' in each of the five ways; inverted, it is split at the letters. */
static void test_behaviors(void **state) {
    (void)state;
    static const struct {
        enum kvc_behavior behavior;
        bool invert;
        const char *words; /* with a space between words */
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

/* A vocabulary without a token for a character and without an unknown token leaves the character out, and its neighbors
 * may merge; the tokenizers library does the same. */
static void test_left_out(void **state) {
    (void)state;
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}";
    static const int32_t both[] = {2}, one[] = {0};
    struct kvc_tokenizer *tokenizer;
    struct kvc_error error = {0};
    assert_int_equal(kvc_tokenizer_from_bytes(json, strlen(json), "file", 10, &tokenizer, &error), KVC_OK);
    assert_true(same_ids(tokenizer, "axb", 3, both, 1, 0));
    assert_true(same_ids(tokenizer, "xa", 2, one, 1, 0));
    assert_true(same_ids(tokenizer, "xx", 2, NULL, 0, 0));
    kvc_tokenizer_close(tokenizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_round_trip), cmocka_unit_test(test_composing),
        cmocka_unit_test(test_special_tokens),   cmocka_unit_test(test_long_texts),
        cmocka_unit_test(test_bundled_kind),     cmocka_unit_test(test_behaviors),
        cmocka_unit_test(test_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
