/* types.c - names and sizes of the element types, from the list in weight_types.h. */
#include "core/base/types.h"

#include <string.h>
#include <strings.h>

#include "core/base/weight_blocks.h"

static const struct {
    const char *name;
    struct kvc_type_block block;
} types[] = {
#define TYPE(a, NAME, name, gguf, elements, bytes, scale, scales, wide, holds)                                         \
    [KVC_##NAME] = {#name, {elements, bytes, scale, scales, wide}},
    KVC_ALL_WEIGHT_TYPES(TYPE, )};

/* Compile-time checks: the public enum has the list's types in the list's order; the blocks of weight_blocks.h have the
 * list's sizes; every block size divides 256, because all code paths process 256 elements at a time. */
enum {
#define LISTED(a, NAME, ...) LISTED_##NAME,
    KVC_ALL_WEIGHT_TYPES(LISTED, ) LISTED_TYPES
};
_Static_assert((int)LISTED_TYPES == (int)KVC_ALL_TYPES, "enum kvc_type and KVC_ALL_WEIGHT_TYPES differ");
#define SAME_NUMBER(a, NAME, ...)                                                                                      \
    _Static_assert((int)LISTED_##NAME == (int)KVC_##NAME, #NAME ": enum kvc_type and KVC_ALL_WEIGHT_TYPES differ");
KVC_ALL_WEIGHT_TYPES(SAME_NUMBER, )
#define WHOLE(a, NAME, name, gguf, elements, bytes, ...)                                                               \
    _Static_assert(sizeof(struct kvc_block_##name) == (bytes) && 256 % (elements) == 0, #NAME ": block sizes");
KVC_ALL_BLOCK_TYPES(WHOLE, )

const char *kvc_type_name(enum kvc_type type) { return (unsigned)type < KVC_ALL_TYPES ? types[type].name : "unknown"; }

bool kvc_type_from_name(const char *name, enum kvc_type *type) {
    for (unsigned i = 0; i < KVC_TYPES; i++) {
        if (strcasecmp(name, types[i].name) == 0) {
            *type = (enum kvc_type)i;
            return true;
        }
    }
    return false;
}

struct kvc_type_block kvc_type_block(enum kvc_type type) {
    if ((unsigned)type < KVC_ALL_TYPES) {
        return types[type].block;
    }
    return (struct kvc_type_block){0, 0, 0, 0, 0};
}

size_t kvc_type_row_bytes(enum kvc_type type, uint64_t K) {
    struct kvc_type_block block = kvc_type_block(type);
    if (block.elements == 0 || K % block.elements != 0) {
        return 0;
    }
    uint64_t blocks = K / block.elements;
    return blocks > SIZE_MAX / block.bytes ? 0 : (size_t)blocks * block.bytes;
}
