/* engine.h - the engine object: an open device and the policies it knows. */
#ifndef KVC_CORE_ENGINE_H
#define KVC_CORE_ENGINE_H

#include "core/ops.h"

/* What configure asks of a machine, for builds without it. */
#if SIZE_MAX <= 0xffffffff
#error "32-bit sizes: the bytes of a large cache cannot be counted in them"
#elif defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "big-endian machine: weights are used where they lie in the file, and model files are little-endian"
#endif

struct kvc_engine {
    struct kvc_device *device;
    char backend_name[128];
    const struct kvc_policy_class **policies; /* NULL-terminated */
    size_t policy_count;
};

/* The built-in backends and policies, const tables ending in NULL (core/backends.c, policies/list.c). */
extern const struct kvc_backend_class *const kvc_backend_list[];
extern const struct kvc_policy_class *const kvc_policy_list[];

const struct kvc_policy_class *kvc_engine_find_policy(const struct kvc_engine *engine, const char *name, size_t length);

/* Sets the floating-point environment the arithmetic needs (no flush-to-zero, round to nearest) and returns what was
 * set before; every public function that computes brackets its work with these two. */
uint64_t kvc_float_enter(void);
void kvc_float_leave(uint64_t saved);

#endif
