/* types.c - names and sizes of the element types. */
#include "core/base/types.h"

#include <string.h>

static const struct {
    const char *name;
    struct kvc_type_block block;
} types[KVC_TYPES] = {
    [KVC_F32] = {"f32", {1, 4}},       [KVC_F16] = {"f16", {1, 2}},
    [KVC_BF16] = {"bf16", {1, 2}},     [KVC_Q8_0] = {"q8_0", {32, 34}}, /* half scale, 32 int8 */
    [KVC_Q4_0] = {"q4_0", {32, 18}},                                    /* half scale, 16 bytes of nibbles */
    [KVC_Q5_0] = {"q5_0", {32, 22}},   /* half scale, 4 bytes of fifth bits, 16 bytes of nibbles */
    [KVC_Q3_K] = {"q3_k", {256, 110}}, /* 32 third bits, 64 low bits, 12 of 6-bit scales, half scale */
    [KVC_Q4_K] = {"q4_k", {256, 144}}, /* half scale and minimum, 12 of 6-bit pairs, 128 nibbles */
    [KVC_Q5_K] = {"q5_k", {256, 176}}, /* as q4_k with 32 bytes of fifth bits */
    [KVC_Q6_K] = {"q6_k", {256, 210}}, /* 128 low nibbles, 64 high bits, 16 int8 scales, half scale */
};

const char *kvc_type_name(enum kvc_type type) { return (unsigned)type < KVC_TYPES ? types[type].name : "unknown"; }

bool kvc_type_from_name(const char *name, enum kvc_type *type) {
    for (unsigned i = 0; i < KVC_TYPES; i++) {
        if (strcmp(name, types[i].name) == 0) {
            *type = (enum kvc_type)i;
            return true;
        }
    }
    return false;
}

struct kvc_type_block kvc_type_block(enum kvc_type type) {
    if ((unsigned)type < KVC_TYPES) {
        return types[type].block;
    }
    return (struct kvc_type_block){0, 0};
}

size_t kvc_type_row_bytes(enum kvc_type type, uint64_t K) {
    struct kvc_type_block block = kvc_type_block(type);
    if (block.elements == 0 || K % block.elements != 0) {
        return 0;
    }
    uint64_t blocks = K / block.elements;
    return blocks > SIZE_MAX / block.bytes ? 0 : (size_t)blocks * block.bytes;
}
