/* list_filters.c - filters for values that have items. */
#include "models/jinja/parts.h"

#include <string.h>

#define FILTER(name)                                                                                                   \
    static struct jinja_value name(struct jinja *j, struct jinja_value self, const struct jinja_value *a,              \
                                   const struct jinja_call *call)
#define UNUSED ((void)j, (void)self, (void)a, (void)call)

/* Looks up a path such as "function.name", or an index, in an item. Parts of the path that are digits are indices. */
static struct jinja_value attribute_of(struct jinja *j, struct jinja_value item, struct jinja_value path) {
    if (path.kind != JINJA_STRING) {
        return jinja_item(j, item, path);
    }
    const char *at = path.string->data, *end = at + path.string->bytes;
    while (j->status == KVC_OK) {
        const char *dot = memchr(at, '.', (size_t)(end - at)), *stop = dot ? dot : end;
        bool digits = stop > at && stop - at < 10;
        int64_t place = 0;
        for (const char *c = at; c < stop && digits; c++) {
            digits = *c >= '0' && *c <= '9';
            place = place * 10 + (*c - '0');
        }
        const struct jinja_string name = {at, (size_t)(stop - at), NULL, NULL, false};
        item = jinja_item(j, item,
                          digits ? jinja_int(place) : (struct jinja_value){.kind = JINJA_STRING, .string = &name});
        if (!dot) {
            break;
        }
        at = dot + 1;
    }
    return item;
}

static bool list_filters_given(struct jinja_value value) {
    return value.kind != JINJA_UNSET && value.kind != JINJA_NONE;
}

/* Returns the key by which an item is compared. */
static struct jinja_value key_of(struct jinja *j, struct jinja_value item, struct jinja_value attribute, bool exact) {
    if (list_filters_given(attribute)) {
        item = attribute_of(j, item, attribute);
    }
    return item.kind == JINJA_STRING && !exact ? jinja_in_case(j, item.string, JINJA_LOWER) : item;
}

/* Sorts items by keys; the sort is stable. */
static void list_filters_sort(struct jinja *j, struct jinja_value items, struct jinja_value keys, bool reverse) {
    for (size_t i = 1; j->status == KVC_OK && i < items.list->count; i++) {
        const struct jinja_value item = items.list->items[i], key = keys.list->items[i];
        size_t at = i;
        for (; at > 0 && j->status == KVC_OK; at--) {
            const int order = jinja_order(j, keys.list->items[at - 1], key);
            if (reverse ? order >= 0 : order <= 0) {
                break;
            }
            items.list->items[at] = items.list->items[at - 1];
            keys.list->items[at] = keys.list->items[at - 1];
        }
        items.list->items[at] = item;
        keys.list->items[at] = key;
    }
}

/* Returns the sort key: a list with one element for each attribute of "role,name". The comparison of two lists
 * skips equal elements, so it also works for equal values of a type that has no order. */
static struct jinja_value sort_key(struct jinja *j, struct jinja_value item, struct jinja_value attribute, bool exact) {
    struct jinja_value key = jinja_list(j, JINJA_PLAIN);
    if (attribute.kind != JINJA_STRING) {
        jinja_add(j, key, key_of(j, item, attribute, exact));
        return key;
    }
    for (size_t at = 0; at <= attribute.string->bytes && j->status == KVC_OK;) {
        const char *from = attribute.string->data + at, *comma = memchr(from, ',', attribute.string->bytes - at);
        const size_t bytes = comma ? (size_t)(comma - from) : attribute.string->bytes - at;
        const struct jinja_string part = jinja_cut(attribute.string, at, bytes);
        jinja_add(j, key, key_of(j, item, (struct jinja_value){.kind = JINJA_STRING, .string = &part}, exact));
        at += bytes + 1;
    }
    return key;
}

/* sort(reverse=False, case_sensitive=False, attribute=None) */
FILTER(do_sort) {
    UNUSED;
    size_t i;
    const struct jinja_list *from = jinja_items(j, self, &i);
    struct jinja_value items = jinja_list(j, JINJA_PLAIN), keys = jinja_list(j, JINJA_PLAIN);
    for (; i < from->count && j->status == KVC_OK; i++) {
        jinja_add(j, items, from->items[i]);
        jinja_add(j, keys, sort_key(j, from->items[i], a[2], jinja_true(j, a[1])));
    }
    list_filters_sort(j, items, keys, jinja_true(j, a[0]));
    return items;
}

/* dictsort(case_sensitive=False, by='key', reverse=False) */
FILTER(do_dictsort) {
    UNUSED;
    if (self.kind != JINJA_DICT) {
        return JINJA_FAIL(j, "dictsort: a %s is not a dict", jinja_type(self));
    }
    if (a[1].kind != JINJA_UNSET && !jinja_is_text(a[1], "key") && !jinja_is_text(a[1], "value")) {
        return JINJA_FAIL(j, "dictsort: by must be key or value");
    }
    const bool by_value = jinja_is_text(a[1], "value");
    struct jinja_value items = jinja_list(j, JINJA_PLAIN), keys = jinja_list(j, JINJA_PLAIN);
    for (size_t i = 0; i < self.dict->count && j->status == KVC_OK; i++) {
        const struct jinja_entry *entry = &self.dict->entries[i];
        jinja_add(j, items, jinja_pair(j, entry->key, entry->value));
        jinja_add(j, keys, key_of(j, by_value ? entry->value : entry->key, jinja_none(), jinja_true(j, a[0])));
    }
    list_filters_sort(j, items, keys, jinja_true(j, a[2]));
    return items;
}

/* unique(case_sensitive=False, attribute=None) */
FILTER(do_unique) {
    UNUSED;
    size_t i;
    const struct jinja_list *from = jinja_items(j, self, &i);
    struct jinja_value items = jinja_list(j, JINJA_GENERATOR), keys = jinja_list(j, JINJA_PLAIN);
    for (; i < from->count && j->status == KVC_OK; i++) {
        const struct jinja_value key = key_of(j, from->items[i], a[1], jinja_true(j, a[0]));
        if (!jinja_hashable(key)) {
            return JINJA_FAIL(j, "unique: a %s cannot be a key", jinja_type(key));
        }
        if (!jinja_contains(j, keys, key)) {
            jinja_add(j, keys, key);
            jinja_add(j, items, from->items[i]);
        }
    }
    return items;
}

/* min and max(case_sensitive=False, attribute=None) */
static struct jinja_value extreme(struct jinja *j, struct jinja_value self, const struct jinja_value *a, int wanted) {
    size_t i;
    const struct jinja_list *from = jinja_items(j, self, &i);
    struct jinja_value best = jinja_undefined("an item of nothing"), best_key = best;
    for (bool first = true; i < from->count && j->status == KVC_OK; i++, first = false) {
        const struct jinja_value key = key_of(j, from->items[i], a[1], jinja_true(j, a[0]));
        if (first || jinja_order(j, key, best_key) == wanted) {
            best = from->items[i];
            best_key = key;
        }
    }
    return best;
}
FILTER(do_min) {
    UNUSED;
    return extreme(j, self, a, -1);
}
FILTER(do_max) {
    UNUSED;
    return extreme(j, self, a, 1);
}

/* sum(attribute=None, start=0) */
FILTER(do_sum) {
    UNUSED;
    size_t i;
    const struct jinja_list *from = jinja_items(j, self, &i);
    struct jinja_value sum = a[1].kind == JINJA_UNSET ? jinja_int(0) : a[1];
    if (sum.kind == JINJA_STRING) {
        return JINJA_FAIL(j, "sum: strings have no sum; join makes one of them");
    }
    for (; i < from->count && j->status == KVC_OK; i++) {
        sum = jinja_calculate(j, JINJA_ADD, sum,
                              list_filters_given(a[0]) ? attribute_of(j, from->items[i], a[0]) : from->items[i]);
    }
    return sum;
}

/* ---- single items and joining ---- */

FILTER(do_length) {
    UNUSED;
    return jinja_length(j, self);
}
FILTER(do_first) {
    UNUSED;
    if (self.kind == JINJA_LIST && self.list->flavor == JINJA_GENERATOR) {
        return self.list->taken < self.list->count ? self.list->items[self.list->taken++]
                                                   : jinja_undefined("the first item of nothing");
    }
    size_t i;
    const struct jinja_list *list = jinja_items(j, self, &i);
    return i < list->count ? list->items[i] : jinja_undefined("the first item of nothing");
}
FILTER(do_last) {
    UNUSED;
    if (self.kind == JINJA_LIST && self.list->flavor == JINJA_GENERATOR) {
        return JINJA_FAIL(j, "last: a generator has no last item");
    }
    size_t i;
    const struct jinja_list *list = jinja_items(j, self, &i);
    return i < list->count ? list->items[list->count - 1] : jinja_undefined("the last item of nothing");
}
FILTER(do_list) {
    UNUSED;
    size_t i;
    const struct jinja_list *from = jinja_items(j, self, &i);
    struct jinja_value list = jinja_list(j, JINJA_PLAIN);
    for (; i < from->count && j->status == KVC_OK; i++) {
        jinja_add(j, list, from->items[i]);
    }
    return list;
}
FILTER(do_reverse) {
    UNUSED;
    size_t first;
    if (self.kind == JINJA_LIST && self.list->flavor == JINJA_GENERATOR) {
        self = do_list(j, self, a, call);
    }
    if (j->status != KVC_OK) {
        return self;
    }
    const struct jinja_list *from = jinja_items(j, self, &first);
    struct jinja_value list = jinja_list(j, JINJA_GENERATOR);
    struct jinja_text text = {0};
    for (size_t i = from->count; i > 0 && j->status == KVC_OK; i--) {
        if (self.kind == JINJA_STRING) {
            jinja_put_all(j, &text, from->items[i - 1].string);
        } else {
            jinja_add(j, list, from->items[i - 1]);
        }
    }
    return self.kind == JINJA_STRING ? jinja_taken_safe(j, &text, self.string->safe) : list;
}
FILTER(do_items) {
    UNUSED;
    struct jinja_value list = jinja_list(j, JINJA_GENERATOR);
    if (self.kind != JINJA_DICT && self.kind != JINJA_UNDEFINED) {
        return JINJA_FAIL(j, "items: a %s is not a dict", jinja_type(self));
    }
    for (size_t i = 0; self.kind == JINJA_DICT && i < self.dict->count && j->status == KVC_OK; i++) {
        jinja_add(j, list, jinja_pair(j, self.dict->entries[i].key, self.dict->entries[i].value));
    }
    return list;
}

/* join(d='', attribute=None) */
FILTER(do_join) {
    UNUSED;
    size_t i;
    const struct jinja_list *list = jinja_items(j, self, &i);
    struct jinja_text text = {0};
    const struct jinja_string *between = a[0].kind == JINJA_UNSET ? NULL : jinja_str(j, a[0]);
    for (bool first = true; i < list->count && j->status == KVC_OK; i++, first = false) {
        if (!first && between) {
            jinja_put_all(j, &text, between);
        }
        jinja_put_str(j, &text, list_filters_given(a[1]) ? attribute_of(j, list->items[i], a[1]) : list->items[i]);
    }
    return jinja_taken(j, &text);
}

/* batch(linecount, fill_with=None) */
FILTER(do_batch) {
    UNUSED;
    size_t i;
    const struct jinja_list *from = jinja_items(j, self, &i);
    struct jinja_value all = jinja_list(j, JINJA_GENERATOR), part = jinja_none();
    if (!jinja_is_whole(a[0])) {
        return JINJA_FAIL(j, "batch: a count that is a %s is not supported", jinja_type(a[0]));
    }
    const int64_t count = jinja_whole(a[0]);
    for (; i < from->count && j->status == KVC_OK; i++) {
        if (part.kind == JINJA_NONE ? count == 0 : (int64_t)part.list->count == count) {
            jinja_add(j, all, part.kind == JINJA_NONE ? jinja_list(j, JINJA_PLAIN) : part);
            part = jinja_none();
        }
        part = part.kind == JINJA_NONE ? jinja_list(j, JINJA_PLAIN) : part;
        jinja_add(j, part, from->items[i]);
    }
    while (list_filters_given(a[1]) && part.kind == JINJA_LIST && (int64_t)part.list->count < count &&
           j->status == KVC_OK) {
        jinja_add(j, part, a[1]);
    }
    if (part.kind == JINJA_LIST) {
        jinja_add(j, all, part);
    }
    return all;
}

FILTER(do_attr) {
    UNUSED;
    if (a[0].kind != JINJA_STRING || self.kind == JINJA_DICT) {
        return jinja_undefined("an attribute");
    }
    return jinja_attribute(j, self, jinja_intern(j, a[0].string->data, a[0].string->bytes));
}

/* ---- map, select and their kin ---- */

/* Treats every false value, such as None or 0, as an empty list. */
static const struct jinja_list *items_if_any(struct jinja *j, struct jinja_value value, size_t *first) {
    return jinja_items(j, jinja_true(j, value) ? value : jinja_undefined(NULL), first);
}

/* Returns the call without its first arguments. */
static struct jinja_call rest(const struct jinja_call *call, size_t skip) {
    struct jinja_call left = *call;
    left.values += skip;
    left.count -= skip;
    return left;
}

static struct jinja_value by_name(const struct jinja_call *call, const char *name) {
    for (size_t i = 0; i < call->named_count; i++) {
        if (!strcmp(call->names[i], name)) {
            return call->named[i];
        }
    }
    return (struct jinja_value){.kind = JINJA_UNSET};
}

static const struct jinja_builtin *named(struct jinja *j, const char *kind, struct jinja_value name) {
    const struct jinja_builtin *builtin = NULL;
    if (name.kind == JINJA_STRING) {
        builtin = !strcmp(kind, "test") ? jinja_builtin(jinja_tests, name.string->data, name.string->bytes)
                                        : jinja_filter(name.string->data, name.string->bytes);
    }
    if (!builtin) {
        jinja_fail(j, "there is no %s of this name", kind);
    }
    return builtin;
}

FILTER(do_map) {
    UNUSED;
    size_t i;
    const struct jinja_value attribute = by_name(call, "attribute"), standard = by_name(call, "default");
    const struct jinja_list *from = items_if_any(j, self, &i);
    struct jinja_value list = jinja_list(j, JINJA_GENERATOR);
    const bool by_attribute = call->count == 0 && attribute.kind != JINJA_UNSET;
    if (!by_attribute && !call->count) {
        return JINJA_FAIL(j, "map: give the name of a filter, or attribute");
    }
    const struct jinja_builtin *filter = by_attribute || i == from->count ? NULL : named(j, "filter", call->values[0]);
    const struct jinja_call left = by_attribute ? *call : rest(call, 1);
    for (; i < from->count && j->status == KVC_OK; i++) {
        struct jinja_value made;
        if (by_attribute) {
            made = attribute_of(j, from->items[i], attribute);
            made = made.kind == JINJA_UNDEFINED && list_filters_given(standard) ? standard : made;
        } else {
            made = jinja_apply(j, "filter", filter, from->items[i], &left);
        }
        jinja_add(j, list, made);
    }
    return list;
}

/* Returns the items for which a test gives `wanted`. The test and its arguments begin at argument `skip`. If skip is 1,
 * argument 0 names an attribute to test. */
static struct jinja_value list_filters_choose(struct jinja *j, struct jinja_value self, const struct jinja_call *call,
                                              size_t skip, bool wanted) {
    size_t i;
    const struct jinja_list *from = items_if_any(j, self, &i);
    struct jinja_value list = jinja_list(j, JINJA_GENERATOR);
    if (call->count < skip) {
        return JINJA_FAIL(j, "the name of an attribute is missing");
    }
    const struct jinja_builtin *test = call->count > skip ? named(j, "test", call->values[skip]) : NULL;
    const struct jinja_call left = rest(call, test ? skip + 1 : skip);
    for (; i < from->count && j->status == KVC_OK; i++) {
        const struct jinja_value item = skip ? attribute_of(j, from->items[i], call->values[0]) : from->items[i];
        if (jinja_true(j, test ? jinja_apply(j, "test", test, item, &left) : item) == wanted) {
            jinja_add(j, list, from->items[i]);
        }
    }
    return list;
}

FILTER(do_select) {
    UNUSED;
    return list_filters_choose(j, self, call, 0, true);
}
FILTER(do_reject) {
    UNUSED;
    return list_filters_choose(j, self, call, 0, false);
}
FILTER(do_selectattr) {
    UNUSED;
    return list_filters_choose(j, self, call, 1, true);
}
FILTER(do_rejectattr) {
    UNUSED;
    return list_filters_choose(j, self, call, 1, false);
}

const struct jinja_builtin jinja_list_filters[] = {
    {"attr", "name", 1, do_attr},
    {"batch", "linecount fill_with", 1, do_batch},
    {"count", "", 0, do_length},
    {"dictsort", "case_sensitive by reverse", 0, do_dictsort},
    {"first", "", 0, do_first},
    {"groupby", "attribute", 1, NULL},
    {"items", "", 0, do_items},
    {"join", "d attribute", 0, do_join},
    {"last", "", 0, do_last},
    {"length", "", 0, do_length},
    {"list", "", 0, do_list},
    {"map", "*", 0, do_map},
    {"max", "case_sensitive attribute", 0, do_max},
    {"min", "case_sensitive attribute", 0, do_min},
    {"random", "", 0, NULL},
    {"reject", "*", 0, do_reject},
    {"rejectattr", "*", 0, do_rejectattr},
    {"reverse", "", 0, do_reverse},
    {"select", "*", 0, do_select},
    {"selectattr", "*", 0, do_selectattr},
    {"slice", "slices", 1, NULL},
    {"sort", "reverse case_sensitive attribute", 0, do_sort},
    {"sum", "attribute start", 0, do_sum},
    {"unique", "case_sensitive attribute", 0, do_unique},
    {NULL, NULL, 0, NULL},
};
