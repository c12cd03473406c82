/* verify_inject.c - turns one operation of a device into a mutant, for tests. Like a broken kernel, it returns a
 * flipped bit, another index or a missing entry. */
#include <stdlib.h>
#include <string.h>

#include "core/base/canon.h"
#include "core/check/inject.h"
#include "core/check/verify.h"

static void inject_close(struct kvc_device *device) {
    kvc_inject_end(device);
    device->ops->close(device);
}

/* Installs the mutant. Returns false if no operation has this name. */
static bool verify_inject_replace(struct kvc_ops *ops, const char *name, bool memory) {
#define KVC_BYTES(result, operation, arguments)                                                                        \
    if (memory && strcmp(name, #operation) == 0) {                                                                     \
        ops->operation = kvc_inject_##operation;                                                                       \
        return true;                                                                                                   \
    }
#define KVC_OPERATION(operation, parameters, ...)
#define KVC_OPERATION_FUSED(operation, parameters, ...)                                                                \
    if (strcmp(name, #operation) == 0) {                                                                               \
        ops->operation = kvc_inject_##operation;                                                                       \
        return true;                                                                                                   \
    }                                                                                                                  \
    ops->operation = NULL; /* a fused operation could otherwise replace the mutant */
#include "core/base/ops.def"
#define KVC_OPERATION(operation, parameters, ...)                                                                      \
    if (strcmp(name, #operation) == 0) {                                                                               \
        ops->operation = kvc_inject_##operation;                                                                       \
        return true;                                                                                                   \
    }
#define KVC_OPERATION_FUSED(operation, parameters, ...)
#include "core/base/ops.def"
    return false;
}

enum kvc_status kvc_inject(struct kvc_device *device, const char *operation, bool memory, struct kvc_error *error) {
    struct kvc_inject_table *inject = malloc(sizeof *inject);
    if (!inject)
        return kvc_fail(error, KVC_RESOURCE, "verify: no memory to inject a wrong result");
    inject->ops = *device->ops;
    inject->real = device->ops;
    inject->ops.close = inject_close;
    if (!verify_inject_replace(&inject->ops, operation, memory)) {
        free(inject);
        return KVC_OK;
    }
    device->ops = &inject->ops;
    return KVC_OK;
}

void kvc_inject_end(struct kvc_device *device) {
    struct kvc_inject_table *inject = (struct kvc_inject_table *)(uintptr_t)device->ops;
    if (device->ops->close != inject_close)
        return;
    device->ops = inject->real;
    free(inject);
}
