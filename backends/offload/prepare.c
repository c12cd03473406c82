/* prepare.c - the workspace of a decode step, made before it: the most that any operation of the step takes, by what
 * the host knows. */
#include "core/base/integers.h"
#include "backends/offload/offload.h"

#define KVC_PACKS_FROM 16u                     /* rows: no backend packs, or widens for a library, fewer */
#define KVC_PACKED_BYTES ((uint64_t)256 << 20) /* of weights at once, on any backend */

/* As linear.c and fast.c ask for it. */
static uint64_t of_probabilities(const struct kvc_offload *offload, uint64_t rows) {
    const uint64_t least = 128 * offload->widest, packed = kvc_max_u64(least, KVC_PACKED_BYTES);
    if (rows < KVC_PACKS_FROM)
        return 0;
    return (rows + 127) / 128 * least + (offload->largest < packed ? offload->largest : packed);
}

/* As attention.c, cache.c, scores.c, entries.c, series.c, pages.c and select.c do, for one row. */
static uint64_t of_lists(const struct kvc_step_shape *s) {
    const uint64_t slots = s->lists->host_base[s->lists->kv_heads], kv_heads = s->lists->kv_heads, d = s->head_size;
    const uint64_t places = kvc_max_u64(kvc_offload_most_slots(s->lists), s->places),
                   tiles = (places + KVC_TILE - 1) / KVC_TILE;
    uint64_t words = s->heads * tiles * (2 + d);
    words = kvc_max_u64(words, slots * (s->rotates ? d : 1));
    words = kvc_max_u64(words, kv_heads * kvc_max_u64(1, s->lists->columns) * tiles * 2); /* a ring's rows in tiles */
    if (s->compares) /* entries.c: strides are slots, rounded up to whole tiles */
        words = kvc_max_u64(words, kv_heads * (3 * (tiles + 1) * KVC_TILE + 2 + places * d));
    if (s->series) /* series.c, strides as above */
        words = kvc_max_u64(words, s->heads * ((tiles + 1) * KVC_TILE + 2) + kv_heads * places * (d / 2));
    if (s->places) {
        words = kvc_max_u64(words, 3 * kv_heads * d + 2 * (uint64_t)s->heads + (kv_heads + s->heads) * s->places);
        words = kvc_max_u64(words, 2 * kv_heads * s->places + 32 * (uint64_t)s->heads);
    }
    return words * sizeof(float);
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
        offload->failure = KVC_OK; /* the step is not taken */
    return kvc_fail(error, status, "%s", offload->failure_text);
}
