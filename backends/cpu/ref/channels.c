/* channels.c - sets those channels of keys to 0 that contribute least to the scores of queries. */
#include <string.h>

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/base/types.h"
#include "backends/cpu/ref/ref.h"

/* Computes b [d], the sums of the squares of a head's keys. tile [d] and key [d] are scratch. */
static void add_squares(const struct kvc_prune_channels *args, uint32_t h, float *b, float *tile, float *key) {
    const struct kvc_lists *lists = args->lists;
    const uint32_t count = kvc_list_count(lists, h), d = lists->format.head_size;
    memset(b, 0, d * sizeof *b);
    for (uint32_t first = 0; first < count; first += KVC_TILE) {
        memset(tile, 0, d * sizeof *tile);
        for (uint32_t index = first; index < count && index < first + KVC_TILE; index++) {
            const uint32_t slot = kvc_list_slot(lists, h, index);
            if (kvc_list_position(lists, h, slot) < args->oldest)
                continue;
            KVC_REF(load_key)(lists, h, slot, key);
            for (uint32_t c = 0; c < d; c++)
                tile[c] = kvc_fma(key[c], key[c], tile[c]);
        }
        for (uint32_t c = 0; c < d; c++)
            b[c] = b[c] + tile[c];
    }
}

/* Multiplies b [d] by a [d], the sums of the squares of the group's queries. */
static void weigh_squares(const struct kvc_prune_channels *args, uint32_t h, float *b) {
    const uint32_t d = args->lists->format.head_size, group = args->heads / args->lists->kv_heads;
    const float *q = kvc_span_data(args->q);
    for (uint32_t c = 0; c < d; c++) {
        float a = 0.0f;
        for (uint32_t row = 0; row < args->queries; row++)
            for (uint32_t g = 0; g < group; g++) {
                const float x = q[((size_t)row * args->heads + h * group + g) * d + c];
                a = kvc_fma(x, x, a);
            }
        b[c] = a * b[c];
    }
}

/* Returns the number of channels that rank above channel c. */
static uint32_t rank_of(const float *score, uint32_t c, uint32_t d) {
    const uint32_t key = kvc_score_key(score[c]);
    uint32_t above = 0;
    for (uint32_t other = 0; other < d; other++) {
        const uint32_t theirs = kvc_score_key(score[other]);
        above += theirs > key || (theirs == key && other < c);
    }
    return above;
}

static void zero_channel(enum kvc_type type, unsigned char *row, uint32_t c) {
    const uint32_t bytes = type == KVC_F32 ? 4 : 2, e = c % KVC_ENTRY_GROUP, shift = e / 16 * 4;
    unsigned char *const quants = row + (size_t)(c / KVC_ENTRY_GROUP) * kvc_entry_group_bytes(type) + 2;
    if (type == KVC_Q8_0)
        quants[e] = 0;
    else if (type == KVC_Q4_0)
        quants[e % 16] = (unsigned char)((quants[e % 16] & ~(15u << shift)) | 8u << shift);
    else
        memset(row + (size_t)c * bytes, 0, bytes);
}

static void zero_channels(const struct kvc_prune_channels *args, uint32_t h, const float *score) {
    const struct kvc_lists *lists = args->lists;
    const uint32_t d = lists->format.head_size;
    for (uint32_t c = 0; c < d; c++) {
        if (rank_of(score, c, d) < d - args->channels)
            continue;
        for (uint32_t index = 0; index < kvc_list_count(lists, h); index++) {
            const uint32_t slot = kvc_list_slot(lists, h, index);
            const int32_t position = kvc_list_position(lists, h, slot);
            if (position >= args->oldest && position < args->end)
                zero_channel(lists->format.key.type, kvc_list_key(lists, h, slot), c);
        }
    }
}

void KVC_REF(prune_channels)(struct kvc_device *device, const struct kvc_prune_channels *args) {
    const uint32_t d = args->lists->format.head_size;
    float *score = kvc_cpu_scratch((struct kvc_cpu *)device, 0, 3 * (size_t)d * sizeof *score);
    KVC_ASSERT(args->channels <= d && kvc_type_stores_zero(args->lists->format.key.type));
    if (!score)
        return;
    for (uint32_t h = 0; h < args->lists->kv_heads; h++) {
        add_squares(args, h, score, score + d, score + 2 * (size_t)d);
        weigh_squares(args, h, score);
        zero_channels(args, h, score);
    }
}
