/* layer.c - measures operations at a long context (`entries` entries in every head), with the shapes of a model of
 * eight billion parameters: the attention and the linear layers of a decode step, one layer of a prompt's chunk, and
 * the prompt stage of `snapkv`. */
#include "bench/measure.h"
#include "core/base/integers.h"

enum {
    HIDDEN = 4096,
    FEED_FORWARD = 14336,
    H = MEASURE_HEADS,
    HK = MEASURE_KV_HEADS,
    D = 128,
    WINDOW = 32,
    KEPT = 1024
};

static const struct kvc_span none = {NULL, 0};

static uint32_t whole_tiles(uint64_t entries) { return (uint32_t)kvc_round_up(entries, KVC_TILE); }

static struct kvc_lists *make_lists(struct kvc_measure *m, uint64_t slots, uint32_t entries, bool ordered) {
    m->head_size = D;
    return kvc_measure_lists(m, KVC_F16, whole_tiles(slots), entries, 0, ordered);
}

/* Measures the largest matrix of a layer. */
static void layer_linear(struct kvc_measure *m, uint32_t variant) {
    (void)variant;
    kvc_measure_time_linear(m, KVC_F16, 1, FEED_FORWARD, HIDDEN);
}

/* Each head has between 1/4 and 7/4 of `entries` entries; the mean is `entries`. */
static void attention(struct kvc_measure *m, uint32_t variant) {
    static const uint32_t quarters[HK] = {1, 7, 4, 2, 6, 3, 5, 4};
    const uint64_t most = (uint64_t)m->settings.entries * 7 / 4;
    struct kvc_lists *lists = make_lists(m, most, (uint32_t)most, false);
    const struct kvc_segment segment = {.lists = lists, .rows = 1, .stored = 1};
    const struct kvc_attention a = kvc_measure_make_attention(m, &segment, H, (uint32_t)most);
    uint32_t counts[HK];
    uint64_t all = 0;
    (void)variant;
    for (int h = 0; h < HK; h++)
        all += counts[h] = (uint32_t)((uint64_t)m->settings.entries * quarters[h] / 4);
    if (m->status == KVC_OK)
        m->ops->upload(m->device, (struct kvc_span){lists->count, 0}, counts, sizeof counts);
    kvc_measure_counts(m, all * kvc_entry_bytes(&lists->format) + 2ull * H * D * 4,
                       all * MEASURE_GROUP * (4 * D + MEASURE_EXP), "f16, 1 row, heads of %u to %u entries",
                       (unsigned)counts[0], (unsigned)counts[1]);
    while (kvc_measure_again(m))
        m->ops->attention(m->device, &a);
}

/* Measures one layer of a chunk in the middle of a prompt. This time multiplied by the number of chunks is the layer's
 * time for the prompt. */
static void prefill(struct kvc_measure *m, uint32_t variant) {
    const uint32_t rows = kvc_min_u32(m->settings.entries / 2, MEASURE_ROWS), before = m->settings.entries / 2;
    const struct kvc_weight *query = kvc_measure_weight(m, KVC_F16, HIDDEN, HIDDEN);
    const struct kvc_weight *key = kvc_measure_weight(m, KVC_F16, HK * D, HIDDEN);
    const struct kvc_weight *up = kvc_measure_weight(m, KVC_F16, FEED_FORWARD, HIDDEN);
    const struct kvc_weight *down = kvc_measure_weight(m, KVC_F16, HIDDEN, FEED_FORWARD);
    struct kvc_lists *lists = make_lists(m, (uint64_t)before + rows, before, false);
    const struct kvc_segment segment = {.lists = lists, .rows = rows, .stored = rows};
    const struct kvc_attention a = kvc_measure_make_attention(m, &segment, H, before + rows);
    const size_t x_bytes = (size_t)rows * HIDDEN * 4, wide = (size_t)rows * FEED_FORWARD;
    const struct kvc_span x = kvc_measure_values(m, (size_t)rows * HIDDEN), normed = kvc_measure_space(m, x_bytes);
    const struct kvc_span raw = kvc_measure_space(m, x_bytes), norm = kvc_measure_values(m, HIDDEN);
    const struct kvc_span k = kvc_measure_space(m, x_bytes / MEASURE_GROUP), v = kvc_measure_space(m, x_bytes);
    const struct kvc_span gate = kvc_measure_space(m, wide * 4), high = kvc_measure_space(m, wide * 4);
    const struct kvc_span cosine = kvc_measure_values(m, (size_t)rows * D / 2);
    const struct kvc_span sine = kvc_measure_values(m, (size_t)rows * D / 2);
    const uint64_t weights = HIDDEN * (2ull * HIDDEN + 2ull * HK * D + 3ull * FEED_FORWARD);
    const uint64_t seen = (uint64_t)rows * before + (uint64_t)rows * (rows + 1) / 2;
    (void)variant;
    kvc_measure_counts(m, 2 * weights + 4ull * (before + rows) * HK * D,
                       2 * rows * weights + seen * H * (4 * D + MEASURE_EXP), "f16, %u rows after %u, one layer",
                       (unsigned)rows, (unsigned)before);
    while (kvc_measure_again(m)) {
        const struct kvc_ops *ops = m->ops;
        struct kvc_device *device = m->device;
        ops->norm(device, &(struct kvc_norm){.y = normed, .x = x, .w = norm, .rows = rows, .K = HIDDEN, .eps = 1e-5f});
        ops->linear(device, &(struct kvc_linear){.y = raw, .x = normed, .w = query, .bias = none, .rows = rows});
        ops->rope(device, &(struct kvc_rope_heads){.y = a.q,
                                                   .x = raw,
                                                   .cosine = cosine,
                                                   .sine = sine,
                                                   .rows = rows,
                                                   .heads = H,
                                                   .head_size = D,
                                                   .rotary = D,
                                                   .interleaved = false});
        ops->linear(device, &(struct kvc_linear){.y = raw, .x = normed, .w = key, .bias = none, .rows = rows});
        ops->rope(device, &(struct kvc_rope_heads){.y = k,
                                                   .x = raw,
                                                   .cosine = cosine,
                                                   .sine = sine,
                                                   .rows = rows,
                                                   .heads = HK,
                                                   .head_size = D,
                                                   .rotary = D,
                                                   .interleaved = false});
        ops->linear(device, &(struct kvc_linear){.y = v, .x = normed, .w = key, .bias = none, .rows = rows});
        ops->append(device, &(struct kvc_append){
                                .segments = &segment, .segment_count = 1, .k = k, .v = v, .positions = a.positions});
        ops->attention(device, &a);
        ops->drop(device, &(struct kvc_drop){.lists = lists, .rows = rows});
        ops->linear(device, &(struct kvc_linear){.y = raw, .x = a.out, .w = query, .bias = none, .rows = rows});
        ops->add(device, &(struct kvc_add){.y = normed, .x = raw, .n = (size_t)rows * HIDDEN});
        ops->norm(device,
                  &(struct kvc_norm){.y = normed, .x = normed, .w = norm, .rows = rows, .K = HIDDEN, .eps = 1e-5f});
        ops->linear(device, &(struct kvc_linear){.y = gate, .x = normed, .w = up, .bias = none, .rows = rows});
        ops->linear(device, &(struct kvc_linear){.y = high, .x = normed, .w = up, .bias = none, .rows = rows});
        ops->gated_silu(device, &(struct kvc_gated_silu){.y = gate, .gate = gate, .up = high, .n = wide});
        ops->linear(device, &(struct kvc_linear){.y = raw, .x = gate, .w = down, .bias = none, .rows = rows});
        ops->add(device, &(struct kvc_add){.y = normed, .x = raw, .n = (size_t)rows * HIDDEN});
    }
}

/* Measures the prompt stage of `snapkv` in one layer: mass of the last queries, pooling, choice of the top entries,
 * eviction, compaction. */
static void selection(struct kvc_measure *m, uint32_t variant) {
    const uint32_t n = m->settings.entries, kept = kvc_min_u32(n / 4, KEPT), window = kvc_min_u32(kept / 2, WINDOW);
    const struct kvc_keep rule = {.top = kept - window, .tail = window, .recent = INT64_MAX};
    struct kvc_lists *from = make_lists(m, n, n, true), *to = make_lists(m, kept, 0, true), into = *to;
    const size_t stride = whole_tiles(n), lists_bytes = HK * stride * 4;
    const struct kvc_segment segment = {.lists = from, .rows = window, .stored = window};
    const struct kvc_attention a = kvc_measure_make_attention(m, &segment, H, n);
    const struct kvc_span scores = kvc_measure_space(m, lists_bytes), pooled = kvc_measure_space(m, lists_bytes);
    const struct kvc_span order = kvc_measure_space(m, lists_bytes), count = kvc_measure_numbers(m, HK, n, 0);
    struct kvc_read_list chosen = {kvc_measure_space(m, HK * 4).buffer, kvc_measure_space(m, lists_bytes).buffer,
                                   (uint32_t)stride};
    const struct kvc_probabilities rows = kvc_measure_probabilities(from, window, &a);
    (void)variant;
    into.arena = from->arena;
    if (m->status == KVC_OK) {
        m->ops->attention(m->device, &a);
        m->ops->copy(m->device, order, (struct kvc_span){from->order, 0}, lists_bytes);
    }
    kvc_measure_counts(m, (uint64_t)n * HK * (2 * D + 20) + 4ull * kept * HK * 2 * D,
                       (uint64_t)window * H * n * (2 * D + MEASURE_EXP + 2) + 7ull * n * HK, "%u of %u, %u queries",
                       (unsigned)kept, (unsigned)n, (unsigned)window);
    m->row.calls = 7;
    while (kvc_measure_again(m)) {
        const struct kvc_ops *ops = m->ops;
        struct kvc_device *device = m->device;
        ops->copy(device, (struct kvc_span){from->count, 0}, count, HK * 4);
        ops->copy(device, (struct kvc_span){from->order, 0}, order, lists_bytes);
        ops->window_mass(device,
                         &(struct kvc_window_mass){
                             .probabilities = &rows, .scores = scores, .stride = (uint32_t)stride, .by_head = false});
        ops->pool(device, &(struct kvc_pool){.lists = from,
                                             .rows = 1,
                                             .out = pooled,
                                             .in = scores,
                                             .stride = (uint32_t)stride,
                                             .tail = window,
                                             .kernel = 7,
                                             .pooling = KVC_POOL_MAX});
        ops->keep(device, &(struct kvc_keep_rules){.lists = from,
                                                   .rules = &rule,
                                                   .rule_count = 1,
                                                   .scores = pooled,
                                                   .ties = none,
                                                   .stride = (uint32_t)stride,
                                                   .kept = &chosen});
        ops->evict(device, &(struct kvc_evict){.lists = from, .kept = &chosen});
        ops->relayout(device, &(struct kvc_relayout){.dst = &into, .src = from});
    }
}

const struct kvc_measure_operation kvc_measure_layer[] = {{"linear", layer_linear, 1},
                                                          {"attention", attention, 1},
                                                          {"prefill", prefill, 1},
                                                          {"selection", selection, 1},
                                                          {NULL, NULL, 0}};
