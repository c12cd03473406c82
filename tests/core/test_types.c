/* test_types.c - element types: names, sizes, and quantized rows. Simple code, written from the formats' descriptions,
 * decodes them; errors must be small. */
#include "tests/models/file_maker.h"

#include <math.h>

#include "models/convert/quantize.h"
#include "models/convert/random_row.h"

enum { K = 1024 };

static void names_and_sizes(void **state) {
    (void)state;
    for (int type = 0; type < KVC_TYPES; type++) {
        enum kvc_type back;
        assert_true(kvc_type_from_name(kvc_type_name((enum kvc_type)type), &back) && (int)back == type);
    }
    enum kvc_type none;
    assert_false(kvc_type_from_name("q9_9", &none));
    assert_false(kvc_type_from_name("", &none));
    assert_true(kvc_type_from_name("F16", &none) && none == KVC_F16); /* the spelling of files and other programs */
    assert_string_equal(kvc_type_name(KVC_FP8), "fp8");
    assert_false(kvc_type_from_name("fp8", &none)); /* no file uses this name */
    assert_string_equal(kvc_type_name(KVC_ANY_TYPE), "unknown");
    assert_int_equal(kvc_type_row_bytes(KVC_F32, 172), 688);
    assert_int_equal(kvc_type_row_bytes(KVC_BF16, 3), 6);
    assert_int_equal(kvc_type_row_bytes(KVC_Q8_0, 64), 68);
    assert_int_equal(kvc_type_row_bytes(KVC_Q8_0, 65), 0);
    assert_int_equal(kvc_type_row_bytes(KVC_Q4_0, 32), 18);
    assert_int_equal(kvc_type_row_bytes(KVC_Q5_0, 32), 22);
    assert_int_equal(kvc_type_row_bytes(KVC_Q4_1, 32), 20);
    assert_int_equal(kvc_type_row_bytes(KVC_Q5_1, 64), 48);
    assert_int_equal(kvc_type_row_bytes(KVC_IQ4_NL, 32), 18);
    assert_int_equal(kvc_type_row_bytes(KVC_MXFP4, 96), 51);
    assert_int_equal(kvc_type_row_bytes(KVC_Q2_K, 256), 84);
    assert_int_equal(kvc_type_row_bytes(KVC_IQ4_XS, 512), 272);
    assert_int_equal(kvc_type_row_bytes(KVC_Q3_K, 256), 110);
    assert_int_equal(kvc_type_row_bytes(KVC_Q4_K, 512), 288);
    assert_int_equal(kvc_type_row_bytes(KVC_Q5_K, 256), 176);
    assert_int_equal(kvc_type_row_bytes(KVC_Q6_K, 256), 210);
    assert_int_equal(kvc_type_row_bytes(KVC_Q6_K, 128), 0);
    assert_int_equal(kvc_type_row_bytes(KVC_F32, 0), 0);
    assert_int_equal(kvc_type_row_bytes(KVC_F32, UINT64_C(1) << 62), 0);
    assert_int_equal(kvc_type_row_bytes(KVC_FP8, 384), 396);
    assert_int_equal(kvc_type_row_bytes(KVC_FP8, 192), 0);
    assert_int_equal(kvc_type_row_bytes(KVC_ALL_TYPES, 32), 0);
}

/* ---- plain decoders ---- */

static double half(const unsigned char *at) {
    unsigned bits = at[0] | (unsigned)at[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value = exponent ? ldexp(1024 + (double)fraction, (int)exponent - 25) : ldexp((double)fraction, -24);
    return bits >> 15 ? -value : value;
}

static void decode_q8_0(const unsigned char *b, double *x) {
    for (int i = 0; i < 32; i++) {
        x[i] = half(b) * (double)(signed char)b[2 + i];
    }
}

static void decode_q4_0(const unsigned char *b, double *x) {
    for (int i = 0; i < 16; i++) {
        x[i] = half(b) * ((b[2 + i] & 15) - 8);
        x[i + 16] = half(b) * ((b[2 + i] >> 4) - 8);
    }
}

static void decode_q5_0(const unsigned char *b, double *x) {
    unsigned high = b[2] | (unsigned)b[3] << 8 | (unsigned)b[4] << 16 | (unsigned)b[5] << 24;
    for (int i = 0; i < 16; i++) {
        x[i] = half(b) * ((int)((b[6 + i] & 15u) | (high >> i & 1u) << 4) - 16);
        x[i + 16] = half(b) * ((int)((unsigned)b[6 + i] >> 4 | (high >> (i + 16) & 1u) << 4) - 16);
    }
}

static void decode_q4_1(const unsigned char *b, double *x) {
    for (int i = 0; i < 16; i++) {
        x[i] = half(b) * (b[4 + i] & 15) + half(b + 2);
        x[i + 16] = half(b) * (b[4 + i] >> 4) + half(b + 2);
    }
}

static void decode_q5_1(const unsigned char *b, double *x) {
    for (int i = 0; i < 32; i++) {
        int nibble = i < 16 ? b[8 + i] & 15 : b[8 + i - 16] >> 4, fifth = b[4 + i / 8] >> (i % 8) & 1;
        x[i] = half(b) * (nibble + 16 * fifth) + half(b + 2);
    }
}

static const signed char uneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void decode_iq4_nl(const unsigned char *b, double *x) {
    for (int i = 0; i < 16; i++) {
        x[i] = half(b) * uneven[b[2 + i] & 15];
        x[i + 16] = half(b) * uneven[b[2 + i] >> 4];
    }
}

static double e2m1(unsigned bits) { /* a sign bit, two exponent bits with bias 1, one fraction bit */
    const unsigned exponent = bits >> 1 & 3, fraction = bits & 1;
    const double value = exponent ? ldexp(1 + 0.5 * fraction, (int)exponent - 1) : 0.5 * fraction;
    return bits & 8 ? -value : value;
}

static void decode_mxfp4(const unsigned char *b, double *x) {
    for (int i = 0; i < 32; i++) {
        x[i] = ldexp(e2m1(i < 16 ? b[1 + i] & 15u : b[1 + i - 16] >> 4u), b[0] - 127);
    }
}

static void decode_q2_k(const unsigned char *b, double *x) {
    for (int e = 0; e < 256; e++) {
        const int part = e / 32 % 4, q = b[16 + 32 * (e / 128) + e % 32] >> (2 * part) & 3;
        x[e] = half(b + 80) * (b[e / 16] & 15) * q - half(b + 82) * (b[e / 16] >> 4);
    }
}

static void decode_iq4_xs(const unsigned char *b, double *x) {
    for (int s = 0; s < 8; s++) {
        const unsigned high = (b[2] | (unsigned)b[3] << 8) >> (2 * s) & 3,
                       low = s % 2 ? b[4 + s / 2] >> 4 : b[4 + s / 2] & 15;
        for (int i = 0; i < 32; i++) {
            const unsigned char byte = b[8 + 16 * s + i % 16];
            x[32 * s + i] = half(b) * ((int)(low + 16 * high) - 32) * uneven[i < 16 ? byte & 15 : byte >> 4];
        }
    }
}

/* The 12 bytes of Q3_K's scales: 16 low nibbles (the first half in the bytes' low nibbles), then 16 pairs of high bits.
 */
static int q3_scale(const unsigned char *s, int i) {
    int low = i < 8 ? s[i] & 15 : s[i - 8] >> 4;
    return (low | (s[8 + i % 4] >> (2 * (i / 4)) & 3) << 4) - 32;
}

static void decode_q3_k(const unsigned char *b, double *x) {
    const unsigned char *high = b, *low = b + 32, *scales = b + 96;
    double d = half(b + 108);
    for (int half_block = 0; half_block < 2; half_block++) {
        for (int shift = 0; shift < 4; shift++) {
            for (int i = 0; i < 32; i++) {
                int e = 128 * half_block + 32 * shift + i;
                int q = low[32 * half_block + i] >> (2 * shift) & 3;
                q -= high[i] >> (4 * half_block + shift) & 1 ? 0 : 4;
                x[e] = d * q3_scale(scales, e / 16) * q;
            }
        }
    }
}

static void q4_scale(const unsigned char *s, int i, int *scale, int *minimum) {
    if (i < 4) {
        *scale = s[i] & 63;
        *minimum = s[i + 4] & 63;
    } else {
        *scale = (s[i + 4] & 15) + 16 * (s[i - 4] >> 6);
        *minimum = (s[i + 4] >> 4) + 16 * (s[i] >> 6);
    }
}

static void decode_q4_or_5_k(const unsigned char *b, bool five, double *x) {
    const unsigned char *scales = b + 4, *high = b + 16, *quants = five ? b + 48 : b + 16;
    for (int s = 0; s < 8; s++) {
        int scale, minimum;
        q4_scale(scales, s, &scale, &minimum);
        for (int i = 0; i < 32; i++) {
            int q = s % 2 ? quants[32 * (s / 2) + i] >> 4 : quants[32 * (s / 2) + i] & 15;
            q += five && (high[i] >> s & 1) ? 16 : 0;
            x[32 * s + i] = half(b) * scale * q - half(b + 2) * minimum;
        }
    }
}

static void decode_q4_k(const unsigned char *b, double *x) { decode_q4_or_5_k(b, false, x); }

static void decode_q5_k(const unsigned char *b, double *x) { decode_q4_or_5_k(b, true, x); }

static void decode_q6_k(const unsigned char *b, double *x) {
    const unsigned char *low = b, *high = b + 128;
    for (int half_block = 0; half_block < 2; half_block++) {
        for (int i = 0; i < 32; i++) {
            int h = high[32 * half_block + i], l0 = low[64 * half_block + i], l1 = low[64 * half_block + 32 + i];
            int q[4] = {(l0 & 15) | (h & 3) << 4, (l1 & 15) | (h >> 2 & 3) << 4, l0 >> 4 | (h >> 4 & 3) << 4,
                        l1 >> 4 | (h >> 6) << 4};
            for (int part = 0; part < 4; part++) {
                int e = 128 * half_block + 32 * part + i;
                x[e] = half(b + 208) * (signed char)b[192 + e / 16] * (q[part] - 32);
            }
        }
    }
}

static const struct {
    enum kvc_type type;
    void (*decode)(const unsigned char *, double *);
    double normal, uniform; /* the largest relative root mean square error for such values */
    double single;          /* and the largest error of a value that is alone in a block (some types have no 0) */
} blocks[] = {
    {KVC_Q8_0, decode_q8_0, 0.006, 0.004, 0.02},     {KVC_Q4_0, decode_q4_0, 0.085, 0.061, 0.02},
    {KVC_Q5_0, decode_q5_0, 0.042, 0.030, 0.02},     {KVC_Q3_K, decode_q3_k, 0.155, 0.125, 0.02},
    {KVC_Q4_K, decode_q4_k, 0.076, 0.058, 0.02},     {KVC_Q5_K, decode_q5_k, 0.039, 0.030, 0.02},
    {KVC_Q6_K, decode_q6_k, 0.0185, 0.0140, 0.02},   {KVC_Q4_1, decode_q4_1, 0.075, 0.055, 0.02},
    {KVC_Q5_1, decode_q5_1, 0.038, 0.028, 0.02},     {KVC_IQ4_NL, decode_iq4_nl, 0.080, 0.070, 0.06},
    {KVC_MXFP4, decode_mxfp4, 0.115, 0.130, 0.2},    {KVC_Q2_K, decode_q2_k, 0.270, 0.230, 0.02},
    {KVC_IQ4_XS, decode_iq4_xs, 0.080, 0.070, 0.06},
};
#define COUNTED(a, NAME, ...) +1
_Static_assert(sizeof blocks / sizeof *blocks == KVC_BLOCK_TYPES(COUNTED, ), "every block type has a decoder");

/* ---- values ---- */

static uint64_t random_state;

static double uniform(void) { /* above 0, below 1 */
    random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return ((double)(random_state >> 12) + 0.5) / 4503599627370496.0;
}

static double normal(void) { return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()); }

/* The relative root mean square error; decoded values must equal those of the plain decoder. */
static double round_trip(size_t t, const float *x) {
    static unsigned char row[K * 4];
    static float back[K];
    enum kvc_type type = blocks[t].type;
    const struct kvc_type_block size = kvc_type_block(type);
    assert_true(kvc_quantize_row(type, x, K, row));
    kvc_dequantize_row(type, row, K, back);
    double off = 0, all = 0;
    for (size_t i = 0; i < K / size.elements; i++) {
        double expected[256];
        blocks[t].decode(row + i * size.bytes, expected);
        for (size_t e = 0; e < size.elements; e++) {
            double value = (double)back[i * size.elements + e], x_value = (double)x[i * size.elements + e];
            if (fabs(value - expected[e]) > 1e-6 * (fabs(expected[e]) + 1e-3)) {
                print_error("%s: element %zu is %g, %g was expected\n", kvc_type_name(type), i * size.elements + e,
                            value, expected[e]);
                fail();
            }
            off += (value - x_value) * (value - x_value);
            all += x_value * x_value;
        }
    }
    return all > 0 ? sqrt(off / all) : sqrt(off);
}

static void quantises_well(void **state) {
    (void)state;
    float x[K];
    for (size_t t = 0; t < sizeof blocks / sizeof *blocks; t++) {
        double worst[2] = {0, 0}; /* of the mean over 8 rows */
        for (int kind = 0; kind < 2; kind++) {
            random_state = 7 + (uint64_t)kind;
            for (int row = 0; row < 8; row++) {
                for (int i = 0; i < K; i++) {
                    x[i] = (float)(0.02 * (kind == 0 ? normal() : 2 * uniform() - 1));
                }
                worst[kind] += round_trip(t, x) / 8;
            }
        }
        if (worst[0] > blocks[t].normal || worst[1] > blocks[t].uniform || worst[0] < blocks[t].normal / 2) {
            print_error("%s: relative error %g of normal, %g of uniform values\n", kvc_type_name(blocks[t].type),
                        worst[0], worst[1]);
            fail();
        }
    }
}

static void quantises_difficult_rows(void **state) {
    (void)state;
    float x[K];
    for (size_t t = 0; t < sizeof blocks / sizeof *blocks; t++) {
        for (int i = 0; i < K; i++)
            x[i] = 0;
        assert_true(round_trip(t, x) == 0);
        for (int i = 0; i < K; i++)
            x[i] = 0.5f;
        assert_true(round_trip(t, x) < 0.02);
        for (int i = 0; i < K; i++)
            x[i] = -0.5f;
        assert_true(round_trip(t, x) < 0.02);
        for (int i = 0; i < K; i++)
            x[i] = i % 256 == 3 ? -100.0f : 0; /* one large value */
        assert_true(round_trip(t, x) < blocks[t].single);
        for (int i = 0; i < K; i++)
            x[i] = i % 512 < 256 ? 0 : (float)(i % 7 - 3); /* blocks of zeros between blocks with values */
        assert_true(round_trip(t, x) < fmax(0.2, 1.2 * blocks[t].normal));
        for (int i = 0; i < K; i++)
            x[i] = (float)(normal() * pow(10, -4 * uniform())); /* many different magnitudes */
        assert_true(round_trip(t, x) < fmax(0.2, 1.2 * blocks[t].normal));
        for (int i = 0; i < K; i++)
            x[i] = 1e-30f * (float)normal(); /* too small for any F16 scale */
        assert_true(round_trip(t, x) <= 1);
        for (int i = 0; i < K; i++)
            x[i] = 1e-42f * (float)(i % 3); /* denormal */
        round_trip(t, x);
        for (int i = 0; i < K; i++)
            x[i] = 60000.0f * (float)(i % 2 ? 1 : -1); /* large */
        assert_true(round_trip(t, x) < (blocks[t].single > 0.05 ? blocks[t].single : 0.05));
    }
}

static void refuses_what_a_type_cannot_hold(void **state) {
    (void)state;
    static unsigned char row[K * 4];
    static const float wrong[] = {INFINITY, -INFINITY, NAN};
    float x[K];
    for (int type = 0; type < KVC_TYPES; type++) {
        for (size_t w = 0; w < 3; w++) {
            for (int i = 0; i < K; i++)
                x[i] = 1;
            x[K - 1] = wrong[w];
            assert_false(kvc_quantize_row((enum kvc_type)type, x, K, row));
        }
        x[K - 1] = 1e37f;
        bool wide = type == KVC_F32 || type == KVC_BF16 || type == KVC_MXFP4;
        assert_true(kvc_quantize_row((enum kvc_type)type, x, K, row) == wide);
    }
    x[K - 1] = 65504.0f;
    assert_true(kvc_quantize_row(KVC_F16, x, K, row));
    x[K - 1] = 65535.0f;
    assert_false(kvc_quantize_row(KVC_F16, x, K, row));
    x[K - 1] = 3.4e38f; /* would round up to infinity */
    assert_false(kvc_quantize_row(KVC_BF16, x, K, row));
    assert_true(kvc_quantize_row(KVC_F32, x, K, row));
}

static void keeps_what_is_exact(void **state) {
    (void)state;
    static unsigned char row[K * 4];
    float x[K], back[K];
    static const enum kvc_type types[] = {KVC_F32, KVC_F16, KVC_BF16};
    for (size_t t = 0; t < 3; t++) {
        for (int i = 0; i < K; i++) {
            x[i] = (float)(i % 255 - 127) * 0.0078125f; /* 8-bit integers: all three types represent them exactly */
        }
        assert_true(kvc_quantize_row(types[t], x, K, row));
        kvc_dequantize_row(types[t], row, K, back);
        assert_memory_equal(x, back, sizeof x);
    }
}

/* Every FP8 number with scales of every kind, rounded once: a double holds the exact product. Decoded from the format's
 * description: a sign bit, four exponent bits with bias 7, three fraction bits; the last number of each sign is a NaN.
 */
static void fp8_values(void **state) {
    (void)state;
    static const float scales[] = {1.0f,      -0.3f,    0x1.fffffep-9f,   3e-5f,    0x1.234568p-130f,
                                   0x1p-149f, 0x1p-66f, 0x1.fffffep+127f, 0x1p120f, 0.0f};
    for (size_t s = 0; s < sizeof scales / sizeof *scales; s++) {
        unsigned char row[2 * 132];
        float x[256];
        for (unsigned i = 0; i < 256; i++) {
            memcpy(row + i / 128 * 132, &scales[s], sizeof scales[s]);
            row[i / 128 * 132 + 4 + i % 128] = (unsigned char)i;
        }
        kvc_dequantize_row(KVC_FP8, row, 256, x);
        for (unsigned i = 0; i < 256; i++) {
            const int exponent = (int)(i >> 3 & 15), fraction = (int)(i & 7);
            const double size = exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
            const float value = (float)((i & 128 ? -size : size) * (double)scales[s]);
            if ((i & 127) == 127 ? !isnan(x[i]) : memcmp(&x[i], &value, sizeof value) != 0)
                fail_msg("e4m3 %02x times %a is %a, %a was expected", i, (double)scales[s], (double)x[i],
                         (double)value);
        }
    }
}

static uint64_t sum_row(enum kvc_type type, const unsigned char *row) { /* FNV-1a */
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < kvc_type_row_bytes(type, K); i++) {
        sum = (sum ^ row[i]) * UINT64_C(0x100000001b3);
    }
    return sum;
}

/* The bytes are the same on all machines: the rows are made without the math library. */
static void same_bytes_everywhere(void **state) {
    (void)state;
    static const uint64_t expected[KVC_TYPES] = {
        0xc7bee8301fd322de, 0x00fdf271ce282992, 0x1cc28cece586dae4, 0x6573c288411aadd7,
        0xb15a70e90086c709, 0x35c6ad41b91484c2, 0xc8ad034c88a11ee9, 0x9088461abaae2bff,
        0xcb60d62f05bfce0e, 0x6f3076e01ac40e73, 0x1213e4ebdcd858b0, 0x6f61dc3dbee33265,
        0x64f3793b586f462d, 0xe58073ad0750ebb5, 0x50da9d48f5137f2d, 0x19d55c40943dff09,
    };
    static unsigned char row[K * 4];
    float x[K];
    random_state = 1;
    for (int i = 0; i < K; i++) {
        x[i] = (float)(uniform() + uniform() + uniform() - 1.5);
    }
    bool differs = false;
    for (int type = 0; type < KVC_TYPES; type++) {
        assert_true(kvc_quantize_row((enum kvc_type)type, x, K, row));
        uint64_t sum = sum_row((enum kvc_type)type, row);
        if (sum != expected[type]) {
            print_error("%s: %016llx\n", kvc_type_name((enum kvc_type)type), (unsigned long long)sum);
            differs = true;
        }
    }
    assert_false(differs);
}

/* Random rows of every type have the requested standard deviation, and the same bytes on all machines. */
static void random_rows(void **state) {
    (void)state;
    static const uint64_t expected[KVC_TYPES] = {
        0x5809396357207f15, 0x166566f5f3d9c624, 0x36f8e4eed85a6eee, 0x6ea8041a6c185940,
        0x99baaea86cbf5df1, 0xb500a6b12b3cbd64, 0x0e1638342582fa0a, 0xa720f15d9484644b,
        0xc018d1c1827b2014, 0x579ef6d441fd9ac9, 0xb1406eaa779f2308, 0x728c5d4d372622b0,
        0xc8c3b6daf90f02e9, 0x9118c2a470b4b718, 0xc6f7d95603e0a65c, 0x27fb2219be9190c3,
    };
    static unsigned char row[K * 4];
    float x[K];
    bool differs = false;
    for (int type = 0; type < KVC_TYPES; type++) {
        struct kvc_random random = kvc_random_start(3, 4);
        double mean = 0, square = 0, most = 0;
        for (int i = 0; i < 16; i++) {
            kvc_random_row(&random, (enum kvc_type)type, 0.5f, K, row);
            kvc_dequantize_row((enum kvc_type)type, row, K, x);
            for (int k = 0; k < K; k++) {
                mean += (double)x[k] / (16 * K);
                square += (double)x[k] * (double)x[k] / (16 * K);
                most = fmax(most, fabs((double)x[k]));
            }
        }
        if (fabs(mean) > 0.04 || fabs(sqrt(square) / 0.2887 - 1) > 0.2 || most > 1.1) {
            print_error("%s: mean %g, deviation %g, largest %g\n", kvc_type_name((enum kvc_type)type), mean,
                        sqrt(square), most);
            differs = true;
        }
        if (sum_row((enum kvc_type)type, row) != expected[type]) {
            print_error("%s: 0x%016llx\n", kvc_type_name((enum kvc_type)type),
                        (unsigned long long)sum_row((enum kvc_type)type, row));
            differs = true;
        }
    }
    assert_false(differs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_and_sizes),          cmocka_unit_test(quantises_well),
        cmocka_unit_test(quantises_difficult_rows), cmocka_unit_test(refuses_what_a_type_cannot_hold),
        cmocka_unit_test(keeps_what_is_exact),      cmocka_unit_test(fp8_values),
        cmocka_unit_test(same_bytes_everywhere),    cmocka_unit_test(random_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
