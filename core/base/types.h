/* types.h - element types of weights: names, block sizes and the bytes of a row. libc only. */
#ifndef KVC_CORE_BASE_TYPES_H
#define KVC_CORE_BASE_TYPES_H

#include "core/base/weight_types.h"
#include "kvcull.h"

struct kvc_type_block {
    uint32_t elements; /* in one block; a row is a whole number of blocks */
    uint32_t bytes;    /* of one block */
    uint32_t scale;    /* where its first scale lies; */
    uint32_t scales;   /* so many side by side, */
    uint32_t wide;     /* each of so many bytes: 2, F16; 1, a power of two; 4, a float32 */
};

struct kvc_type_block kvc_type_block(enum kvc_type type);

/* Bytes of one row of K elements; 0 where K does not fit the type's block, where K is 0 or where the size overflows. */
size_t kvc_type_row_bytes(enum kvc_type type, uint64_t K);

/* All names of types of files as one string literal, as the format writes them: "F32, F16, ...". */
#define KVC_TYPE_COMMA(a, NAME, name, ...) ", " #NAME
#define KVC_TYPE_LIST (&KVC_WEIGHT_TYPES(KVC_TYPE_COMMA, )[2])

#endif
