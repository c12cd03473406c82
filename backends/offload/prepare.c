/* prepare.c - allocates the workspace of a decode step before the step. Its size is the maximum over all operations of
 * the step, computed from the host's upper bounds. */
#include "core/base/integers.h"
#include "backends/offload/offload.h"

#define KVC_PACKS_FROM 16u                     /* no backend packs or dequantizes weights for fewer rows */
#define KVC_PACKED_BYTES ((uint64_t)256 << 20) /* limit for the weights that a backend packs at a time */

/* Returns the workspace that linear layers with many rows need (linear.c, and fast.c of the backends). */
static uint64_t of_probabilities(const struct kvc_offload *offload, uint64_t rows) {
    const uint64_t least = 128 * offload->widest, packed = kvc_max_u64(least, KVC_PACKED_BYTES);
    if (rows < KVC_PACKS_FROM)
        return 0;
    return (rows + 127) / 128 * least + (offload->largest < packed ? offload->largest : packed);
}

/* Returns the workspace that attention.c, cache.c, scores.c, entries.c, merge.c, series.c, pages.c and select.c need
 * for one row. */
static uint64_t of_lists(const struct kvc_step_shape *s) {
    const uint64_t slots = s->lists->host_base[s->lists->kv_heads], kv_heads = s->lists->kv_heads, d = s->head_size;
    const uint64_t places = kvc_max_u64(kvc_offload_most_slots(s->lists), s->places),
                   tiles = (places + KVC_TILE - 1) / KVC_TILE;
    const uint64_t quants = s->heads * ((d + 31) / 32) * 9; /* the row's quantized queries and scales */
    uint64_t words = s->heads * tiles * (2 + d);
    words = kvc_max_u64(words, slots * (s->rotates ? d : 1));
    /* all rows of a ring buffer, tile by tile */
    words = kvc_max_u64(words, kv_heads * kvc_max_u64(1, s->lists->columns) * tiles * 2);
    if (s->compares) /* entries.c; its strides are the number of slots, rounded up to whole tiles */
        words = kvc_max_u64(words, kv_heads * (3 * (tiles + 1) * KVC_TILE + 2 + places * d));
    if (s->merges) /* merge.c; the same strides */
        words = kvc_max_u64(
            words, kv_heads * kvc_max_u64((tiles + 1) * KVC_TILE, kvc_min_u64(places, KVC_MERGE_PLACES) * (d + 1)));
    if (s->series) /* series.c; it has the same strides */
        words = kvc_max_u64(words, s->heads * ((tiles + 1) * KVC_TILE + 2) + kv_heads * places * (d / 2));
    if (s->places) {
        words = kvc_max_u64(words, 3 * kv_heads * d + 2 * (uint64_t)s->heads + (kv_heads + s->heads) * s->places);
        words = kvc_max_u64(words, 2 * kv_heads * s->places + 32 * (uint64_t)s->heads);
    }
    return (words + quants) * sizeof(float);
}

enum kvc_status kvc_offload_prepare(struct kvc_device *device, const struct kvc_step_shape *step,
                                    struct kvc_error *error) {
    struct kvc_offload *offload = (struct kvc_offload *)device;
    const uint64_t bytes = step->lists ? of_lists(step) : of_probabilities(offload, step->rows);
    enum kvc_status status;
    if (bytes == 0 || kvc_offload_workspace(offload, bytes))
        return KVC_OK;
    status = offload->failure;
    if (!offload->lost)
        offload->failure = KVC_OK; /* clear the failure, because the step does not run */
    return kvc_fail(error, status, "%s", offload->failure_text);
}
