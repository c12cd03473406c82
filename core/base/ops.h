/* ops.h - the operations of every backend: each one's parameters, with shapes and formula, and the dispatch table,
 * which the list of operations (ops.def) makes.
 *
 * backends/cpu/ref defines each operation in plain C; core/base/canon.h is the arithmetic they share. A result must be
 * equal to ref's to the bit on every backend, for any thread count. Operations are queued in order; only sync,
 * upload and download wait. A failure inside a queued operation is kept by the device and returned by the next sync.
 * A parameter struct is read before the call returns.
 *
 * Symbols: rows = tokens in the batch, H = query heads, H_kv = key-value heads (of the lists), G = H / H_kv, d = head
 * size, n = entries of a head. All arrays are dense and row-major, float32 unless said otherwise.
 */
#ifndef KVC_CORE_BASE_OPS_H
#define KVC_CORE_BASE_OPS_H

#include "core/base/lists.h"

/* ---- rows ---- */

/* y[i, n] = dot32(x[i, :], widen(w[n, :])) (+ bias[n], one addition after it, where bias.buffer is not NULL). */
struct kvc_linear {
    struct kvc_span y, x;       /* [rows, N], [rows, K] */
    const struct kvc_weight *w; /* [N, K] */
    struct kvc_span bias;       /* [N] */
    uint32_t rows;
};

/* out[i, :] = table[tokens[i], :] widened. */
struct kvc_embed {
    struct kvc_span out;            /* [rows, K] */
    const struct kvc_weight *table; /* [vocabulary, K] */
    struct kvc_span tokens;         /* int32 [rows], checked by the caller */
    uint32_t rows;
};

/* ss = dot32(x, x) over K; r = 1/sqrt(ss/K + eps); y = (x*r)*w. In place is fine. */
struct kvc_norm {
    struct kvc_span y, x, w; /* [rows, K], [rows, K], [K] */
    uint32_t rows, K;
    float eps;
};

/* Rotates the first `rotary` channels of each head, the rest is copied. Pairs come in as (2i, 2i+1) where interleaved,
 * else (i, i + rotary/2); they always go out as (i, i + rotary/2): y[i] = x0*cos - x1*sin = fma(-x1, sin, x0*cos),
 * y[i+rotary/2] = fma(x0, sin, x1*cos). y and x may be the same only where not interleaved. */
struct kvc_rope_heads {
    struct kvc_span y, x;         /* [rows, heads, d] */
    struct kvc_span cosine, sine; /* [rows, rotary/2] */
    uint32_t rows, heads, head_size, rotary;
    bool interleaved;
};

/* y[i] = silu(gate[i]) * up[i], silu(x) = x / (1 + exp(-x)); y may be gate. */
struct kvc_gated_silu {
    struct kvc_span y, gate, up; /* [n] */
    size_t n;
};

/* y[i] += x[i]. */
struct kvc_add {
    struct kvc_span y, x; /* [n] */
    size_t n;
};

/* y[i] = fma(share, y[i], (1 - share) * x[i]). */
struct kvc_blend {
    struct kvc_span y, x; /* [n] */
    float share;
    size_t n;
};

/* out[i, h*copies + c, :] = x[i, h, :]: for caches with a list per query head. */
struct kvc_repeat_heads {
    struct kvc_span out, x; /* [rows, heads * copies, d], [rows, heads, d] */
    uint32_t rows, heads, copies, head_size;
};

/* out[i, :] = x[index[i], :]. */
struct kvc_gather {
    struct kvc_span out, x; /* [rows, width], [any, width] */
    struct kvc_span index;  /* uint32 [rows] */
    uint32_t rows, width;
};

/* For measuring what the device can do where no memory holds it up: x[i] = fma(x[i], 0.999f, 0.001f), `rounds` times.
 */
struct kvc_fma_loop {
    struct kvc_span x; /* [n] */
    size_t n;          /* a multiple of 128 */
    uint32_t rounds;
};

/* ---- attention ---- */

/* Attention of docs/design.md; `place % 32` of an entry's place in its tile is its lane in l_t. Scores times
 * kvc_attention_scale(d). M is never -0, and NaN where L is NaN, so that the order in which maxima are taken cannot be
 * seen. A row that sees no entry gives zeros, M = -inf, L = 0. */
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

/* ---- cache ---- */

/* Appends the stored rows of each segment, in order, to every head: slot = next free one, position from positions,
 * state columns of that slot zeroed. The caller has made room. */
struct kvc_append {
    const struct kvc_segment *segments;
    size_t segment_count;
    struct kvc_span k, v;      /* [rows, H_kv, d] */
    struct kvc_span positions; /* int32 [rows] */
};

/* Takes the newest `rows` entries of every head away again (temporary rows). */
struct kvc_drop {
    struct kvc_lists *lists;
    uint32_t rows;
};

/* order and position = identity, in buffers the caller made; lists->order and position are already set. */
struct kvc_identity {
    struct kvc_lists *lists;
};

/* Keeps, per head, the ranks kept[h, 0..kept_count[h]-1] (ascending): order becomes the kept slots in that order, then
 * the evicted slots by ascending rank, then the slots that were free. Moves no keys or values. Without an order nothing
 * may go: kept_count = count. */
struct kvc_evict {
    struct kvc_lists *lists;
    const struct kvc_read_list *kept;
};

/* Copies count, order, position, state and block numbers of src into dst, whose heads may own more or fewer slots
 * (never fewer than they hold entries). Blocks a head keeps are its first ones, and its spare place where it owns as
 * many slots as before; entries in other slots move into the lowest free ones, ascending rank; free slots are listed
 * ascending. dst's other blocks are already filled in by the caller. dst may have order where src has none, never the
 * reverse. */
struct kvc_relayout {
    struct kvc_lists *dst;
    const struct kvc_lists *src;
};

/* For methods that turn keys to their places in the cache. State columns first .. first+d-1 of the newest `rows`
 * entries of every head, ascending rank, get k: keys before they are rotated. */
struct kvc_keep_keys {
    const struct kvc_lists *lists;
    uint32_t first;
    struct kvc_span k; /* [rows, H_kv, d] */
    uint32_t rows;
};

/* Every entry's key is made anew: what those columns hold, rotated as rope does by the row of cosine and sine that is
 * the entry's rank, and stored as append does. */
struct kvc_turn_keys {
    const struct kvc_lists *lists;
    uint32_t first;
    struct kvc_span cosine, sine; /* [ranks, rotary/2] */
    uint32_t rotary;
    bool interleaved;
};

/* Entries of a head by rank, widened, for checks and tests. */
struct kvc_entries {
    const struct kvc_lists *lists;
    uint32_t head;
    struct kvc_span keys, values; /* [count[head], d], either buffer NULL where not wanted */
};

/* ---- scores: what policies look at. Scores are [heads, stride] by rank, heads being the lists' or (by_head) the query
 * heads in their order; those from count[h] on are undefined. ---- */

/* Column sums: scores[h, rank] = sum over queries ascending of (sum over the group's heads ascending of a). by_head:
 * each query head's own a. Where causal_offset.buffer is NULL a query sees the entries at positions up to its own. */
struct kvc_window_mass {
    const struct kvc_probabilities *probabilities;
    struct kvc_span scores; /* [H_kv, stride], by_head [H, stride] */
    uint32_t stride;
    bool by_head;
};

/* Of each query head h and rank below count - tail, over the n = queries weights a_i (0 where not seen):
 * mean = (sum ascending of a_i, from 0) / n; variance = (sum ascending of fma(e, e, sum), e = a_i - mean) / (n - 1), 0
 * where n is 1; scores[h, rank] = fma(gamma, variance, mean), 0 in the tail. dispersion of the rank = sum ascending of
 * -(a_i * kvc_log(a_i + 1e-10f)), from 0. totals: the ranks' dispersion and variance, summed over lanes rank % 32 and
 * the tree for each head, then over heads ascending, from 0. */
struct kvc_window_moments {
    const struct kvc_probabilities *probabilities;
    uint64_t tail;
    float gamma;
    struct kvc_span scores; /* [H, stride] */
    uint32_t stride;
    struct kvc_span totals; /* [2] */
};

/* Keyformer's weights instead of attention's: softmax over the same entries of (s + g) / tau, where
 * g = kvc_gumbel(seed, layer, query head, key position) of canon.h. */
struct kvc_noise {
    uint64_t seed;
    uint32_t layer;
    float tau;
};

/* Adds queries to the two state columns `column` and `column + 1` of every entry: before a query at a position
 * divisible by KVC_TILE: column += column+1, column+1 = 0 for all entries; then column+1 += the group sum (heads
 * ascending, from 0) of the query's weight, for the entries it saw. noise NULL: attention's weights, exp(s - M)/L;
 * otherwise those of struct kvc_noise, whose M and L are taken here over what the query saw, (s + g) / tau in place of
 * s, with attention's tiles and merge (maximum and sum may be NULL then). Column sums over all queries so far, in tiles
 * of KVC_TILE queries by position, are column + (column+1). */
struct kvc_accumulate {
    const struct kvc_probabilities *probabilities;
    uint32_t column;
    const struct kvc_noise *noise;
};

/* One row per query into state column first + (position % ring) of every entry, 0 (logits: -inf) if not seen. Weights:
 * the group sum of exp(s - M) / L; logits: the group sum of s (maximum and sum may be NULL then); low: how many of the
 * group's heads have exp(s - M) / L < 1 / n, n the entries this query saw. Group sums start from 0. counts: a row of
 * weights, a row of low into first + ring + (position % ring), and column first + 2 * ring += what was there before,
 * -= what is there now: it stays minus the sum of the rows of low. */
struct kvc_ring_write {
    const struct kvc_probabilities *probabilities;
    uint32_t first, ring;
    enum kvc_row_kind kind;
};

/* F[k] over the ring's newest `filled` rows (those of positions now-filled .. now-1, in that order), from 0 by
 * addition, or by max(F, row) from the first row. Entries at positions >= recent get 0. Kind logits: each row is first
 * replaced by exp(s - m) / l over the entries older than recent, m their maximum and l their sum with the tiles and
 * merge of attention, tiles over ranks; minus infinity becomes 0, also in a row of nothing else. */
struct kvc_ring_fuse {
    const struct kvc_lists *lists;
    uint32_t first, ring, filled;
    int64_t now;
    enum kvc_row_kind kind;
    enum kvc_fusion fusion;
    int64_t recent;
    struct kvc_span scores; /* [H_kv, stride] */
    uint32_t stride;
};

/* scores[h, rank] = sum of `columns` neighbouring state columns, ascending, from the first. */
struct kvc_column_scores {
    const struct kvc_lists *lists;
    uint32_t first, columns;
    struct kvc_span scores; /* [H_kv, stride] */
    uint32_t stride;
};

/* The way back, into one column. */
struct kvc_scores_column {
    const struct kvc_lists *lists;
    uint32_t column;
    struct kvc_span scores; /* [H_kv, stride] */
    uint32_t stride;
};

/* ---- keep: from scores to entries ---- */

/* 1-D over ranks below count[h] - tail, stride 1, odd kernel: max over what is inside the range, or the sum (ascending
 * from 0, outside counts 0) divided by the kernel. The tail's ranks get 0. */
struct kvc_pool {
    const struct kvc_lists *lists;
    uint32_t rows;           /* of out and in, for each head of the lists */
    struct kvc_span out, in; /* [H_kv * rows, stride]; they differ */
    uint32_t stride;
    uint64_t tail;
    uint32_t kernel;
    enum kvc_pooling pooling;
};

/* out[h, rank] = sum over the group's rows ascending, from 0, of in, then divided by `divisor`. */
struct kvc_group_scores {
    const struct kvc_lists *lists;
    uint32_t rows;           /* of in, for each head of the lists */
    struct kvc_span out, in; /* [H_kv, stride], [H_kv * rows, stride]; out may be in where rows is 1 */
    uint32_t stride;
    float divisor;
};

/* The rules of struct kvc_keep (kvcull.h) as ascending rank lists. */
struct kvc_keep_rules {
    const struct kvc_lists *lists;
    const struct kvc_keep *rules; /* one for all heads or one for each: */
    uint32_t rule_count;          /* 1 or H_kv */
    struct kvc_span scores;       /* [H_kv, stride]; buffer NULL: only with top and fill 0 */
    struct kvc_span ties;         /* [H_kv, stride]; buffer NULL: equal scores go by rank */
    uint32_t stride;
    struct kvc_read_list *kept;
};

/* ring_fuse, of weights by sum over all rows of the ring, and keep by what it gives: by scores, or where these are
 * given (buffer not NULL) as ties. Weights are not below 0. ring->sums: UINT32_MAX, or columns sums + b hold the sum of
 * the ring's columns b * KVC_RING_BLOCK .. (b + 1) * KVC_RING_BLOCK - 1 for all blocks but the one that holds the
 * newest row. */
struct kvc_keep_ring {
    const struct kvc_lists *lists;
    const struct kvc_keep *rule;
    const struct kvc_ring *ring;
    struct kvc_span scores, fused; /* [H_kv, stride]; fused is scratch */
    uint32_t stride;
    struct kvc_read_list *kept;
};

/* The `slots` highest scores over all heads, ranks below count[h] - tail only (top-k's rule, the lower head first where
 * equal): shares says how many lie in each head. */
struct kvc_shares {
    const struct kvc_lists *lists;
    struct kvc_span scores; /* [H_kv, stride] */
    uint32_t stride;
    uint64_t tail, slots;
    struct kvc_span shares; /* uint32 [H_kv] */
};

/* ---- pages: views, pages, sums of values ---- */

/* The newest `rows` entries of every head join the view. */
struct kvc_view_append {
    const struct kvc_lists *lists;
    struct kvc_read_list *view;
    uint32_t rows;
};

/* After evict by `kept`: what is left of the view [H_kv, view_count[h]], by the ranks that the entries have now. Of
 * view[h, i], i ascending, those with view[h, i] = kept[h, k] for a k < kept_count[h], as k; their number becomes
 * view_count[h]. */
struct kvc_view_evict {
    const struct kvc_lists *lists;
    const struct kvc_read_list *kept;
    struct kvc_read_list *view;
};

/* Brings the pages up to date: the newest `rows` places of every head are new; UINT32_MAX: all are. Over ascending
 * places low = x < low ? x : low, high = x > high ? x : high, from the page's first. */
struct kvc_pages_update {
    const struct kvc_lists *lists;
    const struct kvc_read_list *view;
    struct kvc_pages *pages;
    uint32_t rows;
};

/* sums[h, :] += values of the newest `rows` places, ascending; UINT32_MAX: of all, from 0. */
struct kvc_value_sums {
    const struct kvc_lists *lists;
    const struct kvc_read_list *view;
    struct kvc_span sums; /* [H_kv, d] */
    uint32_t rows;
};

/* out[h, c] = fma(alpha[h], out[h, c], (1 - alpha[h]) * (sums[h / G, c] / places)) for the heads that did not read all
 * of their places. */
struct kvc_mix_mean {
    const struct kvc_lists *lists;
    const struct kvc_read_list *view, *reads;
    uint32_t heads, head_size;
    struct kvc_span out, alpha, sums; /* [H, d], [H], [H_kv, d] */
};

/* ---- select methods ---- */

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

/* Both, for the same lists, view, pages and budget; the scores and weights are then undefined. */
struct kvc_select_scores_reads {
    const struct kvc_select_scores *scores;
    const struct kvc_select_reads *reads;
};

/* ---- the table ---- */

/* What a decode step is about to do, for kvc_ops.prepare: with one row of a session in a layer, or (lists NULL) with
 * the `rows` rows of its batch outside of the lists. */
struct kvc_step_shape {
    const struct kvc_lists *lists;
    uint32_t rows, heads, head_size, places; /* places: stride of the read lists, 0 where everything is read */
    bool rotates;                            /* keys are turned to their places */
};

struct kvc_ops {
    const char *name;
#define KVC_LIFETIME(result, name, arguments) result(*name) arguments;
#define KVC_BYTES(result, name, arguments) result(*name) arguments;
#define KVC_OPERATION(name, parameters) void (*name)(struct kvc_device *, const struct parameters *);
#include "core/base/ops.def"
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
