/* operators.c - arithmetic and comparisons as in Python, with 64-bit integers. */
#include "models/jinja/parts.h"

#include <math.h>

static struct jinja_value too_large(struct jinja *j) { return JINJA_FAIL(j, "a whole number has more than 64 bits"); }

static struct jinja_value power(struct jinja *j, struct jinja_value a, struct jinja_value b) {
    if (!jinja_is_whole(a) || !jinja_is_whole(b) || jinja_whole(b) < 0) {
        const double real = pow(jinja_real(a), jinja_real(b));
        return isfinite(real) ? jinja_float(real) : JINJA_FAIL(j, "a power is not a finite number");
    }
    int64_t result = 1, base = jinja_whole(a);
    if (jinja_whole(b) > 64 && base != 0 && base != 1 && base != -1) {
        return too_large(j);
    }
    for (int64_t left = jinja_whole(b) > 64 ? 64 + jinja_whole(b) % 2 : jinja_whole(b); left > 0; left--) {
        if (__builtin_mul_overflow(result, base, &result)) {
            return too_large(j);
        }
    }
    return jinja_int(result);
}

/* Divides as Python does: quotients are rounded down, and a remainder has the divisor's sign. */
static struct jinja_value divide_whole(struct jinja *j, enum jinja_operator what, int64_t a, int64_t b) {
    if (a == INT64_MIN && b == -1) {
        return what == JINJA_REMAINDER ? jinja_int(0) : too_large(j);
    }
    const int64_t remainder = a % b, adjust = remainder != 0 && (remainder < 0) != (b < 0);
    return jinja_int(what == JINJA_REMAINDER ? remainder + (adjust ? b : 0) : a / b - adjust);
}

static struct jinja_value divide_real(enum jinja_operator what, double a, double b) {
    double remainder = fmod(a, b);
    if (remainder != 0 && (remainder < 0) != (b < 0)) {
        remainder += b;
    }
    if (what == JINJA_REMAINDER) {
        return jinja_float(remainder == 0 ? copysign(0, b) : remainder);
    }
    const double quotient = (a - remainder) / b, below = floor(quotient);
    return jinja_float(quotient == 0 ? copysign(0, a / b) : quotient - below > 0.5 ? below + 1 : below);
}

static struct jinja_value numbers(struct jinja *j, enum jinja_operator what, struct jinja_value a,
                                  struct jinja_value b) {
    const bool whole = jinja_is_whole(a) && jinja_is_whole(b);
    int64_t result = 0;
    bool over = false;
    if (what == JINJA_POWER) {
        return power(j, a, b);
    }
    if (what >= JINJA_DIVIDE && jinja_real(b) == 0) {
        return JINJA_FAIL(j, "a division by zero");
    }
    if (what == JINJA_DIVIDE) {
        return jinja_float(jinja_real(a) / jinja_real(b));
    }
    if (what > JINJA_DIVIDE) {
        return whole ? divide_whole(j, what, jinja_whole(a), jinja_whole(b))
                     : divide_real(what, jinja_real(a), jinja_real(b));
    }
    if (!whole) {
        const double x = jinja_real(a), y = jinja_real(b);
        return jinja_float(what == JINJA_ADD ? x + y : what == JINJA_SUBTRACT ? x - y : x * y);
    }
    if (what == JINJA_ADD) {
        over = __builtin_add_overflow(jinja_whole(a), jinja_whole(b), &result);
    } else if (what == JINJA_SUBTRACT) {
        over = __builtin_sub_overflow(jinja_whole(a), jinja_whole(b), &result);
    } else {
        over = __builtin_mul_overflow(jinja_whole(a), jinja_whole(b), &result);
    }
    return over ? too_large(j) : jinja_int(result);
}

static bool is_row(struct jinja_value value) { return value.kind == JINJA_LIST && value.list->flavor <= JINJA_TUPLE; }

static struct jinja_value repeated(struct jinja *j, struct jinja_value what, int64_t times) {
    if (what.kind == JINJA_STRING) {
        struct jinja_text text = {0};
        for (int64_t i = 0; i < times && what.string->bytes && jinja_step(j, 1); i++) {
            jinja_put_all(j, &text, what.string);
        }
        return jinja_taken_safe(j, &text, what.string->safe);
    }
    struct jinja_value list = jinja_list(j, what.list->flavor);
    for (int64_t i = 0; i < times && what.list->count && j->status == KVC_OK; i++) {
        for (size_t k = 0; k < what.list->count && j->status == KVC_OK; k++) {
            jinja_add(j, list, what.list->items[k]);
        }
    }
    return list;
}

static struct jinja_value lists_joined(struct jinja *j, const struct jinja_list *a, const struct jinja_list *b) {
    struct jinja_value list = jinja_list(j, a->flavor);
    for (size_t i = 0; i < a->count + b->count && j->status == KVC_OK; i++) {
        jinja_add(j, list, i < a->count ? a->items[i] : b->items[i - a->count]);
    }
    return list;
}

struct jinja_value jinja_calculate(struct jinja *j, enum jinja_operator what, struct jinja_value a,
                                   struct jinja_value b) {
    static const char *const names[] = {"+", "-", "*", "/", "//", "%", "**"};
    if (jinja_is_number(a) && jinja_is_number(b)) {
        return numbers(j, what, a, b);
    }
    if (what == JINJA_ADD && a.kind == JINJA_STRING && b.kind == JINJA_STRING) {
        return jinja_joined(j, a.string, b.string);
    }
    if (what == JINJA_ADD && is_row(a) && is_row(b) && a.list->flavor == b.list->flavor) {
        return lists_joined(j, a.list, b.list);
    }
    if (what == JINJA_MULTIPLY && (a.kind == JINJA_STRING || is_row(a)) && jinja_is_whole(b)) {
        return repeated(j, a, jinja_whole(b));
    }
    if (what == JINJA_MULTIPLY && (b.kind == JINJA_STRING || is_row(b)) && jinja_is_whole(a)) {
        return repeated(j, b, jinja_whole(a));
    }
    if (what == JINJA_REMAINDER && a.kind == JINJA_STRING) {
        return jinja_percent(j, a.string, b);
    }
    if (a.kind == JINJA_UNDEFINED || b.kind == JINJA_UNDEFINED) {
        const struct jinja_value missing = a.kind == JINJA_UNDEFINED ? a : b;
        return JINJA_FAIL(j, "%.60s is undefined; %s cannot take it", missing.what ? missing.what : "a value",
                          names[what]);
    }
    return JINJA_FAIL(j, "the operator %s does not take a value of type %s on its left and one of type %s on its right",
                      names[what], jinja_type(a), jinja_type(b));
}

struct jinja_value jinja_negative(struct jinja *j, struct jinja_value value) {
    if (value.kind == JINJA_FLOAT) {
        return jinja_float(-value.real);
    }
    if (!jinja_is_whole(value)) {
        return JINJA_FAIL(j, "the operator - does not take a value of type %s", jinja_type(value));
    }
    return numbers(j, JINJA_SUBTRACT, jinja_int(0), value);
}

bool jinja_compare(struct jinja *j, enum jinja_operator what, struct jinja_value a, struct jinja_value b) {
    int order;
    switch (what) {
    case JINJA_EQUAL:
        return jinja_equal(j, a, b);
    case JINJA_UNEQUAL:
        return !jinja_equal(j, a, b);
    case JINJA_IN:
        return jinja_contains(j, b, a);
    case JINJA_NOT_IN:
        return !jinja_contains(j, b, a);
    default:
        order = jinja_order(j, a, b);
        return what == JINJA_LESS         ? order == -1
               : what == JINJA_LESS_EQUAL ? order == -1 || order == 0
               : what == JINJA_MORE       ? order == 1
                                          : order == 1 || order == 0;
    }
}
