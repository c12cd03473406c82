/* inject.c - mutants for tests: damages one operation's result with a flipped bit, another index or a missing entry
 * (inject.h). */
#include "core/check/inject.h"
#include "core/base/assert.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/canon.h"

const struct kvc_ops *kvc_inject_open(struct kvc_device *device) {
    const struct kvc_ops *inject = device->ops;
    device->ops = ((const struct kvc_inject_table *)(const void *)inject)->real;
    return inject;
}

void kvc_inject_close(struct kvc_device *device, const struct kvc_ops *inject) { device->ops = inject; }

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

/* Flips the lowest bit of a float. In a NaN this would go unnoticed, so a NaN becomes 0. */
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
    KVC_ASSERT(newest->count == 0 || newest->slot < newest->slots);
    return newest->count > 0;
}

/* Flips a bit of the newest entry's score. There are `rows` rows of scores per head. */
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

/* Swaps the last two slots of the first head in its order list. */
void kvc_swap_slots(struct kvc_device *device, const struct kvc_lists *lists) {
    const struct kvc_span order = kvc_all_of(lists->order);
    const size_t last = lists->host_base[1] - 1;
    KVC_ASSERT(last >= 1);
    const uint32_t a = kvc_word_at(device, order, last - 1), b = kvc_word_at(device, order, last);
    kvc_put_word(device, order, last - 1, b);
    kvc_put_word(device, order, last, a);
}

/* Changes one index of a list by 1. The list still ascends, and the new index is below the head's count. */
void kvc_change_index(struct kvc_device *device, const struct kvc_lists *lists, const struct kvc_read_list *list) {
    const struct kvc_span indices = kvc_all_of(list->index);
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const uint32_t held = kvc_word_at(device, kvc_all_of(lists->count), h);
        const uint32_t count = kvc_word_at(device, kvc_all_of(list->count), h);
        const size_t first = (size_t)h * list->stride;
        KVC_ASSERT(count <= list->stride);
        for (uint32_t i = 0, before = 0; i < count; i++) { /* `before` is the lowest index that is still unused */
            const uint32_t index = kvc_word_at(device, indices, first + i);
            if (index > before || (i + 1 == count && index + 1 < held)) {
                kvc_put_word(device, indices, first + i, index > before ? index - 1 : index + 1);
                return;
            }
            before = index + 1;
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
