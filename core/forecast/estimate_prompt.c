/* estimate_prompt.c - counts the memory of a prompt's passes in a ledger (ledger.h), in the order of prompt.c. */
#include "core/engine/cache.h"
#include "core/forecast/estimate.h"

#include <math.h>
#include <string.h>

/* Returns the number of rows that a method adds after the prompt and stores temporarily. */
static uint64_t pseudo_rows(const struct kvc_policy *policy, const struct kvc_method_use *use, uint64_t prompt) {
    const struct kvc_method *method = kvc_policy_owner(policy, KVC_STAGE_PROMPT);
    int32_t offset;
    if (!method || !method->policy->pseudo)
        return 0;
    const struct kvc_turn turn = {.count = prompt, .held = prompt, .state = use[method - policy->method].state};
    return method->policy->pseudo(&method->values, &turn, &offset, NULL);
}

/* Evicts from the layers that the prompt has already passed, until these layers together hold at most the total for
 * all layers. The model's activations decide how this total is divided among the layers. */
static void thin_layers(struct kvc_estimator *e, uint32_t l, const struct kvc_method_layer *at, double mean) {
    struct kvc_ledger *ledger = &e->ledger;
    const bool by_head = kvc_method_forecast(at->method)->ragged == KVC_RAGGED_MODEL;
    /* room for expired entries */
    const uint64_t so_far = at->context.acting + 1, slack = e->windows ? KVC_TILE * so_far : 0;
    const uint64_t all = (uint64_t)(mean * at->context.actings + 0.999);
    const uint64_t held = ledger->layer[l].count[0];
    /* must precede the return: the lists are uneven even if another method has left at most `mean` entries */
    e->uneven = e->uneven || mean < (double)kvc_max_u64(kvc_estimator_prompt(e, l), held);
    if (mean >= (double)held)
        return;
    for (uint32_t i = 0; i <= l; i++) {
        struct kvc_ledger_layer *layer = &ledger->layer[i];
        if (!kvc_method_acts(at->method, i))
            continue;
        kvc_ledger_order(ledger, i);
        layer->touched = layer->by_layer = layer->thinned = true;
        const uint64_t lists = by_head ? layer->heads : 1;
        layer->members = so_far * lists;
        layer->pool = (all + slack) * lists;
        layer->count[0] = kvc_min_u64(all / so_far, layer->count[0]);
    }
    const uint64_t tables = kvc_ledger_arrays(&ledger->layer[l], ledger->layer[l].slots);
    /* the old and the new tables of the layer that shrinks first exist at the same time */
    kvc_ledger_state(ledger, &ledger->layer[l], tables, tables);
}

static void note_counts(const struct kvc_estimator *e, uint32_t l, double counts[2]) {
    for (int whole = 0; whole < 2; whole++)
        counts[whole] = (double)kvc_estimator_seen(e, l, e->ledger.layer[l].count[whole]);
}

/* Notes that another method has evicted entries on which this method relies. */
static void note_stale(struct kvc_estimator *e, uint32_t l, const struct kvc_method *method) {
    if (kvc_method_forecast(method)->follows && e->ledger.layer[l].count[0] < kvc_estimator_prompt(e, l))
        e->uneven = true;
}

/* Notes that a method may evict any number of entries. The estimate assumes that the method evicts none, but counts
 * the tables that an eviction makes. */
static void note_any(struct kvc_estimator *e, uint32_t l, const struct kvc_method *method) {
    struct kvc_ledger_layer *layer = &e->ledger.layer[l];
    if (kvc_method_forecast(method)->ragged != KVC_RAGGED_ANY)
        return;
    kvc_ledger_order(&e->ledger, l);
    layer->touched = layer->thinned = e->uneven = true;
    layer->members = layer->heads;
    layer->pool = layer->lists[0] * layer->count[0] + layer->lists[1] * layer->count[1];
}

static void thin_after_prompt(struct kvc_estimator *e, uint32_t l) {
    struct kvc_method_layer at = kvc_estimator_method(e, KVC_STAGE_PROMPT, l);
    const struct kvc_method *decode_method = kvc_estimator_method(e, KVC_STAGE_DECODE, l).method;
    struct kvc_ledger_layer *layer = &e->ledger.layer[l];
    double kept[2];
    const double all[2] = {INFINITY, INFINITY};
    note_stale(e, l, at.method);
    kvc_estimator_clear(e, l, all); /* no effect unless entries of the layer were evicted before */
    note_counts(e, l, e->from[l]);
    at.context.prompts = true;
    if (at.method) {
        kvc_estimator_kept(e, &at, e->from[l], 0, kept);
        kvc_estimator_clear(e, l, kept);
    }
    if (at.method && kvc_shared_by_layers(at.method)) {
        thin_layers(e, l, &at, kept[0]);
    } else if (at.method && kvc_estimator_thin(e, l, kept) &&
               kvc_method_forecast(at.method)->ragged == KVC_RAGGED_HEADS) {
        layer->members = layer->heads;
        layer->pool = layer->lists[0] * layer->count[0] + layer->lists[1] * layer->count[1];
        layer->pool += layer->members / 2 + 1; /* rounding may add up to half an entry to each head */
        e->uneven = true;
    }
    note_any(e, l, at.method);
    if (decode_method == at.method)
        return;
    note_any(e, l, decode_method);
    note_counts(e, l, e->from[l]);
    note_stale(e, l, decode_method);
}

/* Computes, once for the whole prompt, how many entries of each layer the chunk stage keeps. */
static void plan_chunks(struct kvc_estimator *e) {
    for (uint32_t l = 0; l < e->g->layers; l++) {
        struct kvc_method_layer at = kvc_estimator_method(e, KVC_STAGE_CHUNK, l);
        struct kvc_chunk_forecast *plan = &e->chunks[l];
        plan->decider = kvc_policy_decider(e->policy, l, e->g, &e->format);
        if (!at.method)
            continue;
        const struct kvc_forecast *forecast = kvc_method_forecast(at.method);
        plan->acts = true;
        kvc_estimator_kept(e, &at, (double[]){(double)e->prompt, (double)e->prompt}, 0, plan->last);
        memcpy(plan->between, plan->last, sizeof plan->between);
        if (forecast->between)
            plan->between[0] = plan->between[1] = (double)forecast->between(&at.values, &at.context, e->prompt);
    }
}

/* Returns true if the chunk stage of layer l chooses for a lower layer that sees more than layer l itself. */
static bool decides(const struct kvc_estimator *e, uint32_t l) {
    const uint32_t window = kvc_estimator_window(e, l);
    for (uint32_t i = 0; i < l && window; i++) {
        const uint32_t other = kvc_estimator_window(e, i);
        if ((!other || other > window) && e->chunks[i].acts && e->chunks[i].decider == l)
            return true;
    }
    return false;
}

/* Evicts from layer i the positions that layer l has not chosen. */
static void thin_below(struct kvc_estimator *e, uint32_t i, uint32_t l) {
    kvc_ledger_order(&e->ledger, i);
    e->ledger.layer[i].touched = e->ledger.layer[i].thinned = true;
    /* if the windows differ, layer i may hold only some of the chosen positions */
    e->uneven = e->uneven || kvc_estimator_window(e, i) != kvc_estimator_window(e, l);
}

/* Evicts after a chunk has passed layer l. The chunk stage of layer l chooses for the layer itself and may choose for
 * lower layers. */
static void thin_after_chunk(struct kvc_estimator *e, uint32_t l, bool last) {
    const bool alone = !decides(e, l);
    const double chosen = last ? e->chunks[l].last[0] : e->chunks[l].between[0];
    const uint64_t held = e->ledger.layer[l].count[0];
    const bool chooses = e->chunks[l].acts && chosen < (double)(alone ? kvc_estimator_seen(e, l, held) : held);
    for (uint32_t i = 0; i <= l; i++) {
        const double *kept = last ? e->chunks[i].last : e->chunks[i].between;
        if (!e->chunks[i].acts || e->chunks[i].decider != l)
            continue;
        if (chooses && (!alone || kvc_estimator_window(e, i) != kvc_estimator_window(e, l)))
            thin_below(e, i, l);
        else if (alone)
            kvc_estimator_clear(e, i, kept);
        kvc_estimator_thin(e, i, kept);
    }
    /* Lists of the layers that may hold fewer entries than estimated may shrink. Old and new tables of such a layer
     * then exist at the same time, next to the tables and orders of all other layers. */
    for (uint32_t i = 0; i <= l; i++) {
        const uint64_t tables = kvc_ledger_arrays(&e->ledger.layer[i], e->ledger.layer[i].slots);
        if (chooses && e->uneven && e->chunks[i].acts && e->chunks[i].decider == l)
            kvc_ledger_state(&e->ledger, &e->ledger.layer[i], tables, tables);
    }
}

static void make_view(struct kvc_estimator *e, uint32_t l) {
    const struct kvc_method_layer at = kvc_estimator_method(e, KVC_STAGE_PROMPT, l);
    const struct kvc_ledger_layer *layer = &e->ledger.layer[l];
    const struct kvc_forecast *forecast = kvc_method_forecast(at.method);
    if (!forecast->seen)
        return;
    const uint64_t seen = forecast->seen(&at.values, kvc_estimator_prompt(e, l));
    if (seen >= kvc_estimator_seen(e, l, layer->count[0]))
        return;
    kvc_estimator_clear(e, l, (const double[]){(double)seen, (double)seen});
    const uint64_t held = layer->count[0];
    e->view[l] = seen;
    e->indices[l] = kvc_whole_tiles(held + 1);
    kvc_ledger_state(&e->ledger, layer, 4ull * layer->heads * (1 + e->indices[l]), 0);
}

static void end_prompt(struct kvc_estimator *e, uint32_t l) {
    e->ledger.layer[l].step_most = kvc_policy_step_most(e->policy, l, e->g, &e->format, kvc_estimator_prompt(e, l));
    thin_after_prompt(e, l);
    make_view(e, l);
    e->after[l] = kvc_estimator_seen(e, l, kvc_longest_count(&e->ledger.layer[l]));
    for (uint32_t i = 0; i <= l; i++)
        if (e->ledger.layer[i].touched) {
            e->ledger.layer[i].touched = false;
            kvc_ledger_shrink(&e->ledger, i, kvc_policy_surplus(e->policy, i), false);
        }
}

/* Evicts expired entries of the layer's sliding window and frees their blocks. */
static void free_expired(struct kvc_estimator *e, uint32_t l) {
    struct kvc_ledger_layer *layer = &e->ledger.layer[l];
    const uint64_t expired = kvc_window_expired(kvc_estimator_window(e, l), kvc_longest_count(layer));
    if (!kvc_estimator_window(e, l))
        return;
    if (layer->thinned)
        kvc_estimator_clear(e, l, (const double[]){INFINITY, INFINITY});
    else if (expired)
        kvc_ledger_order(&e->ledger, l);
    for (int i = 0; i < 2 && !layer->thinned; i++)
        layer->count[i] -= kvc_min_u64(expired, layer->count[i]);
    if (expired || layer->thinned)
        kvc_ledger_shrink(&e->ledger, l, kvc_policy_surplus(e->policy, l), false);
}

/* Runs `rows` more rows of the prompt through a layer, with `pseudo` rows whose entries are dropped again. */
static void pass_layer(struct kvc_estimator *e, uint32_t l, uint64_t rows, uint64_t pseudo, bool chunked, bool last) {
    kvc_ledger_reserve(&e->ledger, l, rows + pseudo);
    if (!chunked && rows < e->prompt) { /* after token pruning, an index no longer implies a position */
        e->ledger.layer[l].thinned = true;
        kvc_ledger_order(&e->ledger, l);
    }
    kvc_estimator_append(e, l, rows);
    e->ledger.layer[l].touched = e->ledger.layer[l].touched || pseudo > 0;
    if (chunked)
        thin_after_chunk(e, l, last);
    while (last && e->ended <= l && e->chunks[e->ended].decider <= l)
        end_prompt(e, e->ended++);
    if (last || !decides(e, l))
        free_expired(e, l);
}

#define ALIKE 64u    /* passes that are counted one by one although all passes are alike */
#define PASSES 4096u /* most passes that are counted one by one while lists grow */

/* Returns the number of rows after which the lists no longer grow, except in layers that keep everything. The chunk
 * stage or the sliding window then limits them. */
static uint64_t rows_of_growth(const struct kvc_estimator *e) {
    uint64_t rows = 0;
    for (uint32_t l = 0; l < e->g->layers; l++) {
        const uint32_t window = kvc_estimator_window(e, l);
        if (window)
            rows = kvc_max_u64(rows, (uint64_t)window + KVC_TILE);
        if (e->chunks[l].acts && e->chunks[l].between[0] < (double)e->prompt)
            rows = kvc_max_u64(rows, (uint64_t)e->chunks[l].between[0]);
    }
    return rows;
}

/* Counts passes at once. They have `skipped` rows, a multiple of the chunk. */
static void skip_passes(struct kvc_estimator *e, uint64_t skipped) {
    for (uint32_t l = 0; l < e->g->layers; l++) {
        e->ledger.layer[l].count[0] += skipped;
        e->ledger.layer[l].count[1] += skipped;
        thin_after_chunk(e, l, false);
        if (!decides(e, l))
            free_expired(e, l);
    }
}

/* Each pass is counted by itself while lists grow, because old and new tables exist at the same time when a list grows
 * by a block. After that, all passes are alike; with windows, they are alike again after KVC_TILE passes. Of these,
 * only some are counted by themselves, and the last ones, in which lists that keep everything get their last blocks. */
void kvc_estimate_prompt(struct kvc_estimator *e) {
    struct kvc_chunking chunking;
    const bool chunked = kvc_policy_chunking(e->policy, &chunking);
    const uint64_t pseudo = pseudo_rows(e->policy, e->use, e->prompt), N = e->prompt;
    const uint64_t chunk = chunked ? kvc_min_u64(chunking.chunk, N) : N;
    const uint64_t probes = chunked && chunking.together && !chunking.own ? kvc_min_u64(chunking.probe, N) : 0;
    const uint64_t tail = (KVC_BLOCK / chunk + 2) * chunk;
    uint32_t passes = 0, alike = 0;
    plan_chunks(e);
    const uint64_t growth = rows_of_growth(e);
    for (uint64_t from = 0; from < N;) {
        const uint64_t rows = kvc_min_u64(N - from, chunk);
        const bool last = from + rows == N;
        for (uint32_t l = 0; l < e->g->layers; l++)
            pass_layer(e, l, chunked ? rows : kvc_policy_rows(e->policy, l, e->g, &e->format, N),
                       last ? pseudo : probes, chunked, last);
        from += rows;
        alike += from > growth;
        if ((alike < (e->windows ? ALIKE + KVC_TILE : ALIKE) && ++passes < PASSES) || N - from < tail + chunk)
            continue;
        const uint64_t skipped = (N - from - tail) / chunk * chunk;
        skip_passes(e, skipped);
        from += skipped;
    }
}
