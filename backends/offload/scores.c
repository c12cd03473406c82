/* scores.c - what policies look at: weight rows, rings, pooling, and the rule of struct kvc_keep. */
#include "backends/offload/offload.h"
#include "core/canon.h"

static struct kvc_offload *of(struct kvc_device *device) { return (struct kvc_offload *)device; }

static const struct kvc_span none = {NULL, 0};

/* Column sums (ring 0), or rows of a ring. */
static void weight_rows(struct kvc_offload *offload, const struct kvc_weight_rows *w, struct kvc_span scores,
                        uint32_t stride, uint32_t ring, bool logits) {
    uint32_t slots = kvc_offload_most_slots(w->lists), places = w->reads ? w->reads->stride : slots;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_weight_rows), zeros = kvc_launch_of(KVC_KERNEL_weight_zeros);
    if (w->reads) {
        kvc_launch_lists(&zeros, w->lists);
        kvc_launch_span(&zeros, w->positions);
        kvc_launch_word(&zeros, w->queries);
        kvc_launch_span(&zeros, scores);
        kvc_launch_word(&zeros, stride);
        kvc_launch_word(&zeros, ring);
        kvc_launch_items(offload, &zeros, slots, w->kv_heads, 1);
    }
    kvc_launch_lists(&launch, w->lists);
    kvc_launch_arena(&launch, w->lists->arena);
    kvc_launch_reads(&launch, w->reads);
    kvc_launch_span(&launch, w->q);
    kvc_launch_span(&launch, logits ? none : w->maximum);
    kvc_launch_span(&launch, logits ? none : w->sum);
    kvc_launch_span(&launch, w->positions);
    kvc_launch_span(&launch, w->later);
    kvc_launch_word(&launch, w->queries);
    kvc_launch_word(&launch, w->heads);
    kvc_launch_word(&launch, w->kv_heads);
    kvc_launch_word(&launch, w->window);
    kvc_launch_real(&launch, kvc_attention_scale(w->head_size));
    kvc_launch_span(&launch, scores);
    kvc_launch_word(&launch, stride);
    kvc_launch_word(&launch, ring);
    kvc_launch_groups(offload, &launch, (places + KVC_TILE - 1) / KVC_TILE, w->kv_heads, 1);
}

static void window_mass(struct kvc_device *device, const struct kvc_weight_rows *w, struct kvc_span scores,
                        uint32_t stride) {
    weight_rows(of(device), w, scores, stride, 0, false);
}

static void ring_write(struct kvc_device *device, const struct kvc_weight_rows *w, uint32_t ring,
                       enum kvc_row_kind kind) {
    weight_rows(of(device), w, none, 0, ring, kind == KVC_ROW_LOGITS);
}

static void ring_fuse(struct kvc_device *device, const struct kvc_lists *lists, uint32_t ring, uint32_t filled,
                      int64_t now, enum kvc_row_kind kind, enum kvc_fusion fusion, int64_t recent,
                      struct kvc_span scores, uint32_t stride) {
    struct kvc_offload *offload = of(device);
    struct kvc_launch fuse = kvc_launch_of(KVC_KERNEL_ring_fuse);
    uint32_t slots = kvc_offload_most_slots(lists), tiles = slots / KVC_TILE, rows = lists->kv_heads * filled;
    struct kvc_buffer *spare = NULL;
    if (kind == KVC_ROW_LOGITS && filled) {
        struct kvc_launch tile = kvc_launch_of(KVC_KERNEL_ring_tiles), merge = kvc_launch_of(KVC_KERNEL_ring_merge);
        spare = kvc_offload_spare(offload, (uint64_t)rows * tiles * 2 * sizeof(float));
        if (!spare)
            return;
        kvc_launch_lists(&tile, lists);
        kvc_launch_word(&tile, ring);
        kvc_launch_word(&tile, filled);
        kvc_launch_wide(&tile, (uint64_t)now);
        kvc_launch_wide(&tile, (uint64_t)recent);
        kvc_launch_buffer(&tile, spare);
        kvc_launch_word(&tile, tiles);
        kvc_launch_items(offload, &tile, tiles, filled, lists->kv_heads);
        kvc_launch_buffer(&merge, spare);
        kvc_launch_word(&merge, tiles);
        kvc_launch_word(&merge, rows);
        kvc_launch_items(offload, &merge, rows, 1, 1);
    }
    kvc_launch_lists(&fuse, lists);
    kvc_launch_word(&fuse, ring);
    kvc_launch_word(&fuse, filled);
    kvc_launch_wide(&fuse, (uint64_t)now);
    kvc_launch_wide(&fuse, (uint64_t)recent);
    kvc_launch_word(&fuse, fusion == KVC_FUSE_SUM);
    kvc_launch_buffer(&fuse, spare);
    kvc_launch_word(&fuse, tiles);
    kvc_launch_span(&fuse, scores);
    kvc_launch_word(&fuse, stride);
    kvc_launch_items(offload, &fuse, slots, lists->kv_heads, 1);
}

static void pool(struct kvc_device *device, const struct kvc_lists *lists, struct kvc_span out, struct kvc_span in,
                 uint32_t stride, uint64_t tail, uint32_t kernel, enum kvc_pooling pooling) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_pool);
    kvc_launch_lists(&launch, lists);
    kvc_launch_span(&launch, out);
    kvc_launch_span(&launch, in);
    kvc_launch_word(&launch, stride);
    kvc_launch_wide(&launch, tail);
    kvc_launch_word(&launch, kernel);
    kvc_launch_word(&launch, pooling == KVC_POOL_MAX);
    kvc_launch_items(of(device), &launch, kvc_offload_most_slots(lists), lists->kv_heads, 1);
}

static void keep(struct kvc_device *device, const struct kvc_lists *lists, const struct kvc_keep *rule,
                 struct kvc_span scores, uint32_t stride, struct kvc_read_list *kept) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_keep);
    kvc_launch_lists(&launch, lists);
    kvc_launch_wide(&launch, rule->first);
    kvc_launch_wide(&launch, rule->tail);
    kvc_launch_wide(&launch, rule->top);
    kvc_launch_wide(&launch, rule->fill);
    kvc_launch_wide(&launch, (uint64_t)rule->recent);
    kvc_launch_span(&launch, scores);
    kvc_launch_word(&launch, stride);
    kvc_launch_reads(&launch, kept);
    kvc_launch_groups(of(device), &launch, lists->kv_heads, 1, 1);
}

void kvc_offload_fill_scores(struct kvc_ops *table) {
    table->window_mass = window_mass;
    table->ring_write = ring_write;
    table->ring_fuse = ring_fuse;
    table->pool = pool;
    table->keep = keep;
}
