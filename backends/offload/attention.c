/* attention.c - attention: for each segment one launch over tiles and one launch that merges them. Segments are divided
 * into groups of rows, so that the results of tiles stay small. */
#include "core/base/assert.h"
#include "core/base/integers.h"
#include "backends/offload/offload.h"
#include "core/base/canon.h"

/* Computes attention for `rows` rows. The workspace holds m, l and o of every tile. */
static void some_rows(struct kvc_offload *offload, const struct kvc_attention *a, const struct kvc_segment *segment,
                      uint32_t row, uint32_t rows, uint32_t tiles, struct kvc_buffer *workspace, uint32_t read_word,
                      const struct kvc_attention_shape *shape) {
    uint64_t heads = (uint64_t)rows * a->heads * tiles;
    struct kvc_launch tile = kvc_launch_of(KVC_KERNEL_attention_tile_f32);
    struct kvc_launch merge = kvc_launch_of(KVC_KERNEL_attention_merge);
    const struct kvc_span parts[3] = {{workspace, 0}, {workspace, (size_t)heads * 4}, {workspace, (size_t)heads * 8}};
    KVC_PUSH(&tile, segment->lists, segment->lists->arena, segment->reads, a->q, a->positions, a->causal_offset, row,
             a->heads, a->kv_heads, a->window, kvc_score_scale(a->scoring.scale, a->head_size), a->scoring.cap);
    for (int i = 0; i < 3; i++)
        kvc_launch_span(&tile, parts[i]);
    KVC_PUSH(&tile, tiles, &offload->status_words, read_word);
    shape->tile(offload, &tile, a, segment->lists->format.type, rows, tiles);
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
    uint64_t row_bytes = (uint64_t)a->heads * tiles * (2 + (uint64_t)a->head_size) * 4;
    uint64_t at_once = row_bytes ? shape->bytes / row_bytes : segment->rows;
    at_once = at_once < 1 ? 1 : at_once > segment->rows ? segment->rows : kvc_min_u64(at_once, 4096);
    for (uint32_t row = 0; row < segment->rows; row += (uint32_t)at_once) {
        uint32_t rows = segment->rows - row < at_once ? segment->rows - row : (uint32_t)at_once;
        struct kvc_buffer *workspace = kvc_offload_workspace(offload, at_once * row_bytes);
        uint64_t entry_bytes = 2 * (uint64_t)segment->lists->format.row_bytes;
        if (!workspace)
            return;
        some_rows(offload, a, segment, segment->row + row, rows, tiles, workspace,
                  kvc_offload_read_status(offload, 1, segment->bytes_read, entry_bytes, 1), shape);
    }
}

/* ---- the launch shape of the shared kernels ---- */

static void run_tile(struct kvc_offload *offload, struct kvc_launch *tile, const struct kvc_attention *a,
                     enum kvc_type type, uint32_t rows, uint32_t tiles) {
    tile->kernel = type == KVC_F32   ? KVC_KERNEL_attention_tile_f32
                   : type == KVC_F16 ? KVC_KERNEL_attention_tile_f16
                                     : KVC_KERNEL_attention_tile_q8_0;
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
