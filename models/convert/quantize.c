/* quantize.c - converts float32 rows to the stored element types. */
#include "models/convert/quantize.h"

#include "core/base/assert.h"

#include <string.h>

#include "models/convert/blocks.h"

static const float holds[KVC_TYPES] = {
#define HOLDS(a, NAME, name, gguf, elements, bytes, scale, scales, wide, holds) [KVC_##NAME] = holds,
    KVC_WEIGHT_TYPES(HOLDS, )};

static bool fits(enum kvc_type type, const float *values, uint64_t K) {
    float limit = holds[type];
    for (uint64_t i = 0; i < K; i++) {
        if (!(values[i] >= -limit && values[i] <= limit)) {
            return false;
        }
    }
    return true;
}

#define QUANTIZE_BLOCK(a, NAME, name, ...)                                                                             \
    static void quantize_##name(const float *x, unsigned char *to) {                                                   \
        struct kvc_block_##name block;                                                                                 \
        kvc_quantize_##name(x, &block);                                                                                \
        memcpy(to, &block, sizeof block);                                                                              \
    }
KVC_BLOCK_TYPES(QUANTIZE_BLOCK, )

static void (*const quantize_block[KVC_TYPES])(const float *, unsigned char *) = {
#define QUANTIZE_BY_TYPE(a, NAME, name, ...) [KVC_##NAME] = quantize_##name,
    KVC_BLOCK_TYPES(QUANTIZE_BY_TYPE, )};

bool kvc_quantize_row(enum kvc_type type, const float *values, uint64_t K, void *row) {
    unsigned char *to = row;
    KVC_ASSERT((unsigned)type < KVC_TYPES);
    if (!fits(type, values, K)) {
        return false;
    }
    switch (type) {
    case KVC_F32:
        memcpy(to, values, (size_t)K * sizeof *values);
        return true;
    case KVC_F16:
        for (uint64_t i = 0; i < K; i++) {
            kvc_store_u16(to + 2 * i, kvc_f32_to_f16(values[i]));
        }
        return true;
    case KVC_BF16:
        for (uint64_t i = 0; i < K; i++) {
            kvc_store_u16(to + 2 * i, kvc_f32_to_bf16(values[i]));
        }
        return true;
    default:
        break;
    }
    struct kvc_type_block size = kvc_type_block(type);
    KVC_ASSERT(size.elements > 0 && K % size.elements == 0 && quantize_block[type]);
    for (uint64_t i = 0; i < K / size.elements; i++) {
        quantize_block[type](values + i * size.elements, to + i * size.bytes);
    }
    return true;
}
