/* rows.c - operations on rows of values: embed, norm, linear, rope, gated_silu, add, gather. */
#include "backends/offload/offload.h"
#include "core/base/types.h"

static struct kvc_offload *of(struct kvc_device *device) { return (struct kvc_offload *)device; }

uint64_t kvc_offload_piece_rows(const struct kvc_weight *w, uint32_t piece) {
    uint64_t first = piece * w->piece_rows;
    return w->outputs - first < w->piece_rows ? w->outputs - first : w->piece_rows;
}

static void embed(struct kvc_device *device, struct kvc_span out, const struct kvc_weight *table,
                  struct kvc_span tokens, uint32_t rows) {
    for (uint32_t i = 0; i < table->pieces; i++) {
        struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_embed);
        kvc_launch_span(&launch, out);
        kvc_launch_handle(&launch, table->piece[i]);
        kvc_launch_wide(&launch, i * table->piece_rows);
        kvc_launch_wide(&launch, kvc_offload_piece_rows(table, i));
        kvc_launch_wide(&launch, table->row_bytes);
        kvc_launch_word(&launch, table->type);
        kvc_launch_wide(&launch, table->inputs);
        kvc_launch_span(&launch, tokens);
        kvc_launch_word(&launch, rows);
        kvc_launch_items(of(device), &launch, rows * kvc_offload_runs(of(device), table->inputs), 1, 1);
    }
}

static void norm(struct kvc_device *device, struct kvc_span y, struct kvc_span x, struct kvc_span w, uint32_t rows,
                 uint32_t K, float eps) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_norm);
    kvc_launch_span(&launch, y);
    kvc_launch_span(&launch, x);
    kvc_launch_span(&launch, w);
    kvc_launch_word(&launch, K);
    kvc_launch_real(&launch, eps);
    kvc_launch_groups(of(device), &launch, rows, 1, 1);
}

static void rope(struct kvc_device *device, struct kvc_span y, struct kvc_span x, struct kvc_span cosine,
                 struct kvc_span sine, uint32_t rows, uint32_t heads, uint32_t head_size, uint32_t rotary,
                 bool interleaved) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_rope);
    kvc_launch_span(&launch, y);
    kvc_launch_span(&launch, x);
    kvc_launch_span(&launch, cosine);
    kvc_launch_span(&launch, sine);
    kvc_launch_word(&launch, rows);
    kvc_launch_word(&launch, heads);
    kvc_launch_word(&launch, head_size);
    kvc_launch_word(&launch, rotary);
    kvc_launch_word(&launch, interleaved);
    kvc_launch_items(of(device), &launch, (uint64_t)rows * heads * (of(device)->workers == 1 ? 1 : (head_size + 1) / 2),
                     1, 1);
}

static void gated_silu(struct kvc_device *device, struct kvc_span y, struct kvc_span gate, struct kvc_span up,
                       size_t n) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_gated_silu);
    kvc_launch_span(&launch, y);
    kvc_launch_span(&launch, gate);
    kvc_launch_span(&launch, up);
    kvc_launch_wide(&launch, n);
    kvc_launch_items(of(device), &launch, n, 1, 1);
}

static void add(struct kvc_device *device, struct kvc_span y, struct kvc_span x, size_t n) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_add);
    kvc_launch_span(&launch, y);
    kvc_launch_span(&launch, x);
    kvc_launch_wide(&launch, n);
    kvc_launch_items(of(device), &launch, n, 1, 1);
}

static void blend(struct kvc_device *device, struct kvc_span y, struct kvc_span x, float share, size_t n) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_blend);
    kvc_launch_span(&launch, y);
    kvc_launch_span(&launch, x);
    kvc_launch_real(&launch, share);
    kvc_launch_real(&launch, 1.0f - share);
    kvc_launch_wide(&launch, n);
    kvc_launch_items(of(device), &launch, n, 1, 1);
}

static void repeat_heads(struct kvc_device *device, struct kvc_span out, struct kvc_span x, uint32_t rows,
                         uint32_t heads, uint32_t copies, uint32_t head_size) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_repeat_heads);
    uint64_t n = (uint64_t)rows * heads * copies * head_size;
    kvc_launch_span(&launch, out);
    kvc_launch_span(&launch, x);
    kvc_launch_wide(&launch, n);
    kvc_launch_word(&launch, copies);
    kvc_launch_word(&launch, head_size);
    kvc_launch_items(of(device), &launch, of(device)->workers == 1 ? (uint64_t)rows * heads : n, 1, 1);
}

static void gather(struct kvc_device *device, struct kvc_span out, struct kvc_span x, struct kvc_span index,
                   uint32_t rows, uint32_t width) {
    const uint64_t run = KVC_COPIED_OF(of(device)->workers);
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_gather);
    kvc_launch_span(&launch, out);
    kvc_launch_span(&launch, x);
    kvc_launch_span(&launch, index);
    kvc_launch_word(&launch, rows);
    kvc_launch_word(&launch, width);
    kvc_launch_items(of(device), &launch, rows * (((uint64_t)width + run - 1) / run), 1, 1);
}

static void fma_loop(struct kvc_device *device, struct kvc_span x, size_t n, uint32_t rounds) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_fma_loop);
    kvc_launch_span(&launch, x);
    kvc_launch_wide(&launch, n);
    kvc_launch_word(&launch, rounds);
    kvc_launch_items(of(device), &launch, n / KVC_LOOP_OF(of(device)->workers), 1, 1);
}

/* ---- linear ---- */

#define KVC_MANY_ROWS 32u                     /* from here on both sides are packed */
#define KVC_PACKED_BYTES ((uint64_t)64 << 20) /* of weights at once */

struct kvc_launch kvc_offload_few(struct kvc_span y, struct kvc_span x, const struct kvc_weight *w, uint32_t piece,
                                  struct kvc_span bias, uint32_t rows) {
    struct kvc_launch launch = kvc_launch_of((enum kvc_kernel)((unsigned)KVC_KERNEL_linear_f32 + (unsigned)w->type));
    kvc_launch_span(&launch, y);
    kvc_launch_span(&launch, x);
    kvc_launch_handle(&launch, w->piece[piece]);
    kvc_launch_wide(&launch, w->row_bytes);
    kvc_launch_wide(&launch, w->inputs);
    kvc_launch_wide(&launch, w->outputs);
    kvc_launch_wide(&launch, piece * w->piece_rows);
    kvc_launch_wide(&launch, kvc_offload_piece_rows(w, piece));
    kvc_launch_span(&launch, bias);
    kvc_launch_word(&launch, rows);
    return launch;
}

static void few_rows(struct kvc_offload *offload, struct kvc_span y, struct kvc_span x, const struct kvc_weight *w,
                     uint32_t piece, struct kvc_span bias, uint32_t rows) {
    struct kvc_launch launch = kvc_offload_few(y, x, w, piece, bias, rows);
    uint32_t outputs = KVC_GROUP_OF(offload->workers) / offload->workers * KVC_EACH_OF(offload->workers);
    uint64_t count = kvc_offload_piece_rows(w, piece);
    kvc_launch_groups(offload, &launch, (count + outputs - 1) / outputs, (rows + KVC_FEW - 1) / KVC_FEW, 1);
}

static uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

/* workspace: packed x, then packed weights of some outputs. */
static void many_rows(struct kvc_offload *offload, struct kvc_span y, struct kvc_span x, const struct kvc_weight *w,
                      uint32_t piece, struct kvc_span bias, uint32_t rows) {
    uint32_t block_x = KVC_PACK_X_OF(offload->workers), block_w = KVC_PACK_W_OF(offload->workers);
    uint64_t each = offload->workers == 1 ? block_w : 1; /* rows of a work-item of pack_w */
    uint64_t K = w->inputs, padded = round_up(K, 32), count = kvc_offload_piece_rows(w, piece);
    uint64_t at_once = KVC_PACKED_BYTES / (padded * 4) / block_w * block_w;
    at_once = at_once < block_w ? block_w : at_once > round_up(count, block_w) ? round_up(count, block_w) : at_once;
    uint64_t x_bytes = round_up(rows, block_x) * padded * 4;
    struct kvc_buffer *workspace = kvc_offload_workspace(offload, x_bytes + at_once * padded * 4);
    struct kvc_launch pack = kvc_launch_of(KVC_KERNEL_pack_x);
    if (!workspace)
        return;
    kvc_launch_span(&pack, (struct kvc_span){workspace, 0});
    kvc_launch_span(&pack, x);
    kvc_launch_wide(&pack, K);
    kvc_launch_wide(&pack, rows);
    kvc_launch_items(offload, &pack, rows * (padded / 32), 1, 1);
    for (uint64_t from = 0; from < count; from += at_once) {
        uint64_t here = count - from < at_once ? count - from : at_once;
        struct kvc_launch product = kvc_launch_of(KVC_KERNEL_product);
        pack = kvc_launch_of(KVC_KERNEL_pack_w);
        kvc_launch_span(&pack, (struct kvc_span){workspace, (size_t)x_bytes});
        kvc_launch_handle(&pack, w->piece[piece]);
        kvc_launch_wide(&pack, w->row_bytes);
        kvc_launch_word(&pack, w->type);
        kvc_launch_wide(&pack, K);
        kvc_launch_wide(&pack, from);
        kvc_launch_wide(&pack, here);
        kvc_launch_items(offload, &pack, round_up(here, each) / each * (padded / 32), 1, 1);
        kvc_launch_span(&product, y);
        kvc_launch_span(&product, (struct kvc_span){workspace, 0});
        kvc_launch_span(&product, (struct kvc_span){workspace, (size_t)x_bytes});
        kvc_launch_wide(&product, K);
        kvc_launch_wide(&product, w->outputs);
        kvc_launch_wide(&product, piece * w->piece_rows + from);
        kvc_launch_wide(&product, here);
        kvc_launch_span(&product, bias);
        kvc_launch_wide(&product, rows);
        kvc_launch_groups(offload, &product, (rows + block_x - 1) / block_x, (here + block_w - 1) / block_w, 1);
    }
}

void kvc_offload_linear(struct kvc_device *device, struct kvc_span y, struct kvc_span x, const struct kvc_weight *w,
                        struct kvc_span bias, uint32_t rows) {
    for (uint32_t i = 0; i < w->pieces; i++) {
        if (rows < KVC_MANY_ROWS)
            few_rows(of(device), y, x, w, i, bias, rows);
        else
            many_rows(of(device), y, x, w, i, bias, rows);
    }
}

void kvc_offload_fill_rows(struct kvc_ops *table) {
    table->embed = embed;
    table->norm = norm;
    table->linear = kvc_offload_linear;
    table->rope = rope;
    table->gated_silu = gated_silu;
    table->add = add;
    table->blend = blend;
    table->repeat_heads = repeat_heads;
    table->gather = gather;
    table->fma_loop = fma_loop;
}
