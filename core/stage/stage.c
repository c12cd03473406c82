/* stage.c - computes scores of entries for a policy's stage function, on the backend. */
#include "core/stage/stage.h"

#include "core/base/assert.h"
#include "core/base/integers.h"
#include "core/engine/expired.h"
#include "core/stage/stage_ranks.h"

#include <stdlib.h>
#include <string.h>

const struct kvc_stage_info *kvc_stage_info(const struct kvc_stage *stage) { return &stage->info; }

void *kvc_stage_state(const struct kvc_stage *stage) { return stage->use ? stage->use->state : NULL; }

void *kvc_stage_user(const struct kvc_stage *stage) { return stage->user; }

/* Refuses scores after an eviction: scores are stored by index, and an eviction changes the indices. */
enum kvc_status kvc_stage_check(const struct kvc_stage *stage, struct kvc_error *error) {
    if (stage->evicted)
        return kvc_fail(error, KVC_USAGE, "policy: scores were requested after an eviction");
    return KVC_OK;
}

enum kvc_status kvc_stage_check_scores(const struct kvc_stage *stage, const struct kvc_scores *scores,
                                       struct kvc_error *error) {
    const enum kvc_status status = kvc_stage_check(stage, error);
    for (unsigned i = 0; i < stage->score_count; i++)
        if (scores == &stage->scores[i])
            return status;
    return status == KVC_OK ? kvc_fail(error, KVC_USAGE, "policy: scores of another stage or layer: must be made in it")
                            : status;
}

static enum kvc_status make_scores(struct kvc_stage *stage, uint32_t heads, struct kvc_scores **scores,
                                   struct kvc_error *error) {
    struct kvc_runner *runner = stage->session->runner;
    const unsigned n = stage->score_count;
    const enum kvc_status early = kvc_stage_check(stage, error);
    if (early != KVC_OK)
        return early;
    if (n == KVC_STAGE_SCORES)
        return kvc_fail(error, KVC_USAGE, "policy: a stage may hold at most %u score arrays", n);
    /* round up to whole tiles, so that a policy with a constant budget allocates this buffer only once */
    const uint64_t stride = kvc_round_up(kvc_stage_capacity(stage), KVC_TILE);
    KVC_ASSERT(n < KVC_STAGE_SCORES && (heads == stage->info.kv_heads || heads == stage->info.heads));
    const enum kvc_status status =
        kvc_growable_reserve(runner->device, &runner->stage.scores[n], (size_t)stride * heads * sizeof(float), error);
    if (status != KVC_OK)
        return status;
    stage->scores[n] = (struct kvc_scores){{runner->stage.scores[n].buffer, 0}, (uint32_t)stride, heads};
    *scores = &stage->scores[n];
    stage->score_count++;
    return KVC_OK;
}

enum kvc_status kvc_stage_some_scores(struct kvc_stage *stage, struct kvc_scores **scores, struct kvc_error *error) {
    return make_scores(stage, stage->info.kv_heads, scores, error);
}

enum kvc_status kvc_stage_scores(struct kvc_stage *stage, struct kvc_scores **scores, struct kvc_error *error) {
    const enum kvc_status status = stage->evicted ? KVC_OK : kvc_expired_clear(stage, error);
    return status == KVC_OK ? kvc_stage_some_scores(stage, scores, error) : status;
}

enum kvc_status kvc_stage_head_scores(struct kvc_stage *stage, struct kvc_scores **scores, struct kvc_error *error) {
    const enum kvc_status status = stage->evicted ? KVC_OK : kvc_expired_clear(stage, error);
    return status == KVC_OK ? make_scores(stage, stage->info.heads, scores, error) : status;
}

void kvc_stage_set_rows(struct kvc_stage *stage, const struct kvc_batch *batch, uint32_t row, uint32_t batch_row,
                        uint32_t rows) {
    const struct kvc_runner *runner = stage->session->runner;
    const size_t word = sizeof(float), m = runner->geometry.heads * word, q = m * runner->geometry.head_size;
    KVC_ASSERT(batch_row + (uint64_t)rows <= batch->rows && (row + (uint64_t)rows) * q <= runner->q.bytes);
    stage->queries = rows;
    stage->first = row;
    stage->q = kvc_growable_at(&runner->q, row * q);
    stage->maximum = kvc_growable_at(&runner->maximum, row * m);
    stage->sum = kvc_growable_at(&runner->sum, row * m);
    stage->positions = kvc_growable_at(&batch->positions, batch_row * word);
    stage->causal_offset = kvc_growable_at(&batch->causal_offset, batch_row * word);
}

struct kvc_probabilities kvc_stage_rows(const struct kvc_stage *stage, uint32_t count) {
    const struct kvc_geometry *g = &stage->session->runner->geometry;
    const size_t skip = stage->queries - count, word = sizeof(float);
    KVC_ASSERT(count <= stage->queries);
    struct kvc_probabilities rows = {.lists = &kvc_stage_lists(stage)->lists,
                                     .reads = stage->reads,
                                     .queries = count,
                                     .heads = g->heads,
                                     .kv_heads = stage->info.kv_heads,
                                     .head_size = g->head_size,
                                     .window = kvc_runner_window(stage->session->runner, stage->layer),
                                     .q = stage->q,
                                     .maximum = stage->maximum,
                                     .sum = stage->sum,
                                     .positions = stage->positions,
                                     .causal_offset = stage->causal_offset,
                                     .scoring = kvc_runner_scoring(stage->session->runner)};
    rows.q.offset += skip * g->heads * g->head_size * word;
    rows.maximum.offset += skip * g->heads * word;
    rows.sum.offset += skip * g->heads * word;
    rows.positions.offset += skip * word;
    rows.causal_offset.offset += skip * word;
    return rows;
}

static void add_mass(struct kvc_stage *stage, const struct kvc_probabilities *rows, bool maxima,
                     struct kvc_scores *scores) {
    kvc_stage_device(stage)->ops->window_mass(
        kvc_stage_device(stage), &(struct kvc_window_mass){.probabilities = rows,
                                                           .scores = scores->span,
                                                           .stride = scores->stride,
                                                           .by_head = scores->heads != stage->info.kv_heads,
                                                           .maxima = maxima});
}

enum kvc_status kvc_stage_window_mass(struct kvc_stage *stage, uint32_t window, struct kvc_scores *scores,
                                      struct kvc_error *error) {
    const enum kvc_status status = kvc_stage_check_scores(stage, scores, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_probabilities rows = kvc_stage_rows(stage, kvc_min_u32(window, stage->queries));
    add_mass(stage, &rows, false, scores);
    return KVC_OK;
}

/* Divides the sums of the rows, [queries, H], by the number of entries that each row sees in each list. */
static enum kvc_status count_rows(struct kvc_stage *stage, struct kvc_probabilities *rows, struct kvc_error *error) {
    struct kvc_runner *runner = stage->session->runner;
    const uint32_t group = rows->heads / rows->kv_heads;
    const size_t bytes = (size_t)rows->queries * rows->heads * sizeof(float);
    float *sums = malloc(bytes + 1);
    enum kvc_status status = kvc_growable_reserve(runner->device, &runner->stage.totals, bytes, error);
    if (status == KVC_OK && !sums)
        status = kvc_fail(error, KVC_RESOURCE, "policy: no memory for the sums of %u queries", rows->queries);
    if (status == KVC_OK) {
        runner->device->ops->download(runner->device, sums, rows->sum, bytes);
        for (uint32_t i = 0; i < rows->queries; i++)
            for (uint32_t h = 0; h < rows->heads; h++) {
                const uint32_t count = kvc_stage_lists(stage)->count[h / group], later = rows->queries - 1 - i;
                const uint32_t seen = count > later ? count - later : 1;
                sums[(size_t)i * rows->heads + h] = kvc_div(sums[(size_t)i * rows->heads + h], (float)seen);
            }
        rows->sum = kvc_growable_at(&runner->stage.totals, 0);
        runner->device->ops->upload(runner->device, rows->sum, sums, bytes);
    }
    free(sums);
    return status;
}

enum kvc_status kvc_stage_counted_mass(struct kvc_stage *stage, uint32_t window, struct kvc_scores *scores,
                                       struct kvc_error *error) {
    enum kvc_status status = kvc_stage_check_scores(stage, scores, error);
    if (status != KVC_OK)
        return status;
    struct kvc_probabilities rows = kvc_stage_rows(stage, kvc_min_u32(window, stage->queries));
    status = count_rows(stage, &rows, error);
    if (status == KVC_OK)
        add_mass(stage, &rows, false, scores);
    return status;
}

static enum kvc_status pseudo_scores(struct kvc_stage *stage, bool maxima, struct kvc_scores *scores,
                                     struct kvc_error *error) {
    const struct kvc_queries *pseudo = &stage->session->prompt.pseudo;
    const enum kvc_status status = kvc_stage_check_scores(stage, scores, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_geometry *g = &stage->session->runner->geometry;
    const size_t first = kvc_session_query_set(stage->session, stage->layer) * pseudo->rows * sizeof(float);
    KVC_ASSERT(pseudo->q.bytes >= (first / sizeof(float) + pseudo->rows) * g->heads * g->head_size * sizeof(float));
    struct kvc_stage view = *stage;
    view.queries = pseudo->rows;
    view.q = kvc_growable_at(&pseudo->q, first * g->heads * g->head_size);
    view.maximum = kvc_growable_at(&pseudo->maximum, first * g->heads);
    view.sum = kvc_growable_at(&pseudo->sum, first * g->heads);
    view.positions = kvc_growable_at(&pseudo->positions, first);
    view.causal_offset = (struct kvc_span){NULL, 0}; /* the queries that the method added see every entry */
    const struct kvc_probabilities rows = kvc_stage_rows(&view, pseudo->rows);
    add_mass(stage, &rows, maxima, scores);
    return KVC_OK;
}

enum kvc_status kvc_stage_pseudo_mass(struct kvc_stage *stage, struct kvc_scores *scores, struct kvc_error *error) {
    return pseudo_scores(stage, false, scores, error);
}

enum kvc_status kvc_stage_pseudo_most(struct kvc_stage *stage, struct kvc_scores *scores, struct kvc_error *error) {
    return pseudo_scores(stage, true, scores, error);
}

enum kvc_status kvc_stage_moments(struct kvc_stage *stage, uint32_t window, uint64_t tail, float gamma,
                                  struct kvc_scores *scores, float *dispersion, float *variance,
                                  struct kvc_error *error) {
    struct kvc_runner *runner = stage->session->runner;
    const uint32_t heads = stage->info.heads, all = stage->info.model_heads;
    enum kvc_status status = kvc_stage_check_scores(stage, scores, error);
    if (status == KVC_OK && scores->heads != heads)
        status = kvc_fail(error, KVC_USAGE, "policy: moments need scores per query head");
    if (status == KVC_OK)
        status = kvc_growable_reserve(runner->device, &runner->stage.totals, 2 * heads * sizeof(float), error);
    if (status != KVC_OK)
        return status;
    float *own = malloc(2 * ((size_t)heads + all) * sizeof *own), *totals = own + 2 * (size_t)heads;
    if (!own)
        return kvc_fail(error, KVC_RESOURCE, "policy: no memory for the moments of %u heads", all);
    const struct kvc_probabilities rows = kvc_stage_rows(stage, kvc_min_u32(window, stage->queries));
    const struct kvc_span at = kvc_growable_at(&runner->stage.totals, 0);
    runner->device->ops->window_moments(runner->device, &(struct kvc_window_moments){.probabilities = &rows,
                                                                                     .tail = tail,
                                                                                     .gamma = gamma,
                                                                                     .scores = scores->span,
                                                                                     .stride = scores->stride,
                                                                                     .totals = at});
    runner->device->ops->download(runner->device, own, at, 2 * heads * sizeof *own);
    status = kvc_stage_gather(stage, heads, all, 2, own, totals, error);
    *dispersion = *variance = 0.0f;
    for (uint32_t h = 0; h < all && status == KVC_OK; h++) {
        *dispersion = *dispersion + totals[2 * h];
        *variance = *variance + totals[2 * h + 1];
    }
    free(own);
    return status;
}

enum kvc_status kvc_stage_pool(struct kvc_stage *stage, struct kvc_scores *scores, uint64_t tail, uint32_t kernel,
                               enum kvc_pooling pooling, struct kvc_error *error) {
    struct kvc_device *device = kvc_stage_device(stage);
    const enum kvc_status early = kvc_stage_check_scores(stage, scores, error);
    if (early != KVC_OK)
        return early;
    if (kernel == 0 || (kernel % 2 == 0 && pooling != KVC_POOL_CHUNKS))
        return kvc_fail(error, KVC_USAGE, "policy: a pooling kernel of %u: must be odd", kernel);
    if ((unsigned)pooling > KVC_POOL_CHUNKS)
        return kvc_fail(error, KVC_USAGE, "policy: pooling %u: must be a value of enum kvc_pooling", (unsigned)pooling);
    if (kernel == 1)
        return KVC_OK;
    struct kvc_scores *pooled = NULL;
    const enum kvc_status status = make_scores(stage, scores->heads, &pooled, error);
    if (status != KVC_OK)
        return status;
    device->ops->pool(device, &(struct kvc_pool){.lists = &kvc_stage_lists(stage)->lists,
                                                 .rows = scores->heads / stage->info.kv_heads,
                                                 .out = pooled->span,
                                                 .in = scores->span,
                                                 .stride = scores->stride,
                                                 .tail = tail,
                                                 .kernel = kernel,
                                                 .pooling = pooling});
    /* swap the buffers: the pooled scores replace `scores`, whose old buffer becomes free */
    struct kvc_growable *const buffers = stage->session->runner->stage.scores;
    const struct kvc_growable filled = buffers[stage->score_count - 1];
    const size_t mine = (size_t)(scores - stage->scores);
    KVC_ASSERT(mine < stage->score_count - 1 && pooled == &stage->scores[stage->score_count - 1]);
    buffers[stage->score_count - 1] = buffers[mine];
    buffers[mine] = filled;
    scores->span = pooled->span;
    stage->score_count--;
    return KVC_OK;
}

enum kvc_status kvc_stage_group(struct kvc_stage *stage, const struct kvc_scores *heads, float divisor,
                                struct kvc_scores *scores, struct kvc_error *error) {
    enum kvc_status status = kvc_stage_check_scores(stage, heads, error);
    if (status == KVC_OK)
        status = kvc_stage_check_scores(stage, scores, error);
    if (status != KVC_OK)
        return status;
    if (scores->heads != stage->info.kv_heads)
        return kvc_fail(error, KVC_USAGE, "policy: a group's sum needs scores per list");
    kvc_stage_device(stage)->ops->group_scores(kvc_stage_device(stage),
                                               &(struct kvc_group_scores){.lists = &kvc_stage_lists(stage)->lists,
                                                                          .rows = heads->heads / stage->info.kv_heads,
                                                                          .out = scores->span,
                                                                          .in = heads->span,
                                                                          .stride = scores->stride,
                                                                          .divisor = divisor});
    return KVC_OK;
}

/* Returns true if another method of the policy may evict from the layer, so that its lists may hold different tokens.
 */
static bool others_evict(const struct kvc_stage *stage) {
    const struct kvc_session *session = stage->session;
    const unsigned evicts = KVC_STAGE_CHUNK | KVC_STAGE_PROMPT | KVC_STAGE_DECODE;
    for (size_t i = 0; i < session->policy->count; i++)
        if (&session->use[i] != stage->use && session->use[i].acts[stage->layer] &&
            (session->policy->method[i].stages & evicts))
            return true;
    return false;
}

enum kvc_status kvc_stage_layer_sum(struct kvc_stage *stage, struct kvc_scores *scores, struct kvc_error *error) {
    struct kvc_device *device = kvc_stage_device(stage);
    const size_t word = sizeof(float);
    struct kvc_scores *sum;
    struct kvc_across across;
    enum kvc_status status = kvc_stage_check_scores(stage, scores, error);
    if (status == KVC_OK && scores->heads != stage->info.kv_heads)
        status = kvc_fail(error, KVC_USAGE, "policy: a layer's sum needs scores per list");
    if (status != KVC_OK || stage->info.model_lists == 1 || others_evict(stage))
        return status;
    status = make_scores(stage, scores->heads, &sum, error);
    if (status == KVC_OK)
        status = kvc_across_open(stage, (const struct kvc_scores *const *)&scores, 1, &across, error);
    if (status != KVC_OK)
        return status;
    struct kvc_lists first = across.lists; /* group_scores sums the rows of one list, so all lists become the rows of a
                                            * single list */
    first.kv_heads = 1;
    KVC_ASSERT(across.copied || across.stride == sum->stride);
    device->ops->group_scores(device, &(struct kvc_group_scores){.lists = &first,
                                                                 .rows = stage->info.model_lists,
                                                                 .out = sum->span,
                                                                 .in = across.scores[0],
                                                                 .stride = across.stride,
                                                                 .divisor = 1.0f});
    for (uint32_t h = 0; h < scores->heads; h++) {
        struct kvc_span to = scores->span;
        to.offset += (size_t)h * scores->stride * word;
        device->ops->copy(device, to, sum->span, kvc_stage_capacity(stage) * word);
    }
    stage->score_count--;
    kvc_across_free(&across);
    return KVC_OK;
}

enum kvc_status kvc_stage_shares(struct kvc_stage *stage, const struct kvc_scores *scores, uint64_t tail,
                                 uint64_t slots, uint32_t *shares, struct kvc_error *error) {
    struct kvc_runner *runner = stage->session->runner;
    struct kvc_device *device = runner->device;
    const size_t bytes = stage->info.model_lists * sizeof *shares;
    struct kvc_across across;
    enum kvc_status status = kvc_stage_check_scores(stage, scores, error);
    if (status == KVC_OK && scores->heads != stage->info.kv_heads)
        status = kvc_fail(error, KVC_USAGE, "policy: shares need scores per list");
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &runner->stage.totals, bytes, error);
    if (status == KVC_OK)
        status = kvc_across_open(stage, &scores, 1, &across, error);
    if (status != KVC_OK)
        return status;
    struct kvc_span at = kvc_growable_at(&runner->stage.totals, 0);
    device->ops->shares(device, &(struct kvc_shares){.lists = &across.lists,
                                                     .scores = across.scores[0],
                                                     .stride = across.stride,
                                                     .tail = tail,
                                                     .slots = slots,
                                                     .shares = at});
    at.offset = across.first * sizeof *shares;
    KVC_ASSERT(across.first + across.own <= stage->info.model_lists);
    device->ops->download(device, shares, at, across.own * sizeof *shares);
    kvc_across_free(&across);
    return KVC_OK;
}

/* ---- transfers to and from the host ---- */

static enum kvc_status check_head(uint32_t head, uint32_t heads, struct kvc_error *error) {
    if (head < heads)
        return KVC_OK;
    return kvc_fail(error, KVC_USAGE, "policy: head %u: must be below %u", head, heads);
}

/* Finds the scores of one head on the device, and its number of entries. */
static enum kvc_status locate(const struct kvc_stage *stage, const struct kvc_scores *scores, uint32_t head,
                              struct kvc_span *at, size_t *count, struct kvc_error *error) {
    enum kvc_status status = kvc_stage_check_scores(stage, scores, error);
    if (status == KVC_OK)
        status = check_head(head, scores->heads, error);
    if (status != KVC_OK)
        return status;
    kvc_cache_catch_up(&stage->session->cache, stage->layer);
    *count = kvc_stage_lists(stage)->count[head / (scores->heads / stage->info.kv_heads)];
    *at = scores->span;
    KVC_ASSERT(scores->heads % stage->info.kv_heads == 0);
    KVC_ASSERT(*count <= scores->stride);
    at->offset += (size_t)head * scores->stride * sizeof(float);
    return KVC_OK;
}

enum kvc_status kvc_stage_read_scores(struct kvc_stage *stage, const struct kvc_scores *scores, uint32_t head,
                                      float *values, size_t capacity, size_t *count, struct kvc_error *error) {
    struct kvc_span from;
    const enum kvc_status status = locate(stage, scores, head, &from, count, error);
    if (status != KVC_OK)
        return status;
    const size_t some = kvc_min_u64(*count, capacity);
    if (some)
        kvc_stage_device(stage)->ops->download(kvc_stage_device(stage), values, from, some * sizeof(float));
    return KVC_OK;
}

enum kvc_status kvc_stage_read_any_scores(struct kvc_stage *stage, const struct kvc_scores *scores, uint32_t list,
                                          float *values, size_t capacity, size_t *count, struct kvc_error *error) {
    struct kvc_ranks *ranks = kvc_stage_ranks_of(stage);
    if (!ranks)
        return kvc_stage_read_scores(stage, scores, list, values, capacity, count, error);
    uint32_t here;
    const uint32_t owner = kvc_session_list_owner(stage->session, stage->layer, list, &here);
    uint64_t found = 0;
    KVC_ASSERT(owner < ranks->link->count);
    if (owner == ranks->link->rank) {
        const enum kvc_status status = kvc_stage_read_scores(stage, scores, here, values, capacity, count, error);
        if (status != KVC_OK)
            return status;
        found = *count;
    }
    struct kvc_link *link = ranks->rows.link;
    link->class->broadcast(link, &found, sizeof found, owner % link->count);
    link->class->broadcast(link, values, kvc_min_u64(found, capacity) * sizeof *values, owner % link->count);
    *count = (size_t)found;
    return KVC_OK;
}

enum kvc_status kvc_stage_write_scores(struct kvc_stage *stage, struct kvc_scores *scores, uint32_t head,
                                       const float *values, size_t count, struct kvc_error *error) {
    struct kvc_span to;
    size_t most;
    const enum kvc_status status = locate(stage, scores, head, &to, &most, error);
    if (status != KVC_OK)
        return status;
    if (count > most)
        return kvc_fail(error, KVC_USAGE, "policy: %zu scores for a head; it has %zu entries", count, most);
    if (count)
        kvc_stage_device(stage)->ops->upload(kvc_stage_device(stage), to, values, count * sizeof(float));
    return KVC_OK;
}

enum kvc_status kvc_stage_read_positions(struct kvc_stage *stage, uint32_t head, int32_t *positions, size_t capacity,
                                         size_t *count, struct kvc_error *error) {
    enum kvc_status status = check_head(head, stage->info.kv_heads, error);
    if (status == KVC_OK)
        status = kvc_expired_clear(stage, error);
    if (status != KVC_OK)
        return status;
    return kvc_cache_read_positions(&stage->session->cache, stage->layer, head, positions, capacity, count, error);
}
