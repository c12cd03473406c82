/* keep_ring.h - template: finds the entry to evict, which has the lowest sum over a ring buffer of recent queries. It
 * does so without reading all rows of the buffer.
 *
 * A decode step evicts one entry, so only the lowest sum matters. Sums of blocks of rows are stored as well. Adding
 * these block sums gives each entry's sum only up to rounding, because the order of additions differs. The rounding
 * error has a bound: all terms are positive, so a sum of n terms is off by less than n half units in the last place.
 * Only the entries that may have the lowest sum are then summed exactly, in the defined order. */
#ifndef KVC_SIMD_KEEP_RING_H
#define KVC_SIMD_KEEP_RING_H

#include "core/base/integers.h"
#include "backends/cpu/simd/scores/ring_fuse.h"
#include "backends/cpu/simd/keep.h"
#include "core/base/fused.h"

#define LOWEST_MOST 64u /* limit for the number of entries that are summed one by one */

struct keep_ring_job {
    struct kvc_cpu *cpu;
    const struct kvc_lists *lists;
    const struct kvc_keep *rule;
    const struct kvc_ring *ring;
    const float *scores; /* [H_kv, stride] or NULL */
    uint32_t stride, slots_most;
    struct kvc_read_list *kept;
};

/* One head of the call. */
struct ring_head {
    const struct keep_ring_job *job;
    const uint32_t *order; /* NULL: slots equal indices */
    const float *state;
    uint32_t slots, used, old; /* old: number of indices that may be evicted; used: the highest slot of these, plus 1 */
};

static struct ring_head open_ring_head(const struct keep_ring_job *job, uint32_t h) {
    const struct kvc_lists *lists = job->lists;
    const uint32_t base = lists->host_base[h];
    struct ring_head head = {.job = job,
                             .order = lists->order ? (const uint32_t *)lists->order->data + base : NULL,
                             .state = (const float *)lists->state->data + (size_t)lists->columns * base,
                             .slots = lists->host_base[h + 1] - base,
                             .old = indices_before(lists, h, job->rule->recent)};
    head.used = head.order ? slots_in_use(head.order, head.old) : head.old;
    KVC_ASSERT(head.used <= head.slots);
    return head;
}

INLINE const float *ring_column_of(const struct ring_head *head, uint32_t column) {
    KVC_ASSERT(column < head->job->lists->columns);
    return head->state + (size_t)column * head->slots;
}

/* Returns row i of the ring buffer; row 0 is the oldest. */
INLINE const float *ring_row_of(const struct ring_head *head, uint32_t i) {
    const struct kvc_ring *ring = head->job->ring;
    return ring_column_of(head, ring->first + (uint32_t)((ring->now + i) % ring->ring));
}

static float exact_sum(const struct ring_head *head, uint32_t index) {
    const uint32_t slot = head->order ? head->order[index] : index;
    float sum = 0.0f;
    for (uint32_t i = 0; i < head->job->ring->ring; i++)
        sum = sum + ring_row_of(head, i)[slot];
    return sum;
}

/* Computes the exact sums of all entries, by slot. */
static void exact_sums(const struct ring_head *head, float *sums) {
    for (uint32_t i = 0; i < head->job->ring->ring; i++)
        fuse_row(sums, ring_row_of(head, i), head->used, KVC_FUSE_SUM, i == 0);
}

/* Computes the sums of all entries by slot, up to rounding: adds the rows of the newest block and the stored sums of
 * the other blocks. */
static void near_sums(const struct ring_head *head, float *sums) {
    const struct kvc_ring *ring = head->job->ring;
    const uint32_t newest = (uint32_t)((ring->now - 1) % ring->ring), block = newest / KVC_RING_BLOCK;
    const uint32_t from = block * KVC_RING_BLOCK;
    const uint32_t to = ring->ring - from < KVC_RING_BLOCK ? ring->ring : from + KVC_RING_BLOCK;
    for (uint32_t c = from; c < to; c++)
        fuse_row(sums, ring_column_of(head, ring->first + c), head->used, KVC_FUSE_SUM, c == from);
    for (uint32_t b = 0; b < kvc_ring_blocks(ring->ring); b++)
        if (b != block)
            fuse_row(sums, ring_column_of(head, ring->sums + b), head->used, KVC_FUSE_SUM, false);
}

/* Computes keys [old] from the exact sums. If `wanted` [old] is not NULL, only the entries with wanted == least get
 * their keys. The others get INT32_MAX, so that they are never the lowest. */
static void all_keys(const struct ring_head *head, float *sums, const int32_t *wanted, int32_t least, int32_t *keys) {
    exact_sums(head, sums);
    for (uint32_t r = 0; r < head->old; r++) {
        const uint32_t key = kvc_score_key(sums[head->order ? head->order[r] : r]) ^ 0x80000000u;
        keys[r] = wanted && wanted[r] != least ? INT32_MAX : (int32_t)key;
    }
}

/* Returns the index to evict. `sums` [slots_most], `keys` [old + one vector] and `near` [old + one vector] are scratch.
 */
static uint32_t lowest_index(const struct ring_head *head, const float *score, float *sums, int32_t *keys,
                             float *near) {
    const struct kvc_ring *ring = head->job->ring;
    const uint32_t old = head->old;
    KVC_ASSERT(old >= 2);
    uint32_t indices[LOWEST_MOST], found = 0, gone = old - 1;
    int32_t least = 0;
    float bound = kvc_infinity();
    if (score) { /* candidates are the entries with the lowest score */
        make_keys(keys, score, old);
        gone = last_lowest(keys, old);
        least = keys[gone];
    }
    if (!score && ring->sums != UINT32_MAX) {
        float lane[LANES];
        near_sums(head, sums);
        for (uint32_t r = 0; r < old; r++)
            near[r] = sums[head->order ? head->order[r] : r];
        for (uint32_t r = old; r % LANES != 0; r++)
            near[r] = kvc_infinity();
        vf low = vf_set(kvc_infinity());
        vm nan = vf_is_nan(low);
        for (uint32_t r = 0; r < old; r += LANES) {
            const vf x = vf_load(near + r);
            nan = vm_or(nan, vf_is_nan(x));
            low = vf_select(vf_less(x, low), x, low);
        }
        vf_store(lane, low);
        UNROLL
        for (unsigned i = 0; i < LANES; i++)
            bound = lane[i] < bound ? lane[i] : bound;
        bound = vm_bits(nan) ? kvc_infinity() : bound * (1.0f + (float)(ring->ring + 16) * 0x1p-22f);
    } else if (!score) {
        found = LOWEST_MOST + 1;
    }
    for (uint32_t r = 0; r < old && found <= LOWEST_MOST; r += LANES) {
        unsigned bits = score ? vm_bits(vi_equal(vi_load(keys + r), vi_set(least)))
                              : ~vm_bits(vf_less(vf_set(bound), vf_load(near + r))) & ((1u << LANES) - 1);
        for (; bits && found <= LOWEST_MOST; bits &= bits - 1) {
            const uint32_t index = r + (unsigned)__builtin_ctz(bits);
            if (index >= old)
                break;
            if (found < LOWEST_MOST)
                indices[found] = index;
            found++;
        }
    }
    if (found > LOWEST_MOST) { /* too many candidates: sum all entries exactly */
        int32_t *exact = (int32_t *)(void *)near;
        all_keys(head, sums, score ? keys : NULL, least, exact);
        return last_lowest(exact, old);
    }
    uint32_t lowest = UINT32_MAX;
    for (uint32_t i = 0; i < found && found > 1; i++) {
        const uint32_t key = kvc_score_key(exact_sum(head, indices[i]));
        if (i == 0 || key <= lowest) {
            lowest = key;
            gone = indices[i];
        }
    }
    return found == 1 ? indices[0] : gone;
}

static void keep_ring_task(void *argument, size_t task, unsigned thread) {
    const struct keep_ring_job *job = argument;
    const uint32_t h = (uint32_t)task, count = ((const uint32_t *)job->lists->count->data)[h];
    uint32_t *indices = (uint32_t *)job->kept->index->data + (size_t)h * job->kept->stride, *next;
    if (count <= job->rule->limit) {
        next = count_up(indices, 0, count);
    } else {
        const struct ring_head head = open_ring_head(job, h);
        const size_t capacity = ((size_t)job->slots_most + 2 * LANES) * sizeof(float);
        struct bump at = {kvc_cpu_scratch(job->cpu, thread, 3 * capacity + 4096), 0};
        if (!at.base)
            return;
        float *sums = bump_take(&at, capacity), *near = bump_take(&at, capacity);
        int32_t *keys = bump_take(&at, capacity);
        const uint32_t gone =
            lowest_index(&head, job->scores ? job->scores + (size_t)h * job->stride : NULL, sums, keys, near);
        KVC_ASSERT(gone < head.old);
        next = count_up(indices, 0, gone);
        next = count_up(next, gone + 1, count - gone - 1);
    }
    ((uint32_t *)job->kept->count->data)[h] = (uint32_t)(next - indices);
}

/* Returns true if `keep` evicts at most one entry of every head, by the lowest sum. */
static bool one_goes(const struct kvc_lists *lists, const struct kvc_keep *rule) {
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const uint32_t count = ((const uint32_t *)lists->count->data)[h];
        const uint32_t old = indices_before(lists, h, rule->recent);
        const uint64_t forced = count - old, fill = rule->fill > forced ? rule->fill - forced : 0;
        if (count > rule->limit && (old < 2 || kvc_max_u64(rule->top, fill) != old - 1))
            return false;
    }
    return rule->first == 0 && rule->tail == 0;
}

static void keep_ring(struct kvc_device *device, const struct kvc_keep_ring *args) {
    const struct kvc_lists *lists = args->lists;
    struct keep_ring_job job = {.cpu = (struct kvc_cpu *)device,
                                .lists = lists,
                                .rule = args->rule,
                                .ring = args->ring,
                                .scores = args->scores.buffer ? (const float *)kvc_span_data(args->scores) : NULL,
                                .stride = args->stride,
                                .kept = args->kept};
    double work = 0.0;
    if (!one_goes(lists, args->rule)) {
        kvc_run_keep_ring_apart(device, args);
        return;
    }
    KVC_ASSERT(args->ring->ring > 0 && args->ring->first + args->ring->ring <= lists->columns);
    KVC_ASSERT(args->ring->sums == UINT32_MAX ||
               args->ring->sums + kvc_ring_blocks(args->ring->ring) <= lists->columns);
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const uint32_t slots = lists->host_base[h + 1] - lists->host_base[h];
        job.slots_most = kvc_max_u32(slots, job.slots_most);
        work +=
            (double)((const uint32_t *)lists->count->data)[h] * (job.scores ? 10.0 : 5.0 * args->ring->ring) / LANES;
    }
    kvc_threads_run(threads_for(job.cpu, work), lists->kv_heads, keep_ring_task, &job);
}

#endif
