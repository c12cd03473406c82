/* select.h - template: select_scores, in which a decode step's query scores entries or pages, and select_scores_reads,
 * which also chooses the entries to read.
 *
 * There are three steps per KV head: compute the scores; compute the exponentials and their sums over tiles; compute
 * the probabilities and their sum over the group. If there are enough heads for the threads, one task does all three
 * steps for a head and also chooses the entries to read, so that scores and probabilities never leave the core's cache.
 * While it computes, it prefetches the entries that the thread has chosen for another head, because attention reads
 * them next. It also prefetches channels of the head that the thread computes next. Otherwise the steps run one after
 * another, each divided into ranges of tiles. */
#ifndef KVC_SIMD_SELECT_SELECT_H
#define KVC_SIMD_SELECT_SELECT_H

#include "core/base/integers.h"
#include "backends/cpu/simd/select/select_scores.h"
#include "backends/cpu/simd/select/select_probabilities.h"

/* Finds the entries and units of head h. `capacity` [blocks] is memory for the block pointers of its entries. */
static struct select_head open_choose(const struct select_job *job, const struct select_work *work, uint32_t h,
                                      const unsigned char **capacity) {
    const struct kvc_select_scores *call = job->call;
    struct select_head head = {.entries = head_open(call->lists, call->view, h, capacity), .h = h, .page = 1};
    const struct seen_range seen =
        head_seen(&head.entries, *(const int32_t *)kvc_span_data(call->positions), 0, call->window);
    head.page = job->paged ? call->pages->page : 1;
    head.units = (head.entries.places + head.page - 1) / head.page;
    head.low = seen.low < seen.high ? seen.low : head.entries.places;
    head.first = seen.low < seen.high ? seen.low / head.page : head.units;
    KVC_ASSERT(head.first <= head.units && (job->reads || head.units <= call->stride));
    head.values = work->own;
    head.probability_stride = call->stride;
    if (!job->reads) { /* if entries are also chosen, scores and probabilities are computed when needed, and not
                        * stored */
        head.scores = (float *)kvc_span_data(call->scores) + (size_t)h * call->stride;
        if (call->probabilities.buffer)
            head.probabilities = (float *)kvc_span_data(call->probabilities) + (size_t)h * job->group * call->stride;
    }
    if (job->splits > 1) {
        struct bump at = {job->shared, 0};
        head.values = bump_values(&at, job, call->heads);
        head.values.e += (size_t)h * job->group * select_row(job);
        head.values.most += (size_t)h * job->group * job->splits;
        head.values.sum += (size_t)h * job->group * job->tiles_most;
    }
    return head;
}

static void count_bytes(const struct select_job *job, const struct select_head *head) {
    const struct kvc_select_scores *call = job->call;
    const float *q = (const float *)kvc_span_data(call->q) + (size_t)head->h * job->group * job->d;
    const uint64_t n = head->units - head->first, row = call->lists->format.key.bytes;
    const uint64_t element = call->pages && call->pages->type == KVC_F16 ? 2 : 4;
    uint64_t sides = 0;
    for (uint32_t c = 0; c < job->d && call->kind == KVC_SCORE_PAGE_BOUND; c++)
        sides += sides_of(job, q, c) == 3 ? 2 : 1;
    const uint64_t bytes = call->kind == KVC_SCORE_EXACT        ? n * row
                           : call->kind == KVC_SCORE_PAGE_BOUND ? n * sides * element
                           : call->pages                        ? n * call->dims * element
                                                                : n * call->dims * row / job->d;
    __atomic_fetch_add(call->bytes_read, bytes, __ATOMIC_RELAXED);
}

/* Finds channels of the head that the thread will probably compute next, to prefetch them. Overwrites the channels in
 * `work`, which are no longer needed. */
static void find_ahead(const struct select_job *job, struct select_work *work, const struct select_head *now,
                       unsigned thread, struct select_prefetch *ahead) {
    const struct kvc_select_scores *call = job->call;
    const size_t h = stealing_next(job->cpu, thread);
    ahead->at = ahead->end = 0;
    if (h >= call->lists->kv_heads || !call->pages || call->kind == KVC_SCORE_PAGE_BOUND)
        return;
    const float *q = (const float *)kvc_span_data(call->q) + h * job->group * job->d;
    const uint32_t places = places_of(call->lists, call->view, (uint32_t)h);
    if (places <= call->budget)
        return;
    const size_t element = call->pages->type == KVC_F16 ? 2 : 4;
    const size_t end = (places + now->page - 1) / now->page * element;
    find_channels(job, work, q);
    ahead->channels = work->dots;
    ahead->channel = 0;
    ahead->dims = point_channels(job, work, (uint32_t)h, q);
    ahead->at = now->first * element;
    ahead->end = ahead->at + CHANNEL_BYTES_AHEAD / ahead->dims;
    ahead->end = kvc_min_u64(ahead->end, end);
}

static void select_task(void *argument, size_t task, unsigned thread) {
    const struct select_job *job = argument;
    const struct kvc_select_scores *call = job->call;
    struct select_prefetch *ahead = job->ahead ? &job->ahead[thread] : NULL;
    const uint32_t h = (uint32_t)(task / job->splits), split = (uint32_t)(task % job->splits);
    struct select_work work;
    const size_t shared = thread == 0 ? job->shared_bytes : 0, own = lay_out_choose(job, &work, NULL);
    if (places_of(call->lists, call->view, h) <= call->budget) {
        if (job->reads)
            read_head(job->reads, h, NULL, NULL, 0, NULL, NULL);
        return;
    }
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, shared + own);
    if (!scratch)
        return;
    lay_out_choose(job, &work, scratch + shared);
    const struct select_head head =
        open_choose(job, &work, h, work.block + (ahead && ahead->heads++ % 2 ? job->blocks_most : 0));
    const uint32_t tiles = (head.units + KVC_TILE - 1) / KVC_TILE;
    const uint32_t from = (uint32_t)((uint64_t)tiles * split / job->splits) * KVC_TILE;
    uint32_t to = (uint32_t)((uint64_t)tiles * (split + 1) / job->splits) * KVC_TILE;
    to = kvc_min_u32(to, head.units);
    if (job->step <= 1) {
        const uint32_t low = kvc_max_u32(head.first, from);
        for (uint32_t g = 0; g < job->group; g++)
            work.most[g] = -kvc_infinity();
        if (low < to)
            score_units(job, &work, &head, low, to, work.most);
        for (uint32_t g = 0; g < job->group; g++)
            head.values.most[g * job->splits + split] = work.most[g];
        if (ahead)
            find_ahead(job, &work, &head, thread, ahead);
    }
    if ((job->step == 0 || job->step == 2) && call->kind != KVC_SCORE_PAGE_BOUND)
        exponentials(job, &head, from, to, ahead);
    if (job->step == 0 || job->step == 3)
        head_shares(job, &head, work.factor, from, to);
    if (job->reads) {
        const struct unit_scores scores = {head.values.e, work.factor, select_row(job), job->group, ahead, head.first};
        read_head(job->reads, h, &scores, scores.e, scores.stride, work.factor, work.read_keys);
        ahead->chosen = head.entries;
        ahead->chosen.index = (const uint32_t *)job->reads->reads->index->data + (size_t)h * job->reads->reads->stride;
        ahead->chosen.places = ((const uint32_t *)job->reads->reads->count->data)[h];
        ahead->next = 0;
    } else if (job->step == 0 || job->step == 3) {
        group_probabilities(job, &head, work.factor, from, to);
    }
    if (job->step <= 1 && split == 0 && call->bytes_read)
        count_bytes(job, &head);
}

static void run_choose(struct kvc_device *device, const struct kvc_select_scores *call,
                       const struct kvc_select_reads *reads) {
    struct select_job job = {.cpu = (struct kvc_cpu *)device,
                             .call = call,
                             .reads = reads,
                             .group = call->heads / call->lists->kv_heads,
                             .d = call->head_size,
                             .splits = 1,
                             .paged = call->kind >= KVC_SCORE_PAGE_CHANNELS};
    const uint32_t heads = call->lists->kv_heads, page = job.paged ? call->pages->page : 1;
    struct select_work work;
    double vectors = 0.0;
    for (uint32_t h = 0; h < heads; h++) {
        const uint32_t blocks = (uint32_t)head_block_count(call->lists, h);
        const uint32_t units = (places_of(call->lists, call->view, h) + page - 1) / page;
        job.blocks_most = kvc_max_u32(blocks, job.blocks_most);
        job.units_most = kvc_max_u32(units, job.units_most);
        vectors += (double)units * job.group * ((call->kind == KVC_SCORE_CHANNELS ? call->dims : job.d) + 40.0) / LANES;
    }
    job.tiles_most = (job.units_most + KVC_TILE - 1) / KVC_TILE;
    struct kvc_threads *threads = threads_for(job.cpu, vectors);
    const uint32_t count = threads ? kvc_threads_count(threads) : 1;
    if (heads % count != 0 && heads < 4 * count) {
        job.splits = (2 * count + heads - 1) / heads;
        job.splits = kvc_min_u32(job.splits, job.tiles_most);
    }
    if (job.splits <= 1) {
        job.splits = 1;
        if (reads) {
            job.shared_bytes = (count * sizeof *job.ahead + 63) / 64 * 64;
            job.shared = kvc_cpu_scratch(job.cpu, 0, job.shared_bytes + lay_out_choose(&job, &work, NULL));
            job.ahead = (struct select_prefetch *)(void *)job.shared;
            if (!job.ahead)
                return;
            memset(job.ahead, 0, job.shared_bytes);
        }
        stealing_run(job.cpu, threads, heads, select_task, &job);
        return;
    }
    struct bump at = {NULL, 0};
    job.reads = NULL;
    bump_values(&at, &job, call->heads);
    job.shared_bytes = at.used;
    /* allocated at once, because it must not move during the three steps */
    job.shared = kvc_cpu_scratch(job.cpu, 0, job.shared_bytes + lay_out_choose(&job, &work, NULL));
    for (job.step = 1; job.shared && job.step <= 3; job.step++)
        stealing_run(job.cpu, threads, (size_t)heads * job.splits, select_task, &job);
    if (reads)
        select_reads(device, reads);
}

static void select_scores(struct kvc_device *device, const struct kvc_select_scores *call) {
    run_choose(device, call, NULL);
}

static void select_scores_reads(struct kvc_device *device, const struct kvc_select_scores_reads *args) {
    run_choose(device, args->scores, args->reads);
}

#endif
