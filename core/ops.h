/* ops.h - the dispatch table: every operation of every backend, with its shapes, layouts and formula.
 *
 * backends/cpu/ref defines each operation in plain C; core/canon.h is the arithmetic they share. A result must be
 * equal to ref's to the bit on every backend, for any thread count. Operations are queued in order; only sync,
 * upload and download wait. A failure inside a queued operation is kept by the device and returned by the next sync.
 *
 * Symbols: rows = tokens in the batch, H = query heads, H_kv = key-value heads, G = H / H_kv, d = head size,
 * n = entries of a head. All arrays are dense and row-major, float32 unless said otherwise.
 */
#ifndef KVC_CORE_OPS_H
#define KVC_CORE_OPS_H

#include "kvcull.h"

#define KVC_TILE 256u  /* ranks in an attention tile; also entries in a cache block */

struct kvc_buffer; /* a backend's memory */
struct kvc_weight; /* a matrix [outputs N, inputs K] of any enum kvc_type, in the backend's own layout */
struct kvc_arena;  /* a backend's store of cache blocks */

/* A place in a buffer; offset in bytes. */
struct kvc_span {
    struct kvc_buffer *buffer;
    size_t offset;
};

/* Every backend's device starts with this. */
struct kvc_device {
    const struct kvc_ops *ops;
    struct kvc_memory memory; /* counted by the backend at every allocation */
    char name[96];            /* "cpu (avx512, 2 threads)" */
    uint64_t saturated;       /* F16 stores clipped to the largest finite value, so far */
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

/* One session's entries in one layer. Head h owns the slots base[h]..base[h+1]-1 (a multiple of KVC_TILE); slot s of
 * head h lies in arena block blocks[(base[h] + s) / KVC_TILE] at place s % KVC_TILE. Rank r (ascending position)
 * lies in slot order[base[h] + r]; order[base[h] + count[h] ...] are the head's free slots in the order in which they
 * will be used. Without `order` (NULL) rank, slot and position are all the same number. state holds `columns` float32
 * columns: column c of slot s of head h is state[columns*base[h] + c*(base[h+1]-base[h]) + s].
 * The arrays are device memory; the host keeps base only. */
struct kvc_lists {
    uint32_t kv_heads, columns;
    struct kvc_entry_format format;
    struct kvc_arena *arena;
    uint32_t *host_base;         /* uint32 [H_kv + 1], the same as base */
    struct kvc_buffer *base;     /* uint32 [H_kv + 1] */
    struct kvc_buffer *count;    /* uint32 [H_kv] */
    struct kvc_buffer *blocks;   /* uint32 [slots / KVC_TILE] */
    struct kvc_buffer *order;    /* uint32 [slots] or NULL */
    struct kvc_buffer *position; /* int32 [slots], by slot; NULL exactly where order is */
    struct kvc_buffer *state;    /* float32 [columns * slots] or NULL */
};

/* Which entries a row reads: per KV head an ascending list of ranks (select methods). */
struct kvc_read_list {
    struct kvc_buffer *count; /* uint32 [H_kv] */
    struct kvc_buffer *rank;  /* uint32 [H_kv, stride] */
    uint32_t stride;
};

/* Neighbouring rows of one session in a batch. Its first `stored` rows have (or get) their key and value in the
 * lists; rows behind them are never stored (probes). */
struct kvc_segment {
    struct kvc_lists *lists;
    const struct kvc_read_list *reads; /* NULL: all entries; otherwise one row */
    uint32_t row, rows, stored;
    uint64_t *bytes_read; /* NULL, or gets += entries read by these rows, all KV heads, * 2 * row_bytes */
};

struct kvc_attention {
    const struct kvc_segment *segments;
    size_t segment_count;
    uint32_t heads, kv_heads, head_size;
    uint32_t window; /* sliding window: positions <= row's position - window are skipped; 0: none */
    struct kvc_span q;         /* [rows, H, d] after RoPE */
    struct kvc_span out;       /* [rows, H, d] */
    struct kvc_span maximum;   /* M [rows, H], buffer NULL where not wanted */
    struct kvc_span sum;       /* L [rows, H], with maximum */
    struct kvc_span positions; /* int32 [rows] */
    struct kvc_span later;     /* uint32 [rows]: entries at the end of the session's lists that this row must not see */
};

/* Weight rows of `queries` queries of one session and layer, from q and the M and L its attention returned. */
struct kvc_weight_rows {
    const struct kvc_lists *lists;
    const struct kvc_read_list *reads; /* NULL: all; entries not read count 0 */
    uint32_t queries, heads, kv_heads, head_size, window;
    struct kvc_span q, maximum, sum;   /* [queries, H, d], [queries, H], [queries, H] */
    struct kvc_span positions, later;  /* int32, uint32 [queries]; later counts from the lists as they are now */
};

struct kvc_ops {
    const char *name;

    /* ---- memory ---- */
    void (*close)(struct kvc_device *);
    /* Zeroed. Counted under kind. */
    enum kvc_status (*buffer_create)(struct kvc_device *, enum kvc_memory_kind, size_t bytes, struct kvc_buffer **,
                                     struct kvc_error *);
    void (*buffer_free)(struct kvc_device *, struct kvc_buffer *); /* NULL is fine */
    void (*upload)(struct kvc_device *, struct kvc_span to, const void *from, size_t bytes);
    void (*download)(struct kvc_device *, void *to, struct kvc_span from, size_t bytes);
    void (*copy)(struct kvc_device *, struct kvc_span to, struct kvc_span from, size_t bytes); /* no overlap */
    void (*zero)(struct kvc_device *, struct kvc_span, size_t bytes);
    enum kvc_status (*sync)(struct kvc_device *, struct kvc_error *); /* first failure since the last sync */

    /* host [N, K] stays valid and unchanged while the weight lives (it may be a mapped file). */
    enum kvc_status (*weight_create)(struct kvc_device *, enum kvc_type, uint64_t outputs, uint64_t inputs,
                                     const void *host, struct kvc_weight **, struct kvc_error *);
    void (*weight_free)(struct kvc_device *, struct kvc_weight *);

    /* Blocks of 2 * KVC_TILE * row_bytes each, counted as KVC_MEMORY_CACHE while taken. arena_trim gives the pages of
     * untaken blocks back to the system. Contents of a taken block are undefined. */
    enum kvc_status (*arena_create)(struct kvc_device *, const struct kvc_entry_format *, struct kvc_arena **,
                                    struct kvc_error *);
    void (*arena_free)(struct kvc_device *, struct kvc_arena *);
    enum kvc_status (*arena_take)(struct kvc_device *, struct kvc_arena *, uint32_t count, uint32_t *blocks,
                                  struct kvc_error *);
    void (*arena_give)(struct kvc_device *, struct kvc_arena *, uint32_t count, const uint32_t *blocks);
    void (*arena_trim)(struct kvc_device *, struct kvc_arena *);

    /* ---- rows ---- */
    /* out[i, :] = table[tokens[i], :] widened; tokens int32 [rows], checked by the caller. */
    void (*embed)(struct kvc_device *, struct kvc_span out, const struct kvc_weight *table, struct kvc_span tokens,
                  uint32_t rows);
    /* ss = dot32(x, x) over K; r = 1/sqrt(ss/K + eps); y = (x*r)*w. x, y [rows, K], w [K]; in place is fine. */
    void (*norm)(struct kvc_device *, struct kvc_span y, struct kvc_span x, struct kvc_span w, uint32_t rows,
                 uint32_t K, float eps);
    /* y[i, n] = dot32(x[i, :], widen(w[n, :])) (+ bias[n], one addition after it, where bias.buffer is not NULL).
     * x [rows, K], y [rows, N]. */
    void (*linear)(struct kvc_device *, struct kvc_span y, struct kvc_span x, const struct kvc_weight *w,
                   struct kvc_span bias, uint32_t rows);
    /* Rotates the first `rotary` channels of each head, the rest is copied; x, y [rows, heads, d], cosine and sine
     * [rows, rotary/2]. Pairs come in as (2i, 2i+1) where interleaved, else (i, i + rotary/2); they always go out as
     * (i, i + rotary/2): y[i] = x0*cos - x1*sin = fma(-x1, sin, x0*cos), y[i+rotary/2] = fma(x0, sin, x1*cos).
     * y and x may be the same only where not interleaved. */
    void (*rope)(struct kvc_device *, struct kvc_span y, struct kvc_span x, struct kvc_span cosine,
                 struct kvc_span sine, uint32_t rows, uint32_t heads, uint32_t head_size, uint32_t rotary,
                 bool interleaved);
    /* y[i] = silu(gate[i]) * up[i], silu(x) = x / (1 + exp(-x)); n values; y may be gate. */
    void (*gated_silu)(struct kvc_device *, struct kvc_span y, struct kvc_span gate, struct kvc_span up, size_t n);
    void (*add)(struct kvc_device *, struct kvc_span y, struct kvc_span x, size_t n); /* y += x */
    /* out[i, :] = x[index[i], :]; index uint32 [rows], width in floats. */
    void (*gather)(struct kvc_device *, struct kvc_span out, struct kvc_span x, struct kvc_span index, uint32_t rows,
                   uint32_t width);

    /* ---- cache ---- */
    /* Appends the stored rows of each segment, in order, to every head: slot = next free one, position from
     * positions, state columns of that slot zeroed. k, v [rows, H_kv, d]. The caller has made room. */
    void (*append)(struct kvc_device *, const struct kvc_segment *segments, size_t segment_count, struct kvc_span k,
                   struct kvc_span v, struct kvc_span positions);
    /* Takes the newest `rows` entries of every head away again (temporary rows). */
    void (*drop)(struct kvc_device *, struct kvc_lists *, uint32_t rows);
    /* Attention of docs/design.md; `place % 32` of an entry's place in its tile is its lane in l_t. Scores times
     * kvc_attention_scale(d). M is never -0, and NaN where L is NaN, so that the order in which maxima are taken cannot
     * be seen. A row that sees no entry gives zeros, M = -inf, L = 0. */
    void (*attention)(struct kvc_device *, const struct kvc_attention *);
    /* order and position = identity, in buffers the caller made; lists->order and position are already set. */
    void (*identity)(struct kvc_device *, struct kvc_lists *);
    /* Keeps, per head, the ranks kept[h, 0..kept_count[h]-1] (ascending): order becomes the kept slots in that order,
     * then the evicted slots by ascending rank, then the slots that were free. Moves no keys or values. Without an
     * order nothing may go: kept_count = count. */
    void (*evict)(struct kvc_device *, struct kvc_lists *, const struct kvc_read_list *kept);
    /* Copies count, order, position, state and block numbers of src into dst, whose heads may own more or fewer slots
     * (never fewer than they hold entries). Blocks a head keeps are its first ones; entries in slots that dst lacks
     * move into the lowest free slots, ascending rank; free slots are listed ascending. dst blocks beyond src's
     * are already filled in by the caller. dst may have order where src has none, never the reverse. */
    void (*relayout)(struct kvc_device *, struct kvc_lists *dst, const struct kvc_lists *src);

    /* Entries of head h by rank, widened: keys and values [count[h], d], either buffer NULL where not wanted. For
     * checks and tests. */
    void (*entries)(struct kvc_device *, const struct kvc_lists *, uint32_t h, struct kvc_span keys,
                    struct kvc_span values);

    /* ---- what policies look at; scores are [H_kv, stride], by rank; those from count[h] on are undefined ---- */
    /* Column sums: scores[h, rank] = sum over queries ascending of (sum over the group's heads ascending of a). */
    void (*window_mass)(struct kvc_device *, const struct kvc_weight_rows *, struct kvc_span scores, uint32_t stride);
    /* One row per query into state column (position % ring) of every entry, 0 for those the query did not see:
     * kind weights: the group sum of exp(s - M) / L; kind logits: the group sum of s (maximum and sum may be NULL
     * then). Group sums start from 0. */
    void (*ring_write)(struct kvc_device *, const struct kvc_weight_rows *, uint32_t ring, enum kvc_row_kind kind);
    /* F[k] over the ring's newest `filled` rows (those of positions now-filled .. now-1, in that order), from 0 by
     * addition, or by max(F, row) from the first row. Entries at positions >= recent get 0. Kind logits: each row is
     * first replaced by exp(s - m) / l over the entries older than recent, m their maximum and l their sum with the
     * tiles and merge of attention, tiles over ranks. */
    void (*ring_fuse)(struct kvc_device *, const struct kvc_lists *, uint32_t ring, uint32_t filled, int64_t now,
                      enum kvc_row_kind kind, enum kvc_fusion fusion, int64_t recent, struct kvc_span scores,
                      uint32_t stride);
    /* 1-D over ranks below count[h] - tail, stride 1, odd kernel: max over what is inside the range, or the sum
     * (ascending from 0, outside counts 0) divided by the kernel. The tail's ranks get 0. In and out differ. */
    void (*pool)(struct kvc_device *, const struct kvc_lists *, struct kvc_span out, struct kvc_span in,
                 uint32_t stride, uint64_t tail, uint32_t kernel, enum kvc_pooling pooling);
    /* The rule of struct kvc_keep (kvcull.h) as ascending rank lists. scores.buffer may be NULL with top and fill 0. */
    void (*keep)(struct kvc_device *, const struct kvc_lists *, const struct kvc_keep *rule, struct kvc_span scores,
                 uint32_t stride, struct kvc_read_list *kept);
};

/* A backend as core sees it. Adding one: one folder and one line in core/backends.c. */
struct kvc_backend_class {
    const char *name;
    bool (*usable)(char *detail, size_t room); /* detail: the path, or one line why not */
    /* index: the N of "opencl:N", 0 otherwise; path: NULL, or a path of this backend ("avx2"). */
    enum kvc_status (*open)(const char *path, unsigned index, int threads, enum kvc_math math, struct kvc_device **,
                            struct kvc_error *);
    void (*missing)(char *text, size_t room); /* operations filled from ref, "none" where there are none */
};

#endif
