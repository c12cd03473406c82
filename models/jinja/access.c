/* access.c - attributes, items, slices and `in`. As in Jinja, a missing attribute is looked up as an item, and a
 * missing item as an attribute. */
#include "models/jinja/syntax.h"

#include "core/base/assert.h"

#include <string.h>

static struct jinja_value bind(struct jinja *j, const struct jinja_builtin *table, const char *name,
                               struct jinja_value self) {
    const struct jinja_builtin *builtin = jinja_builtin(table, name, strlen(name));
    if (!builtin) {
        return jinja_undefined(NULL);
    }
    struct jinja_bound *bound = jinja_alloc(j, sizeof *bound);
    if (!bound) {
        return jinja_undefined(NULL);
    }
    *bound = (struct jinja_bound){builtin, self, "method"};
    return (struct jinja_value){.kind = JINJA_BUILTIN, .bound = bound};
}

static struct jinja_value method(struct jinja *j, struct jinja_value of, const char *name) {
    switch (of.kind) {
    case JINJA_STRING:
        return bind(j,
                    jinja_builtin(jinja_class_methods, name, strlen(name)) ? jinja_class_methods : jinja_string_methods,
                    name, of);
    case JINJA_DICT:
        return bind(j, jinja_dict_methods, name, of);
    case JINJA_LIST:
        return of.list->flavor > JINJA_RANGE
                   ? jinja_undefined(NULL)
                   : bind(j, of.list->flavor == JINJA_PLAIN ? jinja_list_methods : jinja_tuple_methods, name, of);
    case JINJA_LOOP:
        return bind(j, jinja_loop_methods, name, of);
    default:
        return jinja_undefined(NULL);
    }
}

static struct jinja_value loop_attribute(const struct jinja_loop *loop, const char *name) {
    const int64_t at = (int64_t)loop->at, count = (int64_t)loop->count;
    KVC_ASSERT(loop->at < loop->count && loop->first + loop->count <= loop->list->count);
    const struct {
        const char *name;
        struct jinja_value value;
    } all[] = {{"index", jinja_int(at + 1)},
               {"index0", jinja_int(at)},
               {"revindex", jinja_int(count - at)},
               {"revindex0", jinja_int(count - at - 1)},
               {"first", jinja_bool(at == 0)},
               {"last", jinja_bool(at + 1 == count)},
               {"length", jinja_int(count)},
               {"depth", jinja_int(1)},
               {"depth0", jinja_int(0)},
               {"previtem", at ? loop->list->items[loop->first + loop->at - 1] : jinja_undefined("loop.previtem")},
               {"nextitem",
                at + 1 < count ? loop->list->items[loop->first + loop->at + 1] : jinja_undefined("loop.nextitem")}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!strcmp(name, all[i].name)) {
            return all[i].value;
        }
    }
    return jinja_undefined(name);
}

static struct jinja_value fail_on_undefined(struct jinja *j, struct jinja_value of, const char *name) {
    return JINJA_FAIL(j, "%.60s is undefined and so has no \"%.60s\"", of.what ? of.what : "a value", name);
}

static struct jinja_value macro_attribute(struct jinja *j, const struct jinja_node *node, const char *name) {
    if (!strcmp(name, "name")) {
        return node->kind == JINJA_MACRO_OF ? jinja_literal(j, node->name, strlen(node->name)) : jinja_none();
    }
    if (!strcmp(name, "arguments")) {
        struct jinja_value list = jinja_list(j, JINJA_TUPLE);
        for (const struct jinja_node *item = node->items; item && j->status == KVC_OK; item = item->next) {
            jinja_add(j, list, jinja_literal(j, item->name, strlen(item->name)));
        }
        return list;
    }
    return !strcmp(name, "catch_kwargs")    ? jinja_bool(node->specials & JINJA_KWARGS)
           : !strcmp(name, "catch_varargs") ? jinja_bool(node->specials & JINJA_VARARGS)
           : !strcmp(name, "caller")        ? jinja_bool(node->specials & JINJA_CALLER)
                                            : jinja_undefined(name);
}

struct jinja_value jinja_attribute(struct jinja *j, struct jinja_value of, const char *name) {
    if (of.kind == JINJA_UNDEFINED) {
        return fail_on_undefined(j, of, name);
    }
    if (of.kind == JINJA_LOOP) {
        const struct jinja_value value = loop_attribute(of.loop, name);
        if (value.kind != JINJA_UNDEFINED || value.what != name) {
            return value;
        }
    }
    const struct jinja_value found = of.kind == JINJA_NAMESPACE ? jinja_undefined(NULL) : method(j, of, name);
    if (found.kind != JINJA_UNDEFINED) {
        return found;
    }
    if (of.kind == JINJA_DICT || of.kind == JINJA_NAMESPACE) {
        const struct jinja_value *value = jinja_find_text(j, of.dict, name);
        return value ? *value : jinja_undefined(name);
    }
    if (of.kind == JINJA_MACRO) {
        return macro_attribute(j, of.macro->node, name);
    }
    return jinja_undefined(name);
}

/* Sets *at to index i among n items; a negative i counts from the end. Returns false if it is out of range. */
static bool access_place(int64_t i, size_t n, size_t *at) {
    if (i < 0) {
        i += (int64_t)n;
    }
    *at = (size_t)i;
    return i >= 0 && (uint64_t)i < n;
}

static struct jinja_value character(struct jinja *j, const struct jinja_string *text, int64_t i) {
    size_t at;
    uint32_t code;
    jinja_step(j, text->bytes / 4);
    if (!access_place(i, jinja_characters(text), &at)) {
        return jinja_undefined("a character past the end");
    }
    at = jinja_offset(text, at);
    const struct jinja_value one = jinja_part(j, text, at, jinja_next(text->data + at, text->bytes - at, &code));
    return jinja_safe_as(j, one, text);
}

struct jinja_value jinja_item(struct jinja *j, struct jinja_value of, struct jinja_value key) {
    if (of.kind == JINJA_UNDEFINED) {
        const char *name = key.kind == JINJA_STRING ? jinja_intern(j, key.string->data, key.string->bytes) : "items";
        return fail_on_undefined(j, of, name);
    }
    if (of.kind == JINJA_DICT && jinja_hashable(key)) {
        const struct jinja_value *value = jinja_find(j, of.dict, key);
        if (value) {
            return *value;
        }
    }
    if (jinja_is_whole(key)) {
        size_t at;
        if (of.kind == JINJA_STRING) {
            return character(j, of.string, jinja_whole(key));
        }
        if (of.kind == JINJA_LIST && of.list->flavor <= JINJA_RANGE) {
            return access_place(jinja_whole(key), of.list->count, &at) ? of.list->items[at]
                                                                       : jinja_undefined("an item past the end");
        }
        return jinja_undefined("an item");
    }
    if (key.kind != JINJA_STRING) {
        return jinja_undefined("an item");
    }
    const char *name = jinja_intern(j, key.string->data, key.string->bytes);
    if (of.kind == JINJA_NAMESPACE || of.kind == JINJA_LOOP) {
        return jinja_attribute(j, of, name);
    }
    const struct jinja_value found = method(j, of, name);
    return found.kind == JINJA_UNDEFINED ? jinja_undefined(name) : found;
}

/* ---- slices ---- */

/* Computes one end of a slice as Python does: clamped to 0..n (step > 0) or -1..n-1. */
static bool slice_end(struct jinja *j, struct jinja_value end, int64_t n, int64_t step, int64_t standard, int64_t *at) {
    if (end.kind == JINJA_UNSET || end.kind == JINJA_NONE) {
        *at = standard;
        return true;
    }
    if (!jinja_is_whole(end)) {
        jinja_fail(j, "an end of a slice is a %s; it must be an int", jinja_type(end));
        return false;
    }
    int64_t i = jinja_whole(end);
    i += i < 0 ? n : 0;
    const int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    *at = i < low ? low : i > high ? high : i;
    return true;
}

static struct jinja_value slice_text(struct jinja *j, const struct jinja_string *text, int64_t from, int64_t to,
                                     int64_t step) {
    if (step == 1) {
        const size_t begin = jinja_offset(text, (size_t)from),
                     end = jinja_offset(text, (size_t)(to > from ? to : from));
        return jinja_part(j, text, begin, end - begin);
    }
    size_t first;
    const struct jinja_list *all = jinja_items(j, (struct jinja_value){.kind = JINJA_STRING, .string = text}, &first);
    struct jinja_text out = {0};
    for (int64_t i = from; (step > 0 ? i < to : i > to) && j->status == KVC_OK; i += step) {
        jinja_put_all(j, &out, all->items[i].string);
        jinja_step(j, 1);
    }
    return jinja_taken(j, &out);
}

struct jinja_value jinja_slice(struct jinja *j, struct jinja_value of, const struct jinja_value part[3]) {
    int64_t step = 1, from, to;
    if (of.kind != JINJA_STRING && (of.kind != JINJA_LIST || of.list->flavor > JINJA_RANGE)) {
        return JINJA_FAIL(j, "a %s has no slices", jinja_type(of));
    }
    if (jinja_is_whole(part[2])) {
        step = jinja_whole(part[2]);
    } else if (part[2].kind != JINJA_UNSET && part[2].kind != JINJA_NONE) {
        return JINJA_FAIL(j, "a slice's step is a %s; it must be an int", jinja_type(part[2]));
    }
    if (step == 0) {
        return JINJA_FAIL(j, "a slice's step is 0");
    }
    const struct jinja_value length = jinja_length(j, of);
    const int64_t n = length.kind == JINJA_INT ? length.whole : 0, most = n + 1;
    step = step > most ? most : step < -most ? -most : step;
    if (!slice_end(j, part[0], n, step, step < 0 ? n - 1 : 0, &from) ||
        !slice_end(j, part[1], n, step, step < 0 ? -1 : n, &to)) {
        return jinja_undefined(NULL);
    }
    if (of.kind == JINJA_STRING) {
        return jinja_safe_as(j, slice_text(j, of.string, from, to, step), of.string);
    }
    struct jinja_value list = jinja_list(j, of.list->flavor);
    for (int64_t i = from; (step > 0 ? i < to : i > to) && j->status == KVC_OK; i += step) {
        jinja_add(j, list, of.list->items[i]);
    }
    return list;
}

/* ---- in ---- */

bool jinja_contains(struct jinja *j, struct jinja_value in, struct jinja_value what) {
    if (in.kind == JINJA_STRING) {
        if (what.kind != JINJA_STRING) {
            jinja_fail(j, "a %s cannot be in a string", jinja_type(what));
            return false;
        }
        jinja_step(j, in.string->bytes / 16);
        return jinja_search(in.string->data, in.string->bytes, 0, what.string->data, what.string->bytes) != SIZE_MAX;
    }
    if (in.kind == JINJA_DICT) {
        if (!jinja_hashable(what)) {
            jinja_fail(j, "a %s cannot be a key", jinja_type(what));
            return false;
        }
        return jinja_find(j, in.dict, what) != NULL;
    }
    size_t i;
    const struct jinja_list *list = jinja_items(j, in, &i);
    for (; i < list->count && j->status == KVC_OK; i++) {
        if (jinja_equal(j, list->items[i], what)) {
            return true;
        }
    }
    return false;
}
