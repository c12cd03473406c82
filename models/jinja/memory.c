/* memory.c - memory of a rendering, its limits and its single error. */
#include "models/jinja/parts.h"

#include "core/base/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 16, CHUNK = 1 << 16, DEEPEST = 1000 };

#define HEADER ((sizeof(struct jinja_chunk) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT)

void jinja_fail(struct jinja *j, const char *format, ...) {
    if (j->status != KVC_OK) {
        return;
    }
    char text[sizeof j->error->text];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    j->status = kvc_fail(j->error, KVC_INPUT, "%s, line %d: %s", j->where, j->line, text);
}

static void no_memory(struct jinja *j) {
    if (j->status == KVC_OK) {
        j->status = kvc_fail(j->error, KVC_RESOURCE, "%s, line %d: no memory", j->where, j->line);
    }
}

static bool add_chunk(struct jinja *j, size_t bytes) {
    const size_t capacity = bytes > CHUNK ? bytes : CHUNK;
    struct jinja_chunk *chunk = malloc(HEADER + capacity);
    if (!chunk) {
        no_memory(j);
        return false;
    }
    *chunk = (struct jinja_chunk){j->chunks, 0, capacity};
    j->chunks = chunk;
    return true;
}

void *jinja_alloc(struct jinja *j, size_t bytes) {
    if (j->status != KVC_OK) {
        return NULL;
    }
    if (bytes > j->memory) {
        jinja_fail(j, "the template needs too much memory");
        return NULL;
    }
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    j->memory -= bytes < j->memory ? bytes : j->memory;
    if ((!j->chunks || j->chunks->capacity - j->chunks->used < bytes) && !add_chunk(j, bytes)) {
        return NULL;
    }
    void *made = (char *)j->chunks + HEADER + j->chunks->used;
    j->chunks->used += bytes;
    memset(made, 0, bytes);
    return made;
}

bool jinja_grow(struct jinja *j, void **array, size_t *capacity, size_t count, size_t size) {
    if (count < *capacity) {
        return true;
    }
    const size_t next = *capacity ? *capacity * 2 : 4;
    KVC_ASSERT(size > 0 && next > count);
    if (next > SIZE_MAX / 2 / size) {
        jinja_fail(j, "the template needs too much memory");
        return false;
    }
    void *grown = jinja_alloc(j, next * size);
    if (!grown) {
        return false;
    }
    if (count) {
        memcpy(grown, *array, count * size);
    }
    *array = grown;
    *capacity = next;
    return true;
}

void jinja_close(struct jinja *j) {
    for (struct jinja_chunk *chunk = j->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    j->chunks = NULL;
}

/* ---- names ---- */

static uint64_t hash(const char *name, size_t bytes) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++) {
        h = (h ^ (unsigned char)name[i]) * 0x100000001b3u;
    }
    return h ^ h >> 32;
}

/* Finds the cell of a name. Each probe counts as a step, because names may have been chosen to collide. */
static size_t cell_of(struct jinja *j, const char *name, size_t bytes) {
    size_t cell = (size_t)hash(name, bytes) & (j->names_size - 1);
    KVC_ASSERT(j->names_size > 0 && (j->names_size & (j->names_size - 1)) == 0 && j->names_count < j->names_size);
    while (jinja_step(j, 1) && j->names[cell] && (strncmp(j->names[cell], name, bytes) != 0 || j->names[cell][bytes])) {
        cell = (cell + 1) & (j->names_size - 1);
    }
    return cell;
}

const char *jinja_intern(struct jinja *j, const char *name, size_t bytes) {
    if (j->names_count >= j->names_size / 2) {
        char **old = j->names;
        const size_t size = j->names_size;
        char **more = jinja_alloc(j, (size ? size * 2 : 256) * sizeof *more);
        if (!more) {
            return "";
        }
        j->names = more;
        j->names_size = size ? size * 2 : 256;
        for (size_t i = 0; i < size; i++) {
            if (old[i]) {
                j->names[cell_of(j, old[i], strlen(old[i]))] = old[i];
            }
        }
    }
    const size_t cell = cell_of(j, name, bytes);
    if (j->status != KVC_OK) {
        return "";
    }
    if (!j->names[cell]) {
        char *copy = jinja_alloc(j, bytes + 1);
        if (!copy) {
            return "";
        }
        memcpy(copy, name, bytes);
        j->names[cell] = copy;
        j->names_count++;
    }
    return j->names[cell];
}

/* ---- limits ---- */

bool jinja_step(struct jinja *j, uint64_t steps) {
    if (j->steps < steps) {
        jinja_fail(j, "the template takes too many steps");
    }
    j->steps -= steps < j->steps ? steps : j->steps;
    return j->status == KVC_OK;
}

bool jinja_enter(struct jinja *j) {
    if (++j->depth > DEEPEST) {
        jinja_fail(j, "the template is nested, or calls itself, more than %d levels deep", DEEPEST);
    }
    return j->status == KVC_OK;
}

void jinja_leave(struct jinja *j) {
    KVC_ASSERT(j->depth > 0); /* jinja_enter was called before */
    j->depth--;
}
