/* types.h - element types of weights: names, block sizes and the bytes of a row. It needs only libc. */
#ifndef KVC_CORE_BASE_TYPES_H
#define KVC_CORE_BASE_TYPES_H

#include "core/base/entry_types.h"
#include "core/base/weight_types.h"
#include "kvcull.h"

struct kvc_type_block {
    uint32_t elements; /* per block; a row is a whole number of blocks */
    uint32_t bytes;    /* per block */
    uint32_t scale;    /* offset of the first scale */
    uint32_t scales;   /* number of consecutive scales */
    uint32_t wide;     /* bytes per scale: 2 for F16, 1 for a power of two, 4 for float32 */
};

struct kvc_type_block kvc_type_block(enum kvc_type type);

/* Returns the bytes of one row of K elements. Returns 0 if K is 0 or not a multiple of the type's block, or if the size
 * overflows. */
size_t kvc_type_row_bytes(enum kvc_type type, uint64_t K);

/* The names of all file types as one string literal: "F32, F16, ...". */
#define KVC_TYPE_COMMA(a, NAME, name, ...) ", " #NAME
#define KVC_TYPE_LIST (&KVC_WEIGHT_TYPES(KVC_TYPE_COMMA, )[2])

/* ---- cache entries (entry_types.h) ---- */

/* Returns the bytes of a key or a value of `head_size` channels, or 0 if cache entries cannot have the type. */
uint32_t kvc_entry_row_bytes(enum kvc_type type, uint32_t head_size);
/* Returns the bytes of a group of KVC_ENTRY_GROUP channels, or 0 if the type has no groups. */
uint32_t kvc_entry_group_bytes(enum kvc_type type);
/* Returns true if the quants of the type are integers of eight bits or fewer. */
bool kvc_type_is_integers(enum kvc_type type);
/* Returns true if any channel of an entry can become 0 while the others keep their bits. */
bool kvc_type_stores_zero(enum kvc_type type);
/* Returns `half` of a rotated type: its quants are -half .. half - 1. */
float kvc_rotated_half(enum kvc_type type);

/* The names of the types as one string literal: " f32 f16 ...". */
#define KVC_ENTRY_TYPE_NAME(a, NAME, name, ...) " " #name
#define KVC_ENTRY_TYPE_LIST KVC_ENTRY_TYPES(KVC_ENTRY_TYPE_NAME, )
#define KVC_ENTRY_TYPES_WANTED "keys and values cannot have this type: must be one of" KVC_ENTRY_TYPE_LIST

#endif
