/* keep.c - what a policy's stage function may decide: which entries stay, which rows go on; and the moments at which
 * the methods of a policy are asked. */
#include "core/engine/session.h"

#include <stdlib.h>
#include <string.h>

static const struct kvc_span none = {NULL, 0};

bool kvc_stage_acts(const struct kvc_stage *stage, uint32_t layer) {
    return layer < stage->info.layers && stage->use->acts[layer];
}

enum kvc_status kvc_stage_layer(struct kvc_stage *stage, uint32_t layer, struct kvc_error *error) {
    if (layer > stage->info.layer)
        return kvc_fail(error, KVC_USAGE, "policy: layer %u is asked for in layer %u", layer, stage->info.layer);
    kvc_cache_catch_up(&stage->session->cache, layer);
    stage->layer = layer;
    stage->info.kv_heads = kvc_stage_lists(stage)->lists.kv_heads;
    stage->info.entries = kvc_cache_most(&stage->session->cache, layer);
    stage->info.held = stage->session->held[layer];
    stage->info.acting = stage->use ? stage->use->context[layer] : layer;
    stage->queries = 0;
    stage->score_count = 0;
    stage->evicted = false;
    return KVC_OK;
}

/* ---- eviction ---- */

static enum kvc_status check_keep(const struct kvc_stage *stage, const struct kvc_keep *rules, uint32_t count,
                                  struct kvc_error *error) {
    if (stage->looks_only)
        return kvc_fail(error, KVC_USAGE, "policy: entries are to be kept by a method that only observes the prompt");
    for (uint32_t h = 0; h < count; h++)
        if ((rules[h].top || rules[h].fill) && !rules[0].scores)
            return kvc_fail(error, KVC_USAGE, "policy: entries are to be kept by score, but there are no scores");
    if (rules[0].scores && stage->evicted)
        return kvc_fail(error, KVC_USAGE, "policy: entries are to be kept by scores from before an eviction");
    return KVC_OK;
}

/* Room for the ranks of every head, in whole tiles. */
static enum kvc_status reserve_kept(struct kvc_stage *stage, struct kvc_read_list *kept, struct kvc_error *error) {
    struct kvc_runner *runner = stage->session->runner;
    const uint32_t heads = stage->info.kv_heads;
    const uint32_t stride = (uint32_t)((stage->info.entries + KVC_TILE - 1) / KVC_TILE * KVC_TILE);
    enum kvc_status status =
        kvc_growable_reserve(runner->device, &runner->kept_rank, (size_t)stride * heads * sizeof(uint32_t), error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(runner->device, &runner->kept_count, heads * sizeof(uint32_t), error);
    *kept = (struct kvc_read_list){runner->kept_count.buffer, runner->kept_rank.buffer, stride};
    return status;
}

static enum kvc_status evict(struct kvc_stage *stage, const struct kvc_read_list *kept, struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    struct kvc_device *device = session->runner->device;
    enum kvc_status status = kvc_cache_make_order(&session->cache, stage->layer, error);
    if (status != KVC_OK)
        return status;
    device->ops->evict(device, &(struct kvc_evict){.lists = &kvc_stage_lists(stage)->lists, .kept = kept});
    kvc_cache_evicted(&session->cache, stage->layer, session->in_prompt ? none : session->counts);
    kvc_select_evicted(session, stage->layer, kept);
    session->touched[stage->layer] = true;
    stage->evicted = true;
    stage->info.entries = kvc_cache_most(&session->cache, stage->layer);
    return kvc_cache_positions_renew(session, stage->layer, error);
}

static void apply_rules(struct kvc_stage *stage, const struct kvc_keep *rules, uint32_t count,
                        struct kvc_read_list *kept) {
    struct kvc_device *device = stage->session->runner->device;
    const struct kvc_scores *scores = rules->scores, *ties = rules->ties;
    device->ops->keep(device, &(struct kvc_keep_rules){.lists = &kvc_stage_lists(stage)->lists,
                                                       .rules = rules,
                                                       .rule_count = count,
                                                       .scores = scores ? scores->span : none,
                                                       .ties = ties ? ties->span : none,
                                                       .stride = scores ? scores->stride : 0,
                                                       .kept = kept});
}

static enum kvc_status keep_by(struct kvc_stage *stage, const struct kvc_keep *rules, uint32_t count,
                               struct kvc_error *error) {
    struct kvc_read_list kept;
    enum kvc_status status = check_keep(stage, rules, count, error);
    if (status == KVC_OK)
        status = reserve_kept(stage, &kept, error);
    if (status != KVC_OK)
        return status;
    apply_rules(stage, rules, count, &kept);
    stage->session->runner->kept_stride = kept.stride;
    return evict(stage, &kept, error);
}

enum kvc_status kvc_stage_keep(struct kvc_stage *stage, const struct kvc_keep *rule, struct kvc_error *error) {
    return keep_by(stage, rule, 1, error);
}

enum kvc_status kvc_stage_keep_heads(struct kvc_stage *stage, const struct kvc_keep *rules, struct kvc_error *error) {
    return keep_by(stage, rules, stage->info.kv_heads, error);
}

enum kvc_status kvc_stage_keep_ring(struct kvc_stage *stage, const struct kvc_keep *rule, uint32_t first, uint32_t rows,
                                    uint32_t filled, uint32_t sums, struct kvc_error *error) {
    struct kvc_device *device = stage->session->runner->device;
    struct kvc_scores *fused;
    struct kvc_read_list kept;
    struct kvc_ring ring = {rows ? first : 0, rows, sums, (int64_t)stage->info.now};
    enum kvc_status status = kvc_stage_scores(stage, &fused, error);
    if (status == KVC_OK && (!device->ops->keep_ring || filled < rows)) {
        struct kvc_keep by = *rule;
        *(rule->scores ? &by.ties : &by.scores) = fused;
        status =
            kvc_stage_ring_fuse(stage, first, rows, filled, KVC_ROW_WEIGHTS, KVC_FUSE_SUM, rule->recent, fused, error);
        return status == KVC_OK ? kvc_stage_keep(stage, &by, error) : status;
    }
    if (status == KVC_OK)
        status = kvc_stage_columns(stage, first, rows, &ring.first, error);
    if (status == KVC_OK && sums != UINT32_MAX)
        status = kvc_stage_columns(stage, sums, kvc_ring_blocks(rows), &ring.sums, error);
    if (status == KVC_OK)
        status = reserve_kept(stage, &kept, error);
    if (status != KVC_OK)
        return status;
    device->ops->keep_ring(device, &(struct kvc_keep_ring){.lists = &kvc_stage_lists(stage)->lists,
                                                           .rule = rule,
                                                           .ring = &ring,
                                                           .scores = rule->scores ? rule->scores->span : none,
                                                           .fused = fused->span,
                                                           .stride = fused->stride,
                                                           .kept = &kept});
    stage->session->runner->kept_stride = kept.stride;
    return evict(stage, &kept, error);
}

enum kvc_status kvc_stage_keep_ranks(struct kvc_stage *stage, const uint32_t *ranks, uint32_t count,
                                     struct kvc_error *error) {
    struct kvc_device *device = stage->session->runner->device;
    const struct kvc_keep nothing = {.recent = INT64_MAX};
    const uint32_t heads = stage->info.kv_heads;
    struct kvc_read_list kept;
    enum kvc_status status = check_keep(stage, &nothing, 1, error);
    kvc_cache_catch_up(&stage->session->cache, stage->layer);
    for (uint32_t h = 0; h < heads && status == KVC_OK; h++)
        if (count > 0 && ranks[count - 1] >= kvc_stage_lists(stage)->count[h])
            status = kvc_fail(error, KVC_USAGE, "policy: rank %u is to be kept of a head with %u entries",
                              ranks[count - 1], kvc_stage_lists(stage)->count[h]);
    for (uint32_t i = 1; i < count && status == KVC_OK; i++)
        if (ranks[i] <= ranks[i - 1])
            status = kvc_fail(error, KVC_USAGE, "policy: ranks to be kept must ascend");
    if (status == KVC_OK)
        status = reserve_kept(stage, &kept, error);
    if (status != KVC_OK)
        return status;
    for (uint32_t h = 0; h < heads; h++) {
        device->ops->upload(device, (struct kvc_span){kept.count, h * sizeof count}, &count, sizeof count);
        if (count)
            device->ops->upload(device, (struct kvc_span){kept.rank, (size_t)h * kept.stride * sizeof *ranks}, ranks,
                                count * sizeof *ranks);
    }
    stage->session->runner->kept_stride = kept.stride;
    return evict(stage, &kept, error);
}

/* Ranks of the entries of one head that stand at some positions; both ascend. */
static uint32_t ranks_at(const int32_t *held, size_t held_count, const int32_t *positions, size_t count,
                         uint32_t *ranks) {
    uint32_t n = 0;
    for (size_t i = 0, r = 0; i < count && r < held_count; r++) {
        while (i < count && positions[i] < held[r])
            i++;
        if (i < count && positions[i] == held[r])
            ranks[n++] = (uint32_t)r;
    }
    return n;
}

enum kvc_status kvc_stage_keep_positions(struct kvc_stage *stage, const int32_t *const *positions, const size_t *counts,
                                         struct kvc_error *error) {
    struct kvc_device *device = stage->session->runner->device;
    const struct kvc_keep nothing = {.recent = INT64_MAX};
    const size_t most = stage->info.entries;
    int32_t *held = malloc(most * sizeof *held + 1);
    uint32_t *ranks = malloc(most * sizeof *ranks + 1);
    struct kvc_read_list kept;
    enum kvc_status status = held && ranks ? check_keep(stage, &nothing, 1, error)
                                           : kvc_fail(error, KVC_RESOURCE, "policy: no memory for %zu positions", most);
    if (status == KVC_OK)
        status = reserve_kept(stage, &kept, error);
    for (uint32_t h = 0; h < stage->info.kv_heads && status == KVC_OK; h++) {
        size_t count = 0;
        status = kvc_stage_read_positions(stage, h, held, most, &count, error);
        if (status != KVC_OK)
            break;
        const uint32_t n = ranks_at(held, count, positions[h], counts[h], ranks);
        device->ops->upload(device, (struct kvc_span){kept.count, h * sizeof n}, &n, sizeof n);
        if (n)
            device->ops->upload(device, (struct kvc_span){kept.rank, (size_t)h * kept.stride * sizeof *ranks}, ranks,
                                n * sizeof *ranks);
    }
    free(held);
    free(ranks);
    return status == KVC_OK ? evict(stage, &kept, error) : status;
}

enum kvc_status kvc_stage_keep_again(struct kvc_stage *stage, struct kvc_error *error) {
    struct kvc_runner *runner = stage->session->runner;
    const struct kvc_keep nothing = {.recent = INT64_MAX};
    const enum kvc_status status = check_keep(stage, &nothing, 1, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_read_list kept = {runner->kept_count.buffer, runner->kept_rank.buffer, runner->kept_stride};
    return evict(stage, &kept, error);
}

/* ---- what is kept by a plan ---- */

enum kvc_status kvc_stage_plan(struct kvc_stage *stage, uint32_t head, const uint32_t *ranks, uint32_t count,
                               struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    struct kvc_device *device = session->runner->device;
    struct kvc_planned *planned = &session->planned[stage->layer];
    const size_t words = stage->info.kv_heads * sizeof(uint32_t);
    if (head >= stage->info.kv_heads || count > stage->info.entries)
        return kvc_fail(error, KVC_USAGE, "policy: a plan of %u ranks for head %u: at most %llu of head 0 to %u", count,
                        head, (unsigned long long)stage->info.entries, stage->info.kv_heads - 1);
    for (uint32_t i = 0; i < count; i++)
        if (ranks[i] >= stage->info.entries || (i > 0 && ranks[i] <= ranks[i - 1]))
            return kvc_fail(error, KVC_USAGE, "policy: planned ranks must ascend, up to %llu",
                            (unsigned long long)stage->info.entries - 1);
    planned->rank.kind = planned->count.kind = KVC_MEMORY_SCRATCH;
    planned->stride = (uint32_t)((stage->info.entries + KVC_TILE - 1) / KVC_TILE * KVC_TILE);
    enum kvc_status status = kvc_growable_reserve(device, &planned->rank, words * planned->stride, error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(device, &planned->count, words, error);
    if (status != KVC_OK)
        return status;
    device->ops->upload(device, kvc_growable_at(&planned->count, head * sizeof count), &count, sizeof count);
    if (count)
        device->ops->upload(device, kvc_growable_at(&planned->rank, (size_t)head * planned->stride * sizeof *ranks),
                            ranks, count * sizeof *ranks);
    return KVC_OK;
}

void kvc_stage_forget_plan(struct kvc_session *session, uint32_t layer) {
    kvc_growable_free(session->runner->device, &session->planned[layer].rank);
    kvc_growable_free(session->runner->device, &session->planned[layer].count);
}

enum kvc_status kvc_stage_keep_planned(struct kvc_stage *stage, struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    const struct kvc_planned *planned = &session->planned[stage->layer];
    const struct kvc_keep nothing = {.recent = INT64_MAX};
    enum kvc_status status = check_keep(stage, &nothing, 1, error);
    if (status == KVC_OK && (!planned->rank.buffer || stage->evicted))
        status = kvc_fail(error, KVC_USAGE, "policy: a plan is to be kept by, but none was made for this");
    if (status != KVC_OK)
        return status;
    const struct kvc_read_list kept = {planned->count.buffer, planned->rank.buffer, planned->stride};
    status = evict(stage, &kept, error);
    if (session->in_prompt) /* as long as the prompt */
        kvc_stage_forget_plan(session, stage->layer);
    return status;
}

enum kvc_status kvc_stage_shares(struct kvc_stage *stage, const struct kvc_scores *scores, uint64_t tail,
                                 uint64_t slots, uint32_t *shares, struct kvc_error *error) {
    struct kvc_runner *runner = stage->session->runner;
    struct kvc_device *device = runner->device;
    const size_t bytes = stage->info.kv_heads * sizeof *shares;
    if (stage->evicted || scores->heads != stage->info.kv_heads)
        return kvc_fail(error, KVC_USAGE, "policy: shares go by scores per list, from before an eviction");
    const enum kvc_status status = kvc_growable_reserve(device, &runner->totals, bytes, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_span at = kvc_growable_at(&runner->totals, 0);
    device->ops->shares(device, &(struct kvc_shares){.lists = &kvc_stage_lists(stage)->lists,
                                                     .scores = scores->span,
                                                     .stride = scores->stride,
                                                     .tail = tail,
                                                     .slots = slots,
                                                     .shares = at});
    device->ops->download(device, shares, at, bytes);
    return KVC_OK;
}

enum kvc_status kvc_stage_view(struct kvc_stage *stage, const struct kvc_keep *rule, struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    struct kvc_device *device = session->runner->device;
    struct kvc_select_layer *select = &session->select[stage->layer];
    enum kvc_status status = check_keep(stage, rule, 1, error);
    kvc_select_drop_view(session, stage->layer);
    if (status == KVC_OK) /* as large as if everything were chosen */
        status = kvc_select_reserve(session, stage->layer, error);
    if (status != KVC_OK)
        return status;
    apply_rules(stage, rule, 1, &select->view);
    device->ops->download(device, select->view_count, (struct kvc_span){select->view.count, 0},
                          stage->info.kv_heads * sizeof(uint32_t));
    return KVC_OK;
}

/* ---- rows that go on ---- */

enum kvc_status kvc_stage_go_on(struct kvc_stage *stage, const uint32_t *rows, uint32_t count,
                                struct kvc_error *error) {
    struct kvc_session *session = stage->session;
    const uint64_t had = stage->info.turn;
    bool good = count > 0 && count <= had && rows[count - 1] == had - 1;
    for (uint32_t i = 1; i < count && good; i++)
        good = rows[i] > rows[i - 1];
    if (!good)
        return kvc_fail(error, KVC_USAGE,
                        "policy: %u rows are to go on: must be some of the turn's %llu, ascending, the "
                        "last among them",
                        count, (unsigned long long)had);
    if (count == had || stage->layer + 1 == session->cache.layers) /* above the last layer there is none */
        return KVC_OK;
    uint32_t *kept_rows = malloc(count * sizeof *kept_rows);
    if (!kept_rows)
        return kvc_fail(error, KVC_RESOURCE, "policy: no memory for %u rows", count);
    for (uint32_t i = 0; i < count; i++)
        kept_rows[i] = session->kept_rows ? session->kept_rows[rows[i]] : rows[i];
    free(session->next_kept_rows);
    session->next_kept_rows = kept_rows;
    session->next_rows = count;
    return KVC_OK;
}

/* ---- running the methods of a policy ---- */

typedef enum kvc_status stage_fn(struct kvc_stage *, const struct kvc_values *, struct kvc_error *);

struct kvc_stage kvc_stage_make(struct kvc_session *session, uint32_t layer) {
    const struct kvc_geometry *g = &session->runner->geometry;
    const uint64_t rows = session->kept_rows ? session->kept_row_count : session->turn;
    const uint64_t in = session->in_prompt ? session->chunking.chunk && !session->last_chunk
                                                 ? (uint64_t)session->chunk_from + session->chunk_rows
                                                 : session->turn
                                           : 1;
    return (struct kvc_stage){.info = {.layer = layer,
                                       .layers = g->layers,
                                       .heads = g->heads,
                                       .kv_heads = session->cache.layer[layer].lists.kv_heads,
                                       .head_size = g->head_size,
                                       .turn = rows,
                                       .turn_tokens = session->turn,
                                       .held = session->held[layer],
                                       .after = session->in_prompt ? 0 : session->after[layer],
                                       .now = session->tokens + in,
                                       .step = session->in_prompt ? 0 : session->step,
                                       .expected = session->expected,
                                       .seed = session->seed,
                                       .last_chunk = session->last_chunk},
                              .session = session,
                              .layer = layer};
}

/* A stage as method i of the policy sees it. */
static struct kvc_stage stage_of(const struct kvc_stage *defaults, size_t i) {
    const struct kvc_method *method = &defaults->session->policy->method[i];
    struct kvc_stage stage = *defaults;
    stage.use = &stage.session->use[i];
    stage.user = method->policy->user;
    stage.info.acting = stage.use->context[stage.layer];
    stage.info.actings = stage.use->count;
    stage.info.owns_prompt = method->stages & KVC_STAGE_PROMPT;
    stage.info.owns_decode = method->stages & KVC_STAGE_DECODE;
    stage.info.entries = kvc_cache_most(&stage.session->cache, stage.layer);
    return stage;
}

static enum kvc_status run_method(struct kvc_stage *defaults, size_t i, stage_fn *run, bool looks_only,
                                  struct kvc_error *error) {
    const struct kvc_method *method = &defaults->session->policy->method[i];
    struct kvc_stage stage = stage_of(defaults, i);
    struct kvc_error cause = {KVC_OK, ""};
    stage.looks_only = looks_only;
    const enum kvc_status status = run(&stage, &method->values, &cause);
    defaults->chosen = stage.chosen;
    defaults->chose = stage.chose;
    defaults->mean_value = stage.mean_value;
    if (status == KVC_OK)
        return KVC_OK;
    return kvc_fail(error, status, "policy %s, layer %u: %s", method->policy->name, defaults->layer, cause.text);
}

/* A function of every method that has it. */
static enum kvc_status run_observers(struct kvc_stage *stage, size_t member, struct kvc_error *error) {
    const struct kvc_policy *policy = stage->session->policy;
    enum kvc_status status = KVC_OK;
    for (size_t i = 0; i < policy->count && status == KVC_OK; i++) {
        stage_fn *run;
        memcpy(&run, (const char *)policy->method[i].policy + member, sizeof run);
        if (run && stage->session->use[i].acts[stage->layer])
            status = run_method(stage, i, run, true, error);
    }
    return status;
}

/* The function of the stage's holder. */
static enum kvc_status run_holder(struct kvc_stage *stage, enum kvc_stage_kind kind, size_t member, bool looks_only,
                                  struct kvc_error *error) {
    const struct kvc_policy *policy = stage->session->policy;
    for (size_t i = 0; i < policy->count; i++) {
        if (!(policy->method[i].stages & (unsigned)kind))
            continue;
        stage_fn *run;
        memcpy(&run, (const char *)policy->method[i].policy + member, sizeof run);
        return stage->session->use[i].acts[stage->layer] ? run_method(stage, i, run, looks_only, error) : KVC_OK;
    }
    return KVC_OK;
}

#define MEMBER(name) offsetof(struct kvc_policy_class, name)

enum kvc_status kvc_stage_run_attended(struct kvc_stage *stage, struct kvc_error *error) {
    return run_observers(stage, MEMBER(attended), error);
}

enum kvc_status kvc_stage_run_chunk(struct kvc_stage *stage, struct kvc_error *error) {
    return run_holder(stage, KVC_STAGE_CHUNK, MEMBER(chunk), false, error);
}

enum kvc_status kvc_stage_run_prompt(struct kvc_stage *stage, struct kvc_error *error) {
    /* lookers first, and what decides which rows go on: they must see the entries that the stage's holder will evict */
    enum kvc_status status = run_observers(stage, MEMBER(observe_prompt), error);
    if (status == KVC_OK)
        status = run_holder(stage, KVC_STAGE_PROPAGATE, MEMBER(propagate), true, error);
    return status == KVC_OK ? run_holder(stage, KVC_STAGE_PROMPT, MEMBER(prompt), false, error) : status;
}

static enum kvc_status select_by_sizes(struct kvc_stage *stage, const struct kvc_values *values,
                                       struct kvc_error *error) {
    const struct kvc_select select = values->policy->sizes(values, &stage->info);
    return kvc_stage_select(stage, &select, error);
}

enum kvc_status kvc_stage_run_select(struct kvc_stage *stage, struct kvc_error *error) {
    const struct kvc_policy *policy = stage->session->policy;
    for (size_t i = 0; i < policy->count; i++) {
        const struct kvc_policy_class *class = policy->method[i].policy;
        if ((policy->method[i].stages & KVC_STAGE_SELECT) && stage->session->use[i].acts[stage->layer])
            return run_method(stage, i, class->select ? class->select : select_by_sizes, true, error);
    }
    return KVC_OK;
}

enum kvc_status kvc_stage_run_decode(struct kvc_stage *stage, struct kvc_error *error) {
    return run_holder(stage, KVC_STAGE_DECODE, MEMBER(decode), false, error);
}

/* ---- before a decode step ---- */

#define ARRAYS 2u /* of scores: no method's decode stage takes more */

/* Room for the scores and lists of a decode stage. */
static enum kvc_status reserve_decode(struct kvc_stage *stage, struct kvc_error *error) {
    struct kvc_read_list kept;
    struct kvc_scores *scores;
    enum kvc_status status = reserve_kept(stage, &kept, error);
    for (unsigned i = 0; i < ARRAYS && status == KVC_OK; i++)
        status = kvc_stage_scores(stage, &scores, error);
    stage->score_count = 0;
    return status;
}

/* Whether the step may be the layer's first that evicts: by the method's own formulas. */
static bool may_evict(const struct kvc_session *session, uint32_t layer, uint64_t entries) {
    struct kvc_method_layer at = kvc_policy_method_at(session->policy, KVC_STAGE_DECODE, layer,
                                                      &session->runner->geometry, &session->cache.format);
    const uint64_t held = session->held[layer];
    if (session->planned[layer].nothing_goes)
        return false;
    if (at.method->policy->bound && entries <= at.method->policy->bound(&at.method->values, held, 0))
        return false;
    at.context.from = entries > session->step ? (double)(entries - session->step) : 0;
    return kvc_policy_entries(&at, false, held, session->step) < (double)entries;
}

enum kvc_status kvc_stage_prepare(struct kvc_session *session, uint32_t layer, struct kvc_error *error) {
    const struct kvc_policy *policy = session->policy;
    const struct kvc_stage defaults = kvc_stage_make(session, layer);
    enum kvc_status status = KVC_OK;
    uint32_t places = session->select[layer].view.stride;
    for (size_t i = 0; i < policy->count && status == KVC_OK; i++) {
        const struct kvc_method *method = &policy->method[i];
        const struct kvc_policy_class *class = method->policy;
        struct kvc_stage stage = stage_of(&defaults, i);
        if (!stage.use->acts[layer])
            continue;
        stage.info.entries++; /* the step's */
        stage.looks_only = true;
        if ((method->stages & KVC_STAGE_SELECT) && !class->select) {
            const struct kvc_select select = class->sizes(&method->values, &stage.info);
            status = kvc_select_prepare(session, layer, &select, &places, error);
        }
        if (!(method->stages & KVC_STAGE_DECODE) || !class->decode)
            continue;
        if (status == KVC_OK)
            status = reserve_decode(&stage, error);
        if (status == KVC_OK && !session->cache.layer[layer].lists.order &&
            may_evict(session, layer, stage.info.entries))
            status = kvc_cache_make_order(&session->cache, layer, error);
        if (status == KVC_OK && class->plan)
            status = class->plan(&stage, &method->values, error);
    }
    const struct kvc_ops *ops = session->runner->device->ops;
    if (status != KVC_OK || !ops->prepare)
        return status;
    const struct kvc_geometry *g = &session->runner->geometry;
    const struct kvc_step_shape shape = {.lists = &session->cache.layer[layer].lists,
                                         .heads = g->heads,
                                         .head_size = g->head_size,
                                         .places = places,
                                         .rotates = kvc_policy_cache_positions(policy, layer) != NULL};
    return ops->prepare(session->runner->device, &shape, error);
}
