/* rings.h - template: writes rows of a ring buffer of recent queries: ring_write. */
#ifndef KVC_SIMD_SCORES_RINGS_H
#define KVC_SIMD_SCORES_RINGS_H

#include "backends/cpu/simd/scores/probability_tiles.h"

struct ring_job {
    struct probabilities_job job; /* must be the first member; its `own` floats: the values and counts of a tile */
    uint32_t column, ring;
    enum kvc_row_kind kind;
};

/* Adds a term of each of the group's heads, in ascending order, and writes the sum to value[e]. `kind` defines the
 * term: the probability exp(s - M) / L; the score s; or 1 if the probability is below `least`, otherwise 0. If `few` is
 * not NULL, few[e] also receives the number of probabilities below `least`. Rows of s are s_stride apart and reach to
 * the end of the tile. */
static void group_values(const float *s, size_t s_stride, uint32_t low, uint32_t high, uint32_t group,
                         const float *maximum, const float *sum, enum kvc_row_kind kind, float least, float *value,
                         float *few) {
    for (uint32_t e = low; e < high; e += LANES) {
        vf total = vf_zero(), count = vf_zero();
        const bool whole = e + LANES <= KVC_TILE;
        for (uint32_t g = 0; g < group; g++) {
            const float *from = s + g * s_stride + e;
            vf x = whole ? vf_load(from) : vf_part_load(from, KVC_TILE - e);
            if (kind != KVC_ROW_LOGITS)
                x = vf_div(exp_any(vf_sub(x, vf_set(maximum[g]))), vf_set(sum[g]));
            if (kind == KVC_ROW_LOW)
                x = vf_select(vf_less(x, vf_set(least)), vf_set(1.0f), vf_zero());
            if (few)
                count = vf_add(count, vf_select(vf_less(x, vf_set(least)), vf_set(1.0f), vf_zero()));
            total = vf_add(total, x);
        }
        if (e + LANES <= high)
            vf_store(value + e, total);
        else
            vf_part_store(value + e, total, high - e);
        if (few && e + LANES <= high)
            vf_store(few + e, count);
        else if (few)
            vf_part_store(few + e, count, high - e);
    }
}

INLINE const struct ring_job *ring_of(const struct probabilities_tile *tile) {
    return (const struct ring_job *)(const void *)tile->job;
}

/* ring_state returns state column `column` of the ring buffer. ring_place returns the row of a query. */
static float *ring_state(const struct probabilities_tile *tile, uint32_t column) {
    const struct kvc_lists *lists = tile->job->rows->lists;
    const uint32_t slots = lists->host_base[tile->h + 1] - lists->host_base[tile->h];
    return (float *)lists->state->data + (size_t)lists->columns * lists->host_base[tile->h] +
           (size_t)(ring_of(tile)->column + column) * slots;
}
static uint32_t ring_place(const struct probabilities_tile *tile, uint32_t query) {
    return (uint32_t)((const int32_t *)kvc_span_data(tile->job->rows->positions))[query] % ring_of(tile)->ring;
}

/* Returns the value of an entry that the query did not see. */
static float ring_unseen(const struct ring_job *job) { return job->kind == KVC_ROW_LOGITS ? -kvc_infinity() : 0.0f; }

static void fill(float *x, uint32_t n, float value) {
    for (uint32_t e = 0; e < n; e++)
        x[e] = value;
}

/* With a read list, clears the rows of the queries. The values of the entries that are read are then written tile by
 * tile. */
static void ring_start(const struct probabilities_tile *tile, uint32_t low, uint32_t high) {
    const uint32_t *order = tile->head->order;
    const uint32_t ring = ring_of(tile)->ring;
    for (uint32_t i = 0; tile->head->index && i < tile->job->rows->queries; i++) {
        float *column = ring_state(tile, ring_place(tile, i));
        for (uint32_t r = low; r < high; r++)
            column[order ? order[r] : r] = ring_unseen(ring_of(tile));
        if (ring_of(tile)->kind != KVC_ROW_COUNTS)
            continue;
        float *was = ring_state(tile, ring + ring_place(tile, i)), *minus = ring_state(tile, 2 * ring);
        for (uint32_t r = low, place = 0; r < high; r++) {
            const uint32_t slot = order ? order[r] : r;
            if (place < tile->head->places && tile->head->index[place] == r) {
                place++;
                continue;
            }
            minus[slot] = minus[slot] + was[slot];
            was[slot] = 0.0f;
        }
    }
}

/* Writes a row of counts, few [n]: for each entry of the tile, the number of heads whose probability was low. Also
 * updates the column that holds minus the sum of all such rows. */
static void write_counts(const struct probabilities_tile *tile, uint32_t query, const float *few) {
    const struct head_entries *head = tile->head;
    const uint32_t ring = ring_of(tile)->ring, first = tile->first, n = tile->n;
    float *was = ring_state(tile, ring + ring_place(tile, query)), *minus = ring_state(tile, 2 * ring);
    if (!head->order && !head->index) {
        for (uint32_t e = 0; e < n; e += LANES) {
            float *w = was + first + e, *m = minus + first + e;
            const vf now = vf_part_load(few + e, n - e);
            vf_part_store(m, vf_sub(vf_add(vf_part_load(m, n - e), vf_part_load(w, n - e)), now), n - e);
            vf_part_store(w, now, n - e);
        }
        return;
    }
    for (uint32_t e = 0; e < n; e++) {
        if (head_index(head, first + e) >= head->count)
            continue;
        const uint32_t slot = head_slot(head, first + e);
        minus[slot] = (minus[slot] + was[slot]) - few[e];
        was[slot] = few[e];
    }
}

static void ring_take(const struct probabilities_tile *tile, uint32_t query, struct seen_range seen,
                      struct seen_range in, const float *s, size_t s_stride) {
    const struct ring_job *job = ring_of(tile);
    const struct kvc_probabilities *rows = tile->job->rows;
    const struct head_entries *head = tile->head;
    const uint32_t group = tile->job->group, first = tile->first, n = tile->n;
    const size_t cell = (size_t)query * rows->heads + (size_t)tile->h * group;
    const bool probabilities = job->kind != KVC_ROW_LOGITS;
    float *column = ring_state(tile, ring_place(tile, query)), *value = tile->own;
    float *few = job->kind == KVC_ROW_COUNTS ? value + KVC_TILE : NULL;
    group_values(s, s_stride, in.low, in.high, group,
                 probabilities ? (const float *)kvc_span_data(rows->maximum) + cell : NULL,
                 probabilities ? (const float *)kvc_span_data(rows->sum) + cell : NULL, job->kind,
                 kvc_div(1.0f, (float)(seen.high - seen.low)), value, few);
    fill(value, in.low, ring_unseen(job));
    fill(value + in.high, n - in.high, ring_unseen(job));
    if (few) {
        memset(few, 0, in.low * sizeof *few);
        memset(few + in.high, 0, (n - in.high) * sizeof *few);
        write_counts(tile, query, few);
    }
    if (!head->order && !head->index)
        memcpy(column + first, value, n * sizeof *value);
    else if (!head->index)
        for (uint32_t e = 0; e < n; e++)
            column[head->order[first + e]] = value[e];
    else
        for (uint32_t e = 0; e < n; e++)
            if (head_index(head, first + e) < head->count)
                column[head_slot(head, first + e)] = value[e];
}

static void ring_write(struct kvc_device *device, const struct kvc_ring_write *args) {
    struct ring_job job = {.job = {.cpu = (struct kvc_cpu *)device,
                                   .rows = args->probabilities,
                                   .own = (size_t)2 * KVC_TILE,
                                   .start = ring_start,
                                   .take = ring_take,
                                   .by_slot = true,
                                   .cost = 24.0f},
                           .column = args->first,
                           .ring = args->ring,
                           .kind = args->kind};
    KVC_ASSERT(args->ring > 0 && args->first + args->ring <= args->probabilities->lists->columns);
    if (probabilities_prepare(&job.job))
        probabilities_run(&job.job);
}

#endif
