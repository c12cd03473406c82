/* gemv.h - linear layers of one row: the lanes of a few outputs lie side by side in registers, and every weight is read
 * once. Part of template.h. */

/* The last k % 32 weights of each output, for types whose rows need not be whole groups of 32. */
INLINE void tail_one_row(const int outputs, vf (*acc)[LANE_VECTORS], const float *x, size_t n, const float *w) {
    float left[KVC_LANES];
    for (size_t i = 0; i < KVC_LANES; i++)
        left[i] = i < n ? x[i] : FILL_X;
    UNROLL
    for (int j = 0; j < outputs; j++)
        UNROLL
    for (int v = 0; v < LANE_VECTORS; v++)
        acc[j][v] = vf_fma(vf_load(left + v * LANES), vf_load(w + j * KVC_LANES + v * LANES), acc[j][v]);
}

/* One part: 32 weights of each of the outputs. */
#define ONE_ROW_PART(type, p)                                                                                          \
    do {                                                                                                               \
        vf xv[LANE_VECTORS];                                                                                           \
        UNROLL                                                                                                         \
        for (int v = 0; v < LANE_VECTORS; v++)                                                                         \
            xv[v] = vf_load(x + k + (p)*KVC_LANES + v * LANES);                                                        \
        UNROLL                                                                                                         \
        for (int j = 0; j < outputs; j++) {                                                                            \
            vf wv[LANE_VECTORS];                                                                                       \
            widen_##type(wv, row[j], p, &scales[j]);                                                                   \
            UNROLL                                                                                                     \
            for (int v = 0; v < LANE_VECTORS; v++)                                                                     \
                acc[j][v] = vf_fma(xv[v], wv[v], acc[j][v]);                                                           \
        }                                                                                                              \
    } while (0)

/* The outputs first ... last - 1 in `streams` stretches, one output of each at a time: so many streams of weights, each
 * read in order. Some of each group's bytes are prefetched AHEAD bytes before their use, into the second level: the
 * first has few buffers for pending loads. For types that need little work the hardware prefetches better by itself.
 * Where `early` is set sum_group(...) prepares the scales of the next group. rest(...) does what is left of a group,
 * total(...) adds the lanes. */
#define AHEAD 4096
#define ONE_ROW(type, streams, bytes, fetched, sum_group, early, rest, total)                                          \
    static void gemv_##type(const struct kvc_linear_call *call, size_t first, size_t last) {                           \
        enum { outputs = streams };                                                                                    \
        const float *x = call->x;                                                                                      \
        size_t stretch = (last - first + outputs - 1) / outputs | 1;                                                   \
        for (size_t n = first; n < first + stretch; n++) {                                                             \
            vf acc[outputs][LANE_VECTORS];                                                                             \
            const unsigned char *row[outputs];                                                                         \
            struct scales both[2][outputs], *scales = both[0], *next_scales = both[1];                                 \
            size_t k = 0;                                                                                              \
            UNROLL                                                                                                     \
            for (int j = 0; j < outputs; j++) {                                                                        \
                row[j] = call->w + at_most(n + (size_t)j * stretch, last - 1) * call->row_bytes;                       \
                UNROLL                                                                                                 \
                for (int v = 0; v < LANE_VECTORS; v++)                                                                 \
                    acc[j][v] = vf_zero();                                                                             \
            }                                                                                                          \
            for (; k + GROUP <= call->K; k += GROUP) {                                                                 \
                UNROLL                                                                                                 \
                for (int j = 0; j < outputs; j++) {                                                                    \
                    UNROLL                                                                                             \
                    for (int line = 0; line < (fetched); line += 64)                                                   \
                        __builtin_prefetch(row[j] + AHEAD + line, 0, 2);                                               \
                    if (!(early) || k == 0)                                                                            \
                        prepare_##type(&scales[j], row[j], 8);                                                         \
                }                                                                                                      \
                const size_t next_group = k + 2 * GROUP <= call->K ? (bytes) : 0;                                      \
                (void)next_group;                                                                                      \
                sum_group(type, early);                                                                                \
                if (early) {                                                                                           \
                    struct scales *used = scales;                                                                      \
                    scales = next_scales;                                                                              \
                    next_scales = used;                                                                                \
                }                                                                                                      \
                UNROLL                                                                                                 \
                for (int j = 0; j < outputs; j++)                                                                      \
                    row[j] += bytes;                                                                                   \
            }                                                                                                          \
            rest(type);                                                                                                \
            UNROLL /* or the sums would stay in memory */                                                              \
                for (int j = 0; j < outputs; j++) {                                                                    \
                size_t output = n + (size_t)j * stretch;                                                               \
                if (output < last) {                                                                                   \
                    float sum = total(acc[j]);                                                                         \
                    call->y[output] = call->bias ? sum + call->bias[output] : sum;                                     \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

/* A group of each of the outputs, part after part. */
#define IN_TURN(type, early)                                                                                           \
    do {                                                                                                               \
        ONE_ROW_PART(type, 0);                                                                                         \
        ONE_ROW_PART(type, 1);                                                                                         \
        ONE_ROW_PART(type, 2);                                                                                         \
        ONE_ROW_PART(type, 3);                                                                                         \
        ONE_ROW_PART(type, 4);                                                                                         \
        ONE_ROW_PART(type, 5);                                                                                         \
        ONE_ROW_PART(type, 6);                                                                                         \
        ONE_ROW_PART(type, 7);                                                                                         \
    } while (0)
#if LANES == 16
#include "backends/cpu/simd/linear/gemv_pipelined.h"
#else
#define PIPELINED IN_TURN
#define EARLY 0
#endif

#define REST_NONE(type) ((void)0)
/* Parts, one by one. */
#define REST_PARTS(type)                                                                                               \
    int parts = (int)((call->K - k) / KVC_LANES);                                                                      \
    UNROLL                                                                                                             \
    for (int j = 0; j < outputs; j++)                                                                                  \
        prepare_##type(&scales[j], row[j], parts);                                                                     \
    for (int p = 0; p < parts; p++)                                                                                    \
    ONE_ROW_PART(type, p)
/* Parts, then single weights. */
#define REST_ALL(type)                                                                                                 \
    REST_PARTS(type);                                                                                                  \
    k += (size_t)parts * KVC_LANES;                                                                                    \
    if (k < call->K) {                                                                                                 \
        float left_over[outputs * KVC_LANES];                                                                          \
        for (int j = 0; j < outputs; j++)                                                                              \
            end_of_row_##type(left_over + j * KVC_LANES, row[j] + (size_t)parts * part_bytes_##type, call->K - k);     \
        tail_one_row(outputs, acc, x + k, call->K - k, left_over);                                                     \
    }

ONE_ROW(f32, ONE_ROW_STREAMS, 8 * part_bytes_f32, 0, IN_TURN, 0, REST_ALL, sum_lanes)
ONE_ROW(f16, ONE_ROW_HALF_STREAMS, 8 * part_bytes_f16, 0, IN_TURN, 0, REST_ALL, sum_lanes)
ONE_ROW(bf16, ONE_ROW_HALF_STREAMS, 8 * part_bytes_bf16, 0, IN_TURN, 0, REST_ALL, sum_lanes)
ONE_ROW(q8_0, ONE_ROW_STREAMS, 8 * part_bytes_q8_0, 8 * part_bytes_q8_0, PIPELINED, 0, REST_PARTS, sum_lanes)
ONE_ROW(q5_0, ONE_ROW_STREAMS, 8 * part_bytes_q5_0, 8 * part_bytes_q5_0, IN_TURN, 0, REST_PARTS, sum_lanes)
ONE_ROW(q3_k, ONE_ROW_STREAMS, group_bytes_q3_k, group_bytes_q3_k, IN_TURN, 0, REST_NONE, sum_lanes)
ONE_ROW(q4_k, ONE_ROW_STREAMS, group_bytes_q4_k, group_bytes_q4_k, PIPELINED, EARLY, REST_NONE, sum_lanes)
ONE_ROW(q5_k, ONE_ROW_STREAMS, group_bytes_q5_k, group_bytes_q5_k, IN_TURN, 0, REST_NONE, sum_lanes)
ONE_ROW(q6_k, ONE_ROW_STREAMS, group_bytes_q6_k, group_bytes_q6_k, IN_TURN, 0, REST_NONE, sum_lanes)

/* Some types take x in another order of lanes, which is made once for all outputs. */
#if LANES == 16
ONE_ROW(q4_0_shifted, ONE_ROW_STREAMS, 8 * part_bytes_q4_0, 8 * part_bytes_q4_0, PIPELINED, EARLY, REST_PARTS,
        total_q4_0_shifted)
#define gemv_q4_0 gemv_q4_0_shifted
static size_t gemv_scratch(const struct kvc_linear_call *call) { return call->type == KVC_Q4_0 ? call->K : 0; }
static void gemv_start(struct kvc_linear_call *call, float *scratch) {
    if (call->type != KVC_Q4_0)
        return;
    for (size_t k = 0; k < call->K; k += KVC_LANES) {
        vf x[LANE_VECTORS];
        order_q4_0_shifted(x, call->x + k);
        vf_store(scratch + k, x[0]);
        vf_store(scratch + k + LANES, x[1]);
    }
    call->x = scratch;
}
#else
ONE_ROW(q4_0, ONE_ROW_STREAMS, 8 * part_bytes_q4_0, 8 * part_bytes_q4_0, PIPELINED, EARLY, REST_PARTS, sum_lanes)
static size_t gemv_scratch(const struct kvc_linear_call *call) { return (void)call, (size_t)0; }
static void gemv_start(struct kvc_linear_call *call, float *scratch) { (void)call, (void)scratch; }
#endif

static void gemv(const struct kvc_linear_call *call, size_t first, size_t last) {
    static void (*const by_type[KVC_TYPES])(const struct kvc_linear_call *, size_t, size_t) = {
        [KVC_F32] = gemv_f32,   [KVC_F16] = gemv_f16,   [KVC_BF16] = gemv_bf16, [KVC_Q8_0] = gemv_q8_0,
        [KVC_Q4_0] = gemv_q4_0, [KVC_Q5_0] = gemv_q5_0, [KVC_Q3_K] = gemv_q3_k, [KVC_Q4_K] = gemv_q4_k,
        [KVC_Q5_K] = gemv_q5_k, [KVC_Q6_K] = gemv_q6_k};
    by_type[call->type](call, first, last);
}
