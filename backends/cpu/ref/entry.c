/* entry.c - stores a key or a value in its type (core/base/entry_types.h), loads it back as float32, and multiplies a
 * query by a key. */
#include <string.h>

#include "core/base/entry_types.h"
#include "core/base/integers.h"
#include "backends/cpu/ref/ref.h"

/* ---- groups ---- */

/* Loads a group of a row of d channels. Returns its number of channels. */
static uint32_t load_group(enum kvc_type type, const unsigned char *row, uint32_t d, uint32_t group,
                           struct kvc_ref_group *to) {
    const unsigned char *at = row + (size_t)group * kvc_entry_group_bytes(type);
    const uint32_t n = kvc_min_u32(d - group * KVC_ENTRY_GROUP, KVC_ENTRY_GROUP);
    const unsigned char *q = at + (type == KVC_Q4_1 ? 4 : 2), *high = q + kvc_min_u32(n, 16);
    to->scale = KVC_HALF(at);
    to->minimum = type == KVC_Q4_1 ? KVC_HALF(at + 2) : 0.0f;
    for (uint32_t e = 0; e < n; e++)
        to->quant[e] = type == KVC_Q8_0           ? (kvc_i8)q[e]
                       : KVC_LOOKS_UP(KVC_, type) ? kvc_iq4_value(KVC_CODE4(q, e))
                       : type == KVC_Q4_1         ? KVC_CODE4(q, e)
                       : type == KVC_Q5H          ? KVC_CODE5(q, high, e) - 16
                       : type == KVC_Q6H          ? KVC_CODE6(q, high, e) - 32
                                                  : KVC_CODE4(q, e) - 8;
    return n;
}

uint32_t KVC_REF(load_integers)(enum kvc_type type, const unsigned char *row, uint32_t d, uint32_t group,
                                struct kvc_ref_group *to) {
    const uint32_t n = load_group(type, row, d, group, to);
    const struct kvc_levels levels = kvc_levels_of(to->scale, to->minimum);
    if (type != KVC_Q4_1)
        return n;
    to->scale = levels.scale;
    for (uint32_t e = 0; e < n; e++)
        to->quant[e] = kvc_level(levels, to->quant[e]);
    return n;
}

static void store_u16(unsigned char *at, kvc_u16 bits) {
    at[0] = (unsigned char)(bits & 0xff);
    at[1] = (unsigned char)(bits >> 8);
}

/* Stores the code of channel e in a group of n channels. The group's bytes must be zero before the first call. */
static void store_code(enum kvc_type type, unsigned char *q, uint32_t n, uint32_t e, int code) {
    unsigned char *high = q + kvc_min_u32(n, 16);
    if (type == KVC_Q8_0) {
        q[e] = (unsigned char)code;
        return;
    }
    q[e % 16] = (unsigned char)(q[e % 16] | (code & 15) << e / 16 * 4);
    if (type == KVC_Q5H)
        high[e / 8] = (unsigned char)(high[e / 8] | code >> 4 << e % 8);
    if (type == KVC_Q6H)
        high[e % 8] = (unsigned char)(high[e % 8] | code >> 4 << e / 8 * 2);
}

/* Returns the code that is stored for x. */
static int code_of(enum kvc_type type, float x, float scale, float minimum) {
    switch (type) {
    case KVC_Q8_0:
        return kvc_group_quant(x, scale, -127.0f, 127.0f);
    case KVC_IQ4_NL:
        return kvc_group_iq4(x, scale);
    case KVC_Q4H:
        return kvc_q4h_code(x, kvc_q4h_inverse(scale));
    case KVC_Q4_1:
        return kvc_group_quant(x - minimum, scale, 0.0f, 15.0f);
    case KVC_Q5H:
        return kvc_group_quant(x, scale, -16.0f, 15.0f) + 16;
    case KVC_Q6H:
        return kvc_group_quant(x, scale, -32.0f, 31.0f) + 32;
    default:
        return kvc_group_quant(x, scale, -8.0f, 7.0f) + 8;
    }
}

/* Stores n values, at most one group. Returns 1 if the scale or the minimum saturated, otherwise 0. */
static uint32_t store_group(enum kvc_type type, unsigned char *group, const float *x, uint32_t n) {
    float least = x[0], largest = x[0], minimum = 0.0f, top, by;
    unsigned char *q = group + (type == KVC_Q4_1 ? 4 : 2);
    bool nan = false;
    for (uint32_t i = 0; i < n; i++) {
        least = x[i] < least ? x[i] : least;
        largest = x[i] > largest ? x[i] : largest;
        nan = nan || kvc_is_nan(x[i]);
    }
    top = kvc_group_top(least, largest);
    by = type == KVC_Q5H ? -16.0f : type == KVC_Q6H ? -32.0f : type == KVC_IQ4_NL ? -127.0f : -8.0f;
    if (type == KVC_Q4H)
        by = kvc_q4h_best(x, (int)n, top);
    if (type == KVC_Q8_0) {
        top = kvc_max(-least, largest);
        by = 127.0f;
    } else if (type == KVC_Q4_1) {
        top = largest - least;
        by = 15.0f;
    }
    const kvc_u16 half = nan ? KVC_Q8_NAN_SCALE : kvc_group_scale(top, by);
    const bool saturates = !nan && (kvc_group_saturates(top, by) || (type == KVC_Q4_1 && kvc_f16_saturates(least)));
    const float scale = kvc_f16_to_f32(half);
    store_u16(group, half);
    if (type == KVC_Q4_1) {
        const kvc_u16 bits = nan ? KVC_Q8_NAN_SCALE : kvc_f16_store(least);
        minimum = kvc_f16_to_f32(bits);
        store_u16(group + 2, bits);
    }
    memset(q, 0, kvc_entry_row_bytes(type, n) - (size_t)(q - group));
    for (uint32_t e = 0; e < n; e++)
        store_code(type, q, n, e, code_of(type, x[e], scale, minimum));
    return saturates;
}

void KVC_REF(round_group)(enum kvc_type type, const float *x, uint32_t n, float *out) {
    unsigned char bytes[KVC_GROUP_Q6H]; /* the longest */
    struct kvc_ref_group group;
    KVC_ASSERT(kvc_type_is_rotated(type) && n <= KVC_ENTRY_GROUP);
    (void)store_group(type, bytes, x, n);
    (void)load_group(type, bytes, n, 0, &group);
    for (uint32_t e = 0; e < n; e++)
        out[e] = group.scale * (float)group.quant[e];
}

/* ---- rows ---- */

static void load_row(enum kvc_type type, const unsigned char *row, uint32_t d, float *out) {
    struct kvc_ref_group group;
    if (type == KVC_F32) {
        memcpy(out, row, d * sizeof *out);
        return;
    }
    for (uint32_t i = 0; i < d && type == KVC_F16; i++)
        out[i] = KVC_HALF(row + 2 * i);
    for (uint32_t i = 0; i < d && type == KVC_BF16; i++)
        out[i] = kvc_bf16_to_f32(KVC_LOAD_U16(row + 2 * i));
    for (uint32_t g = 0; g * KVC_ENTRY_GROUP < d && kvc_entry_group_bytes(type); g++) {
        const uint32_t n = load_group(type, row, d, g, &group);
        for (uint32_t e = 0; e < n; e++)
            out[g * KVC_ENTRY_GROUP + e] = type == KVC_Q4_1 ? kvc_fma(group.scale, (float)group.quant[e], group.minimum)
                                                            : group.scale * (float)group.quant[e];
    }
}

static uint32_t store_row(enum kvc_type type, unsigned char *row, uint32_t d, const float *x) {
    uint32_t saturated = 0;
    if (type == KVC_F32) {
        memcpy(row, x, d * sizeof *x);
        return 0;
    }
    for (uint32_t i = 0; i < d && type == KVC_F16; i++) {
        store_u16(row + 2 * i, kvc_f16_store(x[i]));
        saturated += kvc_f16_saturates(x[i]) ? 1 : 0;
    }
    for (uint32_t i = 0; i < d && type == KVC_BF16; i++)
        store_u16(row + 2 * i, kvc_f32_to_bf16(x[i]));
    for (uint32_t g = 0; g * KVC_ENTRY_GROUP < d && kvc_entry_group_bytes(type); g++)
        saturated += store_group(type, row + (size_t)g * kvc_entry_group_bytes(type), x + g * KVC_ENTRY_GROUP,
                                 kvc_min_u32(d - g * KVC_ENTRY_GROUP, KVC_ENTRY_GROUP));
    return saturated;
}

void KVC_REF(load_key)(const struct kvc_lists *lists, uint32_t h, uint32_t slot, float *out) {
    load_row(lists->format.key.type, kvc_list_key(lists, h, slot), lists->format.head_size, out);
}

void KVC_REF(load_value)(const struct kvc_lists *lists, uint32_t h, uint32_t slot, float *out) {
    load_row(lists->format.value.type, kvc_list_value(lists, h, slot), lists->format.head_size, out);
}

uint32_t KVC_REF(store_key)(const struct kvc_lists *lists, uint32_t h, uint32_t slot, const float *x) {
    return store_row(lists->format.key.type, kvc_list_key(lists, h, slot), lists->format.head_size, x);
}

uint32_t KVC_REF(store_value)(const struct kvc_lists *lists, uint32_t h, uint32_t slot, const float *x) {
    return store_row(lists->format.value.type, kvc_list_value(lists, h, slot), lists->format.head_size, x);
}

/* ---- queries ---- */

struct kvc_ref_query KVC_REF(open_query)(struct kvc_scoring scoring, const struct kvc_entry_format *format,
                                         const float *q, float *memory) {
    const uint32_t d = format->head_size;
    struct kvc_ref_query query = {.q = q};
    if (!kvc_scores_integers(scoring, format))
        return query;
    query.quant = (kvc_i32 *)(void *)memory;
    query.scale = memory + d;
    for (uint32_t first = 0; first < d; first += KVC_Q8_GROUP) {
        const uint32_t end = kvc_min_u32(d, first + KVC_Q8_GROUP);
        kvc_u32 top = 0;
        for (uint32_t c = first; c < end; c++)
            top = kvc_int8_top(top, q[c]);
        query.scale[first / KVC_Q8_GROUP] = kvc_int8_scale(top);
        for (uint32_t c = first; c < end; c++)
            query.quant[c] = kvc_int8_quant(q[c], kvc_int8_inverse(top));
    }
    return query;
}

float KVC_REF(dot_key)(const struct kvc_ref_query *query, const struct kvc_lists *lists, uint32_t h, uint32_t slot,
                       const float *key) {
    const uint32_t d = lists->format.head_size;
    const unsigned char *row = kvc_list_key(lists, h, slot);
    struct kvc_ref_group group;
    float dot = 0.0f;
    if (!query->quant)
        return kvc_ref_dot(query->q, key, d);
    for (uint32_t g = 0; g * KVC_Q8_GROUP < d; g++) {
        const uint32_t n = KVC_REF(load_integers)(lists->format.key.type, row, d, g, &group);
        kvc_i32 sum = 0;
        for (uint32_t e = 0; e < n; e++)
            sum += query->quant[g * KVC_Q8_GROUP + e] * group.quant[e];
        dot = kvc_int8_add(group.scale, query->scale[g], sum, dot);
    }
    return dot;
}
