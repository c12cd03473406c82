/* dequantize.c - dequantizes weight rows of every type to float32. */
#include <string.h>

#include "backends/cpu/ref/ref.h"
#include "core/base/weight_blocks.h"

/* Returns element k of a row. Blocks are byte arrays, so the row needs no alignment. */
static float value(enum kvc_type type, const unsigned char *row, uint64_t k) {
    float x;
    switch (type) {
    case KVC_F32:
        memcpy(&x, row + 4 * k, 4);
        return x;
    case KVC_F16:
        return KVC_HALF(row + 2 * k);
    case KVC_BF16:
        return kvc_bf16_to_f32(KVC_LOAD_U16(row + 2 * k));
#define VALUE(a, NAME, name, gguf, elements, ...)                                                                      \
    case KVC_##NAME: {                                                                                                 \
        const struct kvc_block_##name *b = (const struct kvc_block_##name *)row + k / (elements);                      \
        return KVC_DEQUANTIZE_##NAME(*b, k % (elements));                                                              \
    }
        KVC_ALL_BLOCK_TYPES(VALUE, )
    case KVC_Q4H: /* only cache entries have these types */
    case KVC_Q5H:
    case KVC_Q6H:
    case KVC_ANY_TYPE:
        break;
    }
    return kvc_nan();
}

void KVC_REF(dequantize)(enum kvc_type type, const unsigned char *row, uint64_t first, uint64_t count, float *out) {
    if (type == KVC_F32) {
        memcpy(out, row + 4 * first, 4 * count);
        return;
    }
    for (uint64_t i = 0; i < count; i++)
        out[i] = value(type, row, first + i);
}
