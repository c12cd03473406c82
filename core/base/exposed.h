/* exposed.h - what a device with memory of its own offers to libraries that move data between devices (NCCL, an MPI
 * that takes device addresses), so that rows of ranks need not go through the host. */
#ifndef KVC_CORE_BASE_EXPOSED_H
#define KVC_CORE_BASE_EXPOSED_H

#include "core/base/lists.h"

struct kvc_exposed {
    unsigned char unique[16]; /* tells the device from all others, those of other machines too */
    void *stream;             /* cudaStream_t: what is done to an address joins it, or comes after wait */
    /* Where the device has so many bytes. Everything queued has gone to the stream, and the device is the calling
     * thread's current one. NULL: it has failed, and the next sync says how. */
    void *(*address)(struct kvc_device *device, struct kvc_span span, size_t bytes);
    bool (*wait)(struct kvc_device *device); /* for all that is queued; false: as above */
    /* Queues the copy of `rows` rows of `bytes` bytes each, which begin to_stride and from_stride bytes apart. */
    void (*copy_rows)(struct kvc_device *device, struct kvc_span to, size_t to_stride, struct kvc_span from,
                      size_t from_stride, size_t bytes, uint32_t rows);
};

#endif
