/* rows.c - operations on rows of values: embed, norm, linear, rope, gated_silu, add, gather. */
#include "backends/offload/offload.h"
#include "core/base/types.h"

static struct kvc_offload *of(struct kvc_device *device) { return (struct kvc_offload *)device; }

uint64_t kvc_offload_piece_rows(const struct kvc_weight *w, uint32_t piece) {
    uint64_t first = piece * w->piece_rows;
    return w->outputs - first < w->piece_rows ? w->outputs - first : w->piece_rows;
}

void kvc_offload_embed(struct kvc_device *device, const struct kvc_embed *args) {
    for (uint32_t i = 0; i < args->table->pieces; i++) {
        struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_embed);
        kvc_launch_span(&launch, args->out);
        kvc_launch_handle(&launch, args->table->piece[i]);
        kvc_launch_wide(&launch, i * args->table->piece_rows);
        kvc_launch_wide(&launch, kvc_offload_piece_rows(args->table, i));
        kvc_launch_wide(&launch, args->table->row_bytes);
        kvc_launch_word(&launch, args->table->type);
        kvc_launch_wide(&launch, args->table->inputs);
        kvc_launch_span(&launch, args->tokens);
        kvc_launch_word(&launch, args->rows);
        kvc_launch_items(of(device), &launch, args->rows * kvc_offload_runs(of(device), args->table->inputs), 1, 1);
    }
}

void kvc_offload_norm(struct kvc_device *device, const struct kvc_norm *args) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_norm);
    kvc_launch_span(&launch, args->y);
    kvc_launch_span(&launch, args->x);
    kvc_launch_span(&launch, args->w);
    kvc_launch_word(&launch, args->K);
    kvc_launch_real(&launch, args->eps);
    kvc_launch_groups(of(device), &launch, args->rows, 1, 1);
}

void kvc_offload_rope(struct kvc_device *device, const struct kvc_rope_heads *args) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_rope);
    kvc_launch_span(&launch, args->y);
    kvc_launch_span(&launch, args->x);
    kvc_launch_span(&launch, args->cosine);
    kvc_launch_span(&launch, args->sine);
    kvc_launch_word(&launch, args->rows);
    kvc_launch_word(&launch, args->heads);
    kvc_launch_word(&launch, args->head_size);
    kvc_launch_word(&launch, args->rotary);
    kvc_launch_word(&launch, args->interleaved);
    kvc_launch_items(of(device), &launch,
                     (uint64_t)args->rows * args->heads * (of(device)->workers == 1 ? 1 : (args->head_size + 1) / 2), 1,
                     1);
}

void kvc_offload_gated_silu(struct kvc_device *device, const struct kvc_gated_silu *args) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_gated_silu);
    kvc_launch_span(&launch, args->y);
    kvc_launch_span(&launch, args->gate);
    kvc_launch_span(&launch, args->up);
    kvc_launch_wide(&launch, args->n);
    kvc_launch_items(of(device), &launch, args->n, 1, 1);
}

void kvc_offload_add(struct kvc_device *device, const struct kvc_add *args) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_add);
    kvc_launch_span(&launch, args->y);
    kvc_launch_span(&launch, args->x);
    kvc_launch_wide(&launch, args->n);
    kvc_launch_items(of(device), &launch, args->n, 1, 1);
}

void kvc_offload_blend(struct kvc_device *device, const struct kvc_blend *args) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_blend);
    kvc_launch_span(&launch, args->y);
    kvc_launch_span(&launch, args->x);
    kvc_launch_real(&launch, args->share);
    kvc_launch_real(&launch, 1.0f - args->share);
    kvc_launch_wide(&launch, args->n);
    kvc_launch_items(of(device), &launch, args->n, 1, 1);
}

void kvc_offload_repeat_heads(struct kvc_device *device, const struct kvc_repeat_heads *args) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_repeat_heads);
    uint64_t n = (uint64_t)args->rows * args->heads * args->copies * args->head_size;
    kvc_launch_span(&launch, args->out);
    kvc_launch_span(&launch, args->x);
    kvc_launch_wide(&launch, n);
    kvc_launch_word(&launch, args->copies);
    kvc_launch_word(&launch, args->head_size);
    kvc_launch_items(of(device), &launch, of(device)->workers == 1 ? (uint64_t)args->rows * args->heads : n, 1, 1);
}

void kvc_offload_gather(struct kvc_device *device, const struct kvc_gather *args) {
    const uint64_t run = KVC_COPIED_OF(of(device)->workers);
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_gather);
    kvc_launch_span(&launch, args->out);
    kvc_launch_span(&launch, args->x);
    kvc_launch_span(&launch, args->index);
    kvc_launch_word(&launch, args->rows);
    kvc_launch_word(&launch, args->width);
    kvc_launch_items(of(device), &launch, args->rows * (((uint64_t)args->width + run - 1) / run), 1, 1);
}

void kvc_offload_fma_loop(struct kvc_device *device, const struct kvc_fma_loop *args) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_fma_loop);
    kvc_launch_span(&launch, args->x);
    kvc_launch_wide(&launch, args->n);
    kvc_launch_word(&launch, args->rounds);
    kvc_launch_items(of(device), &launch, args->n / KVC_LOOP_OF(of(device)->workers), 1, 1);
}

/* ---- linear ---- */

#define KVC_MANY_ROWS 32u                     /* from here on both sides are packed */
#define KVC_PACKED_BYTES ((uint64_t)64 << 20) /* of weights at once */

struct kvc_launch kvc_offload_few(const struct kvc_linear *args, uint32_t piece) {
    const struct kvc_weight *w = args->w;
    struct kvc_launch launch = kvc_launch_of((enum kvc_kernel)((unsigned)KVC_KERNEL_linear_f32 + (unsigned)w->type));
    kvc_launch_span(&launch, args->y);
    kvc_launch_span(&launch, args->x);
    kvc_launch_handle(&launch, w->piece[piece]);
    kvc_launch_wide(&launch, w->row_bytes);
    kvc_launch_wide(&launch, w->inputs);
    kvc_launch_wide(&launch, w->outputs);
    kvc_launch_wide(&launch, piece * w->piece_rows);
    kvc_launch_wide(&launch, kvc_offload_piece_rows(w, piece));
    kvc_launch_span(&launch, args->bias);
    kvc_launch_word(&launch, args->rows);
    return launch;
}

static void few_rows(struct kvc_offload *offload, const struct kvc_linear *args, uint32_t piece) {
    struct kvc_launch launch = kvc_offload_few(args, piece);
    uint32_t outputs = KVC_GROUP_OF(offload->workers) / offload->workers * KVC_EACH_OF(offload->workers);
    uint64_t count = kvc_offload_piece_rows(args->w, piece);
    kvc_launch_groups(offload, &launch, (count + outputs - 1) / outputs, (args->rows + KVC_FEW - 1) / KVC_FEW, 1);
}

static uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

/* spare: packed x, then packed weights of some outputs. */
static void many_rows(struct kvc_offload *offload, const struct kvc_linear *args, uint32_t piece) {
    const struct kvc_weight *w = args->w;
    const uint32_t rows = args->rows;
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
    kvc_launch_span(&pack, args->x);
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
        kvc_launch_span(&product, args->y);
        kvc_launch_span(&product, (struct kvc_span){workspace, 0});
        kvc_launch_span(&product, (struct kvc_span){workspace, (size_t)x_bytes});
        kvc_launch_wide(&product, K);
        kvc_launch_wide(&product, w->outputs);
        kvc_launch_wide(&product, piece * w->piece_rows + from);
        kvc_launch_wide(&product, here);
        kvc_launch_span(&product, args->bias);
        kvc_launch_wide(&product, rows);
        kvc_launch_groups(offload, &product, (rows + block_x - 1) / block_x, (here + block_w - 1) / block_w, 1);
    }
}

void kvc_offload_linear(struct kvc_device *device, const struct kvc_linear *args) {
    for (uint32_t i = 0; i < args->w->pieces; i++) {
        if (args->rows < KVC_MANY_ROWS)
            few_rows(of(device), args, i);
        else
            many_rows(of(device), args, i);
    }
}
