/* text.c - strings and growing text. Each byte has a mark that tells whether the caller wrote it in messages, tools or
 * variables.
 *
 * A template decides where control tokens are; a caller's text must never create one. So a string knows which of its
 * bytes the caller wrote, and every copy of bytes also copies their marks. jinja_cut and jinja_part take a part of a
 * string; jinja_put appends a part of a string to a text. jinja_puts appends text of the engine. jinja_put_made appends
 * characters derived from others, such as uppercase letters. */
#include "models/jinja/parts.h"

#include "core/base/assert.h"

#include <string.h>

/* ---- strings ---- */

struct jinja_string jinja_cut(const struct jinja_string *string, size_t at, size_t bytes) {
    KVC_ASSERT(at <= string->bytes && bytes <= string->bytes - at);
    return (struct jinja_string){string->data + at, bytes, string->marks ? string->marks + at : NULL, NULL, false};
}

bool jinja_marked(const struct jinja_string *string, size_t at) { return string->marks && string->marks[at]; }

static struct jinja_value kept(struct jinja *j, struct jinja_string string) {
    struct jinja_string *copy = jinja_alloc(j, sizeof *copy);
    if (!copy) {
        return jinja_undefined(NULL);
    }
    *copy = string;
    return (struct jinja_value){.kind = JINJA_STRING, .string = copy};
}

struct jinja_value jinja_part(struct jinja *j, const struct jinja_string *string, size_t at, size_t bytes) {
    return kept(j, jinja_cut(string, at, bytes));
}

struct jinja_value jinja_literal(struct jinja *j, const char *data, size_t bytes) {
    return kept(j, (struct jinja_string){data, bytes, NULL, NULL, false});
}

struct jinja_value jinja_copied(struct jinja *j, const char *data, size_t bytes, bool marked) {
    char *copy = jinja_alloc(j, bytes + 1), *marks = marked ? jinja_alloc(j, bytes + 1) : NULL;
    if (!copy || (marked && !marks)) {
        return jinja_undefined(NULL);
    }
    memcpy(copy, data, bytes);
    if (marks) {
        memset(marks, 1, bytes);
    }
    return kept(j, (struct jinja_string){copy, bytes, marks, NULL, false});
}

static void copy_marks(char *to, const char *marks, size_t bytes) {
    if (marks) {
        memcpy(to, marks, bytes);
    } else {
        memset(to, 0, bytes);
    }
}

/* Makes a store that begins with the bytes of a and has extra room. */
static struct jinja_store *store_of(struct jinja *j, const struct jinja_string *a, size_t bytes) {
    struct jinja_store *store = jinja_alloc(j, sizeof *store);
    const size_t capacity = bytes < 256 ? bytes : 2 * bytes;
    KVC_ASSERT(a->bytes <= bytes);
    char *data = jinja_alloc(j, capacity + 1);
    if (!store || !data) {
        return NULL;
    }
    memcpy(data, a->data, a->bytes);
    *store = (struct jinja_store){data, NULL, a->bytes, capacity};
    jinja_step(j, a->bytes / 16);
    return store;
}

/* Appends b to a. Uses the room in a's store if possible, so that text which a template builds piece by piece is not
 * copied every time. */
static struct jinja_value put_behind(struct jinja *j, const struct jinja_string *a, const struct jinja_string *b) {
    struct jinja_store *store = a->store;
    const size_t bytes = a->bytes + b->bytes;
    if (!store || a->data != store->data || store->used != a->bytes || store->capacity - store->used < b->bytes) {
        store = store_of(j, a, bytes);
        if (!store) {
            return jinja_undefined(NULL);
        }
    }
    if (!store->marks && (a->marks || b->marks)) {
        store->marks = jinja_alloc(j, store->capacity + 1);
        if (!store->marks) {
            return jinja_undefined(NULL);
        }
        copy_marks(store->marks, a->marks, a->bytes);
    }
    memcpy(store->data + store->used, b->data, b->bytes);
    if (store->marks) {
        copy_marks(store->marks + store->used, b->marks, b->bytes);
    }
    store->used += b->bytes;
    KVC_ASSERT(store->used == bytes && store->used <= store->capacity);
    jinja_step(j, b->bytes / 16);
    return kept(j, (struct jinja_string){store->data, bytes, store->marks, store, a->safe || b->safe});
}

/* Joins two strings. If only one is marked safe, the other is escaped. */
struct jinja_value jinja_joined(struct jinja *j, const struct jinja_string *a, const struct jinja_string *b) {
    if (a->safe != b->safe) {
        struct jinja_text text = {0};
        jinja_put_escaped(j, &text, a->safe ? b : a);
        struct jinja_string escaped = jinja_seen(&text);
        escaped.safe = true;
        return a->safe ? put_behind(j, a, &escaped) : put_behind(j, &escaped, b);
    }
    return put_behind(j, a, b);
}

/* ---- growing text ---- */

/* Makes room for `bytes` more bytes. Adds marks if the new bytes are marked. */
static bool make_room(struct jinja *j, struct jinja_text *text, size_t bytes, bool marked) {
    const bool wider = bytes > text->capacity - text->bytes, marks = marked && !text->marks;
    if (!wider && !marks) {
        return true;
    }
    if (bytes > j->memory) {
        jinja_fail(j, "the template writes too much");
        return false;
    }
    const size_t capacity = wider ? 2 * (text->bytes + bytes) + 32 : text->capacity;
    char *grown = wider ? jinja_alloc(j, capacity) : text->data;
    char *grown_marks = text->marks || marked ? jinja_alloc(j, capacity) : NULL;
    if (!grown || ((text->marks || marked) && !grown_marks)) {
        return false;
    }
    if (wider && text->bytes) {
        memcpy(grown, text->data, text->bytes);
    }
    if (text->marks && text->bytes) {
        memcpy(grown_marks, text->marks, text->bytes);
    }
    *text = (struct jinja_text){grown, grown_marks, text->bytes, capacity};
    return true;
}

static void text_put(struct jinja *j, struct jinja_text *text, const char *data, const char *marks, size_t bytes,
                     bool marked) {
    if (j->status != KVC_OK || !bytes || !make_room(j, text, bytes, marked || marks)) {
        return;
    }
    memcpy(text->data + text->bytes, data, bytes);
    if (marks) {
        memcpy(text->marks + text->bytes, marks, bytes);
    } else if (text->marks) {
        memset(text->marks + text->bytes, marked, bytes);
    }
    text->bytes += bytes;
    KVC_ASSERT(text->bytes <= text->capacity);
    jinja_step(j, bytes / 16);
}

void jinja_put(struct jinja *j, struct jinja_text *text, const struct jinja_string *from, size_t at, size_t bytes) {
    KVC_ASSERT(at <= from->bytes && bytes <= from->bytes - at);
    text_put(j, text, from->data + at, from->marks ? from->marks + at : NULL, bytes, false);
}

void jinja_put_all(struct jinja *j, struct jinja_text *text, const struct jinja_string *from) {
    jinja_put(j, text, from, 0, from->bytes);
}

void jinja_put_made(struct jinja *j, struct jinja_text *text, const char *data, size_t bytes, bool marked) {
    text_put(j, text, data, NULL, bytes, marked);
}

void jinja_puts(struct jinja *j, struct jinja_text *text, const char *data) {
    text_put(j, text, data, NULL, strlen(data), false);
}

struct jinja_string jinja_seen(const struct jinja_text *text) {
    return (struct jinja_string){text->data ? text->data : "", text->bytes, text->marks, NULL, false};
}

struct jinja_value jinja_taken_safe(struct jinja *j, const struct jinja_text *text, bool safe) {
    struct jinja_string string = jinja_seen(text);
    string.safe = safe;
    return kept(j, string);
}

struct jinja_value jinja_taken(struct jinja *j, const struct jinja_text *text) {
    return jinja_taken_safe(j, text, false);
}

struct jinja_value jinja_safe_as(struct jinja *j, struct jinja_value made, const struct jinja_string *from) {
    if (!from->safe || j->status != KVC_OK) {
        return made;
    }
    if (made.kind == JINJA_STRING) {
        struct jinja_string string = *made.string;
        string.safe = true;
        return kept(j, string);
    }
    for (size_t i = 0; made.kind == JINJA_LIST && i < made.list->count; i++) {
        made.list->items[i] = jinja_safe_as(j, made.list->items[i], from);
    }
    return made;
}
