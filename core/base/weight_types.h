/* weight_types.h - the lists of weight types; docs/how-to/add-a-type.md tells how to add one. It has only macros, for
 * C, OpenCL C and CUDA C.
 *
 * KVC_WEIGHT_TYPES(row, a) expands to row(a, NAME, name, gguf, elements, bytes, scale, scales, wide, holds) for every
 * type, in the order of enum kvc_type (include/kvcull.h):
 *   NAME, name       used in identifiers: KVC_<NAME>, struct kvc_block_<name>; name is also the type's public name.
 *   gguf             the type's number in GGUF files.
 *   elements, bytes  per block; a row is a whole number of blocks, and elements divides 256.
 *   scale, scales    offset of the first scale in a block, and number of consecutive scales.
 *   wide             bytes per scale: 4 for float32, 2 for F16, 1 for a power of two (E8M0).
 *   holds            the largest value that can safely be stored. With F16 scales it is 65504 times a factor. If a
 *                    search finds the scales, the factor is below the largest magnitude that quants have in both signs.
 *                    The search may choose a scale a tenth larger than needed, which must not overflow F16.
 * Every row receives `a` unchanged. Plain types are single numbers, which the code handles explicitly. For a block
 * type, everything except its arithmetic is generated from its row.
 *
 * KVC_WEIGHT_TYPES are the types of files, which convert can write. KVC_HELD_TYPES exist in memory only: no GGUF file
 * has them, and none is written. Code that multiplies weights uses KVC_ALL_WEIGHT_TYPES, in the order of enum
 * kvc_type. */
#ifndef KVC_CORE_BASE_WEIGHT_TYPES_H
#define KVC_CORE_BASE_WEIGHT_TYPES_H

/* clang-format off */
#define KVC_PLAIN_TYPES(row, a) \
    row(a, F32,  f32,   0, 1, 4, 0, 0, 0, FLT_MAX) \
    row(a, F16,  f16,   1, 1, 2, 0, 0, 0, 65504.0f) \
    row(a, BF16, bf16, 30, 1, 2, 0, 0, 0, 3.3895e38f)

#define KVC_BLOCK_TYPES(row, a) \
    row(a, Q8_0,   q8_0,    8,  32,  34,   0, 1, 2, 65504.0f * 127.0f) \
    row(a, Q4_0,   q4_0,    2,  32,  18,   0, 1, 2, 65504.0f * 4.0f) \
    row(a, Q5_0,   q5_0,    6,  32,  22,   0, 1, 2, 65504.0f * 8.0f) \
    row(a, Q3_K,   q3_k,   11, 256, 110, 108, 1, 2, 65504.0f * 32.0f) \
    row(a, Q4_K,   q4_k,   12, 256, 144,   0, 2, 2, 65504.0f * 32.0f) \
    row(a, Q5_K,   q5_k,   13, 256, 176,   0, 2, 2, 65504.0f * 32.0f) \
    row(a, Q6_K,   q6_k,   14, 256, 210, 208, 1, 2, 65504.0f * 32.0f) \
    row(a, Q4_1,   q4_1,    3,  32,  20,   0, 2, 2, 65504.0f) \
    row(a, Q5_1,   q5_1,    7,  32,  24,   0, 2, 2, 65504.0f) \
    row(a, IQ4_NL, iq4_nl, 20,  32,  18,   0, 1, 2, 65504.0f * 96.0f) \
    row(a, MXFP4,  mxfp4,  39,  32,  17,   0, 1, 1, 2.5e38f) \
    row(a, Q2_K,   q2_k,   10, 256,  84,  80, 2, 2, 65504.0f * 8.0f) \
    row(a, IQ4_XS, iq4_xs, 23, 256, 136,   0, 1, 2, 65504.0f * 1024.0f)

#define KVC_HELD_TYPES(row, a) \
    row(a, FP8,    fp8,     0, 128, 132,   0, 1, 4, 0)
/* clang-format on */

#define KVC_WEIGHT_TYPES(row, a) KVC_PLAIN_TYPES(row, a) KVC_BLOCK_TYPES(row, a)
#define KVC_ALL_BLOCK_TYPES(row, a) KVC_BLOCK_TYPES(row, a) KVC_HELD_TYPES(row, a)
#define KVC_ALL_WEIGHT_TYPES(row, a) KVC_WEIGHT_TYPES(row, a) KVC_HELD_TYPES(row, a)

#endif
