/* verify_select.c - test cases of the operations that choose what a decode step reads: scores of places and pages, read
 * lists, and the fused operation. */
#include <string.h>

#include "core/base/fused.h"
#include "core/check/inject.h"
#include "core/check/verify_pages.h"

struct choice {
    enum kvc_score_kind kind;
    uint32_t page, dims, window, budget, top, local, stride;
    bool by_page, with_probabilities, mixed; /* `mixed`: alpha is computed */
    uint64_t bytes[2];
    struct kvc_scoring scoring;
    struct kvc_twin q, positions, scores, probabilities, sinks, rest, alpha, counts, indices;
    struct kvc_read_list reads[2];
};

/* Makes most weights 0, also of entries that the window does not hide. */
static void hide(struct kvc_verify *v, const struct kvc_verify_places *c, struct choice *o) {
    const size_t n = (size_t)c->heads * c->shape.head_size;
    float *q = kvc_verify_values(v, n, KVC_PLAIN);
    for (size_t i = 0; q && i < n; i++)
        q[i] = q[i] * 1e4f;
    o->q = kvc_verify_twin(v, n * sizeof *q, q);
    o->window = kvc_verify_range(v, 1, (uint32_t)c->lists.now + 3);
    o->budget = 0;
    o->scoring.cap = 0.0f;
}

/* If `given` is true, scores and probabilities are synthetic instead of computed. */
static void make_choice(struct kvc_verify *v, struct kvc_verify_places *c, bool given, struct choice *o) {
    static const uint32_t tops[] = {0, 1, 2, 7, 16, 64, 100, 500, 3000};
    uint32_t heads = c->shape.kv_heads, d = c->shape.head_size, top = kvc_verify_pick(v, tops);
    size_t n;
    memset(o, 0, sizeof *o);
    o->kind = (enum kvc_score_kind)kvc_verify_range(v, 0, 3);
    if ((v->further == KVC_FURTHER_integers || v->further == KVC_FURTHER_packed) && kvc_verify_range(v, 0, 3))
        o->kind = KVC_SCORE_EXACT;
    o->by_page = o->kind == KVC_SCORE_PAGE_CHANNELS || o->kind == KVC_SCORE_PAGE_BOUND;
    o->page = o->by_page ? kvc_verify_page(v) : 1;
    o->dims = kvc_verify_range(v, 0, 3) ? kvc_verify_range(v, 1, d) : d;
    o->window = kvc_verify_range(v, 0, 2) ? 0 : kvc_verify_range(v, 1, (uint32_t)c->lists.now + 3);
    o->budget = kvc_verify_range(v, 0, 2) ? 0 : kvc_verify_range(v, 0, 300);
    o->top = top;
    o->local = o->by_page || kvc_verify_range(v, 0, 1) ? 0 : kvc_verify_range(v, 0, top);
    o->stride = c->most + kvc_verify_range(v, 1, 5);
    o->with_probabilities = o->kind != KVC_SCORE_PAGE_BOUND && kvc_verify_range(v, 0, 1);
    o->mixed = o->with_probabilities && !o->by_page;
    n = (size_t)heads * o->stride;
    if (o->by_page || (o->kind == KVC_SCORE_CHANNELS && kvc_verify_range(v, 0, 1)))
        kvc_verify_pages(v, c, o->page, o->by_page);
    o->q = kvc_verify_twin_values(v, (size_t)c->heads * d, kvc_verify_flavour(v));
    o->positions = kvc_verify_twin(v, sizeof c->lists.now, &c->lists.now);
    o->scores = given ? kvc_verify_twin_values(v, n, kvc_verify_flavour(v)) : kvc_verify_output(v, n * 4);
    if (o->with_probabilities)
        o->probabilities = given ? kvc_verify_twin_values(v, (size_t)c->heads * o->stride, KVC_PLAIN)
                                 : kvc_verify_output(v, (size_t)c->heads * o->stride * sizeof(float));
    if (o->mixed)
        o->alpha = kvc_verify_output(v, c->heads * sizeof(float));
    o->scoring = kvc_verify_scoring(v);
    if (v->further == KVC_FURTHER_hidden)
        hide(v, c, o);
    if (v->further == KVC_FURTHER_sinks) {
        o->sinks = kvc_verify_sinks(v, c->heads);
        if (o->mixed || kvc_verify_range(v, 0, 1))
            o->rest =
                given ? kvc_verify_twin_values(v, c->heads, KVC_PLAIN) : kvc_verify_output(v, c->heads * sizeof(float));
    }
    o->counts = kvc_verify_output(v, heads * sizeof(uint32_t));
    o->indices = kvc_verify_output(v, n * sizeof(uint32_t));
    for (int side = v->first; side < 2; side++)
        o->reads[side] = (struct kvc_read_list){o->counts.buffer[side], o->indices.buffer[side], o->stride};
    kvc_verify_describe(v, ", kind %u, heads %u", o->kind, c->heads);
    kvc_verify_describe(v, ", top %u, budget %u", o->top, o->budget);
}

static struct kvc_select_scores scores_call(const struct kvc_verify_places *c, struct choice *o, int side) {
    return (struct kvc_select_scores){.lists = &c->lists.lists[side],
                                      .view = kvc_verify_view(c, side),
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
                                      .bytes_read = &o->bytes[side],
                                      .scoring = o->scoring,
                                      .sinks = kvc_verify_span(o->sinks, side),
                                      .rest = kvc_verify_span(o->rest, side)};
}

static struct kvc_select_reads reads_call(const struct kvc_verify_places *c, struct choice *o, int side) {
    return (struct kvc_select_reads){.lists = &c->lists.lists[side],
                                     .view = kvc_verify_view(c, side),
                                     .pages = o->by_page ? &c->pages[side] : NULL,
                                     .whole = o->kind == KVC_SCORE_PAGE_BOUND,
                                     .heads = c->heads,
                                     .budget = o->budget,
                                     .top = o->top,
                                     .local = o->local,
                                     .scores = kvc_verify_span(o->scores, side),
                                     .probabilities = kvc_verify_span(o->probabilities, side),
                                     .rest = kvc_verify_span(o->rest, side),
                                     .alpha = kvc_verify_span(o->alpha, side),
                                     .stride = o->stride,
                                     .reads = &o->reads[side]};
}

static void compare_reads(struct kvc_verify *v, const struct kvc_verify_places *c, const struct choice *o) {
    kvc_verify_compare_reads(v, o->counts, o->indices, c->shape.kv_heads, o->stride);
    if (o->mixed)
        kvc_verify_compare(v, o->alpha, 0, c->heads, "alpha");
}

KVC_INJECT(select_scores, kvc_select_scores, kvc_flip(device, args->scores, 0))
KVC_CASE(select_scores, 50) {
    struct kvc_verify_places c;
    if (kvc_verify_places(v, &c)) {
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
            for (uint32_t g = h * group; o.with_probabilities && g < (h + 1) * group; g++)
                kvc_verify_compare(v, o.probabilities, (size_t)g * o.stride, units, "probabilities");
            if (o.rest.buffer[1] && o.kind != KVC_SCORE_PAGE_BOUND)
                kvc_verify_compare(v, o.rest, (size_t)h * group, group, "rest");
        }
        kvc_verify_compare_number(v, o.bytes, "bytes_read");
    }
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(select_scores, packed, 60)

KVC_FURTHER_CASES(select_scores, scoring, 40)
KVC_FURTHER_CASES(select_scores, sinks, 40)
KVC_FURTHER_CASES(select_scores, integers, 30)
KVC_FURTHER_CASES(select_scores, hidden, 30)

KVC_INJECT(select_reads, kvc_select_reads, kvc_change_index(device, args->lists, args->reads))
KVC_CASE(select_reads, 60) {
    struct kvc_verify_places c;
    if (kvc_verify_places(v, &c)) {
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

KVC_FURTHER_CASES(select_reads, sinks, 30)

void kvc_inject_select_scores_reads(struct kvc_device *device, const struct kvc_select_scores_reads *args) {
    const struct kvc_ops *inject = kvc_inject_open(device);
    kvc_run_select(device, args);
    kvc_change_index(device, args->reads->lists, args->reads->reads);
    kvc_inject_close(device, inject);
}

/* Compares the fused operation, if a backend has it, with the separate operations. */
KVC_CASE(select_scores_reads, 40) {
    struct kvc_verify_places c;
    if (kvc_verify_places(v, &c)) {
        struct choice o;
        make_choice(v, &c, false, &o);
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
            const struct kvc_select_scores score = scores_call(&c, &o, side);
            const struct kvc_select_reads read = reads_call(&c, &o, side);
            kvc_run_select(v->device[side], &(struct kvc_select_scores_reads){.scores = &score, .reads = &read});
            v->status = v->device[side]->ops->sync(v->device[side], &v->error);
        }
        compare_reads(v, &c, &o);
        kvc_verify_compare_number(v, o.bytes, "bytes_read");
    }
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(select_scores_reads, scoring, 30)
KVC_FURTHER_CASES(select_scores_reads, sinks, 30)
KVC_FURTHER_CASES(select_scores_reads, integers, 20)
KVC_FURTHER_CASES(select_scores_reads, packed, 40)
KVC_FURTHER_CASES(select_scores_reads, hidden, 30)

KVC_INJECT(cut_reads, kvc_cut_reads, kvc_change_index(device, args->lists, args->reads))
KVC_CASE(cut_reads, 40) {
    struct kvc_verify_places c;
    const uint32_t share = kvc_verify_range(v, 0, 3) ? kvc_verify_range(v, 1, 65536) : 65536;
    const bool soft = kvc_verify_range(v, 0, 1);
    if (kvc_verify_places(v, &c)) {
        struct choice o;
        make_choice(v, &c, true, &o);
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
            const struct kvc_select_reads call = reads_call(&c, &o, side);
            v->device[side]->ops->select_reads(v->device[side], &call);
            v->device[side]->ops->cut_reads(v->device[side],
                                            &(struct kvc_cut_reads){.lists = call.lists,
                                                                    .view = call.view,
                                                                    .page = call.pages ? call.pages->page : 1,
                                                                    .whole = call.whole,
                                                                    .budget = call.budget,
                                                                    .factor = soft ? 0.25f : 0.0f,
                                                                    .share = share,
                                                                    .scores = call.scores,
                                                                    .stride = call.stride,
                                                                    .reads = call.reads});
        }
        kvc_verify_compare_reads(v, o.counts, o.indices, c.shape.kv_heads, o.stride);
    }
    kvc_verify_lists_free(v, &c.lists);
}
