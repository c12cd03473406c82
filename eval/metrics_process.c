/* metrics_process.c - LongProc's checks of routes, beliefs, equations and journeys (github.com/princeton-pli/LongProc,
 * longproc/). Two parts are missing here: the C++ programs of pseudo_to_code, because checking them means running a
 * model's output, and the partial accuracy of wrong searches (countdown, travel_planning). */
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

/* ---- journeys ---- */

static size_t row_of(struct eval_codes text, size_t at, bool (*kind)(int32_t)) {
    size_t n = 0;
    while (at + n < text.count && kind(text.items[at + n]))
        n++;
    return n;
}

static struct eval_codes row(struct eval_codes text, size_t at, bool (*kind)(int32_t)) {
    return eval_codes_part(text, at, row_of(text, at, kind));
}

/* Finds the last "from A to B" of the line at or after `from`. */
static bool last_flight(struct eval_codes line, size_t from, struct eval_codes *start, struct eval_codes *end) {
    bool found = false;
    for (size_t at = eval_codes_find_ascii(line, "from ", from); at != EVAL_NONE;
         at = eval_codes_find_ascii(line, "from ", at + 1)) {
        const struct eval_codes a = row(line, at + 5, eval_is_letter);
        const size_t middle = at + 5 + a.count;
        if (a.count == 0 || !eval_codes_begins(eval_codes_from(line, middle), " to "))
            continue;
        const struct eval_codes b = row(line, middle + 4, eval_is_letter);
        if (b.count == 0)
            continue;
        *start = a;
        *end = b;
        found = true;
    }
    return found;
}

struct flight {
    int64_t day;
    struct eval_codes start, end;
};

/* Finds "Day N ... from A to B", with the last such "Day N". */
static bool find_flight(struct eval_codes line, struct flight *flight) {
    bool found = false;
    for (size_t at = eval_codes_find_ascii(line, "Day ", 0); at != EVAL_NONE;
         at = eval_codes_find_ascii(line, "Day ", at + 1)) {
        const struct eval_codes day = row(line, at + 4, eval_is_digit);
        struct flight one = {0, {NULL, 0}, {NULL, 0}};
        if (day.count > 0 && last_flight(line, at + 4 + day.count, &one.start, &one.end) &&
            whole_number(day, &one.day)) {
            *flight = one;
            found = true;
        }
    }
    return found;
}

/* Finds the first "N-M" and returns M. */
static bool find_visit(struct eval_codes line, int64_t *end) {
    for (size_t i = 0, n; i < line.count; i += cli_max(n, 1)) {
        n = row_of(line, i, eval_is_digit);
        if (n == 0 || i + n >= line.count || line.items[i + n] != '-')
            continue;
        const struct eval_codes last = row(line, i + n + 1, eval_is_digit);
        if (last.count > 0)
            return whole_number(last, end);
    }
    return false;
}

struct journey {
    struct flight *flights;
    size_t count;
    int64_t last_day;
    bool visits;
};

static struct journey read_journey(struct eval_pool *pool, struct eval_codes plan) {
    static const char total_text[] = "European cities for ";
    const struct eval_words lines = eval_words_cut(pool, plan, '\n');
    struct journey journey = {eval_pool_take(pool, lines.count, sizeof(struct flight)), 0, 0, false};
    int64_t total = -1;
    for (size_t i = 0; i < lines.count && journey.flights; i++) {
        const struct eval_codes line = lines.items[i];
        int64_t end;
        const size_t at = eval_codes_find_ascii(line, total_text, 0);
        if (at != EVAL_NONE) {
            const struct eval_codes days = row(line, at + sizeof total_text - 1, eval_is_digit);
            if (eval_codes_begins(eval_codes_from(line, at + sizeof total_text - 1 + days.count), " days"))
                whole_number(days, &total);
        }
        if (find_visit(line, &end)) {
            journey.visits = true;
            journey.last_day = end;
            if (end == total)
                break;
        }
        journey.count += find_flight(line, &journey.flights[journey.count]);
    }
    return journey;
}

/* Returns the next nonempty part between "**" separators. */
static bool next_part(const char **text, const char **part, size_t *bytes) {
    while ((*text)[0] == '*' && (*text)[1] == '*')
        *text += 2;
    const char *end = strstr(*text, "**");
    *part = *text;
    *bytes = end ? (size_t)(end - *text) : strlen(*text);
    *text += *bytes;
    return *bytes > 0;
}

double eval_travel(const char *answer, const char *cities, const char *days) {
    struct eval_pool pool = {0};
    struct eval_codes plan = {NULL, 0};
    bool right = between_tags(eval_codes_read(&pool, answer), "<Plan>", "</Plan>", &plan);
    const struct journey journey = read_journey(&pool, plan);
    const char *city, *stay;
    size_t bytes, stay_bytes, i = 0;
    right = right && journey.visits && journey.count > 0;
    for (; right && next_part(&cities, &city, &bytes) && next_part(&days, &stay, &stay_bytes); i++) {
        if (i > journey.count || pool.lost) {
            right = false;
            break;
        }
        const struct eval_codes there = i == 0 ? journey.flights[0].start : journey.flights[i - 1].end;
        const int64_t from = i == 0 ? 1 : journey.flights[i - 1].day;
        const int64_t to = i == journey.count ? journey.last_day : journey.flights[i].day;
        char *name = eval_pool_take(&pool, bytes + 1, 1);
        if (name)
            memcpy(name, city, bytes);
        right =
            name && eval_codes_equal(there, eval_codes_read(&pool, name)) && to - from + 1 == strtoll(stay, NULL, 10);
    }
    return eval_pool_score(&pool, right && i > 0);
}
