/* random_row.c - rows of random weights. Block types are not quantised from numbers but made of random quants with
 * fitting scales, so that a model of a billion parameters takes seconds. */
#include "models/convert/random_row.h"

#include <string.h>

#include "core/base/canon.h"

/* splitmix64 (Steele, Lea, Flood 2014). */
uint64_t kvc_random_next(struct kvc_random *random) {
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

struct kvc_random kvc_random_start(uint64_t seed, uint64_t stream) {
    struct kvc_random random = {seed};
    random.state = kvc_random_next(&random) ^ (stream * UINT64_C(0xd1342543de82ef95));
    random.state = kvc_random_next(&random);
    return random;
}

static void fill(struct kvc_random *random, void *to, size_t bytes) {
    unsigned char *at = to;
    for (; bytes > 0;) {
        uint64_t word = kvc_random_next(random);
        size_t part = bytes < 8 ? bytes : 8;
        for (size_t i = 0; i < part; i++) {
            at[i] = (unsigned char)(word >> (8 * i));
        }
        at += part;
        bytes -= part;
    }
}

static void store_f16(kvc_u8 *to, float value) {
    kvc_u16 bits = kvc_f32_to_f16(value);
    to[0] = (kvc_u8)bits;
    to[1] = (kvc_u8)(bits >> 8);
}

/* Two values of 24 bits from each word. */
static void float_row(struct kvc_random *random, enum kvc_type type, float reach, uint64_t K, unsigned char *to) {
    const float unit = reach * 1.1920928955078125e-7f; /* 2^-23 */
    uint64_t word = 0;
    for (uint64_t i = 0; i < K; i++) {
        word = i % 2 == 0 ? kvc_random_next(random) : word >> 32;
        float value = (float)((int32_t)(word & 0xffffff) - 0x800000) * unit;
        if (type == KVC_F32) {
            memcpy(to + 4 * i, &value, 4);
        } else {
            kvc_u16 bits = type == KVC_F16 ? kvc_f32_to_f16(value) : kvc_f32_to_bf16(value);
            memcpy(to + 2 * i, &bits, 2);
        }
    }
}

static void random_block(struct kvc_random *random, enum kvc_type type, float reach, unsigned char *to) {
    union {
        struct kvc_block_q8_0 q8_0;
        struct kvc_block_q4_0 q4_0;
        struct kvc_block_q5_0 q5_0;
        struct kvc_block_q3_k q3_k;
        struct kvc_block_q4_k q4_k;
        struct kvc_block_q5_k q5_k;
        struct kvc_block_q6_k q6_k;
    } b;
    const size_t bytes = kvc_type_block(type).bytes;
    fill(random, &b, bytes);
    switch (type) {
    case KVC_Q8_0:
        store_f16(b.q8_0.d, reach / 127.5f);
        break;
    case KVC_Q4_0:
        store_f16(b.q4_0.d, reach / 7.5f);
        break;
    case KVC_Q5_0:
        store_f16(b.q5_0.d, reach / 15.5f);
        break;
    case KVC_Q3_K: /* scales -32..31 as they fall */
        store_f16(b.q3_k.d, reach / (18.5f * 3.5f));
        break;
    case KVC_Q4_K: /* each minimum equal to its scale: quants 0..15 lie around 7.5 */
    case KVC_Q5_K: {
        const float middle = type == KVC_Q4_K ? 7.5f : 15.5f, d = reach / (36.5f * middle);
        for (int s = 0; s < 4; s++) {
            b.q4_k.scale[s + 4] = b.q4_k.scale[s];
            b.q4_k.scale[s + 8] = (kvc_u8)((b.q4_k.scale[s + 8] & 15) * 17);
        }
        store_f16(b.q4_k.d, d);
        store_f16(b.q4_k.dmin, d * middle);
        break;
    }
    default: /* scales -128..127 as they fall */
        store_f16(b.q6_k.d, reach / (73.9f * 31.5f));
        break;
    }
    memcpy(to, &b, bytes);
}

void kvc_random_row(struct kvc_random *random, enum kvc_type type, float reach, uint64_t K, void *row) {
    const struct kvc_type_block block = kvc_type_block(type);
    if (block.elements == 1) {
        float_row(random, type, reach, K, row);
        return;
    }
    for (uint64_t i = 0; i < K / block.elements; i++) {
        random_block(random, type, reach, (unsigned char *)row + i * block.bytes);
    }
}
