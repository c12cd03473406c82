/* estimator.c - what the parts of an estimate do to its ledger: lists grow, and are thinned by the methods' formulas.
 */
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

uint32_t kvc_estimator_window(const struct kvc_estimator *e, uint32_t l) {
    struct kvc_chunking chunking;
    if (!e->windows || kvc_policy_chunking(e->policy, &chunking))
        return 0;
    for (size_t i = 0; i < e->policy->count; i++) {
        const struct kvc_method *method = &e->policy->method[i];
        if (method->stages && (method->stages & KVC_STAGE_PROPAGATE || kvc_method_acts(method, l)))
            return 0;
    }
    return e->windows[l];
}

bool kvc_estimator_thin(struct kvc_estimator *e, uint32_t l, const double kept[2]) {
    struct kvc_ledger_layer *layer = &e->ledger.layer[l];
    bool thinned = false;
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
    for (int whole = 0; whole < 2; whole++) {
        at->context.from = from[whole];
        kept[whole] = kvc_policy_entries(at, whole == 1, e->prompt, steps);
    }
}
