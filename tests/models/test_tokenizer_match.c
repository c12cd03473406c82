/* test_tokenizer_match.c - matching in two attempts finds the same matches as one attempt over the whole text, and the
 * number of its steps (counted, not timed) is linear in the text's length. */
#include "models/tokenizer/parts.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/check.h"

static struct kvc_error error;

static struct kvc_pattern compiled(const char *expression) {
    struct kvc_pattern pattern = {0};
    FINE(kvc_pattern_compile(expression, strlen(expression), "test", &pattern, &error));
    return pattern;
}

/* The patterns behind the models' names, and patterns that look ahead and back, match at ends and lines, or match
 * nothing. */
static const char *const names[] = {"gpt-2",  "llama-bpe",   "qwen2",   "gpt-4o",     "tekken",
                                    "qwen35", "deepseek-v3", "kimi-k2", "seed-coder", "bailingmoe"};
static const char *const others[] = {"\\p{N}",       "\\p{N}{1,3}",      "x*",          "(?<=a)\\s*", "a(?!b)|.",
                                     "a\\b",         "^a+|\\n",          "a+$|\\s+",    "a+\\z|b",    "\\s+(?!\\S)",
                                     "(?=[ab]+x).",  "(a|b)\\1+|[^ab]+", "\\X",         "\\R",        "a+?x|\\Ga",
                                     "(?:a{3}|b)+x", "[ab]++\\n|a",      "a\\Kb|(?!b)", "\\w+\\B",    "(?i)AB+|\\S"};

static const char *expression_of(size_t i) {
    const size_t named = sizeof names / sizeof *names;
    if (i >= named)
        return i - named < sizeof others / sizeof *others ? others[i - named] : NULL;
    const struct kvc_named_split *split = kvc_named_split(names[i], strlen(names[i]));
    size_t last = 0;
    while (last + 1 < KVC_SPLIT_PATTERNS && split->patterns[last + 1])
        last++;
    return split->patterns[last];
}

/* Runs of one character, with lengths around those at which the first attempt ends, and single characters between them.
 */
static size_t draw_text(uint64_t *random, char *text, size_t capacity) {
    static const char *const pieces[] = {" ",  "a",    "b", "x",           "\n", "7", "\xc3\xa9", "\xe4\xb8\xad",
                                         "'s", "\r\n", ".", "\xe2\x80\x83"};
    size_t bytes = 0;
    for (int run = 0; run < 8; run++) {
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        const char *piece = pieces[(*random >> 33) % (sizeof pieces / sizeof *pieces)];
        const size_t length = strlen(piece), kind = (*random >> 40) % 3, more = (*random >> 45) % 6;
        for (size_t i = kind == 0   ? 1
                        : kind == 1 ? 61 / length + more
                                    : 20 * more;
             i > 0 && bytes + length < capacity; i--) {
            memcpy(text + bytes, piece, length);
            bytes += length;
        }
    }
    return bytes;
}

static void test_same_matches(void **state) {
    const char *expression;
    (void)state;
    for (size_t p = 0; (expression = expression_of(p)) != NULL; p++) {
        struct kvc_pattern pattern = compiled(expression);
        pcre2_match_data *data = pcre2_match_data_create(1, NULL);
        uint64_t random = p;
        for (int t = 0; t < (kvc_test_thinned() ? 4 : 30); t++) {
            char text[1500];
            struct kvc_subject subject;
            const size_t bytes = draw_text(&random, text, sizeof text);
            assert_true(kvc_subject_open(&subject, text, bytes));
            for (size_t from = 0; from <= bytes;) {
                bool found;
                size_t start = 0, end = 0;
                const int whole = pcre2_match(pattern.code, (PCRE2_SPTR)text, bytes, from, 0, data, NULL);
                const PCRE2_SIZE *want = pcre2_get_ovector_pointer(data);
                subject.steps = UINT64_MAX; /* including patterns that need too many steps */
                FINE(kvc_pattern_find(&pattern, &subject, from, &found, &start, &end, &error));
                if (found != (whole >= 0) || (found && (start != want[0] || end != want[1])))
                    fail_msg("%s, text %d of %zu bytes, from %zu: %zu to %zu, not %zu to %zu", expression, t, bytes,
                             from, start, end, want[0], want[1]);
                if (!found)
                    break;
                from = end > from ? end : end + 1;
                while (from < bytes && ((unsigned char)text[from] & 0xc0) == 0x80)
                    from++;
            }
            kvc_subject_close(&subject);
        }
        pcre2_match_data_free(data);
        kvc_pattern_free(&pattern);
    }
}

/* The number of steps for finding all matches in `count` times `piece` and then `last`; UINT64_MAX: refused. */
static uint64_t steps_of(const char *expression, const char *piece, size_t count, const char *last) {
    struct kvc_pattern pattern = compiled(expression);
    struct kvc_subject subject;
    const size_t length = strlen(piece), bytes = count * length + strlen(last);
    char *text = malloc(bytes + 1);
    enum kvc_status status = KVC_OK;
    assert_non_null(text);
    for (size_t i = 0; i < count; i++)
        memcpy(text + i * length, piece, length);
    memcpy(text + count * length, last, strlen(last) + 1);
    assert_true(kvc_subject_open(&subject, text, bytes));
    for (size_t from = 0; from < bytes && status == KVC_OK;) {
        bool found;
        size_t start, end = bytes;
        status = kvc_pattern_find(&pattern, &subject, from, &found, &start, &end, &error);
        if (status == KVC_OK && !found)
            break;
        from = end > from ? end : from + 1;
    }
    const uint64_t steps = subject.most_steps - subject.steps;
    kvc_subject_close(&subject);
    kvc_pattern_free(&pattern);
    free(text);
    if (status == KVC_OK)
        return steps;
    assert_int_equal(status, KVC_INPUT);
    return UINT64_MAX;
}

/* The models' own patterns need only a fraction of the allowed steps, however long the text. */
static void test_linear(void **state) {
    static const char *const pieces[] = {" ", "\n ", "\n\n        x", "a", "A", "-", "1", "\xe4\xb8\xad", " a", "\t"};
    static const char *const lasts[] = {"", "x", "\n", "\xc3\xa9"};
    const size_t count = kvc_test_thinned() ? 1000 : 20000;
    (void)state;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++)
        for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++)
            for (size_t l = 0; l < sizeof lasts / sizeof *lasts; l++) {
                const size_t bytes = count * strlen(pieces[p]);
                const uint64_t one = steps_of(expression_of(n), pieces[p], count, lasts[l]);
                const uint64_t two = steps_of(expression_of(n), pieces[p], 2 * count, lasts[l]);
                if (one > 60 * bytes + 2000 || two > 2 * one + 2000)
                    fail_msg("%s, %zu and twice as many of '%s' and '%s': %.0f and %.0f steps", names[n], count,
                             pieces[p], lasts[l], (double)one, (double)two);
            }
    assert_true(steps_of(expression_of(2), " ", 10 * count, "") >= 10 * count); /* the steps are counted */
}

/* Patterns that try the same characters repeatedly are refused, whether by backtracking, possessive repeats, lookahead,
 * back references, or searching. */
static void test_refused(void **state) {
    static const struct {
        const char *expression, *piece, *last;
        size_t count;
    } cases[] = {{"(a+)+b|.", "a", "", 2100},       {"(a+)+b|.", "aaaaaaaaaaaaaaaaaaaaa ", "", 2000},
                 {"a*b|.", "a", "", 20000},         {"a*+b|.", "a", "", 20000},
                 {"(?>a*)b|.", "a", "", 20000},     {"a*a*+b", "a", "cb", 20000},
                 {"a{5000}b|.", "a", "", 4999 * 4}, {"(?=a*x).|a", "a", "", 20000},
                 {"(a*)\\1b|.", "a", "", 20000},    {"(?:a*b1|a*b2|a*b3)|.", "a", "", 20000},
                 {"(?<=b)a*c|.", "a", "ba", 20000}, {"a+b", "a", "cb", 20000}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (i == 10) { /* looking back costs nothing at the beginning */
            assert_true(steps_of(cases[i].expression, cases[i].piece, cases[i].count, cases[i].last) < 20000);
            continue;
        }
        if (steps_of(cases[i].expression, cases[i].piece, cases[i].count, cases[i].last) != UINT64_MAX)
            fail_msg("'%s' is not refused", cases[i].expression);
        assert_non_null(strstr(error.text, cases[i].expression));
        assert_non_null(strstr(error.text, "steps"));
        assert_null(strchr(error.text, '\n'));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_matches), cmocka_unit_test(test_linear),
                                       cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
