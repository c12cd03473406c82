/* entry.c - stores one cache row in the entry format, loads it back as float32, and multiplies a query by a key. */
#include <string.h>

#include "core/base/integers.h"
#include "backends/cpu/ref/ref.h"

void KVC_REF(load_entry)(const struct kvc_entry_format *format, const unsigned char *row, float *out) {
    uint32_t d = format->head_size;
    if (format->type == KVC_F32) {
        memcpy(out, row, d * sizeof *out);
        return;
    }
    if (format->type == KVC_F16) {
        for (uint32_t i = 0; i < d; i++)
            out[i] = kvc_f16_to_f32(KVC_LOAD_U16(row + 2 * i));
        return;
    }
    for (uint32_t first = 0; first < d; first += KVC_Q8_GROUP) {
        const unsigned char *group = row + (size_t)first / KVC_Q8_GROUP * (2 + KVC_Q8_GROUP);
        float scale = kvc_f16_to_f32(KVC_LOAD_U16(group));
        for (uint32_t i = first; i < d && i < first + KVC_Q8_GROUP; i++)
            out[i] = scale * (float)(kvc_i8)group[2 + i - first];
    }
}

static void store_half(unsigned char *at, kvc_u16 half) {
    at[0] = (unsigned char)(half & 0xff);
    at[1] = (unsigned char)(half >> 8);
}

/* Stores `count` values, at most one group. Returns 1 if the scale saturated. */
static uint32_t store_group(unsigned char *group, const float *x, uint32_t count) {
    float amax = 0.0f, scale;
    bool nan = false;
    for (uint32_t i = 0; i < count; i++) {
        amax = kvc_q8_amax(amax, x[i]);
        nan = nan || kvc_is_nan(x[i]);
    }
    if (nan) {
        store_half(group, KVC_Q8_NAN_SCALE);
        memset(group + 2, 0, count);
        return 0;
    }
    store_half(group, kvc_q8_scale(amax));
    scale = kvc_f16_to_f32(kvc_q8_scale(amax));
    for (uint32_t i = 0; i < count; i++)
        group[2 + i] = (unsigned char)kvc_q8_quant(x[i], scale);
    return kvc_q8_saturates(amax) ? 1 : 0;
}

uint32_t KVC_REF(store_entry)(const struct kvc_entry_format *format, unsigned char *row, const float *x) {
    uint32_t d = format->head_size, saturated = 0;
    if (format->type == KVC_F32) {
        memcpy(row, x, d * sizeof *x);
        return 0;
    }
    if (format->type == KVC_F16) {
        for (uint32_t i = 0; i < d; i++) {
            store_half(row + 2 * i, kvc_f16_store(x[i]));
            saturated += kvc_f16_saturates(x[i]) ? 1 : 0;
        }
        return saturated;
    }
    for (uint32_t first = 0; first < d; first += KVC_Q8_GROUP)
        saturated += store_group(row + (size_t)first / KVC_Q8_GROUP * (2 + KVC_Q8_GROUP), x + first,
                                 kvc_min_u32(d - first, KVC_Q8_GROUP));
    return saturated;
}

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

float KVC_REF(dot_key)(const struct kvc_ref_query *query, const unsigned char *row, const float *key, uint32_t d) {
    float dot = 0.0f;
    if (!query->quant)
        return kvc_ref_dot(query->q, key, d);
    for (uint32_t first = 0; first < d; first += KVC_Q8_GROUP, row += 2 + KVC_Q8_GROUP) {
        kvc_i32 sum = 0;
        for (uint32_t c = first; c < d && c < first + KVC_Q8_GROUP; c++)
            sum += query->quant[c] * (kvc_i8)row[2 + c - first];
        dot = kvc_int8_add(KVC_HALF(row), query->scale[first / KVC_Q8_GROUP], sum, dot);
    }
    return dot;
}
