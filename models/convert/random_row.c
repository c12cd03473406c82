/* random_row.c - makes rows of random weights. Block types are not quantized from numbers: they get random quants and
 * suitable scales, so that a model with a billion parameters takes seconds. */
#include "models/convert/random_row.h"

#include <string.h>

#include "models/convert/blocks.h"

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

static void random_row_fill(struct kvc_random *random, void *to, size_t bytes) {
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

/* Each random word gives two values of 24 bits. */
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

#define RANDOM_BLOCK(a, NAME, name, ...)                                                                               \
    static void random_##name(struct kvc_random *random, float reach, unsigned char *to) {                             \
        struct kvc_block_##name block;                                                                                 \
        random_row_fill(random, &block, sizeof block);                                                                 \
        kvc_random_##name(&block, reach);                                                                              \
        memcpy(to, &block, sizeof block);                                                                              \
    }
KVC_BLOCK_TYPES(RANDOM_BLOCK, )

static void (*const random_block[KVC_TYPES])(struct kvc_random *, float, unsigned char *) = {
#define RANDOM_BY_TYPE(a, NAME, name, ...) [KVC_##NAME] = random_##name,
    KVC_BLOCK_TYPES(RANDOM_BY_TYPE, )};

void kvc_random_row(struct kvc_random *random, enum kvc_type type, float reach, uint64_t K, void *row) {
    const struct kvc_type_block block = kvc_type_block(type);
    if (block.elements == 1) {
        float_row(random, type, reach, K, row);
        return;
    }
    for (uint64_t i = 0; i < K / block.elements; i++) {
        random_block[type](random, reach, (unsigned char *)row + i * block.bytes);
    }
}
