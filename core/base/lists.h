/* lists.h - what operations work on: buffers, weights, devices, a session's cache entries as lists, pages of them. */
#ifndef KVC_CORE_BASE_LISTS_H
#define KVC_CORE_BASE_LISTS_H

#include "core/base/integers.h"
#include "kvcull/policy.h"

/* What configure asks of a machine, for builds without it. */
#if SIZE_MAX <= 0xffffffff
#error "32-bit sizes: the bytes of a large cache cannot be counted in them"
#elif defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "big-endian machine: weights are used where they lie in the file, and model files are little-endian"
#endif

#define KVC_TILE 256u /* indices in an attention tile; also entries in a cache block */

struct kvc_buffer; /* a backend's memory */
struct kvc_weight; /* a matrix [outputs N, inputs K] of any enum kvc_type, in the backend's own layout */
struct kvc_arena;  /* a backend's store of cache blocks */

/* Memory within a buffer, from an offset in bytes on. */
struct kvc_span {
    struct kvc_buffer *buffer;
    size_t offset;
};

/* Every backend's device starts with this. */
struct kvc_device {
    const struct kvc_ops *ops;
    const struct kvc_exposed *exposed; /* what other libraries reach of it (core/base/exposed.h); NULL: nothing */
    struct kvc_memory memory;          /* counted by the backend at every allocation */
    char name[128];                    /* "cpu (avx512, 2 threads)" */
    uint64_t capacity;                 /* bytes of its own memory; 0: it has none of its own */
    uint64_t refused;   /* bytes of the last allocation there was no memory for; 0: none since this was cleared */
    uint64_t saturated; /* F16 stores clipped to the largest finite value, up to the last sync */
};

/* How entries are stored. A block holds KVC_TILE keys, then KVC_TILE values, each row_bytes long.
 * F32: d floats. F16: d halves, nearest even, overflow saturates to 65504 and is counted. Q8_0: ceil(d/32) groups,
 * each a half scale (amax/127 rounded to F16) and its quants (int8, 32 or what is left of d): quant =
 * rint(x / scale) clamped to -127..127, scale 0 gives zeros, a group with a NaN reads as NaN (canon.h);
 * row_bytes = 2*ceil(d/32) + d. */
struct kvc_entry_format {
    enum kvc_type type;
    uint32_t head_size;
    uint32_t row_bytes;
};

/* A head may have one slot more than its blocks hold, for the entry that only a decode step adds: its spare slot, in
 * an arena block that up to KVC_TILE heads share. Where blocks are named it is KVC_EXTRA_SLOT + block * KVC_TILE +
 * slot. In the arrays of a list it takes KVC_EXTRA_SLOTS slots, so that what follows lies evenly; only the first is
 * ever used.
 */
#define KVC_EXTRA_SLOT 0x80000000u
#define KVC_EXTRA_SLOTS 16u

/* One session's entries in one layer. Head h owns the slots base[h]..base[h+1]-1: a multiple of KVC_TILE, and with a
 * spare slot KVC_EXTRA_SLOTS more. Its blocks are named from blocks[kvc_first_block(base[h], h)] on; slot s lies in
 * the s / KVC_TILE-th, where it is slot s % KVC_TILE. Index r (ascending position) lies in slot order[base[h] + r];
 * order[base[h] + count[h] ...] are the head's free slots in the order in which they will be used. Without `order`
 * (NULL) index, slot and position are all the same number. state holds `columns` float32 columns: column c of slot s of
 * head h is state[columns*base[h] + c*(base[h+1]-base[h]) + s].
 * The arrays are device memory; the host keeps base only. */
struct kvc_lists {
    uint32_t kv_heads, columns;
    struct kvc_entry_format format;
    struct kvc_arena *arena;
    uint32_t *host_base;         /* uint32 [H_kv + 1], the same as base */
    struct kvc_buffer *base;     /* uint32 [H_kv + 1] */
    struct kvc_buffer *count;    /* uint32 [H_kv] */
    struct kvc_buffer *blocks;   /* uint32 [kvc_first_block(slots, H_kv)] */
    struct kvc_buffer *order;    /* uint32 [slots] or NULL */
    struct kvc_buffer *position; /* int32 [slots], by slot; NULL exactly where order is */
    struct kvc_buffer *state;    /* float32 [columns * slots] or NULL */
};

/* Where the blocks of head h are named, whatever the heads before it own. */
static inline uint32_t kvc_first_block(uint32_t base, uint32_t h) { return base / KVC_TILE + h; }
/* Of so many slots of a head: entries that fit; blocks, the spare slot's among them. */
static inline uint32_t kvc_slots_hold(uint32_t slots) { return slots - slots % KVC_TILE + (slots % KVC_TILE > 0); }
static inline uint32_t kvc_slots_blocks(uint32_t slots) { return (slots + KVC_TILE - 1) / KVC_TILE; }
/* Slots that lie where they were when a head that had `had` owns `slots`. */
static inline uint32_t kvc_slots_kept(uint32_t slots, uint32_t had) {
    const uint32_t both = kvc_min_u32(slots, had);
    return slots == had ? slots : both - both % KVC_TILE;
}

/* Per head an ascending list of indices: which entries a row reads (select methods), which are kept, or a view: the
 * entries that select methods see. A place is an index into such a list, or the index itself where there is none. */
struct kvc_read_list {
    struct kvc_buffer *count; /* uint32 [H_kv] */
    struct kvc_buffer *index; /* uint32 [H_kv, stride] */
    uint32_t stride;
};

/* Neighbouring rows of one session in a batch. Its first `stored` rows have (or get) their key and value in the
 * lists; rows after them are never stored (probes). */
struct kvc_segment {
    struct kvc_lists *lists;
    const struct kvc_read_list *reads; /* NULL: all entries; otherwise one row */
    uint32_t row, rows, stored;
    uint64_t *bytes_read; /* NULL, or gets += entries read by these rows, all KV heads, * 2 * row_bytes */
};

/* How a dot of a query and a key becomes a score: s = scale * dot; where cap is not 0, s = kvc_capped(s, cap). scale 0
 * stands for kvc_attention_scale(d); neither is below 0. */
struct kvc_scoring {
    float scale, cap;
};

/* Attention probabilities of `queries` queries of one session and layer, from q and the M and L its attention returned.
 */
struct kvc_probabilities {
    const struct kvc_lists *lists;
    const struct kvc_read_list *reads; /* NULL: all; entries not read count 0 */
    uint32_t queries, heads, kv_heads, head_size, window;
    struct kvc_span q, maximum, sum;          /* [queries, H, d], [queries, H], [queries, H] */
    struct kvc_span positions, causal_offset; /* int32, uint32 [queries]; counted from the lists as they are now */
    struct kvc_scoring scoring;               /* as attention's */
};

/* A ring in the state columns first .. first + ring - 1, all rows filled, the newest at position now - 1. */
struct kvc_ring {
    uint32_t first, ring, sums;
    int64_t now;
};

/* Smallest and largest key of every page of `page` places: low and high [H_kv, d, stride] (the pages of a channel lie
 * side by side) of type F16 for an F16 cache, otherwise F32; the last page may be partial. low NULL, with page 1: high
 * is the keys once more, by channel. Counted as state. */
struct kvc_pages {
    uint32_t page, stride; /* stride: pages reserved, per head */
    enum kvc_type type;
    struct kvc_buffer *low, *high;
};

#endif
