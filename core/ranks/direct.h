/* direct.h - a link's direct connections between the memories of devices, which bypass the host. A device has a
 * connection only if the devices of all ranks support it (kvc_ranks.attach). */
#ifndef KVC_CORE_RANKS_DIRECT_H
#define KVC_CORE_RANKS_DIRECT_H

#include "core/base/exposed.h"
#include "core/ranks/link.h"

/* The functions of struct kvc_link_class for device addresses. Sent data may be changed by operations that are queued
 * on the device's stream after the call. Received data are available to such operations, but not to the host. */
struct kvc_direct_class {
    const char *name;
    void (*gather)(struct kvc_direct *direct, const void *mine, void *all, const size_t *sizes, const size_t *offsets);
    void (*send)(struct kvc_direct *direct, const void *data, size_t bytes, uint32_t to);
    void (*receive)(struct kvc_direct *direct, void *data, size_t bytes, uint32_t from);
    void (*close)(struct kvc_direct *direct);
};

struct kvc_direct {
    const struct kvc_direct_class *class;
    struct kvc_link *link;
    struct kvc_device *device;
    struct kvc_direct *next;
};

/* Returns the connection of this device with the other ranks' devices, or NULL if data travel through the host. The
 * result is the same on all ranks. */
struct kvc_direct *kvc_direct_of(const struct kvc_link *link, const struct kvc_device *device);
/* Ends all ranks with the error of the device's next sync. */
void kvc_direct_end(struct kvc_direct *direct);
void kvc_direct_close(struct kvc_link *link, const struct kvc_device *device);

/* Gathers y [rows, sum of widths] from all ranks' parts. part [rows, widths[rank]] may be in y. `room` is as large as y
 * and overlaps neither y nor part. widths [link->count] is in floats. */
void kvc_direct_gather_rows(struct kvc_direct *direct, struct kvc_span y, struct kvc_span part, uint32_t rows,
                            const size_t *widths, struct kvc_span room);
void kvc_direct_send(struct kvc_direct *direct, struct kvc_span data, size_t bytes, uint32_t to);
void kvc_direct_receive(struct kvc_direct *direct, struct kvc_span data, size_t bytes, uint32_t from);

#endif
