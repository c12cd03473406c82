/* growable.h - a growable buffer: device memory that is replaced by a larger buffer on demand. */
#ifndef KVC_CORE_ENGINE_GROWABLE_H
#define KVC_CORE_ENGINE_GROWABLE_H

#include "core/base/ops.h"

struct kvc_growable {
    struct kvc_buffer *buffer; /* NULL: not allocated yet */
    size_t bytes;
    enum kvc_memory_kind kind;
};

/* Ensures a capacity of `bytes` bytes. The contents are lost if the buffer is replaced. */
enum kvc_status kvc_growable_reserve(struct kvc_device *device, struct kvc_growable *growable, size_t bytes,
                                     struct kvc_error *error);
void kvc_growable_free(struct kvc_device *device, struct kvc_growable *growable);
static inline struct kvc_span kvc_growable_at(const struct kvc_growable *growable, size_t bytes) {
    return (struct kvc_span){growable->buffer, bytes};
}

#endif
