/* select_reads.h - template: select_reads writes the best entries, or the entries of the best pages, as ascending read
 * lists. */
#ifndef KVC_SIMD_SELECT_SELECT_READS_H
#define KVC_SIMD_SELECT_SELECT_READS_H

#include "core/base/integers.h"
#include "backends/cpu/simd/pages.h"
#include "backends/cpu/simd/keep.h"

#define SAMPLE 512u

/* Returns the result of `threshold`, given that it is in low .. high. Searches only the bits after the leading bits
 * that low and high have in common. */
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

/* Copies the keys [n] that lie from low to high, in order, padded with INT32_MIN. Returns their number. `to` may be
 * `keys`. */
static uint32_t keys_between(const int32_t *keys, uint32_t n, int32_t low, int32_t high, int32_t *to) {
    const vi lowest = vi_set(low), highest = vi_set(high);
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i += LANES) {
        const vi x = vi_load(keys + i);
        const unsigned out = vm_bits(vm_or(vi_greater(lowest, x), vi_greater(x, highest)));
        count += vi_append(to + count, x, vm_bits(vm_first(n - i)) & ~out);
    }
    for (uint32_t i = count; i % LANES != 0; i++)
        to[i] = INT32_MIN;
    return count;
}

/* Returns the result of threshold_between, but scans only the keys that may still be the result. rest [n, padded] is
 * scratch. */
static int32_t threshold_among(const int32_t *keys, uint32_t n, uint32_t top, int32_t low, int32_t high,
                               int32_t *rest) {
    top -= count_above(keys, n, high);
    n = keys_between(keys, n, low, high, rest);
    while (low < high && n > 4 * LANES) {
        /* middle: the lowest value in low .. high in which this bit is 1 */
        const int first = 31 - __builtin_clz((uint32_t)low ^ (uint32_t)high);
        const uint32_t below = (uint32_t)high & ~((1u << first) - 1);
        const int32_t middle = first == 31 ? 0 : (int32_t)below;
        const uint32_t above = count_above(rest, n, middle - 1);
        if (above >= top) {
            low = middle;
        } else {
            high = middle - 1;
            top -= above;
        }
        n = keys_between(rest, n, low, high, rest);
    }
    return threshold_between(rest, n, top, low, high);
}

/* What a thread prefetches while it computes on data in the cache. The thread prefetches the entries chosen for its
 * previous head, from number `next` on. It also prefetches bytes `at` .. `end` - 1 of each of the `dims` channels of
 * its next head, one piece of each channel in turn. */
struct select_prefetch {
    struct head_entries chosen;
    uint32_t next, dims, channel;
    const struct dot_channel *channels;
    size_t at, end;
    unsigned heads; /* number of heads for which the thread has chosen entries */
};

#define ENTRIES_AT_ONCE 4u
#define CHANNEL_BYTES_AT_ONCE 1024u
/* limit, so that the prefetched channels and this head's data fit in the cache */
#define CHANNEL_BYTES_AHEAD ((size_t)256 << 10)

static void prefetch_next(struct select_prefetch *ahead) {
    if (!ahead)
        return;
    for (unsigned i = 0; i < ENTRIES_AT_ONCE && ahead->next < ahead->chosen.places; i++) {
        const uint32_t slot = head_slot(&ahead->chosen, ahead->next++);
        prefetch_row_far(slot_key(&ahead->chosen, slot), ahead->chosen.key_bytes);
        prefetch_row_far(slot_value(&ahead->chosen, slot), ahead->chosen.value_bytes);
    }
    if (ahead->at + CHANNEL_BYTES_AT_ONCE > ahead->end)
        return;
    const unsigned char *from = ahead->channels[ahead->channel].high + ahead->at;
    UNROLL
    for (size_t b = 0; b < CHANNEL_BYTES_AT_ONCE; b += 64)
        __builtin_prefetch(from + b, 0, 2);
    if (++ahead->channel == ahead->dims) {
        ahead->channel = 0;
        ahead->at += CHANNEL_BYTES_AT_ONCE;
    }
}

/* The source of scores. The score of unit i (an entry or a page) is the sum of e[r * stride + i] * factor[r] over all
 * rows r in ascending order. */
struct unit_scores {
    const float *e, *factor;
    size_t stride;
    uint32_t rows;
    struct select_prefetch *ahead; /* what to prefetch meanwhile, or NULL */
    uint32_t hidden;               /* the first units, which are not seen: their probability is 0, whatever e is */
};

/* The units that may be among the best, ascending, and their keys, padded with INT32_MIN to a whole vector. The lowest
 * key of the best units is in low .. high. */
struct candidates {
    int32_t *key, *unit; /* [keys_capacity] */
    uint32_t count;
    int32_t low, high;
};

/* Returns the number of keys to allocate for n units. */
INLINE size_t keys_capacity(uint32_t n) { return ((size_t)n + 3 * LANES) / LANES * LANES; }

/* Appends the scores and numbers of n <= LANES units from i on. Leaves out units whose scores are below `low`, unless
 * `any` is set. */
INLINE uint32_t add_candidates(const float *e, size_t stride, uint32_t rows, const float *factor, uint32_t i,
                               uint32_t n, vf low, bool any, int32_t *key, int32_t *unit) {
    vf total = vf_mul(n < LANES ? vf_part_load(e + i, n) : vf_load(e + i), vf_set(factor[0]));
    for (uint32_t r = 1; r < rows; r++) {
        e += stride;
        total = vf_add(total, vf_mul(n < LANES ? vf_part_load(e + i, n) : vf_load(e + i), vf_set(factor[r])));
    }
    const unsigned bits = (any ? ~0u : vm_bits(vf_reaches(total, low))) & (unsigned)((1ull << n) - 1);
    vi_append(key, vf_bits(total), bits);
    return vi_append(unit, vi_add(vi_ascending(), vi_set((int32_t)i)), bits);
}

/* Converts a sort key back to its score. The key must not be INT32_MIN. */
static float key_score(int32_t key) { return kvc_from_bits((uint32_t)key ^ ((uint32_t)(key >> 31) & INT32_MAX)); }

INLINE uint32_t all_candidates(const struct unit_scores *scores, uint32_t rows, uint32_t n,
                               const struct candidates *to) {
    const bool any = to->low == INT32_MIN;
    const vf low = vf_set(any ? 0.0f : key_score(to->low));
    const float *const e = scores->e; /* copies, because the compiler must assume that stores may change them */
    const size_t stride = scores->stride;
    int32_t *const key = to->key, *const unit = to->unit;
    float few[4] = {0.0f};
    for (uint32_t r = 0; r < rows && r < 4; r++)
        few[r] = scores->factor[r];
    const float *const factor = rows <= 4 ? few : scores->factor;
    uint32_t count = 0, i = 0;
    for (; i + LANES <= n; i += LANES) {
        if (i % KVC_TILE == 0)
            prefetch_next(scores->ahead);
        count += add_candidates(e, stride, rows, factor, i, LANES, low, any, key + count, unit + count);
    }
    if (i < n)
        count += add_candidates(e, stride, rows, factor, i, n - i, low, any, key + count, unit + count);
    for (i = 0; i < count; i += LANES)
        vi_store(key + i, score_keys(vf_from_bits(vi_load(key + i))));
    return count;
}

/* Finds candidates that include the best `top` + `more` of n units. If n is large, a sample of the units first gives a
 * lower and an upper bound for the lowest key of the best `top` units. */
static void find_candidates(const struct unit_scores *scores, uint32_t n, uint32_t top, uint32_t more,
                            struct candidates *to) {
    to->low = INT32_MIN;
    to->high = INT32_MAX;
    if (n >= 4 * SAMPLE && top < n) {
        const uint32_t expected = (uint32_t)((uint64_t)top * SAMPLE / n);
        uint32_t margin = 4;
        float sample[SAMPLE];
        while (margin * margin < 9 * expected)
            margin++;
        for (uint32_t i = 0; i < SAMPLE; i++) {
            const float *e = scores->e + (uint64_t)i * n / SAMPLE;
            float total = 0.0f;
            for (uint32_t r = 0; r < scores->rows; r++)
                total = total + e[r * scores->stride] * scores->factor[r];
            sample[i] = total;
        }
        make_keys(to->key, sample, SAMPLE);
        if (expected + margin < SAMPLE)
            to->low = threshold(to->key, SAMPLE, expected + margin);
        if (expected > margin)
            to->high = threshold_between(to->key, SAMPLE, expected - margin, to->low, INT32_MAX);
    }
    for (;;) {
        to->count = scores->rows == 1   ? all_candidates(scores, 1, n, to)
                    : scores->rows == 3 ? all_candidates(scores, 3, n, to)
                    : scores->rows == 4 ? all_candidates(scores, 4, n, to)
                                        : all_candidates(scores, scores->rows, n, to);
        if (to->count >= top + more)
            break;
        to->low = INT32_MIN; /* the sample was misleading: take all units */
    }
    for (uint32_t i = to->count; i % LANES != 0; i++)
        to->key[i] = INT32_MIN;
    if (count_above(to->key, to->count, to->high) >= top)
        to->high = INT32_MAX;
}

/* Writes the entries of the `top` best candidates, ascending. Each unit has `page` entries. If several candidates have
 * the key `bound`, those with the lowest units are taken. The last `cut` entries of the last of these units are left
 * out. Overwrites the candidates. */
static uint32_t *write_units(const struct candidates *from, uint32_t top, uint32_t page, uint32_t places, uint32_t cut,
                             int32_t bound, uint32_t *next) {
    uint32_t equal = top - count_above(from->key, from->count, bound), chosen = 0, last = UINT32_MAX;
    const vi bounds = vi_set(bound);
    for (uint32_t i = 0; i < from->count; i += LANES) {
        const vi x = vi_load(from->key + i), unit = vi_load(from->unit + i);
        unsigned bits = vm_bits(vi_greater(x, bounds));
        unsigned same = equal ? vm_bits(vi_equal(x, bounds)) & vm_bits(vm_first(from->count - i)) : 0;
        for (; same && equal > 0; same &= same - 1) {
            bits |= same & -same;
            if (--equal == 0)
                last = (uint32_t)from->unit[i + (unsigned)__builtin_ctz(same)];
        }
        chosen += vi_append(from->unit + chosen, unit, bits); /* overwrites only candidates that have been read */
    }
    if (page == 1) {
        memcpy(next, from->unit, chosen * sizeof *next);
        return next + chosen;
    }
    for (uint32_t i = 0; i < chosen; i++) {
        const uint32_t unit = (uint32_t)from->unit[i], first = unit * page;
        const uint32_t count = kvc_min_u32(places - first, page) - (unit == last ? cut : 0);
        /* There is room for a whole vector: indices ascend, so at most `first` of them have been written. */
        if (page <= LANES && first + LANES <= places) {
            vi_store(next, vi_add(vi_ascending(), vi_set((int32_t)first)));
            next += count;
        } else {
            next = count_up(next, first, count);
        }
    }
    return next;
}

/* Writes to `next`, ascending, the entries to read of a head with `places` entries. Returns the address after the last
 * one. keys [3, keys_capacity(n)] is scratch. */
static uint32_t *select_places(const struct kvc_select_reads *call, const struct unit_scores *scores, uint32_t places,
                               int32_t *keys, uint32_t *next) {
    const uint32_t page = call->pages ? call->pages->page : 1, units = (places + page - 1) / page;
    const uint32_t local = call->local < places ? (uint32_t)call->local : places, n = units - local;
    /* counts units if pages are read as a whole, otherwise entries */
    const uint64_t wanted = call->top > local ? call->top - local : 0;
    const uint32_t last = places - (units - 1) * page; /* number of entries in the last unit */
    uint64_t top = call->whole ? wanted : (wanted + page - 1) / page;
    if (wanted >= (call->whole || page == 1 ? n : places)) {
        next = count_up(next, 0, places - local);
    } else if (wanted > 0) {
        const bool partial =
            !call->whole && last < page; /* the last page is incomplete, so one page more may be needed */
        struct candidates from = {.key = keys, .unit = keys + keys_capacity(n)};
        uint32_t cut = 0;
        find_candidates(scores, n, (uint32_t)top, partial && top < n, &from);
        int32_t *rest = from.unit + keys_capacity(n);
        int32_t bound = threshold_among(from.key, from.count, (uint32_t)top, from.low, from.high, rest);
        if (!call->whole && page > 1) {
            /* number of candidates that rank before the last page; `top` if the last page is complete or is not a
             * candidate */
            uint32_t before = (uint32_t)top;
            if (partial && (uint32_t)from.unit[from.count - 1] == n - 1) {
                before = 0;
                for (uint32_t i = 0; i + 1 < from.count; i++)
                    before += from.key[i] >= from.key[from.count - 1];
            }
            if (before < top && (top - 1) * page + last < wanted)
                bound = threshold_among(from.key, from.count, (uint32_t)++top, from.low, from.high, rest);
            cut = (uint32_t)(top * page - (before < top ? page - last : 0) - wanted);
        }
        next = write_units(&from, (uint32_t)top, page, places, cut, bound, next);
    }
    return count_up(next, places - local, local);
}

/* Returns the sum of a query head's probabilities over the `count` indices that are read, times `factor`, as a 32-lane
 * sum. Indices below `hidden` have probability 0. */
static float probability_of_reads(const uint32_t *index, uint32_t count, const float *probability, float factor,
                                  uint32_t hidden, struct select_prefetch *ahead) {
    float some[KVC_TILE]; /* large enough that the first values have been stored when they are loaded */
    vf lane[LANE_VECTORS];
    UNROLL
    for (unsigned f = 0; f < LANE_VECTORS; f++)
        lane[f] = vf_zero();
    for (uint32_t i = 0; i < count; i += KVC_TILE) {
        const uint32_t n = kvc_min_u32(count - i, KVC_TILE);
        prefetch_next(ahead);
        for (uint32_t j = 0; j < n; j++)
            some[j] = index[i + j] < hidden ? 0.0f : probability[index[i + j]];
        for (uint32_t j = n; j % KVC_LANES != 0; j++)
            some[j] = -0.0f; /* adding -0 changes nothing */
        for (uint32_t j = 0; j < n; j += KVC_LANES)
            UNROLL
        for (unsigned f = 0; f < LANE_VECTORS; f++)
            lane[f] = vf_add(lane[f], vf_mul(vf_load(some + j + f * LANES), vf_set(factor)));
    }
    return sum_lanes(lane);
}

/* Writes the read list of head h, and alpha of its query heads. Rows of probabilities are probability_stride floats
 * apart and are multiplied by factor [G]. */
static void read_head(const struct kvc_select_reads *call, uint32_t h, const struct unit_scores *scores,
                      const float *probabilities, size_t probability_stride, const float *factor, int32_t *keys) {
    const uint32_t places = places_of(call->lists, call->view, h), group = call->heads / call->lists->kv_heads;
    uint32_t *index = (uint32_t *)call->reads->index->data + (size_t)h * call->reads->stride;
    const bool all = places <= call->budget;
    const uint32_t *next = all ? count_up(index, 0, places) : select_places(call, scores, places, keys, index);
    const uint32_t count = (uint32_t)(next - index);
    KVC_ASSERT(count <= places && count <= call->reads->stride);
    ((uint32_t *)call->reads->count->data)[h] = count;
    struct select_prefetch *ahead = scores ? scores->ahead : NULL;
    const uint32_t hidden = scores ? scores->hidden : 0;
    const float *rest = call->rest.buffer ? (const float *)kvc_span_data(call->rest) + (size_t)h * group : NULL;
    for (uint32_t g = 0; call->alpha.buffer && g < group; g++) {
        float alpha = 1.0f;
        if (!all)
            alpha = probability_of_reads(index, count, probabilities + g * probability_stride,
                                         factor ? factor[g] : 1.0f, hidden, ahead);
        if (!all && rest)
            alpha = alpha + rest[g];
        ((float *)kvc_span_data(call->alpha))[h * group + g] = alpha;
    }
    if (call->view) {
        const uint32_t *view = (const uint32_t *)call->view->index->data + (size_t)h * call->view->stride;
        for (uint32_t i = 0; i < count; i++)
            index[i] = view[index[i]];
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
    int32_t *keys = kvc_cpu_scratch(job->cpu, thread, 3 * keys_capacity(job->most) * sizeof *keys);
    const float *probabilities = call->alpha.buffer ? kvc_span_data(call->probabilities) : NULL, once = 1.0f;
    const struct unit_scores scores = {
        (const float *)kvc_span_data(call->scores) + task * call->stride, &once, 0, 1, NULL, 0};
    if (!keys)
        return;
    read_head(call, (uint32_t)task, &scores, probabilities ? probabilities + task * group * call->stride : NULL,
              call->stride, NULL, keys);
}

static void select_reads(struct kvc_device *device, const struct kvc_select_reads *call) {
    struct reads_job job = {(struct kvc_cpu *)device, call, 0};
    double work = 0.0;
    for (uint32_t h = 0; h < call->lists->kv_heads; h++) {
        const uint32_t places = places_of(call->lists, call->view, h);
        job.most = kvc_max_u32(places, job.most);
        work += (places > call->budget ? 16.0 : 1.0) * places / LANES / (call->pages ? call->pages->page : 1) +
                (double)kvc_min_u64(call->top, places);
    }
    kvc_threads_run(threads_for(job.cpu, work), call->lists->kv_heads, reads_task, &job);
}

#endif
