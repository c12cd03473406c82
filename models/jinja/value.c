/* value.c - creates values and gives their type, truth, equality and order as in Python. */
#include "models/jinja/parts.h"

#include "core/base/assert.h"

#include <math.h>
#include <string.h>

struct jinja_value jinja_undefined(const char *what) {
    return (struct jinja_value){.kind = JINJA_UNDEFINED, .what = what};
}
struct jinja_value jinja_none(void) {
    return (struct jinja_value){.kind = JINJA_NONE};
}
struct jinja_value jinja_bool(bool truth) {
    return (struct jinja_value){.kind = JINJA_BOOL, .truth = truth};
}
struct jinja_value jinja_int(int64_t whole) {
    return (struct jinja_value){.kind = JINJA_INT, .whole = whole};
}
struct jinja_value jinja_float(double real) {
    return (struct jinja_value){.kind = JINJA_FLOAT, .real = real};
}

const char *jinja_type(struct jinja_value value) {
    static const char *const flavors[] = {"list", "tuple", "range", "dict view", "generator"};
    switch (value.kind) {
    case JINJA_NONE:
        return "None";
    case JINJA_BOOL:
        return "bool";
    case JINJA_INT:
        return "int";
    case JINJA_FLOAT:
        return "float";
    case JINJA_STRING:
        return "string";
    case JINJA_LIST:
        return flavors[value.list->flavor];
    case JINJA_DICT:
        return "dict";
    case JINJA_NAMESPACE:
        return "namespace";
    case JINJA_LOOP:
        return "loop";
    case JINJA_BUILTIN:
        return "function";
    case JINJA_MACRO:
        return "macro";
    default:
        return "undefined value";
    }
}

bool jinja_is_whole(struct jinja_value value) { return value.kind == JINJA_BOOL || value.kind == JINJA_INT; }
bool jinja_is_number(struct jinja_value value) { return jinja_is_whole(value) || value.kind == JINJA_FLOAT; }
int64_t jinja_whole(struct jinja_value value) { return value.kind == JINJA_BOOL ? value.truth : value.whole; }
double jinja_real(struct jinja_value value) {
    return value.kind == JINJA_FLOAT ? value.real : (double)jinja_whole(value);
}

bool jinja_is_text(struct jinja_value value, const char *text) {
    return value.kind == JINJA_STRING && value.string->bytes == strlen(text) &&
           !memcmp(value.string->data, text, value.string->bytes);
}

bool jinja_true(struct jinja *j, struct jinja_value value) {
    (void)j;
    switch (value.kind) {
    case JINJA_UNSET:
    case JINJA_UNDEFINED:
    case JINJA_NONE:
        return false;
    case JINJA_BOOL:
        return value.truth;
    case JINJA_INT:
        return value.whole != 0;
    case JINJA_FLOAT:
        return value.real != 0;
    case JINJA_STRING:
        return value.string->bytes > 0;
    case JINJA_LIST:
        return value.list->flavor == JINJA_GENERATOR || value.list->count > 0;
    case JINJA_DICT:
        return value.dict->count > 0;
    default:
        return true;
    }
}

/* ---- equality and order ---- */

/* Compares an integer and a real number exactly. */
static int order_mixed(int64_t whole, double real) {
    if (real >= 9223372036854775808.0) {
        return -1;
    }
    if (real < -9223372036854775808.0) {
        return 1;
    }
    const int64_t below = (int64_t)floor(real);
    KVC_ASSERT(real == real);
    return whole < below ? -1 : whole > below ? 1 : real > (double)below ? -1 : 0;
}

/* Compares two numbers. Returns 2 if one of them is NaN. */
static int order_numbers(struct jinja_value a, struct jinja_value b) {
    if (a.kind == JINJA_FLOAT && b.kind == JINJA_FLOAT) {
        return a.real < b.real ? -1 : a.real > b.real ? 1 : a.real == b.real ? 0 : 2;
    }
    if (a.kind == JINJA_FLOAT) {
        return isnan(a.real) ? 2 : -order_mixed(jinja_whole(b), a.real);
    }
    if (b.kind == JINJA_FLOAT) {
        return isnan(b.real) ? 2 : order_mixed(jinja_whole(a), b.real);
    }
    return jinja_whole(a) < jinja_whole(b) ? -1 : jinja_whole(a) > jinja_whole(b);
}

static bool equal_lists(struct jinja *j, const struct jinja_list *a, const struct jinja_list *b) {
    if (a->flavor != b->flavor || a->flavor == JINJA_GENERATOR) {
        return a == b;
    }
    bool equal = a->count == b->count;
    for (size_t i = 0; equal && i < a->count && j->status == KVC_OK; i++) {
        equal = jinja_equal(j, a->items[i], b->items[i]);
    }
    return equal;
}

static bool equal_dicts(struct jinja *j, const struct jinja_dict *a, const struct jinja_dict *b) {
    bool equal = a->count == b->count;
    for (size_t i = 0; equal && i < a->count && j->status == KVC_OK; i++) {
        const struct jinja_value *other = jinja_find(j, b, a->entries[i].key);
        equal = other && jinja_equal(j, a->entries[i].value, *other);
    }
    return equal;
}

static bool equal(struct jinja *j, struct jinja_value a, struct jinja_value b) {
    switch (a.kind) {
    case JINJA_STRING:
        jinja_step(j, a.string->bytes / 16);
        return a.string->bytes == b.string->bytes && !memcmp(a.string->data, b.string->data, a.string->bytes);
    case JINJA_LIST:
        return equal_lists(j, a.list, b.list);
    case JINJA_DICT:
        return equal_dicts(j, a.dict, b.dict);
    case JINJA_NAMESPACE:
        return a.dict == b.dict;
    case JINJA_LOOP:
        return a.loop == b.loop;
    case JINJA_BUILTIN:
        return a.bound->builtin == b.bound->builtin && jinja_equal(j, a.bound->self, b.bound->self);
    case JINJA_MACRO:
        return a.macro == b.macro;
    default:
        return true; /* undefined and None each have a single value */
    }
}

bool jinja_equal(struct jinja *j, struct jinja_value a, struct jinja_value b) {
    if (jinja_is_number(a) && jinja_is_number(b)) {
        return order_numbers(a, b) == 0;
    }
    if (a.kind != b.kind || !jinja_step(j, 1)) {
        return false;
    }
    const bool same = jinja_enter(j) && equal(j, a, b);
    jinja_leave(j);
    return same;
}

int jinja_order(struct jinja *j, struct jinja_value a, struct jinja_value b) {
    jinja_step(j, 1);
    if (jinja_is_number(a) && jinja_is_number(b)) {
        return order_numbers(a, b);
    }
    if (a.kind == JINJA_STRING && b.kind == JINJA_STRING) {
        const size_t bytes = a.string->bytes < b.string->bytes ? a.string->bytes : b.string->bytes;
        const int order =
            memcmp(a.string->data, b.string->data, bytes); /* UTF-8 sorts in the order of its code points */
        jinja_step(j, bytes / 16);
        return order                               ? (order > 0 ? 1 : -1)
               : a.string->bytes < b.string->bytes ? -1
                                                   : a.string->bytes > b.string->bytes;
    }
    if (a.kind == JINJA_LIST && b.kind == JINJA_LIST && a.list->flavor == b.list->flavor &&
        a.list->flavor <= JINJA_TUPLE) {
        int order = 0;
        if (jinja_enter(j)) {
            for (size_t i = 0; i < a.list->count && i < b.list->count && !order && j->status == KVC_OK; i++) {
                if (!jinja_equal(j, a.list->items[i], b.list->items[i])) {
                    order = jinja_order(j, a.list->items[i], b.list->items[i]);
                }
            }
        }
        jinja_leave(j);
        return order ? order : a.list->count < b.list->count ? -1 : a.list->count > b.list->count;
    }
    jinja_fail(j, "a value of type %s and one of type %s cannot be ordered", jinja_type(a), jinja_type(b));
    return 0;
}

bool jinja_hashable(struct jinja_value value) {
    if (value.kind == JINJA_LIST && value.list->flavor == JINJA_TUPLE) {
        for (size_t i = 0; i < value.list->count; i++) {
            if (value.list->items[i].kind == JINJA_LIST || !jinja_hashable(value.list->items[i])) {
                return false; /* tuples that contain tuples are not supported as keys */
            }
        }
        return true;
    }
    return value.kind != JINJA_LIST && value.kind != JINJA_DICT && value.kind != JINJA_UNSET;
}
