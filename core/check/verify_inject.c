/* verify_inject.c - for tests: a table in front of a device's own in which one operation gives a wrong result, as a
 * broken kernel would: a flipped bit, another rank, a missing entry. */
#include <stdlib.h>
#include <string.h>

#include "core/base/canon.h"
#include "core/check/inject.h"
#include "core/check/verify.h"

struct inject {
    struct kvc_ops ops; /* the device's ops points here */
    const struct kvc_ops *real;
};

const struct kvc_ops *kvc_inject_enter(struct kvc_device *device) {
    const struct kvc_ops *inject = device->ops;
    device->ops = ((const struct inject *)(const void *)inject)->real;
    return inject;
}

void kvc_inject_leave(struct kvc_device *device, const struct kvc_ops *inject) { device->ops = inject; }

/* ---- damage ---- */

uint32_t kvc_word_at(struct kvc_device *device, struct kvc_span span, size_t index) {
    uint32_t word = 0;
    span.offset += index * sizeof word;
    device->ops->download(device, &word, span, sizeof word);
    return word;
}

void kvc_put_word(struct kvc_device *device, struct kvc_span span, size_t index, uint32_t word) {
    span.offset += index * sizeof word;
    device->ops->upload(device, span, &word, sizeof word);
}

/* The lowest bit of a float, which a NaN would hide. */
void kvc_flip(struct kvc_device *device, struct kvc_span span, size_t index) {
    const uint32_t word = kvc_word_at(device, span, index);
    kvc_put_word(device, span, index, kvc_is_nan(kvc_from_bits(word)) ? 0 : word ^ 1u);
}

bool kvc_find_newest(struct kvc_device *device, const struct kvc_lists *lists, struct kvc_newest *newest) {
    *newest = (struct kvc_newest){.count = 0};
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const uint32_t count = kvc_word_at(device, kvc_all_of(lists->count), h);
        if (count > newest->count)
            *newest = (struct kvc_newest){h, count, count - 1, lists->host_base[h + 1] - lists->host_base[h],
                                          lists->host_base[h]};
    }
    if (newest->count && lists->order)
        newest->slot = kvc_word_at(device, kvc_all_of(lists->order), newest->base + newest->slot);
    return newest->count > 0;
}

/* Its score; rows: rows of scores for each head. */
void kvc_flip_score(struct kvc_device *device, const struct kvc_lists *lists, struct kvc_span scores, uint32_t stride,
                    uint32_t rows) {
    struct kvc_newest newest;
    if (kvc_find_newest(device, lists, &newest))
        kvc_flip(device, scores, (size_t)newest.head * rows * stride + newest.count - 1);
}

void kvc_flip_state(struct kvc_device *device, const struct kvc_lists *lists, uint32_t column) {
    struct kvc_newest newest;
    if (lists->state && kvc_find_newest(device, lists, &newest))
        kvc_flip(device, kvc_all_of(lists->state), lists->columns * newest.base + column * newest.slots + newest.slot);
}

void kvc_take_one(struct kvc_device *device, const struct kvc_lists *lists) {
    struct kvc_newest newest;
    if (kvc_find_newest(device, lists, &newest))
        kvc_put_word(device, kvc_all_of(lists->count), newest.head, newest.count - 1);
}

void kvc_shift_position(struct kvc_device *device, const struct kvc_lists *lists) {
    struct kvc_newest newest;
    if (lists->position && kvc_find_newest(device, lists, &newest))
        kvc_put_word(device, kvc_all_of(lists->position), newest.base + newest.slot,
                     kvc_word_at(device, kvc_all_of(lists->position), newest.base + newest.slot) + 1);
}

/* The last two slots of the first head change places, free or not. */
void kvc_swap_slots(struct kvc_device *device, const struct kvc_lists *lists) {
    const struct kvc_span order = kvc_all_of(lists->order);
    const size_t last = lists->host_base[1] - 1;
    const uint32_t a = kvc_word_at(device, order, last - 1), b = kvc_word_at(device, order, last);
    kvc_put_word(device, order, last - 1, b);
    kvc_put_word(device, order, last, a);
}

/* One rank of ascending lists becomes one that the list has not, below the head's count. */
void kvc_change_rank(struct kvc_device *device, const struct kvc_lists *lists, const struct kvc_read_list *list) {
    const struct kvc_span ranks = kvc_all_of(list->rank);
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const uint32_t held = kvc_word_at(device, kvc_all_of(lists->count), h);
        const uint32_t count = kvc_word_at(device, kvc_all_of(list->count), h);
        const size_t first = (size_t)h * list->stride;
        for (uint32_t i = 0, before = 0; i < count; i++) { /* before: the lowest rank that is still free here */
            const uint32_t rank = kvc_word_at(device, ranks, first + i);
            if (rank > before || (i + 1 == count && rank + 1 < held)) {
                kvc_put_word(device, ranks, first + i, rank > before ? rank - 1 : rank + 1);
                return;
            }
            before = rank + 1;
        }
    }
}

void kvc_flip_last_byte(struct kvc_device *device, struct kvc_span span, size_t bytes) {
    unsigned char byte;
    if (bytes == 0)
        return;
    span.offset += bytes - 1;
    device->ops->download(device, &byte, span, 1);
    byte ^= 1;
    device->ops->upload(device, span, &byte, 1);
}

/* ---- the table ---- */

static void inject_close(struct kvc_device *device) {
    kvc_inject_end(device);
    device->ops->close(device);
}

/* Puts the broken operation in; false: there is none of this name. */
static bool replace(struct kvc_ops *ops, const char *name, bool memory) {
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
    ops->operation = NULL; /* it may stand in for what comes below */
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
    struct inject *inject = malloc(sizeof *inject);
    if (!inject)
        return kvc_fail(error, KVC_RESOURCE, "verify: no memory to break an operation");
    inject->ops = *device->ops;
    inject->real = device->ops;
    inject->ops.close = inject_close;
    if (!replace(&inject->ops, operation, memory)) {
        free(inject);
        return KVC_OK;
    }
    device->ops = &inject->ops;
    return KVC_OK;
}

void kvc_inject_end(struct kvc_device *device) {
    struct inject *inject = (struct inject *)(uintptr_t)device->ops;
    if (device->ops->close != inject_close)
        return;
    device->ops = inject->real;
    free(inject);
}
