/* growable.c - device memory that is replaced by a larger buffer on demand. */
#include "core/engine/growable.h"

#include "core/base/assert.h"

enum kvc_status kvc_growable_reserve(struct kvc_device *device, struct kvc_growable *growable, size_t bytes,
                                     struct kvc_error *error) {
    KVC_ASSERT((growable->buffer != NULL) == (growable->bytes > 0));
    if (bytes <= growable->bytes)
        return KVC_OK;
    struct kvc_buffer *buffer;
    device->ops->buffer_free(device, growable->buffer);
    growable->buffer = NULL;
    growable->bytes = 0;
    const enum kvc_status status = device->ops->buffer_create(device, growable->kind, bytes, &buffer, error);
    if (status != KVC_OK)
        return status;
    growable->buffer = buffer;
    growable->bytes = bytes;
    return KVC_OK;
}

void kvc_growable_free(struct kvc_device *device, struct kvc_growable *growable) {
    device->ops->buffer_free(device, growable->buffer);
    growable->buffer = NULL;
    growable->bytes = 0;
}
