/* test_int8.c - linear layers with int8 activations. The reference is compared with slow, different code (64-bit
 * integers lane by lane, and double precision on dequantized weights) and tested with special values; every CPU
 * instruction set is compared with the reference. */
#include <stdio.h>

#include "backends/cpu/ref/ref.h"
#include "core/base/cpu_paths.h"
#include "core/base/backends.h"
#include "core/base/weight_blocks.h"
#include "core/check/verify.h"
#include "tests/backends/random_weights.h"
#include "tests/check.h"
#include "tests/verify_some.h"

extern const struct kvc_backend_class kvc_backend_cpu;

static struct kvc_int8_rows rows_of(size_t rows, size_t K) {
    return (struct kvc_int8_rows){
        .quant = buffer(rows * K), .scale = buffer(rows * K / 32 * 4), .sum = buffer(rows * K / 16 * 4)};
}

static struct kvc_int8_rows quantized(struct kvc_span x, uint32_t rows, uint32_t K) {
    const struct kvc_int8_rows y = rows_of(rows, K);
    OPS->quantize_rows(device, &(struct kvc_quantize_rows){.y = y, .x = x, .rows = rows, .K = K});
    return y;
}

static void quants(void **state) {
    enum { ROWS = 50, WIDTH = 96 };
    const struct kvc_span x = values(ROWS * WIDTH);
    (void)state;
    for (size_t i = 0; i < ROWS * WIDTH; i += 7)
        floats(x)[i] = ldexpf(floats(x)[i], (int)(i % 40) - 20);
    const struct kvc_int8_rows y = quantized(x, ROWS, WIDTH);
    for (size_t b = 0; b < ROWS * WIDTH / 32; b++) {
        float most = 0.0f;
        long sum[2] = {0, 0};
        for (size_t i = b * 32; i < b * 32 + 32; i++)
            most = fmaxf(most, fabsf(floats(x)[i]));
        assert_true(floats(y.scale)[b] == most / 127.0f);
        for (size_t i = 0; i < 32; i++) {
            const float product = floats(x)[b * 32 + i] * (127.0f / most);
            const long expected = lrintf(product), got = ((int8_t *)kvc_span_data(y.quant))[b * 32 + i];
            assert_int_equal(got, expected);
            assert_true(labs(got) <= 127);
            sum[i / 16] += expected;
        }
        for (size_t i = 0; i < 2; i++)
            assert_int_equal(((int32_t *)kvc_span_data(y.sum))[b * 2 + i], sum[i]);
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
                 {0x1p-149f, 0x1.fffffep-120f, 0.0f, 0, 0},
                 {0x1p-149f, 0x1p-119f, 0x1p-119f / 127.0f, 127, 0},
                 {127.0f, 0.5f, 1.0f, 0, 127}, /* half rounds to even */
                 {127.0f, 1.5f, 1.0f, 2, 127},
                 {127.0f, -2.5f, 1.0f, -2, 127},
                 {-127.0f, 126.5f, 1.0f, 126, -127},
                 {0x1.fffffep127f, 0x1p126f, 0x1.fffffep127f / 127.0f, 32, 127}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float x[64];
        for (size_t k = 0; k < 64; k++)
            x[k] = k < 32 ? 3.0f : cases[i].others;
        x[50] = cases[i].value;
        const struct kvc_int8_rows y = quantized(holding(x, sizeof x), 1, 64);
        const float scale = floats(y.scale)[1];
        if (isnan(cases[i].scale) ? !isnan(scale) : scale != cases[i].scale)
            fail_msg("case %zu: scale %a", i, (double)scale);
        assert_int_equal(((int8_t *)kvc_span_data(y.quant))[50], cases[i].quant);
        assert_int_equal(((int8_t *)kvc_span_data(y.quant))[32], cases[i].first);
        assert_int_equal(((int8_t *)kvc_span_data(y.quant))[0], 127); /* the other block is unaffected */
    }
}

/* Computes one output the slow way, lane by lane. */
#define SLOW(a, NAME, name, gguf, elements, ...)                                                                       \
    static float slow_##name(const unsigned char *row, const int8_t *x, const float *scale, size_t K) {                \
        const struct kvc_block_##name *w = (const struct kvc_block_##name *)row;                                       \
        float lane[8];                                                                                                 \
        for (size_t l = 0; l < 8; l++) {                                                                               \
            lane[l] = 0.0f;                                                                                            \
            for (size_t k = l * 32; k < K; k += k % 32 + KVC_INT8_WIDTH_##NAME == 32                                   \
                                                    ? (size_t)256 - 32 + KVC_INT8_WIDTH_##NAME                         \
                                                    : KVC_INT8_WIDTH_##NAME) {                                         \
                const size_t s = k % (elements) / KVC_INT8_WIDTH_##NAME;                                               \
                const float step = KVC_INT8_SCALE_##NAME(w[k / (elements)], s) * scale[k / 32];                        \
                const float low = KVC_INT8_MIN_##NAME(w[k / (elements)], s);                                           \
                int64_t product = 0, sum = 0;                                                                          \
                for (size_t i = KVC_INT8_WIDTH_##NAME; i-- > 0;) {                                                     \
                    product += (int64_t)KVC_##NAME##_QUANT(w[(k + i) / (elements)], (k + i) % (elements)) * x[k + i];  \
                    sum += x[k + i];                                                                                   \
                }                                                                                                      \
                (void)s;                                                                                               \
                lane[l] = fmaf(step, (float)product, lane[l]);                                                         \
                if (KVC_INT8_HAS_MIN_##NAME)                                                                           \
                    lane[l] = fmaf(-low, (float)sum * scale[k / 32], lane[l]);                                         \
            }                                                                                                          \
        }                                                                                                              \
        return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));              \
    }
KVC_BLOCK_TYPES(SLOW, )

static float slow(enum kvc_type type, const unsigned char *row, const int8_t *x, const float *scale, size_t K) {
    switch (type) {
#define SLOW_CASE(a, NAME, name, ...)                                                                                  \
    case KVC_##NAME:                                                                                                   \
        return slow_##name(row, x, scale, K);
        KVC_BLOCK_TYPES(SLOW_CASE, )
    default:
        return NAN;
    }
}

static void one_type(enum kvc_type type, uint32_t rows, uint32_t N, uint32_t K) {
    unsigned char *w = random_weights(type, N, K);
    float *dequantized = malloc(K * sizeof *dequantized);
    struct kvc_weight *weight;
    struct kvc_span bias = values(N), y = buffer((size_t)rows * N * 4);
    const struct kvc_int8_rows x = quantized(values((size_t)rows * K), rows, K);
    assert_non_null(dequantized);
    assert_int_equal(OPS->weight_create(device, type, N, K, w, &weight, NULL), KVC_OK);
    assert_int_equal(kvc_weight_type(weight), type);
    OPS->linear_int8(device, &(struct kvc_linear_int8){.y = y, .x = x, .w = weight, .bias = bias, .rows = rows});
    for (size_t n = 0; n < N; n++) {
        const unsigned char *row = w + n * kvc_type_row_bytes(type, K);
        kvc_ref_dequantize(type, row, 0, K, dequantized);
        for (size_t i = 0; i < rows; i++) {
            const int8_t *quant = (const int8_t *)kvc_span_data(x.quant) + i * K;
            const float *scale = floats(x.scale) + i * (K / 32), got = floats(y)[i * N + n];
            const float expected = slow(type, row, quant, scale, K) + floats(bias)[n];
            double sum = (double)floats(bias)[n], magnitude = 1.0;
            if (kvc_bits(got) != kvc_bits(expected))
                fail_msg("%s: y[%zu, %zu] is %a, the slow way %a", kvc_type_name(type), i, n, (double)got,
                         (double)expected);
            for (size_t k = 0; k < K; k++) {
                sum += (double)dequantized[k] * (double)scale[k / 32] * quant[k];
                magnitude += fabs((double)dequantized[k] * (double)scale[k / 32] * quant[k]);
            }
            /* A type with minimums adds a separate term for each, so terms much larger than the sum may cancel. */
            if (!(fabs(sum - (double)got) <= 4e-6 * magnitude))
                fail_msg("%s: y[%zu, %zu] is %.9g, widened %.9g", kvc_type_name(type), i, n, (double)got, sum);
        }
    }
    OPS->weight_free(device, weight);
    free(dequantized);
    free(w);
}

static void all_types(void **state) {
    (void)state;
    for (int type = KVC_Q8_0; type < KVC_TYPES; type++) {
        one_type((enum kvc_type)type, 3, 5, 256);
        one_type((enum kvc_type)type, 1, 9, 2560);
        if (kvc_type_block((enum kvc_type)type).elements == 32) {
            one_type((enum kvc_type)type, 2, 3, 32);
            one_type((enum kvc_type)type, 1, 4, 32 * 11);
        }
    }
}

/* Infinite and NaN activations affect every output of their row, and of no other row. */
static void hostile_rows(void **state) {
    enum { K = 256, N = 3 };
    unsigned char *w = random_weights(KVC_Q4_K, N, K);
    struct kvc_weight *weight;
    const struct kvc_span x = values(2 * K), y = buffer(2 * N * 4), none = {NULL, 0};
    (void)state;
    floats(x)[70] = INFINITY;
    assert_int_equal(OPS->weight_create(device, KVC_Q4_K, N, K, w, &weight, NULL), KVC_OK);
    OPS->linear_int8(device,
                     &(struct kvc_linear_int8){.y = y, .x = quantized(x, 2, K), .w = weight, .bias = none, .rows = 2});
    for (size_t n = 0; n < N; n++) {
        assert_true(isnan(floats(y)[n]));
        assert_true(isfinite(floats(y)[N + n]));
    }
    OPS->weight_free(device, weight);
    free(w);
}

/* ---- every path of this machine against the reference ---- */

#define PATH_NAME(NAME, name, build) #name,
static const char *const paths[] = {KVC_CPU_PATHS(PATH_NAME)};

/* Valgrind computes -(a * b) + c as -(a * b - c), which changes the sign of a zero. */
static bool zeros_differ(void) { return getenv("KVCULL_VALGRIND") != NULL; }

/* The largest possible sums, where paths add in 16 bits: weights of equal bytes, and rows of 127, -127 or both. */
static void largest_rows(struct kvc_device *other, enum kvc_type type, unsigned char byte, uint32_t rows) {
    enum { K = 288, N = 21 };
    const uint32_t width = kvc_type_block(type).elements == 32 ? K : 256;
    unsigned char *w = random_weights(type, N, width);
    const struct kvc_type_block of = kvc_type_block(type);
    const struct kvc_int8_rows x = rows_of(rows, width);
    const struct kvc_span none = {NULL, 0}, y[2] = {buffer((size_t)rows * N * 4), buffer((size_t)rows * N * 4)};
    int8_t *quant = kvc_span_data(x.quant);
    int32_t *sum = kvc_span_data(x.sum);
    for (size_t i = 0; i < N * kvc_type_row_bytes(type, width); i++)
        if (i % of.bytes < of.scale || i % of.bytes >= of.scale + of.scales * of.wide)
            w[i] = byte;
    memset(sum, 0, (size_t)rows * width / 16 * sizeof *sum);
    for (size_t i = 0; i < (size_t)rows * width; i++) {
        const size_t row = i / width;
        quant[i] = row % 3 == 0 || (row % 3 == 1 && i / 2 % 2) ? 127 : -127;
        sum[i / 16] += quant[i];
        floats(x.scale)[i / 32] = 0.5f;
    }
    for (int side = 0; side < 2; side++) {
        struct kvc_device *d = side ? other : device;
        struct kvc_weight *weight;
        assert_int_equal(d->ops->weight_create(d, type, N, width, w, &weight, NULL), KVC_OK);
        d->ops->linear_int8(d,
                            &(struct kvc_linear_int8){.y = y[side], .x = x, .w = weight, .bias = none, .rows = rows});
        d->ops->weight_free(d, weight);
    }
    for (size_t i = 0; i < (size_t)rows * N; i++)
        if (kvc_bits(floats(y[0])[i]) != kvc_bits(floats(y[1])[i]) &&
            !(zeros_differ() && floats(y[0])[i] == 0 && floats(y[1])[i] == 0))
            fail_msg("%s, %s, bytes %02x, %u rows: y[%zu] is %a, the reference's %a", other->name, kvc_type_name(type),
                     (unsigned)byte, (unsigned)rows, i, (double)floats(y[1])[i], (double)floats(y[0])[i]);
    free(w);
    end_test(NULL); /* at most 512 buffers exist at a time */
}

static void largest(void **state) {
    static const unsigned char bytes[] = {0x00, 0xff, 0x80, 0x7f, 0x0f, 0xf0, 0x88};
    static const uint32_t rows[] = {3, 15, 47};
    (void)state;
    for (size_t p = 1; p < sizeof paths / sizeof *paths; p++) {
        struct kvc_device *other;
        struct kvc_error error;
        if (kvc_backend_cpu.open(paths[p], 0, 1, KVC_MATH_FLOAT, &other, &error) != KVC_OK)
            continue;
        for (int type = KVC_Q8_0; type < KVC_TYPES; type++)
            for (size_t i = 0; i < sizeof bytes; i++)
                for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
                    largest_rows(other, (enum kvc_type)type, bytes[i], rows[r]);
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
    static const char *const operations[] = {"quantize_rows", "linear_int8", "expert_linear_int8"};
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
                if (status != KVC_OK && !(status == KVC_DIFFERS && zeros_differ()))
                    fail_msg("%s, %d threads, %s: %s", paths[p], threads, operations[i], error.text);
                assert_int_equal(rows, 1);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(quants, end_test),    cmocka_unit_test_teardown(special_values, end_test),
        cmocka_unit_test_teardown(all_types, end_test), cmocka_unit_test_teardown(hostile_rows, end_test),
        cmocka_unit_test_teardown(largest, end_test),   cmocka_unit_test_teardown(every_path, end_test),
    };
    return cmocka_run_group_tests(tests, open_ref, close_ref);
}
