/* select.c - select methods: scores of entries or pages for a decode step, and read lists. */
#include "core/base/assert.h"
#include "core/base/integers.h"
#include "backends/offload/offload.h"
#include "core/base/canon.h"

_Static_assert((unsigned)KVC_SCORE_EXACT == KVC_UNITS_EXACT && (unsigned)KVC_SCORE_CHANNELS == KVC_UNITS_CHANNELS &&
                   (unsigned)KVC_SCORE_PAGE_CHANNELS == KVC_UNITS_PAGE_CHANNELS &&
                   (unsigned)KVC_SCORE_PAGE_BOUND == KVC_UNITS_PAGE_BOUND,
               "kernels and host must number the kinds of scores alike");

static const struct kvc_span none = {NULL, 0};

/* The workspace of one call: offsets of its parts, in words. */
struct parts {
    struct kvc_buffer *workspace;
    uint64_t keys, channels, positives, factors, share, seen, score, queries;
};

static bool make_parts(struct kvc_offload *offload, const struct kvc_select_scores *s, struct parts *parts) {
    uint64_t kv_heads = s->lists->kv_heads, d = s->head_size, at = 0;
#define KVC_PART(name, words) (parts->name = at, at += (words))
    KVC_PART(keys, kv_heads * d);
    KVC_PART(channels, kv_heads * d);
    KVC_PART(positives, kv_heads * d);
    KVC_PART(factors, s->heads);
    KVC_PART(share, s->heads);
    KVC_PART(seen, kv_heads * s->stride);
    KVC_PART(score, s->probabilities.buffer ? 0 : (uint64_t)s->heads * s->stride);
    KVC_PART(queries, kvc_offload_query_bytes(s->scoring, &s->lists->format, s->heads) / 4);
#undef KVC_PART
    parts->workspace = kvc_offload_workspace(offload, at * 4);
    return parts->workspace != NULL;
}

static struct kvc_span select_part(const struct parts *parts, uint64_t at) {
    return (struct kvc_span){parts->workspace, (size_t)(at * 4)};
}

/* Returns the bytes that a step reads for one visible unit, times *divisor. */
static uint64_t unit_bytes(const struct kvc_select_scores *s, uint64_t *divisor) {
    uint64_t element = s->pages && s->pages->type == KVC_F16 ? 2 : 4;
    *divisor = 1;
    switch (s->kind) {
    case KVC_SCORE_EXACT:
        return s->lists->format.key.bytes;
    case KVC_SCORE_PAGE_BOUND: /* the kernel counts how many sides (minima or maxima) are read */
        return element;
    case KVC_SCORE_CHANNELS:
    case KVC_SCORE_PAGE_CHANNELS:
        break;
    }
    if (s->pages)
        return s->dims * element;
    *divisor = s->head_size;
    return (uint64_t)s->dims * s->lists->format.key.bytes;
}

static void score_units(struct kvc_offload *offload, const struct kvc_select_scores *s, const struct parts *parts,
                        struct kvc_span score, uint64_t units) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_select_units);
    const struct kvc_offload_queries queries = kvc_offload_quantize_queries(
        offload, s->scoring, &s->lists->format, s->q, s->heads, parts->workspace, parts->queries * 4);
    uint64_t divisor, bytes = unit_bytes(s, &divisor);
    const struct kvc_pages no_pages = {.page = 1, .type = KVC_F32}, *pages = s->pages ? s->pages : &no_pages;
    KVC_PUSH(&launch, s->lists, s->lists->arena, s->view, pages->page, pages->stride, pages->type, pages->low,
             pages->high);
    KVC_PUSH(&launch, s->kind, s->dims, s->heads, s->lists->kv_heads);
    KVC_PUSH(&launch, s->window, s->budget, s->q, s->positions, queries.quant, queries.scale,
             kvc_score_scale(s->scoring.scale, s->head_size), s->scoring.cap);
    KVC_PUSH(&launch, select_part(parts, parts->channels), select_part(parts, parts->positives),
             select_part(parts, parts->factors), score, select_part(parts, parts->seen), s->stride,
             &offload->status_words,
             kvc_offload_read_status(offload, s->lists->kv_heads, s->bytes_read, bytes, divisor));
    kvc_launch_groups(offload, &launch, (units + KVC_TILE - 1) / KVC_TILE, s->lists->kv_heads, 1);
}

void kvc_offload_select_scores(struct kvc_device *device, const struct kvc_select_scores *s) {
    struct kvc_offload *offload = kvc_offload_of(device);
    const bool paged = s->kind == KVC_SCORE_PAGE_CHANNELS || s->kind == KVC_SCORE_PAGE_BOUND;
    const bool some = s->kind == KVC_SCORE_CHANNELS || s->kind == KVC_SCORE_PAGE_CHANNELS;
    const bool bound = s->kind == KVC_SCORE_PAGE_BOUND;
    const uint32_t page = paged ? s->pages->page : 1, group = s->heads / s->lists->kv_heads;
    const struct kvc_buffer *places = s->view ? s->view->count : s->lists->count;
    uint64_t units = (kvc_offload_most_places(s->lists, s->view) + page - 1) / page;
    struct kvc_launch sums = kvc_launch_of(KVC_KERNEL_select_sums);
    struct kvc_span score;
    struct parts parts;
    if (!make_parts(offload, s, &parts))
        return;
    units = kvc_min_u64(units, s->stride);
    score = s->probabilities.buffer ? s->probabilities : select_part(&parts, parts.score);
    if (some) {
        struct kvc_launch channels = kvc_launch_of(KVC_KERNEL_select_channels);
        KVC_PUSH(&channels, s->q, group, s->head_size, kvc_score_span(s->scoring.scale, s->head_size), s->dims,
                 select_part(&parts, parts.keys), select_part(&parts, parts.channels),
                 select_part(&parts, parts.positives), select_part(&parts, parts.factors));
        kvc_launch_groups(offload, &channels, s->lists->kv_heads, 1, 1);
    }
    score_units(offload, s, &parts, score, units);
    if (!bound) {
        struct kvc_launch softmax = kvc_launch_of(KVC_KERNEL_select_softmax);
        KVC_PUSH(&softmax, places, group, s->budget, page, score, select_part(&parts, parts.seen), s->stride,
                 select_part(&parts, parts.share), s->sinks, s->rest);
        kvc_launch_groups(offload, &softmax, s->heads, 1, 1);
    }
    KVC_PUSH(&sums, places, group, s->budget, page, score, select_part(&parts, parts.seen), s->stride,
             bound ? none : select_part(&parts, parts.share), s->scores);
    kvc_launch_items(offload, &sums, units, s->lists->kv_heads, 1);
}

void kvc_offload_select_reads(struct kvc_device *device, const struct kvc_select_reads *s) {
    struct kvc_offload *offload = kvc_offload_of(device);
    const uint64_t kv_heads = s->lists->kv_heads, taken = kv_heads * s->stride, chosen = kv_heads * s->reads->stride;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_select_reads);
    struct kvc_buffer *workspace = kvc_offload_workspace(offload, (taken + chosen + (uint64_t)s->heads * 32) * 4);
    if (!workspace)
        return;
    KVC_PUSH(&launch, s->lists, s->view, s->pages ? s->pages->page : 1, s->whole, s->heads / s->lists->kv_heads,
             s->budget, s->top, s->local);
    KVC_PUSH(&launch, s->scores, s->probabilities, s->rest, s->alpha, s->stride, s->reads,
             ((struct kvc_span){workspace, 0}), ((struct kvc_span){workspace, (size_t)taken * 4}),
             ((struct kvc_span){workspace, (size_t)(taken + chosen) * 4}));
    kvc_launch_groups(offload, &launch, s->lists->kv_heads, 1, 1);
}

void kvc_offload_cut_reads(struct kvc_device *device, const struct kvc_cut_reads *args) {
    KVC_ASSERT(args->page > 0);
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_cut_reads);
    KVC_PUSH(&launch, args->lists, args->view, args->page, args->whole, args->budget, args->factor, args->share,
             args->scores, args->stride, args->reads);
    kvc_launch_groups(kvc_offload_of(device), &launch, args->lists->kv_heads, 1, 1);
}
