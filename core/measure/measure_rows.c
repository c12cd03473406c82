/* measure_rows.c - calls of the operations on memory and on rows: a chunk of a prompt, and for linear one row too. */
#include "core/measure/measure.h"
#include "core/base/types.h"

enum { VALUES = MEASURE_ROWS * MEASURE_HIDDEN, MEMORY = 64 << 20 };

static void zero(struct kvc_measure *m, uint32_t variant) {
    const struct kvc_span to = kvc_measure_space(m, MEMORY);
    (void)variant;
    kvc_measure_counts(m, MEMORY, 0, "64 MiB");
    while (kvc_measure_again(m))
        m->ops->zero(m->device, to, MEMORY);
}

static void embed(struct kvc_measure *m, uint32_t variant) {
    static const enum kvc_type types[] = {KVC_F16, KVC_Q8_0, KVC_Q6_K};
    const enum kvc_type type = types[variant];
    const struct kvc_weight *w = kvc_measure_weight(m, type, 8192, MEASURE_HIDDEN);
    const struct kvc_span tokens = kvc_measure_numbers(m, MEASURE_ROWS, 7, 13), out = kvc_measure_space(m, VALUES * 4);
    kvc_measure_counts(m, MEASURE_ROWS * kvc_type_row_bytes(type, MEASURE_HIDDEN) + VALUES * 4, 0, "%s, %d x %d",
                       kvc_type_name(type), MEASURE_ROWS, MEASURE_HIDDEN);
    while (kvc_measure_again(m))
        m->ops->embed(m->device, out, w, tokens, MEASURE_ROWS);
}

static void norm(struct kvc_measure *m, uint32_t variant) {
    const struct kvc_span x = kvc_measure_values(m, VALUES), y = kvc_measure_space(m, VALUES * 4);
    const struct kvc_span w = kvc_measure_values(m, MEASURE_HIDDEN);
    (void)variant;
    kvc_measure_counts(m, 2ull * VALUES * 4, 4ull * VALUES, "%d x %d", MEASURE_ROWS, MEASURE_HIDDEN);
    while (kvc_measure_again(m))
        m->ops->norm(m->device, y, x, w, MEASURE_ROWS, MEASURE_HIDDEN, 1e-5f);
}

/* Every type, one row and the rows of a short prompt. */
static void linear(struct kvc_measure *m, uint32_t variant) {
    const enum kvc_type type = (enum kvc_type)(variant % KVC_TYPES);
    const uint32_t N = MEASURE_FEED_FORWARD, K = MEASURE_HIDDEN, rows = variant < KVC_TYPES ? 1 : 64;
    const struct kvc_weight *w = kvc_measure_weight(m, type, N, K);
    const struct kvc_span x = kvc_measure_values(m, (size_t)rows * K), none = {NULL, 0};
    const struct kvc_span y = kvc_measure_space(m, (size_t)rows * N * 4);
    kvc_measure_counts(m, N * kvc_type_row_bytes(type, K) + (uint64_t)rows * (N + K) * 4, 2ull * N * K * rows,
                       "%s, %u row%s, %u to %u", kvc_type_name(type), (unsigned)rows, rows == 1 ? "" : "s", (unsigned)K,
                       (unsigned)N);
    while (kvc_measure_again(m))
        m->ops->linear(m->device, y, x, w, none, rows);
}

static void rope(struct kvc_measure *m, uint32_t variant) {
    const struct kvc_span x = kvc_measure_values(m, VALUES), y = kvc_measure_space(m, VALUES * 4);
    const size_t angles = MEASURE_ROWS * MEASURE_HEAD_SIZE / 2;
    const struct kvc_span cosine = kvc_measure_values(m, angles), sine = kvc_measure_values(m, angles);
    kvc_measure_counts(m, 2ull * VALUES * 4 + 2 * angles * 4, 3ull * VALUES, "%d x %d heads%s", MEASURE_ROWS,
                       MEASURE_HEADS, variant ? ", interleaved" : "");
    while (kvc_measure_again(m))
        m->ops->rope(m->device, y, x, cosine, sine, MEASURE_ROWS, MEASURE_HEADS, MEASURE_HEAD_SIZE, MEASURE_HEAD_SIZE,
                     variant != 0);
}

static void gated_silu(struct kvc_measure *m, uint32_t variant) {
    const size_t n = (size_t)MEASURE_ROWS * MEASURE_FEED_FORWARD;
    const struct kvc_span gate = kvc_measure_values(m, n), up = kvc_measure_values(m, n);
    const struct kvc_span y = kvc_measure_space(m, n * 4);
    (void)variant;
    kvc_measure_counts(m, 3 * n * 4, (MEASURE_EXP + 3) * n, "%d x %d", MEASURE_ROWS, MEASURE_FEED_FORWARD);
    while (kvc_measure_again(m))
        m->ops->gated_silu(m->device, y, gate, up, n);
}

static void add(struct kvc_measure *m, uint32_t variant) {
    const struct kvc_span x = kvc_measure_values(m, VALUES), y = kvc_measure_space(m, VALUES * 4);
    (void)variant;
    kvc_measure_counts(m, 3ull * VALUES * 4, VALUES, "%d x %d", MEASURE_ROWS, MEASURE_HIDDEN);
    while (kvc_measure_again(m))
        m->ops->add(m->device, y, x, VALUES);
}

static void blend(struct kvc_measure *m, uint32_t variant) {
    const struct kvc_span x = kvc_measure_values(m, VALUES), y = kvc_measure_space(m, VALUES * 4);
    (void)variant;
    kvc_measure_counts(m, 3ull * VALUES * 4, 3ull * VALUES, "%d x %d", MEASURE_ROWS, MEASURE_HIDDEN);
    while (kvc_measure_again(m))
        m->ops->blend(m->device, y, x, 0.25f, VALUES);
}

static void repeat_heads(struct kvc_measure *m, uint32_t variant) {
    const size_t n = VALUES / MEASURE_GROUP;
    const struct kvc_span x = kvc_measure_values(m, n), y = kvc_measure_space(m, VALUES * 4);
    (void)variant;
    kvc_measure_counts(m, (n + VALUES) * 4, 0, "%d x %d heads x %d", MEASURE_ROWS, MEASURE_KV_HEADS, MEASURE_GROUP);
    while (kvc_measure_again(m))
        m->ops->repeat_heads(m->device, y, x, MEASURE_ROWS, MEASURE_KV_HEADS, MEASURE_GROUP, MEASURE_HEAD_SIZE);
}

static void gather(struct kvc_measure *m, uint32_t variant) {
    const uint32_t rows = MEASURE_ROWS / 2;
    const struct kvc_span x = kvc_measure_values(m, VALUES), y = kvc_measure_space(m, VALUES * 2);
    const struct kvc_span index = kvc_measure_numbers(m, rows, 1, 2);
    (void)variant;
    kvc_measure_counts(m, 2ull * VALUES * 2, 0, "%u of %d x %d", (unsigned)rows, MEASURE_ROWS, MEASURE_HIDDEN);
    while (kvc_measure_again(m))
        m->ops->gather(m->device, y, x, index, rows, MEASURE_HIDDEN);
}

const struct kvc_measure_operation kvc_measure_rows[] = {{"zero", zero, 1},
                                                         {"embed", embed, 3},
                                                         {"norm", norm, 1},
                                                         {"linear", linear, 2 * KVC_TYPES},
                                                         {"rope", rope, 2},
                                                         {"gated_silu", gated_silu, 1},
                                                         {"add", add, 1},
                                                         {"blend", blend, 1},
                                                         {"repeat_heads", repeat_heads, 1},
                                                         {"gather", gather, 1},
                                                         {NULL, NULL, 0}};
