/* verify_select.c - cases of what select methods compute: views, pages, scores of places and pages, read lists. */
#include <stdio.h>
#include <string.h>

#include "core/check/verify.h"

struct select_case {
    struct kvc_lists_shape shape;
    struct kvc_twin_lists lists;
    struct kvc_twin view_count, view_rank, low, high;
    struct kvc_read_list view[2];
    struct kvc_pages pages[2];
    uint32_t *places; /* [H_kv] */
    uint32_t most, heads;
    bool viewed;
};

/* Lists and, now and then, a view of them with capacity for all entries. */
static bool make_lists(struct kvc_verify *v, struct select_case *c) {
    uint32_t blocks = kvc_verify_range(v, 0, 7) ? 4 : 20;
    bool ordered = kvc_verify_range(v, 0, 2) > 0;
    uint32_t heads, *rank, stride;
    memset(c, 0, sizeof *c);
    c->shape = kvc_verify_shape(v, 0, blocks, ordered);
    c->viewed = kvc_verify_range(v, 0, 2) == 0;
    c->heads = c->shape.kv_heads * kvc_verify_group(v);
    heads = c->shape.kv_heads;
    kvc_verify_lists(v, &c->shape, &c->lists);
    c->places = kvc_verify_alloc(v, heads * sizeof *c->places);
    if (v->status != KVC_OK)
        return false;
    stride = 2 * c->lists.most + kvc_verify_range(v, 1, 5);
    rank = kvc_verify_alloc(v, (size_t)heads * stride * sizeof *rank);
    for (uint32_t h = 0; rank && h < heads; h++) {
        uint32_t of = c->viewed ? kvc_verify_range(v, 0, 4) : 4;
        for (uint32_t r = 0; r < c->lists.count[h]; r++)
            if (of == 4 || kvc_verify_range(v, 0, 3) < of)
                rank[(size_t)h * stride + c->places[h]++] = r;
        c->most = c->places[h] > c->most ? c->places[h] : c->most;
    }
    if (c->viewed) {
        c->view_count = kvc_verify_twin(v, heads * sizeof *c->places, c->places);
        c->view_rank = kvc_verify_twin(v, (size_t)heads * stride * sizeof *rank, rank);
        for (int side = v->first; side < 2; side++)
            c->view[side] = (struct kvc_read_list){c->view_count.buffer[side], c->view_rank.buffer[side], stride};
        kvc_verify_describe(v, ", view", 0, 0);
    }
    return v->status == KVC_OK;
}

static const struct kvc_read_list *view_of(const struct select_case *c, int side) {
    return c->viewed ? &c->view[side] : NULL;
}

static struct kvc_twin make_side(struct kvc_verify *v, enum kvc_type type, size_t n, enum kvc_flavour flavour) {
    float *values = kvc_verify_values(v, n, flavour);
    uint16_t *halves = kvc_verify_alloc(v, n * sizeof *halves);
    for (size_t i = 0; values && halves && i < n; i++)
        halves[i] = kvc_f16_store(values[i]);
    return type == KVC_F16 ? kvc_verify_twin(v, n * sizeof *halves, halves)
                           : kvc_verify_twin(v, n * sizeof *values, values);
}

/* Pages for all places, filled with anything. */
static void make_pages(struct kvc_verify *v, struct select_case *c, uint32_t page, bool low) {
    enum kvc_type type = c->shape.type == KVC_F16 ? KVC_F16 : KVC_F32;
    uint32_t stride = (c->most + page - 1) / page + kvc_verify_range(v, 1, 5);
    size_t n = (size_t)c->shape.kv_heads * c->shape.head_size * stride;
    enum kvc_flavour flavour = kvc_verify_flavour(v);
    c->high = make_side(v, type, n, flavour);
    if (low)
        c->low = make_side(v, type, n, flavour);
    for (int side = v->first; side < 2; side++)
        c->pages[side] = (struct kvc_pages){page, stride, type, c->low.buffer[side], c->high.buffer[side]};
    kvc_verify_describe(v, ", page %u", page, 0);
}

static void compare_side(struct kvc_verify *v, const struct select_case *c, struct kvc_twin twin, const char *what) {
    size_t n = (size_t)c->shape.kv_heads * c->shape.head_size * c->pages[1].stride;
    float *values[2] = {NULL, NULL};
    if (c->pages[1].type == KVC_F32) {
        kvc_verify_compare(v, twin, 0, n, what);
        return;
    }
    for (int side = v->first; side < 2; side++) {
        uint16_t *halves = kvc_verify_alloc(v, n * sizeof *halves);
        values[side] = kvc_verify_alloc(v, n * sizeof *values[side]);
        if (!halves || !values[side])
            return;
        v->device[side]->ops->download(v->device[side], halves, kvc_verify_span(twin, side), n * sizeof *halves);
        for (size_t i = 0; i < n; i++)
            values[side][i] = kvc_f16_to_f32(halves[i]);
    }
    kvc_verify_compare_host(v, values[0], values[1], n, what);
}

static uint32_t draw_page(struct kvc_verify *v) {
    static const uint32_t pages[] = {1, 2, 3, 5, 16, 33, 300};
    return kvc_verify_pick(v, pages);
}

static void view_append_case(struct kvc_verify *v) {
    struct select_case c;
    uint32_t rows;
    if (make_lists(v, &c)) {
        rows = v->small ? kvc_verify_range(v, 1, 2) : kvc_verify_range(v, 0, 5);
        for (uint32_t h = 0, left = 0; v->small && h < c.shape.kv_heads; h++) {
            left += c.lists.count[h] - c.places[h];
            c.viewed = c.viewed && (left || h + 1 < c.shape.kv_heads); /* not of all: a changed rank must show */
        }
        if (!c.viewed) { /* an empty one */
            c.view_count = kvc_verify_twin(v, c.shape.kv_heads * sizeof(uint32_t), NULL);
            c.view_rank = kvc_verify_twin(v, (size_t)c.shape.kv_heads * (c.most + 6) * sizeof(uint32_t), NULL);
        }
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
            struct kvc_read_list view = {c.view_count.buffer[side], c.view_rank.buffer[side],
                                         c.viewed ? c.view[side].stride : c.most + 6};
            v->device[side]->ops->view_append(v->device[side], &c.lists.lists[side], &view, rows);
        }
        kvc_verify_compare_words(v, c.view_count, 0, c.shape.kv_heads, "count");
        for (uint32_t h = 0; h < c.shape.kv_heads; h++) {
            uint32_t more = rows < c.lists.count[h] ? rows : c.lists.count[h];
            size_t stride = c.viewed ? c.view[1].stride : c.most + 6;
            kvc_verify_compare_words(v, c.view_rank, h * stride, (c.viewed ? c.places[h] : 0) + more, "rank");
        }
    }
    kvc_verify_lists_free(v, &c.lists);
}

/* A view and what an eviction keeps: any two lists; nothing in common; all of the view kept; a view of one entry. */
static void view_evict_case(struct kvc_verify *v) {
    struct kvc_lists_shape shape = kvc_verify_shape(v, 0, kvc_verify_range(v, 0, 7) ? 4 : 20, true);
    struct kvc_twin_lists lists;
    struct kvc_twin counts[2], ranks[2]; /* of the view, of what is kept */
    uint32_t *count[2], *rank[2], stride[2];
    kvc_verify_lists(v, &shape, &lists);
    for (int i = 0; i < 2; i++) {
        stride[i] = lists.most + kvc_verify_range(v, 1, 5);
        count[i] = kvc_verify_alloc(v, shape.kv_heads * sizeof *count[i]);
        rank[i] = kvc_verify_alloc(v, (size_t)shape.kv_heads * stride[i] * sizeof *rank[i]);
    }
    for (uint32_t h = 0; v->status == KVC_OK && h < shape.kv_heads; h++) {
        uint32_t kind = kvc_verify_range(v, 0, 4), quarters[2] = {kvc_verify_range(v, 0, 4), kvc_verify_range(v, 0, 4)};
        uint32_t one = lists.count[h] ? kvc_verify_range(v, 0, lists.count[h] - 1) : 0;
        for (uint32_t r = 0; r < lists.count[h]; r++) {
            bool in[2];
            for (int i = 0; i < 2; i++)
                in[i] = kvc_verify_range(v, 0, 3) < quarters[i];
            if (kind == 3)
                in[0] = r == one;
            if (kind == 1 || kind == 2)
                in[1] = kind == 1 ? !in[0] : in[1] || in[0];
            for (int i = 0; i < 2; i++)
                if (in[i])
                    rank[i][(size_t)h * stride[i] + count[i][h]++] = r;
        }
    }
    for (int i = 0; i < 2; i++) {
        counts[i] = kvc_verify_twin(v, shape.kv_heads * sizeof *count[i], count[i]);
        ranks[i] = kvc_verify_twin(v, (size_t)shape.kv_heads * stride[i] * sizeof *rank[i], rank[i]);
    }
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
        const struct kvc_ops *ops = v->device[side]->ops;
        struct kvc_read_list view = {counts[0].buffer[side], ranks[0].buffer[side], stride[0]};
        const struct kvc_read_list kept = {counts[1].buffer[side], ranks[1].buffer[side], stride[1]};
        ops->evict(v->device[side], &lists.lists[side], &kept);
        ops->view_evict(v->device[side], &lists.lists[side], &kept, &view);
    }
    if (v->status == KVC_OK)
        kvc_verify_compare_reads(v, counts[0], ranks[0], shape.kv_heads, stride[0]);
    kvc_verify_lists_free(v, &lists);
}

static void pages_update_case(struct kvc_verify *v) {
    struct select_case c;
    if (make_lists(v, &c)) {
        uint32_t page = draw_page(v), rows = kvc_verify_range(v, 0, 1) ? UINT32_MAX : kvc_verify_range(v, 0, 40);
        bool low = page > 1 || kvc_verify_range(v, 0, 1);
        make_pages(v, &c, page, low);
        kvc_verify_describe(v, ", rows %u", rows, 0);
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
            v->device[side]->ops->pages_update(v->device[side], &c.lists.lists[side], view_of(&c, side), &c.pages[side],
                                               rows);
        compare_side(v, &c, c.high, "high");
        if (low)
            compare_side(v, &c, c.low, "low");
    }
    kvc_verify_lists_free(v, &c.lists);
}

/* ---- what a decode step reads: scores, read lists, or both at once ---- */

struct choice {
    enum kvc_score_kind kind;
    uint32_t page, dims, window, budget, top, local, stride;
    bool by_page, weighted, mixed; /* mixed: alpha is wanted */
    uint64_t bytes[2];
    struct kvc_twin q, positions, scores, probabilities, alpha, counts, ranks;
    struct kvc_read_list reads[2];
};

/* given: scores and probabilities are made up, not computed. */
static void make_choice(struct kvc_verify *v, struct select_case *c, bool given, struct choice *o) {
    static const uint32_t tops[] = {0, 1, 2, 7, 16, 64, 100, 500, 3000};
    uint32_t heads = c->shape.kv_heads, d = c->shape.head_size, top = kvc_verify_pick(v, tops);
    size_t n;
    memset(o, 0, sizeof *o);
    o->kind = (enum kvc_score_kind)kvc_verify_range(v, 0, 3);
    o->by_page = o->kind == KVC_SCORE_PAGE_CHANNELS || o->kind == KVC_SCORE_PAGE_BOUND;
    o->page = o->by_page ? draw_page(v) : 1;
    o->dims = kvc_verify_range(v, 0, 3) ? kvc_verify_range(v, 1, d) : d;
    o->window = kvc_verify_range(v, 0, 2) ? 0 : kvc_verify_range(v, 1, (uint32_t)c->lists.now + 3);
    o->budget = kvc_verify_range(v, 0, 2) ? 0 : kvc_verify_range(v, 0, 300);
    o->top = top;
    o->local = o->by_page || kvc_verify_range(v, 0, 1) ? 0 : kvc_verify_range(v, 0, top);
    o->stride = c->most + kvc_verify_range(v, 1, 5);
    o->weighted = o->kind != KVC_SCORE_PAGE_BOUND && kvc_verify_range(v, 0, 1);
    o->mixed = o->weighted && !o->by_page;
    n = (size_t)heads * o->stride;
    if (o->by_page || (o->kind == KVC_SCORE_CHANNELS && kvc_verify_range(v, 0, 1)))
        make_pages(v, c, o->page, o->by_page);
    o->q = kvc_verify_twin_values(v, (size_t)c->heads * d, kvc_verify_flavour(v));
    o->positions = kvc_verify_twin(v, sizeof c->lists.now, &c->lists.now);
    o->scores = given ? kvc_verify_twin_values(v, n, kvc_verify_flavour(v)) : kvc_verify_twin(v, n * 4, NULL);
    if (o->weighted)
        o->probabilities = given ? kvc_verify_twin_values(v, (size_t)c->heads * o->stride, KVC_PLAIN)
                                 : kvc_verify_twin(v, (size_t)c->heads * o->stride * sizeof(float), NULL);
    if (o->mixed)
        o->alpha = kvc_verify_twin(v, c->heads * sizeof(float), NULL);
    o->counts = kvc_verify_twin(v, heads * sizeof(uint32_t), NULL);
    o->ranks = kvc_verify_twin(v, n * sizeof(uint32_t), NULL);
    for (int side = v->first; side < 2; side++)
        o->reads[side] = (struct kvc_read_list){o->counts.buffer[side], o->ranks.buffer[side], o->stride};
    kvc_verify_describe(v, ", kind %u, heads %u", o->kind, c->heads);
    kvc_verify_describe(v, ", top %u, budget %u", o->top, o->budget);
}

static struct kvc_select_scores scores_call(const struct select_case *c, struct choice *o, int side) {
    return (struct kvc_select_scores){.lists = &c->lists.lists[side],
                                      .view = view_of(c, side),
                                      .pages = c->pages[side].high ? &c->pages[side] : NULL,
                                      .kind = o->kind,
                                      .dims = o->dims,
                                      .heads = c->heads,
                                      .head_size = c->shape.head_size,
                                      .window = o->window,
                                      .budget = o->budget,
                                      .q = kvc_verify_span(o->q, side),
                                      .positions = kvc_verify_span(o->positions, side),
                                      .scores = kvc_verify_span(o->scores, side),
                                      .probabilities = kvc_verify_span(o->probabilities, side),
                                      .stride = o->stride,
                                      .bytes_read = &o->bytes[side]};
}

static struct kvc_select_reads reads_call(const struct select_case *c, struct choice *o, int side) {
    return (struct kvc_select_reads){.lists = &c->lists.lists[side],
                                     .view = view_of(c, side),
                                     .pages = o->by_page ? &c->pages[side] : NULL,
                                     .whole = o->kind == KVC_SCORE_PAGE_BOUND,
                                     .heads = c->heads,
                                     .budget = o->budget,
                                     .top = o->top,
                                     .local = o->local,
                                     .scores = kvc_verify_span(o->scores, side),
                                     .probabilities = kvc_verify_span(o->probabilities, side),
                                     .alpha = kvc_verify_span(o->alpha, side),
                                     .stride = o->stride,
                                     .reads = &o->reads[side]};
}

static void compare_reads(struct kvc_verify *v, const struct select_case *c, const struct choice *o) {
    kvc_verify_compare_reads(v, o->counts, o->ranks, c->shape.kv_heads, o->stride);
    if (o->mixed)
        kvc_verify_compare(v, o->alpha, 0, c->heads, "alpha");
}

static void select_scores_case(struct kvc_verify *v) {
    struct select_case c;
    if (make_lists(v, &c)) {
        struct choice o;
        uint32_t group = c.heads / c.shape.kv_heads;
        make_choice(v, &c, false, &o);
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
            const struct kvc_select_scores call = scores_call(&c, &o, side);
            v->device[side]->ops->select_scores(v->device[side], &call);
            v->status = v->device[side]->ops->sync(v->device[side], &v->error);
        }
        for (uint32_t h = 0; h < c.shape.kv_heads; h++) {
            uint32_t units = (c.places[h] + o.page - 1) / o.page;
            if (c.places[h] <= o.budget)
                continue;
            kvc_verify_compare(v, o.scores, (size_t)h * o.stride, units, "scores");
            for (uint32_t g = h * group; o.weighted && g < (h + 1) * group; g++)
                kvc_verify_compare(v, o.probabilities, (size_t)g * o.stride, units, "weights");
        }
        kvc_verify_compare_number(v, o.bytes, "bytes_read");
    }
    kvc_verify_lists_free(v, &c.lists);
}

static void select_reads_case(struct kvc_verify *v) {
    struct select_case c;
    if (make_lists(v, &c)) {
        struct choice o;
        make_choice(v, &c, true, &o);
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
            const struct kvc_select_reads call = reads_call(&c, &o, side);
            v->device[side]->ops->select_reads(v->device[side], &call);
        }
        compare_reads(v, &c, &o);
    }
    kvc_verify_lists_free(v, &c.lists);
}

/* Both in one call, where a backend can do that, beside one after the other. */
static void select_scores_reads_case(struct kvc_verify *v) {
    struct select_case c;
    if (make_lists(v, &c)) {
        struct choice o;
        make_choice(v, &c, false, &o);
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
            const struct kvc_select_scores score = scores_call(&c, &o, side);
            const struct kvc_select_reads read = reads_call(&c, &o, side);
            const struct kvc_ops *ops = v->device[side]->ops;
            if (ops->select_scores_reads) {
                ops->select_scores_reads(v->device[side], &score, &read);
            } else {
                ops->select_scores(v->device[side], &score);
                ops->select_reads(v->device[side], &read);
            }
            v->status = v->device[side]->ops->sync(v->device[side], &v->error);
        }
        compare_reads(v, &c, &o);
        kvc_verify_compare_number(v, o.bytes, "bytes_read");
    }
    kvc_verify_lists_free(v, &c.lists);
}

static void value_sums_case(struct kvc_verify *v) {
    struct select_case c;
    if (make_lists(v, &c)) {
        uint32_t rows = kvc_verify_range(v, 0, 1) ? UINT32_MAX : kvc_verify_range(v, 0, 40);
        size_t n = (size_t)c.shape.kv_heads * c.shape.head_size;
        struct kvc_twin sums = kvc_verify_twin_values(v, n, KVC_PLAIN);
        kvc_verify_describe(v, ", rows %u", rows, 0);
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
            v->device[side]->ops->value_sums(v->device[side], &c.lists.lists[side], view_of(&c, side),
                                             kvc_verify_span(sums, side), rows);
        kvc_verify_compare(v, sums, 0, n, "sums");
    }
    kvc_verify_lists_free(v, &c.lists);
}

static void mix_mean_case(struct kvc_verify *v) {
    struct select_case c;
    if (make_lists(v, &c)) {
        struct kvc_read_list reads[2];
        size_t d = c.shape.head_size;
        struct kvc_twin out = kvc_verify_twin_values(v, c.heads * d, kvc_verify_flavour(v)), alpha, sums;
        alpha = kvc_verify_twin_values(v, c.heads, KVC_PLAIN);
        sums = kvc_verify_twin_values(v, c.shape.kv_heads * d, kvc_verify_flavour(v));
        kvc_verify_read_lists(v, &c.lists, reads);
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
            v->device[side]->ops->mix_mean(v->device[side], &c.lists.lists[side], view_of(&c, side), &reads[side],
                                           c.heads, (uint32_t)d, kvc_verify_span(out, side),
                                           kvc_verify_span(alpha, side), kvc_verify_span(sums, side));
        kvc_verify_compare(v, out, 0, c.heads * d, "out");
    }
    kvc_verify_lists_free(v, &c.lists);
}

const struct kvc_verify_operation kvc_verify_select[] = {{"view_append", view_append_case, 6},
                                                         {"view_evict", view_evict_case, 20},
                                                         {"pages_update", pages_update_case, 20},
                                                         {"select_scores", select_scores_case, 50},
                                                         {"select_reads", select_reads_case, 60},
                                                         {"select_scores_reads", select_scores_reads_case, 40},
                                                         {"value_sums", value_sums_case, 12},
                                                         {"mix_mean", mix_mean_case, 12},
                                                         {NULL, NULL, 0}};
