/* cache.c - operations that change lists (append, drop, identity, evict, relayout, keep_keys, rotate_keys) and read
 * them (entries). */
#include <string.h>

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "backends/cpu/ref/ref.h"

/* Appends one entry to head h. k and v are [d]. */
static void append_entry(struct kvc_cpu *cpu, struct kvc_lists *lists, uint32_t h, int32_t position, const float *k,
                         const float *v) {
    uint32_t *count = (uint32_t *)lists->count->data + h, slot;
    if (*count >= kvc_slots_hold(kvc_list_slots(lists, h))) {
        kvc_cpu_failed(cpu, KVC_RESOURCE, "append: head %u has no free slot among %u", (unsigned)h,
                       (unsigned)kvc_slots_hold(kvc_list_slots(lists, h)));
        return;
    }
    slot = kvc_list_slot(lists, h, *count);
    if (lists->position)
        ((int32_t *)lists->position->data)[lists->host_base[h] + slot] = position;
    cpu->device.saturated += KVC_REF(store_key)(lists, h, slot, k);
    cpu->device.saturated += KVC_REF(store_value)(lists, h, slot, v);
    for (uint32_t c = 0; lists->state && c < lists->columns; c++)
        kvc_list_column(lists, h, c)[slot] = 0.0f;
    *count += 1;
}

void KVC_REF(append)(struct kvc_device *device, const struct kvc_append *args) {
    for (size_t i = 0; i < args->segment_count; i++) {
        struct kvc_lists *lists = args->segments[i].lists;
        uint32_t d = lists->format.head_size;
        for (uint32_t row = args->segments[i].row; row < args->segments[i].row + args->segments[i].stored; row++)
            for (uint32_t h = 0; h < lists->kv_heads; h++) {
                size_t at = ((size_t)row * lists->kv_heads + h) * d;
                append_entry((struct kvc_cpu *)device, lists, h, ((const int32_t *)kvc_span_data(args->positions))[row],
                             (const float *)kvc_span_data(args->k) + at, (const float *)kvc_span_data(args->v) + at);
            }
    }
}

void KVC_REF(drop)(struct kvc_device *device, const struct kvc_drop *args) {
    struct kvc_lists *lists = args->lists;
    uint32_t *count = lists->count->data;
    (void)device;
    for (uint32_t h = 0; h < lists->kv_heads; h++)
        count[h] -= kvc_min_u32(args->rows, count[h]);
}

void KVC_REF(identity)(struct kvc_device *device, const struct kvc_identity *args) {
    KVC_ASSERT(args->lists->order && args->lists->position);
    struct kvc_lists *lists = args->lists;
    (void)device;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        uint32_t *order = (uint32_t *)lists->order->data + lists->host_base[h];
        int32_t *position = (int32_t *)lists->position->data + lists->host_base[h];
        for (uint32_t s = 0; s < kvc_list_slots(lists, h); s++) {
            order[s] = s;
            position[s] = (int32_t)s;
        }
    }
}

void KVC_REF(evict)(struct kvc_device *device, const struct kvc_evict *args) {
    struct kvc_lists *lists = args->lists;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        uint32_t *count = (uint32_t *)lists->count->data + h,
                 kept_count = ((const uint32_t *)args->kept->count->data)[h];
        const uint32_t *indices = (const uint32_t *)args->kept->index->data + (size_t)h * args->kept->stride;
        uint32_t *order, *evicted, next = 0;
        if (kept_count == *count)
            continue;
        evicted = kvc_cpu_scratch((struct kvc_cpu *)device, 0, *count * sizeof *evicted);
        if (!lists->order)
            kvc_cpu_failed((struct kvc_cpu *)device, KVC_RESOURCE, "evict: the lists have no order yet");
        if (!lists->order || !evicted)
            return;
        order = (uint32_t *)lists->order->data + lists->host_base[h];
        KVC_ASSERT(kept_count < *count && kept_count <= args->kept->stride);
        for (uint32_t r = 0, gone = 0; r < *count; r++) {
            if (next < kept_count && indices[next] == r)
                order[next++] = order[r];
            else
                evicted[gone++] = order[r];
        }
        KVC_ASSERT(next == kept_count); /* the kept indices ascend and are below the count */
        memcpy(order + next, evicted, (*count - next) * sizeof *order);
        *count = next;
    }
}

void KVC_REF(keep_keys)(struct kvc_device *device, const struct kvc_keep_keys *args) {
    KVC_ASSERT(args->first + args->width <= args->lists->columns);
    const struct kvc_lists *lists = args->lists;
    const uint32_t d = args->width;
    (void)device;
    for (uint32_t h = 0; h < lists->kv_heads; h++)
        for (uint32_t i = 0; i < args->rows; i++) {
            const uint32_t slot = kvc_list_slot(lists, h, kvc_list_count(lists, h) - args->rows + i);
            const float *row = (const float *)kvc_span_data(args->k) + ((size_t)i * lists->kv_heads + h) * d;
            for (uint32_t c = 0; c < d; c++)
                kvc_list_column(lists, h, args->first + c)[slot] = row[c];
        }
}

void KVC_REF(rotate_keys)(struct kvc_device *device, const struct kvc_rotate_keys *args) {
    KVC_ASSERT(args->rotary <= args->lists->format.head_size &&
               args->first + args->lists->format.head_size <= args->lists->columns);
    const struct kvc_lists *lists = args->lists;
    const uint32_t d = lists->format.head_size, half = args->rotary / 2;
    float *x = kvc_cpu_scratch((struct kvc_cpu *)device, 0, 2 * d * sizeof *x), *y = x + d;
    for (uint32_t h = 0; x && h < lists->kv_heads; h++)
        for (uint32_t r = 0; r < kvc_list_count(lists, h); r++) {
            const uint32_t slot = kvc_list_slot(lists, h, r);
            for (uint32_t c = 0; c < d; c++)
                x[c] = kvc_list_column(lists, h, args->first + c)[slot];
            KVC_REF(rotate)
            (y, x, (const float *)kvc_span_data(args->cosine) + (size_t)r * half,
             (const float *)kvc_span_data(args->sine) + (size_t)r * half, d, args->rotary, args->interleaved);
            if (kvc_type_is_rotated(lists->format.key.type))
                KVC_REF(transform)(y, d);
            device->saturated += KVC_REF(store_key)(lists, h, slot, y);
        }
}

/* Copies the key and value of a slot of head h from src to dst. */
static void move_entry(struct kvc_lists *dst, uint32_t to, const struct kvc_lists *src, uint32_t h, uint32_t from) {
    memcpy(kvc_list_key(dst, h, to), kvc_list_key(src, h, from), src->format.key.bytes);
    memcpy(kvc_list_value(dst, h, to), kvc_list_value(src, h, from), src->format.value.bytes);
}

static void relayout_head(struct kvc_lists *dst, const struct kvc_lists *src, uint32_t h, bool *used) {
    uint32_t slots = kvc_list_slots(dst, h), had = kvc_list_slots(src, h), count = kvc_list_count(src, h), lowest = 0;
    uint32_t kept_slots = kvc_slots_kept(slots, had), index;
    memcpy((uint32_t *)dst->blocks->data + kvc_first_block(dst->host_base[h], h),
           (const uint32_t *)src->blocks->data + kvc_first_block(src->host_base[h], h),
           kvc_slots_blocks(kept_slots) * sizeof(uint32_t));
    ((uint32_t *)dst->count->data)[h] = count;
    memset(used, 0, slots * sizeof *used);
    for (index = 0; index < count; index++) {
        uint32_t slot = kvc_list_slot(src, h, index);
        if (slot < kept_slots)
            used[slot] = true;
    }
    for (index = 0; index < count; index++) {
        uint32_t from = kvc_list_slot(src, h, index), to = from;
        if (from >= kept_slots) {
            while (used[lowest])
                lowest++;
            KVC_ASSERT(lowest < slots);
            to = lowest;
            used[to] = true;
            move_entry(dst, to, src, h, from);
        }
        for (uint32_t c = 0; dst->state && src->state && c < dst->columns; c++)
            kvc_list_column(dst, h, c)[to] = kvc_list_column(src, h, c)[from];
        if (dst->order)
            ((uint32_t *)dst->order->data)[dst->host_base[h] + index] = to;
        if (dst->position)
            ((int32_t *)dst->position->data)[dst->host_base[h] + to] = kvc_list_position(src, h, from);
    }
    for (uint32_t slot = 0; dst->order && slot < slots; slot++)
        if (!used[slot])
            ((uint32_t *)dst->order->data)[dst->host_base[h] + index++] = slot;
}

void KVC_REF(relayout)(struct kvc_device *device, const struct kvc_relayout *args) {
    KVC_ASSERT(args->dst->kv_heads == args->src->kv_heads);
    KVC_ASSERT(args->dst->order || !args->src->order);
    struct kvc_lists *dst = args->dst;
    const struct kvc_lists *src = args->src;
    for (uint32_t h = 0; h < src->kv_heads; h++) {
        bool *used = kvc_cpu_scratch((struct kvc_cpu *)device, 0, kvc_list_slots(dst, h) * sizeof *used);
        if (!used)
            return;
        if (kvc_list_count(src, h) > kvc_slots_hold(kvc_list_slots(dst, h))) {
            kvc_cpu_failed((struct kvc_cpu *)device, KVC_RESOURCE, "relayout: %u entries do not fit %u slots",
                           (unsigned)kvc_list_count(src, h), (unsigned)kvc_list_slots(dst, h));
            return;
        }
        relayout_head(dst, src, h, used);
    }
}

void KVC_REF(entries)(struct kvc_device *device, const struct kvc_entries *args) {
    KVC_ASSERT(args->head < args->lists->kv_heads);
    const struct kvc_lists *lists = args->lists;
    size_t d = lists->format.head_size;
    (void)device;
    for (uint32_t r = 0; r < kvc_list_count(lists, args->head); r++) {
        uint32_t slot = kvc_list_slot(lists, args->head, r);
        if (args->keys.buffer)
            KVC_REF(load_key)(lists, args->head, slot, (float *)kvc_span_data(args->keys) + r * d);
        if (args->values.buffer)
            KVC_REF(load_value)(lists, args->head, slot, (float *)kvc_span_data(args->values) + r * d);
    }
}
