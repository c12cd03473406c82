/* types.c - names and sizes of the element types, from the list in weight_types.h. */
#include "core/base/types.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "core/base/assert.h"
#include "core/base/entry_types.h"
#include "core/base/integers.h"

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

/* The types of cache entries. */
static const struct entry_type {
    enum kvc_type type;
    const char *name;
    uint32_t scales, bits, high;
    bool rotated;
} entry_types[] = {
#define ENTRY_TYPE(a, NAME, name, ...) {KVC_##NAME, #name, __VA_ARGS__},
    KVC_ENTRY_TYPES(ENTRY_TYPE, )};

static const struct entry_type *find_entry_type(enum kvc_type type) {
    for (size_t i = 0; i < sizeof entry_types / sizeof *entry_types; i++)
        if (entry_types[i].type == type)
            return &entry_types[i];
    return NULL;
}

const char *kvc_type_name(enum kvc_type type) {
    const struct entry_type *entry = find_entry_type(type);
    return (unsigned)type < KVC_ALL_TYPES ? types[type].name : entry ? entry->name : "unknown";
}

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

/* ---- cache entries ---- */

uint32_t kvc_entry_row_bytes(enum kvc_type type, uint32_t head_size) {
    const struct entry_type *entry = find_entry_type(type);
    const uint32_t whole = head_size / KVC_ENTRY_GROUP, left = head_size % KVC_ENTRY_GROUP;
    if (!entry)
        return 0;
    if (!entry->scales)
        return entry->bits / 8 * head_size;
    const uint32_t fixed = entry->scales + entry->high;
    if (entry->bits == 8)
        return (whole + (left > 0)) * fixed + head_size;
    return whole * (fixed + KVC_ENTRY_GROUP / 2) + (left ? fixed + kvc_min_u32(left, KVC_ENTRY_GROUP / 2) : 0);
}

uint32_t kvc_entry_group_bytes(enum kvc_type type) {
    const struct entry_type *entry = find_entry_type(type);
    return entry && entry->scales ? entry->scales + entry->high + KVC_ENTRY_GROUP * (entry->bits == 8 ? 8u : 4u) / 8
                                  : 0;
}

bool kvc_type_is_integers(enum kvc_type type) {
    const struct entry_type *entry = find_entry_type(type);
    return entry && entry->scales > 0;
}

bool kvc_type_stores_zero(enum kvc_type type) {
    return find_entry_type(type) && !kvc_type_is_rotated(type) && type != KVC_Q4_1 && type != KVC_IQ4_NL;
}

bool kvc_type_is_rotated(enum kvc_type type) {
    const struct entry_type *entry = find_entry_type(type);
    return entry && entry->rotated;
}

float kvc_rotated_half(enum kvc_type type) {
    const struct entry_type *entry = find_entry_type(type);
    KVC_ASSERT(entry && entry->rotated);
    return (float)(1u << (entry->bits - 1));
}

struct kvc_entry_types kvc_entry_types(enum kvc_type type) {
    return (struct kvc_entry_types){type, type};
}

bool kvc_entry_types_valid(struct kvc_entry_types pair) {
    return find_entry_type(pair.key) && find_entry_type(pair.value);
}

bool kvc_entry_types_equal(struct kvc_entry_types a, struct kvc_entry_types b) {
    return a.key == b.key && a.value == b.value;
}

const char *kvc_entry_types_name(struct kvc_entry_types pair, char text[KVC_ENTRY_TYPES_NAME]) {
    if (pair.key == pair.value)
        snprintf(text, KVC_ENTRY_TYPES_NAME, "%s", kvc_type_name(pair.key));
    else
        snprintf(text, KVC_ENTRY_TYPES_NAME, "k=%s,v=%s", kvc_type_name(pair.key), kvc_type_name(pair.value));
    return text;
}

/* Finds the type whose name is the first `length` characters of `name`. */
static bool entry_type_from_name(const char *name, size_t length, enum kvc_type *type) {
    for (size_t i = 0; i < sizeof entry_types / sizeof *entry_types; i++) {
        if (strlen(entry_types[i].name) == length && strncasecmp(name, entry_types[i].name, length) == 0) {
            *type = entry_types[i].type;
            return true;
        }
    }
    return false;
}

bool kvc_entry_types_from_name(const char *name, struct kvc_entry_types *pair) {
    struct kvc_entry_types found = kvc_entry_types(KVC_ANY_TYPE);
    const char *comma = strchr(name, ',');
    if (!comma) {
        if (!entry_type_from_name(name, strlen(name), &found.key))
            return false;
        *pair = kvc_entry_types(found.key);
        return true;
    }
    const char *side[2] = {name, comma + 1};
    const size_t length[2] = {(size_t)(comma - name), strlen(comma + 1)};
    for (size_t i = 0; i < 2; i++) {
        enum kvc_type *to = side[i][0] == 'k' ? &found.key : &found.value;
        if (length[i] < 2 || !strchr("kv", side[i][0]) || side[i][1] != '=' || *to != KVC_ANY_TYPE ||
            !entry_type_from_name(side[i] + 2, length[i] - 2, to))
            return false;
    }
    *pair = found;
    return true;
}
