/* entries.h - template: loads cache entries as float vectors, finds a head's entries in memory, and computes exp on
 * vectors. */
#ifndef KVC_SIMD_ATTENTION_ENTRIES_H
#define KVC_SIMD_ATTENTION_ENTRIES_H

#include "core/base/integers.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/simd/attention/groups.h"
#include "backends/cpu/simd/integers/integers.h"
#include "backends/cpu/simd/lanes/lanes.h"

/* With fewer vector operations, waking the threads (some microseconds) costs more time than it saves. */
#define POOL_WORK 10000.0

INLINE struct kvc_threads *threads_for(const struct kvc_cpu *cpu, double vector_operations) {
    return vector_operations < POOL_WORK ? NULL : cpu->threads;
}

/* ---- arithmetic ---- */

/* Computes kvc_exp of n vectors. Every x must be <= 0, or the NaN of inf - inf, whose low bits are zero. Each step is
 * done for all vectors before the next step, so that no instruction waits for a result. */
INLINE void exps_not_above_zero(vf *x, unsigned n) {
    vf t[4], r[4], p[4];
#define EACH                                                                                                           \
    UNROLL                                                                                                             \
    for (unsigned i = 0; i < n; i++)
    EACH t[i] = vf_fma(x[i], vf_set(KVC_LOG2E), vf_set(KVC_ROUND_MAGIC));
    EACH p[i] = vf_sub(t[i], vf_set(KVC_ROUND_MAGIC));
    EACH r[i] = vf_fnma(p[i], vf_set(KVC_LN2_HIGH), x[i]);
    EACH r[i] = vf_fnma(p[i], vf_set(KVC_LN2_LOW), r[i]);
    EACH p[i] = vf_fma(vf_set(KVC_EXP_C6), r[i], vf_set(KVC_EXP_C5));
    EACH p[i] = vf_fma(p[i], r[i], vf_set(KVC_EXP_C4));
    EACH p[i] = vf_fma(p[i], r[i], vf_set(KVC_EXP_C3));
    EACH p[i] = vf_fma(p[i], r[i], vf_set(KVC_EXP_C2));
    EACH p[i] = vf_fma(p[i], r[i], vf_set(1.0f));
    EACH p[i] = vf_fma(p[i], r[i], vf_set(1.0f));
    EACH p[i] = vf_from_bits(vi_add(vf_bits(p[i]), vi_shift_23(vf_bits(t[i]))));
    EACH x[i] = vf_select(vf_less(x[i], vf_set(KVC_EXP_LOW)), vf_zero(), p[i]);
#undef EACH
}

INLINE vf exp_not_above_zero(vf x) {
    exps_not_above_zero(&x, 1);
    return x;
}

/* Replaces x [vectors] by exp(x - most). No x may be above `most`. If `lane` is not NULL, also adds vector i of the
 * result (multiplied by *places unless `places` is NULL) to lane[i % LANE_VECTORS], in ascending order of i. */
INLINE void exps_interleaved(float *x, unsigned vectors, float most, const vf *places, vf *lane) {
    UNROLL
    for (unsigned i = 0; i < vectors; i += 4) {
        const unsigned n = kvc_min_u32(vectors - i, 4);
        vf y[4];
        UNROLL
        for (unsigned j = 0; j < n; j++)
            y[j] = vf_sub(vf_load(x + (i + j) * LANES), vf_set(most));
        exps_not_above_zero(y, n);
        UNROLL
        for (unsigned j = 0; j < n; j++) {
            vf_store(x + (i + j) * LANES, y[j]);
            if (lane && places)
                lane[(i + j) % LANE_VECTORS] = vf_fma(*places, y[j], lane[(i + j) % LANE_VECTORS]);
            else if (lane)
                lane[(i + j) % LANE_VECTORS] = vf_add(lane[(i + j) % LANE_VECTORS], y[j]);
        }
    }
}

/* Calls exps_interleaved for all of x [n]. n is a multiple of KVC_LANES. */
INLINE void exps_and_sums(float *x, uint32_t n, float most, const vf *places, vf *lane) {
    const uint32_t step = LANE_VECTORS < 4 ? 4 * LANES : KVC_LANES;
    uint32_t i = 0;
    for (; i + step <= n; i += step)
        exps_interleaved(x + i, step / LANES, most, places, lane);
    for (; i < n; i += KVC_LANES)
        exps_interleaved(x + i, LANE_VECTORS, most, places, lane);
}

static inline void exps_below(float *x, uint32_t n, float most) { exps_and_sums(x, n, most, NULL, NULL); }

/* Computes kvc_exp for every x. */
INLINE vf exp_any(vf x) {
    vf y = exp_not_above_zero(x);
    y = vf_select(vf_less(vf_set(KVC_EXP_HIGH), x), vf_set(kvc_infinity()), y);
    return vf_select(vf_is_nan(x), x, y);
}

/* Computes kvc_tanh for every x. */
INLINE vf tanh_any(vf x) {
    const vf sign = vf_from_bits(vi_and(vf_bits(x), vi_set(INT32_MIN))), z = vf_mul(x, x);
    const vf a = vf_from_bits(vi_and(vf_bits(x), vi_set(INT32_MAX)));
    vf p = vf_fma(vf_set(KVC_TANH_C11), z, vf_set(KVC_TANH_C9));
    p = vf_fma(p, z, vf_set(KVC_TANH_C7));
    p = vf_fma(p, z, vf_set(KVC_TANH_C5));
    p = vf_fma(p, z, vf_set(KVC_TANH_C3));
    p = vf_fma(vf_mul(p, z), x, x);
    vf high = vf_add(exp_any(vf_add(a, a)), vf_set(1.0f));
    high = vf_sub(vf_set(1.0f), vf_div(vf_set(2.0f), high));
    high = vf_from_bits(vi_or(vf_bits(high), vf_bits(sign)));
    return vf_select(vf_less(a, vf_set(KVC_TANH_LOW)), p, high);
}

/* Computes kvc_capped for every x. */
INLINE vf capped(vf x, vf cap) { return vf_mul(cap, tanh_any(vf_div(x, cap))); }

static NEVER_INLINE void cap_scores(float *x, size_t n, float cap) {
    const vf most = vf_set(cap);
    size_t i = 0;
    for (; i + LANES <= n; i += LANES)
        vf_store(x + i, capped(vf_load(x + i), most));
    if (i < n)
        vf_part_store(x + i, capped(vf_part_load(x + i, n - i), most), n - i);
}

/* ---- entries ---- */

#define Q8_BYTES (2 + KVC_Q8_GROUP) /* size in bytes of a full group of a Q8_0 row */

/* Loads channels c .. c + LANES - 1 of a row. c is a multiple of LANES. */
INLINE vf entry_load(enum kvc_type type, const unsigned char *row, size_t c) {
    if (type == KVC_F32)
        return vf_load((const float *)(const void *)row + c);
    if (type == KVC_F16)
        return vf_load_f16(row + 2 * c);
    const unsigned char *group = row + c / KVC_Q8_GROUP * Q8_BYTES;
    return vf_mul(vf_set(half_load(group)), vf_load_i8(group + 2 + c % KVC_Q8_GROUP));
}

/* Loads channels c .. c + LANES - 1 of a row of d channels whose type is not F32, F16 or Q8_0. Channels from d on are
 * +0. */
static NEVER_INLINE vf entry_packed_load(enum kvc_type type, const unsigned char *row, size_t c, size_t d) {
    float x[KVC_ENTRY_GROUP + LANES] = {0};
    const size_t first = c / KVC_ENTRY_GROUP * KVC_ENTRY_GROUP, group = first / KVC_ENTRY_GROUP;
    const size_t n = kvc_min_u64(d - first, KVC_ENTRY_GROUP);
    const unsigned char *from = type == KVC_BF16 ? row + 2 * first : row + group * kvc_entry_group_bytes(type);
    dequantize_packed(type, x, from, n);
    return vf_load(x + (c - first));
}

/* Loads the last n channels of a row of any type, from channel c on, followed by +0. */
INLINE vf entry_part_load(enum kvc_type type, const unsigned char *row, size_t c, size_t n) {
    if (type == KVC_F32)
        return vf_part_load((const float *)(const void *)row + c, n);
    if (type == KVC_F16)
        return vf_part_load_f16(row + 2 * c, n);
    if (type != KVC_Q8_0)
        return entry_packed_load(type, row, c, c + n);
    const unsigned char *group = row + c / KVC_Q8_GROUP * Q8_BYTES;
    const vf x = vf_mul(vf_set(half_load(group)), vf_part_load_i8(group + 2 + c % KVC_Q8_GROUP, n));
    return vf_select(vm_first(n), x, vf_zero()); /* if the scale is a NaN, the padding would be NaN, too */
}

/* The location of one head's entries. */
struct head_entries {
    const uint32_t *order, *index; /* order: slots by index; index: the read list; if both are NULL, element i is in
                                    * slot i */
    const int32_t *position;       /* positions by slot; NULL: positions equal slots */
    const unsigned char **block;   /* [head_block_count]: the blocks' keys, then their values */
    uint32_t count, places;        /* count: entries in the list; places: entries in the read list, or `count` if there
                                    * is none */
    uint32_t blocks;
    size_t key_bytes, value_bytes;
};

/* Returns the number of pointers that head_entries.block must hold. */
static inline size_t head_block_count(const struct kvc_lists *lists, uint32_t h) {
    return 2 * (size_t)kvc_slots_blocks(lists->host_base[h + 1] - lists->host_base[h]);
}

static inline struct head_entries head_open(const struct kvc_lists *lists, const struct kvc_read_list *reads,
                                            uint32_t h, const unsigned char **capacity) {
    const uint32_t base = lists->host_base[h];
    const uint32_t *blocks = (const uint32_t *)lists->blocks->data + kvc_first_block(base, h);
    const uint32_t n = (uint32_t)head_block_count(lists, h) / 2;
    struct head_entries head = {
        .order = lists->order ? (const uint32_t *)lists->order->data + base : NULL,
        .position = lists->position ? (const int32_t *)lists->position->data + base : NULL,
        .block = capacity,
        .count = ((const uint32_t *)lists->count->data)[h],
        .blocks = n,
        .key_bytes = lists->format.key.bytes,
        .value_bytes = lists->format.value.bytes,
    };
    head.places = head.count;
    if (reads) {
        head.index = (const uint32_t *)reads->index->data + (size_t)h * reads->stride;
        head.places = ((const uint32_t *)reads->count->data)[h];
    }
    for (uint32_t i = 0; i < n; i++) {
        capacity[i] = kvc_cpu_block(lists->arena, blocks[i]);
        capacity[n + i] = kvc_cpu_values(lists->arena, blocks[i]);
    }
    return head;
}

INLINE uint32_t head_index(const struct head_entries *head, uint32_t place) {
    return head->index ? head->index[place] : place;
}

INLINE uint32_t head_slot(const struct head_entries *head, uint32_t place) {
    const uint32_t index = head_index(head, place);
    return head->order ? head->order[index] : index;
}

INLINE int32_t slot_position(const struct head_entries *head, uint32_t slot) {
    return head->position ? head->position[slot] : (int32_t)slot;
}

INLINE const unsigned char *slot_key(const struct head_entries *head, uint32_t slot) {
    return head->block[slot / KVC_BLOCK] + (size_t)(slot % KVC_BLOCK) * head->key_bytes;
}
INLINE const unsigned char *slot_value(const struct head_entries *head, uint32_t slot) {
    return head->block[head->blocks + slot / KVC_BLOCK] + (size_t)(slot % KVC_BLOCK) * head->value_bytes;
}

/* Writes the addresses of the keys of n entries, from entry `place` on. */
static inline void head_keys(const struct head_entries *head, uint32_t place, uint32_t n, const unsigned char **keys) {
    if (!head->order && !head->index) {
        for (uint32_t i = 0, end; i < n; i = end) { /* handles one block at a time */
            const unsigned char *key = slot_key(head, place + i);
            end = kvc_min_u32(n, (uint32_t)kvc_round_up(place + i + 1, KVC_BLOCK) - place);
            for (uint32_t j = i; j < end; j++, key += head->key_bytes)
                keys[j] = key;
        }
    } else if (!head->index) {
        for (uint32_t i = 0; i < n; i++)
            keys[i] = slot_key(head, head->order[place + i]);
    } else {
        for (uint32_t i = 0; i < n; i++)
            keys[i] = slot_key(head, head_slot(head, place + i));
    }
}

/* Returns 1 + the highest slot in `order` [count]. If the result is `count`, the slots in use are 0 .. count - 1. */
static inline uint32_t slots_in_use(const uint32_t *order, uint32_t count) {
    vi top = vi_set(-1);
    int32_t lane[LANES], most = -1;
    uint32_t r = 0;
    for (; r + LANES <= count; r += LANES) {
        const vi x = vi_load(order + r);
        top = vi_select(vi_greater(x, top), x, top);
    }
    vi_store(lane, top);
    UNROLL
    for (unsigned i = 0; i < LANES; i++)
        most = lane[i] > most ? lane[i] : most;
    for (; r < count; r++)
        most = (int32_t)order[r] > most ? (int32_t)order[r] : most;
    return (uint32_t)(most + 1);
}

/* Returns the entries that are visible to a row at `position` with a causal offset and a sliding window (0: none).
 * Positions and indices ascend along the list, so the visible entries are one range. */
static inline struct seen_range head_seen(const struct head_entries *head, int32_t position, uint32_t causal_offset,
                                          uint32_t window) {
    const uint32_t indices = causal_offset < head->count ? head->count - causal_offset : 0;
    struct seen_range seen = {0, head->places};
    if (head->index) { /* finds the first entry with index >= indices */
        uint32_t low = 0;
        while (low < seen.high) {
            const uint32_t middle = low + (seen.high - low) / 2;
            if (head->index[middle] < indices)
                low = middle + 1;
            else
                seen.high = middle;
        }
    } else {
        seen.high = indices;
    }
    if (window) { /* finds the first entry with position > position - window */
        uint32_t low = 0, high = seen.high;
        const int64_t past = (int64_t)position - (int64_t)window;
        while (low < high) {
            const uint32_t middle = low + (high - low) / 2;
            if (slot_position(head, head_slot(head, middle)) <= past)
                low = middle + 1;
            else
                high = middle;
        }
        seen.low = low;
    }
    return seen;
}

/* Returns the part of the range that lies in the tile beginning at entry `first`, relative to `first`. If the part is
 * empty, low == high. */
INLINE struct seen_range seen_in_tile(struct seen_range seen, uint32_t first) {
    struct seen_range in;
    in.low = seen.low > first ? seen.low - first : 0;
    in.high = seen.high > first ? seen.high - first : 0;
    in.high = kvc_min_u32(in.high, KVC_TILE);
    in.low = kvc_min_u32(in.low, in.high);
    return in;
}

#endif
