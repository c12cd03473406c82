/* test_json_check.c - the JSON check that needs no memory agrees with jansson on mutated texts; and a damaged text is
 * never mistaken for a lack of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "models/files/json.h"

enum { MOST_BYTES = 400, ROUNDS = 12000 };

static const char *const seeds[] = {
    "{}",
    " [ ] ",
    "[-0, 0.5, -12.25e+3, 1E9, 7e-2, 10, 9223372036854775807]",
    "{\"a\": [true, false, null, {\"b\": \"\"}], \"c\": {\"\": [[], {}]}}",
    "[\"\\u00e9\\u20AC \\ud83d\\ude00\", \"\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"]",
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<s>\"}],\r\n\t\"model\" : {\"vocab\":{\"\\u0120a\":1}, \"merges\":[\"a "
    "b\"]}}",
};

/* Pieces that make JSON valid or invalid; the empty one is a NUL. */
static const char *const pieces[] = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\u",
    "\\u12",
    "\\ud800",
    "\\udc00",
    "\\uDBFF\\uDFFF",
    "\\u0000",
    "\\x",
    "0",
    "1",
    "-",
    ".",
    "e",
    "E",
    "+",
    "01",
    "1.",
    ".5",
    "1e",
    "1e999",
    "-1e+2",
    "99999999999999999999",
    "true",
    "tru",
    "false",
    "null",
    "nul",
    "NaN",
    " ",
    "\t",
    "\n",
    "\r",
    "\v",
    "\x01",
    "\x7f",
    "",
    "\xff",
    "\xc3",
    "\xed\xa0\x80",
    "\"a\":1",
    "\"a\"",
    "//",
    "\xef\xbb\xbf",
    "'",
    "[[",
    "]]",
    "{\"a\":",
    "\\u00e9",
};

static uint32_t draw(uint64_t *state, size_t below) { /* splitmix64 */
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) % below);
}

/* Replaces `gone` bytes at `at` by `count` other bytes, if they fit. */
static size_t splice(char *text, size_t bytes, size_t at, size_t gone, const char *with, size_t count) {
    if (bytes - gone + count > MOST_BYTES) {
        return bytes;
    }
    memmove(text + at + count, text + at + gone, bytes - at - gone);
    memcpy(text + at, with, count);
    return bytes - gone + count;
}

static size_t mutate(uint64_t *state, char *text, size_t bytes) {
    const size_t at = draw(state, bytes + 1), most = bytes - at;
    const size_t gone = draw(state, (most < 6 ? most : 6) + 1);
    const char *piece = pieces[draw(state, sizeof pieces / sizeof *pieces)];
    char copy[MOST_BYTES];
    switch (draw(state, 5)) {
    case 0:
        return splice(text, bytes, at, gone, "", 0);
    case 1:
        return splice(text, bytes, at, gone, piece, *piece ? strlen(piece) : 1);
    case 2:
        return splice(text, bytes, at, 0, piece, *piece ? strlen(piece) : 1);
    case 3: /* copy a part to another place */
        memcpy(copy, text + at, gone);
        return splice(text, bytes, draw(state, bytes + 1), 0, copy, gone);
    default: {
        const char byte = (char)draw(state, 256);
        return splice(text, bytes, at, gone > 0, &byte, 1);
    }
    }
}

/* 1: both consider it JSON; 0: both consider it invalid; -1: jansson refuses something that the check ignores. */
static int compare(const char *text, size_t bytes) {
    json_error_t why;
    struct kvc_error error = {0};
    json_t *right = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &why), *got;
    const enum kvc_status status = kvc_json_parse("it", text, bytes, &got, &error);
    const bool well_formed = kvc_json_well_formed(text, bytes);
    /* jansson accepts a NUL after a number or a word; otherwise both agree. */
    const bool good = right && !memchr(text, '\0', bytes);
    const bool huge = !right && json_error_code(&why) == json_error_numeric_overflow; /* the parser may take it */
    const bool same = good   ? status == KVC_OK && json_equal(got, right)
                      : huge ? status == KVC_INPUT || status == KVC_OK
                             : status == KVC_INPUT;
    bool looked_at = true;
    if (!right) {
        const enum json_error_code code = json_error_code(&why);
        looked_at = code == json_error_invalid_syntax || code == json_error_premature_end_of_input;
    }
    if (!same || (looked_at && well_formed != good)) {
        fail_msg("'%.*s': jansson says %s, the check %s, the parser %s", (int)bytes, text, right ? "yes" : why.text,
                 well_formed ? "yes" : "no", status ? error.text : "yes");
    }
    const int outcome = good ? 1 : looked_at ? 0 : -1;
    json_decref(right);
    json_decref(got);
    return outcome;
}

static void agrees_with_jansson(void **state) {
    (void)state;
    uint64_t random = 1;
    unsigned outcomes[3] = {0};
    for (unsigned round = 0; round < ROUNDS; round++) {
        const char *seed = seeds[round % (sizeof seeds / sizeof *seeds)];
        size_t bytes = strlen(seed);
        char text[MOST_BYTES];
        memcpy(text, seed, bytes);
        for (uint32_t left = draw(&random, 4); left > 0; left--) {
            bytes = mutate(&random, text, bytes);
        }
        outcomes[1 + compare(text, bytes)]++;
    }
    print_message("%u are JSON, %u are not, %u are refused for something else\n", outcomes[2], outcomes[1],
                  outcomes[0]);
    assert_true(outcomes[0] > ROUNDS / 100 && outcomes[1] > ROUNDS / 4 && outcomes[2] > ROUNDS / 4);
}

/* Integers of more than 64 bits are real numbers, wherever they are, and everything else stays. */
static void takes_huge_integers(void **state) {
    (void)state;
    static const char *const texts[][2] = {
        {"{\"model_max_length\": 1000000000000000019884624838656, \"a\": [7]}",
         "{\"model_max_length\": 1e30, \"a\": [7]}"},
        {"[-99999999999999999999,9223372036854775807]", "[-1e20,9223372036854775807]"},
        {"[9223372036854775808]", "[9223372036854775808.0]"},
        {"[\"12345678901234567890123\",\"\\\"12345678901234567890\",99999999999999999999]",
         "[\"12345678901234567890123\",\"\\\"12345678901234567890\",1e20]"},
        {"[0.12345678901234567890123,1.5e-3,99999999999999999999]", "[0.12345678901234567890123,1.5e-3,1e20]"}};
    struct kvc_error error;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        json_t *got, *wanted = json_loads(texts[i][1], 0, NULL);
        if (kvc_json_parse("it", texts[i][0], strlen(texts[i][0]), &got, &error) != KVC_OK)
            fail_msg("%s: %s", texts[i][0], error.text);
        char *one = json_dumps(got, JSON_REAL_PRECISION(12)), *other = json_dumps(wanted, JSON_REAL_PRECISION(12));
        assert_string_equal(one, other);
        free(one);
        free(other);
        json_decref(got);
        json_decref(wanted);
    }
    static const char *const wrong[] = {"[99999999999999999999", "[099999999999999999999]", "[1e999]",
                                        "[99999999999999999999,]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        json_t *got;
        assert_int_equal(kvc_json_parse("it", wrong[i], strlen(wrong[i]), &got, &error), KVC_INPUT);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(agrees_with_jansson), cmocka_unit_test(takes_huge_integers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
