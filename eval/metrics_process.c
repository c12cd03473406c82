/* metrics_process.c - LongProc's checks of routes, beliefs and equations (github.com/princeton-pli/LongProc,
 * longproc/). Missing are the C++ programs of pseudo_to_code, because checking them means running a model's output, the
 * journeys of travel_planning, whose examples a program writes, and the partial accuracy of wrong searches (countdown).
 */
#include "eval/metrics.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

/* Finds the text between the first <tag> and the first </tag>, without whitespace at its ends. */
static bool between_tags(struct eval_codes text, const char *open, const char *close, struct eval_codes *found) {
    const size_t start = eval_codes_find_ascii(text, open, 0), end = eval_codes_find_ascii(text, close, 0);
    if (start == EVAL_NONE || end == EVAL_NONE)
        return false;
    const size_t from = start + strlen(open);
    *found = eval_codes_strip(eval_codes_part(text, from, end > from ? end - from : 0));
    return true;
}

static double all_or_part(struct eval_pool *pool, bool all, double some, double *part) {
    if (part)
        *part = all ? 1 : some;
    return eval_pool_score(pool, all);
}

double eval_route(const char *answer, const char *truth, double *part) {
    struct eval_pool pool = {0};
    const struct eval_codes wanted = eval_codes_strip(eval_codes_read(&pool, truth));
    struct eval_codes made = {NULL, 0};
    size_t i = 0;
    if (!between_tags(eval_codes_read(&pool, answer), "<Route>", "</Route>", &made))
        return all_or_part(&pool, false, 0, part);
    const struct eval_words a = eval_words_cut(&pool, made, '\n'), t = eval_words_cut(&pool, wanted, '\n');
    while (i < a.count && i < t.count && eval_codes_equal(a.items[i], t.items[i]))
        i++;
    i += i < a.count && i < t.count; /* the script also counts the first wrong line */
    return all_or_part(&pool, eval_codes_equal(made, wanted), t.count ? (double)i / (double)t.count : 0, part);
}

/* ---- beliefs ---- */

static bool ends_line(int32_t c) { /* as in str.splitlines */
    return (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

/* Returns the normalized lines that begin with a hyphen, without empty ones. */
static struct eval_words beliefs(struct eval_pool *pool, const char *text) {
    static const char left_out[] = "a an the on in at step thinks think believes believe is are of location know knows "
                                   "belief";
    const struct eval_codes codes = eval_codes_read(pool, text);
    struct eval_words made = {eval_pool_take(pool, codes.count + 1, sizeof(struct eval_codes)), 0};
    bool first = true;
    for (size_t i = 0, end; made.items && i < codes.count; i = end + 1) {
        for (end = i; end < codes.count && !ends_line(codes.items[end]);)
            end++;
        struct eval_codes line = eval_codes_part(codes, i, end - i);
        const struct eval_codes stripped = eval_codes_strip(line);
        if (!eval_codes_begins(stripped, "-"))
            continue;
        if (first)
            line = stripped; /* only the first line may begin with whitespace: the script strips the whole text */
        first = false;
        if (!eval_codes_begins(line, "-"))
            continue;
        const struct eval_words words = eval_words_normal(pool, eval_codes_from(line, 1), left_out, 0x2019);
        if (words.count > 0)
            made.items[made.count++] = eval_words_join(pool, words, ' ');
    }
    return made;
}

double eval_beliefs(const char *answer, const char *truth, double *part) {
    struct eval_pool pool = {0};
    const struct eval_words a = beliefs(&pool, answer), t = beliefs(&pool, truth);
    size_t same = 0;
    while (same < a.count && same < t.count && eval_codes_equal(a.items[same], t.items[same]))
        same++;
    return all_or_part(&pool, same == a.count && same == t.count, t.count ? (double)same / (double)t.count : 0, part);
}

/* ---- numbers in texts ---- */

enum { MOST_DIGITS = 17 };

/* Parses a number like Python's int: a sign, digits, surrounding whitespace. Rejects numbers with more than MOST_DIGITS
 * digits. */
static bool whole_number(struct eval_codes text, int64_t *number) {
    text = eval_codes_strip(text);
    const bool negative = text.count > 0 && text.items[0] == '-';
    if (negative || (text.count > 0 && text.items[0] == '+'))
        text = eval_codes_from(text, 1);
    *number = 0;
    for (size_t i = 0; i < text.count; i++) {
        if (text.items[i] < '0' || text.items[i] > '9' || i >= MOST_DIGITS)
            return false;
        *number = 10 * *number + text.items[i] - '0';
    }
    *number = negative ? -*number : *number;
    return text.count > 0;
}

/* ---- countdown ---- */

struct sum { /* a (op) b = c */
    int64_t a, b, c;
    int32_t op;
};

/* Parses a Python literal, which has no leading zeros. */
static bool literal(struct eval_codes text, int64_t *number) {
    text = eval_codes_strip(text);
    const size_t sign = text.count > 0 && (text.items[0] == '-' || text.items[0] == '+');
    const bool zeros = text.count > sign + 1 && text.items[sign] == '0';
    return !zeros && whole_number(text, number);
}

static bool read_sum(struct eval_pool *pool, struct eval_codes line, struct sum *sum) {
    static const char ops[] = "+-*/";
    const struct eval_words sides = eval_words_cut(pool, line, '=');
    if (sides.count != 2 || !whole_number(sides.items[1], &sum->c))
        return false;
    for (const char *op = ops; *op; op++) {
        const struct eval_words parts = eval_words_cut(pool, sides.items[0], *op);
        if (parts.count == 1)
            continue;
        sum->op = *op;
        return parts.count == 2 && literal(parts.items[0], &sum->a) && literal(parts.items[1], &sum->b);
    }
    return false;
}

static bool is_right(const struct sum *sum) {
    if (llabs(sum->a) > 1000000000 || llabs(sum->b) > 1000000000) /* far beyond what the rules allow */
        return false;
    switch (sum->op) {
    case '+':
        return sum->a + sum->b == sum->c;
    case '-':
        return sum->a - sum->b == sum->c;
    case '*':
        return sum->a * sum->b == sum->c;
    default:
        return sum->b != 0 && sum->a % sum->b == 0 && sum->a / sum->b == sum->c;
    }
}

static bool take_number(int64_t *left, size_t *count, int64_t number) {
    for (size_t i = 0; i < *count; i++) {
        if (left[i] != number)
            continue;
        memmove(left + i, left + i + 1, (*count - i - 1) * sizeof *left);
        --*count;
        return true;
    }
    return false;
}

double eval_countdown(const char *answer, const int64_t numbers[4], int64_t target) {
    struct eval_pool pool = {0};
    struct eval_codes text = {NULL, 0};
    int64_t left[4] = {numbers[0], numbers[1], numbers[2], numbers[3]};
    size_t count = 4;
    bool right = between_tags(eval_codes_read(&pool, answer), "<Solution>", "</Solution>", &text);
    const struct eval_words lines = eval_words_cut(&pool, text, '\n');
    right = right && lines.count == 3;
    for (size_t i = 0; i < lines.count && right; i++) {
        struct sum sum = {0, 0, 0, 0};
        right = read_sum(&pool, lines.items[i], &sum) && is_right(&sum) && take_number(left, &count, sum.a) &&
                take_number(left, &count, sum.b);
        if (right)
            left[count++] = sum.c;
    }
    return eval_pool_score(&pool, right && left[0] == target);
}
