/* exposed.h - gives libraries that move data between devices (NCCL, a device-aware MPI) access to a device's memory, so
 * that rows of ranks can bypass the host. */
#ifndef KVC_CORE_BASE_EXPOSED_H
#define KVC_CORE_BASE_EXPOSED_H

#include "core/base/lists.h"

struct kvc_exposed {
    unsigned char unique[16]; /* identifies the device among all devices of all machines */
    void *stream;             /* cudaStream_t: operations on an address must be queued on this stream, or come after
                               * `wait` */
    /* Submits all queued operations to the stream, makes the device current in the calling thread, and returns the
     * device address of a span. Returns NULL if the device has failed; the next sync then returns the error. */
    void *(*address)(struct kvc_device *device, struct kvc_span span, size_t bytes);
    bool (*wait)(struct kvc_device *device); /* waits for all queued operations; false: the device has failed */
    /* Queues the copy of `rows` rows of `bytes` bytes each. The rows begin to_stride bytes apart in the target, and
     * from_stride bytes apart in the source. */
    void (*copy_rows)(struct kvc_device *device, struct kvc_span to, size_t to_stride, struct kvc_span from,
                      size_t from_stride, size_t bytes, uint32_t rows);
};

#endif
