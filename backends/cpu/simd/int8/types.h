/* types.h - the properties of the weight types that have a product with 8-bit activations. `type` is a constant, so
 * only one case of each switch remains after inlining. */
#ifndef KVC_SIMD_INT8_TYPES_H
#define KVC_SIMD_INT8_TYPES_H

#include "core/base/types.h"
#include "core/base/weight_blocks.h"
#include "core/base/weight_types.h"
#include "backends/cpu/simd/lanes/unroll.h"

/* Returns the number of weights that share a scale: 16 or 32. */
INLINE int piece_width(const enum kvc_type type) {
    switch ((int)type) {
#define CASE_PIECE_WIDTH(a, NAME, ...)                                                                                 \
    case KVC_##NAME:                                                                                                   \
        return KVC_INT8_WIDTH_##NAME;
        KVC_BLOCK_TYPES(CASE_PIECE_WIDTH, )
    }
    return 32;
}

/* Returns true if each piece has a minimum in addition to its scale. */
INLINE bool has_minimum(const enum kvc_type type) {
    switch ((int)type) {
#define CASE_HAS_MINIMUM(a, NAME, ...)                                                                                 \
    case KVC_##NAME:                                                                                                   \
        return KVC_INT8_HAS_MIN_##NAME;
        KVC_BLOCK_TYPES(CASE_HAS_MINIMUM, )
    }
    return false;
}

/* Returns the size of 256 weights in bytes. */
INLINE int group_bytes(const enum kvc_type type) {
    switch ((int)type) {
#define CASE_GROUP_BYTES(a, NAME, name, gguf, elements, bytes, ...)                                                    \
    case KVC_##NAME:                                                                                                   \
        return 256 / (elements) * (bytes);
        KVC_BLOCK_TYPES(CASE_GROUP_BYTES, )
    }
    return 0;
}

#endif
