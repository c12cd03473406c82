/* select.c - chooses the entries that a decode step reads. Maintains pages, sums of values, views and read lists, and
 * counts the bytes that the choice itself reads. */
#include "core/engine/select.h"

#include "core/base/assert.h"
#include "core/base/canon.h"
#include "core/base/fused.h"
#include "core/base/integers.h"
#include "core/stage/stage.h"

#include <stdlib.h>
#include <string.h>

static struct kvc_device *device_of(const struct kvc_session *session) { return session->runner->device; }

/* ---- data kept from step to step ---- */

static void free_pages(struct kvc_session *session, struct kvc_select_layer *select) {
    kvc_cache_state_free(&session->cache, select->page_bytes, select->pages.low);
    kvc_cache_state_free(&session->cache, select->page_bytes, select->pages.high);
    select->pages = (struct kvc_pages){.page = 0};
    select->pages_right = false;
}

static size_t sum_bytes(const struct kvc_session *session, uint32_t layer) {
    return (size_t)session->cache.layer[layer].lists.kv_heads * session->cache.format.head_size * sizeof(float);
}

void kvc_select_drop_view(struct kvc_session *session, uint32_t layer) {
    struct kvc_select_layer *select = &session->select.layer[layer];
    const size_t counts = session->cache.layer[layer].lists.kv_heads * sizeof(uint32_t);
    kvc_cache_state_free(&session->cache, counts, select->view.count);
    kvc_cache_state_free(&session->cache, select->index_bytes, select->view.index);
    free(select->view_count);
    select->view = (struct kvc_read_list){.count = NULL};
    select->view_count = NULL;
    select->pages_right = select->sums_right = select->view_stale = false;
}

void kvc_select_close(struct kvc_session *session) {
    struct kvc_device *device = device_of(session);
    struct kvc_growable *buffers[] = {&session->select.read_index, &session->select.read_count,
                                      &session->select.scores,     &session->select.probabilities,
                                      &session->select.alpha,      &session->select.rest};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        kvc_growable_free(device, buffers[i]);
    for (uint32_t l = 0; session->select.layer && l < session->cache.layers; l++) {
        kvc_select_drop_view(session, l);
        free_pages(session, &session->select.layer[l]);
        kvc_cache_state_free(&session->cache, sum_bytes(session, l), session->select.layer[l].sums);
    }
}

void kvc_select_keys_changed(struct kvc_session *session, uint32_t layer) {
    session->select.layer[layer].pages_right = false;
}

void kvc_select_evicted(struct kvc_session *session, uint32_t layer, const struct kvc_read_list *kept,
                        struct kvc_span to) {
    struct kvc_select_layer *select = &session->select.layer[layer];
    const struct kvc_cache_layer *lists = &session->cache.layer[layer];
    const struct kvc_span count = {select->view.count, 0};
    const struct kvc_ops *ops = device_of(session)->ops;
    const size_t bytes = lists->lists.kv_heads * sizeof(uint32_t);
    select->pages_right = select->sums_right = false;
    if (!select->view.index)
        return;
    ops->view_evict(device_of(session),
                    &(struct kvc_view_evict){.lists = &lists->lists, .kept = kept, .view = &select->view});
    if (!to.buffer) {
        ops->download(device_of(session), select->view_count, count, bytes);
        return;
    }
    to.offset += (kvc_cache_lists(&session->cache) + lists->before) * sizeof(uint32_t);
    KVC_ASSERT(select->view_count);
    ops->copy(device_of(session), to, count, bytes);
    select->view_stale = true;
}

bool kvc_select_is_stale(const struct kvc_session *session) {
    for (uint32_t l = 0; l < session->cache.layers; l++)
        if (session->select.layer[l].view_stale)
            return true;
    return false;
}

void kvc_select_take_counts(struct kvc_session *session, const uint32_t *counts) {
    for (uint32_t l = 0; l < session->cache.layers; l++) {
        struct kvc_select_layer *select = &session->select.layer[l];
        const struct kvc_cache_layer *lists = &session->cache.layer[l];
        for (uint32_t h = 0; h < lists->lists.kv_heads && select->view_stale; h++)
            KVC_ASSERT(counts[lists->before + h] <= select->view_count[h]); /* an eviction makes no view longer */
        if (select->view_stale)
            memcpy(select->view_count, counts + lists->before, lists->lists.kv_heads * sizeof *counts);
        select->view_stale = false;
    }
}

/* Enlarges a view to `stride` indices per list and keeps its contents. */
static enum kvc_status grow_view(struct kvc_session *session, uint32_t layer, uint32_t stride,
                                 struct kvc_error *error) {
    struct kvc_select_layer *select = &session->select.layer[layer];
    struct kvc_cache *cache = &session->cache;
    struct kvc_device *device = device_of(session);
    const uint32_t heads = cache->layer[layer].lists.kv_heads;
    const size_t bytes = (size_t)heads * stride * sizeof(uint32_t);
    KVC_ASSERT(!select->view.index || stride >= select->view.stride);
    struct kvc_buffer *index;
    enum kvc_status status = KVC_OK;
    if (!select->view_count) {
        select->view_count = calloc(heads, sizeof *select->view_count);
        if (!select->view_count)
            return kvc_fail(error, KVC_RESOURCE, "select: no memory for a view of %u heads", heads);
        status = kvc_cache_state_create(cache, heads * sizeof(uint32_t), &select->view.count, error);
    }
    if (status == KVC_OK)
        status = kvc_cache_state_create(cache, bytes, &index, error);
    if (status != KVC_OK)
        return status;
    for (uint32_t h = 0; h < heads && select->view.index; h++)
        if (select->view_count[h])
            device->ops->copy(device, (struct kvc_span){index, (size_t)h * stride * sizeof(uint32_t)},
                              (struct kvc_span){select->view.index, (size_t)h * select->view.stride * sizeof(uint32_t)},
                              select->view_count[h] * sizeof(uint32_t));
    kvc_cache_state_free(cache, select->index_bytes, select->view.index);
    select->view.index = index;
    select->view.stride = stride;
    select->index_bytes = bytes;
    return KVC_OK;
}

enum kvc_status kvc_select_reserve(struct kvc_session *session, uint32_t layer, struct kvc_error *error) {
    const struct kvc_select_layer *select = &session->select.layer[layer];
    const uint64_t most = kvc_cache_most(&session->cache, layer) + 1ull;
    if (select->view.index && most <= select->view.stride)
        return KVC_OK;
    return grow_view(session, layer, (uint32_t)kvc_round_up(most, KVC_TILE), error);
}

void kvc_select_appended(struct kvc_session *session, uint32_t layer) {
    struct kvc_select_layer *select = &session->select.layer[layer];
    const struct kvc_lists *lists = &session->cache.layer[layer].lists;
    select->fresh++;
    if (!select->view.index)
        return;
    device_of(session)->ops->view_append(device_of(session),
                                         &(struct kvc_view_append){.lists = lists, .view = &select->view, .rows = 1});
    for (uint32_t h = 0; h < lists->kv_heads; h++) {
        select->view_count[h]++;
        KVC_ASSERT(select->view_count[h] <= select->view.stride); /* kvc_select_reserve was called before */
    }
}

/* Returns the number of entries that a head may choose from: the entries in its view, or in its list if it has no
 * view. */
static uint32_t places_in(const struct kvc_session *session, uint32_t layer, uint32_t h) {
    const struct kvc_select_layer *select = &session->select.layer[layer];
    return select->view.index ? select->view_count[h] : session->cache.layer[layer].count[h];
}

/* Allocates `stride` pages for each list. */
static enum kvc_status make_pages(struct kvc_session *session, uint32_t layer, uint32_t page, uint32_t stride, bool low,
                                  struct kvc_error *error) {
    struct kvc_select_layer *select = &session->select.layer[layer];
    struct kvc_cache *cache = &session->cache;
    const enum kvc_type type = cache->format.key.type == KVC_F16 ? KVC_F16 : KVC_F32;
    KVC_ASSERT(page > 0 && stride > 0);
    const size_t value = type == KVC_F16 ? 2 : 4;
    free_pages(session, select);
    select->page_bytes = (size_t)cache->layer[layer].lists.kv_heads * stride * cache->format.head_size * value;
    enum kvc_status status = kvc_cache_state_create(cache, select->page_bytes, &select->pages.high, error);
    if (status == KVC_OK && low)
        status = kvc_cache_state_create(cache, select->page_bytes, &select->pages.low, error);
    if (status != KVC_OK)
        return status;
    select->pages.page = page;
    select->pages.stride = stride;
    select->pages.type = type;
    return KVC_OK;
}

/* Ensures that there are enough pages, of `page` entries each, for `most` entries. */
static enum kvc_status reserve_pages(struct kvc_session *session, uint32_t layer, uint32_t page, bool low,
                                     uint32_t most, struct kvc_error *error) {
    const struct kvc_select_layer *select = &session->select.layer[layer];
    const uint32_t count = (uint32_t)kvc_divide_up(most, page);
    if (select->pages.page == page && select->pages.stride >= count && (!low || select->pages.low))
        return KVC_OK;
    /* extra pages make growth rare, because it refills all pages */
    const uint32_t stride = ((count + count / 64) / 64 + 1) * 64;
    KVC_ASSERT(stride >= count);
    return make_pages(session, layer, page, stride, low, error);
}

/* Updates the pages with the entries appended since the last update, or rebuilds them. */
static void update_pages(struct kvc_session *session, uint32_t layer) {
    struct kvc_select_layer *select = &session->select.layer[layer];
    const uint32_t rows = select->pages_right ? select->fresh : UINT32_MAX;
    KVC_ASSERT(select->pages.high && (select->pages.low || select->pages.page == 1));
    if (rows)
        device_of(session)->ops->pages_update(
            device_of(session), &(struct kvc_pages_update){.lists = &session->cache.layer[layer].lists,
                                                           .view = select->view.index ? &select->view : NULL,
                                                           .pages = &select->pages,
                                                           .rows = rows});
    select->pages_right = true;
}

static void update_sums(struct kvc_session *session, uint32_t layer) {
    struct kvc_select_layer *select = &session->select.layer[layer];
    const uint32_t rows = select->sums_right ? select->fresh : UINT32_MAX;
    KVC_ASSERT(select->sums);
    if (rows)
        device_of(session)->ops->value_sums(device_of(session),
                                            &(struct kvc_value_sums){.lists = &session->cache.layer[layer].lists,
                                                                     .view = select->view.index ? &select->view : NULL,
                                                                     .sums = (struct kvc_span){select->sums, 0},
                                                                     .rows = rows});
    select->sums_right = true;
}

struct kvc_select_shape kvc_select_shape_of(const struct kvc_session *session, uint32_t layer) {
    const struct kvc_select_layer *select = &session->select.layer[layer];
    return (struct kvc_select_shape){.view_stride = select->view.index ? select->view.stride : 0,
                                     .page = select->pages.page,
                                     .pages = select->pages.stride,
                                     .low = select->pages.low != NULL,
                                     .sums = select->sums != NULL};
}

enum kvc_status kvc_select_lay_out(struct kvc_session *session, uint32_t layer, const struct kvc_select_shape *shape,
                                   const uint32_t *view_counts, struct kvc_error *error) {
    struct kvc_select_layer *select = &session->select.layer[layer];
    const uint32_t heads = session->cache.layer[layer].lists.kv_heads;
    enum kvc_status status = KVC_OK;
    if (shape->view_stride)
        status = grow_view(session, layer, shape->view_stride, error);
    if (shape->view_stride && status == KVC_OK) {
        memcpy(select->view_count, view_counts, heads * sizeof *view_counts);
        device_of(session)->ops->upload(device_of(session), (struct kvc_span){select->view.count, 0}, view_counts,
                                        heads * sizeof *view_counts);
    }
    if (status == KVC_OK && shape->page)
        status = make_pages(session, layer, shape->page, shape->pages, shape->low, error);
    if (status == KVC_OK && shape->sums)
        status = kvc_cache_state_create(&session->cache, sum_bytes(session, layer), &select->sums, error);
    return status;
}

/* ---- choosing ---- */

static enum kvc_status select_check(const struct kvc_stage *stage, const struct kvc_select *select,
                                    struct kvc_error *error) {
    const bool paged = select->kind == KVC_SELECT_PAGE_CHANNELS || select->kind == KVC_SELECT_PAGE_BOUND;
    const bool channels = select->kind == KVC_SELECT_CHANNELS || select->kind == KVC_SELECT_PAGE_CHANNELS;
    if ((unsigned)select->kind > KVC_SELECT_PAGE_BOUND)
        return kvc_fail(error, KVC_USAGE, "policy: a selection of kind %u: must be a value of enum kvc_select_kind",
                        (unsigned)select->kind);
    if (stage->queries != 1 || stage->session->in_prompt)
        return kvc_fail(error, KVC_USAGE, "policy: entries to read are chosen in a decode step only");
    if (select->top == 0 || (paged && select->page == 0))
        return kvc_fail(error, KVC_USAGE, "policy: no %s to read", paged ? "pages" : "entries");
    if (select->share < 0 || select->share > 1 || (select->share > 0 && !paged) ||
        (select->share > 0 && select->share * 65536 < 0.5))
        return kvc_fail(error, KVC_USAGE,
                        "policy: a share of %g of the weights: must be 0, or from 1/65536 to 1 with pages",
                        select->share);
    if (channels && (select->dims == 0 || select->dims > stage->info.head_size))
        return kvc_fail(error, KVC_USAGE, "policy: %u channels to compare: must be 1 to %u", select->dims,
                        stage->info.head_size);
    return KVC_OK;
}

static bool by_page(const struct kvc_select *select) {
    return select->kind == KVC_SELECT_PAGE_CHANNELS || select->kind == KVC_SELECT_PAGE_BOUND;
}

/* Returns true if the choice reads summaries of pages. */
static bool has_pages(const struct kvc_select *select) {
    return by_page(select) || (select->kind == KVC_SELECT_CHANNELS && select->page);
}

static uint32_t most_places(const struct kvc_session *session, uint32_t layer) {
    uint32_t most = 0;
    for (uint32_t h = 0; h < session->cache.layer[layer].lists.kv_heads; h++) {
        KVC_ASSERT(places_in(session, layer, h) <= session->cache.layer[layer].count[h]);
        most = kvc_max_u32(most, places_in(session, layer, h));
    }
    return most;
}

/* Reserves the buffers of scores, read lists and pages for a choice among `most` entries. */
static enum kvc_status select_reserve(struct kvc_session *session, uint32_t layer, const struct kvc_select *select,
                                      uint32_t most, struct kvc_error *error) {
    struct kvc_device *device = device_of(session);
    struct kvc_select_layer *kept = &session->select.layer[layer];
    const uint32_t H = session->runner->geometry.heads, heads = session->cache.layer[layer].lists.kv_heads;
    const uint32_t stride = (uint32_t)kvc_round_up(most, KVC_TILE);
    const size_t row = (size_t)stride * sizeof(float);
    const bool probabilities = select->mean_value;
    enum kvc_status status = KVC_OK;
    if (has_pages(select))
        status = reserve_pages(session, layer, by_page(select) ? select->page : 1, by_page(select), most, error);
    if (status == KVC_OK && probabilities && !kept->sums) {
        status = kvc_cache_state_create(&session->cache, sum_bytes(session, layer), &kept->sums, error);
        kept->sums_right = false;
    }
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &session->select.scores, heads * row, error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &session->select.read_index, heads * row, error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &session->select.read_count, heads * sizeof(uint32_t), error);
    if (status == KVC_OK && probabilities)
        status = kvc_growable_reserve(device, &session->select.probabilities, H * row, error);
    if (status == KVC_OK && probabilities)
        status = kvc_growable_reserve(device, &session->select.alpha, H * sizeof(float), error);
    if (status == KVC_OK && probabilities && kvc_runner_sinks(session->runner, layer).buffer)
        status = kvc_growable_reserve(device, &session->select.rest, H * sizeof(float), error);
    return status;
}

enum kvc_status kvc_select_prepare(struct kvc_session *session, uint32_t layer, const struct kvc_select *select,
                                   uint32_t *stride, struct kvc_error *error) {
    const uint32_t most = most_places(session, layer) + 1;
    /* either everything is read, or the selection is invalid and will be rejected later */
    if (most <= select->budget || (by_page(select) && !select->page))
        return KVC_OK;
    *stride = (uint32_t)kvc_round_up(most, KVC_TILE);
    KVC_ASSERT(*stride >= most);
    return select_reserve(session, layer, select, most, error);
}

/* Updates those summaries (pages, sums of values) that the choice reads, and marks the others as stale. */
static void update_summaries(struct kvc_session *session, uint32_t layer, const struct kvc_select *select) {
    struct kvc_select_layer *kept = &session->select.layer[layer];
    const bool paged = has_pages(select);
    if (paged)
        update_pages(session, layer);
    if (select->mean_value)
        update_sums(session, layer);
    kept->fresh = 0;
    kept->pages_right = kept->pages_right && paged;
    kept->sums_right = kept->sums_right && select->mean_value;
}

/* Returns a buffer of the select stage, or none if the choice does not need it. */
static struct kvc_span span_if(bool needed, const struct kvc_growable *growable) {
    return needed ? kvc_growable_at(growable, 0) : (struct kvc_span){NULL, 0};
}

/* Returns the operation that scores the entries (or pages) for each query: scores [heads, stride]. */
static struct kvc_select_scores scores_of(struct kvc_stage *stage, const struct kvc_select *select, uint32_t stride) {
    static const enum kvc_score_kind kinds[] = {KVC_SCORE_EXACT, KVC_SCORE_CHANNELS, KVC_SCORE_PAGE_CHANNELS,
                                                KVC_SCORE_PAGE_BOUND};
    KVC_ASSERT((unsigned)select->kind < sizeof kinds / sizeof *kinds);
    struct kvc_session *session = stage->session;
    struct kvc_select_layer *layer = &session->select.layer[stage->layer];
    const struct kvc_span sinks = kvc_runner_sinks(session->runner, stage->layer);
    return (struct kvc_select_scores){.lists = &kvc_stage_lists(stage)->lists,
                                      .view = layer->view.index ? &layer->view : NULL,
                                      .pages = has_pages(select) ? &layer->pages : NULL,
                                      .kind = kinds[select->kind],
                                      .dims = select->dims,
                                      .heads = stage->info.heads,
                                      .head_size = stage->info.head_size,
                                      .budget = select->budget,
                                      .window = kvc_runner_window(session->runner, stage->layer),
                                      .q = stage->q,
                                      .positions = stage->positions,
                                      .scores = kvc_growable_at(&session->select.scores, 0),
                                      .probabilities = span_if(select->mean_value, &session->select.probabilities),
                                      .stride = stride,
                                      .bytes_read = &session->sums.select_bytes, /* the next sync updates it */
                                      .scoring = kvc_runner_scoring(session->runner),
                                      .sinks = sinks,
                                      .rest = span_if(sinks.buffer && select->mean_value, &session->select.rest)};
}

/* Returns the operation that chooses entries by these scores and lists them in session->select.chosen. */
static struct kvc_select_reads reads_of(struct kvc_session *session, const struct kvc_select *select,
                                        const struct kvc_select_scores *scores) {
    return (struct kvc_select_reads){.lists = scores->lists,
                                     .view = scores->view,
                                     .pages = by_page(select) ? scores->pages : NULL,
                                     .whole = select->kind == KVC_SELECT_PAGE_BOUND,
                                     .heads = scores->heads,
                                     .budget = select->budget,
                                     .top = select->top,
                                     .local = select->local,
                                     .scores = scores->scores,
                                     .probabilities = scores->probabilities,
                                     .rest = scores->rest,
                                     .alpha = span_if(select->mean_value, &session->select.alpha),
                                     .stride = scores->stride,
                                     .reads = &session->select.chosen};
}

/* Returns the operation that reduces the chosen entries to the fewest whose weights sum to the wanted share of all
 * weights. The highest scores are kept first. */
static struct kvc_cut_reads cut_of(struct kvc_session *session, const struct kvc_select *select,
                                   const struct kvc_select_scores *scores, const struct kvc_select_reads *reads) {
    const float scale = kvc_score_scale(scores->scoring.scale, scores->head_size);
    const uint32_t group = scores->heads / scores->lists->kv_heads;
    return (struct kvc_cut_reads){.lists = scores->lists,
                                  .view = scores->view,
                                  .page = select->page,
                                  .whole = reads->whole,
                                  .budget = select->budget,
                                  .factor = reads->whole ? scale / (float)group : 0.0f,
                                  .share = (uint32_t)(select->share * 65536 + 0.5),
                                  .scores = scores->scores,
                                  .stride = scores->stride,
                                  .reads = &session->select.chosen};
}

/* Chooses the entries to read. `most` is the number of entries that the longest head chooses from. */
static enum kvc_status select_choose(struct kvc_stage *stage, const struct kvc_select *select, uint32_t most,
                                     struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    struct kvc_device *device = device_of(session);
    const uint32_t stride = (uint32_t)kvc_round_up(most, KVC_TILE);
    const enum kvc_status status = select_reserve(session, stage->layer, select, most, error);
    KVC_ASSERT(most > select->budget && most <= stride);
    if (status != KVC_OK)
        return status;
    update_summaries(session, stage->layer, select);
    session->select.chosen =
        (struct kvc_read_list){session->select.read_count.buffer, session->select.read_index.buffer, stride};
    const struct kvc_select_scores scores = scores_of(stage, select, stride);
    const struct kvc_select_reads reads = reads_of(session, select, &scores);
    if (select->share > 0) {
        const struct kvc_cut_reads cut = cut_of(session, select, &scores, &reads);
        device->ops->select_scores(device, &scores); /* separately, because cut_reads reads the scores again */
        device->ops->select_reads(device, &reads);
        device->ops->cut_reads(device, &cut);
    } else {
        kvc_run_select(device, &(struct kvc_select_scores_reads){.scores = &scores, .reads = &reads});
    }
    if (select->mean_value)
        session->sums.select_bytes += sum_bytes(session, stage->layer);
    stage->chosen = &session->select.chosen;
    stage->mean_value = select->mean_value;
    return KVC_OK;
}

enum kvc_status kvc_stage_select(struct kvc_stage *stage, const struct kvc_select *select, struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    struct kvc_select_layer *layer = &session->select.layer[stage->layer];
    const enum kvc_status status = select_check(stage, select, error);
    if (status != KVC_OK)
        return status;
    const uint32_t most = most_places(session, stage->layer);
    if (most > select->budget)
        return select_choose(stage, select, most, error);
    stage->chosen = layer->view.index ? &layer->view : NULL;
    return KVC_OK;
}

void kvc_select_mix(struct kvc_session *session, uint32_t layer, const struct kvc_read_list *reads,
                    struct kvc_span attended) {
    struct kvc_device *device = device_of(session);
    const struct kvc_geometry *g = &session->runner->geometry;
    const struct kvc_select_layer *select = &session->select.layer[layer];
    if (!session->select.mixing || !reads)
        return;
    KVC_ASSERT(select->sums && session->select.alpha.buffer);
    KVC_ASSERT(reads->stride >= 1);
    device->ops->mix_mean(device, &(struct kvc_mix_mean){.lists = &session->cache.layer[layer].lists,
                                                         .view = select->view.index ? &select->view : NULL,
                                                         .reads = reads,
                                                         .heads = g->heads,
                                                         .head_size = g->head_size,
                                                         .out = attended,
                                                         .alpha = kvc_growable_at(&session->select.alpha, 0),
                                                         .sums = (struct kvc_span){select->sums, 0}});
}
