/* metrics_infinite.c - InfiniteBench's scores (github.com/OpenBMB/InfiniteBench, src/compute_scores.py). */
#include "eval/metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const char marks[] = "\n:\"'.,?!{}"; /* replaced by spaces */

double eval_infinite_value(const char *answer, const char *truth) {
    struct eval_pool pool = {0};
    const struct eval_codes wanted = eval_codes_read(&pool, truth);
    const struct eval_words words =
        eval_words_split(&pool, eval_codes_blank(&pool, eval_codes_read(&pool, answer), marks));
    bool found = false;
    for (size_t i = 0; i < words.count; i++)
        found = found || eval_codes_equal(words.items[i], wanted);
    return eval_pool_score(&pool, found);
}

/* Converts to upper case like str.upper: a German sharp s becomes two letters. Other letters with longer upper-case
 * forms are unchanged. */
static struct eval_codes capitals(struct eval_pool *pool, struct eval_codes text) {
    struct eval_codes made = {eval_pool_take(pool, text.count, 2 * sizeof(int32_t)), 0};
    for (size_t i = 0; made.items && i < text.count; i++) {
        if (text.items[i] == 0xdf)
            made.items[made.count++] = 'S';
        made.items[made.count++] = text.items[i] == 0xdf ? 'S' : eval_code_upper(text.items[i]);
    }
    return made;
}

double eval_infinite_speaker(const char *answer, const char *truth) {
    struct eval_pool pool = {0};
    const struct eval_codes wanted = eval_codes_read(&pool, truth);
    const struct eval_words words =
        eval_words_split(&pool, eval_codes_blank(&pool, eval_codes_read(&pool, answer), marks));
    bool found = false;
    for (size_t i = 0; i < words.count; i++)
        found = found || eval_codes_equal(capitals(&pool, words.items[i]), wanted);
    return eval_pool_score(&pool, found);
}

/* ---- numbers ---- */

static bool is_ascii_digit(int32_t c) { return c >= '0' && c <= '9'; }

/* Returns the next run of digits at or after *at, and moves *at behind it; empty: none. */
static struct eval_codes next_digits(struct eval_codes text, size_t *at) {
    size_t n = 0;
    while (*at < text.count && !is_ascii_digit(text.items[*at]))
        ++*at;
    while (*at + n < text.count && is_ascii_digit(text.items[*at + n]))
        n++;
    const struct eval_codes digits = eval_codes_part(text, *at, n);
    *at += n;
    return digits;
}

double eval_infinite_number(const char *answer, const char *truth) {
    struct eval_pool pool = {0};
    size_t at = 0;
    const struct eval_codes digits = next_digits(eval_codes_read(&pool, answer), &at);
    return eval_pool_score(&pool, eval_codes_equal(digits, eval_codes_read(&pool, truth)));
}

/* Returns true if both runs of digits are the same number. */
static bool same_digits(struct eval_codes a, struct eval_codes b) {
    while (a.count > 1 && a.items[0] == '0')
        a = eval_codes_from(a, 1);
    while (b.count > 1 && b.items[0] == '0')
        b = eval_codes_from(b, 1);
    return eval_codes_equal(a, b);
}

/* Parses a word as Python's int does: a sign, digits, single underscores between digits. *digits excludes the sign. */
static bool whole_number(struct eval_pool *pool, struct eval_codes word, bool *negative, struct eval_codes *digits) {
    size_t at = word.count > 0 && (word.items[0] == '-' || word.items[0] == '+');
    *negative = at > 0 && word.items[0] == '-';
    *digits = (struct eval_codes){eval_pool_take(pool, word.count, sizeof(int32_t)), 0};
    for (bool after_digit = false; digits->items && at < word.count; at++) {
        const int32_t c = word.items[at];
        if (!is_ascii_digit(c) && !(c == '_' && after_digit && at + 1 < word.count))
            return false;
        if (is_ascii_digit(c))
            digits->items[digits->count++] = c;
        after_digit = is_ascii_digit(c);
    }
    return digits->count > 0;
}

double eval_infinite_run(const char *answer, const char *truth) {
    struct eval_pool pool = {0};
    const struct eval_codes text = eval_codes_strip(eval_codes_read(&pool, answer));
    const struct eval_words words = eval_words_split(&pool, eval_codes_blank(&pool, text, "\n.`'\":"));
    struct eval_codes made = {NULL, 0}, wanted = {NULL, 0};
    bool negative = false, wanted_negative = false;
    const bool fine = words.count > 0 && whole_number(&pool, words.items[words.count - 1], &negative, &made) &&
                      whole_number(&pool, eval_codes_read(&pool, truth), &wanted_negative, &wanted);
    const bool zero = fine && same_digits(made, (struct eval_codes){(int32_t[]){'0'}, 1});
    return eval_pool_score(&pool, fine && same_digits(made, wanted) && (zero || negative == wanted_negative));
}

/* Returns the first match of `\d+\.\d+|\d+` (ASCII); empty: none. */
static struct eval_codes first_number(struct eval_codes text) {
    size_t at = 0;
    struct eval_codes digits = next_digits(text, &at);
    if (digits.count > 0 && at + 1 < text.count && text.items[at] == '.' && is_ascii_digit(text.items[at + 1])) {
        const size_t start = at - digits.count;
        next_digits(text, &at);
        digits = eval_codes_part(text, start, at - start);
    }
    return digits;
}

double eval_infinite_find(const char *answer, const char *truth) {
    struct eval_pool pool = {0};
    const struct eval_codes found = first_number(eval_codes_read(&pool, answer));
    char *text = eval_pool_take(&pool, found.count + 1, 1);
    double score = 0;
    for (size_t i = 0; i < found.count && text; i++)
        text[i] = (char)found.items[i];
    if (text && found.count > 0 &&
        !strpbrk(truth, ".eE")) { /* the truth is a whole number: 3.0 does not match, as in the script */
        score = !strchr(text, '.') && same_digits(found, eval_codes_read(&pool, truth));
    } else if (text && found.count > 0) {
        score = strtod(text, NULL) == strtod(truth, NULL);
    }
    return eval_pool_score(&pool, score);
}

double eval_infinite_steps(const char *answer, struct eval_list truths) {
    struct eval_pool pool = {0};
    const struct eval_codes text = eval_codes_read(&pool, answer);
    size_t at = 0, right = 0;
    while (right < truths.count) {
        const struct eval_codes digits = next_digits(text, &at);
        if (digits.count == 0 || !same_digits(digits, eval_codes_read(&pool, truths.items[right])))
            break;
        right++;
    }
    return eval_pool_score(&pool, truths.count ? (double)right / (double)truths.count : 0);
}

/* ---- options ---- */

/* Replaces each run of spaces by one space. */
static struct eval_codes single_spaces(struct eval_pool *pool, struct eval_codes text) {
    struct eval_codes made = {eval_pool_take(pool, text.count, sizeof(int32_t)), 0};
    for (size_t i = 0; made.items && i < text.count; i++) {
        if (text.items[i] != ' ' || made.count == 0 || made.items[made.count - 1] != ' ')
            made.items[made.count++] = text.items[i];
    }
    return made;
}

static bool begins_with_any(struct eval_pool *pool, struct eval_codes text, struct eval_list truths) {
    for (size_t i = 0; i < truths.count; i++) {
        const struct eval_codes truth = eval_codes_read(pool, truths.items[i]);
        if (eval_codes_equal(eval_codes_part(text, 0, truth.count), truth))
            return true;
    }
    return false;
}

static bool is_any(struct eval_pool *pool, struct eval_codes text, struct eval_list truths) {
    bool found = false;
    for (size_t i = 0; i < truths.count; i++)
        found = found || eval_codes_equal(eval_codes_read(pool, truths.items[i]), text);
    return found;
}

/* Looks for the first phrase of the list that the text contains. Returns whether a truth begins one character after it;
 * -1: no phrase occurs. */
static int after_phrase(struct eval_pool *pool, struct eval_codes text, const char *const *phrases,
                        struct eval_list truths) {
    for (; *phrases; phrases++) {
        const size_t at = eval_codes_find_ascii(text, *phrases, 0), end = at + strlen(*phrases) + 1;
        if (at == EVAL_NONE)
            continue;
        return text.count >= end && begins_with_any(pool, eval_codes_from(text, end), truths);
    }
    return -1;
}

static bool is_option(struct eval_pool *pool, const char *answer, struct eval_list truths) {
    static const char *const phrases[] = {"answer is:", "answer:", "answer is", "option is", NULL};
    struct eval_codes text = eval_codes_strip(eval_codes_read(pool, answer));
    if (text.count == 0)
        return false;
    if (text.items[0] >= 'A' && text.items[0] <= 'D')
        return is_any(pool, eval_codes_part(text, 0, 1), truths);
    if (is_any(pool, text, truths))
        return true;
    text = single_spaces(pool, eval_codes_blank(pool, text, "\n\"'.,?!{}"));
    const int found = after_phrase(pool, text, phrases, truths);
    if (found >= 0)
        return found;
    const struct eval_words words = eval_words_split(pool, text);
    for (size_t i = 0; i < words.count; i++) { /* decides by the first word that is a part of "ABCD" */
        const struct eval_codes word = words.items[i];
        int32_t letters[] = {'A', 'B', 'C', 'D'};
        if (eval_codes_find((struct eval_codes){letters, 4}, word, 0) != EVAL_NONE)
            return is_any(pool, word, truths);
    }
    return false;
}

double eval_infinite_option(const char *answer, struct eval_list truths) {
    struct eval_pool pool = {0};
    return eval_pool_score(&pool, is_option(&pool, answer, truths));
}

/* Replaces each occurrence of the word by a space. */
static struct eval_codes blank_word(struct eval_pool *pool, struct eval_codes text, const char *word) {
    struct eval_codes made = {eval_pool_take(pool, text.count, sizeof(int32_t)), 0};
    for (size_t i = 0; made.items && i < text.count;) {
        const bool here = eval_codes_begins(eval_codes_from(text, i), word);
        made.items[made.count++] = here ? ' ' : text.items[i];
        i += here ? strlen(word) : 1;
    }
    return made;
}

double eval_infinite_bug(const char *answer, struct eval_list truths) {
    static const char *const phrases[] = {"answer is:", "is:", "answer:", "correct option is:", NULL};
    struct eval_pool pool = {0};
    struct eval_codes text = eval_codes_strip(eval_codes_read(&pool, answer));
    const struct eval_codes letter = eval_codes_read(&pool, truths.count > 1 ? truths.items[1] : "");
    if (text.count >= 2 && eval_codes_equal(eval_codes_part(text, 0, 1), letter) &&
        (text.items[1] == '.' || text.items[1] == ':'))
        return eval_pool_score(&pool, 1);
    text = eval_codes_blank(&pool, text, "\n`'\"-*");
    text = blank_word(&pool, blank_word(&pool, text, "Option"), "option");
    const int found = after_phrase(&pool, single_spaces(&pool, text), phrases, truths);
    return eval_pool_score(&pool, found == 1);
}
