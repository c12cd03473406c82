/* unpack_any.h - unpacks weights of any type. Both versions of unpack.h, for x86 and for NEON, define a function for
 * each type and include this file at their end. */
#ifndef KVC_SIMD_INT8_UNPACK_ANY_H
#define KVC_SIMD_INT8_UNPACK_ANY_H

#if defined(__ARM_NEON)
#include "backends/cpu/simd/int8/neon/unpack.h"
#else
#include "backends/cpu/simd/int8/unpack.h"
#endif

/* Unpacks 256 weights, or the first `parts` blocks of 32. `type` is a constant here and below. */
INLINE void unpack(const enum kvc_type type, struct unpacked *u, const unsigned char *g, int parts) {
    switch ((int)type) {
    case KVC_Q2_K:
        unpack_q2_k(u, g);
        break;
    case KVC_Q3_K:
        unpack_q3_k(u, g);
        break;
    case KVC_Q4_K:
        unpack_q4_k(u, g);
        break;
    case KVC_Q5_K:
        unpack_q5_k(u, g);
        break;
    case KVC_Q6_K:
        unpack_q6_k(u, g);
        break;
    case KVC_IQ4_XS:
        unpack_iq4_xs(u, g);
        break;
    default: /* types with blocks of 32 */
        unpack_blocks(type, u, g, parts);
    }
}

/* Returns the amount by which the bytes exceed the quants. */
INLINE int code_offset(const enum kvc_type type) {
    switch ((int)type) {
#define CASE_CODE_OFFSET(a, NAME, name, ...)                                                                           \
    case KVC_##NAME:                                                                                                   \
        return OFFSET_##name;
        KVC_BLOCK_TYPES(CASE_CODE_OFFSET, )
    }
    return 0;
}

#endif
