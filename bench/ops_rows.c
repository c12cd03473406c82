/* ops_rows.c - measures the operations on memory and on rows: with a chunk of a prompt and, for the operation linear,
 * also with one row. */
#include "bench/measure.h"
#include "core/base/types.h"

enum { VALUES = MEASURE_ROWS * MEASURE_HIDDEN, MEMORY = 64 << 20 };

KVC_MEASURE(zero, 1, variant) {
    const struct kvc_span to = kvc_measure_space(m, MEMORY);
    (void)variant;
    kvc_measure_counts(m, MEMORY, 0, "64 MiB");
    while (kvc_measure_again(m))
        m->ops->zero(m->device, to, MEMORY);
}

KVC_MEASURE(embed, 3, variant) {
    static const enum kvc_type types[] = {KVC_F16, KVC_Q8_0, KVC_Q6_K};
    const enum kvc_type type = types[variant];
    const struct kvc_weight *w = kvc_measure_weight(m, type, 8192, MEASURE_HIDDEN);
    const struct kvc_span tokens = kvc_measure_numbers(m, MEASURE_ROWS, 7, 13), out = kvc_measure_space(m, VALUES * 4);
    kvc_measure_counts(m, MEASURE_ROWS * kvc_type_row_bytes(type, MEASURE_HIDDEN) + VALUES * 4, 0, "%s, %d x %d",
                       kvc_type_name(type), MEASURE_ROWS, MEASURE_HIDDEN);
    while (kvc_measure_again(m))
        m->ops->embed(m->device, &(struct kvc_embed){.out = out, .table = w, .tokens = tokens, .rows = MEASURE_ROWS});
}

KVC_MEASURE(norm, 1, variant) {
    const struct kvc_span x = kvc_measure_values(m, VALUES), y = kvc_measure_space(m, VALUES * 4);
    const struct kvc_span w = kvc_measure_values(m, MEASURE_HIDDEN);
    (void)variant;
    kvc_measure_counts(m, 2ull * VALUES * 4, 4ull * VALUES, "%d x %d", MEASURE_ROWS, MEASURE_HIDDEN);
    while (kvc_measure_again(m))
        m->ops->norm(m->device, &(struct kvc_norm){
                                    .y = y, .x = x, .w = w, .rows = MEASURE_ROWS, .K = MEASURE_HIDDEN, .eps = 1e-5f});
}

/* Every type, with one row and with the rows of a short prompt. */
KVC_MEASURE(linear, 2 * KVC_ALL_TYPES, variant) {
    kvc_measure_time_linear(m, (enum kvc_type)(variant % KVC_ALL_TYPES), variant < KVC_ALL_TYPES ? 1 : 64,
                            MEASURE_FEED_FORWARD, MEASURE_HIDDEN);
}

KVC_MEASURE(rope, 2, variant) {
    const struct kvc_span x = kvc_measure_values(m, VALUES), y = kvc_measure_space(m, VALUES * 4);
    const size_t angles = MEASURE_ROWS * MEASURE_HEAD_SIZE / 2;
    const struct kvc_span cosine = kvc_measure_values(m, angles), sine = kvc_measure_values(m, angles);
    kvc_measure_counts(m, 2ull * VALUES * 4 + 2 * angles * 4, 3ull * VALUES, "%d x %d heads%s", MEASURE_ROWS,
                       MEASURE_HEADS, variant ? ", interleaved" : "");
    while (kvc_measure_again(m))
        m->ops->rope(m->device, &(struct kvc_rope_heads){.y = y,
                                                         .x = x,
                                                         .cosine = cosine,
                                                         .sine = sine,
                                                         .rows = MEASURE_ROWS,
                                                         .heads = MEASURE_HEADS,
                                                         .head_size = MEASURE_HEAD_SIZE,
                                                         .rotary = MEASURE_HEAD_SIZE,
                                                         .interleaved = variant != 0});
}

KVC_MEASURE(gated_silu, 1, variant) {
    const size_t n = (size_t)MEASURE_ROWS * MEASURE_FEED_FORWARD;
    const struct kvc_span gate = kvc_measure_values(m, n), up = kvc_measure_values(m, n);
    const struct kvc_span y = kvc_measure_space(m, n * 4);
    (void)variant;
    kvc_measure_counts(m, 3 * n * 4, (MEASURE_EXP + 3) * n, "%d x %d", MEASURE_ROWS, MEASURE_FEED_FORWARD);
    while (kvc_measure_again(m))
        m->ops->gated_silu(m->device, &(struct kvc_gated_silu){.y = y, .gate = gate, .up = up, .n = n});
}

KVC_MEASURE(add, 1, variant) {
    const struct kvc_span x = kvc_measure_values(m, VALUES), y = kvc_measure_space(m, VALUES * 4);
    (void)variant;
    kvc_measure_counts(m, 3ull * VALUES * 4, VALUES, "%d x %d", MEASURE_ROWS, MEASURE_HIDDEN);
    while (kvc_measure_again(m))
        m->ops->add(m->device, &(struct kvc_add){.y = y, .x = x, .n = VALUES});
}

KVC_MEASURE(blend, 1, variant) {
    const struct kvc_span x = kvc_measure_values(m, VALUES), y = kvc_measure_space(m, VALUES * 4);
    (void)variant;
    kvc_measure_counts(m, 3ull * VALUES * 4, 3ull * VALUES, "%d x %d", MEASURE_ROWS, MEASURE_HIDDEN);
    while (kvc_measure_again(m))
        m->ops->blend(m->device, &(struct kvc_blend){.y = y, .x = x, .share = 0.25f, .n = VALUES});
}

KVC_MEASURE(scale, 1, variant) {
    const struct kvc_span x = kvc_measure_values(m, VALUES), y = kvc_measure_space(m, VALUES * 4);
    (void)variant;
    kvc_measure_counts(m, 2ull * VALUES * 4, VALUES, "%d x %d", MEASURE_ROWS, MEASURE_HIDDEN);
    while (kvc_measure_again(m))
        m->ops->scale(m->device, &(struct kvc_scale){.y = y, .x = x, .factor = 0.25f, .n = VALUES});
}

KVC_MEASURE(hadamard, 1, variant) {
    const struct kvc_span x = kvc_measure_values(m, VALUES);
    const uint32_t heads = VALUES / MEASURE_HEAD_SIZE;
    (void)variant;
    kvc_measure_counts(m, 2ull * VALUES * 4, 8ull * VALUES, "%u vectors of %d", heads, MEASURE_HEAD_SIZE);
    while (kvc_measure_again(m))
        m->ops->hadamard(m->device, &(struct kvc_hadamard){.x = x, .heads = heads, .d = MEASURE_HEAD_SIZE});
}

KVC_MEASURE(smooth_factors, 1, variant) {
    const size_t width = MEASURE_KV_HEADS * MEASURE_HEAD_SIZE, n = MEASURE_ROWS * width;
    const struct kvc_span k = kvc_measure_values(m, n), q = kvc_measure_values(m, n * MEASURE_GROUP),
                          factors = kvc_measure_space(m, 2 * width * 4);
    (void)variant;
    kvc_measure_counts(m, n * (1 + MEASURE_GROUP) * 4, n * (3 + 2 * MEASURE_GROUP), "%d x %d heads, %d queries",
                       MEASURE_ROWS, MEASURE_KV_HEADS, MEASURE_GROUP);
    while (kvc_measure_again(m))
        m->ops->smooth_factors(m->device, &(struct kvc_smooth_factors){.k = k,
                                                                       .q = q,
                                                                       .factors = factors,
                                                                       .rows = MEASURE_ROWS,
                                                                       .heads = MEASURE_KV_HEADS * MEASURE_GROUP,
                                                                       .kv_heads = MEASURE_KV_HEADS,
                                                                       .d = MEASURE_HEAD_SIZE});
}

KVC_MEASURE(smooth, 1, variant) {
    const size_t width = MEASURE_KV_HEADS * MEASURE_HEAD_SIZE, n = MEASURE_ROWS * width;
    const struct kvc_span x = kvc_measure_values(m, n), factor = kvc_measure_values(m, width);
    (void)variant;
    kvc_measure_counts(m, 2ull * n * 4, n, "%d x %d heads", MEASURE_ROWS, MEASURE_KV_HEADS);
    while (kvc_measure_again(m))
        m->ops->smooth(m->device, &(struct kvc_smooth){.x = x,
                                                       .factor = factor,
                                                       .rows = MEASURE_ROWS,
                                                       .heads = MEASURE_KV_HEADS,
                                                       .kv_heads = MEASURE_KV_HEADS,
                                                       .d = MEASURE_HEAD_SIZE});
}

KVC_MEASURE(centre, 1, variant) {
    const struct kvc_span x = kvc_measure_values(m, VALUES), mean = kvc_measure_values(m, MEASURE_HIDDEN);
    (void)variant;
    kvc_measure_counts(m, 2ull * VALUES * 4, VALUES, "%d x %d", MEASURE_ROWS, MEASURE_HIDDEN);
    while (kvc_measure_again(m))
        m->ops->centre(m->device,
                       &(struct kvc_centre){.x = x, .centre = mean, .rows = MEASURE_ROWS, .width = MEASURE_HIDDEN});
}

KVC_MEASURE(repeat_heads, 1, variant) {
    const size_t n = VALUES / MEASURE_GROUP;
    const struct kvc_span x = kvc_measure_values(m, n), y = kvc_measure_space(m, VALUES * 4);
    (void)variant;
    kvc_measure_counts(m, (n + VALUES) * 4, 0, "%d x %d heads x %d", MEASURE_ROWS, MEASURE_KV_HEADS, MEASURE_GROUP);
    while (kvc_measure_again(m))
        m->ops->repeat_heads(m->device, &(struct kvc_repeat_heads){.out = y,
                                                                   .x = x,
                                                                   .rows = MEASURE_ROWS,
                                                                   .heads = MEASURE_KV_HEADS,
                                                                   .copies = MEASURE_GROUP,
                                                                   .head_size = MEASURE_HEAD_SIZE});
}

KVC_MEASURE(gather, 1, variant) {
    const uint32_t rows = MEASURE_ROWS / 2;
    const struct kvc_span x = kvc_measure_values(m, VALUES), y = kvc_measure_space(m, VALUES * 2);
    const struct kvc_span index = kvc_measure_numbers(m, rows, 1, 2);
    (void)variant;
    kvc_measure_counts(m, 2ull * VALUES * 2, 0, "%u of %d x %d", (unsigned)rows, MEASURE_ROWS, MEASURE_HIDDEN);
    while (kvc_measure_again(m))
        m->ops->gather(m->device,
                       &(struct kvc_gather){.out = y, .x = x, .index = index, .rows = rows, .width = MEASURE_HIDDEN});
}
