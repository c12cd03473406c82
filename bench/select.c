/* select.c - measures the operations that choose the entries to read. The table "select" compares the decode attention
 * of the select methods with attention to all entries. */
#include <string.h>

#include "bench/entries.h"
#include "core/base/fused.h"
#include "core/base/integers.h"
#include "core/base/types.h"
#include "policies/select_sizes.h"

enum { PAGE = 16 };

static const struct kvc_span none = {NULL, 0};

/* Makes the pages of lists whose heads have `entries` entries. */
static struct kvc_pages make_pages(struct kvc_measure *m, struct kvc_lists *lists, uint32_t entries, uint32_t page,
                                   bool low) {
    const enum kvc_type type = lists->format.key.type == KVC_F16 ? KVC_F16 : KVC_F32;
    const uint32_t stride = (uint32_t)kvc_round_up(entries / page + 1, 64) + 64;
    const size_t bytes = (size_t)m->kv_heads * m->head_size * stride * (type == KVC_F16 ? 2 : 4);
    struct kvc_pages pages = {page, stride, type, NULL, kvc_measure_space(m, bytes).buffer};
    if (low)
        pages.low = kvc_measure_space(m, bytes).buffer;
    if (m->status == KVC_OK)
        m->ops->pages_update(
            m->device, &(struct kvc_pages_update){.lists = lists, .view = NULL, .pages = &pages, .rows = UINT32_MAX});
    return pages;
}

KVC_MEASURE(pages_update, 2, variant) {
    struct kvc_lists *lists = make_lists(m, 0);
    struct kvc_pages pages = make_pages(m, lists, N, PAGE, true);
    kvc_measure_counts(m, variant ? HK * D * 10ull : key_bytes() + key_bytes() / PAGE * 2, variant ? 0 : 2ull * ALL * D,
                       "pages of %d, %s", PAGE, variant ? "1 new" : "all");
    while (kvc_measure_again(m))
        m->ops->pages_update(m->device,
                             &(struct kvc_pages_update){
                                 .lists = lists, .view = NULL, .pages = &pages, .rows = variant ? 1 : UINT32_MAX});
}

/* How a method scores entries, and how many entries (`top`) or whole pages it reads. */
struct select_case {
    const char *name;
    enum kvc_score_kind kind;
    uint32_t dims, page; /* `page` 0: the scores do not use pages */
    bool low, whole;
    uint64_t top;
};

/* The four kinds of scores, with the shapes that the methods topk, sparq, hsa and quest use. */
static const struct select_case cases[] = {{"exact", KVC_SCORE_EXACT, D, 0, false, false, N / 4},
                                           {"channels", KVC_SCORE_CHANNELS, D / 4, 1, false, false, N / 4},
                                           {"page channels", KVC_SCORE_PAGE_CHANNELS, D / 4, PAGE, true, false, N / 4},
                                           {"page bound", KVC_SCORE_PAGE_BOUND, D, PAGE, true, true, N / 4 / PAGE}};
enum { CASES = sizeof cases / sizeof cases[0] };

struct selection {
    struct kvc_pages pages;
    struct kvc_read_list list;
    struct kvc_select_scores scores;
    struct kvc_select_reads reads;
};

static void make_selection(struct kvc_measure *m, const struct select_case *c, struct kvc_lists *lists, uint32_t heads,
                           uint32_t entries, struct selection *s) {
    memset(s, 0, sizeof *s);
    if (c->page)
        s->pages = make_pages(m, lists, entries, c->page, c->low);
    s->list = kvc_measure_reads(m, 1, entries);
    s->scores = (struct kvc_select_scores){.lists = lists,
                                           .pages = c->page ? &s->pages : NULL,
                                           .kind = c->kind,
                                           .dims = c->dims,
                                           .heads = heads,
                                           .head_size = m->head_size,
                                           .q = kvc_measure_values(m, (size_t)heads * m->head_size),
                                           .positions = kvc_measure_numbers(m, 1, entries - 1, 0),
                                           .scores = kvc_measure_space(m, (size_t)m->kv_heads * s->list.stride * 4),
                                           .probabilities = none,
                                           .stride = s->list.stride};
    s->reads = (struct kvc_select_reads){.lists = lists,
                                         .pages = c->page > 1 ? &s->pages : NULL,
                                         .whole = c->whole,
                                         .heads = heads,
                                         .top = c->top,
                                         .scores = s->scores.scores,
                                         .stride = s->list.stride,
                                         .reads = &s->list};
}

static uint64_t selection_bytes(const struct select_case *c) {
    return key_bytes() * c->dims / D / kvc_max_u32(c->page, 1) * (c->whole ? 2 : 1);
}
static uint64_t selection_flops(const struct select_case *c) {
    const uint64_t units = (uint64_t)H * N / kvc_max_u32(c->page, 1);
    return units * (2 * c->dims + (c->whole ? 0 : MEASURE_EXP + 3));
}

KVC_MEASURE(select_scores, CASES, variant) {
    struct selection s;
    make_selection(m, &cases[variant], make_lists(m, 0), H, N, &s);
    kvc_measure_counts(m, selection_bytes(&cases[variant]), selection_flops(&cases[variant]), "%s",
                       cases[variant].name);
    while (kvc_measure_again(m))
        m->ops->select_scores(m->device, &s.scores);
}

KVC_MEASURE(select_reads, CASES, variant) {
    const struct select_case *c = &cases[variant];
    struct selection s;
    make_selection(m, c, make_lists(m, 0), H, N, &s);
    if (m->status == KVC_OK)
        m->ops->select_scores(m->device, &s.scores);
    kvc_measure_counts(m, (uint64_t)ALL / kvc_max_u32(c->page, 1) * 4 + ALL / 4 * 4, 0, "%s, a quarter", c->name);
    while (kvc_measure_again(m))
        m->ops->select_reads(m->device, &s.reads);
}

KVC_MEASURE(cut_reads, 1, variant) {
    const struct select_case *c = &cases[CASES - 1];
    struct selection s;
    make_selection(m, c, make_lists(m, 0), H, N, &s);
    (void)variant;
    if (m->status == KVC_OK)
        m->ops->select_scores(m->device, &s.scores);
    kvc_measure_counts(m, ALL / PAGE * 4ull + ALL / 4 * 4ull, (uint64_t)ALL / PAGE * MEASURE_EXP, "%s, all of it",
                       c->name);
    while (kvc_measure_again(m)) {
        m->ops->select_reads(m->device, &s.reads);
        m->ops->cut_reads(m->device, &(struct kvc_cut_reads){.lists = s.reads.lists,
                                                             .page = PAGE,
                                                             .whole = true,
                                                             .factor = 0.03f,
                                                             .share = 60000,
                                                             .scores = s.scores.scores,
                                                             .stride = s.list.stride,
                                                             .reads = s.reads.reads});
    }
}

/* Measures select_scores and select_reads as they run in a decode step: as one fused operation if the backend has
 * one. */
KVC_MEASURE(select_scores_reads, CASES, variant) {
    const struct select_case *c = &cases[variant];
    struct selection s;
    make_selection(m, c, make_lists(m, 0), H, N, &s);
    kvc_measure_counts(m, selection_bytes(c) + ALL / 4 * 4, selection_flops(c), "%s, a quarter", c->name);
    while (kvc_measure_again(m))
        kvc_run_select(m->device, &(struct kvc_select_scores_reads){.scores = &s.scores, .reads = &s.reads});
}

/* ---- the table "select" ---- */

enum { COMPRESSIONS = 5 };

static const struct {
    uint32_t heads, kv_heads, d;
    enum kvc_type type;
} shapes[] = {{32, 8, 128, KVC_F16}, {12, 4, 64, KVC_F16}, {8, 8, 128, KVC_F16}, {32, 8, 128, KVC_Q8_0}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* The operations of one step: choose entries, attend to them and, for methods with sums of values, add the mean value.
 * *bytes counts the bytes of the cache that they read. */
struct select_step {
    struct selection chosen;
    struct kvc_segment segment, full;
    struct kvc_attention attention;
    struct kvc_mix_mean mean; /* if alpha has no buffer, no mean is added */
    uint64_t bytes;
};

static void select_step_run(struct kvc_measure *m, struct select_step *s) {
    s->attention.segments = m->beside ? &s->full : &s->segment;
    if (!m->beside)
        kvc_run_select(m->device,
                       &(struct kvc_select_scores_reads){.scores = &s->chosen.scores, .reads = &s->chosen.reads});
    m->ops->attention(m->device, &s->attention);
    if (!m->beside && s->mean.alpha.buffer)
        m->ops->mix_mean(m->device, &s->mean);
}

static void add_mean(struct kvc_measure *m, struct select_step *s, struct kvc_lists *lists, uint32_t heads) {
    const struct kvc_span sums = kvc_measure_space(m, (size_t)m->kv_heads * m->head_size * 4);
    const struct kvc_span alpha = kvc_measure_space(m, heads * 4);
    s->chosen.scores.probabilities = kvc_measure_space(m, (size_t)heads * s->chosen.list.stride * 4);
    s->chosen.reads.probabilities = s->chosen.scores.probabilities;
    s->chosen.reads.alpha = alpha;
    s->mean = (struct kvc_mix_mean){.lists = lists,
                                    .reads = &s->chosen.list,
                                    .heads = heads,
                                    .head_size = m->head_size,
                                    .out = s->attention.out,
                                    .alpha = alpha,
                                    .sums = sums};
    if (m->status == KVC_OK)
        m->ops->value_sums(m->device, &(struct kvc_value_sums){.lists = lists, .sums = sums, .rows = UINT32_MAX});
}

static void select_row(struct kvc_measure *m, uint32_t variant, const struct select_case *c, uint32_t compression) {
    const uint32_t n = m->settings.entries, heads = shapes[variant / COMPRESSIONS].heads;
    const enum kvc_type type = shapes[variant / COMPRESSIONS].type;
    struct kvc_lists *lists = kvc_measure_lists(m, type, (uint32_t)kvc_round_up(n, KVC_TILE), n, 0, false);
    struct select_step s = {.segment = {.lists = lists, .rows = 1, .stored = 1, .bytes_read = &s.bytes}};
    make_selection(m, c, lists, heads, n, &s.chosen);
    s.full = s.segment;
    s.segment.reads = &s.chosen.list;
    s.attention = kvc_measure_make_attention(m, &s.segment, heads, n);
    s.attention.maximum = s.attention.sum = none;
    s.chosen.scores.bytes_read = &s.bytes;
    if (c->kind == KVC_SCORE_CHANNELS)
        add_mean(m, &s, lists, heads);
    if (m->status == KVC_OK)
        select_step_run(m, &s);
    if (m->status == KVC_OK)
        m->status = m->ops->sync(m->device, &m->error);
    kvc_measure_counts(m, s.bytes, 0, "%s, %u/%u x %u, 1/%u: page %u, dims %u, top %u", kvc_type_name(type),
                       (unsigned)heads, (unsigned)m->kv_heads, (unsigned)m->head_size, (unsigned)compression,
                       (unsigned)c->page, (unsigned)c->dims, (unsigned)c->top);
    while (kvc_measure_again(m))
        select_step_run(m, &s);
}

/* Sets the shape of a variant. Returns the compression ratio, which is the number of entries divided by the budget. */
static uint32_t select_shape(struct kvc_measure *m, uint32_t variant) {
    m->kv_heads = shapes[variant / COMPRESSIONS].kv_heads;
    m->head_size = shapes[variant / COMPRESSIONS].d;
    return 2u << variant % COMPRESSIONS;
}

static void topk(struct kvc_measure *m, uint32_t variant) {
    const uint32_t c = select_shape(m, variant), n = m->settings.entries;
    select_row(m, variant, &(struct select_case){NULL, KVC_SCORE_EXACT, m->head_size, 0, false, false, n / c}, c);
}

static void quest(struct kvc_measure *m, uint32_t variant) {
    const uint32_t c = select_shape(m, variant), top = m->settings.entries / c / 2 / PAGE;
    select_row(m, variant, &(struct select_case){NULL, KVC_SCORE_PAGE_BOUND, m->head_size, PAGE, true, true, top}, c);
}

static void sparq(struct kvc_measure *m, uint32_t variant) {
    const uint32_t c = select_shape(m, variant), top = m->settings.entries / c / 2;
    select_row(m, variant, &(struct select_case){NULL, KVC_SCORE_CHANNELS, m->head_size / c, 1, false, false, top}, c);
}

static void hsa(struct kvc_measure *m, uint32_t variant) {
    const uint32_t c = select_shape(m, variant), top = m->settings.entries / c / 2;
    const struct kvc_hsa_sizes sizes = kvc_hsa_sizes(c, m->head_size);
    select_row(m, variant,
               &(struct select_case){NULL, KVC_SCORE_PAGE_CHANNELS, sizes.dims, sizes.page, true, false, top}, c);
}

const struct kvc_measure_operation kvc_measure_select[] = {{"topk", topk, SHAPES *COMPRESSIONS},
                                                           {"quest", quest, SHAPES *COMPRESSIONS},
                                                           {"sparq", sparq, SHAPES *COMPRESSIONS},
                                                           {"hsa", hsa, SHAPES *COMPRESSIONS},
                                                           {NULL, NULL, 0}};
