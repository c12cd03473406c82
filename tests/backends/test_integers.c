/* test_integers.c - attention over Q8_0 entries as products of integers: compares the kernels of every instruction set
 * with those in plain C, on one tile of arbitrary bytes. kvcull verify compares whole operations with the reference. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/cpu/simd/integers/integers.h"
#include "tests/backends/ref_fixture.h"
#include "tests/check.h"

extern const struct kvc_integer_kernels tiles_integers_plain;

enum { MOST_D = 260, GROUPS = 9, ROW = MOST_D + 2 * GROUPS, QUERIES = INTEGERS_QUERIES, PADDED = 64, APART = 272 };

/* The memory of one set of kernels. */
struct memory {
    _Alignas(64) kvc_i8 keys[GROUPS * 32 * KVC_TILE];
    _Alignas(64) kvc_i8 values[GROUPS * 32 * KVC_TILE];
    _Alignas(64) float scales[3][GROUPS * KVC_TILE];
    _Alignas(64) float unit[INTEGERS_QUERIES * GROUPS];
    _Alignas(64) unsigned char digits[GROUPS * INTEGERS_PADDING * 2 * KVC_TILE];
    _Alignas(64) kvc_i32 sums[2 * INTEGERS_PADDING * KVC_TILE];
    _Alignas(64) float s[QUERIES * KVC_TILE];
    _Alignas(64) float o[QUERIES * APART];
};

/* A tile, its queries, and what each query sees. */
struct tile_case {
    uint32_t d, count;
    struct kvc_integer_entries entries;
    struct seen_range in[QUERIES];
    float scale;
    unsigned char rows[2 * KVC_TILE * ROW];
    const unsigned char *keys[KVC_TILE];
    _Alignas(64) kvc_i8 quant[PADDED * GROUPS * 32];
    float x_scale[PADDED * GROUPS];
    kvc_i32 sum[PADDED * GROUPS];
    _Alignas(64) float p[QUERIES * KVC_TILE];
};

static float some_float(void) { return (float)draw(1000) / 1000.0f; }

/* Writes the scale of a group: mostly ordinary, sometimes zero, a NaN, an infinity, or negative in damaged data. */
static void draw_scale(unsigned char *group, bool damaged) {
    static const kvc_u16 rare[] = {0, KVC_Q8_NAN_SCALE, 1, 0x7bff, 0x7c00, 0xb800, 0x8000, 0xfc00};
    const kvc_u16 half = draw(60) ? kvc_f32_to_f16(some_float()) : rare[draw(damaged ? 8 : 5)];
    group[0] = (unsigned char)(half & 0xff);
    group[1] = (unsigned char)(half >> 8);
}

static void draw_range(struct seen_range *range, uint32_t low, uint32_t high) {
    *range = (struct seen_range){low, high};
    if (draw(3) == 0)
        range->low += draw(high - low + 1);
    if (draw(3) == 0)
        range->high = range->low + draw(high - range->low + 1);
}

/* Rows lie in any order, in memory that ends with the last row. */
static void draw_entries(struct tile_case *c, bool damaged) {
    const size_t row_bytes = c->d + 2 * (size_t)integer_groups(c->d);
    struct seen_range range;
    do
        draw_range(&range, 0, KVC_TILE);
    while (range.low == range.high);
    for (size_t i = 0; i < sizeof c->rows; i++)
        c->rows[i] = (unsigned char)draw(256);
    unsigned char *first = c->rows + sizeof c->rows - 2 * KVC_TILE * row_bytes;
    for (uint32_t e = 0; e < KVC_TILE; e++) {
        unsigned char *key = first + (e ^ 5u) * row_bytes, *value = key + KVC_TILE * row_bytes;
        for (uint32_t g = 0; g < integer_groups(c->d); g++) {
            draw_scale(key + (size_t)g * INTEGERS_BYTES, damaged);
            draw_scale(value + (size_t)g * INTEGERS_BYTES, damaged);
        }
        c->keys[e] = e >= range.low && e < range.high ? key : NULL;
    }
    c->entries =
        (struct kvc_integer_entries){.keys = c->keys, .value_offset = KVC_TILE * row_bytes, .range = range, .d = c->d};
}

static void draw_queries(struct tile_case *c) {
    const uint32_t groups = integer_groups(c->d);
    memset(c->quant, 0, sizeof c->quant);
    memset(c->x_scale, 0, sizeof c->x_scale);
    memset(c->sum, 0, sizeof c->sum);
    for (uint32_t i = 0; i < c->count; i++)
        for (uint32_t n = 0; n < c->d; n++)
            c->quant[i * groups * 32 + n] = (kvc_i8)((int)draw(255) - 127);
    for (uint32_t i = 0; i < c->count * groups; i++) {
        c->x_scale[i] = draw(50) ? some_float() : kvc_nan();
        for (uint32_t n = 0; n < 32; n++)
            c->sum[i] += c->quant[i * 32 + n];
    }
    for (uint32_t i = 0; i < c->count; i++) {
        if (i == 0 || draw(2))
            draw_range(&c->in[i], c->entries.range.low, c->entries.range.high);
        else
            c->in[i] = c->in[i - 1];
        for (uint32_t e = 0; e < KVC_TILE; e++) { /* undefined outside whole groups of 32 entries */
            const bool seen = e >= c->in[i].low && e < c->in[i].high;
            const bool whole = e >= c->in[i].low / 32 * 32 && e < (c->in[i].high + 31) / 32 * 32;
            c->p[i * KVC_TILE + e] = seen ? some_float() * some_float() : whole ? 0.0f : kvc_nan();
        }
        if (c->in[i].low < c->in[i].high)
            c->p[i * KVC_TILE + c->in[i].low] = 1.0f;
    }
}

static void run(const struct kvc_integer_kernels *kernels, const struct tile_case *c, struct memory *m) {
    struct kvc_integer_tile tile = {.keys = m->keys,
                                    .values = m->values,
                                    .key_scale = m->scales[0],
                                    .value_scale = m->scales[1],
                                    .factor = m->scales[2],
                                    .unit = m->unit,
                                    .digits = m->digits,
                                    .sums = m->sums};
    const struct kvc_integer_queries queries = {(kvc_i8 *)(uintptr_t)c->quant, (float *)(uintptr_t)c->x_scale,
                                                (kvc_i32 *)(uintptr_t)c->sum};
    const uint32_t first = c->count / 3; /* in two calls */
    memset(m, 0xa5, sizeof *m);
    kernels->pack_keys(&c->entries, &tile);
    kernels->scores(&tile, &queries, 0, first, c->entries.range, c->scale, m->s);
    kernels->scores(&tile, &queries, first, c->count - first, c->entries.range, c->scale,
                    m->s + (size_t)first * KVC_TILE);
    kernels->pack_values(&c->entries, &tile);
    kernels->values(&tile, c->p, c->in, c->count, m->o, APART);
}

static bool same(float a, float b) { return kvc_bits(a) == kvc_bits(b) || (kvc_is_nan(a) && kvc_is_nan(b)); }

static void compare(const struct tile_case *c, const struct memory *plain, const struct memory *other) {
    for (uint32_t i = 0; i < c->count; i++) {
        for (uint32_t e = c->entries.range.low; e < c->entries.range.high; e++)
            if (!same(plain->s[i * KVC_TILE + e], other->s[i * KVC_TILE + e]))
                fail_msg("d %u: score of query %u and entry %u: %g, in plain C %g", c->d, i, e,
                         (double)other->s[i * KVC_TILE + e], (double)plain->s[i * KVC_TILE + e]);
        for (uint32_t n = 0; c->in[i].low < c->in[i].high && n < c->d; n++)
            if (!same(plain->o[i * APART + n], other->o[i * APART + n]))
                fail_msg("d %u: output %u of query %u, which sees %u to %u: %g, in plain C %g", c->d, n, i,
                         c->in[i].low, c->in[i].high, (double)other->o[i * APART + n], (double)plain->o[i * APART + n]);
    }
}

static void check(const char *name, const struct kvc_integer_kernels *kernels) {
    static const uint32_t sizes[] = {2, 20, 32, 33, 64, 80, 96, 128, 256, MOST_D};
    static struct tile_case c;
    static struct memory plain, other;
    print_message("%s\n", name);
    assert_in_range(kernels->at_once, 1, INTEGERS_QUERIES);
    for (uint32_t i = 0; i < 60; i++) {
        c.d = sizes[i % (sizeof sizes / sizeof *sizes)];
        c.count = draw(4) ? 1 + draw(QUERIES) : 1 + draw(8);
        c.scale = some_float();
        draw_entries(&c, i % 5 == 4);
        draw_queries(&c);
        run(&kvc_integer_plain, &c, &plain);
        run(kernels, &c, &other);
        compare(&c, &plain, &other);
    }
}

static void every_path(void **state) {
    (void)state;
    for (int i = 0; i < KVC_CPU_PATH_COUNT; i++) {
        const struct kvc_integer_kernels *kernels = kvc_cpu_path_integers((enum kvc_cpu_path)i);
        if (kernels && kvc_cpu_path_runs((enum kvc_cpu_path)i))
            check(kvc_cpu_path_name((enum kvc_cpu_path)i), kernels);
    }
}

static void tiles_in_plain_c(void **state) {
    (void)state;
#if defined(KVC_X86_SIMD)
    if (!kvc_cpu_path_runs(KVC_CPU_AVX512))
        SKIP_BECAUSE("the vectors of the path amx need AVX-512");
    check("amx, its tiles in plain C", &tiles_integers_plain);
#else
    SKIP_BECAUSE("the path amx is one of x86");
#endif
}

/* The plain kernels against sums in double of a tile with one query. */
static void plain_kernels(void **state) {
    static struct tile_case c;
    static struct memory m;
    (void)state;
    for (uint32_t i = 0; i < 20; i++) {
        double top = 0;
        c.d = 32;
        c.count = 1;
        c.scale = 0.5f;
        draw_entries(&c, false);
        draw_queries(&c);
        c.x_scale[0] = 0.25f;
        c.in[0] = c.entries.range;
        for (uint32_t e = 0; e < KVC_TILE; e++)
            c.p[e] = some_float();
        for (uint32_t e = c.in[0].low; e < c.in[0].high; e++) { /* ordinary scales only */
            unsigned char *key = (unsigned char *)(uintptr_t)c.keys[e];
            key[1] = (key + c.entries.value_offset)[1] = 0x30;
            top = fmax(top, (double)KVC_HALF(key + c.entries.value_offset));
        }
        run(&kvc_integer_plain, &c, &m);
        for (uint32_t e = c.in[0].low; e < c.in[0].high; e++) {
            double dot = 0;
            for (uint32_t n = 0; n < 32; n++)
                dot += (double)c.quant[n] * (kvc_i8)c.keys[e][2 + n];
            assert_near(m.s[e], dot * (double)KVC_HALF(c.keys[e]) * 0.25 * 0.5, 1e-4);
        }
        for (uint32_t n = 0; n < 32; n++) {
            double sum = 0;
            for (uint32_t e = c.in[0].low; e < c.in[0].high; e++) {
                const unsigned char *value = c.keys[e] + c.entries.value_offset;
                sum += rint((double)c.p[e] * (double)KVC_HALF(value) * 16383 / top) * (kvc_i8)value[2 + n];
            }
            /* a weight near a half may be rounded the other way */
            assert_near(m.o[n], sum * top / 16383, 1e-4 + 3 * 128 * top / 16383);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(plain_kernels), cmocka_unit_test(every_path),
                                       cmocka_unit_test(tiles_in_plain_c)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
