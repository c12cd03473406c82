/* render.c - renders a template: from its source to its output. */
#include "models/files/json.h"
#include "models/jinja/syntax.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_SOURCE = 1 << 20,
    STEPS = 20000000,
    MEMORY = 64 << 20,
    SHARE = 48,
    MOST_INPUT = 1 << 30,
    MOST_VARIABLES = 256
};

/* Returns the approximate size in bytes of the strings in a value. */
static uint64_t bytes_of(const json_t *json, unsigned depth) {
    uint64_t bytes = 64;
    if (json_is_string(json)) {
        bytes += json_string_length(json);
    } else if (json_is_array(json) && depth < KVC_JSON_DEEPEST) {
        for (size_t i = 0; i < json_array_size(json); i++) {
            bytes += bytes_of(json_array_get(json, i), depth + 1);
        }
    } else if (json_is_object(json) && depth < KVC_JSON_DEEPEST) {
        void *object = (void *)(uintptr_t)json;
        for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
            bytes += 64 + strlen(json_object_iter_key(at)) + bytes_of(json_object_iter_value(at), depth + 1);
        }
    }
    return bytes;
}

static void set_variables(struct jinja *j, const json_t *variables, bool marked) {
    void *object = (void *)(uintptr_t)variables;
    if (json_object_size(variables) > MOST_VARIABLES) { /* limits the cost of linear searches */
        jinja_fail(j, "%zu variables; there may be %d", json_object_size(variables), MOST_VARIABLES);
        return;
    }
    for (void *at = json_object_iter(object); at && j->status == KVC_OK; at = json_object_iter_next(object, at)) {
        const char *name = json_object_iter_key(at);
        jinja_assign(j, j->scope, jinja_intern(j, name, strlen(name)),
                     jinja_from_json(j, json_object_iter_value(at), marked));
    }
}

/* Runs the template. The template's variables are in an inner scope and hide given variables of the same names. */
static void render_run(struct jinja *j, const struct kvc_jinja_job *job) {
    const struct jinja_node *first = NULL;
    if (job->bytes > MOST_SOURCE) {
        jinja_fail(j, "the template has %zu bytes; it may have %d", job->bytes, MOST_SOURCE);
        return;
    }
    j->loop = jinja_intern(j, "loop", 4);
    j->caller = jinja_intern(j, "caller", 6);
    j->scope = jinja_scope_open(j, NULL);
    if (j->status == KVC_OK) {
        set_variables(j, job->own, false);
        set_variables(j, job->variables, true);
        first = jinja_parse(j, job->source, job->bytes);
    }
    if (j->status == KVC_OK) {
        j->scope = jinja_scope_open(j, j->scope);
        jinja_execute(j, first);
    }
    if (j->status == KVC_OK && j->out->bytes && memchr(j->out->data, '\0', j->out->bytes)) {
        jinja_fail(j, "the template writes a byte 0");
    }
}

static enum kvc_status hand_over(const struct jinja *j, struct kvc_rendered *made) {
    const struct jinja_text *out = j->out;
    char *text = calloc(2, out->bytes + 1);
    if (!text) {
        return kvc_fail(j->error, KVC_RESOURCE, "%s: no memory for the prompt", j->where);
    }
    *made = (struct kvc_rendered){text, text + out->bytes + 1, out->bytes};
    if (out->bytes) {
        memcpy(made->text, out->data, out->bytes);
    }
    if (out->marks) {
        memcpy(made->marks, out->marks, out->bytes);
    }
    return KVC_OK;
}

enum kvc_status kvc_jinja_render(const struct kvc_jinja_job *job, struct kvc_rendered *made, struct kvc_error *error) {
    struct kvc_error unwanted;
    struct jinja_text out = {0};
    struct jinja j = {.where = job->where,
                      .date = job->date,
                      .error = error ? error : &unwanted,
                      .line = 1,
                      .steps = STEPS,
                      .memory = MEMORY,
                      .out = &out};
    const uint64_t input = bytes_of(job->variables, 0) + job->bytes;
    *made = (struct kvc_rendered){0};
    if (input > MOST_INPUT) {
        return kvc_fail(error, KVC_USAGE, "%s: a conversation of %llu bytes is too long", job->where,
                        (unsigned long long)input);
    }
    j.steps += input;
    j.memory += input * SHARE;
    render_run(&j, job);
    if (j.status == KVC_OK) {
        j.status = hand_over(&j, made);
    }
    jinja_close(&j);
    return j.status;
}

bool kvc_jinja_reads(const char *source, size_t bytes, const char *variable) {
    struct kvc_error unwanted;
    struct jinja j = {.where = "", .error = &unwanted, .line = 1, .steps = STEPS, .memory = MEMORY};
    j.watched = jinja_intern(&j, variable, strlen(variable));
    if (bytes <= MOST_SOURCE) {
        jinja_parse(&j, source, bytes);
    }
    const bool read = j.read || j.status != KVC_OK || bytes > MOST_SOURCE;
    jinja_close(&j);
    return read;
}
