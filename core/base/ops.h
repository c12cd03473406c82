/* ops.h - the dispatch table: every operation of every backend, with its shapes, layouts and formula.
 *
 * backends/cpu/ref defines each operation in plain C; core/base/canon.h is the arithmetic they share. A result must be
 * equal to ref's to the bit on every backend, for any thread count. Operations are queued in order; only sync,
 * upload and download wait. A failure inside a queued operation is kept by the device and returned by the next sync.
 *
 * Symbols: rows = tokens in the batch, H = query heads, H_kv = key-value heads, G = H / H_kv, d = head size,
 * n = entries of a head. All arrays are dense and row-major, float32 unless said otherwise.
 */
#ifndef KVC_CORE_BASE_OPS_H
#define KVC_CORE_BASE_OPS_H

#include "kvcull/policy.h"

/* What configure asks of a machine, for builds without it. */
#if SIZE_MAX <= 0xffffffff
#error "32-bit sizes: the bytes of a large cache cannot be counted in them"
#elif defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "big-endian machine: weights are used where they lie in the file, and model files are little-endian"
#endif

#define KVC_TILE 256u /* ranks in an attention tile; also entries in a cache block */

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
    uint64_t capacity;        /* bytes of its own memory; 0: it has none of its own */
    uint64_t refused;         /* bytes of the last allocation there was no memory for; 0: none since this was cleared */
    uint64_t saturated;       /* F16 stores clipped to the largest finite value, up to the last sync */
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

/* A head may have one place more than its blocks hold, for the entry that only a decode step adds: its spare place, in
 * an arena block that up to KVC_TILE heads share. Where blocks are named it is KVC_SPARE + block * KVC_TILE + place. In
 * the arrays of a list it takes KVC_SPARE_SLOTS slots, so that what follows lies evenly; only the first is ever used.
 */
#define KVC_SPARE 0x80000000u
#define KVC_SPARE_SLOTS 16u

/* One session's entries in one layer. Head h owns the slots base[h]..base[h+1]-1: a multiple of KVC_TILE, and with a
 * spare place KVC_SPARE_SLOTS more. Its blocks are named from blocks[kvc_first_block(base[h], h)] on; slot s lies in
 * the s / KVC_TILE-th, at place s % KVC_TILE. Rank r (ascending position) lies in slot order[base[h] + r];
 * order[base[h] + count[h] ...] are the head's free slots in the order in which they will be used. Without `order`
 * (NULL) rank, slot and position are all the same number. state holds `columns` float32 columns: column c of slot s of
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
/* Of so many slots of a head: entries that fit; blocks, the spare place's among them. */
static inline uint32_t kvc_slots_hold(uint32_t slots) { return slots - slots % KVC_TILE + (slots % KVC_TILE > 0); }
static inline uint32_t kvc_slots_blocks(uint32_t slots) { return (slots + KVC_TILE - 1) / KVC_TILE; }
/* Slots that lie where they were when a head that had `had` owns `slots`. */
static inline uint32_t kvc_slots_kept(uint32_t slots, uint32_t had) {
    const uint32_t both = slots < had ? slots : had;
    return slots == had ? slots : both - both % KVC_TILE;
}

/* Per head an ascending list of ranks: which entries a row reads (select methods), which are kept, or a view: the
 * entries that select methods see. A place is an index into such a list, or the rank itself where there is none. */
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
    uint32_t window;           /* sliding window: positions <= row's position - window are skipped; 0: none */
    struct kvc_span q;         /* [rows, H, d] after RoPE */
    struct kvc_span out;       /* [rows, H, d] */
    struct kvc_span maximum;   /* M [rows, H], buffer NULL where not wanted */
    struct kvc_span sum;       /* L [rows, H], with maximum */
    struct kvc_span positions; /* int32 [rows] */
    struct kvc_span
        causal_offset; /* uint32 [rows]: entries at the end of the session's lists that this row must not see */
};

/* Weight rows of `queries` queries of one session and layer, from q and the M and L its attention returned. */
struct kvc_probabilities {
    const struct kvc_lists *lists;
    const struct kvc_read_list *reads; /* NULL: all; entries not read count 0 */
    uint32_t queries, heads, kv_heads, head_size, window;
    struct kvc_span q, maximum, sum;          /* [queries, H, d], [queries, H], [queries, H] */
    struct kvc_span positions, causal_offset; /* int32, uint32 [queries]; later counts from the lists as they are now */
};

/* Keyformer's weights instead of attention's: softmax over the same entries of (s + g) / tau, where
 * g = kvc_gumbel(seed, layer, query head, key position) of canon.h. */
struct kvc_noise {
    uint64_t seed;
    uint32_t layer;
    float tau;
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
    uint32_t page, stride; /* stride: pages there is room for, per head */
    enum kvc_type type;
    struct kvc_buffer *low, *high;
};

/* How the query of a decode step scores what a head holds (lists, or view where there is one): its places, or with
 * pages of low and high its pages; "place" below is either. Heads with no more than `budget` places are passed over,
 * their scores and weights are undefined.
 * Chosen channels: A[c] = sum over the group's heads ascending, from 0, of |q[h, c]|; the `dims` highest by the rule of
 * top-k, in ascending channel order c_0, c_1, ...; a channel is positive unless the sum over the heads ascending, from
 * 0, of q[h, c] is below 0. dot of head h: fma(q[h, c_i], x[c_i], dot) over ascending i, from 0. a and b: the sums,
 * ascending, from 0, of |q[h, c_i]| and of |q[h, c]|. score = dot * (1 / sqrt(d * (a / b))), or dot * 0 where a or b is
 * 0. A page's n is how many of its places a sliding window does not hide; n of an entry is 1 or 0. Those with n = 0
 * take no part. Softmax: M the largest score, e = exp(score - M), L = the sum over tiles of 256 places (or pages)
 * ascending, from 0, of the tile's lanes i % 32 of fma(n, e, lane), from 0, and the tree; weight = e * (1 / L), 0 where
 * n is 0. */
enum kvc_score_kind {
    KVC_SCORE_EXACT,         /* score = dot32(q, key) * kvc_attention_scale(d); softmax; group sum of the weights,
                                ascending heads, from 0 */
    KVC_SCORE_CHANNELS,      /* x = the key's own channels (from pages.high where there are pages); the same */
    KVC_SCORE_PAGE_CHANNELS, /* by page: x = high where the channel is positive, else low; the same */
    KVC_SCORE_PAGE_BOUND     /* by page: fma(q[c], q[c] < 0 ? low[c] : high[c], dot) over all c ascending, from 0; group
                                sum of the dots; -inf where n is 0; no softmax */
};
struct kvc_select_scores {
    const struct kvc_lists *lists;
    const struct kvc_read_list *view; /* NULL: all ranks */
    const struct kvc_pages *pages;    /* NULL where the kind needs none */
    enum kvc_score_kind kind;
    uint32_t dims, heads, head_size, window;
    uint64_t budget;
    struct kvc_span q, positions;  /* [H, d], int32 [1] */
    struct kvc_span scores;        /* [lists' heads, stride], by place or page */
    struct kvc_span probabilities; /* [H, stride]: each query head's own weights; buffer NULL where not wanted */
    uint32_t stride;
    uint64_t *bytes_read; /* NULL, or gets += what was read of the heads that were not passed over. A place costs: exact
                             row_bytes; channels dims * row_bytes / d (in all, rounded down), from pages dims elements
                             of their type; a page dims elements, or (bound) one for every channel of which a head
                             of the group needs low, and one for every one of which a head needs high */
};

/* From scores to read lists. A head with no more than `budget` places reads all of them. Otherwise: the newest `local`
 * places, and of the others the `top - local` best (rule 4 of docs/methods.md); with pages, which are scored then: the
 * `top` best places, of a page the first ones (local is 0), or (whole) all places of the `top` best pages. reads gets
 * ranks, ascending. alpha [H] (buffer NULL: not wanted; not with pages): lanes i % 32, from 0, of the sum of
 * weights[h, place] over the i-th read place, ascending, then the tree; 1 where all is read. */
struct kvc_select_reads {
    const struct kvc_lists *lists;
    const struct kvc_read_list *view; /* NULL: all ranks */
    const struct kvc_pages *pages;    /* not NULL: the scores are by page */
    bool whole;
    uint32_t heads;
    uint64_t budget, top, local;
    struct kvc_span scores, probabilities, alpha;
    uint32_t stride;
    struct kvc_read_list *reads;
};

/* What a decode step is about to do, for kvc_ops.prepare: with one row of a session in a layer, or (lists NULL) with
 * the `rows` rows of its batch outside of the lists. */
struct kvc_step_shape {
    const struct kvc_lists *lists;
    uint32_t rows, heads, head_size, places; /* places: stride of the read lists, 0 where everything is read */
    bool rotates;                            /* keys are turned to their places */
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

    /* Before a decode step: makes the scratch memory that its operations need, so that none is made within it. NULL
     * where a backend's operations need none. */
    enum kvc_status (*prepare)(struct kvc_device *, const struct kvc_step_shape *, struct kvc_error *);

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
    /* y[i] = fma(share, y[i], (1 - share) * x[i]). */
    void (*blend)(struct kvc_device *, struct kvc_span y, struct kvc_span x, float share, size_t n);
    /* out[i, h*copies + c, :] = x[i, h, :]: for caches with a list per query head. x [rows, heads, d]. */
    void (*repeat_heads)(struct kvc_device *, struct kvc_span out, struct kvc_span x, uint32_t rows, uint32_t heads,
                         uint32_t copies, uint32_t head_size);
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
    /* For methods that turn keys to their places in the cache. State columns first .. first+d-1 of the newest `rows`
     * entries of every head, ascending rank, get k [rows, H_kv, d]: keys before they are rotated. */
    void (*keep_keys)(struct kvc_device *, const struct kvc_lists *, uint32_t first, struct kvc_span k, uint32_t rows);
    /* Every entry's key is made anew: what those columns hold, rotated as rope does by the row of cosine and sine
     * [ranks, rotary/2] that is the entry's rank, and stored as append does. */
    void (*turn_keys)(struct kvc_device *, const struct kvc_lists *, uint32_t first, struct kvc_span cosine,
                      struct kvc_span sine, uint32_t rotary, bool interleaved);
    /* Copies count, order, position, state and block numbers of src into dst, whose heads may own more or fewer slots
     * (never fewer than they hold entries). Blocks a head keeps are its first ones, and its spare place where it owns
     * as many slots as before; entries in other slots move into the lowest free ones, ascending rank; free slots are
     * listed ascending. dst's other blocks are already filled in by the caller. dst may have order where src has none,
     * never the reverse. */
    void (*relayout)(struct kvc_device *, struct kvc_lists *dst, const struct kvc_lists *src);

    /* Entries of head h by rank, widened: keys and values [count[h], d], either buffer NULL where not wanted. For
     * checks and tests. */
    void (*entries)(struct kvc_device *, const struct kvc_lists *, uint32_t h, struct kvc_span keys,
                    struct kvc_span values);

    /* ---- what policies look at. Scores are [heads, stride] by rank, heads being the lists' or (by_head) the query
     * heads in their order; those from count[h] on are undefined. H_kv below: the lists' heads. ---- */
    /* Column sums: scores[h, rank] = sum over queries ascending of (sum over the group's heads ascending of a).
     * by_head: each query head's own a, scores [H, stride]. Where later.buffer is NULL a query sees the entries at
     * positions up to its own. */
    void (*window_mass)(struct kvc_device *, const struct kvc_probabilities *, struct kvc_span scores, uint32_t stride,
                        bool by_head);
    /* Of each query head h and rank below count - tail, over the n = queries weights a_i (0 where not seen):
     * mean = (sum ascending of a_i, from 0) / n; variance = (sum ascending of fma(e, e, sum), e = a_i - mean) / (n -
     * 1), 0 where n is 1; scores[h, rank] = fma(gamma, variance, mean), 0 in the tail. dispersion of the rank = sum
     * ascending of -(a_i * kvc_log(a_i + 1e-10f)), from 0. totals float32 [2]: the ranks' dispersion and variance,
     * summed over lanes rank % 32 and the tree for each head, then over heads ascending, from 0. scores [H, stride]. */
    void (*window_moments)(struct kvc_device *, const struct kvc_probabilities *, uint64_t tail, float gamma,
                           struct kvc_span scores, uint32_t stride, struct kvc_span totals);
    /* Adds queries to the two state columns `column` and `column + 1` of every entry: before a query at a position
     * divisible by KVC_TILE: column += column+1, column+1 = 0 for all entries; then column+1 += the group sum (heads
     * ascending, from 0) of the query's weight, for the entries it saw. noise NULL: attention's weights, exp(s - M)/L;
     * otherwise those of struct kvc_noise, whose M and L are taken here over what the query saw, (s + g) / tau in place
     * of s, with attention's tiles and merge (maximum and sum may be NULL then). Column sums over all queries so far,
     * in tiles of KVC_TILE queries by position, are column + (column+1). */
    void (*accumulate)(struct kvc_device *, const struct kvc_probabilities *, uint32_t column,
                       const struct kvc_noise *noise);
    /* One row per query into state column first + (position % ring) of every entry, 0 (logits: -inf) if not seen.
     * Weights: the group sum of exp(s - M) / L; logits: the group sum of s (maximum and sum may be NULL then); low: how
     * many of the group's heads have exp(s - M) / L < 1 / n, n the entries this query saw. Group sums start from 0.
     * counts: a row of weights, a row of low into first + ring + (position % ring), and column first + 2 * ring +=
     * what was there before, -= what is there now: it stays minus the sum of the rows of low. */
    void (*ring_write)(struct kvc_device *, const struct kvc_probabilities *, uint32_t first, uint32_t ring,
                       enum kvc_row_kind kind);
    /* F[k] over the ring's newest `filled` rows (those of positions now-filled .. now-1, in that order), from 0 by
     * addition, or by max(F, row) from the first row. Entries at positions >= recent get 0. Kind logits: each row is
     * first replaced by exp(s - m) / l over the entries older than recent, m their maximum and l their sum with the
     * tiles and merge of attention, tiles over ranks; minus infinity becomes 0, also in a row of nothing else. */
    void (*ring_fuse)(struct kvc_device *, const struct kvc_lists *, uint32_t first, uint32_t ring, uint32_t filled,
                      int64_t now, enum kvc_row_kind kind, enum kvc_fusion fusion, int64_t recent,
                      struct kvc_span scores, uint32_t stride);
    /* scores[h, rank] = sum of `columns` neighbouring state columns, ascending, from the first; and the way back. */
    void (*column_scores)(struct kvc_device *, const struct kvc_lists *, uint32_t first, uint32_t columns,
                          struct kvc_span scores, uint32_t stride);
    void (*scores_column)(struct kvc_device *, const struct kvc_lists *, uint32_t column, struct kvc_span scores,
                          uint32_t stride);
    /* 1-D over ranks below count[h] - tail, stride 1, odd kernel: max over what is inside the range, or the sum
     * (ascending from 0, outside counts 0) divided by the kernel. The tail's ranks get 0. In and out differ, both have
     * `rows` rows per head of the lists. */
    void (*pool)(struct kvc_device *, const struct kvc_lists *, uint32_t rows, struct kvc_span out, struct kvc_span in,
                 uint32_t stride, uint64_t tail, uint32_t kernel, enum kvc_pooling pooling);
    /* out[h, rank] = sum over the group's rows ascending, from 0, of in, then divided by `divisor`. in has `rows` rows
     * per head of the lists; out may be in where rows is 1. */
    void (*group_scores)(struct kvc_device *, const struct kvc_lists *, uint32_t rows, struct kvc_span out,
                         struct kvc_span in, uint32_t stride, float divisor);
    /* The rules of struct kvc_keep (kvcull/policy.h), one for all heads or one for each (rule_count 1 or H_kv), as
     * ascending rank lists. scores.buffer may be NULL with top and fill 0; ties.buffer NULL: equal scores go by rank.
     */
    void (*keep)(struct kvc_device *, const struct kvc_lists *, const struct kvc_keep *rules, uint32_t rule_count,
                 struct kvc_span scores, struct kvc_span ties, uint32_t stride, struct kvc_read_list *kept);
    /* ring_fuse, of weights by sum over all rows of the ring, with `fused` [H_kv, stride] for scratch, and keep by what
     * it gives: by scores, or where these are given (buffer not NULL) as ties. Weights are not below 0. sums:
     * UINT32_MAX, or columns sums + b hold the sum of the ring's columns b * KVC_RING_BLOCK .. (b + 1) *
     * KVC_RING_BLOCK - 1 for all blocks but the one that holds the newest row. NULL where a backend has no faster way
     * than one after the other. */
    void (*keep_ring)(struct kvc_device *, const struct kvc_lists *, const struct kvc_keep *rule,
                      const struct kvc_ring *ring, struct kvc_span scores, struct kvc_span fused, uint32_t stride,
                      struct kvc_read_list *kept);
    /* The `slots` highest scores over all heads, ranks below count[h] - tail only (top-k's rule, the lower head first
     * where equal): shares uint32 [H_kv] says how many lie in each head. */
    void (*shares)(struct kvc_device *, const struct kvc_lists *, struct kvc_span scores, uint32_t stride,
                   uint64_t tail, uint64_t slots, struct kvc_span shares);

    /* ---- select methods ---- */
    /* The newest `rows` entries of every head join the view. */
    void (*view_append)(struct kvc_device *, const struct kvc_lists *, struct kvc_read_list *view, uint32_t rows);
    /* After evict by `kept`: what is left of the view [H_kv, view_count[h]], by the ranks that the entries have now. Of
     * view[h, i], i ascending, those with view[h, i] = kept[h, k] for a k < kept_count[h], as k; their number becomes
     * view_count[h]. */
    void (*view_evict)(struct kvc_device *, const struct kvc_lists *, const struct kvc_read_list *kept,
                       struct kvc_read_list *view);
    /* Brings the pages up to date: the newest `rows` places of every head are new; UINT32_MAX: all are. Over ascending
     * places low = x < low ? x : low, high = x > high ? x : high, from the page's first. */
    void (*pages_update)(struct kvc_device *, const struct kvc_lists *, const struct kvc_read_list *view,
                         struct kvc_pages *, uint32_t rows);
    void (*select_scores)(struct kvc_device *, const struct kvc_select_scores *);
    void (*select_reads)(struct kvc_device *, const struct kvc_select_reads *);
    /* Both, for the same lists, view, pages and budget; the scores and weights are then undefined. NULL where a backend
     * has no faster way than one after the other. */
    void (*select_scores_reads)(struct kvc_device *, const struct kvc_select_scores *, const struct kvc_select_reads *);
    /* sums[h, :] += values of the newest `rows` places, ascending; UINT32_MAX: of all, from 0. sums [H_kv, d]. */
    void (*value_sums)(struct kvc_device *, const struct kvc_lists *, const struct kvc_read_list *view,
                       struct kvc_span sums, uint32_t rows);
    /* out[h, c] = fma(alpha[h], out[h, c], (1 - alpha[h]) * (sums[h / G, c] / places)) for the heads that did not read
     * all of their places; out [H, d], alpha [H]. */
    void (*mix_mean)(struct kvc_device *, const struct kvc_lists *, const struct kvc_read_list *view,
                     const struct kvc_read_list *reads, uint32_t heads, uint32_t head_size, struct kvc_span out,
                     struct kvc_span alpha, struct kvc_span sums);

    /* ---- for measuring ---- */
    /* What the device can do where no memory holds it up: x[i] = fma(x[i], 0.999f, 0.001f), `rounds` times; n is a
     * multiple of 128. */
    void (*fma_loop)(struct kvc_device *, struct kvc_span x, size_t n, uint32_t rounds);
};

/* A backend as core sees it. Adding one: one folder and one line in backends/list.c. */
struct kvc_backend_class {
    const char *name;
    bool (*usable)(char *detail, size_t capacity); /* detail: the path, or one line why not */
    /* index: the N of "opencl:N", 0 otherwise; path: NULL, or a path of this backend ("avx2"), or part of the name of a
     * device ("opencl:mali"). */
    enum kvc_status (*open)(const char *path, unsigned index, int threads, enum kvc_math math, struct kvc_device **,
                            struct kvc_error *);
    void (*missing)(char *text, size_t capacity); /* operations filled from ref, "none" where there are none */
    bool (*device)(size_t i, char *detail, size_t capacity); /* the i-th device; NULL: there is one */
};

#endif
