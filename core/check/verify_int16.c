/* verify_int16.c - test cases of linear layers with activations and weights of fifteen bits: quantize_rows_int16,
 * linear_int16, expert_linear_int16. */
#include <stdio.h>

#include "core/base/types.h"
#include "core/check/inject.h"
#include "core/check/verify.h"

/* Rows quantized to fifteen bits on each device. */
struct twin_rows {
    struct kvc_twin quant, scale;
};

static struct kvc_int16_rows side_of(const struct twin_rows *rows, int side) {
    return (struct kvc_int16_rows){.quant = kvc_verify_span(rows->quant, side),
                                   .scale = kvc_verify_span(rows->scale, side)};
}

/* Makes x [rows, K]; each device quantizes it itself. */
static struct twin_rows quantized(struct kvc_verify *v, uint32_t rows, uint32_t K, enum kvc_flavour flavour) {
    const size_t values = (size_t)rows * K;
    const struct kvc_twin x = kvc_verify_twin_values(v, values, flavour);
    const struct twin_rows y = {.quant = kvc_verify_output(v, values * sizeof(int16_t)),
                                .scale = kvc_verify_output(v, rows * kvc_int16_blocks(K) * sizeof(float))};
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
        v->device[side]->ops->quantize_rows_int16(
            v->device[side], &(struct kvc_quantize_rows_int16){
                                 .y = side_of(&y, side), .x = kvc_verify_span(x, side), .rows = rows, .K = K});
    return y;
}

/* Compares n 16-bit integers as numbers. */
static void compare_integers(struct kvc_verify *v, struct kvc_twin twin, size_t n, const char *what) {
    const size_t held = v->held_count;
    float *number[2] = {NULL, NULL};
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
        int16_t *raw = kvc_verify_alloc(v, n * sizeof *raw);
        number[side] = kvc_verify_alloc(v, n * sizeof(float));
        if (!raw || !number[side])
            continue;
        v->device[side]->ops->download(v->device[side], raw, kvc_verify_span(twin, side), n * sizeof *raw);
        for (size_t i = 0; i < n; i++)
            number[side][i] = (float)raw[i];
    }
    if (v->status == KVC_OK)
        kvc_verify_compare_host(v, number[0], number[1], n, what);
    kvc_verify_release(v, held);
}

/* Packs the weights of every second case, on each device. */
static bool pack(struct kvc_verify *v, struct kvc_weight *weight[2]) {
    for (int side = v->first; side < 2 && v->row.cases % 2 && v->status == KVC_OK; side++)
        v->status = v->device[side]->ops->weight_pack(v->device[side], weight[side], &v->error);
    return v->status == KVC_OK;
}

static enum kvc_type float_type(const struct kvc_verify *v) {
    static const enum kvc_type types[] = {KVC_F16, KVC_BF16, KVC_F32, KVC_F16, KVC_FP8};
    return types[v->row.cases % (sizeof types / sizeof *types)];
}

/* Draws a number of inputs that fills whole blocks of the type. It takes up to nine blocks of int16, of which the last
 * is usually short. */
static uint32_t inputs(struct kvc_verify *v, enum kvc_type type) {
    const uint32_t steps = kvc_verify_range(v, 1, v->small ? 9 : 70);
    return type == KVC_FP8 ? (steps + 3) / 4 * 128 : steps * KVC_INT16_STEP;
}

/* Draws the rows of a prompt's chunk, at least 41. x [rows, K] stays below a megabyte, which every device can
 * allocate. */
static uint32_t chunk_rows(struct kvc_verify *v, uint32_t K, uint32_t most) {
    return kvc_verify_range(v, 41, kvc_max_u32(50, kvc_min_u32(most, 262144 / K)));
}

KVC_INJECT(quantize_rows_int16, kvc_quantize_rows_int16, if (args->rows) kvc_flip(device, args->y.scale, 0))
KVC_CASE(quantize_rows_int16, 40) {
    static const uint32_t counts[] = {1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 33, 70};
    const uint32_t rows = v->small ? kvc_verify_range(v, 1, 5) : kvc_verify_pick(v, counts);
    const uint32_t K = KVC_INT16_STEP * kvc_verify_range(v, 1, v->small ? 9 : 140);
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    snprintf(v->shape, sizeof v->shape, "rows %u, K %u, flavour %d", (unsigned)rows, (unsigned)K, (int)flavour);
    const struct twin_rows y = quantized(v, rows, K, flavour);
    compare_integers(v, y.quant, (size_t)rows * K, "quant");
    kvc_verify_compare(v, y.scale, 0, rows * kvc_int16_blocks(K), "scale");
}

KVC_INJECT(linear_int16, kvc_linear_int16, if (args->rows) kvc_flip(device, args->y, 0))
KVC_CASE(linear_int16, 100) {
    static const uint32_t outputs[] = {1, 2, 3, 4, 5, 7, 8, 13, 15, 16, 17, 24, 31, 33, 47, 64, 65, 100};
    static const uint32_t counts[] = {1, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 16, 17, 24, 31, 33, 48};
    const enum kvc_type type = float_type(v);
    const uint32_t K = inputs(v, type), most = v->small ? 3000 : 20000000;
    uint32_t rows = v->small ? kvc_verify_range(v, 1, 5) : kvc_verify_pick(v, counts);
    uint32_t N = kvc_verify_pick(v, outputs);
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    struct kvc_weight *weight[2];
    struct kvc_twin bias = {{NULL, NULL}};
    if (kvc_verify_range(v, 0, 9) == 0)
        N = kvc_verify_range(v, 200, 700); /* enough to be split among threads and tiles */
    if (v->row.cases % 16 >= 13)
        rows = chunk_rows(v, K, v->small ? 75 : 700);
    if ((uint64_t)K * N * rows > most)
        N = most / (K * rows) + 1;
    snprintf(v->shape, sizeof v->shape, "%s, K %u, N %u, rows %u, flavour %d", kvc_type_name(type), (unsigned)K,
             (unsigned)N, (unsigned)rows, (int)flavour);
    const struct twin_rows x = quantized(v, rows, K, flavour);
    const struct kvc_twin y = kvc_verify_output(v, (size_t)rows * N * sizeof(float));
    if (kvc_verify_range(v, 0, 1))
        bias = kvc_verify_twin_values(v, N, flavour);
    if (v->status == KVC_OK && kvc_verify_weight(v, type, N, K, kvc_verify_flavour(v), weight) && pack(v, weight)) {
        for (int side = v->first; side < 2; side++)
            v->device[side]->ops->linear_int16(v->device[side],
                                               &(struct kvc_linear_int16){.y = kvc_verify_span(y, side),
                                                                          .x = side_of(&x, side),
                                                                          .w = weight[side],
                                                                          .bias = kvc_verify_span(bias, side),
                                                                          .rows = rows});
        kvc_verify_compare(v, y, 0, (size_t)rows * N, "y");
        kvc_verify_weight_free(v, weight);
    }
}

KVC_INJECT(expert_linear_int16, kvc_expert_linear_int16, if (args->pairs) kvc_flip(device, args->y, 0))
KVC_CASE(expert_linear_int16, 40) {
    static const uint32_t outputs[] = {1, 3, 4, 8, 13, 16, 31, 33, 47, 64, 100, 130};
    const enum kvc_type type = float_type(v);
    const uint32_t K = inputs(v, type), E = kvc_verify_range(v, 1, v->small ? 4 : 12);
    uint32_t N = kvc_verify_pick(v, outputs), pairs = kvc_verify_range(v, 1, v->small ? 6 : 40);
    const enum kvc_flavour flavour = kvc_verify_flavour(v);
    struct kvc_weight *weight[2] = {NULL, NULL};
    struct kvc_twin bias = {{NULL, NULL}};
    if (v->row.cases % 8 == 7)
        pairs = chunk_rows(v, K, v->small ? 50 : 400);
    if (v->small && (uint64_t)K * N * pairs > 3000)
        N = 3000 / (K * pairs) + 1;
    snprintf(v->shape, sizeof v->shape, "%s, %u experts, K %u, N %u, pairs %u, flavour %d", kvc_type_name(type),
             (unsigned)E, (unsigned)K, (unsigned)N, (unsigned)pairs, (int)flavour);
    const uint32_t *first_pair = kvc_verify_first_pairs(v, E, pairs);
    const struct kvc_twin first = kvc_verify_twin(v, (E + 1) * sizeof *first_pair, first_pair);
    const struct twin_rows x = quantized(v, pairs, K, flavour);
    const struct kvc_twin y = kvc_verify_output(v, (size_t)pairs * N * sizeof(float));
    if (kvc_verify_range(v, 0, 1))
        bias = kvc_verify_twin_values(v, (size_t)E * N, flavour);
    if (v->status == KVC_OK && kvc_verify_experts(v, type, E, N, K, weight) && pack(v, weight)) {
        for (int side = v->first; side < 2; side++)
            v->device[side]->ops->expert_linear_int16(
                v->device[side], &(struct kvc_expert_linear_int16){.y = kvc_verify_span(y, side),
                                                                   .x = side_of(&x, side),
                                                                   .w = weight[side],
                                                                   .bias = kvc_verify_span(bias, side),
                                                                   .first = kvc_verify_span(first, side),
                                                                   .experts = E,
                                                                   .pairs = pairs});
        kvc_verify_compare(v, y, 0, (size_t)pairs * N, "y");
    }
    kvc_verify_weight_free(v, weight);
}
