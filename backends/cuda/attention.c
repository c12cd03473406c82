/* attention.c - attention in CUDA's own shape (kernels/read.h): a block reads a tile of one KV head once for several
 * queries; tiles are merged in order by a second launch. What it does not take goes to the shared one. */
#include "backends/cuda/cuda.h"
#include "core/canon.h"

#define KVC_TILE_BYTES ((uint64_t)256 << 20) /* of what tiles leave behind, where one row has not more */
#define KVC_READ_ROWS 16u                    /* of one block, at most */

static enum kvc_cuda_kernel kernel_of(enum kvc_type type, bool wide) {
    return type == KVC_F32   ? wide ? KVC_CUDA_read_f32_16 : KVC_CUDA_read_f32_8
           : type == KVC_F16 ? wide ? KVC_CUDA_read_f16_16 : KVC_CUDA_read_f16_8
                             : wide ? KVC_CUDA_read_q8_0_16 : KVC_CUDA_read_q8_0_8;
}

/* spare: m, l and o of every tile. */
static void some_rows(struct kvc_offload *offload, const struct kvc_attention *a, const struct kvc_segment *segment,
                      uint32_t row, uint32_t rows, uint32_t tiles, struct kvc_buffer *spare, uint32_t read_note) {
    uint32_t group = a->heads / a->kv_heads;
    bool wide = rows * (uint64_t)group > 8;
    uint32_t rows_each = wide && group < KVC_READ_ROWS ? KVC_READ_ROWS / group : 1;
    uint64_t heads = (uint64_t)rows * a->heads * tiles;
    struct kvc_launch tile = kvc_cuda_own(kernel_of(segment->lists->format.type, wide));
    struct kvc_launch merge = kvc_cuda_own(KVC_CUDA_read_merge);
    const struct kvc_span parts[3] = {{spare, 0}, {spare, (size_t)heads * 4}, {spare, (size_t)heads * 8}};
    kvc_launch_lists(&tile, segment->lists);
    kvc_launch_arena(&tile, segment->lists->arena);
    kvc_launch_reads(&tile, segment->reads);
    kvc_launch_span(&tile, a->q);
    kvc_launch_span(&tile, a->positions);
    kvc_launch_span(&tile, a->later);
    kvc_launch_word(&tile, row);
    kvc_launch_word(&tile, a->heads);
    kvc_launch_word(&tile, a->kv_heads);
    kvc_launch_word(&tile, a->window);
    kvc_launch_real(&tile, kvc_attention_scale(a->head_size));
    for (int i = 0; i < 3; i++)
        kvc_launch_span(&tile, parts[i]);
    kvc_launch_word(&tile, tiles);
    kvc_launch_buffer(&tile, &offload->notes);
    kvc_launch_word(&tile, read_note);
    kvc_launch_word(&tile, rows);
    kvc_launch_word(&tile, rows_each);
    kvc_cuda_run(offload, &tile, KVC_GROUP_OF(4), tiles, a->kv_heads, (rows + rows_each - 1) / rows_each);
    for (int i = 0; i < 3; i++)
        kvc_launch_span(&merge, parts[i]);
    kvc_launch_word(&merge, tiles);
    kvc_launch_word(&merge, a->heads);
    kvc_launch_word(&merge, a->head_size);
    kvc_launch_word(&merge, row);
    kvc_launch_span(&merge, a->out);
    kvc_launch_span(&merge, a->maximum);
    kvc_launch_span(&merge, a->maximum.buffer ? a->sum : a->maximum);
    kvc_cuda_run(offload, &merge, KVC_GROUP_OF(4), a->heads, rows, 1);
}

static void one_segment(struct kvc_offload *offload, const struct kvc_attention *a, const struct kvc_segment *segment) {
    uint64_t most = segment->reads ? segment->reads->stride : kvc_offload_most_slots(segment->lists);
    uint32_t tiles = (uint32_t)((most + KVC_TILE - 1) / KVC_TILE);
    uint64_t row_bytes = (uint64_t)a->heads * tiles * (2 + (uint64_t)a->head_size) * 4;
    uint64_t at_once = row_bytes ? KVC_TILE_BYTES / row_bytes : segment->rows;
    at_once = at_once < 1 ? 1 : at_once > segment->rows ? segment->rows : at_once > 4096 ? 4096 : at_once;
    for (uint32_t row = 0; row < segment->rows; row += (uint32_t)at_once) {
        uint32_t rows = segment->rows - row < at_once ? segment->rows - row : (uint32_t)at_once;
        struct kvc_buffer *spare = kvc_offload_spare(offload, at_once * row_bytes);
        if (!spare)
            return;
        some_rows(offload, a, segment, segment->row + row, rows, tiles, spare,
                  kvc_offload_read_notes(offload, 1, segment->bytes_read,
                                         2 * (uint64_t)segment->lists->format.row_bytes, 1));
    }
}

void kvc_cuda_attention(struct kvc_device *device, const struct kvc_attention *a) {
    struct kvc_offload *offload = (struct kvc_offload *)device;
    for (size_t i = 0; i < a->segment_count; i++) {
        struct kvc_attention one = *a;
        one.segments = &a->segments[i];
        one.segment_count = 1;
        if (a->head_size % 8 || a->head_size > 256 || one.segments->lists->format.row_bytes % 4 ||
            (uintptr_t)kvc_cuda_data(a->q) % 16)
            kvc_offload_attention(device, &one);
        else
            one_segment(offload, a, one.segments);
    }
}
