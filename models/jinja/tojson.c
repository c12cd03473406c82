/* tojson.c - the filter tojson as in transformers: Python's json.dumps, without HTML escapes. */
#include "models/jinja/parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct writer {
    struct jinja_text *text;
    const struct jinja_string *indent; /* NULL: one line */
    const struct jinja_string *between, *after_key;
    bool ascii, sorted;
};

static void put_quoted(struct jinja *j, const struct writer *writer, const struct jinja_string *string) {
    struct jinja_text *text = writer->text;
    jinja_puts(j, text, "\"");
    for (size_t at = 0; at < string->bytes && j->status == KVC_OK;) {
        static const char escaped[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
        uint32_t code;
        char out[16];
        const size_t bytes = jinja_next(string->data + at, string->bytes - at, &code);
        const bool marked = jinja_marked(string, at);
        unsigned k = 0;
        while (escaped[k] && (unsigned char)escaped[k] != code) {
            k++;
        }
        if (escaped[k]) {
            const char pair[2] = {'\\', letters[k]};
            jinja_put_made(j, text, pair, 2, marked);
        } else if (code < 0x20 || (writer->ascii && code >= 0x7f && code <= 0xffff)) {
            snprintf(out, sizeof out, "\\u%04x", (unsigned)code);
            jinja_put_made(j, text, out, strlen(out), marked);
        } else if (writer->ascii && code > 0xffff && code != KVC_NOT_UTF8) {
            snprintf(out, sizeof out, "\\u%04x\\u%04x", 0xd800u + ((code - 0x10000) >> 10),
                     0xdc00u + ((code - 0x10000) & 0x3ff));
            jinja_put_made(j, text, out, strlen(out), marked);
        } else {
            jinja_put(j, text, string, at, bytes);
        }
        at += bytes;
    }
    jinja_puts(j, text, "\"");
}

static void put_value(struct jinja *j, const struct writer *writer, struct jinja_value value, unsigned depth);

static void put_float(struct jinja *j, const struct writer *writer, double real) {
    if (isnan(real) || isinf(real)) {
        jinja_puts(j, writer->text, isnan(real) ? "NaN" : real > 0 ? "Infinity" : "-Infinity");
    } else {
        jinja_put_float(j, writer->text, real);
    }
}

static void new_line(struct jinja *j, const struct writer *writer, unsigned depth) {
    if (writer->indent) {
        jinja_puts(j, writer->text, "\n");
        for (unsigned i = 0; i < depth && j->status == KVC_OK; i++) {
            jinja_put_all(j, writer->text, writer->indent);
        }
    }
}

static void put_list(struct jinja *j, const struct writer *writer, const struct jinja_list *list, unsigned depth) {
    jinja_puts(j, writer->text, "[");
    for (size_t i = 0; i < list->count && jinja_step(j, 1); i++) {
        if (i) {
            jinja_put_all(j, writer->text, writer->between);
        }
        new_line(j, writer, depth + 1);
        put_value(j, writer, list->items[i], depth + 1);
    }
    if (list->count) {
        new_line(j, writer, depth);
    }
    jinja_puts(j, writer->text, "]");
}

static void put_key(struct jinja *j, const struct writer *writer, struct jinja_value key) {
    struct jinja_text text = {0};
    switch (key.kind) {
    case JINJA_STRING:
        put_quoted(j, writer, key.string);
        return;
    case JINJA_INT:
    case JINJA_FLOAT:
        jinja_put_repr(j, &text, key);
        break;
    case JINJA_BOOL:
        jinja_puts(j, &text, key.truth ? "true" : "false");
        break;
    case JINJA_NONE:
        jinja_puts(j, &text, "null");
        break;
    default:
        jinja_fail(j, "tojson: a %s cannot be a key", jinja_type(key));
        return;
    }
    const struct jinja_value made = jinja_taken(j, &text);
    if (j->status == KVC_OK) {
        put_quoted(j, writer, made.string);
    }
}

/* Sorts a dict by its keys. Uses insertion sort, which is fast if the keys are already in order. */
static const struct jinja_dict *tojson_sort(struct jinja *j, const struct jinja_dict *dict) {
    struct jinja_value copy = jinja_dict(j, JINJA_DICT);
    void *entries = jinja_alloc(j, (dict->count + 1) * sizeof *dict->entries);
    if (j->status != KVC_OK) {
        return dict;
    }
    copy.dict->entries = entries;
    for (size_t i = 0; i < dict->count && j->status == KVC_OK; i++) {
        size_t at = copy.dict->count++;
        for (; at > 0 && jinja_order(j, dict->entries[i].key, copy.dict->entries[at - 1].key) < 0; at--) {
            copy.dict->entries[at] = copy.dict->entries[at - 1];
        }
        copy.dict->entries[at] = dict->entries[i];
    }
    return copy.dict;
}

static void put_dict(struct jinja *j, const struct writer *writer, const struct jinja_dict *dict, unsigned depth) {
    if (writer->sorted) {
        dict = tojson_sort(j, dict);
    }
    jinja_puts(j, writer->text, "{");
    for (size_t i = 0; i < dict->count && jinja_step(j, 1); i++) {
        if (i) {
            jinja_put_all(j, writer->text, writer->between);
        }
        new_line(j, writer, depth + 1);
        put_key(j, writer, dict->entries[i].key);
        jinja_put_all(j, writer->text, writer->after_key);
        put_value(j, writer, dict->entries[i].value, depth + 1);
    }
    if (dict->count) {
        new_line(j, writer, depth);
    }
    jinja_puts(j, writer->text, "}");
}

static void put_value(struct jinja *j, const struct writer *writer, struct jinja_value value, unsigned depth) {
    if (!jinja_enter(j)) {
        jinja_leave(j);
        return;
    }
    switch (value.kind) {
    case JINJA_NONE:
        jinja_puts(j, writer->text, "null");
        break;
    case JINJA_BOOL:
        jinja_puts(j, writer->text, value.truth ? "true" : "false");
        break;
    case JINJA_INT:
        jinja_put_int(j, writer->text, value.whole);
        break;
    case JINJA_FLOAT:
        put_float(j, writer, value.real);
        break;
    case JINJA_STRING:
        put_quoted(j, writer, value.string);
        break;
    case JINJA_DICT:
        put_dict(j, writer, value.dict, depth);
        break;
    case JINJA_LIST:
        if (value.list->flavor <= JINJA_TUPLE) {
            put_list(j, writer, value.list, depth);
            break;
        }
        __attribute__((fallthrough));
    default:
        jinja_fail(j, "tojson: a %s cannot be written as JSON", jinja_type(value));
    }
    jinja_leave(j);
}

static struct jinja_value spaces(struct jinja *j, struct jinja_value count) {
    struct jinja_text text = {0};
    for (int64_t i = 0; i < jinja_whole(count) && j->status == KVC_OK; i++) {
        jinja_puts(j, &text, " ");
    }
    return jinja_taken(j, &text);
}

/* tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False) */
struct jinja_value jinja_tojson(struct jinja *j, struct jinja_value self, const struct jinja_value *a,
                                const struct jinja_call *call) {
    static const struct jinja_string comma = {",", 1, NULL, NULL, false}, comma_space = {", ", 2, NULL, NULL, false},
                                     colon = {": ", 2, NULL, NULL, false};
    struct jinja_text text = {0};
    struct writer writer = {&text, NULL, &comma_space, &colon, jinja_true(j, a[0]), jinja_true(j, a[3])};
    (void)call;
    if (a[1].kind == JINJA_STRING) {
        writer.indent = a[1].string;
    } else if (jinja_is_whole(a[1])) {
        writer.indent = jinja_str(j, spaces(j, a[1]));
    } else if (a[1].kind != JINJA_UNSET && a[1].kind != JINJA_NONE) {
        return JINJA_FAIL(j, "tojson: indent is a %s; it must be an int or a string", jinja_type(a[1]));
    }
    if (writer.indent) {
        writer.between = &comma;
    }
    if (a[2].kind == JINJA_LIST && a[2].list->count == 2 && a[2].list->items[0].kind == JINJA_STRING &&
        a[2].list->items[1].kind == JINJA_STRING) {
        writer.between = a[2].list->items[0].string;
        writer.after_key = a[2].list->items[1].string;
    } else if (a[2].kind != JINJA_UNSET && a[2].kind != JINJA_NONE) {
        return JINJA_FAIL(j, "tojson: separators must be two strings");
    }
    put_value(j, &writer, self, 0);
    return jinja_taken(j, &text);
}
