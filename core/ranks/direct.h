/* direct.h - a link's ways between the memories of devices: rows that go from one to the other without the host. There
 * is one for each device of this rank that has any (kvc_link_class.attach); all ranks have it then. */
#ifndef KVC_CORE_RANKS_DIRECT_H
#define KVC_CORE_RANKS_DIRECT_H

#include "core/base/exposed.h"
#include "core/ranks/link.h"

/* As those of struct kvc_link_class, of device addresses. What is sent may be changed by what joins the device's stream
 * after the call, and what is received is there for it; the host knows neither. */
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

/* The way between this device and those of the other ranks; NULL: through the host. The same on all ranks. */
struct kvc_direct *kvc_direct_of(const struct kvc_link *link, const struct kvc_device *device);
/* Ends all ranks, with what the device's next sync says. */
void kvc_direct_end(struct kvc_direct *direct);
void kvc_direct_close(struct kvc_link *link, const struct kvc_device *device);

/* y [rows, sum of widths] = all ranks' parts; part [rows, widths[rank]], which may lie in y. room: as large as y, and
 * apart from both. widths [link->count], in floats. */
void kvc_direct_gather_rows(struct kvc_direct *direct, struct kvc_span y, struct kvc_span part, uint32_t rows,
                            const size_t *widths, struct kvc_span room);
void kvc_direct_send(struct kvc_direct *direct, struct kvc_span data, size_t bytes, uint32_t to);
void kvc_direct_receive(struct kvc_direct *direct, struct kvc_span data, size_t bytes, uint32_t from);

#endif
