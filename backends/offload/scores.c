/* scores.c - attention probabilities for policies: sums, moments and ring buffers of recent queries. Also reads and
 * writes state columns as scores. */
#include "backends/offload/offload.h"
#include "core/base/assert.h"
#include "core/base/canon.h"

static const struct kvc_span none = {NULL, 0};

/* The workspace of an operation: `bytes` bytes, and the quantized queries if the entries are multiplied as integers. */
struct work {
    struct kvc_buffer *workspace; /* NULL: none is needed */
    struct kvc_offload_queries queries;
};

/* Allocates the workspace. Returns false if memory runs out, which the next sync reports. */
static bool make_work(struct kvc_offload *offload, const struct kvc_probabilities *w, uint64_t bytes,
                      struct work *work) {
    const struct kvc_entry_format *format = &w->lists->format;
    const uint64_t queries = (uint64_t)w->queries * w->heads;
    const uint64_t all = bytes + kvc_offload_query_bytes(w->scoring, format, queries);
    work->workspace = all ? kvc_offload_workspace(offload, all) : NULL;
    if (all && !work->workspace)
        return false;
    work->queries = kvc_offload_quantize_queries(offload, w->scoring, format, w->q, queries, work->workspace, bytes);
    return true;
}

/* Adds the arguments that all kernels over rows of probabilities share. M and L of row i are at index i * step of
 * maximum and sum. */
static void push_probabilities(struct kvc_launch *launch, const struct kvc_probabilities *w, struct kvc_span maximum,
                               struct kvc_span sum, uint64_t step, const struct kvc_noise *noise,
                               const struct work *work) {
    KVC_PUSH(launch, w->lists, w->lists->arena, w->reads, w->q, maximum, sum, step, w->positions, w->causal_offset,
             w->queries, w->heads, w->kv_heads);
    KVC_PUSH(launch, w->window, kvc_score_scale(w->scoring.scale, w->head_size), w->scoring.cap,
             noise ? noise->seed : 0, noise ? noise->layer : 0, noise ? noise->first_head : 0,
             noise ? noise->tau : 0.0f, work->queries.quant, work->queries.scale);
}

struct extras { /* the remaining arguments, which depend on the mode */
    uint32_t mode, first_column, ring, stride;
    bool by_head;
    struct kvc_span scores;
    const struct kvc_buffer *low;
    uint64_t tail;
    float gamma;
};

static void probabilities(struct kvc_offload *offload, const struct kvc_probabilities *w, struct kvc_span maximum,
                          struct kvc_span sum, uint64_t step, const struct kvc_noise *noise, const struct work *work,
                          const struct extras *more) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_probabilities);
    push_probabilities(&launch, w, maximum, sum, step, noise, work);
    KVC_PUSH(&launch, more->mode, more->by_head, more->scores, more->stride, more->first_column, more->ring, more->low,
             more->tail, more->gamma);
    kvc_launch_groups(offload, &launch, (uint32_t)kvc_divide_up(kvc_offload_most_slots(w->lists), KVC_TILE),
                      more->by_head ? w->heads : w->kv_heads, 1);
}

void kvc_offload_window_mass(struct kvc_device *device, const struct kvc_window_mass *args) {
    const struct kvc_probabilities *w = args->probabilities;
    const struct extras more = {.mode = args->maxima ? KVC_MAXIMA : KVC_MASS,
                                .scores = args->scores,
                                .stride = args->stride,
                                .by_head = args->by_head};
    struct work work;
    if (make_work(kvc_offload_of(device), w, 0, &work))
        probabilities(kvc_offload_of(device), w, w->maximum, w->sum, 1, NULL, &work, &more);
}

void kvc_offload_window_moments(struct kvc_device *device, const struct kvc_window_moments *args) {
    const struct kvc_probabilities *w = args->probabilities;
    struct extras more = {.mode = KVC_MOMENTS,
                          .scores = args->scores,
                          .stride = args->stride,
                          .by_head = true,
                          .tail = args->tail,
                          .gamma = args->gamma};
    struct kvc_launch lanes = kvc_launch_of(KVC_KERNEL_moment_lanes);
    struct work work;
    if (!make_work(kvc_offload_of(device), w, (uint64_t)w->heads * 2 * args->stride * sizeof(float), &work))
        return;
    more.low = work.workspace;
    probabilities(kvc_offload_of(device), w, w->maximum, w->sum, 1, NULL, &work, &more);
    KVC_PUSH(&lanes, w->lists->count, w->heads, w->kv_heads, args->tail, work.workspace, args->stride, args->totals);
    kvc_launch_items(kvc_offload_of(device), &lanes, (uint64_t)w->heads * 2, 1, 1);
}

/* With noise, first computes M and L of every row's noisy scores. This needs 2 * tiles floats of workspace per row. */
void kvc_offload_accumulate(struct kvc_device *device, const struct kvc_accumulate *args) {
    const struct kvc_probabilities *w = args->probabilities;
    const struct extras more = {.mode = KVC_ACCUMULATE, .first_column = args->column};
    uint32_t places = w->reads ? w->reads->stride : kvc_offload_most_slots(w->lists);
    uint32_t tiles = (places + KVC_TILE - 1) / KVC_TILE;
    struct kvc_launch tile = kvc_launch_of(KVC_KERNEL_noise_tiles), merge = kvc_launch_of(KVC_KERNEL_ring_merge);
    const uint64_t bytes = args->noise ? (uint64_t)w->queries * w->heads * tiles * 2 * sizeof(float) : 0;
    struct work work;
    if (!make_work(kvc_offload_of(device), w, bytes, &work))
        return;
    if (!args->noise) {
        probabilities(kvc_offload_of(device), w, w->maximum, w->sum, 1, NULL, &work, &more);
        return;
    }
    push_probabilities(&tile, w, none, none, 0, args->noise, &work);
    KVC_PUSH(&tile, work.workspace, tiles);
    kvc_launch_groups(kvc_offload_of(device), &tile, tiles, w->heads, w->queries);
    KVC_PUSH(&merge, work.workspace, tiles, w->queries * w->heads);
    kvc_launch_items(kvc_offload_of(device), &merge, (uint64_t)w->queries * w->heads, 1, 1);
    probabilities(kvc_offload_of(device), w, (struct kvc_span){work.workspace, 0},
                  (struct kvc_span){work.workspace, sizeof(float)}, 2 * (uint64_t)tiles, args->noise, &work, &more);
}

void kvc_offload_ring_write(struct kvc_device *device, const struct kvc_ring_write *args) {
    const struct kvc_probabilities *w = args->probabilities;
    struct extras more = {.mode = args->kind == KVC_ROW_LOGITS   ? KVC_RING_LOGITS
                                  : args->kind == KVC_ROW_LOW    ? KVC_RING_LOW
                                  : args->kind == KVC_ROW_COUNTS ? KVC_RING_COUNTS
                                                                 : KVC_RING,
                          .first_column = args->first,
                          .ring = args->ring};
    const bool counts = args->kind == KVC_ROW_LOW || args->kind == KVC_ROW_COUNTS;
    struct work work;
    if (!make_work(kvc_offload_of(device), w, counts ? (uint64_t)w->queries * w->kv_heads * sizeof(float) : 0, &work))
        return;
    if (counts) {
        struct kvc_launch shares = kvc_launch_of(KVC_KERNEL_seen_shares);
        KVC_PUSH(&shares, w->lists, w->reads, w->positions, w->causal_offset, w->window, work.workspace, w->kv_heads);
        kvc_launch_groups(kvc_offload_of(device), &shares, w->kv_heads, w->queries, 1);
        more.low = work.workspace;
    }
    probabilities(kvc_offload_of(device), w, w->maximum, w->sum, 1, NULL, &work, &more);
}

void kvc_offload_ring_fuse(struct kvc_device *device, const struct kvc_ring_fuse *args) {
    KVC_ASSERT(args->first + args->ring <= args->lists->columns && args->filled <= args->ring);
    const struct kvc_lists *lists = args->lists;
    struct kvc_offload *offload = kvc_offload_of(device);
    struct kvc_launch fuse = kvc_launch_of(KVC_KERNEL_ring_fuse);
    uint32_t slots = kvc_offload_most_slots(lists), tiles = (uint32_t)kvc_divide_up(slots, KVC_TILE),
             rows = lists->kv_heads * args->filled;
    struct kvc_buffer *workspace = NULL;
    if (args->kind == KVC_ROW_LOGITS && args->filled) {
        struct kvc_launch tile = kvc_launch_of(KVC_KERNEL_ring_tiles), merge = kvc_launch_of(KVC_KERNEL_ring_merge);
        workspace = kvc_offload_workspace(offload, (uint64_t)rows * tiles * 2 * sizeof(float));
        if (!workspace)
            return;
        KVC_PUSH(&tile, lists, args->first, args->ring, args->filled, (uint64_t)args->now, (uint64_t)args->recent,
                 workspace, tiles);
        kvc_launch_items(offload, &tile, tiles, args->filled, lists->kv_heads);
        KVC_PUSH(&merge, workspace, tiles, rows);
        kvc_launch_items(offload, &merge, rows, 1, 1);
    }
    KVC_PUSH(&fuse, lists, args->first, args->ring, args->filled, (uint64_t)args->now, (uint64_t)args->recent,
             args->fusion == KVC_FUSE_SUM, workspace, tiles, args->scores, args->stride);
    kvc_launch_runs(offload, &fuse, slots, lists->kv_heads);
}

void kvc_offload_column_scores(struct kvc_device *device, const struct kvc_column_scores *args) {
    KVC_ASSERT(args->first + args->columns <= args->lists->columns);
    const struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_column_scores);
    KVC_PUSH(&launch, lists, args->first, args->columns, args->scores, args->stride);
    kvc_launch_runs(kvc_offload_of(device), &launch, kvc_offload_most_slots(lists), lists->kv_heads);
}

void kvc_offload_scores_column(struct kvc_device *device, const struct kvc_scores_column *args) {
    KVC_ASSERT(args->column < args->lists->columns);
    const struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_scores_column);
    KVC_PUSH(&launch, lists, args->column, args->scores, args->stride);
    kvc_launch_runs(kvc_offload_of(device), &launch, kvc_offload_most_slots(lists), lists->kv_heads);
}
