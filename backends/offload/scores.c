/* scores.c - what policies look at: sums, moments and rings of weight rows, state columns as scores. */
#include "backends/offload/offload.h"
#include "core/base/canon.h"

static struct kvc_offload *of(struct kvc_device *device) { return (struct kvc_offload *)device; }

static const struct kvc_span none = {NULL, 0};

/* What a kernel over weight rows gets; maximum and sum of row i at i * step. */
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

struct extras { /* the arguments behind those, per mode */
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

void kvc_offload_window_mass(struct kvc_device *device, const struct kvc_window_mass *args) {
    const struct kvc_probabilities *w = args->probabilities;
    const struct extras more = {
        .mode = KVC_MASS, .scores = args->scores, .stride = args->stride, .by_head = args->by_head};
    probabilities(of(device), w, w->maximum, w->sum, 1, NULL, &more);
}

void kvc_offload_window_moments(struct kvc_device *device, const struct kvc_window_moments *args) {
    const struct kvc_probabilities *w = args->probabilities;
    struct extras more = {.mode = KVC_MOMENTS,
                          .scores = args->scores,
                          .stride = args->stride,
                          .by_head = true,
                          .tail = args->tail,
                          .gamma = args->gamma};
    struct kvc_launch lanes = kvc_launch_of(KVC_KERNEL_moment_lanes), sums = kvc_launch_of(KVC_KERNEL_moment_totals);
    struct kvc_buffer *workspace =
        kvc_offload_workspace(of(device), (uint64_t)w->heads * 2 * args->stride * sizeof(float));
    if (!workspace)
        return;
    more.low = workspace;
    probabilities(of(device), w, w->maximum, w->sum, 1, NULL, &more);
    kvc_launch_buffer(&lanes, w->lists->count);
    kvc_launch_word(&lanes, w->heads);
    kvc_launch_word(&lanes, w->kv_heads);
    kvc_launch_wide(&lanes, args->tail);
    kvc_launch_buffer(&lanes, workspace);
    kvc_launch_word(&lanes, args->stride);
    kvc_launch_items(of(device), &lanes, (uint64_t)w->heads * 2, 1, 1);
    kvc_launch_word(&sums, w->heads);
    kvc_launch_buffer(&sums, workspace);
    kvc_launch_word(&sums, args->stride);
    kvc_launch_span(&sums, args->totals);
    kvc_launch_items(of(device), &sums, 2, 1, 1);
}

/* M and L of every row's noisy scores go into the spare buffer first, at 2 * tiles floats from one row to the next. */
void kvc_offload_accumulate(struct kvc_device *device, const struct kvc_accumulate *args) {
    const struct kvc_probabilities *w = args->probabilities;
    const struct extras more = {.mode = KVC_ACCUMULATE, .first_column = args->column};
    uint32_t places = w->reads ? w->reads->stride : kvc_offload_most_slots(w->lists);
    uint32_t tiles = (places + KVC_TILE - 1) / KVC_TILE;
    struct kvc_launch tile = kvc_launch_of(KVC_KERNEL_noise_tiles), merge = kvc_launch_of(KVC_KERNEL_ring_merge);
    struct kvc_buffer *workspace;
    if (!args->noise) {
        probabilities(of(device), w, w->maximum, w->sum, 1, NULL, &more);
        return;
    }
    workspace = kvc_offload_workspace(of(device), (uint64_t)w->queries * w->heads * tiles * 2 * sizeof(float));
    if (!workspace)
        return;
    weight_arguments(&tile, w, none, none, 0, args->noise);
    kvc_launch_buffer(&tile, workspace);
    kvc_launch_word(&tile, tiles);
    kvc_launch_groups(of(device), &tile, tiles, w->heads, w->queries);
    kvc_launch_buffer(&merge, workspace);
    kvc_launch_word(&merge, tiles);
    kvc_launch_word(&merge, w->queries * w->heads);
    kvc_launch_items(of(device), &merge, (uint64_t)w->queries * w->heads, 1, 1);
    probabilities(of(device), w, (struct kvc_span){workspace, 0}, (struct kvc_span){workspace, sizeof(float)},
                  2 * (uint64_t)tiles, args->noise, &more);
}

void kvc_offload_ring_write(struct kvc_device *device, const struct kvc_ring_write *args) {
    const struct kvc_probabilities *w = args->probabilities;
    struct extras more = {.mode = args->kind == KVC_ROW_LOGITS   ? KVC_RING_LOGITS
                                  : args->kind == KVC_ROW_LOW    ? KVC_RING_LOW
                                  : args->kind == KVC_ROW_COUNTS ? KVC_RING_COUNTS
                                                                 : KVC_RING,
                          .first_column = args->first,
                          .ring = args->ring};
    if (args->kind == KVC_ROW_LOW || args->kind == KVC_ROW_COUNTS) {
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

void kvc_offload_ring_fuse(struct kvc_device *device, const struct kvc_ring_fuse *args) {
    const struct kvc_lists *lists = args->lists;
    struct kvc_offload *offload = of(device);
    struct kvc_launch fuse = kvc_launch_of(KVC_KERNEL_ring_fuse);
    uint32_t slots = kvc_offload_most_slots(lists), tiles = kvc_slots_blocks(slots),
             rows = lists->kv_heads * args->filled;
    struct kvc_buffer *workspace = NULL;
    if (args->kind == KVC_ROW_LOGITS && args->filled) {
        struct kvc_launch tile = kvc_launch_of(KVC_KERNEL_ring_tiles), merge = kvc_launch_of(KVC_KERNEL_ring_merge);
        workspace = kvc_offload_workspace(offload, (uint64_t)rows * tiles * 2 * sizeof(float));
        if (!workspace)
            return;
        kvc_launch_lists(&tile, lists);
        kvc_launch_word(&tile, args->first);
        kvc_launch_word(&tile, args->ring);
        kvc_launch_word(&tile, args->filled);
        kvc_launch_wide(&tile, (uint64_t)args->now);
        kvc_launch_wide(&tile, (uint64_t)args->recent);
        kvc_launch_buffer(&tile, workspace);
        kvc_launch_word(&tile, tiles);
        kvc_launch_items(offload, &tile, tiles, args->filled, lists->kv_heads);
        kvc_launch_buffer(&merge, workspace);
        kvc_launch_word(&merge, tiles);
        kvc_launch_word(&merge, rows);
        kvc_launch_items(offload, &merge, rows, 1, 1);
    }
    kvc_launch_lists(&fuse, lists);
    kvc_launch_word(&fuse, args->first);
    kvc_launch_word(&fuse, args->ring);
    kvc_launch_word(&fuse, args->filled);
    kvc_launch_wide(&fuse, (uint64_t)args->now);
    kvc_launch_wide(&fuse, (uint64_t)args->recent);
    kvc_launch_word(&fuse, args->fusion == KVC_FUSE_SUM);
    kvc_launch_buffer(&fuse, workspace);
    kvc_launch_word(&fuse, tiles);
    kvc_launch_span(&fuse, args->scores);
    kvc_launch_word(&fuse, args->stride);
    kvc_launch_runs(offload, &fuse, slots, lists->kv_heads);
}

void kvc_offload_column_scores(struct kvc_device *device, const struct kvc_column_scores *args) {
    const struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_column_scores);
    kvc_launch_lists(&launch, lists);
    kvc_launch_word(&launch, args->first);
    kvc_launch_word(&launch, args->columns);
    kvc_launch_span(&launch, args->scores);
    kvc_launch_word(&launch, args->stride);
    kvc_launch_runs(of(device), &launch, kvc_offload_most_slots(lists), lists->kv_heads);
}

void kvc_offload_scores_column(struct kvc_device *device, const struct kvc_scores_column *args) {
    const struct kvc_lists *lists = args->lists;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_scores_column);
    kvc_launch_lists(&launch, lists);
    kvc_launch_word(&launch, args->column);
    kvc_launch_span(&launch, args->scores);
    kvc_launch_word(&launch, args->stride);
    kvc_launch_runs(of(device), &launch, kvc_offload_most_slots(lists), lists->kv_heads);
}
