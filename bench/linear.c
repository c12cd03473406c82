/* linear.c - tables that measure linear layers: compared with a BLAS library, for each type of weights, for different
 * numbers of rows, with weights in memory or in the CPU's caches, and with 8-bit or 15-bit activations. */
#include "bench/measure.h"
#include "core/base/integers.h"
#include "core/base/types.h"

enum { WIDE = 4096, INT8_TYPES = KVC_TYPES - KVC_Q8_0, INT16_TYPES = 4, INT16_ROWS = 3 };

/* Counts the bytes and flops of a layer whose inputs have `width` bytes each. */
static void count_linear(struct kvc_measure *m, enum kvc_type type, uint32_t rows, uint64_t N, uint64_t K,
                         uint64_t width) {
    kvc_measure_counts(m, N * kvc_type_row_bytes(type, K) + rows * (N * 4 + K * width), 2ull * N * K * rows,
                       "%s, %u row%s, %u to %u", kvc_type_name(type), (unsigned)rows, rows == 1 ? "" : "s", (unsigned)K,
                       (unsigned)N);
}

void kvc_measure_time_linear(struct kvc_measure *m, enum kvc_type type, uint32_t rows, uint64_t N, uint64_t K) {
    const struct kvc_weight *w = kvc_measure_weight(m, type, N, K);
    const struct kvc_span x = kvc_measure_values(m, (size_t)rows * K), y = kvc_measure_space(m, (size_t)rows * N * 4);
    const struct kvc_linear linear = {.y = y, .x = x, .w = w, .bias = {NULL, 0}, .rows = rows};
    count_linear(m, type, rows, N, K, 4);
    while (kvc_measure_again(m))
        m->ops->linear(m->device, &linear);
}

struct kvc_int8_rows kvc_measure_int8_rows(struct kvc_measure *m, uint32_t rows, uint32_t K, struct kvc_span *x) {
    const size_t values = (size_t)rows * K;
    const struct kvc_int8_rows y = {.quant = kvc_measure_space(m, values),
                                    .scale = kvc_measure_space(m, values / 32 * 4),
                                    .sum = kvc_measure_space(m, values / 16 * 4)};
    const struct kvc_span from = kvc_measure_values(m, values);
    if (m->status == KVC_OK)
        m->ops->quantize_rows(m->device, &(struct kvc_quantize_rows){.y = y, .x = from, .rows = rows, .K = K});
    if (x)
        *x = from;
    return y;
}

void kvc_measure_time_int8(struct kvc_measure *m, enum kvc_type type, uint32_t rows, uint64_t N, uint32_t K,
                           bool quantizing) {
    struct kvc_span x;
    const struct kvc_weight *w = kvc_measure_weight(m, type, N, K);
    const struct kvc_int8_rows y = kvc_measure_int8_rows(m, rows, K, &x);
    const struct kvc_quantize_rows quantize = {.y = y, .x = x, .rows = rows, .K = K};
    const struct kvc_linear_int8 linear = {
        .y = kvc_measure_space(m, (size_t)rows * N * 4), .x = y, .w = w, .rows = rows};
    count_linear(m, type, rows, N, K, quantizing ? 4 : 1);
    while (kvc_measure_again(m)) {
        if (quantizing)
            m->ops->quantize_rows(m->device, &quantize);
        m->ops->linear_int8(m->device, &linear);
    }
}

struct kvc_int16_rows kvc_measure_int16_rows(struct kvc_measure *m, uint32_t rows, uint32_t K, struct kvc_span *x) {
    const size_t values = (size_t)rows * K;
    const struct kvc_int16_rows y = {.quant = kvc_measure_space(m, values * 2),
                                     .scale = kvc_measure_space(m, rows * kvc_int16_blocks(K) * 4)};
    const struct kvc_span from = kvc_measure_values(m, values);
    if (m->status == KVC_OK)
        m->ops->quantize_rows_int16(m->device,
                                    &(struct kvc_quantize_rows_int16){.y = y, .x = from, .rows = rows, .K = K});
    if (x)
        *x = from;
    return y;
}

void kvc_measure_time_int16(struct kvc_measure *m, enum kvc_type type, uint32_t rows, uint64_t N, uint32_t K,
                            bool quantizing) {
    struct kvc_span x;
    const struct kvc_weight *w = kvc_measure_weight(m, type, N, K);
    const struct kvc_int16_rows y = kvc_measure_int16_rows(m, rows, K, &x);
    const struct kvc_quantize_rows_int16 quantize = {.y = y, .x = x, .rows = rows, .K = K};
    const struct kvc_linear_int16 linear = {
        .y = kvc_measure_space(m, (size_t)rows * N * 4), .x = y, .w = w, .rows = rows};
    count_linear(m, type, rows, N, K, quantizing ? 4 : 2);
    if (m->status == KVC_OK)
        m->status = m->ops->weight_pack(m->device, m->weights[m->weight_count - 1], &m->error);
    while (kvc_measure_again(m)) {
        if (quantizing)
            m->ops->quantize_rows_int16(m->device, &quantize);
        m->ops->linear_int16(m->device, &linear);
    }
}

/* Returns the N of a matrix [N, WIDE] of `bytes` bytes or, in a quick run, at most 64. */
static uint64_t outputs_in(const struct kvc_measure *m, enum kvc_type type, uint64_t bytes) {
    const uint64_t N = bytes / kvc_type_row_bytes(type, WIDE);
    return m->settings.once ? kvc_min_u64(N, 64) : N;
}

static uint64_t outputs(const struct kvc_measure *m, uint64_t N) { return m->settings.once ? 64 : N; }

static void gemm(struct kvc_measure *m, uint32_t variant) {
    kvc_measure_time_linear(m, KVC_F32, MEASURE_ROWS, outputs(m, 1024u << variant % 4), 1024u << variant / 4);
}

static void types(struct kvc_measure *m, uint32_t variant) {
    kvc_measure_time_linear(m, (enum kvc_type)variant, MEASURE_ROWS, outputs(m, WIDE), WIDE);
}

static void small_batch(struct kvc_measure *m, uint32_t variant) {
    static const uint32_t rows[] = {1, 2, 4, 8, 12, 16, 24, 32, 48, 64};
    static const enum kvc_type of[] = {KVC_F32, KVC_F16, KVC_Q8_0, KVC_Q4_K};
    kvc_measure_time_linear(m, of[variant / 10], rows[variant % 10], outputs(m, WIDE), WIDE);
}

static void decode(struct kvc_measure *m, uint32_t variant) {
    const enum kvc_type type = (enum kvc_type)variant;
    kvc_measure_time_linear(m, type, 1, outputs_in(m, type, (uint64_t)192 << 20), WIDE);
}

/* Matrices that fit in L2, so that the arithmetic of a thread is the limit. */
static void cached(struct kvc_measure *m, uint32_t variant) {
    const enum kvc_type type = (enum kvc_type)variant;
    kvc_measure_time_linear(m, type, 1, outputs_in(m, type, (uint64_t)256 << 10), WIDE);
}

/* Every type: one row times a large matrix, and the rows of a chunk times another matrix. The time includes quantizing
 * the rows. */
static void int8(struct kvc_measure *m, uint32_t variant) {
    const enum kvc_type type = (enum kvc_type)(KVC_Q8_0 + variant % INT8_TYPES);
    const uint32_t rows = variant < INT8_TYPES ? 1 : MEASURE_ROWS;
    const uint64_t N = rows == 1 ? outputs_in(m, type, (uint64_t)64 << 20) : outputs(m, WIDE);
    if (m->beside)
        kvc_measure_time_linear(m, type, rows, N, WIDE);
    else
        kvc_measure_time_int8(m, type, rows, N, WIDE, true);
}

/* Float weights with 15-bit activations: one row times a large matrix, and eight rows (as in a batch of sequences) or
 * the rows of a chunk times another matrix. */
static void int16(struct kvc_measure *m, uint32_t variant) {
    static const enum kvc_type of[INT16_TYPES] = {KVC_F16, KVC_BF16, KVC_F32, KVC_FP8};
    static const uint32_t counts[INT16_ROWS] = {1, 8, MEASURE_ROWS};
    const enum kvc_type type = of[variant % INT16_TYPES];
    const uint32_t rows = counts[variant / INT16_TYPES];
    const uint64_t N = rows == 1 ? outputs_in(m, type, (uint64_t)64 << 20) : outputs(m, WIDE);
    if (m->beside)
        kvc_measure_time_linear(m, type, rows, N, WIDE);
    else
        kvc_measure_time_int16(m, type, rows, N, WIDE, true);
}

const struct kvc_measure_operation kvc_measure_gemm[] = {{"linear", gemm, 16}, {NULL, NULL, 0}};
const struct kvc_measure_operation kvc_measure_types[] = {{"linear", types, KVC_ALL_TYPES}, {NULL, NULL, 0}};
const struct kvc_measure_operation kvc_measure_small_batch[] = {{"linear", small_batch, 40}, {NULL, NULL, 0}};
const struct kvc_measure_operation kvc_measure_decode_linear[] = {{"linear", decode, KVC_ALL_TYPES}, {NULL, NULL, 0}};
const struct kvc_measure_operation kvc_measure_cached_linear[] = {{"linear", cached, KVC_ALL_TYPES}, {NULL, NULL, 0}};
const struct kvc_measure_operation kvc_measure_int8[] = {{"linear_int8", int8, 2 * INT8_TYPES}, {NULL, NULL, 0}};
const struct kvc_measure_operation kvc_measure_int16[] = {{"linear_int16", int16, INT16_ROWS *INT16_TYPES},
                                                          {NULL, NULL, 0}};
