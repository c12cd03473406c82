/* widen.c - stored rows to float32, by the formulas of core/base/canon.h. */
#include <string.h>

#include "core/base/canon.h"
#include "models/convert/quantize.h"

#define LOAD_BLOCK(kind)                                                                                               \
    struct kvc_block_##kind b;                                                                                         \
    memcpy(&b, from, sizeof b);                                                                                        \
    const float d = kvc_f16_to_f32(KVC_LOAD_U16(b.d))

static void block_q8_0(const unsigned char *from, float *x) {
    LOAD_BLOCK(q8_0);
    for (int e = 0; e < 32; e++) {
        x[e] = KVC_Q8_0_VALUE(b, e, d);
    }
}

static void block_q4_0(const unsigned char *from, float *x) {
    LOAD_BLOCK(q4_0);
    for (int e = 0; e < 32; e++) {
        x[e] = KVC_Q4_0_VALUE(b, e, d);
    }
}

static void block_q5_0(const unsigned char *from, float *x) {
    LOAD_BLOCK(q5_0);
    for (int e = 0; e < 32; e++) {
        x[e] = KVC_Q5_0_VALUE(b, e, d);
    }
}

static void block_q3_k(const unsigned char *from, float *x) {
    LOAD_BLOCK(q3_k);
    for (int e = 0; e < 256; e++) {
        x[e] = KVC_Q3_K_VALUE(b, e, d);
    }
}

static void block_q4_k(const unsigned char *from, float *x) {
    LOAD_BLOCK(q4_k);
    const float dmin = kvc_f16_to_f32(KVC_LOAD_U16(b.dmin));
    for (int e = 0; e < 256; e++) {
        x[e] = KVC_Q4_K_VALUE(b, e, d, dmin);
    }
}

static void block_q5_k(const unsigned char *from, float *x) {
    LOAD_BLOCK(q5_k);
    const float dmin = kvc_f16_to_f32(KVC_LOAD_U16(b.dmin));
    for (int e = 0; e < 256; e++) {
        x[e] = KVC_Q5_K_VALUE(b, e, d, dmin);
    }
}

static void block_q6_k(const unsigned char *from, float *x) {
    LOAD_BLOCK(q6_k);
    for (int e = 0; e < 256; e++) {
        x[e] = KVC_Q6_K_VALUE(b, e, d);
    }
}

void kvc_widen_row(enum kvc_type type, const void *row, uint64_t K, float *values) {
    static void (*const block[KVC_TYPES])(const unsigned char *, float *) = {
        [KVC_Q8_0] = block_q8_0, [KVC_Q4_0] = block_q4_0, [KVC_Q5_0] = block_q5_0, [KVC_Q3_K] = block_q3_k,
        [KVC_Q4_K] = block_q4_k, [KVC_Q5_K] = block_q5_k, [KVC_Q6_K] = block_q6_k,
    };
    const unsigned char *from = row;
    if (type == KVC_F32) {
        memcpy(values, from, (size_t)K * sizeof *values);
    } else if (type == KVC_F16 || type == KVC_BF16) {
        for (uint64_t i = 0; i < K; i++) {
            kvc_u16 bits = KVC_LOAD_U16(from + 2 * i);
            values[i] = type == KVC_F16 ? kvc_f16_to_f32(bits) : kvc_bf16_to_f32(bits);
        }
    } else {
        struct kvc_type_block size = kvc_type_block(type);
        for (uint64_t i = 0; i < K / size.elements; i++) {
            block[type](from + i * size.bytes, values + i * size.elements);
        }
    }
}
