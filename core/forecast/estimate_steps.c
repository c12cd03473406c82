/* estimate_steps.c - counts the memory of the first and the last decode steps in a ledger (ledger.h), in the order of
 * decode.c and select.c. */
#include "core/forecast/estimate.h"

#include "core/base/assert.h"

#include <stdlib.h>

/* Returns the decode method of a layer, with the context for its formula. */
static struct kvc_method_layer decoder(const struct kvc_estimator *e, uint32_t l) {
    struct kvc_method_layer at = kvc_estimator_method(e, KVC_STAGE_DECODE, l);
    at.context.prompts = at.method == kvc_estimator_method(e, KVC_STAGE_PROMPT, l).method;
    at.context.uneven = e->ledger.layer[l].members > 0;
    return at;
}

/* Returns the length up to which a list keeps its blocks after a step has evicted from it (kvc_cache_shrink), or 0 if
 * the layer's lists have no such length or some of them keep everything. */
static uint64_t blocks_kept_for(const struct kvc_ledger_layer *layer) { return layer->lists[1] ? 0 : layer->step_most; }

/* Evicts in the first step in which the layer's method may evict. If activations decide how long the lists are, the
 * eviction does not reduce the pool: a list with more than B entries is cut to B, but keeps its blocks for S =
 * step_most entries, because it grows to S until the next eviction. So a list that held n entries before t steps has
 * blocks for at most min(n + t, S) entries after them (t >= 1). As this function of n is concave, all `members`
 * together have blocks for at most members * min(mean n + t, S) entries: the pool before the eviction, until it grows
 * to S entries per list (estimate_steps_grow). */
static void estimate_steps_step(struct kvc_estimator *e, uint32_t l, uint64_t steps) {
    struct kvc_method_layer at = decoder(e, l);
    struct kvc_ledger_layer *layer = &e->ledger.layer[l];
    const uint64_t pool = layer->pool;
    double kept[2];
    if (!at.method)
        return;
    kvc_estimator_kept(e, &at, e->from[l], steps, kept);
    kvc_estimator_clear(e, l, kept);
    kvc_estimator_thin(e, l, kept);
    if (blocks_kept_for(layer))
        layer->pool = pool;
}

/* Returns true if lists of a kind lose entries within the first `steps` steps, of which the first `over` are done. */
static bool thinned(const struct kvc_estimator *e, uint32_t l, int whole, uint64_t steps, uint64_t over) {
    struct kvc_method_layer at = decoder(e, l);
    const uint32_t window = kvc_estimator_window(e, l);
    if (window && !e->ledger.layer[l].thinned && /* the last step evicts before it adds its own entry */
        e->ledger.layer[l].count[whole] + steps - over > (uint64_t)window + KVC_TILE - 1)
        return true;
    at.context.from = e->from[l][whole];
    return at.method && e->ledger.layer[l].lists[whole] &&
           kvc_policy_entries(&at, whole == 1, kvc_estimator_prompt(e, l), steps) <
               (double)kvc_estimator_seen(e, l, e->ledger.layer[l].count[whole] + steps - over);
}

/* Returns the number of steps from step `over` to the layer's first eviction. Its lists lose entries within the first
 * `steps` steps. */
static uint64_t first_eviction(const struct kvc_estimator *e, uint32_t l, uint64_t steps, uint64_t over) {
    uint64_t low = over, high = steps;
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (thinned(e, l, 0, middle, over) || thinned(e, l, 1, middle, over))
            high = middle;
        else
            low = middle;
    }
    return high - over;
}

/* Computes what most_held (below) returns for a method that evicts once in `every` > 1 steps. The list is longest in
 * the step of its first eviction or, if there are enough steps, in the `every` steps after that. */
static uint64_t most_between(const struct kvc_estimator *e, uint32_t l, int whole, uint64_t steps, uint64_t over) {
    struct kvc_method_layer at = decoder(e, l);
    const uint64_t first = over + first_eviction(e, l, steps, over);
    const uint64_t last = kvc_min_u64(steps, first + kvc_policy_surplus(e->policy, l));
    uint64_t most = 0;
    at.context.from = e->from[l][whole];
    for (uint64_t t = first; t <= last; t++)
        most = kvc_max_u64(most, (uint64_t)kvc_policy_entries(&at, false, kvc_estimator_prompt(e, l), t - 1) + 1);
    return most;
}

/* Returns the largest number of entries that lists of a kind hold during the first `steps` steps, of which the first
 * `over` are done. */
static uint64_t most_held(const struct kvc_estimator *e, uint32_t l, int whole, uint64_t steps, uint64_t over) {
    struct kvc_method_layer at = decoder(e, l);
    const uint64_t now = e->ledger.layer[l].count[whole], grown = now + steps - over;
    KVC_ASSERT(steps >= over && l < e->g->layers);
    const uint64_t prompt = kvc_estimator_prompt(e, l);
    const uint32_t window = kvc_estimator_window(e, l);
    const struct kvc_forecast *forecast = kvc_method_forecast(at.method);
    uint64_t most = grown;
    if (forecast->whole)
        most = (uint64_t)kvc_policy_entries(&at, whole == 1, prompt, steps) + 1;
    else if (forecast->bound)
        most = forecast->bound(&at.values, prompt, steps);
    const bool equal = e->ledger.layer[l].members == 0 && !window;
    if (forecast->entries && !forecast->whole && equal && steps > over && kvc_policy_surplus(e->policy, l) > 1) {
        most = most_between(e, l, whole, steps, over);
    } else if (forecast->entries && !(whole && forecast->whole)) {
        at.context.from = e->from[l][whole];               /* `bound` used the mean over the layers; use this layer's
                                                            * entries instead */
        at.context.uneven = at.context.uneven || most > 0; /* makes `entries` return the most so far; if
                                                            * most is 0, `entries` is the bound */
        most = kvc_max_u64(most, (uint64_t)kvc_policy_entries(&at, false, prompt, steps) + 1);
    }
    /* If layers share a pool, `now` is a mean, and lists of this layer may hold almost nothing. They then grow by up to
     * window + KVC_TILE - 1 entries, of which the pool already has room for KVC_TILE (thin_layers). */
    if (window && e->ledger.layer[l].by_layer)
        return kvc_min_u64(grown, now + window);
    if (window && (!e->ledger.layer[l].thinned || most > window)) /* expired entries are evicted 256 at a time */
        most = kvc_max_u64(kvc_min_u64(most, window), (uint64_t)window + KVC_TILE - 1);
    return kvc_min_u64(grown, kvc_max_u64(now, most));
}

/* Counts the indices of a view of n entries. */
static void keep_indices(struct kvc_estimator *e, uint32_t l, uint64_t n) {
    const uint64_t index = 4ull * e->ledger.layer[l].heads;
    if (!e->view[l] || kvc_whole_tiles(n) <= e->indices[l])
        return;
    kvc_ledger_state(&e->ledger, &e->ledger.layer[l], index * kvc_whole_tiles(n), index * e->indices[l]);
    e->indices[l] = kvc_whole_tiles(n);
}

/* Counts the pages and sums that a select method needs once there are more entries than its budget: first for `first`
 * entries, then growing to n. */
static void keep_pages(struct kvc_estimator *e, uint32_t l, uint64_t first, uint64_t n) {
    const struct kvc_method_layer at = kvc_estimator_method(e, KVC_STAGE_SELECT, l);
    const struct kvc_ledger_layer *layer = &e->ledger.layer[l];
    if (!at.method || !at.method->policy->sizes)
        return;
    n = kvc_max_u64(n, first);      /* a decode method evicts after the first step has read */
    if (kvc_estimator_window(e, l)) /* the entries that expire determine how often pages grow; assume the most */
        first = n;
    const struct kvc_stage_info info = {
        .held = kvc_estimator_prompt(e, l), .after = e->after[l], .entries = n, .head_size = e->g->head_size};
    const struct kvc_select select = at.method->policy->sizes(&at.values, &info);
    const uint64_t each = (uint64_t)layer->heads * e->g->head_size, value = (uint64_t)at.context.page_element_bytes;
    const bool paged = select.kind == KVC_SELECT_PAGE_CHANNELS || select.kind == KVC_SELECT_PAGE_BOUND;
    uint64_t bytes = select.mean_value ? each * sizeof(float) : 0;
    if (n <= select.budget)
        return;
    if (select.page) {
        const uint64_t page = paged ? select.page : 1, last = kvc_divide_up(n, page);
        first = kvc_max_u64(first, select.budget + 1);
        uint64_t stride = 0;
        for (uint64_t pages = kvc_divide_up(first, page); stride < last; pages = stride + 1)
            stride = ((pages + pages / 64) / 64 + 1) * 64; /* as core/engine/select.c reserves them */
        bytes += each * stride * value * (paged ? 2 : 1);
    }
    if (bytes > e->pages[l])
        kvc_ledger_state(&e->ledger, &e->ledger.layer[l], bytes - e->pages[l], 0);
    e->pages[l] = kvc_max_u64(e->pages[l], bytes);
}

/* Counts pages in step t, when the layer's longest list holds `most` entries. */
static void keep_pages_in(struct kvc_estimator *e, uint32_t l, uint64_t t, uint64_t most) {
    if (e->view[l])
        keep_pages(e, l, e->view[l] + 1, e->view[l] + t);
    else
        keep_pages(e, l, e->after[l] + 1, e->ledger.layer[l].members ? kvc_estimator_prompt(e, l) + t : most);
}

/* Grows a layer's lists to `most` entries. If `but_last` is true, leaves out the last block of each list. `cut`: the
 * layer's method has had its first chance to evict. */
static void estimate_steps_grow(struct kvc_estimator *e, uint32_t l, const uint64_t most[2], bool but_last, bool cut) {
    struct kvc_ledger_layer *layer = &e->ledger.layer[l];
    const uint64_t limit = cut ? layer->members * blocks_kept_for(layer) : 0;
    for (int i = 0; i < 2; i++) {
        const uint64_t to = but_last && most[i] > KVC_BLOCK ? most[i] - KVC_BLOCK : most[i];
        if (to <= layer->count[i] || !layer->lists[i])
            continue;
        if (layer->step_most > layer->count[i] && layer->step_most < to && !layer->members) {
            layer->count[i] = layer->step_most; /* the list gets an extra slot first, as if it grew no further */
            kvc_ledger_reserve(&e->ledger, l, 0);
        }
        const uint64_t pool = layer->pool + layer->members * (to - layer->count[i]);
        layer->pool = limit ? kvc_max_u64(layer->pool, kvc_min_u64(pool, limit)) : pool;
        layer->count[i] = to;
    }
    kvc_ledger_reserve(&e->ledger, l, 0);
}

/* Compares the times of two events. A step evicts before the next one needs a block. */
static int by_step(const void *a, const void *b) {
    const struct kvc_step_event *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->evicts != y->evicts)
        return x->evicts ? -1 : 1;
    return x->layer < y->layer ? -1 : x->layer > y->layer;
}

/* Counts the indices and pages of a layer after `step` more steps; `over` steps were done before. */
static void keep_step(struct kvc_estimator *e, uint32_t l, uint64_t over, uint64_t step) {
    const uint64_t n = kvc_min_u64(e->now[l] + step, e->most[l][kvc_longest_kind(&e->ledger.layer[l])]);
    keep_indices(e, l, n);
    keep_pages_in(e, l, over + step, n);
}

/* Grows all lists to `most` entries, block by block; `over` steps are done. The last blocks are added in the order of
 * the steps that need them. Meanwhile tables are rebuilt; the pages of all layers that exist at that time are counted,
 * too. Layers that lose entries in steps `over` .. `steps` - 1 get order lists at their first eviction. */
static void grow_all(struct kvc_estimator *e, uint64_t over, uint64_t steps) {
    size_t events = 0;
    uint64_t step = 0;
    for (uint32_t l = 0; l < e->g->layers; l++) {
        const int kind = kvc_longest_kind(&e->ledger.layer[l]);
        const uint64_t now = e->now[l] = e->ledger.layer[l].count[kind], most = e->most[l][kind],
                       full = kvc_whole_blocks(most);
        e->events[events++] = (struct kvc_step_event){full > now + KVC_BLOCK ? full - KVC_BLOCK - now : 0, l, false};
        if (steps > over && e->ledger.layer[l].touched)
            e->events[events++] = (struct kvc_step_event){first_eviction(e, l, steps, over), l, true};
        estimate_steps_grow(e, l, e->most[l], true, over > 0);
    }
    qsort(e->events, events, sizeof *e->events, by_step);
    for (size_t i = 0; i < events; i++) {
        const struct kvc_step_event *event = &e->events[i];
        for (uint32_t l = 0; l < e->g->layers && event->step != step; l++)
            keep_step(e, l, over, event->step);
        step = event->step;
        estimate_steps_grow(e, event->layer, e->most[event->layer], false, over > 0);
        if (event->evicts)
            kvc_ledger_order(&e->ledger, event->layer);
    }
}

/* Runs the steps up to the first one that evicts. */
static void first_steps(struct kvc_estimator *e, uint64_t steps) {
    struct kvc_ledger *ledger = &e->ledger;
    for (uint32_t l = 0; l < e->g->layers; l++) {
        kvc_ledger_reserve(ledger, l, 1);
        const uint32_t window = kvc_estimator_window(e, l);
        for (int whole = 0; whole < 2; whole++) {
            const uint64_t now = ledger->layer[l].count[whole], left = (uint64_t)window + KVC_TILE - 2;
            e->most[l][whole] = window && !ledger->layer[l].thinned
                                    ? kvc_min_u64(now + steps - 1, kvc_max_u64(now, left))
                                    : now + steps - 1;
        }
    }
    grow_all(e, 0, 0);
    for (uint32_t l = 0; l < e->g->layers && steps > 1; l++)
        keep_pages_in(e, l, steps - 1, kvc_longest_count(&ledger->layer[l]));
    for (uint32_t l = 0; l < e->g->layers; l++) {
        kvc_estimator_append(e, l, 1);
        keep_indices(e, l, kvc_longest_count(&ledger->layer[l]));
        keep_pages_in(e, l, steps, kvc_longest_count(&ledger->layer[l]));
        estimate_steps_step(e, l, steps);
    }
}

/* A method has evicted from the lists of a layer with a sliding window. Returns true if the lengths of the lists alone
 * determine how many entries expire, as they do if the method evicts one entry for each new entry. Otherwise the
 * activations decide which entries expire. */
static bool is_exact(const struct kvc_estimator *e, uint32_t l, uint64_t steps) {
    const struct kvc_method_layer at = decoder(e, l);
    const struct kvc_forecast *forecast = kvc_method_forecast(at.method);
    const uint32_t window = kvc_estimator_window(e, l);
    if (!window || e->prompt + steps < window)
        return true;
    if (kvc_estimator_method(e, KVC_STAGE_SELECT, l).method)
        return false;
    if (!e->ledger.layer[l].thinned)
        return true;
    return at.method && forecast->bound && !forecast->entries && !forecast->whole &&
           kvc_policy_surplus(e->policy, l) == 1;
}

void kvc_estimate_steps(struct kvc_estimator *e, uint64_t steps) {
    struct kvc_ledger *ledger = &e->ledger;
    uint64_t first = 1;
    for (uint32_t l = 0; l < e->g->layers; l++)
        first = kvc_max_u64(first, kvc_policy_surplus(e->policy, l));
    first = kvc_min_u64(first, steps);
    first_steps(e, first);
    for (uint32_t l = 0; l < e->g->layers; l++) {
        struct kvc_ledger_layer *layer = &ledger->layer[l];
        if (layer->touched)
            kvc_ledger_shrink(ledger, l, kvc_policy_surplus(e->policy, l), true);
        layer->touched = false;
        e->uneven = e->uneven || !is_exact(e, l, steps);
        for (int whole = 0; whole < 2; whole++) {
            e->most[l][whole] = most_held(e, l, whole, steps, first);
            layer->touched = layer->touched || thinned(e, l, whole, steps, first);
        }
        const bool grows_again = layer->members || (layer->lists[0] && layer->lists[1]) || kvc_estimator_window(e, l);
        if (layer->touched && grows_again) /* some lists grow after an eviction from them or from other lists */
            kvc_ledger_order(ledger, l);
    }
    grow_all(e, first, steps);
    for (uint32_t l = 0; l < e->g->layers; l++) {
        const struct kvc_ledger_layer *layer = &ledger->layer[l];
        keep_indices(e, l, kvc_longest_count(layer));
        e->uneven =
            /* activations decide which of the view's entries are evicted */
            e->uneven || (e->view[l] && kvc_estimator_method(e, KVC_STAGE_DECODE, l).method);
        keep_pages_in(e, l, steps, kvc_longest_count(layer));
    }
    for (uint32_t l = 0; l < e->g->layers; l++) /* any step may add a block to lists below their upper bound */
        if (ledger->layer[l].members || (e->uneven && kvc_estimator_window(e, l)))
            kvc_ledger_state(ledger, &ledger->layer[l], ledger->layer[l].arrays, ledger->layer[l].arrays);
}
