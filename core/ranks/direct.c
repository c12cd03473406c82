/* direct.c - moves rows between the memories of devices and puts them in order there. */
#include "core/ranks/direct.h"

#include <stdlib.h>

#include "core/base/assert.h"
#include "core/base/ops.h"

struct kvc_direct *kvc_direct_of(const struct kvc_link *link, const struct kvc_device *device) {
    struct kvc_direct *direct = link->direct;
    while (direct && direct->device != device)
        direct = direct->next;
    return direct;
}

void kvc_direct_close(struct kvc_link *link, const struct kvc_device *device) {
    struct kvc_direct **at = &link->direct, *direct = kvc_direct_of(link, device);
    if (!direct)
        return;
    while (*at != direct)
        at = &(*at)->next;
    *at = direct->next;
    direct->class->close(direct);
}

void kvc_direct_end(struct kvc_direct *direct) {
    struct kvc_error error = {KVC_OK, ""};
    (void)direct->device->ops->sync(direct->device, &error);
    direct->link->class->end(direct->link, error.text[0] ? error.text : "the device has failed");
}

/* Returns a device address. If the device has failed, the function ends all ranks, because the others wait for its
 * data. */
static void *address(struct kvc_direct *direct, struct kvc_span span, size_t bytes) {
    void *at = direct->device->exposed->address(direct->device, span, bytes);
    if (!at)
        kvc_direct_end(direct);
    return at;
}

/* Returns true if two parts of buffers overlap. */
static bool overlap(struct kvc_span a, size_t a_bytes, struct kvc_span b, size_t b_bytes) {
    return a.buffer == b.buffer && a.offset < b.offset + b_bytes && b.offset < a.offset + a_bytes;
}

static struct kvc_span behind(struct kvc_span span, size_t bytes) {
    span.offset += bytes;
    return span;
}

void kvc_direct_gather_rows(struct kvc_direct *direct, struct kvc_span y, struct kvc_span part, uint32_t rows,
                            const size_t *widths, struct kvc_span room) {
    struct kvc_link *link = direct->link;
    size_t *sizes = malloc(2 * link->count * sizeof *sizes), *offsets = sizes + link->count, all = 0;
    if (!sizes)
        link->class->end(link, "no memory for a message");
    for (uint32_t r = 0; r < link->count; r++) {
        sizes[r] = rows * widths[r] * sizeof(float);
        offsets[r] = all;
        all += sizes[r];
    }
    KVC_ASSERT(rows > 0);
    const size_t mine = sizes[link->rank], row = all / rows;
    /* the parts of a single row arrive in order; the parts of several rows arrive by rank in `room` and are then put in
     * order */
    const bool ordered = rows == 1 && !overlap(y, all, part, mine);
    const void *from = mine ? address(direct, part, mine) : NULL;
    direct->class->gather(direct, from, address(direct, ordered ? y : room, all), sizes, offsets);
    for (size_t r = 0, at = 0, width; r < link->count && !ordered; r++, at += width) {
        width = widths[r] * sizeof(float);
        if (width)
            direct->device->exposed->copy_rows(direct->device, behind(y, at), row, behind(room, offsets[r]), width,
                                               width, rows);
    }
    free(sizes);
}

void kvc_direct_send(struct kvc_direct *direct, struct kvc_span data, size_t bytes, uint32_t to) {
    direct->class->send(direct, address(direct, data, bytes), bytes, to);
}

void kvc_direct_receive(struct kvc_direct *direct, struct kvc_span data, size_t bytes, uint32_t from) {
    direct->class->receive(direct, address(direct, data, bytes), bytes, from);
}
