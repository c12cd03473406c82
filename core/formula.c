/* formula.c - what a policy should hold and read, from its methods' formulas alone. */
#include "core/cache.h"
#include "core/policy.h"

#include <math.h>

struct kvc_method_place kvc_policy_place(const struct kvc_policy *policy, enum kvc_stage_kind stage, uint32_t layer,
                                         const struct kvc_geometry *g, const struct kvc_entry_format *format) {
    const struct kvc_method *method = kvc_policy_holder(policy, stage);
    struct kvc_method_place found = {.method = method && kvc_method_acts(method, layer) ? method : NULL};
    const uint32_t lists = kvc_policy_heads(policy, layer, g);
    found.place = (struct kvc_place){.layer = layer,
                                     .layers = g->layers,
                                     .kv_heads = lists,
                                     .group = g->heads / lists,
                                     .head_size = g->head_size,
                                     .entry_bytes = 2.0 * format->row_bytes,
                                     .element_bytes = (double)format->row_bytes / g->head_size,
                                     .page_element_bytes = format->type == KVC_F16 ? 2 : 4};
    for (uint32_t l = 0; method && l < g->layers; l++) {
        found.place.acting += l < layer && kvc_method_acts(method, l);
        found.place.actings += kvc_method_acts(method, l);
    }
    return found;
}

static double entries_of(const struct kvc_method_place *at, uint64_t prompt, uint64_t steps) {
    const struct kvc_policy_class *class = at->method->policy;
    if (class->entries)
        return class->entries(&at->method->values, &at->place, prompt, steps);
    return class->bound ? (double)class->bound(&at->method->values, prompt, 0) : (double)(prompt + steps);
}

/* Entries read of a head of which a select method sees n; and the bytes that choosing them costs. */
static double reads_of(const struct kvc_method_place *at, uint64_t prompt, uint64_t after, double n, double *choose) {
    const struct kvc_place *place = &at->place;
    const struct kvc_stage_info info = {
        .held = prompt, .after = after, .entries = (uint64_t)(n + 0.5), .head_size = place->head_size};
    const struct kvc_select select = at->method->policy->sizes(&at->method->values, &info);
    const double top = (double)select.top, d = place->head_size;
    if (n <= (double)select.budget)
        return n;
    const double pages = select.page ? ceil(n / select.page) : 0;
    switch (select.kind) {
    case KVC_SELECT_EXACT:
        *choose = n * place->entry_bytes / 2;
        break;
    case KVC_SELECT_CHANNELS:
        *choose = n * select.dims * place->element_bytes + (select.mean_value ? d * sizeof(float) : 0);
        break;
    case KVC_SELECT_PAGE_CHANNELS:
        *choose = pages * select.dims * place->page_element_bytes;
        break;
    case KVC_SELECT_PAGE_BOUND: /* both sides of a channel where the group's signs differ: at random, all but 2^(1-G) */
        *choose = pages * d * (2 - exp2(1 - (double)place->group)) * place->page_element_bytes;
        return top * select.page < n ? top * select.page : n;
    }
    return top < n ? top : n;
}

static double least(double a, double b) { return a < b ? a : b; }

double kvc_policy_kept(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *g,
                       const struct kvc_entry_format *format, uint64_t prompt) {
    static const enum kvc_stage_kind stages[] = {KVC_STAGE_CHUNK, KVC_STAGE_PROPAGATE, KVC_STAGE_PROMPT};
    double held = (double)prompt;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        const struct kvc_method_place at = kvc_policy_place(policy, stages[i], layer, g, format);
        if (at.method)
            held = least(held, entries_of(&at, prompt, 0));
    }
    return held;
}

/* Adds one layer. */
static void add_layer(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *g,
                      const struct kvc_entry_format *format, uint64_t prompt, uint64_t steps,
                      struct kvc_formula *formula) {
    const struct kvc_method_place decode = kvc_policy_place(policy, KVC_STAGE_DECODE, layer, g, format);
    const struct kvc_method_place select = kvc_policy_place(policy, KVC_STAGE_SELECT, layer, g, format);
    double held = kvc_policy_kept(policy, layer, g, format, prompt);
    const double lists = select.place.kv_heads;
    const uint64_t after = (uint64_t)(held + 0.5);
    const double seen = select.method && select.method->policy->seen
                            ? (double)select.method->policy->seen(&select.method->values, prompt)
                            : (double)after;
    formula->entries += held * lists;
    for (uint64_t t = 1; t <= steps; t++) {
        double choose = 0, read = held + 1;
        if (select.method && select.method->policy->sizes) {
            const double fresh = held + 1 - (double)after;
            read = reads_of(&select, prompt, after, seen < (double)after ? seen + fresh : held + 1, &choose);
        }
        formula->read_bytes += lists * (read * select.place.entry_bytes + choose);
        formula->select_bytes += lists * choose;
        held = held + 1;
        if (decode.method)
            held = least(held, entries_of(&decode, prompt, t));
    }
}

enum kvc_status kvc_formula(const struct kvc_engine *engine, const char *spec, const struct kvc_geometry *geometry,
                            enum kvc_type cache_type, uint64_t prompt, uint64_t steps, struct kvc_formula *formula,
                            struct kvc_error *error) {
    struct kvc_policy *policy;
    const uint32_t row_bytes = kvc_entry_row_bytes(cache_type, geometry->head_size);
    *formula = (struct kvc_formula){.entries = 0};
    if (row_bytes == 0)
        return kvc_fail(error, KVC_USAGE, "formula: a cache of %s: must be f32, f16 or q8_0",
                        kvc_type_name(cache_type));
    enum kvc_status status = kvc_policy_parse(engine, spec, &policy, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_entry_format format = {cache_type, geometry->head_size, row_bytes};
    status = kvc_policy_check_model(policy, geometry, error);
    for (uint32_t l = 0; l < geometry->layers && status == KVC_OK; l++)
        add_layer(policy, l, geometry, &format, prompt, steps, formula);
    kvc_policy_free(policy);
    return status;
}
