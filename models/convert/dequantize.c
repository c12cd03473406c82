/* dequantize.c - converts stored rows to float32 with the formulas of core/base/weight_blocks.h. */
#include <string.h>

#include "core/base/assert.h"
#include "core/base/weight_blocks.h"
#include "models/convert/quantize.h"

#define DEQUANTIZE_BLOCK(a, NAME, name, gguf, elements, ...)                                                           \
    static void dequantize_##name(const unsigned char *from, float *x) {                                               \
        struct kvc_block_##name b;                                                                                     \
        memcpy(&b, from, sizeof b);                                                                                    \
        for (int e = 0; e < (elements); e++) {                                                                         \
            x[e] = KVC_DEQUANTIZE_##NAME(b, e);                                                                        \
        }                                                                                                              \
    }
KVC_ALL_BLOCK_TYPES(DEQUANTIZE_BLOCK, )

void kvc_dequantize_row(enum kvc_type type, const void *row, uint64_t K, float *values) {
    static void (*const block[KVC_ALL_TYPES])(const unsigned char *, float *) = {
#define DEQUANTIZE_BY_TYPE(a, NAME, name, ...) [KVC_##NAME] = dequantize_##name,
        KVC_ALL_BLOCK_TYPES(DEQUANTIZE_BY_TYPE, )};
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
        KVC_ASSERT(size.elements > 0 && K % size.elements == 0 && block[type]);
        for (uint64_t i = 0; i < K / size.elements; i++) {
            block[type](from + i * size.bytes, values + i * size.elements);
        }
    }
}
