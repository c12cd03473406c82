/* attention.c - attention: each segment needs one launch that computes tiles and one launch that merges them. Segments
 * are divided into groups of rows, so that the results of tiles stay small. */
#include "core/base/assert.h"
#include "core/base/integers.h"
#include "backends/offload/offload.h"
#include "core/base/canon.h"

uint64_t kvc_offload_query_bytes(struct kvc_scoring scoring, const struct kvc_entry_format *format, uint64_t queries) {
    const uint64_t groups = (format->head_size + KVC_Q8_GROUP - 1) / KVC_Q8_GROUP;
    return kvc_scores_integers(scoring, format) ? queries * groups * (KVC_Q8_GROUP + sizeof(float)) : 0;
}

struct kvc_offload_queries kvc_offload_quantize_queries(struct kvc_offload *offload, struct kvc_scoring scoring,
                                                        const struct kvc_entry_format *format, struct kvc_span q,
                                                        uint64_t queries, struct kvc_buffer *workspace, uint64_t at) {
    const uint32_t d = format->head_size, groups = (d + KVC_Q8_GROUP - 1) / KVC_Q8_GROUP;
    const uint64_t all = queries * groups;
    struct kvc_offload_queries to = {{NULL, 0}, {NULL, 0}};
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_quantize_queries);
    if (!kvc_scores_integers(scoring, format))
        return to;
    KVC_ASSERT(at % 4 == 0 && at + all * (KVC_Q8_GROUP + sizeof(float)) <= workspace->bytes);
    to.quant = (struct kvc_span){workspace, (size_t)at};
    to.scale = (struct kvc_span){workspace, (size_t)(at + all * KVC_Q8_GROUP)};
    KVC_PUSH(&launch, q, to.quant, to.scale, d, groups, all);
    kvc_launch_items(offload, &launch, all, 1, 1);
    return to;
}

/* Computes attention for `rows` rows. The workspace holds the quantized queries, and m, l and o of every tile. */
static void some_rows(struct kvc_offload *offload, const struct kvc_attention *a, const struct kvc_segment *segment,
                      uint32_t row, uint32_t rows, uint32_t tiles, struct kvc_buffer *workspace, uint32_t read_word,
                      const struct kvc_attention_shape *shape) {
    uint64_t heads = (uint64_t)rows * a->heads * tiles;
    struct kvc_launch tile = kvc_launch_of(KVC_KERNEL_attention_tile_f32);
    struct kvc_launch merge = kvc_launch_of(KVC_KERNEL_attention_merge);
    const struct kvc_entry_format *format = &segment->lists->format;
    const struct kvc_span q = {a->q.buffer, a->q.offset + (size_t)row * a->heads * a->head_size * sizeof(float)};
    const struct kvc_offload_queries queries =
        kvc_offload_quantize_queries(offload, a->scoring, format, q, (uint64_t)rows * a->heads, workspace, 0);
    const size_t at = (size_t)kvc_offload_query_bytes(a->scoring, format, (uint64_t)rows * a->heads);
    const struct kvc_span parts[3] = {
        {workspace, at}, {workspace, at + (size_t)heads * 4}, {workspace, at + (size_t)heads * 8}};
    KVC_PUSH(&tile, segment->lists, segment->lists->arena, segment->reads, a->q, a->positions, a->causal_offset, row,
             a->heads, a->kv_heads, a->window, kvc_score_scale(a->scoring.scale, a->head_size), a->scoring.cap);
    for (int i = 0; i < 3; i++)
        kvc_launch_span(&tile, parts[i]);
    KVC_PUSH(&tile, tiles, &offload->status_words, read_word);
    if (kvc_scores_integers(a->scoring, format))
        KVC_PUSH(&tile, queries.quant, queries.scale);
    shape->tile(offload, &tile, a, format, rows, tiles);
    for (int i = 0; i < 3; i++)
        kvc_launch_span(&merge, parts[i]);
    KVC_PUSH(&merge, tiles, a->heads, a->head_size, row, a->out, a->maximum, a->maximum.buffer ? a->sum : a->maximum,
             a->sinks);
    shape->merge(offload, &merge, a->heads, rows);
}

void kvc_offload_attend(struct kvc_offload *offload, const struct kvc_attention *a, const struct kvc_segment *segment,
                        const struct kvc_attention_shape *shape) {
    uint64_t most = segment->reads ? segment->reads->stride : kvc_offload_most_slots(segment->lists);
    uint32_t tiles = (uint32_t)((most + KVC_TILE - 1) / KVC_TILE);
    uint64_t row_bytes = (uint64_t)a->heads * tiles * (2 + (uint64_t)a->head_size) * 4 +
                         kvc_offload_query_bytes(a->scoring, &segment->lists->format, a->heads);
    uint64_t at_once = row_bytes ? shape->bytes / row_bytes : segment->rows;
    at_once = at_once < 1 ? 1 : at_once > segment->rows ? segment->rows : kvc_min_u64(at_once, 4096);
    for (uint32_t row = 0; row < segment->rows; row += (uint32_t)at_once) {
        uint32_t rows = segment->rows - row < at_once ? segment->rows - row : (uint32_t)at_once;
        struct kvc_buffer *workspace = kvc_offload_workspace(offload, at_once * row_bytes);
        uint64_t entry_bytes = kvc_entry_bytes(&segment->lists->format);
        if (!workspace)
            return;
        some_rows(offload, a, segment, segment->row + row, rows, tiles, workspace,
                  kvc_offload_read_status(offload, 1, segment->bytes_read, entry_bytes, 1), shape);
    }
}

/* ---- the launch shape of the shared kernels ---- */

static void run_tile(struct kvc_offload *offload, struct kvc_launch *tile, const struct kvc_attention *a,
                     const struct kvc_entry_format *format, uint32_t rows, uint32_t tiles) {
    const enum kvc_type type = format->key.type == format->value.type ? format->key.type : KVC_ANY_TYPE;
    if (kvc_scores_integers(a->scoring, format))
        tile->kernel = type == KVC_Q8_0 ? KVC_KERNEL_attention_tile_int8 : KVC_KERNEL_attention_tile_int8_mixed;
    else
        tile->kernel = type == KVC_F32    ? KVC_KERNEL_attention_tile_f32
                       : type == KVC_F16  ? KVC_KERNEL_attention_tile_f16
                       : type == KVC_Q8_0 ? KVC_KERNEL_attention_tile_q8_0
                                          : KVC_KERNEL_attention_tile_mixed;
    kvc_launch_groups(offload, tile, tiles, a->kv_heads, rows);
}

static void run_merge(struct kvc_offload *offload, struct kvc_launch *merge, uint32_t heads, uint32_t rows) {
    kvc_launch_groups(offload, merge, heads, rows, 1);
}

void kvc_offload_attention(struct kvc_device *device, const struct kvc_attention *a) {
    KVC_ASSERT(a->heads % a->kv_heads == 0 && !a->maximum.buffer == !a->sum.buffer);
    static const struct kvc_attention_shape shape = {(uint64_t)64 << 20, run_tile, run_merge};
    for (size_t i = 0; i < a->segment_count; i++)
        kvc_offload_attend((struct kvc_offload *)device, a, &a->segments[i], &shape);
}
