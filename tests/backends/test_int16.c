/* test_int16.c - linear layers with activations and weights of fifteen bits. The reference is compared with slow,
 * different code (digits, 64-bit integers, and double precision) and tested with special
 * values; every CPU instruction set is compared with the reference. */
#include <stdio.h>

#include "backends/cpu/ref/ref.h"
#include "core/base/backends.h"
#include "core/base/cpu_paths.h"
#include "core/check/verify.h"
#include "tests/backends/ref_fixture.h"
#include "tests/check.h"
#include "tests/verify_some.h"

extern const struct kvc_backend_class kvc_backend_cpu;

static struct kvc_int16_rows rows_of(size_t rows, size_t K) {
    return (struct kvc_int16_rows){.quant = buffer(rows * K * 2), .scale = buffer(rows * kvc_int16_blocks(K) * 4)};
}

static struct kvc_int16_rows quantized(struct kvc_span x, uint32_t rows, uint32_t K) {
    const struct kvc_int16_rows y = rows_of(rows, K);
    OPS->quantize_rows_int16(device, &(struct kvc_quantize_rows_int16){.y = y, .x = x, .rows = rows, .K = K});
    return y;
}

static void quants(void **state) {
    enum { ROWS = 50, WIDTH = 352, BLOCKS = 2 }; /* the second block of a row is short */
    const struct kvc_span x = values(ROWS * WIDTH);
    (void)state;
    for (size_t i = 0; i < ROWS * WIDTH; i += 7)
        floats(x)[i] = ldexpf(floats(x)[i], (int)(i % 40) - 20);
    const struct kvc_int16_rows y = quantized(x, ROWS, WIDTH);
    for (size_t b = 0; b < ROWS * BLOCKS; b++) {
        const size_t first = b / BLOCKS * WIDTH + b % BLOCKS * 256, end = b % BLOCKS ? first + 96 : first + 256;
        float most = 0.0f;
        for (size_t i = first; i < end; i++)
            most = fmaxf(most, fabsf(floats(x)[i]));
        assert_true(floats(y.scale)[b] == most / 16383.0f);
        for (size_t i = first; i < end; i++) {
            const float product = floats(x)[i] * (16383.0f / most);
            const long got = ((int16_t *)kvc_span_data(y.quant))[i];
            assert_int_equal(got, lrintf(product));
            assert_true(labs(got) <= 16383);
        }
    }
}

/* Every quant is 128 * high + low with digits of one byte. */
static void all_digits(void **state) {
    (void)state;
    for (int q = -16383; q <= 16383; q++) {
        const int high = kvc_int16_high(q), low = kvc_int16_low(q);
        assert_int_equal(128 * high + low, q);
        assert_true(high >= -128 && high <= 127 && low >= 0 && low <= 127);
    }
}

/* A block of which all but one value are equal; then its scale, that value's quant and the first quant. */
static void special_values(void **state) {
    static const struct {
        float others, value, scale;
        int quant, first;
    } cases[] = {{1.0f, NAN, NAN, 0, 0},
                 {1.0f, INFINITY, NAN, 0, 0},
                 {1.0f, -INFINITY, NAN, 0, 0},
                 {0.0f, 0.0f, 0.0f, 0, 0},
                 {-0.0f, 0.0f, 0.0f, 0, 0},
                 {0x1p-149f, 0x1.fffffep-113f, 0.0f, 0, 0},
                 {0x1p-149f, 0x1p-112f, 0x1p-112f / 16383.0f, 16383, 0},
                 {16383.0f, 0.5f, 1.0f, 0, 16383}, /* half rounds to even */
                 {16383.0f, 1.5f, 1.0f, 2, 16383},
                 {16383.0f, -2.5f, 1.0f, -2, 16383},
                 {-16383.0f, 16382.5f, 1.0f, 16382, -16383},
                 {0x1.fffffep127f, 0x1p126f, 0x1.fffffep127f / 16383.0f, 4096, 16383}};
    (void)state;
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof *cases); i++) {
        const size_t K = i % 2 ? 512 : 288; /* the block is whole or short */
        float x[512];
        for (size_t k = 0; k < K; k++)
            x[k] = k < 256 ? 3.0f : cases[i / 2].others;
        x[K - 14] = cases[i / 2].value;
        const struct kvc_int16_rows y = quantized(holding(x, sizeof x), 1, (uint32_t)K);
        const int16_t *quant = kvc_span_data(y.quant);
        const float scale = floats(y.scale)[1];
        if (isnan(cases[i / 2].scale) ? !isnan(scale) : scale != cases[i / 2].scale)
            fail_msg("case %zu: scale %a", i / 2, (double)scale);
        assert_int_equal(quant[K - 14], cases[i / 2].quant);
        assert_int_equal(quant[256], cases[i / 2].first);
        assert_int_equal(quant[0], 16383); /* the other block is unaffected */
    }
}

/* ---- an output computed the slow way ---- */

static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_BF16, KVC_FP8};
enum { TYPES = sizeof types / sizeof *types };

/* Returns N rows of random weights. The caller frees them. */
static unsigned char *weights(enum kvc_type type, size_t N, size_t K) {
    unsigned char *w = calloc(N, kvc_type_row_bytes(type, K)), *to = w;
    assert_non_null(w);
    for (size_t i = 0; i < N * K; i++) {
        const float x = ((float)draw(20001) - 10000.0f) * (i % 37 == 0 ? 3e-3f : 3e-5f);
        const uint16_t half = kvc_f32_to_f16(x), brain = kvc_f32_to_bf16(x);
        if (type == KVC_F32)
            memcpy(w + 4 * i, &x, 4);
        else if (type != KVC_FP8)
            memcpy(w + 2 * i, type == KVC_F16 ? &half : &brain, 2);
        else if (i % 128 == 0) { /* a block's scale precedes its numbers */
            const float scale = 1e-3f * (float)(1 + draw(9));
            memcpy(to, &scale, 4);
            to += 4;
        }
        if (type == KVC_FP8)
            *to++ = (unsigned char)(draw(2) * 128 + draw(127)); /* no NaN */
    }
    return w;
}

/* Quantizes a block of n weights. Returns the scale. */
static float slow_block(const float *w, long *quant, size_t n) {
    float most = 0.0f;
    for (size_t i = 0; i < n; i++)
        most = fmaxf(most, fabsf(w[i]));
    for (size_t i = 0; i < n; i++)
        quant[i] = most > 0.0f ? lrintf(w[i] * (16383.0f / most)) : 0;
    return most / 16383.0f;
}

/* Multiplies the digits, each product on its own, and combines the three sums. */
static int64_t slow_product(const long *w, const int16_t *x, size_t n) {
    int64_t high = 0, mixed = 0, low = 0;
    for (size_t i = n; i-- > 0;) {
        const int wh = kvc_int16_high((int)w[i]), wl = kvc_int16_low((int)w[i]);
        const int xh = kvc_int16_high(x[i]), xl = kvc_int16_low(x[i]);
        high += wh * xh;
        mixed += wh * xl + wl * xh;
        low += wl * xl;
    }
    return 16384 * high + 128 * mixed + low;
}

static float slow(const float *w, const int16_t *x, const float *scale, size_t K) {
    float sum = 0.0f;
    for (size_t k = 0; k < K; k += 256) {
        const size_t n = K - k < 256 ? K - k : 256;
        long quant[256];
        const float step = slow_block(w + k, quant, n) * *scale++;
        sum = fmaf(step, (float)slow_product(quant, x + k, n), sum);
    }
    return sum;
}

static void one_type(enum kvc_type type, uint32_t rows, uint32_t N, uint32_t K) {
    unsigned char *w = weights(type, N, K);
    float *dequantized = malloc(K * sizeof *dequantized);
    struct kvc_weight *weight;
    const struct kvc_span from = values((size_t)rows * K), bias = values(N), y = buffer((size_t)rows * N * 4);
    const struct kvc_int16_rows x = quantized(from, rows, K);
    assert_non_null(dequantized);
    assert_int_equal(OPS->weight_create(device, type, N, K, w, &weight, NULL), KVC_OK);
    OPS->linear_int16(device, &(struct kvc_linear_int16){.y = y, .x = x, .w = weight, .bias = bias, .rows = rows});
    for (size_t n = 0; n < N; n++) {
        kvc_ref_dequantize(type, w + n * kvc_type_row_bytes(type, K), 0, K, dequantized);
        for (size_t i = 0; i < rows; i++) {
            const int16_t *quant = (const int16_t *)kvc_span_data(x.quant) + i * K;
            const float got = floats(y)[i * N + n];
            const float expected =
                slow(dequantized, quant, floats(x.scale) + i * kvc_int16_blocks(K), K) + floats(bias)[n];
            double sum = (double)floats(bias)[n], most = 0.0;
            if (kvc_bits(got) != kvc_bits(expected))
                fail_msg("%s: y[%zu, %zu] is %a, the slow way %a", kvc_type_name(type), i, n, (double)got,
                         (double)expected);
            for (size_t k = 0; k < K; k++) { /* of the numbers before they were quantized */
                sum += (double)dequantized[k] * (double)floats(from)[i * K + k];
                most = fmax(most, fabs((double)dequantized[k]) * 4.0);
            }
            if (!(fabs(sum - (double)got) <= 1e-4 * most * sqrt((double)K) + 1e-6))
                fail_msg("%s: y[%zu, %zu] is %.9g, in float %.9g", kvc_type_name(type), i, n, (double)got, sum);
        }
    }
    OPS->weight_free(device, weight);
    free(dequantized);
    free(w);
}

static void all_types(void **state) {
    (void)state;
    for (size_t t = 0; t < TYPES; t++) {
        one_type(types[t], 3, 5, 256);
        one_type(types[t], 1, 9, 2560);
        one_type(types[t], 2, 3, 128 * 3);
        if (types[t] != KVC_FP8) {
            one_type(types[t], 2, 3, 32);
            one_type(types[t], 2, 3, 288);
            one_type(types[t], 1, 4, 32 * 11);
        }
    }
}

/* ---- every path of this machine against the reference ---- */

#define PATH_NAME(NAME, name, build) #name,
static const char *const paths[] = {KVC_CPU_PATHS(PATH_NAME)};

/* The largest sums: all weights and all quants have the same magnitude, with equal or with different signs. */
static void largest_rows(struct kvc_device *other, uint32_t rows, float sign) {
    enum { K = 544, N = 37 };
    const struct kvc_int16_rows x = rows_of(rows, K);
    const struct kvc_span none = {NULL, 0}, y[2] = {buffer((size_t)rows * N * 4), buffer((size_t)rows * N * 4)};
    float w[N * K];
    for (size_t i = 0; i < N * K; i++)
        w[i] = i / K % 2 && i % 2 ? 1.0f : sign;
    for (size_t i = 0; i < (size_t)rows * K; i++)
        ((int16_t *)kvc_span_data(x.quant))[i] = i / K % 3 == 0 || (i / K % 3 == 1 && i / 2 % 2) ? 16383 : -16383;
    for (size_t i = 0; i < rows * kvc_int16_blocks(K); i++)
        floats(x.scale)[i] = 0.5f;
    for (int side = 0; side < 2; side++) {
        struct kvc_device *d = side ? other : device;
        struct kvc_weight *weight;
        assert_int_equal(d->ops->weight_create(d, KVC_F32, N, K, w, &weight, NULL), KVC_OK);
        d->ops->linear_int16(d,
                             &(struct kvc_linear_int16){.y = y[side], .x = x, .w = weight, .bias = none, .rows = rows});
        d->ops->weight_free(d, weight);
    }
    for (size_t i = 0; i < (size_t)rows * N; i++)
        if (kvc_bits(floats(y[0])[i]) != kvc_bits(floats(y[1])[i]))
            fail_msg("%s, %u rows, sign %g: y[%zu] is %a, the reference's %a", other->name, (unsigned)rows,
                     (double)sign, i, (double)floats(y[1])[i], (double)floats(y[0])[i]);
    assert_true(fabsf(floats(y[0])[0]) > 0.499f * K * 16383.0f); /* a sum of the largest magnitude */
    end_test(NULL);
}

static void largest(void **state) {
    static const uint32_t rows[] = {1, 3, 15, 47};
    (void)state;
    for (size_t p = 1; p < sizeof paths / sizeof *paths; p++) {
        struct kvc_device *other;
        struct kvc_error error;
        if (kvc_backend_cpu.open(paths[p], 0, 1, KVC_MATH_FLOAT, &other, &error) != KVC_OK)
            continue;
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
            largest_rows(other, rows[r], 1.0f);
            largest_rows(other, rows[r], -1.0f);
        }
        other->ops->close(other);
    }
}

/* Infinite and NaN activations or weights affect the outputs of their row or column, and no others. */
static void hostile_values(void **state) {
    enum { K = 320, N = 9, ROWS = 7 };
    (void)state;
    for (size_t p = 0; p < sizeof paths / sizeof *paths; p++) {
        struct kvc_device *other;
        struct kvc_error error;
        struct kvc_weight *weight;
        if (kvc_backend_cpu.open(paths[p], 0, 1, KVC_MATH_FLOAT, &other, &error) != KVC_OK)
            continue;
        for (uint32_t rows = 1; rows <= ROWS; rows += ROWS - 1) {
            const struct kvc_span x = values(ROWS * K), y = buffer(ROWS * N * 4), none = {NULL, 0};
            const struct kvc_int16_rows q = rows_of(ROWS, K);
            float *w = (float *)(void *)weights(KVC_F32, N, K);
            floats(x)[(size_t)(rows - 1) * K + 70] = NAN;
            w[4 * K + 300] = -INFINITY;
            other->ops->quantize_rows_int16(other,
                                            &(struct kvc_quantize_rows_int16){.y = q, .x = x, .rows = rows, .K = K});
            assert_int_equal(other->ops->weight_create(other, KVC_F32, N, K, w, &weight, NULL), KVC_OK);
            other->ops->linear_int16(
                other, &(struct kvc_linear_int16){.y = y, .x = q, .w = weight, .bias = none, .rows = rows});
            for (size_t i = 0; i < rows; i++)
                for (size_t n = 0; n < N; n++)
                    assert_int_equal(!isfinite(floats(y)[i * N + n]), i == rows - 1 || n == 4);
            other->ops->weight_free(other, weight);
            free(w);
        }
        other->ops->close(other);
    }
}

static int note_row(void *user, const struct kvc_verify_row *row) {
    unsigned *rows = user;
    ++*rows;
    if (row->differing)
        print_error("%s: %s\n", row->name, row->first);
    return 0;
}

static void every_path(void **state) {
    static const char *const operations[] = {"quantize_rows_int16", "linear_int16", "expert_linear_int16"};
    (void)state;
    for (size_t p = 0; p < sizeof paths / sizeof *paths; p++)
        for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
            for (int threads = 1; threads <= 3; threads += 2) {
                struct kvc_error error = {KVC_OK, ""};
                unsigned rows = 0;
                const enum kvc_status status = kvc_test_verify(paths[p], threads, kvc_test_thinned() ? 0 : 3,
                                                               operations[i], note_row, &rows, &error);
                if (status == KVC_RESOURCE) /* not in this build, or not on this machine */
                    continue;
                if (status != KVC_OK)
                    fail_msg("%s, %d threads, %s: %s", paths[p], threads, operations[i], error.text);
                assert_int_equal(rows, 1);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(quants, end_test),         cmocka_unit_test_teardown(all_digits, end_test),
        cmocka_unit_test_teardown(special_values, end_test), cmocka_unit_test_teardown(all_types, end_test),
        cmocka_unit_test_teardown(largest, end_test),        cmocka_unit_test_teardown(hostile_values, end_test),
        cmocka_unit_test_teardown(every_path, end_test),
    };
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
