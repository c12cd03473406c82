/* test_linear.c - linear layers of every CPU instruction set are bit-identical to the reference: every weight type, the
 * edge cases of every kernel shape, one thread and several, hostile values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backends/cpu/cpu.h"
#include "core/engine/engine.h"
#include "core/base/types.h"
#include "tests/check.h"

extern const struct kvc_backend_class kvc_backend_cpu, kvc_backend_ref;

enum mood { PLAIN, CANCELLING, TINY, SIGNED_ZEROS, WILD, MOODS, UNDERFLOWING };

static uint64_t state = 0x9e3779b97f4a7c15u;
static uint32_t chance(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 24);
}
static float plain(void) { return (float)(int32_t)chance() * 0x1p-31f; }

static float value(enum mood mood, size_t i) {
    float x = plain();
    switch (mood) {
    case CANCELLING: /* Large values, which appear again with the opposite sign 32 elements later. */
        return (i / 32 % 2 ? -1.0f : 1.0f) * (0x1p40f + (float)(i % 32) * 0x1p20f) +
               (chance() % 4 ? 0.0f : x * 0x1p30f);
    case TINY:
        return x * (chance() % 2 ? 0x1p-126f : 0x1p-70f);
    case UNDERFLOWING:
        return 0x1p-100f;
    case SIGNED_ZEROS:
        return chance() % 3 == 0 ? -0.0f : chance() % 2 ? 0.0f : x * 0x1p-149f;
    case WILD:
        switch (chance() % 64) {
        case 0:
            return INFINITY;
        case 1:
            return -INFINITY;
        case 2:
            return NAN;
        case 3:
            return 0x1.fffffep127f;
        default:
            return x;
        }
    default:
        return x;
    }
}

/* Writes a half-precision number: any bits for WILD, else a moderate scale. */
static void put_half(unsigned char *to, enum mood mood) {
    uint16_t h = (uint16_t)chance();
    if (mood == TINY)
        h &= 0x83ff; /* a denormal scale */
    else if (mood != WILD)
        h = (uint16_t)((h & 0x83ff) | 0x2c00);
    memcpy(to, &h, sizeof h);
}

/* Writes a block's scale; for WILD its numbers are not NaN. */
static void put_fp8(unsigned char *block, float scale, enum mood mood) {
    memcpy(block, &scale, sizeof scale);
    for (int e = 0; mood != WILD && e < 128; e++)
        if ((block[4 + e] & 127) == 127)
            block[4 + e] = 0;
}

static void fill_weights(unsigned char *w, enum kvc_type type, size_t rows, size_t K, enum mood mood) {
    const struct kvc_type_block of = kvc_type_block(type);
    size_t bytes = rows * kvc_type_row_bytes(type, K), block = of.bytes;
    for (size_t i = 0; i < bytes; i++)
        w[i] = (unsigned char)chance();
    for (size_t i = 0; i + block <= bytes; i += block) {
        float x = value(mood == CANCELLING ? PLAIN : mood, i / block);
        uint16_t h;
        if (mood == UNDERFLOWING)
            x = -x;
        switch (type) {
        case KVC_F32:
            memcpy(w + i, &x, sizeof x);
            break;
        case KVC_F16:
            h = mood == TINY ? (uint16_t)(chance() & 0x83ff) : kvc_f32_to_f16(x);
            memcpy(w + i, &h, sizeof h);
            break;
        case KVC_BF16:
            h = kvc_f32_to_bf16(x);
            memcpy(w + i, &h, sizeof h);
            break;
        default: /* the last scale first */
            for (size_t scale = of.scales; scale-- > 0;) {
                if (of.wide == 4) /* a value like those of x, and numbers that are not NaN */
                    put_fp8(w + i, x, mood);
                else if (of.wide == 2)
                    put_half(w + i + of.scale + 2 * scale, mood);
                else if (mood != WILD) /* a power of two */
                    w[i + of.scale + scale] = (unsigned char)((mood == TINY ? 0 : 120) + chance() % 8);
            }
            break;
        }
    }
}

struct device {
    struct kvc_device *device;
    const struct kvc_ops *ops;
};

static struct device open_device(const char *path, int threads) {
    struct device d = {NULL, NULL};
    struct kvc_error error = {KVC_OK, ""};
    const struct kvc_backend_class *backend = path ? &kvc_backend_cpu : &kvc_backend_ref;
    if (backend->open(path, 0, threads, KVC_MATH_EXACT, &d.device, &error) == KVC_OK)
        d.ops = d.device->ops;
    return d;
}

static struct kvc_span buffer(struct device d, const void *data, size_t bytes) {
    struct kvc_span span = {NULL, 0};
    struct kvc_error error;
    if (d.ops->buffer_create(d.device, KVC_MEMORY_SCRATCH, bytes, &span.buffer, &error) != KVC_OK)
        fail_msg("%s", error.text);
    if (data)
        d.ops->upload(d.device, span, data, bytes);
    return span;
}

/* Computes y on one device. Values that must not be written hold a pattern, including one after the end. */
static void run(struct device d, float *y, const float *x, enum kvc_type type, const unsigned char *w, size_t N,
                size_t K, const float *bias, size_t rows) {
    struct kvc_error error;
    struct kvc_weight *weight;
    struct kvc_span x_span = buffer(d, x, rows * K * sizeof *x), y_span, bias_span = {NULL, 0};
    size_t bytes = (rows * N + 1) * sizeof *y;
    memset(y, 0x5a, bytes);
    y_span = buffer(d, y, bytes);
    if (bias)
        bias_span = buffer(d, bias, N * sizeof *bias);
    if (d.ops->weight_create(d.device, type, N, K, w, &weight, &error) != KVC_OK)
        fail_msg("%s", error.text);
    d.ops->linear(d.device, &(struct kvc_linear){
                                .y = y_span, .x = x_span, .w = weight, .bias = bias_span, .rows = (uint32_t)rows});
    if (d.ops->sync(d.device, &error) != KVC_OK)
        fail_msg("%s", error.text);
    d.ops->download(d.device, y, y_span, bytes);
    d.ops->weight_free(d.device, weight);
    d.ops->buffer_free(d.device, x_span.buffer);
    d.ops->buffer_free(d.device, y_span.buffer);
    d.ops->buffer_free(d.device, bias_span.buffer);
}

static void compare(struct device ref, struct device *paths, const char *const *names, size_t count, enum kvc_type type,
                    size_t rows, size_t N, size_t K, enum mood mood, bool with_bias) {
    size_t row_bytes = kvc_type_row_bytes(type, K), values = rows * N + 1;
    float *x = malloc(rows * K * sizeof *x), *bias = malloc(N * sizeof *bias);
    float *want = malloc(values * sizeof *want), *got = malloc(values * sizeof *got);
    unsigned char *w = malloc(N * row_bytes);
    assert_true(x && bias && want && got && w);
    fill_weights(w, type, N, K, mood);
    for (size_t i = 0; i < rows * K; i++)
        x[i] = value(mood, i % K);
    for (size_t i = 0; i < N; i++)
        bias[i] = mood == SIGNED_ZEROS ? -0.0f : plain();
    run(ref, want, x, type, w, N, K, with_bias ? bias : NULL, rows);
    for (size_t p = 0; p < count; p++) {
        if (!paths[p].device)
            continue;
        run(paths[p], got, x, type, w, N, K, with_bias ? bias : NULL, rows);
        for (size_t i = 0; i < values; i++)
            if (kvc_hash_bits(got[i]) != kvc_hash_bits(want[i]))
                fail_msg("%s, %s, rows %zu, N %zu, K %zu, mood %d, bias %d: [%zu, %zu] is %.9g (%08x), not %.9g (%08x)",
                         names[p], kvc_type_name(type), rows, N, K, (int)mood, with_bias, i / N, i % N, (double)got[i],
                         kvc_bits(got[i]), (double)want[i], kvc_bits(want[i]));
    }
    free(x);
    free(bias);
    free(want);
    free(got);
    free(w);
}

static const struct {
    const char *path;
    int threads;
} kinds[] = {{"avx2", 1}, {"avx2", 2}, {"avx512", 1}, {"avx512", 3}, {"neon", 1}, {"neon", 2}};
#define KINDS (sizeof kinds / sizeof kinds[0])

struct fixture {
    struct device ref, paths[KINDS];
    const char *names[KINDS];
};

static int set_up(void **given) {
    struct fixture *f = calloc(1, sizeof *f);
    if (!f)
        return -1;
    f->ref = open_device(NULL, 1);
    for (size_t i = 0; i < KINDS; i++) {
        f->names[i] = kinds[i].path;
        f->paths[i] = open_device(kinds[i].path, kinds[i].threads);
        if (f->paths[i].device)
            print_message("compared with ref: %s\n", f->paths[i].device->name);
    }
    *given = f;
    return f->ref.device ? 0 : -1;
}

static int tear_down(void **given) {
    struct fixture *f = *given;
    for (size_t i = 0; i < KINDS; i++)
        if (f->paths[i].device)
            f->paths[i].ops->close(f->paths[i].device);
    f->ref.ops->close(f->ref.device);
    free(f);
    return 0;
}

/* Every type, with inner sizes around every boundary and with random shapes. */
static void test_sizes(void **given) {
    static const size_t inner[] = {1,  2,   3,   5,   8,   16,  17,  31,   32,   33,   40,   63,   64,   96,
                                   97, 172, 255, 256, 257, 512, 992, 1000, 1024, 1025, 1280, 2048, 4999, 5000};
    static const size_t many[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  11, 12, 13,
                                  15, 16, 17, 18, 23, 24, 25, 29, 36, 47, 64, 70};
    static const size_t outputs[] = {1, 2, 3, 5, 7, 8, 13, 15, 16, 17, 31, 32, 33, 37, 64, 65};
    struct fixture *f = *given;
    for (int type = 0; type < KVC_ALL_TYPES; type++)
        for (size_t k = 0; k < sizeof inner / sizeof inner[0]; k++) {
            size_t K = inner[k];
            if (kvc_type_row_bytes((enum kvc_type)type, K) == 0)
                continue;
            for (int i = 0; i < (kvc_test_thinned() ? 2 : 12); i++) {
                size_t rows = i == 0 ? 1 : many[chance() % (K > 2000 ? 18 : 24)], N = outputs[chance() % 16];
                compare(f->ref, f->paths, f->names, KINDS, (enum kvc_type)type, rows, N, K,
                        (enum mood)(chance() % MOODS), chance() % 2);
            }
        }
}

/* Every number of rows once, so that every height of a tile and every remainder of a block of rows occurs. */
static void test_rows(void **given) {
    struct fixture *f = *given;
    for (size_t rows = 1; rows <= 70; rows++)
        compare(f->ref, f->paths, f->names, KINDS, rows % 2 ? KVC_F32 : KVC_F16, rows, 35, 172, PLAIN, rows % 3 == 0);
}

/* More rows than one panel takes, and rows so long that their lanes are visited in several rounds. */
static void test_blocks(void **given) {
    struct fixture *f = *given;
    compare(f->ref, f->paths, f->names, KINDS, KVC_F32, 613, 33, 40, PLAIN, true);
    compare(f->ref, f->paths, f->names, KINDS, KVC_F32, 613, 5, 1700, CANCELLING, true);
    compare(f->ref, f->paths, f->names, KINDS, KVC_Q8_0, 37, 33, 14336, PLAIN, false);
    compare(f->ref, f->paths, f->names, KINDS, KVC_BF16, 26, 17, 30001, PLAIN, true);
    compare(f->ref, f->paths, f->names, KINDS, KVC_Q4_K, 26, 17, 50176, PLAIN, true);
}

/* Products of positive x and negative w that underflow leave -0 in the lanes, and so in their sum. The padding of a row
 * must not make it +0. */
static void test_negative_zero(void **given) {
    static const size_t shapes[][2] = {{1, 40}, {1, 300}, {5, 63}, {16, 1000}, {40, 33}, {41, 95}, {40, 5001}};
    struct fixture *f = *given;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        compare(f->ref, f->paths, f->names, KINDS, KVC_F32, shapes[i][0], 19, shapes[i][1], UNDERFLOWING, false);
        compare(f->ref, f->paths, f->names, KINDS, KVC_BF16, shapes[i][0], 19, shapes[i][1], UNDERFLOWING, false);
    }
}

/* The comparison detects a different order of additions, because the sums then differ. */
static void test_order_matters(void **given) {
    struct fixture *f = *given;
    enum { K = 1000 };
    float x[K], w[K], turned_x[K], turned_w[K], y[2], z[2];
    for (size_t i = 0; i < K; i++) {
        x[i] = value(PLAIN, i);
        w[i] = value(PLAIN, i);
    }
    for (size_t i = 0; i < K; i++) {
        turned_x[i] = x[(i + 7) % K];
        turned_w[i] = w[(i + 7) % K];
    }
    run(f->ref, y, x, KVC_F32, (const unsigned char *)w, 1, K, NULL, 1);
    run(f->ref, z, turned_x, KVC_F32, (const unsigned char *)turned_w, 1, K, NULL, 1);
    assert_true(fabsf(y[0] - z[0]) < 1e-3f);
    assert_int_not_equal(kvc_bits(y[0]), kvc_bits(z[0]));
}

/* --math=fast: the device's name shows it, results are close, and a single row is exact. */
static void test_fast(void **given) {
    enum { N = 70, K = 300, ROWS = 40 };
    struct fixture *f = *given;
    struct device fast = {NULL, NULL};
    struct kvc_error error = {KVC_OK, ""};
    const char *best = "ref";
    static float x[ROWS * K], w[N * K], want[ROWS * N + 1], got[ROWS * N + 1], bias[N];
    for (size_t i = 0; i < KINDS; i++)
        if (f->paths[i].device)
            best = f->names[i];
    if (strcmp(best, "ref") == 0)
        SKIP_BECAUSE("this CPU or build has no instruction set beside ref");
    if (kvc_backend_cpu.open(best, 0, 2, KVC_MATH_FAST, &fast.device, &error) != KVC_OK) {
        assert_non_null(strstr(error.text, "OpenBLAS"));
        print_message("%s\n", error.text);
        skip();
    }
    fast.ops = fast.device->ops;
    assert_non_null(strstr(fast.device->name, "fast"));
    for (size_t i = 0; i < ROWS * K; i++)
        x[i] = plain();
    for (size_t i = 0; i < N * K; i++)
        w[i] = plain();
    for (size_t i = 0; i < N; i++)
        bias[i] = plain();
    run(f->ref, want, x, KVC_F32, (const unsigned char *)w, N, K, bias, ROWS);
    run(fast, got, x, KVC_F32, (const unsigned char *)w, N, K, bias, ROWS);
    for (size_t i = 0; i < ROWS * N; i++)
        assert_true(fabsf(got[i] - want[i]) < 1e-4f);
    run(f->ref, want, x, KVC_F32, (const unsigned char *)w, N, K, bias, 1);
    run(fast, got, x, KVC_F32, (const unsigned char *)w, N, K, bias, 1);
    assert_memory_equal(got, want, N * sizeof *got);
    fast.ops->close(fast.device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_order_matters), cmocka_unit_test(test_sizes),
                                       cmocka_unit_test(test_rows),          cmocka_unit_test(test_negative_zero),
                                       cmocka_unit_test(test_blocks),        cmocka_unit_test(test_fast)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
