/* verify_inject.c - for tests of the tests: a table in front of a device's own in which one operation gives a wrong
 * result, as a wrong kernel would: a flipped bit, another rank, a missing entry. Results stay safe to use: indices
 * remain within their lists. */
#include <stdlib.h>
#include <string.h>

#include "core/check/verify.h"

struct inject {
    struct kvc_ops ops; /* the device's ops points here */
    const struct kvc_ops *real;
};

/* Within an operation the device has its own table, through which the wrong result is made. */
static const struct kvc_ops *enter(struct kvc_device *device) {
    const struct kvc_ops *inject = device->ops;
    device->ops = ((const struct inject *)(const void *)inject)->real;
    return inject;
}

static void leave(struct kvc_device *device, const struct kvc_ops *inject) { device->ops = inject; }

/* ---- wrong results ----------------------------------------------------------------------------------------------- */

static uint32_t word_at(struct kvc_device *device, struct kvc_span span, size_t index) {
    uint32_t word = 0;
    span.offset += index * sizeof word;
    device->ops->download(device, &word, span, sizeof word);
    return word;
}

static void put_word(struct kvc_device *device, struct kvc_span span, size_t index, uint32_t word) {
    span.offset += index * sizeof word;
    device->ops->upload(device, span, &word, sizeof word);
}

/* The lowest bit of a float, which a NaN would hide. */
static void flip(struct kvc_device *device, struct kvc_span span, size_t index) {
    const uint32_t word = word_at(device, span, index);
    put_word(device, span, index, kvc_is_nan(kvc_from_bits(word)) ? 0 : word ^ 1u);
}

static struct kvc_span all_of(struct kvc_buffer *buffer) { return (struct kvc_span){buffer, 0}; }

/* The newest entry of the fullest head. */
struct newest {
    uint32_t head, count, slot, slots;
    size_t base;
};

static bool find_newest(struct kvc_device *device, const struct kvc_lists *lists, struct newest *newest) {
    *newest = (struct newest){.count = 0};
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const uint32_t count = word_at(device, all_of(lists->count), h);
        if (count > newest->count)
            *newest = (struct newest){h, count, count - 1, lists->host_base[h + 1] - lists->host_base[h],
                                      lists->host_base[h]};
    }
    if (newest->count && lists->order)
        newest->slot = word_at(device, all_of(lists->order), newest->base + newest->slot);
    return newest->count > 0;
}

/* Its score; rows: rows of scores for each head. */
static void flip_score(struct kvc_device *device, const struct kvc_lists *lists, struct kvc_span scores,
                       uint32_t stride, uint32_t rows) {
    struct newest newest;
    if (find_newest(device, lists, &newest))
        flip(device, scores, (size_t)newest.head * rows * stride + newest.count - 1);
}

static void flip_state(struct kvc_device *device, const struct kvc_lists *lists, uint32_t column) {
    struct newest newest;
    if (lists->state && find_newest(device, lists, &newest))
        flip(device, all_of(lists->state), lists->columns * newest.base + column * newest.slots + newest.slot);
}

static void take_one(struct kvc_device *device, const struct kvc_lists *lists) {
    struct newest newest;
    if (find_newest(device, lists, &newest))
        put_word(device, all_of(lists->count), newest.head, newest.count - 1);
}

static void shift_position(struct kvc_device *device, const struct kvc_lists *lists) {
    struct newest newest;
    if (lists->position && find_newest(device, lists, &newest))
        put_word(device, all_of(lists->position), newest.base + newest.slot,
                 word_at(device, all_of(lists->position), newest.base + newest.slot) + 1);
}

/* Swaps the last two slots of the first head's order list, free or not. */
static void swap_slots(struct kvc_device *device, const struct kvc_lists *lists) {
    const struct kvc_span order = all_of(lists->order);
    const size_t last = lists->host_base[1] - 1;
    const uint32_t a = word_at(device, order, last - 1), b = word_at(device, order, last);
    put_word(device, order, last - 1, b);
    put_word(device, order, last, a);
}

/* One rank of ascending lists becomes one that the list has not, below the head's count. */
static void change_rank(struct kvc_device *device, const struct kvc_lists *lists, const struct kvc_read_list *list) {
    const struct kvc_span ranks = all_of(list->rank);
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const uint32_t held = word_at(device, all_of(lists->count), h);
        const uint32_t count = word_at(device, all_of(list->count), h);
        const size_t first = (size_t)h * list->stride;
        for (uint32_t i = 0, before = 0; i < count; i++) { /* before: the lowest rank that can still be put here */
            const uint32_t rank = word_at(device, ranks, first + i);
            if (rank > before || (i + 1 == count && rank + 1 < held)) {
                put_word(device, ranks, first + i, rank > before ? rank - 1 : rank + 1);
                return;
            }
            before = rank + 1;
        }
    }
}

static void flip_last_byte(struct kvc_device *device, struct kvc_span span, size_t bytes) {
    unsigned char byte;
    if (bytes == 0)
        return;
    span.offset += bytes - 1;
    device->ops->download(device, &byte, span, 1);
    byte ^= 1;
    device->ops->upload(device, span, &byte, 1);
}

/* ---- the operations ---------------------------------------------------------------------------------------------- */

static void inject_close(struct kvc_device *device) {
    kvc_inject_end(device);
    device->ops->close(device);
}

static enum kvc_status inject_buffer_create(struct kvc_device *device, enum kvc_memory_kind kind, size_t bytes,
                                            struct kvc_buffer **buffer, struct kvc_error *error) {
    const struct kvc_ops *inject = enter(device);
    const enum kvc_status status = device->ops->buffer_create(device, kind, bytes, buffer, error);
    if (status == KVC_OK)
        flip_last_byte(device, all_of(*buffer), bytes);
    leave(device, inject);
    return status;
}

static void inject_upload(struct kvc_device *device, struct kvc_span to, const void *from, size_t bytes) {
    const struct kvc_ops *inject = enter(device);
    device->ops->upload(device, to, from, bytes);
    flip_last_byte(device, to, bytes);
    leave(device, inject);
}

static void inject_download(struct kvc_device *device, void *to, struct kvc_span from, size_t bytes) {
    const struct kvc_ops *inject = enter(device);
    device->ops->download(device, to, from, bytes);
    if (bytes)
        ((unsigned char *)to)[bytes - 1] ^= 1;
    leave(device, inject);
}

static void inject_copy(struct kvc_device *device, struct kvc_span to, struct kvc_span from, size_t bytes) {
    const struct kvc_ops *inject = enter(device);
    device->ops->copy(device, to, from, bytes);
    flip_last_byte(device, to, bytes);
    leave(device, inject);
}

static void inject_zero(struct kvc_device *device, struct kvc_span span, size_t bytes) {
    const struct kvc_ops *inject = enter(device);
    device->ops->zero(device, span, bytes);
    flip_last_byte(device, span, bytes);
    leave(device, inject);
}

/* An operation that writes rows of numbers: after the real one `damage` makes them wrong. */
#define KVC_BROKEN(name, arguments, call, damage)                                                                      \
    static void inject_##name arguments {                                                                              \
        const struct kvc_ops *inject = enter(device);                                                                  \
        device->ops->name call;                                                                                        \
        damage;                                                                                                        \
        leave(device, inject);                                                                                         \
    }

/* clang-format off */
KVC_BROKEN(embed, (struct kvc_device *device, struct kvc_span out, const struct kvc_weight *table,
                   struct kvc_span tokens, uint32_t rows),
           (device, out, table, tokens, rows), if (rows) flip(device, out, 0))
KVC_BROKEN(norm, (struct kvc_device *device, struct kvc_span y, struct kvc_span x, struct kvc_span w, uint32_t rows,
                  uint32_t K, float eps),
           (device, y, x, w, rows, K, eps), if (rows) flip(device, y, (size_t)rows * K - 1))
KVC_BROKEN(linear, (struct kvc_device *device, struct kvc_span y, struct kvc_span x, const struct kvc_weight *w,
                    struct kvc_span bias, uint32_t rows),
           (device, y, x, w, bias, rows), if (rows) flip(device, y, 0))
KVC_BROKEN(rope, (struct kvc_device *device, struct kvc_span y, struct kvc_span x, struct kvc_span cosine,
                  struct kvc_span sine, uint32_t rows, uint32_t heads, uint32_t d, uint32_t rotary, bool interleaved),
           (device, y, x, cosine, sine, rows, heads, d, rotary, interleaved),
           if (rows) flip(device, y, (size_t)rows * heads * d - 1))
KVC_BROKEN(gated_silu, (struct kvc_device *device, struct kvc_span y, struct kvc_span gate, struct kvc_span up,
                        size_t n),
           (device, y, gate, up, n), if (n) flip(device, y, n - 1))
KVC_BROKEN(add, (struct kvc_device *device, struct kvc_span y, struct kvc_span x, size_t n),
           (device, y, x, n), if (n) flip(device, y, n - 1))
KVC_BROKEN(blend, (struct kvc_device *device, struct kvc_span y, struct kvc_span x, float share, size_t n),
           (device, y, x, share, n), if (n) flip(device, y, n - 1))
KVC_BROKEN(fma_loop, (struct kvc_device *device, struct kvc_span x, size_t n, uint32_t rounds),
           (device, x, n, rounds), if (n) flip(device, x, n - 1))
KVC_BROKEN(repeat_heads, (struct kvc_device *device, struct kvc_span out, struct kvc_span x, uint32_t rows,
                          uint32_t heads, uint32_t copies, uint32_t d),
           (device, out, x, rows, heads, copies, d),
           if (rows) flip(device, out, (size_t)rows * heads * copies * d - 1))
KVC_BROKEN(gather, (struct kvc_device *device, struct kvc_span out, struct kvc_span x, struct kvc_span index,
                    uint32_t rows, uint32_t width),
           (device, out, x, index, rows, width), if (rows) flip(device, out, (size_t)rows * width - 1))

KVC_BROKEN(drop, (struct kvc_device *device, struct kvc_lists *lists, uint32_t rows),
           (device, lists, rows), take_one(device, lists))
KVC_BROKEN(attention, (struct kvc_device *device, const struct kvc_attention *attention),
           (device, attention), if (attention->segment_count) flip(device, attention->out, 0))
KVC_BROKEN(identity, (struct kvc_device *device, struct kvc_lists *lists),
           (device, lists), shift_position(device, lists))
KVC_BROKEN(evict, (struct kvc_device *device, struct kvc_lists *lists, const struct kvc_read_list *kept),
           (device, lists, kept), if (lists->order) swap_slots(device, lists))
KVC_BROKEN(keep_keys, (struct kvc_device *device, const struct kvc_lists *lists, uint32_t first, struct kvc_span k,
                       uint32_t rows),
           (device, lists, first, k, rows), if (rows) flip_state(device, lists, first))

/* The newest entry's first channel is rotated as another number. */
static void inject_turn_keys(struct kvc_device *device, const struct kvc_lists *lists, uint32_t first,
                             struct kvc_span cosine, struct kvc_span sine, uint32_t rotary, bool interleaved) {
    const struct kvc_ops *inject = enter(device);
    struct newest newest;
    const bool any = find_newest(device, lists, &newest);
    const size_t at = lists->columns * newest.base + first * (size_t)newest.slots + newest.slot;
    const uint32_t word = any ? word_at(device, all_of(lists->state), at) : 0;
    if (any)
        put_word(device, all_of(lists->state), at, word ^ 0x40000000u);
    device->ops->turn_keys(device, lists, first, cosine, sine, rotary, interleaved);
    if (any)
        put_word(device, all_of(lists->state), at, word);
    leave(device, inject);
}
KVC_BROKEN(relayout, (struct kvc_device *device, struct kvc_lists *dst, const struct kvc_lists *src),
           (device, dst, src), if (dst->order) swap_slots(device, dst); else take_one(device, dst))
KVC_BROKEN(entries, (struct kvc_device *device, const struct kvc_lists *lists, uint32_t h, struct kvc_span keys,
                     struct kvc_span values),
           (device, lists, h, keys, values),
           if (word_at(device, all_of(lists->count), h)) flip(device, keys.buffer ? keys : values, 0))

KVC_BROKEN(window_mass, (struct kvc_device *device, const struct kvc_probabilities *rows, struct kvc_span scores,
                         uint32_t stride, bool by_head),
           (device, rows, scores, stride, by_head),
           flip_score(device, rows->lists, scores, stride, by_head ? rows->heads / rows->lists->kv_heads : 1))
KVC_BROKEN(window_moments, (struct kvc_device *device, const struct kvc_probabilities *rows, uint64_t tail, float gamma,
                            struct kvc_span scores, uint32_t stride, struct kvc_span totals),
           (device, rows, tail, gamma, scores, stride, totals),
           flip_score(device, rows->lists, scores, stride, rows->heads / rows->lists->kv_heads))
KVC_BROKEN(accumulate, (struct kvc_device *device, const struct kvc_probabilities *rows, uint32_t column,
                        const struct kvc_noise *noise),
           (device, rows, column, noise), flip_state(device, rows->lists, column + 1))
KVC_BROKEN(ring_write, (struct kvc_device *device, const struct kvc_probabilities *rows, uint32_t first, uint32_t ring,
                        enum kvc_row_kind kind),
           (device, rows, first, ring, kind), flip_state(device, rows->lists, first))
KVC_BROKEN(ring_fuse, (struct kvc_device *device, const struct kvc_lists *lists, uint32_t first, uint32_t ring,
                       uint32_t filled, int64_t now, enum kvc_row_kind kind, enum kvc_fusion fusion, int64_t recent,
                       struct kvc_span scores, uint32_t stride),
           (device, lists, first, ring, filled, now, kind, fusion, recent, scores, stride),
           flip_score(device, lists, scores, stride, 1))
KVC_BROKEN(column_scores, (struct kvc_device *device, const struct kvc_lists *lists, uint32_t first, uint32_t columns,
                           struct kvc_span scores, uint32_t stride),
           (device, lists, first, columns, scores, stride), flip_score(device, lists, scores, stride, 1))
KVC_BROKEN(scores_column, (struct kvc_device *device, const struct kvc_lists *lists, uint32_t column,
                           struct kvc_span scores, uint32_t stride),
           (device, lists, column, scores, stride), flip_state(device, lists, column))
KVC_BROKEN(pool, (struct kvc_device *device, const struct kvc_lists *lists, uint32_t rows, struct kvc_span out,
                  struct kvc_span in, uint32_t stride, uint64_t tail, uint32_t kernel, enum kvc_pooling pooling),
           (device, lists, rows, out, in, stride, tail, kernel, pooling),
           flip_score(device, lists, out, stride, rows))
KVC_BROKEN(group_scores, (struct kvc_device *device, const struct kvc_lists *lists, uint32_t rows, struct kvc_span out,
                          struct kvc_span in, uint32_t stride, float divisor),
           (device, lists, rows, out, in, stride, divisor), flip_score(device, lists, out, stride, 1))
KVC_BROKEN(keep, (struct kvc_device *device, const struct kvc_lists *lists, const struct kvc_keep *rules,
                  uint32_t rule_count, struct kvc_span scores, struct kvc_span ties, uint32_t stride,
                  struct kvc_read_list *kept),
           (device, lists, rules, rule_count, scores, ties, stride, kept), change_rank(device, lists, kept))
KVC_BROKEN(shares, (struct kvc_device *device, const struct kvc_lists *lists, struct kvc_span scores, uint32_t stride,
                    uint64_t tail, uint64_t slots, struct kvc_span shares),
           (device, lists, scores, stride, tail, slots, shares),
           put_word(device, shares, 0, word_at(device, shares, 0) ^ 1u))

KVC_BROKEN(view_append, (struct kvc_device *device, const struct kvc_lists *lists, struct kvc_read_list *view,
                         uint32_t rows),
           (device, lists, view, rows), change_rank(device, lists, view))
KVC_BROKEN(view_evict, (struct kvc_device *device, const struct kvc_lists *lists, const struct kvc_read_list *kept,
                        struct kvc_read_list *view),
           (device, lists, kept, view), change_rank(device, lists, view))
KVC_BROKEN(pages_update, (struct kvc_device *device, const struct kvc_lists *lists, const struct kvc_read_list *view,
                          struct kvc_pages *pages, uint32_t rows),
           (device, lists, view, pages, rows), flip_last_byte(device, all_of(pages->high), sizeof(float)))
KVC_BROKEN(select_scores, (struct kvc_device *device, const struct kvc_select_scores *scores),
           (device, scores), flip(device, scores->scores, 0))
KVC_BROKEN(select_reads, (struct kvc_device *device, const struct kvc_select_reads *reads),
           (device, reads), change_rank(device, reads->lists, reads->reads))
KVC_BROKEN(value_sums, (struct kvc_device *device, const struct kvc_lists *lists, const struct kvc_read_list *view,
                        struct kvc_span sums, uint32_t rows),
           (device, lists, view, sums, rows), flip(device, sums, 0))
KVC_BROKEN(mix_mean, (struct kvc_device *device, const struct kvc_lists *lists, const struct kvc_read_list *view,
                      const struct kvc_read_list *reads, uint32_t heads, uint32_t d, struct kvc_span out,
                      struct kvc_span alpha, struct kvc_span sums),
           (device, lists, view, reads, heads, d, out, alpha, sums), flip(device, out, 0))
/* clang-format on */

static void inject_select_scores_reads(struct kvc_device *device, const struct kvc_select_scores *scores,
                                       const struct kvc_select_reads *reads) {
    const struct kvc_ops *inject = enter(device);
    if (device->ops->select_scores_reads) {
        device->ops->select_scores_reads(device, scores, reads);
    } else {
        device->ops->select_scores(device, scores);
        device->ops->select_reads(device, reads);
    }
    change_rank(device, reads->lists, reads->reads);
    leave(device, inject);
}

static void inject_keep_ring(struct kvc_device *device, const struct kvc_lists *lists, const struct kvc_keep *rule,
                             const struct kvc_ring *ring, struct kvc_span scores, struct kvc_span fused,
                             uint32_t stride, struct kvc_read_list *kept) {
    const struct kvc_ops *inject = enter(device);
    const struct kvc_span none = {NULL, 0};
    if (device->ops->keep_ring) {
        device->ops->keep_ring(device, lists, rule, ring, scores, fused, stride, kept);
    } else {
        device->ops->ring_fuse(device, lists, ring->first, ring->ring, ring->ring, ring->now, KVC_ROW_WEIGHTS,
                               KVC_FUSE_SUM, rule->recent, fused, stride);
        device->ops->keep(device, lists, rule, 1, scores.buffer ? scores : fused, scores.buffer ? fused : none, stride,
                          kept);
    }
    change_rank(device, lists, kept);
    leave(device, inject);
}

/* The first channel of what is stored, of the newest row of each segment: the key is 1, or 2 where it was 1. */
static void inject_append(struct kvc_device *device, const struct kvc_segment *segments, size_t segment_count,
                          struct kvc_span k, struct kvc_span v, struct kvc_span positions) {
    const struct kvc_ops *inject = enter(device);
    const struct kvc_lists *lists = segments[0].lists;
    const size_t width = (size_t)lists->kv_heads * lists->format.head_size;
    struct kvc_buffer *copy = NULL;
    size_t rows = 0;
    for (size_t i = 0; i < segment_count; i++)
        if (segments[i].row + segments[i].rows > rows)
            rows = segments[i].row + segments[i].rows;
    const size_t bytes = rows * width * sizeof(float);
    if (bytes && device->ops->buffer_create(device, KVC_MEMORY_SCRATCH, bytes, &copy, NULL) == KVC_OK) {
        device->ops->copy(device, all_of(copy), k, bytes);
        for (size_t i = 0; i < segment_count; i++) {
            const size_t newest = (segments[i].row + segments[i].stored - 1) * width;
            const bool one = segments[i].stored && word_at(device, all_of(copy), newest) == kvc_bits(1.0f);
            if (segments[i].stored)
                put_word(device, all_of(copy), newest, kvc_bits(one ? 2.0f : 1.0f));
        }
        k = all_of(copy);
    }
    device->ops->append(device, segments, segment_count, k, v, positions);
    device->ops->sync(device, NULL);
    device->ops->buffer_free(device, copy);
    leave(device, inject);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

/* Puts the injected operation into the table; false: there is none of this name. */
static bool replace(struct kvc_ops *ops, const char *name, bool memory) {
#define KVC_REPLACE(operation)                                                                                         \
    if (strcmp(name, #operation) == 0) {                                                                               \
        ops->operation = inject_##operation;                                                                           \
        return true;                                                                                                   \
    }
    if (memory) {
        KVC_REPLACE(buffer_create)
        KVC_REPLACE(upload)
        KVC_REPLACE(download)
        KVC_REPLACE(copy)
        KVC_REPLACE(zero)
    }
    KVC_REPLACE(embed)
    KVC_REPLACE(norm)
    KVC_REPLACE(linear)
    KVC_REPLACE(rope)
    KVC_REPLACE(gated_silu)
    KVC_REPLACE(add)
    KVC_REPLACE(blend)
    KVC_REPLACE(repeat_heads)
    KVC_REPLACE(gather)
    KVC_REPLACE(fma_loop)
    KVC_REPLACE(append)
    KVC_REPLACE(drop)
    KVC_REPLACE(attention)
    KVC_REPLACE(identity)
    KVC_REPLACE(evict)
    KVC_REPLACE(keep_keys)
    KVC_REPLACE(turn_keys)
    KVC_REPLACE(relayout)
    KVC_REPLACE(entries)
    KVC_REPLACE(window_mass)
    KVC_REPLACE(window_moments)
    KVC_REPLACE(accumulate)
    KVC_REPLACE(ring_write)
    KVC_REPLACE(column_scores)
    KVC_REPLACE(scores_column)
    KVC_REPLACE(pool)
    KVC_REPLACE(group_scores)
    KVC_REPLACE(keep_ring)
    KVC_REPLACE(shares)
    KVC_REPLACE(view_append)
    KVC_REPLACE(view_evict)
    KVC_REPLACE(pages_update)
    KVC_REPLACE(select_scores_reads)
    KVC_REPLACE(value_sums)
    KVC_REPLACE(mix_mean)
    ops->select_scores_reads = NULL; /* both may stand in for those that follow */
    ops->keep_ring = NULL;
    KVC_REPLACE(select_scores)
    KVC_REPLACE(select_reads)
    KVC_REPLACE(ring_fuse)
    KVC_REPLACE(keep)
#undef KVC_REPLACE
    return false;
}

enum kvc_status kvc_inject(struct kvc_device *device, const char *operation, bool memory, struct kvc_error *error) {
    struct inject *inject = malloc(sizeof *inject);
    if (!inject)
        return kvc_fail(error, KVC_RESOURCE, "verify: no memory to inject a wrong result");
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
