/* select.c - select methods: views, pages, sums of values, scores of places or pages, read lists. */
#include "backends/offload/offload.h"
#include "core/base/canon.h"

_Static_assert((unsigned)KVC_SCORE_EXACT == KVC_UNITS_EXACT && (unsigned)KVC_SCORE_CHANNELS == KVC_UNITS_CHANNELS &&
                   (unsigned)KVC_SCORE_PAGE_CHANNELS == KVC_UNITS_PAGE_CHANNELS &&
                   (unsigned)KVC_SCORE_PAGE_BOUND == KVC_UNITS_PAGE_BOUND,
               "kernels know the kinds by these numbers");

static struct kvc_offload *of(struct kvc_device *device) { return (struct kvc_offload *)device; }

static const struct kvc_span none = {NULL, 0};

/* At most so many places of a head. */
static uint64_t most_places(const struct kvc_lists *lists, const struct kvc_read_list *view) {
    return view ? view->stride : kvc_offload_most_slots(lists);
}

static void view_append(struct kvc_device *device, const struct kvc_lists *lists, struct kvc_read_list *view,
                        uint32_t rows) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_view_append);
    kvc_launch_lists(&launch, lists);
    kvc_launch_reads(&launch, view);
    kvc_launch_word(&launch, rows);
    kvc_launch_groups(of(device), &launch, lists->kv_heads, 1, 1);
}

static void view_evict(struct kvc_device *device, const struct kvc_lists *lists, const struct kvc_read_list *kept,
                       struct kvc_read_list *view) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_view_evict);
    kvc_launch_reads(&launch, kept);
    kvc_launch_reads(&launch, view);
    kvc_launch_groups(of(device), &launch, lists->kv_heads, 1, 1);
}

/* How many heads share a dimension of the grid: all where each has little to do, so that few groups do it all. */
static uint32_t heads_across(const struct kvc_lists *lists, uint32_t rows) { return rows <= 16 ? lists->kv_heads : 1; }

static void pages_update(struct kvc_device *device, const struct kvc_lists *lists, const struct kvc_read_list *view,
                         struct kvc_pages *pages, uint32_t rows) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_pages_update);
    const uint32_t across = heads_across(lists, rows);
    uint64_t places = most_places(lists, view), changed = (rows < places ? rows : places) / pages->page + 2;
    changed = changed < pages->stride ? changed : pages->stride;
    kvc_launch_lists(&launch, lists);
    kvc_launch_arena(&launch, lists->arena);
    kvc_launch_reads(&launch, view);
    kvc_launch_word(&launch, pages->page);
    kvc_launch_word(&launch, pages->stride);
    kvc_launch_word(&launch, pages->type);
    kvc_launch_buffer(&launch, pages->low);
    kvc_launch_buffer(&launch, pages->high);
    kvc_launch_word(&launch, rows);
    kvc_launch_word(&launch, (uint32_t)changed);
    kvc_launch_word(&launch, across);
    kvc_launch_items(of(device), &launch, changed * across * (of(device)->workers == 1 ? 1 : lists->format.head_size),
                     lists->kv_heads / across, 1);
}

static void value_sums(struct kvc_device *device, const struct kvc_lists *lists, const struct kvc_read_list *view,
                       struct kvc_span sums, uint32_t rows) {
    const uint32_t across = heads_across(lists, rows);
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_value_sums);
    kvc_launch_lists(&launch, lists);
    kvc_launch_arena(&launch, lists->arena);
    kvc_launch_reads(&launch, view);
    kvc_launch_span(&launch, sums);
    kvc_launch_word(&launch, rows);
    kvc_launch_word(&launch, across);
    kvc_launch_items(of(device), &launch, across * kvc_offload_runs(of(device), lists->format.head_size),
                     lists->kv_heads / across, 1);
}

static void mix_mean(struct kvc_device *device, const struct kvc_lists *lists, const struct kvc_read_list *view,
                     const struct kvc_read_list *reads, uint32_t heads, uint32_t head_size, struct kvc_span out,
                     struct kvc_span alpha, struct kvc_span sums) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_mix_mean);
    kvc_launch_lists(&launch, lists);
    kvc_launch_reads(&launch, view);
    kvc_launch_buffer(&launch, reads->count);
    kvc_launch_word(&launch, heads);
    kvc_launch_word(&launch, lists->kv_heads);
    kvc_launch_word(&launch, head_size);
    kvc_launch_span(&launch, out);
    kvc_launch_span(&launch, alpha);
    kvc_launch_span(&launch, sums);
    kvc_launch_items(of(device), &launch, (uint64_t)heads * (of(device)->workers == 1 ? 1 : head_size), 1, 1);
}

/* ---- scores ---- */

/* The workspace of one call, in words from `at`. */
struct parts {
    struct kvc_buffer *workspace;
    uint64_t keys, channels, positives, factors, share, seen, score;
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
#undef KVC_PART
    parts->workspace = kvc_offload_workspace(offload, at * 4);
    return parts->workspace != NULL;
}

static struct kvc_span part(const struct parts *parts, uint64_t at) {
    return (struct kvc_span){parts->workspace, (size_t)(at * 4)};
}

/* What one unit that is seen costs, times *divisor. */
static uint64_t unit_bytes(const struct kvc_select_scores *s, uint64_t *divisor) {
    uint64_t element = s->pages && s->pages->type == KVC_F16 ? 2 : 4;
    *divisor = 1;
    switch (s->kind) {
    case KVC_SCORE_EXACT:
        return s->lists->format.row_bytes;
    case KVC_SCORE_PAGE_BOUND: /* the kernel counts the sides */
        return element;
    case KVC_SCORE_CHANNELS:
    case KVC_SCORE_PAGE_CHANNELS:
        break;
    }
    if (s->pages)
        return s->dims * element;
    *divisor = s->head_size;
    return (uint64_t)s->dims * s->lists->format.row_bytes;
}

static void score_units(struct kvc_offload *offload, const struct kvc_select_scores *s, const struct parts *parts,
                        struct kvc_span score, uint64_t units) {
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_select_units);
    uint64_t divisor, bytes = unit_bytes(s, &divisor);
    kvc_launch_lists(&launch, s->lists);
    kvc_launch_arena(&launch, s->lists->arena);
    kvc_launch_reads(&launch, s->view);
    kvc_launch_word(&launch, s->pages ? s->pages->page : 1);
    kvc_launch_word(&launch, s->pages ? s->pages->stride : 0);
    kvc_launch_word(&launch, s->pages ? s->pages->type : KVC_F32);
    kvc_launch_buffer(&launch, s->pages ? s->pages->low : NULL);
    kvc_launch_buffer(&launch, s->pages ? s->pages->high : NULL);
    kvc_launch_word(&launch, s->kind);
    kvc_launch_word(&launch, s->dims);
    kvc_launch_word(&launch, s->heads);
    kvc_launch_word(&launch, s->lists->kv_heads);
    kvc_launch_word(&launch, s->window);
    kvc_launch_wide(&launch, s->budget);
    kvc_launch_span(&launch, s->q);
    kvc_launch_span(&launch, s->positions);
    kvc_launch_real(&launch, kvc_attention_scale(s->head_size));
    kvc_launch_span(&launch, part(parts, parts->channels));
    kvc_launch_span(&launch, part(parts, parts->positives));
    kvc_launch_span(&launch, part(parts, parts->factors));
    kvc_launch_span(&launch, score);
    kvc_launch_span(&launch, part(parts, parts->seen));
    kvc_launch_word(&launch, s->stride);
    kvc_launch_buffer(&launch, &offload->status_words);
    kvc_launch_word(&launch, kvc_offload_read_status(offload, s->lists->kv_heads, s->bytes_read, bytes, divisor));
    kvc_launch_groups(offload, &launch, (units + KVC_TILE - 1) / KVC_TILE, s->lists->kv_heads, 1);
}

static void select_scores(struct kvc_device *device, const struct kvc_select_scores *s) {
    struct kvc_offload *offload = of(device);
    const bool paged = s->kind == KVC_SCORE_PAGE_CHANNELS || s->kind == KVC_SCORE_PAGE_BOUND;
    const bool some = s->kind == KVC_SCORE_CHANNELS || s->kind == KVC_SCORE_PAGE_CHANNELS;
    const bool bound = s->kind == KVC_SCORE_PAGE_BOUND;
    const uint32_t page = paged ? s->pages->page : 1, group = s->heads / s->lists->kv_heads;
    const struct kvc_buffer *places = s->view ? s->view->count : s->lists->count;
    uint64_t units = (most_places(s->lists, s->view) + page - 1) / page;
    struct kvc_launch sums = kvc_launch_of(KVC_KERNEL_select_sums);
    struct kvc_span score;
    struct parts parts;
    if (!make_parts(offload, s, &parts))
        return;
    units = units < s->stride ? units : s->stride;
    score = s->probabilities.buffer ? s->probabilities : part(&parts, parts.score);
    if (some) {
        struct kvc_launch channels = kvc_launch_of(KVC_KERNEL_select_channels);
        kvc_launch_span(&channels, s->q);
        kvc_launch_word(&channels, group);
        kvc_launch_word(&channels, s->head_size);
        kvc_launch_word(&channels, s->dims);
        kvc_launch_span(&channels, part(&parts, parts.keys));
        kvc_launch_span(&channels, part(&parts, parts.channels));
        kvc_launch_span(&channels, part(&parts, parts.positives));
        kvc_launch_span(&channels, part(&parts, parts.factors));
        kvc_launch_groups(offload, &channels, s->lists->kv_heads, 1, 1);
    }
    score_units(offload, s, &parts, score, units);
    if (!bound) {
        struct kvc_launch softmax = kvc_launch_of(KVC_KERNEL_select_softmax);
        kvc_launch_buffer(&softmax, places);
        kvc_launch_word(&softmax, group);
        kvc_launch_wide(&softmax, s->budget);
        kvc_launch_word(&softmax, page);
        kvc_launch_span(&softmax, score);
        kvc_launch_span(&softmax, part(&parts, parts.seen));
        kvc_launch_word(&softmax, s->stride);
        kvc_launch_span(&softmax, part(&parts, parts.share));
        kvc_launch_groups(offload, &softmax, s->heads, 1, 1);
    }
    kvc_launch_buffer(&sums, places);
    kvc_launch_word(&sums, group);
    kvc_launch_wide(&sums, s->budget);
    kvc_launch_word(&sums, page);
    kvc_launch_span(&sums, score);
    kvc_launch_span(&sums, part(&parts, parts.seen));
    kvc_launch_word(&sums, s->stride);
    kvc_launch_span(&sums, bound ? none : part(&parts, parts.share));
    kvc_launch_span(&sums, s->scores);
    kvc_launch_items(offload, &sums, units, s->lists->kv_heads, 1);
}

static void select_reads(struct kvc_device *device, const struct kvc_select_reads *s) {
    struct kvc_offload *offload = of(device);
    const uint64_t kv_heads = s->lists->kv_heads, taken = kv_heads * s->stride, chosen = kv_heads * s->reads->stride;
    struct kvc_launch launch = kvc_launch_of(KVC_KERNEL_select_reads);
    struct kvc_buffer *workspace = kvc_offload_workspace(offload, (taken + chosen + (uint64_t)s->heads * 32) * 4);
    if (!workspace)
        return;
    kvc_launch_lists(&launch, s->lists);
    kvc_launch_reads(&launch, s->view);
    kvc_launch_word(&launch, s->pages ? s->pages->page : 1);
    kvc_launch_word(&launch, s->whole);
    kvc_launch_word(&launch, s->heads / s->lists->kv_heads);
    kvc_launch_wide(&launch, s->budget);
    kvc_launch_wide(&launch, s->top);
    kvc_launch_wide(&launch, s->local);
    kvc_launch_span(&launch, s->scores);
    kvc_launch_span(&launch, s->probabilities);
    kvc_launch_span(&launch, s->alpha);
    kvc_launch_word(&launch, s->stride);
    kvc_launch_reads(&launch, s->reads);
    kvc_launch_span(&launch, (struct kvc_span){workspace, 0});
    kvc_launch_span(&launch, (struct kvc_span){workspace, (size_t)taken * 4});
    kvc_launch_span(&launch, (struct kvc_span){workspace, (size_t)(taken + chosen) * 4});
    kvc_launch_groups(offload, &launch, s->lists->kv_heads, 1, 1);
}

void kvc_offload_fill_select(struct kvc_ops *table) {
    table->view_append = view_append;
    table->view_evict = view_evict;
    table->pages_update = pages_update;
    table->value_sums = value_sums;
    table->mix_mean = mix_mean;
    table->select_scores = select_scores;
    table->select_reads = select_reads;
}
