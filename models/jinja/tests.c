/* tests.c - the tests that may follow `is`. */
#include "models/jinja/parts.h"

#define TEST(name)                                                                                                     \
    static struct jinja_value name(struct jinja *j, struct jinja_value self, const struct jinja_value *a,              \
                                   const struct jinja_call *call)
#define UNUSED ((void)j, (void)self, (void)a, (void)call)

/* A test without arguments. */
#define PLAIN(name, holds)                                                                                             \
    TEST(name) {                                                                                                       \
        UNUSED;                                                                                                        \
        return jinja_bool(holds);                                                                                      \
    }

static bool is_iterable(struct jinja_value value) {
    return value.kind == JINJA_UNDEFINED || value.kind == JINJA_STRING || value.kind == JINJA_LIST ||
           value.kind == JINJA_DICT || value.kind == JINJA_LOOP;
}

static bool is_sequence(struct jinja_value value) {
    return is_iterable(value) && value.kind != JINJA_LOOP &&
           (value.kind != JINJA_LIST || value.list->flavor <= JINJA_RANGE);
}

/* Returns true if all cased letters have the wanted case and there is at least one. */
static bool is_in_case(struct jinja *j, struct jinja_value value, int wanted) {
    const struct jinja_string *text = jinja_str(j, value);
    bool seen = false;
    jinja_step(j, text->bytes / 4);
    for (size_t at = 0; at < text->bytes;) {
        uint32_t code;
        at += jinja_next(text->data + at, text->bytes - at, &code);
        const int is = jinja_case(code);
        if (is && is != wanted) {
            return false;
        }
        seen |= is != 0;
    }
    return seen;
}

PLAIN(is_defined, self.kind != JINJA_UNDEFINED)
PLAIN(is_undefined, self.kind == JINJA_UNDEFINED)
PLAIN(is_none, self.kind == JINJA_NONE)
PLAIN(is_boolean, self.kind == JINJA_BOOL)
PLAIN(is_true, self.kind == JINJA_BOOL && self.truth)
PLAIN(is_false, self.kind == JINJA_BOOL && !self.truth)
PLAIN(is_integer, self.kind == JINJA_INT)
PLAIN(is_float, self.kind == JINJA_FLOAT)
PLAIN(is_number, jinja_is_number(self))
PLAIN(is_string, self.kind == JINJA_STRING)
PLAIN(is_mapping, self.kind == JINJA_DICT)
PLAIN(is_iterable_test, is_iterable(self))
PLAIN(is_sequence_test, is_sequence(self))
PLAIN(is_callable, self.kind == JINJA_BUILTIN || self.kind == JINJA_MACRO || self.kind == JINJA_UNDEFINED)
PLAIN(is_lower, is_in_case(j, self, -1))
PLAIN(is_upper, is_in_case(j, self, 1))
PLAIN(is_escaped, self.kind == JINJA_STRING && self.string->safe)
/* Checks the type of a filter's or test's name. As in Python, a value that cannot be a key is an error. */
static bool is_name(struct jinja *j, struct jinja_value value) {
    if (!jinja_hashable(value)) {
        jinja_fail(j, "a %s cannot be a key", jinja_type(value));
    }
    return value.kind == JINJA_STRING;
}
PLAIN(is_filter, is_name(j, self) && jinja_filter(self.string->data, self.string->bytes))
PLAIN(is_test, is_name(j, self) && jinja_builtin(jinja_tests, self.string->data, self.string->bytes))
PLAIN(is_equal, jinja_equal(j, self, a[0]))
PLAIN(is_unequal, !jinja_equal(j, self, a[0]))
PLAIN(is_less, jinja_compare(j, JINJA_LESS, self, a[0]))
PLAIN(is_at_most, jinja_compare(j, JINJA_LESS_EQUAL, self, a[0]))
PLAIN(is_more, jinja_compare(j, JINJA_MORE, self, a[0]))
PLAIN(is_at_least, jinja_compare(j, JINJA_MORE_EQUAL, self, a[0]))
PLAIN(is_in, jinja_contains(j, a[0], self))

static bool is_same(struct jinja *j, struct jinja_value a, struct jinja_value b) {
    if (a.kind != b.kind) {
        return false;
    }
    return a.kind == JINJA_LIST ? a.list == b.list : a.kind == JINJA_DICT ? a.dict == b.dict : jinja_equal(j, a, b);
}
PLAIN(is_sameas, is_same(j, self, a[0]))

static struct jinja_value divides(struct jinja *j, struct jinja_value self, struct jinja_value by, int64_t wanted) {
    const struct jinja_value left = jinja_calculate(j, JINJA_REMAINDER, self, by);
    return jinja_bool(j->status == KVC_OK && jinja_equal(j, left, jinja_int(wanted)));
}
TEST(is_odd) {
    UNUSED;
    return divides(j, self, jinja_int(2), 1);
}
TEST(is_even) {
    UNUSED;
    return divides(j, self, jinja_int(2), 0);
}
TEST(is_divisible) {
    UNUSED;
    return divides(j, self, a[0], 0);
}

const struct jinja_builtin jinja_tests[] = {
    {"defined", "", 0, is_defined},
    {"undefined", "", 0, is_undefined},
    {"none", "", 0, is_none},
    {"string", "", 0, is_string},
    {"mapping", "", 0, is_mapping},
    {"iterable", "", 0, is_iterable_test},
    {"sequence", "", 0, is_sequence_test},
    {"boolean", "", 0, is_boolean},
    {"true", "", 0, is_true},
    {"false", "", 0, is_false},
    {"integer", "", 0, is_integer},
    {"float", "", 0, is_float},
    {"number", "", 0, is_number},
    {"callable", "", 0, is_callable},
    {"lower", "", 0, is_lower},
    {"upper", "", 0, is_upper},
    {"escaped", "", 0, is_escaped},
    {"filter", "", 0, is_filter},
    {"test", "", 0, is_test},
    {"odd", "", 0, is_odd},
    {"even", "", 0, is_even},
    {"divisibleby", "num", 1, is_divisible},
    {"sameas", "other", 1, is_sameas},
    {"in", "seq", 1, is_in},
    {"==", "b", 1, is_equal},
    {"eq", "b", 1, is_equal},
    {"equalto", "b", 1, is_equal},
    {"!=", "b", 1, is_unequal},
    {"ne", "b", 1, is_unequal},
    {"<", "b", 1, is_less},
    {"lt", "b", 1, is_less},
    {"lessthan", "b", 1, is_less},
    {"<=", "b", 1, is_at_most},
    {"le", "b", 1, is_at_most},
    {">", "b", 1, is_more},
    {"gt", "b", 1, is_more},
    {"greaterthan", "b", 1, is_more},
    {">=", "b", 1, is_at_least},
    {"ge", "b", 1, is_at_least},
    {NULL, NULL, 0, NULL},
};
