/* integers.h - attention over Q8_0 entries in integer arithmetic (canon.h, "int8: attention over Q8_0 entries"): the
 * kernels that an instruction set provides for one tile, and the memory that they use.
 *
 * Each instruction set packs a tile in the layout that its instructions need. The results of all kernels are
 * bit-identical, because sums of integers are exact in any order. */
#ifndef KVC_SIMD_INTEGERS_INTEGERS_H
#define KVC_SIMD_INTEGERS_INTEGERS_H

#include "backends/cpu/cpu.h"
#include "core/base/integers.h"

#define INTEGERS_QUERIES 48u              /* maximum number of queries in a call of `scores` or `values` */
#define INTEGERS_PADDING 16u              /* queries are padded to a multiple of this number */
#define INTEGERS_BYTES (2 + KVC_Q8_GROUP) /* size in bytes of a full group of a Q8_0 row */

/* The entries low .. high - 1 of a tile or of a list. The range is empty if low == high. */
struct seen_range {
    uint32_t low, high;
};

/* A tile of a list in memory. keys[range.low] .. keys[range.high - 1] are set. */
struct kvc_integer_entries {
    const unsigned char *const *keys; /* [KVC_TILE] */
    size_t value_offset;              /* the distance in bytes from a key to its value */
    struct seen_range range;
    uint32_t d;
    const unsigned char *const *next; /* the keys of the next tile, for prefetching */
    uint32_t next_count;
};

/* Packed entries of a tile, and scratch memory of the kernels. G is the number of groups of 32 channels; D = 32 G. */
struct kvc_integer_tile {
    uint32_t d;
    struct seen_range range;        /* range of the packed entries */
    bool negative;                  /* true if a value scale is negative (only in damaged data) */
    kvc_i8 *keys, *values;          /* [KVC_TILE * D], in the kernels' layout */
    float *key_scale, *value_scale; /* [G, KVC_TILE]; 0 outside `range` */
    float *factor;                  /* [G, KVC_TILE]: the second argument of kvc_value_weight */
    float *unit;                    /* [INTEGERS_QUERIES, G]: kvc_value_unit of the queries of a call */
    unsigned char *digits;          /* [G, INTEGERS_PADDING, 2, KVC_TILE]: digits of weights */
    kvc_i32 *sums;                  /* [2 * INTEGERS_PADDING * KVC_TILE] */
};

/* Quantized queries of one KV head. `padded` is the number of rows, including rows of zeros after the last query. */
struct kvc_integer_queries {
    kvc_i8 *quant; /* [padded, D]; quants of channels d .. D - 1 are 0 */
    float *scale;  /* [padded, G] */
    kvc_i32 *sum;  /* [padded, G]: the sum of the quants of each group */
};

struct kvc_integer_kernels {
    void (*pack_keys)(const struct kvc_integer_entries *from, struct kvc_integer_tile *tile);
    void (*pack_values)(const struct kvc_integer_entries *from, struct kvc_integer_tile *tile);
    /* Writes `scale` times the dot products of queries first .. first + count - 1 with the entries in the tile's range
     * to s [count, KVC_TILE]. Other elements of these rows are undefined afterwards. */
    void (*scores)(const struct kvc_integer_tile *tile, const struct kvc_integer_queries *queries, uint32_t first,
                   uint32_t count, struct seen_range range, float scale, float *s);
    /* Writes the tile's outputs of `count` queries to o, in rows that are `stride` floats apart. Row i of p [count,
     * KVC_TILE] has exp(s - m) for the entries in[i]. It has zeros for the other entries of the blocks of 32 that
     * overlap in[i], and is undefined elsewhere. If a query sees no entries, its output is undefined. */
    void (*values)(const struct kvc_integer_tile *tile, const float *p, const struct seen_range *in, uint32_t count,
                   float *o, size_t stride);
    /* number of queries per call, so that their scores and digits fit in the cache */
    uint32_t at_once;
    uint32_t most_few;                     /* up to this number of queries, `few` is faster */
    const struct kvc_integer_kernels *few; /* other kernels for few queries, or NULL */
};

/* Returns the kernels for a number of queries that share a KV head. */
static inline const struct kvc_integer_kernels *kvc_integers_for(const struct kvc_cpu *cpu, size_t queries) {
    const struct kvc_integer_kernels *kernels = cpu->integers;
    return kernels->few && queries <= kernels->most_few ? kernels->few : kernels;
}

/* Returns the number of groups in d channels. */
static inline uint32_t integer_groups(uint32_t d) { return (d + KVC_Q8_GROUP - 1) / KVC_Q8_GROUP; }

/* Returns the smallest range that contains all ranges of in [count]. */
static inline struct seen_range seen_by_all(const struct seen_range *in, uint32_t count) {
    struct seen_range any = {KVC_TILE, 0};
    for (uint32_t i = 0; i < count; i++)
        if (in[i].low < in[i].high) {
            any.low = kvc_min_u32(in[i].low, any.low);
            any.high = kvc_max_u32(in[i].high, any.high);
        }
    if (any.low > any.high)
        any.low = any.high = 0;
    return any;
}

/* Kernels in plain C, for any instruction set. */
extern const struct kvc_integer_kernels kvc_integer_plain;
extern const struct kvc_integer_kernels kvc_integer_avx2;
extern const struct kvc_integer_kernels kvc_integer_avx2vnni;
extern const struct kvc_integer_kernels kvc_integer_neon;
extern const struct kvc_integer_kernels kvc_integer_neondotprod;
extern const struct kvc_integer_kernels kvc_integer_avx512vnni;
extern const struct kvc_integer_kernels kvc_integer_amx;

#endif
