/* trace.c - opens a trace, installs its table of operations, and writes its lines. */
#include "core/engine/trace_write.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/canon.h"
#include "core/engine/session.h"

#define HEADING "kvcull trace" /* beginning of the file's first line, before the version of the format */

/* ---- the table of operations ---- */

/* Restores the device's own table while an operation runs, because some operations call others. */
static struct kvc_trace *enter(struct kvc_device *device) {
    struct kvc_trace *trace = (struct kvc_trace *)(uintptr_t)device->ops;
    device->ops = trace->real;
    return trace;
}

static void leave(struct kvc_trace *trace) {
    kvc_trace_release(trace, 0);
    trace->device->ops = &trace->ops;
}

#define KVC_OPERATION(name, parameters, ...)                                                                           \
    static void run_##name(struct kvc_device *device, const struct parameters *args) {                                 \
        struct kvc_trace *trace = enter(device);                                                                       \
        device->ops->name(device, args);                                                                               \
        kvc_trace_##name(trace, args);                                                                                 \
        leave(trace);                                                                                                  \
    }
#include "core/base/ops.def"

static void add_weight(struct kvc_trace *trace, const struct kvc_weight *weight, uint64_t outputs, uint64_t inputs) {
    struct kvc_trace_weight *weights =
        kvc_trace_grow(trace, trace->weights, &trace->weight_capacity, trace->weight_count + 1, sizeof *weights);
    if (!weights)
        return;
    trace->weights = weights;
    weights[trace->weight_count++] = (struct kvc_trace_weight){weight, outputs, inputs};
}

static enum kvc_status run_weight_create(struct kvc_device *device, enum kvc_type type, uint64_t outputs,
                                         uint64_t inputs, const void *host, struct kvc_weight **weight,
                                         struct kvc_error *error) {
    struct kvc_trace *trace = enter(device);
    const enum kvc_status status = device->ops->weight_create(device, type, outputs, inputs, host, weight, error);
    if (status == KVC_OK)
        add_weight(trace, *weight, outputs, inputs);
    leave(trace);
    return status;
}

static enum kvc_status run_experts_create(struct kvc_device *device, enum kvc_type type, uint32_t experts,
                                          uint64_t outputs, uint64_t inputs, const void *const *host,
                                          struct kvc_weight **weight, struct kvc_error *error) {
    struct kvc_trace *trace = enter(device);
    const enum kvc_status status =
        device->ops->experts_create(device, type, experts, outputs, inputs, host, weight, error);
    if (status == KVC_OK)
        add_weight(trace, *weight, outputs, inputs);
    leave(trace);
    return status;
}

static void run_weight_free(struct kvc_device *device, struct kvc_weight *weight) {
    struct kvc_trace *trace = enter(device);
    for (size_t i = 0; i < trace->weight_count; i++)
        if (trace->weights[i].weight == weight)
            trace->weights[i] = trace->weights[--trace->weight_count];
    device->ops->weight_free(device, weight);
    leave(trace);
}

/* Writes the lines of a step to the file. The step fails if they cannot be written. */
static enum kvc_status run_sync(struct kvc_device *device, struct kvc_error *error) {
    struct kvc_trace *trace = enter(device);
    const enum kvc_status status = device->ops->sync(device, error);
    if (fflush(trace->file) != 0 && !trace->failed)
        trace->failed = errno;
    leave(trace);
    if (status == KVC_OK && trace->failed)
        return kvc_fail(error, KVC_RESOURCE, "trace %s: cannot be written: %s", trace->path, strerror(trace->failed));
    return status;
}

static void trace_free(struct kvc_trace *trace) {
    if (trace->file)
        fclose(trace->file);
    free(trace->path);
    free(trace->sessions);
    free(trace->rows);
    free(trace->pair);
    free(trace->weights);
    free(trace);
}

static void run_close(struct kvc_device *device) {
    struct kvc_trace *trace = enter(device);
    device->ops->close(device);
    trace_free(trace);
}

/* Replaces the device's table by the trace's functions, which call `real`. A fused operation that `real` lacks stays
 * absent. */
static void install(struct kvc_trace *trace, const struct kvc_ops *real) {
    trace->real = real;
    trace->ops = *real;
#define KVC_OPERATION(name, parameters, ...) trace->ops.name = real->name ? run_##name : NULL;
#include "core/base/ops.def"
    trace->ops.weight_create = run_weight_create;
    trace->ops.experts_create = run_experts_create;
    trace->ops.weight_free = run_weight_free;
    trace->ops.sync = run_sync;
    trace->ops.close = run_close;
    trace->device->ops = &trace->ops;
}

enum kvc_status kvc_trace_inject(struct kvc_trace *trace, const char *operation,
                                 enum kvc_status (*inject)(struct kvc_device *, const char *, bool, struct kvc_error *),
                                 struct kvc_error *error) {
    struct kvc_device *device = trace->device;
    device->ops = trace->real;
    const enum kvc_status status = inject(device, operation, false, error);
    install(trace, device->ops);
    return status;
}

/* ---- opening ---- */

static bool is_operation(const char *name) {
#define KVC_OPERATION(operation, parameters, ...)                                                                      \
    if (strcmp(name, #operation) == 0)                                                                                 \
        return true;
#include "core/base/ops.def"
    return false;
}

/* Reads a number, or "*" as -1. Returns the rest of the text after a ':' or at its end; NULL if there is no number. */
static const char *read_number(const char *text, int64_t *number) {
    char *end;
    if (text[0] == '*') {
        *number = -1;
        end = (char *)(uintptr_t)text + 1;
    } else {
        errno = 0;
        *number = strtoll(text, &end, 10);
        if (end == text || text[0] < '0' || text[0] > '9' || errno)
            return NULL;
    }
    return *end == ':' ? end + 1 : *end == '\0' ? end : NULL;
}

/* Parses "all" or POSITION[:LAYER[:OPERATION]]. */
static bool parse_values(const char *text, struct kvc_trace_values *values) {
    *values = (struct kvc_trace_values){.any = true, .position = -1, .layer = -1};
    if (strcmp(text, "all") == 0)
        return true;
    const char *rest = read_number(text, &values->position);
    if (rest && *rest)
        rest = read_number(rest, &values->layer);
    if (!rest || strlen(rest) >= sizeof values->operation || (*rest && !is_operation(rest)))
        return false;
    strcpy(values->operation, rest);
    return true;
}

/* Returns false for a file whose contents are not a trace: a mistaken name must not destroy them. */
static bool may_replace(const char *path) {
    char line[sizeof HEADING] = "";
    struct stat about;
    if (stat(path, &about) != 0 || !S_ISREG(about.st_mode))
        return true;
    FILE *file = fopen(path, "re");
    if (!file)
        return true;
    const bool empty = !fgets(line, sizeof line, file);
    fclose(file);
    return empty || strcmp(line, HEADING) == 0;
}

static enum kvc_status open_file(struct kvc_trace *trace, const struct kvc_engine_options *options, uint32_t rank,
                                 struct kvc_error *error) {
    const size_t bytes = strlen(options->trace) + sizeof ".rank4294967295";
    trace->path = malloc(bytes);
    if (!trace->path)
        return kvc_fail(error, KVC_RESOURCE, "trace: no memory");
    snprintf(trace->path, bytes, rank ? "%s.rank%" PRIu32 : "%s", options->trace, rank);
    if (!may_replace(trace->path))
        return kvc_fail(error, KVC_USAGE, "trace %s: exists and is not a trace; give another name", trace->path);
    trace->file = fopen(trace->path, "we");
    if (!trace->file)
        return kvc_fail(error, KVC_RESOURCE, "trace %s: cannot be written: %s", trace->path, strerror(errno));
    fprintf(trace->file, HEADING " 1\n# version: %s\n# arithmetic: %d\n# math: %s\n# backend: %s\n", KVC_VERSION,
            KVC_ARITHMETIC_VERSION,
            options->math == KVC_MATH_FLOAT   ? "float"
            : options->math == KVC_MATH_INT8  ? "int8"
            : options->math == KVC_MATH_INT16 ? "int16"
                                              : "fast",
            trace->device->name);
    return KVC_OK;
}

enum kvc_status kvc_trace_open(struct kvc_engine *engine, const struct kvc_engine_options *options, uint32_t rank,
                               struct kvc_error *error) {
    struct kvc_trace *trace = calloc(1, sizeof *trace);
    if (!trace)
        return kvc_fail(error, KVC_RESOURCE, "trace: no memory");
    trace->device = engine->device;
    enum kvc_status status = KVC_OK;
    if (options->trace_values && !parse_values(options->trace_values, &trace->values))
        status = kvc_fail(error, KVC_USAGE,
                          "trace values '%s': must be all or POSITION[:LAYER[:OPERATION]], with * for any number",
                          options->trace_values);
    if (status == KVC_OK)
        status = open_file(trace, options, rank, error);
    if (status != KVC_OK) {
        trace_free(trace);
        return status;
    }
    install(trace, engine->device->ops);
    engine->trace = trace;
    return KVC_OK;
}

/* ---- the rows that operations compute ---- */

void kvc_trace_set_sessions(struct kvc_trace *trace, struct kvc_session *const *sessions, uint32_t count) {
    uint32_t *numbers = kvc_trace_grow(trace, trace->sessions, &trace->session_capacity, count, sizeof *numbers);
    if (!numbers)
        return;
    trace->sessions = numbers;
    trace->session_count = count;
    for (uint32_t i = 0; i < count; i++)
        trace->sessions[i] = sessions[i]->number;
    const struct kvc_runner *runner = sessions[0]->runner;
    const bool sharded = runner->network && runner->network->part.heads_sharded;
    trace->first_kv_head = sharded ? runner->network->part.first_kv_head : 0;
    trace->kv_heads = sharded ? runner->geometry.kv_heads : 0;
}

void kvc_trace_set_rows(struct kvc_trace *trace, enum kvc_trace_part part, uint32_t number,
                        const struct kvc_batch *batch, uint32_t row, uint32_t rows) {
    trace->device->ops = trace->real;
    trace->part = part;
    trace->number = number;
    trace->row_count = 0;
    trace->pair_buffers = 0;
    trace->pair_rows = NULL;
    const int32_t *positions =
        kvc_trace_fetch(trace, kvc_growable_at(&batch->positions, row * sizeof(int32_t)), rows * sizeof *positions);
    struct kvc_trace_row *places = kvc_trace_grow(trace, trace->rows, &trace->row_capacity, rows, sizeof *places);
    if (positions && places) {
        trace->rows = places;
        trace->row_count = rows;
        for (uint32_t i = 0; i < rows; i++) {
            const uint32_t session = trace->session_count == 1 ? 0 : row + i;
            trace->rows[i] = (struct kvc_trace_row){
                session < trace->session_count ? trace->sessions[session] : UINT32_MAX, positions[i]};
        }
        if (rows)
            trace->list = trace->rows[rows - 1];
    }
    leave(trace);
}

void kvc_trace_set_list(struct kvc_trace *trace, const struct kvc_session *session, uint32_t layer) {
    trace->part = KVC_TRACE_LAYER;
    trace->number = layer;
    trace->list.session = session->number;
    for (uint32_t i = 0; i < trace->row_count; i++)
        if (trace->rows[i].session == session->number)
            trace->list.position = trace->rows[i].position;
}
