/* test_sequence.c - grammars of texts and JSON values in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kvcull/grammar.h"
#include "tests/check.h"

#define NUMBER "{\"enum\": [1, 22]}"

static struct kvc_error error;

/* Compares each beginning of a text. `whole`: lengths at which the beginning is itself a text of the grammar; a 0 ends
 * the list. */
static void check(const char *sequence, const char *text, const size_t *whole, size_t good) {
    struct kvc_grammar *grammar;
    FINE(kvc_grammar_open(KVC_GRAMMAR_SEQUENCE, sequence, strlen(sequence), &grammar, &error));
    for (size_t bytes = 0; bytes <= strlen(text); bytes++) {
        enum kvc_grammar_match match, expected = bytes <= good ? KVC_GRAMMAR_BEGUN : KVC_GRAMMAR_WRONG;
        FINE(kvc_grammar_check(grammar, text, bytes, &match, &error));
        for (size_t i = 0; whole[i]; i++)
            if (whole[i] == bytes)
                expected = KVC_GRAMMAR_WHOLE;
        if (match != expected)
            fail_msg("%s: %.*s: %d, not %d", sequence, (int)bytes, text, (int)match, (int)expected);
    }
    kvc_grammar_close(grammar);
}

static void test_texts(void **state) {
    (void)state;
    check("{\"before\": \"<(\", \"items\": [[" NUMBER "]], \"between\": \", \", \"after\": \")>\"}", "<(1, 22, 1)>x",
          (const size_t[]){12, 0}, 12);
    check("{\"before\": \"<(\", \"items\": [[" NUMBER "]], \"after\": \")>\"}", "<(1, ", (const size_t[]){0}, 3);
    check("{\"items\": [[\"a.*\", " NUMBER "], [\"b\\u00e9\", {\"const\": \"c\"}, \"!\"]], \"between\": \"\"}",
          "a.*22b\xc3\xa9\"c\"!a.*1z", (const size_t[]){5, 12, 16, 0}, 16);
    check("{\"items\": [[\"x\", {\"$ref\": \"#/items/0/2\"}, " NUMBER "]]}", "x221", (const size_t[]){4, 0}, 4);
}

static void test_refused(void **state) {
    static const char *const wrong[][2] = {
        {"{", "sequence"},
        {"[]", "#/items: must be an array of items"},
        {"{\"items\": []}", "#/items: must be an array of items"},
        {"{\"items\": [{}]}", "#/items/0: must be an array of texts and schemas"},
        {"{\"items\": [[]]}", "#/items/0: must be an array of texts and schemas"},
        {"{\"items\": [[\"a\", {\"not\": {}}]]}", "#/items/0/1/not: is not supported"},
        {"{\"items\": [[\"a\"]], \"before\": 1}", "before, between and after must be texts"},
        {"{\"items\": [[\"a\"]], \"between\": []}", "before, between and after must be texts"},
        {"{\"items\": [[\"a\"]], \"after\": {}}", "before, between and after must be texts"},
    };
    struct kvc_grammar *grammar;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        REFUSED(kvc_grammar_open(KVC_GRAMMAR_SEQUENCE, wrong[i][0], strlen(wrong[i][0]), &grammar, &error), KVC_USAGE,
                wrong[i][1]);
        assert_null(grammar);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_texts), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
