/* verify_pages.c - test cases of views, pages and sums of values. */
#include <string.h>

#include "core/base/integers.h"
#include "core/check/inject.h"
#include "core/check/verify_pages.h"

/* Creates lists and, sometimes, a view of them, which may contain all entries. */
bool kvc_verify_places(struct kvc_verify *v, struct kvc_verify_places *c) {
    uint32_t blocks = kvc_verify_range(v, 0, 7) ? 4 : 20;
    bool ordered = kvc_verify_range(v, 0, 2) > 0;
    uint32_t heads, *index, stride;
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
    index = kvc_verify_alloc(v, (size_t)heads * stride * sizeof *index);
    for (uint32_t h = 0; index && h < heads; h++) {
        uint32_t of = c->viewed ? kvc_verify_range(v, 0, 4) : 4;
        for (uint32_t r = 0; r < c->lists.count[h]; r++)
            if (of == 4 || kvc_verify_range(v, 0, 3) < of)
                index[(size_t)h * stride + c->places[h]++] = r;
        c->most = kvc_max_u32(c->places[h], c->most);
    }
    if (c->viewed) {
        c->view_count = kvc_verify_twin(v, heads * sizeof *c->places, c->places);
        c->view_index = kvc_verify_twin(v, (size_t)heads * stride * sizeof *index, index);
        for (int side = v->first; side < 2; side++)
            c->view[side] = (struct kvc_read_list){c->view_count.buffer[side], c->view_index.buffer[side], stride};
        kvc_verify_describe(v, ", view", 0, 0);
    }
    return v->status == KVC_OK;
}

const struct kvc_read_list *kvc_verify_view(const struct kvc_verify_places *c, int side) {
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

/* Creates pages for all places, with arbitrary contents. */
void kvc_verify_pages(struct kvc_verify *v, struct kvc_verify_places *c, uint32_t page, bool low) {
    enum kvc_type type = c->shape.types.key == KVC_F16 ? KVC_F16 : KVC_F32;
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

static void compare_side(struct kvc_verify *v, const struct kvc_verify_places *c, struct kvc_twin twin,
                         const char *what) {
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

uint32_t kvc_verify_page(struct kvc_verify *v) {
    static const uint32_t pages[] = {1, 2, 3, 5, 16, 33, 300};
    return kvc_verify_pick(v, pages);
}

KVC_INJECT(view_append, kvc_view_append, kvc_change_index(device, args->lists, args->view))
KVC_CASE(view_append, 6) {
    struct kvc_verify_places c;
    uint32_t rows;
    if (kvc_verify_places(v, &c)) {
        rows = v->small ? kvc_verify_range(v, 1, 2) : kvc_verify_range(v, 0, 5);
        for (uint32_t h = 0, left = 0; v->small && h < c.shape.kv_heads; h++) {
            left += c.lists.count[h] - c.places[h];
            /* not all entries, so that a changed index becomes visible */
            c.viewed = c.viewed && (left || h + 1 < c.shape.kv_heads);
        }
        if (!c.viewed) { /* an empty view */
            c.view_count = kvc_verify_twin(v, c.shape.kv_heads * sizeof(uint32_t), NULL);
            c.view_index = kvc_verify_output(v, (size_t)c.shape.kv_heads * (c.most + 6) * sizeof(uint32_t));
        }
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
            struct kvc_read_list view = {c.view_count.buffer[side], c.view_index.buffer[side],
                                         c.viewed ? c.view[side].stride : c.most + 6};
            v->device[side]->ops->view_append(
                v->device[side], &(struct kvc_view_append){.lists = &c.lists.lists[side], .view = &view, .rows = rows});
        }
        kvc_verify_compare_words(v, c.view_count, 0, c.shape.kv_heads, "count");
        for (uint32_t h = 0; h < c.shape.kv_heads; h++) {
            uint32_t more = kvc_min_u32(rows, c.lists.count[h]);
            size_t stride = c.viewed ? c.view[1].stride : c.most + 6;
            kvc_verify_compare_words(v, c.view_index, h * stride, (c.viewed ? c.places[h] : 0) + more, "index");
        }
    }
    kvc_verify_lists_free(v, &c.lists);
}

KVC_INJECT(view_evict, kvc_view_evict, kvc_change_index(device, args->lists, args->view))
/* Tests a view and the kept indices of an eviction: any two lists, disjoint lists, a view that is kept completely, and
 * a view of one entry. */
KVC_CASE(view_evict, 20) {
    struct kvc_lists_shape shape = kvc_verify_shape(v, 0, kvc_verify_range(v, 0, 7) ? 4 : 20, true);
    struct kvc_twin_lists lists;
    struct kvc_twin counts[2], indices[2]; /* [0]: of the view; [1]: of the kept indices */
    uint32_t *count[2], *index[2], stride[2];
    kvc_verify_lists(v, &shape, &lists);
    for (int i = 0; i < 2; i++) {
        stride[i] = lists.most + kvc_verify_range(v, 1, 5);
        count[i] = kvc_verify_alloc(v, shape.kv_heads * sizeof *count[i]);
        index[i] = kvc_verify_alloc(v, (size_t)shape.kv_heads * stride[i] * sizeof *index[i]);
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
                    index[i][(size_t)h * stride[i] + count[i][h]++] = r;
        }
    }
    for (int i = 0; i < 2; i++) {
        counts[i] = kvc_verify_twin(v, shape.kv_heads * sizeof *count[i], count[i]);
        indices[i] = kvc_verify_twin(v, (size_t)shape.kv_heads * stride[i] * sizeof *index[i], index[i]);
    }
    for (int side = v->first; side < 2 && v->status == KVC_OK; side++) {
        const struct kvc_ops *ops = v->device[side]->ops;
        struct kvc_read_list view = {counts[0].buffer[side], indices[0].buffer[side], stride[0]};
        const struct kvc_read_list kept = {counts[1].buffer[side], indices[1].buffer[side], stride[1]};
        ops->evict(v->device[side], &(struct kvc_evict){.lists = &lists.lists[side], .kept = &kept});
        ops->view_evict(v->device[side],
                        &(struct kvc_view_evict){.lists = &lists.lists[side], .kept = &kept, .view = &view});
    }
    if (v->status == KVC_OK)
        kvc_verify_compare_reads(v, counts[0], indices[0], shape.kv_heads, stride[0]);
    kvc_verify_lists_free(v, &lists);
}

KVC_INJECT(pages_update, kvc_pages_update, kvc_flip_last_byte(device, kvc_all_of(args->pages->high), sizeof(float)))
KVC_CASE(pages_update, 20) {
    struct kvc_verify_places c;
    if (kvc_verify_places(v, &c)) {
        uint32_t page = kvc_verify_page(v), rows = kvc_verify_range(v, 0, 1) ? UINT32_MAX : kvc_verify_range(v, 0, 40);
        bool low = page > 1 || kvc_verify_range(v, 0, 1);
        kvc_verify_pages(v, &c, page, low);
        kvc_verify_describe(v, ", rows %u", rows, 0);
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
            v->device[side]->ops->pages_update(v->device[side],
                                               &(struct kvc_pages_update){.lists = &c.lists.lists[side],
                                                                          .view = kvc_verify_view(&c, side),
                                                                          .pages = &c.pages[side],
                                                                          .rows = rows});
        compare_side(v, &c, c.high, "high");
        if (low)
            compare_side(v, &c, c.low, "low");
    }
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(pages_update, packed, 20)

KVC_INJECT(value_sums, kvc_value_sums, kvc_flip(device, args->sums, 0))
KVC_CASE(value_sums, 12) {
    struct kvc_verify_places c;
    if (kvc_verify_places(v, &c)) {
        uint32_t rows = kvc_verify_range(v, 0, 1) ? UINT32_MAX : kvc_verify_range(v, 0, 40);
        size_t n = (size_t)c.shape.kv_heads * c.shape.head_size;
        struct kvc_twin sums = kvc_verify_twin_values(v, n, KVC_PLAIN);
        kvc_verify_describe(v, ", rows %u", rows, 0);
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
            v->device[side]->ops->value_sums(v->device[side],
                                             &(struct kvc_value_sums){.lists = &c.lists.lists[side],
                                                                      .view = kvc_verify_view(&c, side),
                                                                      .sums = kvc_verify_span(sums, side),
                                                                      .rows = rows});
        kvc_verify_compare(v, sums, 0, n, "sums");
    }
    kvc_verify_lists_free(v, &c.lists);
}
KVC_FURTHER_CASES(value_sums, packed, 20)

KVC_INJECT(mix_mean, kvc_mix_mean, kvc_flip(device, args->out, 0))
KVC_CASE(mix_mean, 12) {
    struct kvc_verify_places c;
    if (kvc_verify_places(v, &c)) {
        struct kvc_read_list reads[2];
        size_t d = c.shape.head_size;
        struct kvc_twin out = kvc_verify_twin_values(v, c.heads * d, kvc_verify_flavour(v)), alpha, sums;
        alpha = kvc_verify_twin_values(v, c.heads, KVC_PLAIN);
        sums = kvc_verify_twin_values(v, c.shape.kv_heads * d, kvc_verify_flavour(v));
        kvc_verify_read_lists(v, &c.lists, reads);
        for (int side = v->first; side < 2 && v->status == KVC_OK; side++)
            v->device[side]->ops->mix_mean(v->device[side],
                                           &(struct kvc_mix_mean){.lists = &c.lists.lists[side],
                                                                  .view = kvc_verify_view(&c, side),
                                                                  .reads = &reads[side],
                                                                  .heads = c.heads,
                                                                  .head_size = (uint32_t)d,
                                                                  .out = kvc_verify_span(out, side),
                                                                  .alpha = kvc_verify_span(alpha, side),
                                                                  .sums = kvc_verify_span(sums, side)});
        kvc_verify_compare(v, out, 0, c.heads * d, "out");
    }
    kvc_verify_lists_free(v, &c.lists);
}
