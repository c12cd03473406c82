/* pages.h - template: data that select methods store in addition to the entries: pages of keys, and sums of values. */
#ifndef KVC_SIMD_PAGES_H
#define KVC_SIMD_PAGES_H

#include "core/base/integers.h"
#include "backends/cpu/simd/bump.h"
#include "backends/cpu/simd/select/channels.h"

/* Returns the number of entries of head h that select methods see. */
INLINE uint32_t places_of(const struct kvc_lists *lists, const struct kvc_read_list *view, uint32_t h) {
    return ((const uint32_t *)(view ? view->count : lists->count)->data)[h];
}

struct pages_job {
    struct kvc_cpu *cpu;
    const struct kvc_lists *lists;
    const struct kvc_read_list *view;
    struct kvc_pages *pages;
    uint32_t rows, splits, blocks_most;
};

struct pages_work {
    const unsigned char **block;
    float *low, *high, *transposed; /* [LANES, padded], [LANES, padded], [padded, LANES] */
};

static size_t lay_out_pages(const struct pages_job *job, struct pages_work *work, unsigned char *base) {
    struct bump at = {base, 0};
    const size_t bytes = LANES * padded_size(job->lists->format.head_size) * sizeof(float);
    work->block = bump_take(&at, job->blocks_most * sizeof *work->block);
    work->low = bump_take(&at, bytes);
    work->high = bump_take(&at, bytes);
    work->transposed = bump_take(&at, bytes);
    return at.used;
}

/* Updates one channel of a page with the value x. The first key of a page replaces the old contents. */
static void add_to_page(const struct kvc_pages *pages, struct kvc_buffer *buffer, bool high, size_t at, float x,
                        bool first) {
    if (pages->type == KVC_F32) {
        float *value = (float *)buffer->data + at;
        *value = first || (high ? x > *value : x < *value) ? x : *value;
    } else {
        uint16_t *half = (uint16_t *)buffer->data + at;
        const float old = half_load(half);
        if (first || (high ? x > old : x < old))
            *half = kvc_f32_to_f16(x); /* exact, because the keys are F16 too */
    }
}

static void add_key(const struct pages_job *job, uint32_t h, uint32_t place, const float *key) {
    const struct kvc_pages *pages = job->pages;
    const uint32_t d = job->lists->format.head_size, page = place / pages->page;
    const size_t from = (size_t)h * d * pages->stride + page, size = pages->type == KVC_F16 ? 2 : 4;
    for (int side = 0; side < 2; side++) { /* every channel is in a cache line of its own, so all are prefetched */
        const struct kvc_buffer *buffer = side ? pages->high : pages->low;
        for (uint32_t c = 0; buffer && c < d; c++)
            __builtin_prefetch((const unsigned char *)buffer->data + (from + (size_t)c * pages->stride) * size, 1);
    }
    for (int side = 0; side < 2; side++) {
        struct kvc_buffer *buffer = side ? pages->high : pages->low;
        for (uint32_t c = 0; buffer && c < d; c++)
            add_to_page(pages, buffer, side, from + (size_t)c * pages->stride, key[c], place % pages->page == 0);
    }
}

/* Computes `low` and `high` [padded], the smallest and largest values of n keys from entry `place` on. */
static void one_page(enum kvc_type type, const struct head_entries *head, uint32_t place, uint32_t n, size_t d,
                     float *low, float *high) {
    dequantize_row(type, low, slot_key(head, head_slot(head, place)), d);
    memcpy(high, low, padded_size(d) * sizeof *low);
    for (uint32_t p = place + 1; p < place + n; p++) {
        const unsigned char *key = slot_key(head, head_slot(head, p));
        for (size_t c = 0; c < d; c += LANES) {
            const vf x = c + LANES > d      ? entry_part_load(type, key, c, d - c)
                         : type == KVC_F32  ? entry_load(KVC_F32, key, c)
                         : type == KVC_F16  ? entry_load(KVC_F16, key, c)
                         : type == KVC_Q8_0 ? entry_load(KVC_Q8_0, key, c)
                                            : entry_packed_load(type, key, c, d);
            const vf least = vf_load(low + c), most = vf_load(high + c);
            vf_store(low + c, vf_select(vf_less(x, least), x, least));
            vf_store(high + c, vf_select(vf_less(most, x), x, most));
        }
    }
}

/* Stores low or high of n <= LANES pages, from `page` on. `transposed` is scratch. */
static void store_pages(const struct pages_job *job, const struct kvc_buffer *buffer, uint32_t h, uint32_t page,
                        uint32_t n, const float *rows, float *transposed) {
    const size_t d = job->lists->format.head_size, stride = job->pages->stride;
    transpose_rows(rows, padded_size(d), n, NULL, transposed, LANES);
    for (size_t c = 0; c < d; c++) {
        const size_t at = ((size_t)h * d + c) * stride + page;
        if (job->pages->type == KVC_F32) {
            vf_part_store((float *)buffer->data + at, vf_load(transposed + c * LANES), n);
        } else if (n == LANES) {
            vf_store_f16((uint16_t *)buffer->data + at, vf_load(transposed + c * LANES));
        } else {
            uint16_t halves[LANES];
            vf_store_f16(halves, vf_load(transposed + c * LANES));
            memcpy((uint16_t *)buffer->data + at, halves, n * sizeof *halves);
        }
    }
}

static void pages_task(void *argument, size_t task, unsigned thread) {
    const struct pages_job *job = argument;
    const uint32_t h = (uint32_t)(task / job->splits), split = (uint32_t)(task % job->splits);
    const uint32_t page = job->pages->page, places = places_of(job->lists, job->view, h);
    const enum kvc_type type = job->lists->format.key.type;
    const size_t d = job->lists->format.head_size, padded = padded_size(d);
    struct pages_work work;
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, lay_out_pages(job, &work, NULL));
    if (!scratch)
        return;
    lay_out_pages(job, &work, scratch);
    const struct head_entries head = head_open(job->lists, job->view, h, work.block);
    uint32_t place = job->rows < places ? places - job->rows : 0;
    KVC_ASSERT((places + page - 1) / page <= job->pages->stride);
    /* completes a page that already has keys; `splits` is 1 in this case */
    for (; place < places && place % page != 0; place++)
        if (split == 0) {
            dequantize_row(type, work.low, slot_key(&head, head_slot(&head, place)), d);
            add_key(job, h, place, work.low);
        }
    if (places - place <= 1) { /* at most one key is left, the first of a new page; this holds in most decode steps */
        if (split == 0 && place < places) {
            dequantize_row(type, work.low, slot_key(&head, head_slot(&head, place)), d);
            add_key(job, h, place, work.low);
        }
        return;
    }
    const uint32_t first = place / page, end = (places + page - 1) / page, whole = (end - first + LANES - 1) / LANES;
    const uint32_t from = first + (uint32_t)((uint64_t)whole * split / job->splits) * LANES;
    const uint32_t to = first + (uint32_t)((uint64_t)whole * (split + 1) / job->splits) * LANES;
    for (uint32_t p = from; p < to && p < end; p += LANES) {
        const uint32_t n = kvc_min_u32(end - p, LANES);
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t at = (p + i) * page;
            one_page(type, &head, at, kvc_min_u32(places - at, page), d, work.low + i * padded, work.high + i * padded);
        }
        if (job->pages->low)
            store_pages(job, job->pages->low, h, p, n, work.low, work.transposed);
        store_pages(job, job->pages->high, h, p, n, work.high, work.transposed);
    }
}

static void pages_update(struct kvc_device *device, const struct kvc_pages_update *args) {
    const struct kvc_lists *lists = args->lists;
    struct pages_job job = {
        .cpu = (struct kvc_cpu *)device, .lists = lists, .view = args->view, .pages = args->pages, .rows = args->rows};
    double work = 0.0;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const uint32_t blocks = (uint32_t)head_block_count(lists, h), places = places_of(lists, args->view, h);
        job.blocks_most = kvc_max_u32(blocks, job.blocks_most);
        work += (double)kvc_min_u32(args->rows, places) * lists->format.head_size * 8.0 / LANES;
    }
    struct kvc_threads *threads = threads_for(job.cpu, work);
    job.splits = threads ? 4 : 1;
    kvc_threads_run(threads, (size_t)lists->kv_heads * job.splits, pages_task, &job);
}

/* ---- value_sums, mix_mean ---- */

struct sums_job {
    struct kvc_cpu *cpu;
    const struct kvc_lists *lists;
    const struct kvc_read_list *view;
    float *sums;
    uint32_t rows, blocks_most;
};

static void sums_task(void *argument, size_t task, unsigned thread) {
    const struct sums_job *job = argument;
    const uint32_t h = (uint32_t)task, places = places_of(job->lists, job->view, h);
    const enum kvc_type type = job->lists->format.value.type;
    const size_t d = job->lists->format.head_size, padded = padded_size(d);
    const size_t pointers = (job->blocks_most * sizeof(unsigned char *) + 63) / 64 * 64;
    unsigned char *scratch = kvc_cpu_scratch(job->cpu, thread, pointers + 2 * padded * sizeof(float));
    if (!scratch)
        return;
    const struct head_entries head = head_open(job->lists, job->view, h, (const unsigned char **)(void *)scratch);
    float *total = (float *)(void *)(scratch + pointers), *wide = total + padded, *sums = job->sums + h * d;
    memset(total, 0, padded * sizeof *total);
    if (job->rows != UINT32_MAX)
        memcpy(total, sums, d * sizeof *total);
    for (uint32_t p = job->rows < places ? places - job->rows : 0; p < places; p++) {
        dequantize_row(type, wide, slot_value(&head, head_slot(&head, p)), d);
        for (size_t c = 0; c < d; c += LANES)
            vf_store(total + c, vf_add(vf_load(total + c), vf_load(wide + c)));
    }
    memcpy(sums, total, d * sizeof *total);
}

static void value_sums(struct kvc_device *device, const struct kvc_value_sums *args) {
    const struct kvc_lists *lists = args->lists;
    struct sums_job job = {(struct kvc_cpu *)device, lists, args->view, kvc_span_data(args->sums), args->rows, 0};
    double work = 0.0;
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        const uint32_t blocks = (uint32_t)head_block_count(lists, h), places = places_of(lists, args->view, h);
        job.blocks_most = kvc_max_u32(blocks, job.blocks_most);
        work += (double)kvc_min_u32(args->rows, places) * lists->format.head_size * 4.0 / LANES;
    }
    kvc_threads_run(threads_for(job.cpu, work), lists->kv_heads, sums_task, &job);
}

static void mix_mean(struct kvc_device *device, const struct kvc_mix_mean *args) {
    const struct kvc_lists *lists = args->lists;
    (void)device;
    for (uint32_t h = 0; h < args->heads; h++) {
        const uint32_t list = h / (args->heads / lists->kv_heads), places = places_of(lists, args->view, list);
        const float share = ((const float *)kvc_span_data(args->alpha))[h];
        float *y = (float *)kvc_span_data(args->out) + (size_t)h * args->head_size;
        const float *sum = (const float *)kvc_span_data(args->sums) + (size_t)list * args->head_size;
        const vf rest = vf_set(1.0f - share), many = vf_set((float)places), alphas = vf_set(share);
        if (((const uint32_t *)args->reads->count->data)[list] == places)
            continue;
        size_t c = 0;
        for (; c + LANES <= args->head_size; c += LANES)
            vf_store(y + c, vf_fma(alphas, vf_load(y + c), vf_mul(rest, vf_div(vf_load(sum + c), many))));
        for (; c < args->head_size; c++)
            y[c] = kvc_fma(share, y[c], (1.0f - share) * kvc_div(sum[c], (float)places));
    }
}

#endif
