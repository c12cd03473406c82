/* prompt.c - measures the time of each operation in one prompt of a model. */
#include <stdio.h>
#include <stdlib.h>

#include "bench/measure.h"
#include "core/engine/engine.h"

enum operation {
#define KVC_OPERATION(name, parameters, ...) OPERATION_##name,
#include "core/base/ops.def"
    OPERATIONS
};

struct timed_table {
    struct kvc_ops ops; /* must be the first member, because device->ops points here */
    const struct kvc_ops *real;
    double seconds[OPERATIONS];
    unsigned calls[OPERATIONS];
};

/* Waits for the device, so that the time of an operation does not include earlier ones. If the device fails, the engine
 * will report it. */
static double seconds_after(struct kvc_device *device) {
    if (device->capacity)
        (void)device->ops->sync(device, NULL);
    return kvc_measure_seconds(CLOCK_MONOTONIC);
}

/* During an operation the device uses its own table, so that nested operations are counted once. */
#define KVC_OPERATION(name, parameters, ...)                                                                           \
    static void timed_##name(struct kvc_device *device, const struct parameters *args) {                               \
        struct timed_table *table = (struct timed_table *)(uintptr_t)device->ops;                                      \
        const double start = kvc_measure_seconds(CLOCK_MONOTONIC);                                                     \
        device->ops = table->real;                                                                                     \
        device->ops->name(device, args);                                                                               \
        table->seconds[OPERATION_##name] += seconds_after(device) - start;                                             \
        table->calls[OPERATION_##name]++;                                                                              \
        device->ops = &table->ops;                                                                                     \
    }
#include "core/base/ops.def"

static void time_operations(struct kvc_device *device, struct timed_table *table) {
    *table = (struct timed_table){.ops = *device->ops, .real = device->ops};
#define KVC_OPERATION(name, parameters, ...)                                                                           \
    if (table->ops.name)                                                                                               \
        table->ops.name = timed_##name;
#include "core/base/ops.def"
    device->ops = &table->ops;
}

/* Calls `row` for every operation that the prompt used, then once for the time that is left (the host's). */
static void report(const struct timed_table *table, double took, kvc_measure_fn *row, void *user) {
    static const char *const names[] = {
#define KVC_OPERATION(name, parameters, ...) #name,
#include "core/base/ops.def"
    };
    const struct kvc_rooflines none = {.copy = 0};
    double rest = took;
    char shape[32];
    for (size_t i = 0; i < OPERATIONS; i++) {
        if (table->calls[i] == 0)
            continue;
        rest -= table->seconds[i];
        snprintf(shape, sizeof shape, "%u call%s", table->calls[i], table->calls[i] == 1 ? "" : "s");
        if (row(user, &none,
                &(struct kvc_measured){.name = names[i],
                                       .shape = shape,
                                       .calls = table->calls[i],
                                       .seconds = table->seconds[i],
                                       .beside = took}))
            return;
    }
    row(user, &none, &(struct kvc_measured){.name = "rest", .shape = "the host", .seconds = rest, .beside = took});
}

/* Computes the prompt in a new session and returns its seconds in *took. */
static enum kvc_status compute(struct kvc_model *model, const struct kvc_session_options *options,
                               const int32_t *tokens, size_t count, double *took, struct kvc_error *error) {
    struct kvc_session *session;
    enum kvc_status status = kvc_session_open(model, options, &session, error);
    if (status != KVC_OK)
        return status;
    const double start = kvc_measure_seconds(CLOCK_MONOTONIC);
    status = kvc_session_prompt(session, tokens, count, NULL, NULL, error);
    *took = kvc_measure_seconds(CLOCK_MONOTONIC) - start;
    kvc_session_close(session);
    return status;
}

enum kvc_status kvc_measure_prompt(struct kvc_engine *engine, struct kvc_model *model,
                                   const struct kvc_session_options *options, const int32_t *tokens, size_t count,
                                   kvc_measure_fn *row, void *user, struct kvc_error *error) {
    struct kvc_device *device = engine->device;
    struct timed_table *table = malloc(sizeof *table);
    double took;
    if (!table)
        return kvc_fail(error, KVC_RESOURCE, "measure: no memory");
    time_operations(device, table);
    const enum kvc_status status = compute(model, options, tokens, count, &took, error);
    device->ops = table->real;
    if (status == KVC_OK)
        report(table, took, row, user);
    free(table);
    return status;
}
