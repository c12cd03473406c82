/* types.h - element types of weights: names, block sizes and the bytes of a row. libc only. */
#ifndef KVC_CORE_BASE_TYPES_H
#define KVC_CORE_BASE_TYPES_H

#include "kvcull.h"

struct kvc_type_block {
    uint32_t elements; /* in one block; a row is a whole number of blocks */
    uint32_t bytes;    /* of one block */
};

struct kvc_type_block kvc_type_block(enum kvc_type type);

/* Bytes of one row of K elements; 0 where K does not fit the type's block (K % 32 for Q8_0, Q4_0, Q5_0 and % 256 for
 * the K types), where K is 0 or where the size overflows. */
size_t kvc_type_row_bytes(enum kvc_type type, uint64_t K);

#endif
