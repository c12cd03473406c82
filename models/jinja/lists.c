/* lists.c - creates, searches and iterates lists and dicts; converts values from JSON. */
#include "models/jinja/parts.h"

#include "core/base/assert.h"

#include <string.h>

struct jinja_value jinja_list(struct jinja *j, enum jinja_flavor flavor) {
    struct jinja_list *list = jinja_alloc(j, sizeof *list);
    if (!list) {
        return jinja_undefined(NULL);
    }
    list->flavor = flavor;
    return (struct jinja_value){.kind = JINJA_LIST, .list = list};
}

void jinja_add(struct jinja *j, struct jinja_value list, struct jinja_value item) {
    if (j->status != KVC_OK || !jinja_step(j, 1)) {
        return;
    }
    void *items = list.list->items;
    if (jinja_grow(j, &items, &list.list->capacity, list.list->count, sizeof item)) {
        list.list->items = items;
        list.list->items[list.list->count++] = item;
        KVC_ASSERT(list.list->count <= list.list->capacity);
    }
}

struct jinja_value jinja_pair(struct jinja *j, struct jinja_value a, struct jinja_value b) {
    struct jinja_value pair = jinja_list(j, JINJA_TUPLE);
    jinja_add(j, pair, a);
    jinja_add(j, pair, b);
    return pair;
}

struct jinja_value jinja_dict(struct jinja *j, enum jinja_kind kind) {
    struct jinja_dict *dict = jinja_alloc(j, sizeof *dict);
    return dict ? (struct jinja_value){.kind = kind, .dict = dict} : jinja_undefined(NULL);
}

struct jinja_value *jinja_find(struct jinja *j, const struct jinja_dict *dict, struct jinja_value key) {
    for (size_t i = 0; i < dict->count; i++) {
        const struct jinja_value *other = &dict->entries[i].key;
        if (other->kind == JINJA_STRING && key.kind == JINJA_STRING) {
            if (other->string->bytes == key.string->bytes && jinja_step(j, key.string->bytes / 16) &&
                !memcmp(other->string->data, key.string->data, key.string->bytes)) {
                return jinja_step(j, 1 + i / 4) ? &dict->entries[i].value : NULL;
            }
        } else if (jinja_equal(j, *other, key)) {
            return &dict->entries[i].value;
        }
    }
    jinja_step(j, 1 + dict->count / 4);
    return NULL;
}

struct jinja_value *jinja_find_text(struct jinja *j, const struct jinja_dict *dict, const char *key) {
    const struct jinja_string string = {key, strlen(key), NULL, NULL, false};
    return jinja_find(j, dict, (struct jinja_value){.kind = JINJA_STRING, .string = &string});
}

static void lists_append(struct jinja *j, struct jinja_dict *dict, struct jinja_value key, struct jinja_value value) {
    void *entries = dict->entries;
    if (jinja_grow(j, &entries, &dict->capacity, dict->count, sizeof *dict->entries)) {
        dict->entries = entries;
        dict->entries[dict->count++] = (struct jinja_entry){key, value};
        KVC_ASSERT(dict->count <= dict->capacity);
    }
}

void jinja_set(struct jinja *j, struct jinja_dict *dict, struct jinja_value key, struct jinja_value value) {
    if (!jinja_hashable(key)) {
        jinja_fail(j, "a %s cannot be a key", jinja_type(key));
        return;
    }
    struct jinja_value *old = jinja_find(j, dict, key);
    if (j->status != KVC_OK) {
        return;
    }
    if (old) {
        *old = value;
    } else {
        lists_append(j, dict, key, value);
    }
}

/* ---- iterating ---- */

static const struct jinja_list *characters_of(struct jinja *j, const struct jinja_string *string) {
    struct jinja_value list = jinja_list(j, JINJA_PLAIN);
    for (size_t at = 0; at < string->bytes && j->status == KVC_OK;) {
        uint32_t code;
        const size_t bytes = jinja_next(string->data + at, string->bytes - at, &code);
        jinja_add(j, list, jinja_part(j, string, at, bytes));
        at += bytes;
    }
    return j->status == KVC_OK ? list.list : NULL;
}

const struct jinja_list *jinja_items(struct jinja *j, struct jinja_value value, size_t *first) {
    static const struct jinja_list empty = {0};
    *first = 0;
    switch (value.kind) {
    case JINJA_UNDEFINED:
        return &empty;
    case JINJA_STRING: {
        const struct jinja_list *list = characters_of(j, value.string);
        return list ? list : &empty;
    }
    case JINJA_LIST:
        if (value.list->flavor == JINJA_GENERATOR) {
            *first = value.list->taken;
            KVC_ASSERT(value.list->taken <= value.list->count);
            value.list->taken = value.list->count;
        }
        return value.list;
    case JINJA_DICT: {
        struct jinja_value list = jinja_list(j, JINJA_PLAIN);
        for (size_t i = 0; i < value.dict->count && j->status == KVC_OK; i++) {
            jinja_add(j, list, value.dict->entries[i].key);
        }
        return j->status == KVC_OK ? list.list : &empty;
    }
    default:
        jinja_fail(j, "a %s cannot be iterated", jinja_type(value));
        return &empty;
    }
}

struct jinja_value jinja_length(struct jinja *j, struct jinja_value value) {
    switch (value.kind) {
    case JINJA_UNDEFINED:
        return jinja_int(0);
    case JINJA_STRING:
        jinja_step(j, value.string->bytes / 4);
        return jinja_int((int64_t)jinja_characters(value.string));
    case JINJA_LIST:
        if (value.list->flavor != JINJA_GENERATOR) {
            return jinja_int((int64_t)value.list->count);
        }
        break;
    case JINJA_DICT:
        return jinja_int((int64_t)value.dict->count);
    case JINJA_LOOP:
        return jinja_int((int64_t)value.loop->count);
    default:
        break;
    }
    return JINJA_FAIL(j, "a %s has no length", jinja_type(value));
}

/* ---- JSON ---- */

/* Returns true for one of the usual role names. Some templates build control tokens from the role ('<|' ~ message.role
 * ~ '|>'), and these names are safe. */
static bool is_role(const char *key, const json_t *json) {
    static const char *const roles[] = {"assistant", "developer", "environment",   "function",
                                        "ipython",   "model",     "observation",   "system",
                                        "tool",      "tool_call", "tool_response", "user"};
    for (size_t i = 0; i < sizeof roles / sizeof *roles && !strcmp(key, "role") && json_is_string(json); i++) {
        if (!strcmp(roles[i], json_string_value(json))) {
            return true;
        }
    }
    return false;
}

static struct jinja_value from_object(struct jinja *j, const json_t *json, bool marked) {
    struct jinja_value dict = jinja_dict(j, JINJA_DICT);
    void *object = (void *)(uintptr_t)json; /* jansson's iterators lack const but change nothing */
    for (void *at = json_object_iter(object); at && j->status == KVC_OK; at = json_object_iter_next(object, at)) {
        const char *key = json_object_iter_key(at);
        const json_t *member = json_object_iter_value(at);
        struct jinja_value name = jinja_copied(j, key, strlen(key), marked),
                           value = jinja_from_json(j, member, marked && !is_role(key, member));
        if (j->status == KVC_OK) {
            lists_append(j, dict.dict, name, value);
        }
    }
    return dict;
}

static struct jinja_value from_array(struct jinja *j, const json_t *json, bool marked) {
    struct jinja_value list = jinja_list(j, JINJA_PLAIN);
    for (size_t i = 0; i < json_array_size(json) && j->status == KVC_OK; i++) {
        jinja_add(j, list, jinja_from_json(j, json_array_get(json, i), marked));
    }
    return list;
}

struct jinja_value jinja_from_json(struct jinja *j, const json_t *json, bool marked) {
    struct jinja_value value = jinja_none();
    if (!jinja_enter(j)) {
        jinja_leave(j);
        return value;
    }
    switch (json_typeof(json)) {
    case JSON_OBJECT:
        value = from_object(j, json, marked);
        break;
    case JSON_ARRAY:
        value = from_array(j, json, marked);
        break;
    case JSON_STRING:
        value = jinja_copied(j, json_string_value(json), json_string_length(json), marked);
        break;
    case JSON_INTEGER:
        value = jinja_int(json_integer_value(json));
        break;
    case JSON_REAL:
        value = jinja_float(json_real_value(json));
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        value = jinja_bool(json_is_true(json));
        break;
    default:
        break;
    }
    jinja_leave(j);
    return value;
}
