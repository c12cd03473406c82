/* functions.c - the global functions of templates, and the methods of dicts, lists and loops. */
#include "models/jinja/parts.h"

#include <string.h>

#define FUNCTION(name)                                                                                                 \
    static struct jinja_value name(struct jinja *j, struct jinja_value self, const struct jinja_value *a,              \
                                   const struct jinja_call *call)
#define UNUSED ((void)j, (void)self, (void)a, (void)call)

enum { MOST_RANGE = 100000 }; /* limit of Jinja's sandbox */

FUNCTION(do_range) {
    UNUSED;
    int64_t part[3] = {0, 0, 1};
    if (call->count < 1 || call->count > 3 || call->named_count) {
        return JINJA_FAIL(j, "range takes one to three numbers");
    }
    for (size_t i = 0; i < call->count; i++) {
        if (!jinja_is_whole(call->values[i])) {
            return JINJA_FAIL(j, "range: a %s is not an int", jinja_type(call->values[i]));
        }
        part[call->count == 1 ? 1 : i] = jinja_whole(call->values[i]);
    }
    if (part[2] == 0) {
        return JINJA_FAIL(j, "range: the step is 0");
    }
    struct jinja_value list = jinja_list(j, JINJA_RANGE);
    for (int64_t i = part[0]; (part[2] > 0 ? i < part[1] : i > part[1]) && j->status == KVC_OK;) {
        if (list.list->count == MOST_RANGE) {
            return JINJA_FAIL(j, "range: more than %d numbers", MOST_RANGE);
        }
        jinja_add(j, list, jinja_int(i));
        if (__builtin_add_overflow(i, part[2], &i)) {
            break;
        }
    }
    return list;
}

/* Implements dict(...) and namespace(...): an optional dict or list of pairs, then named entries. */
static struct jinja_value make_dict(struct jinja *j, const struct jinja_call *call, enum jinja_kind kind) {
    struct jinja_value made = jinja_dict(j, kind);
    if (call->count > 1) {
        return JINJA_FAIL(j, "dict and namespace take one dict at most");
    }
    if (call->count && call->values[0].kind == JINJA_DICT) {
        const struct jinja_dict *from = call->values[0].dict;
        for (size_t i = 0; i < from->count && j->status == KVC_OK; i++) {
            jinja_set(j, made.dict, from->entries[i].key, from->entries[i].value);
        }
    } else if (call->count) {
        size_t i, k;
        const struct jinja_list *from = jinja_items(j, call->values[0], &i);
        for (; i < from->count && j->status == KVC_OK; i++) {
            const struct jinja_list *pair = jinja_items(j, from->items[i], &k);
            if (pair->count - k != 2) {
                return JINJA_FAIL(j, "dict: an item is not a pair");
            }
            jinja_set(j, made.dict, pair->items[k], pair->items[k + 1]);
        }
    }
    for (size_t i = 0; i < call->named_count && j->status == KVC_OK; i++) {
        if (kind == JINJA_NAMESPACE && call->names[i][0] == '_') {
            return JINJA_FAIL(j, "%.60s: a namespace's names begin with a letter", call->names[i]);
        }
        jinja_set(j, made.dict, jinja_literal(j, call->names[i], strlen(call->names[i])), call->named[i]);
    }
    return made;
}
FUNCTION(do_dict) {
    UNUSED;
    return make_dict(j, call, JINJA_DICT);
}
FUNCTION(do_namespace) {
    UNUSED;
    return make_dict(j, call, JINJA_NAMESPACE);
}

FUNCTION(do_raise) {
    UNUSED;
    const struct jinja_string *text = jinja_str(j, a[0]);
    if (j->status == KVC_OK) {
        j->status = kvc_fail(j->error, KVC_USAGE, "%s, line %d, refuses the conversation: %.*s", j->where, j->line,
                             text->bytes > 300 ? 300 : (int)text->bytes, text->data);
    }
    return jinja_undefined(NULL);
}

FUNCTION(do_date) {
    UNUSED;
    return a[0].kind == JINJA_STRING ? jinja_date(j, a[0].string)
                                     : JINJA_FAIL(j, "strftime_now: the format must be a string");
}

const struct jinja_builtin jinja_globals[] = {
    {"cycler", "*", 0, NULL},
    {"dict", "*", 0, do_dict},
    {"joiner", "*", 0, NULL},
    {"lipsum", "*", 0, NULL},
    {"namespace", "*", 0, do_namespace},
    {"raise_exception", "message", 1, do_raise},
    {"range", "*", 0, do_range},
    {"strftime_now", "format", 1, do_date},
    {NULL, NULL, 0, NULL},
};

/* ---- methods ---- */

/* Refuses methods that change their object, as Jinja's sandbox for untrusted templates does. */
FUNCTION(changes) {
    UNUSED;
    return JINJA_FAIL(j, "a template must not change a %s", jinja_type(self));
}

FUNCTION(do_get) {
    UNUSED;
    if (!jinja_hashable(a[0])) {
        return JINJA_FAIL(j, "a %s cannot be a key", jinja_type(a[0]));
    }
    const struct jinja_value *value = jinja_find(j, self.dict, a[0]);
    return value ? *value : a[1].kind == JINJA_UNSET ? jinja_none() : a[1];
}

enum part { KEYS, VALUES, ITEMS };

static struct jinja_value view(struct jinja *j, struct jinja_value self, enum part part) {
    struct jinja_value list = jinja_list(j, JINJA_VIEW);
    for (size_t i = 0; i < self.dict->count && j->status == KVC_OK; i++) {
        const struct jinja_entry *entry = &self.dict->entries[i];
        jinja_add(j, list,
                  part == KEYS     ? entry->key
                  : part == VALUES ? entry->value
                                   : jinja_pair(j, entry->key, entry->value));
    }
    return list;
}
FUNCTION(do_keys) {
    UNUSED;
    return view(j, self, KEYS);
}
FUNCTION(do_values) {
    UNUSED;
    return view(j, self, VALUES);
}
FUNCTION(do_items) {
    UNUSED;
    return view(j, self, ITEMS);
}
FUNCTION(do_copy) {
    UNUSED;
    return self; /* values are immutable, so no copy is needed */
}

const struct jinja_builtin jinja_dict_methods[] = {
    {"clear", "*", 0, changes},        {"copy", "", 0, do_copy},     {"fromkeys", "*", 0, NULL},
    {"get", "key default", 1, do_get}, {"items", "", 0, do_items},   {"keys", "", 0, do_keys},
    {"pop", "*", 0, changes},          {"popitem", "*", 0, changes}, {"setdefault", "*", 0, changes},
    {"update", "*", 0, changes},       {"values", "", 0, do_values}, {NULL, NULL, 0, NULL},
};

FUNCTION(do_count) {
    UNUSED;
    int64_t count = 0;
    for (size_t i = 0; i < self.list->count && j->status == KVC_OK; i++) {
        count += jinja_equal(j, self.list->items[i], a[0]);
    }
    return jinja_int(count);
}
FUNCTION(do_index) {
    UNUSED;
    for (size_t i = 0; i < self.list->count && j->status == KVC_OK; i++) {
        if (jinja_equal(j, self.list->items[i], a[0])) {
            return jinja_int((int64_t)i);
        }
    }
    return JINJA_FAIL(j, "index: the value is not in the list");
}

const struct jinja_builtin jinja_list_methods[] = {
    {"append", "*", 0, changes},     {"clear", "*", 0, changes},  {"copy", "", 0, do_copy},
    {"count", "value", 1, do_count}, {"extend", "*", 0, changes}, {"index", "value", 1, do_index},
    {"insert", "*", 0, changes},     {"pop", "*", 0, changes},    {"remove", "*", 0, changes},
    {"reverse", "*", 0, changes},    {"sort", "*", 0, changes},   {NULL, NULL, 0, NULL},
};

/* The methods of tuples and of ranges. */
const struct jinja_builtin jinja_tuple_methods[] = {
    {"count", "value", 1, do_count},
    {"index", "value", 1, do_index},
    {NULL, NULL, 0, NULL},
};

FUNCTION(do_cycle) {
    UNUSED;
    return call->count ? call->values[self.loop->at % call->count]
                       : JINJA_FAIL(j, "loop.cycle: nothing to choose from");
}

/* Returns true if the arguments differ from the arguments of the previous call. */
FUNCTION(do_changed) {
    UNUSED;
    struct jinja_value values = jinja_list(j, JINJA_TUPLE);
    for (size_t i = 0; i < call->count && j->status == KVC_OK; i++) {
        jinja_add(j, values, call->values[i]);
    }
    if (j->status != KVC_OK || call->named_count) {
        return JINJA_FAIL(j, "loop.changed takes no named arguments");
    }
    const bool changed = !jinja_equal(j, self.loop->changed, values);
    self.loop->changed = values;
    return jinja_bool(changed);
}

const struct jinja_builtin jinja_loop_methods[] = {
    {"changed", "*", 0, do_changed},
    {"cycle", "*", 0, do_cycle},
    {NULL, NULL, 0, NULL},
};
