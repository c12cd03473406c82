/* ring_fuse.h - template: fuses the rows of a ring buffer of recent queries into scores.
 *
 * The rows are stored by slot, one after another, and reading them takes longer than adding them. Whole rows are fused,
 * including unused slots, because memory without gaps is read fastest. The result is then put into the order of
 * indices. Rows of logits are put into this order before they are fused, because their softmax needs it. */
#ifndef KVC_SIMD_SCORES_RING_FUSE_H
#define KVC_SIMD_SCORES_RING_FUSE_H

#include "core/base/integers.h"
#include "backends/cpu/simd/bump.h"
#include "backends/cpu/simd/attention/softmax_tile.h"

struct fuse_job {
    struct kvc_cpu *cpu;
    const struct kvc_lists *lists;
    uint32_t column, ring, filled, slots_most;
    int64_t now, recent;
    enum kvc_row_kind kind;
    enum kvc_fusion fusion;
    float *scores;
    uint32_t stride;
};

/* Returns how many of head h's entries have positions below `position`. They are the first entries of the list. */
static uint32_t indices_before(const struct kvc_lists *lists, uint32_t h, int64_t position) {
    uint32_t low = 0, high = ((const uint32_t *)lists->count->data)[h];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (kvc_list_position(lists, h, kvc_list_slot(lists, h, middle)) < position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Computes F [count] = F + row with one addition each, or the maxima of F and row. `first` means that F has no value
 * yet. */
INLINE void fuse_row_of(float *F, const float *row, size_t count, bool sum, bool first) {
    size_t s = 0;
    for (; s + LANES <= count; s += LANES) {
        const vf x = vf_load(row + s);
        vf_store(F + s, sum ? vf_add(first ? vf_zero() : vf_load(F + s), x) : first ? x : vf_max(vf_load(F + s), x));
    }
    for (; s < count; s++)
        F[s] = sum ? (first ? 0.0f : F[s]) + row[s] : first ? row[s] : kvc_max(F[s], row[s]);
}

static void fuse_row(float *F, const float *row, size_t count, enum kvc_fusion fusion, bool first) {
    if (fusion == KVC_FUSE_SUM && !first)
        fuse_row_of(F, row, count, true, false);
    else if (fusion == KVC_FUSE_SUM)
        fuse_row_of(F, row, count, true, true);
    else if (!first)
        fuse_row_of(F, row, count, false, false);
    else
        fuse_row_of(F, row, count, false, true);
}

/* Turns logits [n], by index, into exp(s - M) / L. M and L are merged from tiles as in attention. Minus infinity, which
 * marks entries that were not seen, becomes 0. tile [KVC_TILE] is scratch. */
static void softmax_row(float *logits, uint32_t n, float *tile, float *maxima, float *sums) {
    float M = -kvc_infinity(), L = 0.0f;
    bool seen = false;
    for (uint32_t first = 0, t = 0; first < n; first += KVC_TILE, t++) {
        const uint32_t some = kvc_min_u32(n - first, KVC_TILE);
        memcpy(tile, logits + first, some * sizeof *tile);
        maxima[t] = softmax_tile(tile, 0, some, &sums[t]);
        M = kvc_max(M, maxima[t]);
        seen = seen || maxima[t] != -kvc_infinity();
    }
    if (!seen) {
        memset(logits, 0, n * sizeof *logits);
        return;
    }
    for (uint32_t first = 0, t = 0; first < n; first += KVC_TILE, t++)
        if (maxima[t] != -kvc_infinity())
            L = kvc_fma(kvc_exp(maxima[t] - M), sums[t], L);
    const vf most = vf_set(M), whole = vf_set(L);
    for (uint32_t e = 0; e < n; e += LANES) {
        const vf x = vf_div(exp_any(vf_sub(vf_part_load(logits + e, n - e), most)), whole);
        vf_part_store(logits + e, x, n - e);
    }
}

static void fuse_task(void *argument, size_t task, unsigned thread) {
    const struct fuse_job *job = argument;
    const struct kvc_lists *lists = job->lists;
    const uint32_t h = (uint32_t)task, base = lists->host_base[h], slots = lists->host_base[h + 1] - base;
    const uint32_t count = ((const uint32_t *)lists->count->data)[h];
    const uint32_t *order = lists->order ? (const uint32_t *)lists->order->data + base : NULL;
    const float *state = (const float *)lists->state->data + (size_t)lists->columns * base;
    float *scores = job->scores + (size_t)h * job->stride;
    struct bump at = {NULL, 0};
    const uint32_t old = indices_before(lists, h, job->recent);
    KVC_ASSERT(old <= count && count <= job->stride);
    memset(scores + old, 0, (count - old) * sizeof *scores);
    if (old == 0 || job->filled == 0) {
        memset(scores, 0, old * sizeof *scores);
        return;
    }
    at.base = kvc_cpu_scratch(job->cpu, thread,
                              ((size_t)job->slots_most * 2 + KVC_TILE) * sizeof(float) + 4096 +
                                  kvc_divide_up(job->slots_most, KVC_TILE) * 2 * sizeof(float));
    if (!at.base)
        return;
    float *fused = bump_take(&at, (size_t)job->slots_most * sizeof *fused);
    float *row = bump_take(&at, (size_t)job->slots_most * sizeof *row), *tile = bump_take(&at, KVC_TILE * sizeof *tile);
    float *maxima = bump_take(&at, kvc_divide_up(job->slots_most, KVC_TILE) * sizeof *maxima);
    float *sums = bump_take(&at, kvc_divide_up(job->slots_most, KVC_TILE) * sizeof *sums);
    const bool by_slot = job->kind != KVC_ROW_LOGITS && slots <= 2 * count + KVC_TILE;
    float *F = by_slot ? fused : scores;
    for (uint32_t i = 0; i < job->filled; i++) {
        const float *ring_row = state + (size_t)(job->column + (job->now - job->filled + i) % job->ring) * slots;
        if (!by_slot) {
            for (uint32_t r = 0; r < old; r++)
                row[r] = ring_row[order ? order[r] : r];
            if (job->kind == KVC_ROW_LOGITS)
                softmax_row(row, old, tile, maxima, sums);
            ring_row = row;
        }
        fuse_row(F, ring_row, by_slot ? slots : old, job->fusion, i == 0);
    }
    if (by_slot)
        for (uint32_t r = 0; r < old; r++)
            scores[r] = fused[order ? order[r] : r];
}

static void ring_fuse(struct kvc_device *device, const struct kvc_ring_fuse *args) {
    const struct kvc_lists *lists = args->lists;
    struct fuse_job job = {.cpu = (struct kvc_cpu *)device,
                           .lists = lists,
                           .column = args->first,
                           .ring = args->ring,
                           .filled = args->filled,
                           .now = args->now,
                           .recent = args->recent,
                           .kind = args->kind,
                           .fusion = args->fusion,
                           .scores = kvc_span_data(args->scores),
                           .stride = args->stride};
    KVC_ASSERT(args->filled <= args->ring && args->first + args->ring <= lists->columns);
    double work = 0.0;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const uint32_t slots = lists->host_base[h + 1] - lists->host_base[h];
        job.slots_most = kvc_max_u32(slots, job.slots_most);
        work += (double)((const uint32_t *)lists->count->data)[h] * args->filled *
                (args->kind == KVC_ROW_LOGITS ? 60.0 : 5.0) / LANES;
    }
    kvc_threads_run(threads_for(job.cpu, work), lists->kv_heads, fuse_task, &job);
}

#endif
