/* schema_number.c - numbers of a schema: any number, or the numbers between bounds. Bounds must be whole numbers. */
#include "models/grammar/schema.h"

#include "core/base/assert.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST 999999999999999.0 /* maximum magnitude of a bound; doubles represent all whole numbers up to here */
#define FRACTION "(?:\\.[0-9]{1,18})?"

/* An end of a range, a whole number of at least 0. */
struct bound {
    bool set, exclusive; /* `exclusive`: the range does not contain the end itself; never set for whole numbers */
    uint64_t at;
};

/* Appends the numbers of n digits from low to high, digit by digit. NULL: all zeros, or all nines. */
static void digits(const char *low, const char *high, int n, struct kvc_regex *out) {
    if (n == 0)
        return;
    if (!low && !high) {
        kvc_regex_print(out, "[0-9]{%d}", n);
        return;
    }
    const char first = low ? *low : '0', last = high ? *high : '9';
    if (first == last) {
        kvc_regex_print(out, "%c", first);
        digits(low ? low + 1 : NULL, high ? high + 1 : NULL, n - 1, out);
        return;
    }
    kvc_regex_print(out, "(?:%c", first);
    digits(low ? low + 1 : NULL, NULL, n - 1, out);
    if (last - first > 1) {
        kvc_regex_print(out, "|[%c-%c]", first + 1, last - 1);
        digits(NULL, NULL, n - 1, out);
    }
    kvc_regex_print(out, "|%c", last);
    digits(NULL, high ? high + 1 : NULL, n - 1, out);
    kvc_regex_put(out, ")");
}

/* Appends the whole numbers from `low` to `high` or, if `high` is NULL, from `low` on. */
static void whole_numbers(uint64_t low, const uint64_t *high, struct kvc_regex *out) {
    char from[24], to[24];
    const int least = snprintf(from, sizeof from, "%llu", (unsigned long long)low);
    const int most = high ? snprintf(to, sizeof to, "%llu", (unsigned long long)*high) : least;
    KVC_ASSERT(!high || low <= *high);
    kvc_regex_put(out, "(?:");
    for (int n = least; n <= most; n++) {
        const bool at_low = n == least, at_high = high && n == most;
        kvc_regex_put(out, at_low ? "" : "|");
        digits(at_low ? from : "1000000000000000000", at_high ? to : "9999999999999999999", n, out);
    }
    if (!high)
        kvc_regex_print(out, "|[1-9][0-9]{%d,17}", least);
    kvc_regex_put(out, ")");
}

/* Appends the numbers from `low` to `high`; both bounds are at least 0. If `whole` is true, appends only whole numbers.
 * Numbers that are not whole have digits after the point. Returns false if there are no such numbers. */
static bool numbers(struct bound low, struct bound high, bool whole, struct kvc_regex *out) {
    const uint64_t inner = low.at + low.exclusive; /* the least whole number */
    if (whole) {
        if (high.set && inner > high.at)
            return false;
        whole_numbers(inner, high.set ? &high.at : NULL, out);
        return true;
    }
    if (high.set && (low.at > high.at || (low.at == high.at && (low.exclusive || high.exclusive))))
        return false;
    const char *before = "";
    kvc_regex_put(out, "(?:");
    if (low.exclusive) { /* above the bound, below the next whole number */
        whole_numbers(low.at, &low.at, out);
        kvc_regex_put(out, "\\.[0-9]{0,17}[1-9]");
        before = "|";
    }
    if (!high.set || inner < high.at) {
        const uint64_t last = high.at - 1;
        kvc_regex_put(out, before);
        whole_numbers(inner, high.set ? &last : NULL, out);
        kvc_regex_put(out, FRACTION);
        before = "|";
    }
    if (high.set && !high.exclusive) {
        kvc_regex_put(out, before);
        whole_numbers(high.at, &high.at, out);
        kvc_regex_put(out, "(?:\\.0)?");
    }
    kvc_regex_put(out, ")");
    return true;
}

/* Reads the lower bounds of a schema (`sign` 1) or the upper bounds (`sign` -1). If the schema has both the inclusive
 * and the exclusive bound, the narrower one counts. For whole numbers, replaces an exclusive bound by an inclusive
 * one. */
static bool read_bound(struct schema *schema, const json_t *node, const struct schema_place *at, int sign, bool whole,
                       bool *set, double *bound, bool *exclusive) {
    const char *const names[2] = {sign > 0 ? "minimum" : "maximum", sign > 0 ? "exclusiveMinimum" : "exclusiveMaximum"};
    for (int i = 0; i < 2; i++) {
        const json_t *value = json_object_get(node, names[i]);
        const struct schema_place here = {at, names[i], 0};
        if (!value)
            continue;
        if (!json_is_number(value))
            return schema_refuse(schema, &here, "must be a number");
        double given = json_number_value(value);
        bool open = i == 1;
        if (!(fabs(given) <= MOST))
            return schema_refuse(schema, &here, "must be from -%.0f to %.0f", MOST, MOST);
        if (whole) {
            const double inner = sign > 0 ? ceil(given) : floor(given);
            given = open && inner == given ? given + sign : inner;
            open = false;
        } else if (given != floor(given)) {
            return schema_refuse(schema, &here, "%g: bounds of numbers must be whole", given);
        }
        if (!*set || sign * (given - *bound) > 0 || (given == *bound && open)) {
            *bound = given;
            *exclusive = open;
        }
        *set = true;
    }
    return true;
}

/* Appends the numbers from low to high with a sign, as one more alternative. */
static void alternative(const char *sign, struct bound low, struct bound high, bool whole, bool *any,
                        struct kvc_regex *out) {
    struct kvc_regex part = {0};
    if (numbers(low, high, whole, &part)) {
        kvc_regex_put(out, *any ? "|" : "");
        kvc_regex_put(out, sign);
        kvc_regex_put(out, part.text ? part.text : "");
        *any = true;
    }
    out->failed = out->failed || part.failed;
    kvc_regex_free(&part);
}

bool schema_number(struct schema *schema, const json_t *node, const struct schema_place *at, bool whole,
                   struct kvc_regex *out) {
    bool has_low = false, has_high = false, low_open = false, high_open = false, any = false;
    double low = 0, high = 0;
    if (!read_bound(schema, node, at, 1, whole, &has_low, &low, &low_open) ||
        !read_bound(schema, node, at, -1, whole, &has_high, &high, &high_open))
        return false;
    if (!has_low && !has_high) {
        kvc_regex_put(out, whole ? "(?&i)" : "(?&n)");
        return true;
    }
    kvc_regex_put(out, "(?:");
    if (!has_low || low < 0) { /* numbers below 0, by their magnitudes */
        struct bound least = {true, false, 0};
        if (has_high && high <= 0)
            least = (struct bound){true, high_open, (uint64_t)-high};
        if (least.at == 0 && whole)
            least.at = 1;
        else if (least.at == 0)
            least.exclusive = true;
        alternative("-", least, (struct bound){has_low, low_open, (uint64_t)-low}, whole, &any, out);
    }
    if (!has_high || high >= 0) {
        struct bound least = {true, false, 0};
        if (has_low && low >= 0)
            least = (struct bound){true, low_open, (uint64_t)low};
        alternative("", least, (struct bound){has_high, high_open, (uint64_t)high}, whole, &any, out);
    }
    kvc_regex_put(out, ")");
    return any || schema_refuse(schema, at, "the bounds leave no number");
}
