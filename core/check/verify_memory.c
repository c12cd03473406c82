/* verify_memory.c - test cases of the operations that move bytes: buffer_create, upload, download, copy, zero. */
#include <stdio.h>
#include <string.h>

#include "core/check/inject.h"
#include "core/check/verify.h"

/* A part of a buffer of n words, beginning at `at`. Edges and odd lengths are frequent. */
struct part {
    uint32_t n, at, count;
};

static struct part draw_part(struct kvc_verify *v) {
    static const uint32_t sizes[] = {1, 2, 3, 7, 31, 32, 33, 255, 256, 257, 1000, 4097, 30000};
    struct part part = {.n = kvc_verify_pick(v, sizes)};
    part.at = kvc_verify_range(v, 0, 1) ? 0 : kvc_verify_range(v, 0, part.n - 1);
    part.count = kvc_verify_range(v, 0, 1) ? part.n - part.at : kvc_verify_range(v, 1, part.n - part.at);
    snprintf(v->shape, sizeof v->shape, "words %u from %u of %u", (unsigned)part.count, (unsigned)part.at,
             (unsigned)part.n);
    return part;
}

static struct kvc_span span_at(struct kvc_twin twin, int side, uint32_t word) {
    struct kvc_span span = {twin.buffer[side], word * sizeof(float)};
    return span;
}

enum kvc_status kvc_inject_buffer_create(struct kvc_device *device, enum kvc_memory_kind kind, size_t bytes,
                                         struct kvc_buffer **buffer, struct kvc_error *error) {
    const struct kvc_ops *inject = kvc_inject_open(device);
    const enum kvc_status status = device->ops->buffer_create(device, kind, bytes, buffer, error);
    if (status == KVC_OK)
        kvc_flip_last_byte(device, kvc_all_of(*buffer), bytes);
    kvc_inject_close(device, inject);
    return status;
}

/* New buffers must be zero, also if their memory was used before. */
KVC_CASE(buffer_create, 8) {
    struct part part = draw_part(v);
    const float *values = kvc_verify_values(v, part.n, KVC_PLAIN);
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
        const struct kvc_ops *ops = v->device[side]->ops;
        struct kvc_buffer *used = NULL;
        v->status = ops->buffer_create(v->device[side], KVC_MEMORY_SCRATCH, part.n * sizeof *values, &used, &v->error);
        if (v->status == KVC_OK)
            ops->upload(v->device[side], (struct kvc_span){used, 0}, values, part.n * sizeof *values);
        ops->buffer_free(v->device[side], used);
    }
    kvc_verify_compare(v, kvc_verify_twin(v, part.n * sizeof(float), NULL), 0, part.n, "new");
}

void kvc_inject_upload(struct kvc_device *device, struct kvc_span to, const void *from, size_t bytes) {
    const struct kvc_ops *inject = kvc_inject_open(device);
    device->ops->upload(device, to, from, bytes);
    kvc_flip_last_byte(device, to, bytes);
    kvc_inject_close(device, inject);
}

KVC_CASE(upload, 8) {
    struct part part = draw_part(v);
    struct kvc_twin to = kvc_verify_twin_values(v, part.n, KVC_PLAIN);
    const float *values = kvc_verify_values(v, part.count, kvc_verify_flavour(v));
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->upload(v->device[side], span_at(to, side, part.at), values, part.count * sizeof *values);
    kvc_verify_compare(v, to, 0, part.n, "to");
}

void kvc_inject_download(struct kvc_device *device, void *to, struct kvc_span from, size_t bytes) {
    const struct kvc_ops *inject = kvc_inject_open(device);
    device->ops->download(device, to, from, bytes);
    if (bytes)
        ((unsigned char *)to)[bytes - 1] ^= 1;
    kvc_inject_close(device, inject);
}

KVC_CASE(download, 8) {
    struct part part = draw_part(v);
    struct kvc_twin from = kvc_verify_twin_values(v, part.n, kvc_verify_flavour(v));
    float *host[2] = {kvc_verify_alloc(v, part.n * sizeof(float)), kvc_verify_alloc(v, part.n * sizeof(float))};
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->download(v->device[side], host[side], span_at(from, side, part.at),
                                       part.count * sizeof(float));
    if (v->status == KVC_OK)
        kvc_verify_compare_host(v, host[0], host[1], part.n, "host");
}

void kvc_inject_copy(struct kvc_device *device, struct kvc_span to, struct kvc_span from, size_t bytes) {
    const struct kvc_ops *inject = kvc_inject_open(device);
    device->ops->copy(device, to, from, bytes);
    kvc_flip_last_byte(device, to, bytes);
    kvc_inject_close(device, inject);
}

KVC_CASE(copy, 8) {
    struct part part = draw_part(v);
    uint32_t at = kvc_verify_range(v, 0, 40);
    bool within = kvc_verify_range(v, 0, 1); /* copies within one buffer, from a later part */
    struct kvc_twin to = kvc_verify_twin_values(v, 2 * part.n, KVC_PLAIN);
    struct kvc_twin from = kvc_verify_twin_values(v, part.count + at, kvc_verify_flavour(v));
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->copy(v->device[side], span_at(to, side, part.at),
                                   within ? span_at(to, side, part.at + part.count) : span_at(from, side, at),
                                   part.count * sizeof(float));
    kvc_verify_compare(v, to, 0, 2 * part.n, "to");
}

void kvc_inject_zero(struct kvc_device *device, struct kvc_span span, size_t bytes) {
    const struct kvc_ops *inject = kvc_inject_open(device);
    device->ops->zero(device, span, bytes);
    kvc_flip_last_byte(device, span, bytes);
    kvc_inject_close(device, inject);
}

KVC_CASE(zero, 8) {
    struct part part = draw_part(v);
    struct kvc_twin to = kvc_verify_twin_values(v, part.n, kvc_verify_flavour(v));
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->zero(v->device[side], span_at(to, side, part.at), part.count * sizeof(float));
    kvc_verify_compare(v, to, 0, part.n, "to");
}
