/* engine.h - the engine object: an open device and the known policies. */
#ifndef KVC_CORE_ENGINE_ENGINE_H
#define KVC_CORE_ENGINE_ENGINE_H

#include "core/base/log.h"
#include "core/base/ops.h"
#include "core/base/policy_list.h"
#include "core/ranks/ranks.h"

/* Whether the program wants the current prompt to go on (look.h). */
struct kvc_look {
    bool armed;             /* long operations ask before they start */
    bool stopped;           /* the prompt ends, because of `error` */
    uint64_t work;          /* multiply-adds since the program was last asked */
    struct kvc_error error; /* why the prompt ends */
};

struct kvc_engine {
    struct kvc_device *device;
    enum kvc_math math;
    struct kvc_ranks *ranks; /* NULL: one process; not owned. The other ranks have a copy of this engine. */
    const struct kvc_policy_class **policies; /* NULL-terminated */
    size_t policy_count;
    kvc_interrupt_fn *interrupt; /* NULL: none */
    void *interrupt_user;
    struct kvc_look look;
    struct kvc_log log;      /* referenced by the device */
    struct kvc_trace *trace; /* NULL: none; the device's table owns it */
    uint32_t sessions;       /* number of sessions opened so far */
};

/* Logs which device and which part of a parallel run the engine has. */
void kvc_log_engine(const struct kvc_engine *engine);

const struct kvc_policy_class *kvc_engine_find_policy(const struct kvc_engine *engine, const char *name, size_t length);

#endif
