/* estimator.c - updates the memory counts of an estimate: lists grow, and the methods' formulas shorten them. */
#include "core/forecast/estimate.h"

struct kvc_method_layer kvc_estimator_method(const struct kvc_estimator *e, enum kvc_stage_kind stage, uint32_t layer) {
    return kvc_policy_method_at(e->policy, stage, layer, e->g, &e->format);
}

void kvc_estimator_append(struct kvc_estimator *e, uint32_t l, uint64_t rows) {
    struct kvc_ledger_layer *layer = &e->ledger.layer[l];
    kvc_ledger_reserve(&e->ledger, l, rows);
    layer->count[0] += rows;
    layer->count[1] += rows;
    layer->pool += layer->members * rows;
}

uint64_t kvc_estimator_prompt(const struct kvc_estimator *e, uint32_t l) {
    struct kvc_chunking chunking;
    return kvc_policy_chunking(e->policy, &chunking) ? e->prompt : kvc_estimator_seen(e, l, e->prompt);
}

void kvc_estimator_clear(struct kvc_estimator *e, uint32_t l, const double kept[2]) {
    struct kvc_ledger_layer *layer = &e->ledger.layer[l];
    bool clears = layer->thinned;
    for (int i = 0; i < 2; i++)
        clears = clears || (layer->lists[i] && kept[i] < (double)kvc_estimator_seen(e, l, layer->count[i]));
    layer->thinned = clears;
    if (!clears || !kvc_estimator_window(e, l) || kvc_longest_count(layer) < kvc_estimator_window(e, l))
        return;
    for (int i = 0; i < 2; i++)
        layer->count[i] = kvc_estimator_seen(e, l, layer->count[i]);
    kvc_ledger_order(&e->ledger, l);
    layer->touched = true;
}

bool kvc_estimator_thin(struct kvc_estimator *e, uint32_t l, const double kept[2]) {
    struct kvc_ledger_layer *layer = &e->ledger.layer[l];
    bool thinned = false;
    if (kvc_estimator_window(e, l) && !layer->thinned)
        return false; /* the window already limits the list */
    for (int i = 0; i < 2; i++)
        if (layer->lists[i] && kept[i] < (double)layer->count[i]) {
            layer->count[i] = (uint64_t)(kept[i] + 0.999);
            thinned = true;
        }
    if (!thinned)
        return false;
    if (layer->members && layer->count[0] * layer->members < layer->pool)
        layer->pool = layer->count[0] * layer->members;
    kvc_ledger_order(&e->ledger, l);
    layer->touched = true;
    return true;
}

void kvc_estimator_kept(const struct kvc_estimator *e, struct kvc_method_layer *at, const double from[2],
                        uint64_t steps, double kept[2]) {
    /* A budget that layers share is a share of all tokens, or of the entries in one of the layers. */
    const uint64_t prompt = kvc_shared_by_layers(at->method) ? e->prompt : kvc_estimator_prompt(e, at->context.layer);
    for (int whole = 0; whole < 2; whole++) {
        at->context.from = from[whole];
        kept[whole] = kvc_policy_entries(at, whole == 1, prompt, steps);
    }
}
