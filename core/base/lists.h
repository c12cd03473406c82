/* lists.h - the data that operations work on: buffers, weights, devices, lists of a session's cache entries, and pages
 * of them. */
#ifndef KVC_CORE_BASE_LISTS_H
#define KVC_CORE_BASE_LISTS_H

#include "core/base/canon.h"
#include "core/base/integers.h"
#include "core/base/types.h"
#include "kvcull/policy.h"

/* Repeats two checks of configure, for builds without configure. */
#if SIZE_MAX <= 0xffffffff
#error "32-bit sizes: the bytes of a large cache cannot be counted in them"
#elif defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "big-endian machine: weights are used where they lie in the file, and model files are little-endian"
#endif

#define KVC_TILE 256u /* entries in an attention tile */
#define KVC_BLOCK 32u /* entries in a cache block; divides KVC_TILE */

struct kvc_buffer; /* memory of a backend */
struct kvc_weight; /* a matrix [outputs N, inputs K] of any enum kvc_type, in the backend's own layout */
struct kvc_arena;  /* a backend's allocator of cache blocks */

/* A part of a buffer that begins at an offset in bytes. */
struct kvc_span {
    struct kvc_buffer *buffer;
    size_t offset;
};

/* Every backend's device struct begins with these members. */
struct kvc_device {
    const struct kvc_ops *ops;
    const struct kvc_exposed *exposed; /* handles for other libraries (core/base/exposed.h); NULL: none */
    struct kvc_memory memory;          /* counted by the backend at every allocation */
    char name[128];                    /* "cpu (avx512, 2 threads)" */
    uint64_t capacity;                 /* bytes of the device's own memory; 0: it has none */
    uint64_t refused;          /* size of the last failed allocation; 0: none has failed since this was cleared */
    uint64_t saturated;        /* number of F16 stores clipped to the largest finite value, up to the last sync */
    const struct kvc_log *log; /* log of the engine that opened the device (core/base/log.h); NULL: none */
};

/* How entries are stored. A block holds KVC_BLOCK keys, then KVC_BLOCK values. Keys and values may differ in their
 * type. core/base/entry_types.h defines the types. */
struct kvc_row_format {
    enum kvc_type type;
    uint32_t bytes; /* size of one key or value */
};
struct kvc_entry_format {
    uint32_t head_size;
    struct kvc_row_format key, value;
};
/* Returns the format of entries with these types. */
static inline struct kvc_entry_format kvc_entry_format(struct kvc_entry_types types, uint32_t head_size) {
    return (struct kvc_entry_format){.head_size = head_size,
                                     .key = {types.key, kvc_entry_row_bytes(types.key, head_size)},
                                     .value = {types.value, kvc_entry_row_bytes(types.value, head_size)}};
}
/* Returns the types of entries of this format. */
static inline struct kvc_entry_types kvc_format_types(const struct kvc_entry_format *format) {
    return (struct kvc_entry_types){format->key.type, format->value.type};
}
/* Returns the size of a key and its value. */
static inline uint32_t kvc_entry_bytes(const struct kvc_entry_format *format) {
    return format->key.bytes + format->value.bytes;
}

/* A head may have one slot more than its blocks hold: an extra slot, for the entry that exists only within a decode
 * step. The extra slot is in an arena block that up to KVC_BLOCK heads share. In a block table the slot's name is
 * KVC_EXTRA_SLOT + block * KVC_BLOCK + slot. In a list's arrays the slot takes KVC_EXTRA_SLOTS elements, to keep the
 * following data aligned; only the first is used. */
#define KVC_EXTRA_SLOT 0x80000000u
#define KVC_EXTRA_SLOTS 16u

/* One session's entries in one layer. Head h owns the slots base[h]..base[h+1]-1: a multiple of KVC_BLOCK, plus
 * KVC_EXTRA_SLOTS if it has an extra slot. The names of its blocks begin at blocks[kvc_first_block(base[h], h)]. Slot s
 * is slot s % KVC_BLOCK of block s / KVC_BLOCK. The entry of index r (ascending position) is in slot order[base[h] +
 * r]. order[base[h] + count[h] ...] lists the head's free slots in the order of their use. If `order` is NULL, index,
 * slot and position are equal. `state` holds `columns` float32 columns: column c of slot s of head h is
 * state[columns*base[h]
 * + c*(base[h+1]-base[h]) + s]. The arrays are in device memory, except host_base. */
struct kvc_lists {
    uint32_t kv_heads, columns;
    struct kvc_entry_format format;
    struct kvc_arena *arena;
    uint32_t *host_base;         /* uint32 [H_kv + 1]: host copy of base */
    struct kvc_buffer *base;     /* uint32 [H_kv + 1] */
    struct kvc_buffer *count;    /* uint32 [H_kv] */
    struct kvc_buffer *blocks;   /* uint32 [kvc_first_block(slots, H_kv)] */
    struct kvc_buffer *order;    /* uint32 [slots] or NULL */
    struct kvc_buffer *position; /* int32 [slots], by slot; NULL if order is NULL, and only then */
    struct kvc_buffer *state;    /* float32 [columns * slots] or NULL */
};

/* Returns the index, in `blocks`, of the first block of head h. `base` is the head's first slot. */
static inline uint32_t kvc_first_block(uint32_t base, uint32_t h) { return base / KVC_BLOCK + h; }
/* Return how many entries fit into `slots` slots of a head, and how many blocks these need, including the block of an
 * extra slot. */
static inline uint32_t kvc_slots_hold(uint32_t slots) { return slots - slots % KVC_BLOCK + (slots % KVC_BLOCK > 0); }
static inline uint32_t kvc_slots_blocks(uint32_t slots) { return (slots + KVC_BLOCK - 1) / KVC_BLOCK; }
/* Returns the number of slots that keep their place when a head changes from `had` to `slots` slots. */
static inline uint32_t kvc_slots_kept(uint32_t slots, uint32_t had) {
    const uint32_t both = kvc_min_u32(slots, had);
    return slots == had ? slots : both - both % KVC_BLOCK;
}

/* An ascending list of indices per head: the entries that a row reads (select methods), the entries that are kept, or a
 * view, which is the set of entries that select methods may choose from. A place is an index into such a list, or the
 * entry's own index if there is no list. */
struct kvc_read_list {
    struct kvc_buffer *count; /* uint32 [H_kv] */
    struct kvc_buffer *index; /* uint32 [H_kv, stride] */
    uint32_t stride;
};

/* Consecutive rows of one session in a batch. The keys and values of the first `stored` rows are, or will be, in the
 * lists. Rows after them (probes) are never stored. */
struct kvc_segment {
    struct kvc_lists *lists;
    const struct kvc_read_list *reads; /* NULL: all entries; otherwise the segment has one row */
    uint32_t row, rows, stored;
    uint64_t *bytes_read; /* NULL, or a counter of bytes read: kvc_entry_bytes per entry, over all KV heads */
};

/* How the dot product of a query and a key becomes a score: s = scale * dot and, if cap is not 0, s = kvc_capped(s,
 * cap). A scale of 0 stands for kvc_attention_scale(d). Neither scale nor cap is negative. `integers` permits
 * multiplying queries and entries as integers (canon.h, "int8: attention over Q8_0 entries"). This happens only if the
 * quants of keys and values are integers. */
struct kvc_scoring {
    float scale, cap;
    bool integers;
};

/* Returns true if the entries are multiplied as integers. */
static inline bool kvc_scores_integers(struct kvc_scoring scoring, const struct kvc_entry_format *format) {
    return scoring.integers && kvc_type_is_integers(format->key.type) && kvc_type_is_integers(format->value.type);
}

/* The inputs from which attention probabilities are computed, for `queries` queries of one session and layer. `maximum`
 * and `sum` are the M and L that attention returned. */
struct kvc_probabilities {
    const struct kvc_lists *lists;
    const struct kvc_read_list *reads; /* NULL: all; entries that are not read have probability 0 */
    uint32_t queries, heads, kv_heads, head_size, window;
    struct kvc_span q, maximum, sum;          /* [queries, H, d], [queries, H], [queries, H] */
    struct kvc_span positions, causal_offset; /* int32, uint32 [queries]; offsets are relative to the current lists */
    struct kvc_scoring scoring;               /* the scoring of attention */
};

/* A ring buffer in the state columns first .. first + ring - 1. All rows are filled, and the newest belongs to position
 * now - 1. */
struct kvc_ring {
    uint32_t first, ring, sums;
    int64_t now;
};

/* Smallest and largest key of every page of `page` places: low and high [H_kv, d, stride], F16 for an F16 cache,
 * otherwise F32. The pages of a channel are consecutive. The last page may be partial. If low is NULL and page is 1,
 * high is a copy of the keys, by channel. Pages count as state. */
struct kvc_pages {
    uint32_t page, stride; /* `stride`: pages reserved, per head */
    enum kvc_type type;
    struct kvc_buffer *low, *high;
};

/* Returns the lowest kvc_score_key that an entry needs for a rule to keep it by score; 0: there is no minimum. */
static inline uint32_t kvc_keep_least(const struct kvc_keep *rule) {
    return rule->bounded ? kvc_score_key(rule->least) : 0;
}

#endif
