/* log_set.c - the log of an engine: which lines it writes, and the lines about the engine itself. */
#include "core/base/backends.h"
#include "core/engine/engine.h"
#include "core/ranks/direct.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const maths[] = {[KVC_MATH_FLOAT] = "float",
                                    [KVC_MATH_FAST] = "fast",
                                    [KVC_MATH_INT8] = "int8 where weights are quantized",
                                    [KVC_MATH_INT16] = "int16 where weights are floats"};

/* Logs the backends that the engine did not choose and, if a backend cannot be used, the reason. */
static void log_others(const struct kvc_engine *engine) {
    for (size_t i = 0; kvc_backend_list[i]; i++) {
        char detail[256];
        const bool usable = kvc_backend_list[i]->usable(detail, sizeof detail);
        KVC_LOG(&engine->log, KVC_LOG_DEBUG, KVC_LOG_DEVICE, "backend %s is %s: %s", kvc_backend_list[i]->name,
                usable ? "usable" : "not usable", detail);
    }
}

/* Logs how rows travel between the ranks of a team. The team's link may be NULL. */
static void log_team(const struct kvc_engine *engine, const char *team, const struct kvc_link *link) {
    if (!link)
        return;
    const struct kvc_direct *direct = kvc_direct_of(link, engine->device);
    KVC_LOG(&engine->log, KVC_LOG_INFO, KVC_LOG_RANKS, "%s: %u ranks, rank %u here; rows travel by %s%s", team,
            link->count, link->rank, direct ? direct->class->name : link->class->name,
            direct ? ", between devices" : ", through the host");
}

void kvc_log_engine(const struct kvc_engine *engine) {
    const struct kvc_device *device = engine->device;
    KVC_LOG(&engine->log, KVC_LOG_INFO, KVC_LOG_DEVICE,
            "%s: operations of %s, arithmetic %s, %llu bytes of its own memory", device->name, device->ops->name,
            maths[engine->math], (unsigned long long)device->capacity);
    if (kvc_log_wants(&engine->log, KVC_LOG_DEBUG, KVC_LOG_DEVICE))
        log_others(engine);
    if (!engine->ranks)
        return;
    log_team(engine, "tensor", engine->ranks->rows.link);
    log_team(engine, "pipeline", engine->ranks->stages.link);
}

enum kvc_status kvc_log_set(struct kvc_engine *engine, const char *lines, kvc_log_fn *write, void *user,
                            struct kvc_error *error) {
    struct kvc_log log = {.write = write, .user = user, .rank = engine->log.rank};
    const enum kvc_status status = kvc_log_read("log", lines, &log, error);
    if (status != KVC_OK)
        return status;
    engine->log = log;
    kvc_log_engine(engine);
    return KVC_OK;
}

bool kvc_log_on(const struct kvc_engine *engine, enum kvc_log_level level, enum kvc_log_subject subject) {
    return level != KVC_LOG_OFF && (unsigned)subject < KVC_LOG_SUBJECTS && kvc_log_wants(&engine->log, level, subject);
}

void kvc_log_line(const struct kvc_engine *engine, enum kvc_log_level level, enum kvc_log_subject subject,
                  const char *format, ...) {
    char text[1000];
    va_list arguments;
    if (!kvc_log_on(engine, level, subject))
        return;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    kvc_log_write(&engine->log, level, subject, "%s", text);
}
