/* verify.c - runs the checks of every operation on a backend and on the reference, and compares the results bit for
 * bit. */
#include "core/base/backends.h"
#include "core/base/float.h"
#include "core/base/integers.h"
#include "core/check/verify.h"
#include "core/base/assert.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/engine/trace.h"

/* Ends a test case: frees its memory. */
static void end_case(struct kvc_verify *v) {
    kvc_verify_release(v, 0);
    while (v->buffer_count > 0) {
        v->buffer_count--;
        for (int side = v->first; side < 2; side++)
            v->device[side]->ops->buffer_free(v->device[side], v->buffers[v->buffer_count][side]);
    }
    for (int side = v->first; side < 2; side++) {
        enum kvc_status status = v->device[side]->ops->sync(v->device[side], v->status ? NULL : &v->error);
        if (v->status == KVC_OK)
            v->status = status;
    }
}

static enum kvc_status run_operation(struct kvc_verify *v, const struct kvc_verify_operation *operation,
                                     const struct kvc_verify_options *options) {
    unsigned cases = options->effort ? operation->cases * options->effort : operation->cases / 8 + 1;
    bool inject = options->inject && strcmp(options->inject, operation->name) == 0;
    if (v->small && cases < 3) /* a single case with few entries might keep all of them or none */
        cases = 3;
    if (v->small && !options->effort) /* a kernel interpreter needs about a second per case */
        cases = kvc_min_u32(cases, 6);
    memset(&v->row, 0, sizeof v->row);
    v->row.kind = "operation";
    v->row.name = operation->name;
    v->further = operation->further;
    v->random = 0x6b76u; /* every operation begins with this seed, so its cases do not depend on other operations */
    v->hash = kvc_hash_open();
    if (!v->hash)
        return kvc_fail(&v->error, KVC_RESOURCE, "verify: no memory for a hash");
    if (inject)
        v->status = kvc_inject(v->device[1], operation->of, true, &v->error);
    for (unsigned i = 0; i < cases && v->status == KVC_OK; i++) {
        v->shape[0] = '\0';
        operation->one_case(v);
        end_case(v);
        v->row.cases++;
        KVC_ASSERT(v->held_count == 0 && v->buffer_count == 0);
    }
    if (inject)
        kvc_inject_end(v->device[1]);
    v->row.hash = kvc_hash_value(v->hash);
    kvc_hash_close(v->hash);
    return v->status;
}

/* Opens the reference and the backend under test. "ref" compares ref with and without fused multiply-add. */
static enum kvc_status open_devices(struct kvc_verify *v, const struct kvc_verify_options *options,
                                    struct kvc_engine **engine) {
    enum kvc_status status = options->alone ? KVC_OK : KVC_USAGE;
    for (size_t i = 0; kvc_backend_list[i] && !options->alone && !v->device[0]; i++)
        if (strcmp(kvc_backend_list[i]->name, "ref") == 0) {
            status = kvc_backend_list[i]->open(NULL, 0, 1, KVC_MATH_EXACT, &v->device[0], &v->error);
            if (status == KVC_OK && options->backend && strcmp(options->backend, "ref") == 0)
                return kvc_backend_list[i]->open("plain", 0, 1, KVC_MATH_EXACT, &v->device[1], &v->error);
        }
    if (status == KVC_OK) {
        struct kvc_engine_options open = {
            .backend = options->backend, .threads = options->threads, .math = KVC_MATH_EXACT};
        status = kvc_engine_open(&open, engine, &v->error);
    }
    if (status == KVC_OK)
        v->device[1] = (*engine)->device;
    return status;
}

static const struct kvc_verify_operation *operation_at(size_t i) {
    static const struct kvc_verify_operation *const operations[] = {
#define KVC_BYTES(result, name, arguments) &kvc_verify_##name,
#define KVC_OPERATION(name, parameters, ...) &kvc_verify_##name,
#define KVC_FURTHER(name, what) &kvc_verify_##name##_##what,
#include "core/base/ops.def"
    };
    return i < sizeof operations / sizeof operations[0] ? operations[i] : NULL;
}

const char *kvc_verify_operation(size_t i) {
    const struct kvc_verify_operation *operation = operation_at(i);
    return operation ? operation->name : NULL;
}

/* Checks an operation's name. If `of` is not NULL, it receives the operation that the named cases test. */
static enum kvc_status check_name(const char *name, const char *what, const char **of, struct kvc_error *error) {
    const struct kvc_verify_operation *operation;
    if (of)
        *of = NULL;
    if (!name)
        return KVC_OK;
    for (size_t i = 0; (operation = operation_at(i)) != NULL; i++)
        if (strcmp(operation->name, name) == 0) {
            if (of)
                *of = operation->of;
            return KVC_OK;
        }
    return kvc_fail(error, KVC_USAGE, "verify: %s '%.100s': must be an operation, such as linear or attention", what,
                    name);
}

enum kvc_status kvc_verify_inject(struct kvc_engine *engine, const char *operation, struct kvc_error *error) {
    const char *of;
    const enum kvc_status status = check_name(operation, "inject", &of, error);
    if (status != KVC_OK || !of)
        return status;
    return engine->trace ? kvc_trace_inject(engine->trace, of, kvc_inject, error)
                         : kvc_inject(engine->device, of, false, error);
}

enum kvc_status kvc_verify_operations(const struct kvc_verify_options *options, kvc_verify_fn *row, void *user,
                                      struct kvc_error *error) {
    const struct kvc_verify_operation *operation;
    struct kvc_engine *engine = NULL;
    bool differs = false, stopped = false;
    enum kvc_status status = check_name(options->only, "only", NULL, error);
    if (status == KVC_OK)
        status = check_name(options->inject, "inject", NULL, error);
    if (status != KVC_OK)
        return status;
    struct kvc_verify *v = calloc(1, sizeof *v);
    if (!v)
        return kvc_fail(error, KVC_RESOURCE, "verify: no memory");
    const uint64_t environment = kvc_float_open();
    v->first = options->alone ? 1 : 0;
    v->small = options->small;
    status = open_devices(v, options, &engine);
    for (size_t i = 0; status == KVC_OK && !stopped && (operation = operation_at(i)) != NULL; i++) {
        if (options->only && strcmp(options->only, operation->name) != 0)
            continue;
        status = run_operation(v, operation, options);
        differs = differs || v->row.differing > 0;
        stopped = status == KVC_OK && row && row(user, &v->row) != 0;
    }
    if (status != KVC_OK && error)
        *error = v->error;
    if (v->device[0])
        v->device[0]->ops->close(v->device[0]);
    if (engine)
        kvc_engine_close(engine);
    else if (v->device[1])
        v->device[1]->ops->close(v->device[1]);
    free(v);
    kvc_float_close(environment);
    if (status == KVC_OK && differs)
        return kvc_fail(error, KVC_DIFFERS, "verify: the backend's results differ from the reference's");
    return status;
}
