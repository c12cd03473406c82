/* scores.c - what policies look at: sums, moments and rings of attention probabilities, state columns as scores. */
#include "backends/offload/offload.h"
#include "core/base/canon.h"

static struct kvc_offload *of(struct kvc_device *device) { return (struct kvc_offload *)device; }

static const struct kvc_span none = {NULL, 0};

/* What a kernel over rows of probabilities gets; maximum and sum of row i at i * step. */
static void weight_arguments(struct kvc_launch *launch, const struct kvc_probabilities *w, struct kvc_span maximum,
                             struct kvc_span sum, uint64_t step, const struct kvc_noise *noise) {
    kvc_launch_lists(launch, w->lists);
    kvc_launch_arena(launch, w->lists->arena);
    kvc_launch_reads(launch, w->reads);
    kvc_launch_span(launch, w->q);
    kvc_launch_span(launch, maximum);
    kvc_launch_span(launch, sum);
    kvc_launch_wide(launch, step);
    kvc_launch_span(launch, w->positions);
    kvc_launch_span(launch, w->causal_offset);
    kvc_launch_word(launch, w->queries);
    kvc_launch_word(launch, w->heads);
    kvc_launch_word(launch, w->kv_heads);
    kvc_launch_word(launch, w->window);
    kvc_launch_real(launch, kvc_attention_scale(w->head_size));
    kvc_launch_wide(launch, noise ? noise->seed : 0);
    kvc_launch_word(launch, noise ? noise->layer : 0);
    kvc_launch_real(launch, noise ? noise->tau : 0.0f);
}

struct extras { /* the arguments after those, per mode */
    uint32_t mode, first_column, ring, stride;
    bool by_head;
    struct kvc_span scores;
    const struct kvc_buffer *low;
    uint64_t tail;
    float gamma;
};

static void probabilities(struct kvc_offload *offload, const struct kvc_probabilities *w, struct kvc_span maximum,
                          struct kvc_span sum, uint64_t step, const struct kvc_noise *noise,
                          const struct extras *more) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_probabilities);
    weight_arguments(&launch, w, maximum, sum, step, noise);
    kvc_launch_word(&launch, more->mode);
    kvc_launch_word(&launch, more->by_head);
    kvc_launch_span(&launch, more->scores);
    kvc_launch_word(&launch, more->stride);
    kvc_launch_word(&launch, more->first_column);
    kvc_launch_word(&launch, more->ring);
    kvc_launch_buffer(&launch, more->low);
    kvc_launch_wide(&launch, more->tail);
    kvc_launch_real(&launch, more->gamma);
    kvc_launch_groups(offload, &launch, kvc_slots_blocks(kvc_offload_most_slots(w->lists)),
                      more->by_head ? w->heads : w->kv_heads, 1);
}

static void window_mass(struct kvc_device *device, const struct kvc_probabilities *w, struct kvc_span scores,
                        uint32_t stride, bool by_head) {
    const struct extras more = {.mode = KVC_MASS, .scores = scores, .stride = stride, .by_head = by_head};
    probabilities(of(device), w, w->maximum, w->sum, 1, NULL, &more);
}

static void window_moments(struct kvc_device *device, const struct kvc_probabilities *w, uint64_t tail, float gamma,
                           struct kvc_span scores, uint32_t stride, struct kvc_span totals) {
    struct extras more = {
        .mode = KVC_MOMENTS, .scores = scores, .stride = stride, .by_head = true, .tail = tail, .gamma = gamma};
    struct kvc_launch lanes = kvc_launch_of(KVC_KERNEL_moment_lanes), sums = kvc_launch_of(KVC_KERNEL_moment_totals);
    struct kvc_buffer *workspace = kvc_offload_workspace(of(device), (uint64_t)w->heads * 2 * stride * sizeof(float));
    if (!workspace)
        return;
    more.low = workspace;
    probabilities(of(device), w, w->maximum, w->sum, 1, NULL, &more);
    kvc_launch_buffer(&lanes, w->lists->count);
    kvc_launch_word(&lanes, w->heads);
    kvc_launch_word(&lanes, w->kv_heads);
    kvc_launch_wide(&lanes, tail);
    kvc_launch_buffer(&lanes, workspace);
    kvc_launch_word(&lanes, stride);
    kvc_launch_items(of(device), &lanes, (uint64_t)w->heads * 2, 1, 1);
    kvc_launch_word(&sums, w->heads);
    kvc_launch_buffer(&sums, workspace);
    kvc_launch_word(&sums, stride);
    kvc_launch_span(&sums, totals);
    kvc_launch_items(of(device), &sums, 2, 1, 1);
}

/* M and L of every row's noisy scores go into the workspace first, at 2 * tiles floats from one row to the next. */
static void accumulate(struct kvc_device *device, const struct kvc_probabilities *w, uint32_t column,
                       const struct kvc_noise *noise) {
    const struct extras more = {.mode = KVC_ACCUMULATE, .first_column = column};
    uint32_t places = w->reads ? w->reads->stride : kvc_offload_most_slots(w->lists);
    uint32_t tiles = (places + KVC_TILE - 1) / KVC_TILE;
    struct kvc_launch tile = kvc_launch_of(KVC_KERNEL_noise_tiles), merge = kvc_launch_of(KVC_KERNEL_ring_merge);
    struct kvc_buffer *workspace;
    if (!noise) {
        probabilities(of(device), w, w->maximum, w->sum, 1, NULL, &more);
        return;
    }
    workspace = kvc_offload_workspace(of(device), (uint64_t)w->queries * w->heads * tiles * 2 * sizeof(float));
    if (!workspace)
        return;
    weight_arguments(&tile, w, none, none, 0, noise);
    kvc_launch_buffer(&tile, workspace);
    kvc_launch_word(&tile, tiles);
    kvc_launch_groups(of(device), &tile, tiles, w->heads, w->queries);
    kvc_launch_buffer(&merge, workspace);
    kvc_launch_word(&merge, tiles);
    kvc_launch_word(&merge, w->queries * w->heads);
    kvc_launch_items(of(device), &merge, (uint64_t)w->queries * w->heads, 1, 1);
    probabilities(of(device), w, (struct kvc_span){workspace, 0}, (struct kvc_span){workspace, sizeof(float)},
                  2 * (uint64_t)tiles, noise, &more);
}

static void ring_write(struct kvc_device *device, const struct kvc_probabilities *w, uint32_t first, uint32_t ring,
                       enum kvc_row_kind kind) {
    struct extras more = {.mode = kind == KVC_ROW_LOGITS   ? KVC_RING_LOGITS
                                  : kind == KVC_ROW_LOW    ? KVC_RING_LOW
                                  : kind == KVC_ROW_COUNTS ? KVC_RING_COUNTS
                                                           : KVC_RING,
                          .first_column = first,
                          .ring = ring};
    if (kind == KVC_ROW_LOW || kind == KVC_ROW_COUNTS) {
        struct kvc_buffer *workspace =
            kvc_offload_workspace(of(device), (uint64_t)w->queries * w->kv_heads * sizeof(float));
        struct kvc_launch shares = kvc_launch_of(KVC_KERNEL_seen_shares);
        if (!workspace)
            return;
        kvc_launch_lists(&shares, w->lists);
        kvc_launch_reads(&shares, w->reads);
        kvc_launch_span(&shares, w->positions);
        kvc_launch_span(&shares, w->causal_offset);
        kvc_launch_word(&shares, w->window);
        kvc_launch_buffer(&shares, workspace);
        kvc_launch_word(&shares, w->kv_heads);
        kvc_launch_groups(of(device), &shares, w->kv_heads, w->queries, 1);
        more.low = workspace;
    }
    probabilities(of(device), w, w->maximum, w->sum, 1, NULL, &more);
}

static void ring_fuse(struct kvc_device *device, const struct kvc_lists *lists, uint32_t first, uint32_t ring,
                      uint32_t filled, int64_t now, enum kvc_row_kind kind, enum kvc_fusion fusion, int64_t recent,
                      struct kvc_span scores, uint32_t stride) {
    struct kvc_offload *offload = of(device);
    struct kvc_launch fuse = kvc_launch_of(KVC_KERNEL_ring_fuse);
    uint32_t slots = kvc_offload_most_slots(lists), tiles = kvc_slots_blocks(slots), rows = lists->kv_heads * filled;
    struct kvc_buffer *workspace = NULL;
    if (kind == KVC_ROW_LOGITS && filled) {
        struct kvc_launch tile = kvc_launch_of(KVC_KERNEL_ring_tiles), merge = kvc_launch_of(KVC_KERNEL_ring_merge);
        workspace = kvc_offload_workspace(offload, (uint64_t)rows * tiles * 2 * sizeof(float));
        if (!workspace)
            return;
        kvc_launch_lists(&tile, lists);
        kvc_launch_word(&tile, first);
        kvc_launch_word(&tile, ring);
        kvc_launch_word(&tile, filled);
        kvc_launch_wide(&tile, (uint64_t)now);
        kvc_launch_wide(&tile, (uint64_t)recent);
        kvc_launch_buffer(&tile, workspace);
        kvc_launch_word(&tile, tiles);
        kvc_launch_items(offload, &tile, tiles, filled, lists->kv_heads);
        kvc_launch_buffer(&merge, workspace);
        kvc_launch_word(&merge, tiles);
        kvc_launch_word(&merge, rows);
        kvc_launch_items(offload, &merge, rows, 1, 1);
    }
    kvc_launch_lists(&fuse, lists);
    kvc_launch_word(&fuse, first);
    kvc_launch_word(&fuse, ring);
    kvc_launch_word(&fuse, filled);
    kvc_launch_wide(&fuse, (uint64_t)now);
    kvc_launch_wide(&fuse, (uint64_t)recent);
    kvc_launch_word(&fuse, fusion == KVC_FUSE_SUM);
    kvc_launch_buffer(&fuse, workspace);
    kvc_launch_word(&fuse, tiles);
    kvc_launch_span(&fuse, scores);
    kvc_launch_word(&fuse, stride);
    kvc_launch_runs(offload, &fuse, slots, lists->kv_heads);
}

static void column_scores(struct kvc_device *device, const struct kvc_lists *lists, uint32_t first, uint32_t columns,
                          struct kvc_span scores, uint32_t stride) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_column_scores);
    kvc_launch_lists(&launch, lists);
    kvc_launch_word(&launch, first);
    kvc_launch_word(&launch, columns);
    kvc_launch_span(&launch, scores);
    kvc_launch_word(&launch, stride);
    kvc_launch_runs(of(device), &launch, kvc_offload_most_slots(lists), lists->kv_heads);
}

static void scores_column(struct kvc_device *device, const struct kvc_lists *lists, uint32_t column,
                          struct kvc_span scores, uint32_t stride) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_scores_column);
    kvc_launch_lists(&launch, lists);
    kvc_launch_word(&launch, column);
    kvc_launch_span(&launch, scores);
    kvc_launch_word(&launch, stride);
    kvc_launch_runs(of(device), &launch, kvc_offload_most_slots(lists), lists->kv_heads);
}

void kvc_offload_fill_scores(struct kvc_ops *table) {
    table->window_mass = window_mass;
    table->window_moments = window_moments;
    table->accumulate = accumulate;
    table->ring_write = ring_write;
    table->ring_fuse = ring_fuse;
    table->column_scores = column_scores;
    table->scores_column = scores_column;
}
