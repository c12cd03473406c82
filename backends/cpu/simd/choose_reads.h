/* choose_reads.h - template: select_reads: the best places, or those of the best pages, as ascending read lists. */
#ifndef KVC_CPU_CHOOSE_READS_H
#define KVC_CPU_CHOOSE_READS_H

#include "backends/cpu/simd/pages.h"
#include "backends/cpu/simd/select.h"

#define SAMPLE 512u

/* threshold where it is known to lie from low to high: their common bits are its own. */
static int32_t threshold_between(const int32_t *keys, uint32_t n, uint32_t top, int32_t low, int32_t high) {
    if (low == high)
        return low;
    const int first = 31 - __builtin_clz((uint32_t)low ^ (uint32_t)high);
    uint32_t found = ((uint32_t)low ^ 0x80000000u) & ~(uint32_t)((2ull << first) - 1);
    for (int bit = first; bit >= 0; bit--) {
        const uint32_t tried = found | 1u << bit;
        if (count_above(keys, n, (int32_t)((tried - 1) ^ 0x80000000u)) >= top)
            found = tried;
    }
    return (int32_t)(found ^ 0x80000000u);
}

/* threshold for many keys: two keys of a sample bracket it, so that only what lies between them is looked at bit by
 * bit. some [n, and two vectors]. */
static int32_t threshold_of_many(const int32_t *keys, uint32_t n, uint32_t top, int32_t *some) {
    if (n < 4 * SAMPLE)
        return threshold(keys, n, top);
    const uint32_t expected = (uint32_t)((uint64_t)top * SAMPLE / n);
    uint32_t margin = 4, above = 0, inside = 0;
    while (margin * margin < 9 * expected)
        margin++;
    for (uint32_t i = 0; i < SAMPLE; i++)
        some[i] = keys[(uint64_t)i * n / SAMPLE];
    const int32_t low = expected + margin < SAMPLE ? threshold(some, SAMPLE, expected + margin) : INT32_MIN;
    const int32_t high = expected > margin ? threshold_between(some, SAMPLE, expected - margin, low, INT32_MAX)
                                           : INT32_MAX;
    const vi lows = vi_set(low), highs = vi_set(high);
    if (low == high) { /* many equal keys */
        above = count_above(keys, n, high);
        if (above < top && (low == INT32_MIN || count_above(keys, n, low - 1) >= top))
            return low;
        return threshold(keys, n, top);
    }
    for (uint32_t i = 0; i < n; i += LANES) {
        const vi x = vi_load(keys + i);
        const unsigned over = vm_bits(vi_greater(x, highs));
        const unsigned between = ~(over | vm_bits(vi_greater(lows, x))) & (unsigned)((1ull << LANES) - 1);
        above += (uint32_t)__builtin_popcount(over);
        inside += vi_store_some(some + inside, x, between);
    }
    if (above >= top || top - above > inside)
        return threshold(keys, n, top);
    for (uint32_t i = inside; i % LANES != 0; i++)
        some[i] = INT32_MIN;
    return threshold_between(some, inside, top - above, low, high);
}

/* Writes the places of the `top` best of keys [n], each `page` places, ascending. Those whose key is `bound` count
 * from the lowest; `cut`: places that the last of them gives up. */
static uint32_t *write_units(const int32_t *keys, uint32_t n, uint32_t top, uint32_t page, uint32_t places,
                             uint32_t cut, int32_t bound, uint32_t *next) {
    uint32_t equal = top - count_above(keys, n, bound);
    const vi bounds = vi_set(bound);
    for (uint32_t i = 0; i < n; i += LANES) {
        const vi x = vi_load(keys + i);
        const unsigned over = vm_bits(vi_greater(x, bounds));
        unsigned bits = over | (equal ? vm_bits(vi_equal(x, bounds)) : 0u);
        if (bits == over && page == 1) {
            if (bits)
                next += vi_store_some((int32_t *)next, vi_add(vi_ascending(), vi_set((int32_t)i)), bits);
            continue;
        }
        for (; bits; bits &= bits - 1) {
            const unsigned j = (unsigned)__builtin_ctz(bits);
            const uint32_t first = (i + j) * page;
            uint32_t count = places - first < page ? places - first : page;
            if (!(over >> j & 1u)) {
                if (equal == 0)
                    continue;
                if (--equal == 0)
                    count -= cut;
            }
            if (page == 1)
                *next++ = first;
            else
                next = count_up(next, first, count);
        }
    }
    return next;
}

/* Room for keys of n places, and for as many between two bounds. */
INLINE size_t keys_room(uint32_t n) { return ((size_t)n + 3 * LANES) / LANES * LANES; }

/* Those of n places, or of the pages that they lie in, that are read, ascending, into next. keys [2, keys_room]. */
static uint32_t *choose_places(const struct kvc_select_reads *call, const float *score, uint32_t places, int32_t *keys,
                               uint32_t *next) {
    const uint32_t page = call->pages ? call->pages->page : 1, units = (places + page - 1) / page;
    const uint32_t local = call->local < places ? (uint32_t)call->local : places, n = units - local;
    const uint64_t wanted = call->top > local ? call->top - local : 0; /* units, or places of pages */
    const uint32_t last = places - (units - 1) * page; /* places of the last unit */
    uint64_t top = call->whole ? wanted : (wanted + page - 1) / page;
    if (wanted >= (call->whole || page == 1 ? n : places)) {
        next = count_up(next, 0, places - local);
    } else if (wanted > 0) {
        int32_t *some = keys + keys_room(n), bound;
        uint32_t cut = 0, i = 0;
        for (; i + LANES <= n; i += LANES)
            vi_store(keys + i, score_keys(vf_load(score + i)));
        if (i < n) {
            vi_store(keys + i, score_keys(vf_part_load(score + i, n - i)));
            for (uint32_t j = n; j < i + LANES; j++)
                keys[j] = INT32_MIN;
        }
        bound = threshold_of_many(keys, n, (uint32_t)top, some);
        if (!call->whole && page > 1) {
            /* the last page may be partial, and so one page more be needed */
            uint32_t before = 0; /* pages before it, by the rule */
            for (i = 0; last < page && i + 1 < n; i++)
                before += keys[i] >= keys[n - 1];
            if (before < top && (top - 1) * page + last < wanted)
                bound = threshold_of_many(keys, n, (uint32_t)++top, some);
            cut = (uint32_t)(top * page - (before < top ? page - last : 0) - wanted);
        }
        next = write_units(keys, n, (uint32_t)top, page, places, cut, bound, next);
    }
    return count_up(next, places - local, local);
}

/* The reads of head h, and its heads' alpha; score by unit, weights by place, rows weight_stride apart, to be
 * multiplied by factor [G] where that is not NULL. */
static void read_head(const struct kvc_select_reads *call, uint32_t h, const float *score, const float *weights,
                      size_t weight_stride, const float *factor, int32_t *keys) {
    const uint32_t places = places_of(call->lists, call->view, h), group = call->heads / call->lists->kv_heads;
    uint32_t *rank = (uint32_t *)call->reads->rank->data + (size_t)h * call->reads->stride;
    const bool all = places <= call->budget;
    const uint32_t *next = all ? count_up(rank, 0, places) : choose_places(call, score, places, keys, rank);
    const uint32_t count = (uint32_t)(next - rank);
    ((uint32_t *)call->reads->count->data)[h] = count;
    for (uint32_t g = 0; call->alpha.buffer && g < group; g++) {
        const float *weight = weights + g * weight_stride;
        float lane[KVC_LANES] = {0.0f};
        for (uint32_t i = 0; !all && i < count; i += KVC_LANES)
            for (uint32_t j = 0; j < KVC_LANES && i + j < count; j++)
                lane[j] = lane[j] + (factor ? weight[rank[i + j]] * factor[g] : weight[rank[i + j]]);
        KVC_TREE32(lane);
        ((float *)kvc_span_data(call->alpha))[h * group + g] = all ? 1.0f : lane[0];
    }
    if (call->view) {
        const uint32_t *view = (const uint32_t *)call->view->rank->data + (size_t)h * call->view->stride;
        for (uint32_t i = 0; i < count; i++)
            rank[i] = view[rank[i]];
    }
}

struct reads_job {
    struct kvc_cpu *cpu;
    const struct kvc_select_reads *call;
    uint32_t most;
};

static void reads_task(void *argument, size_t task, unsigned thread) {
    const struct reads_job *job = argument;
    const struct kvc_select_reads *call = job->call;
    const uint32_t group = call->heads / call->lists->kv_heads;
    int32_t *keys = kvc_cpu_scratch(job->cpu, thread, 2 * keys_room(job->most) * sizeof *keys);
    const float *weights = call->alpha.buffer ? kvc_span_data(call->weights) : NULL;
    if (!keys)
        return;
    read_head(call, (uint32_t)task, (const float *)kvc_span_data(call->scores) + task * call->stride,
              weights ? weights + task * group * call->stride : NULL, call->stride, NULL, keys);
}

static void select_reads(struct kvc_device *device, const struct kvc_select_reads *call) {
    struct reads_job job = {(struct kvc_cpu *)device, call, 0};
    double work = 0.0;
    for (uint32_t h = 0; h < call->lists->kv_heads; h++) {
        const uint32_t places = places_of(call->lists, call->view, h);
        job.most = places > job.most ? places : job.most;
        work += (places > call->budget ? 16.0 : 1.0) * places / LANES / (call->pages ? call->pages->page : 1) +
                (double)(call->top < places ? call->top : places);
    }
    kvc_threads_run(threads_for(job.cpu, work), call->lists->kv_heads, reads_task, &job);
}

#endif
