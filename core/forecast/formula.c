/* formula.c - computes what a policy should hold and read, from its methods' formulas alone. */
#include "core/engine/cache.h"
#include "core/stage/policy.h"
#include "kvcull/check.h"

#include <math.h>

uint64_t kvc_policy_whole(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *g,
                          const struct kvc_entry_format *format) {
    static const enum kvc_stage_kind stages[] = {KVC_STAGE_PROMPT, KVC_STAGE_DECODE};
    uint64_t lists = 0;
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        const struct kvc_method_layer at = kvc_policy_method_at(policy, stages[i], layer, g, format);
        if (kvc_method_forecast(at.method)->whole)
            lists = kvc_method_forecast(at.method)->whole(&at.values, &at.context);
    }
    return lists;
}

uint64_t kvc_policy_rows(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *g,
                         const struct kvc_entry_format *format, uint64_t prompt) {
    uint64_t rows = prompt;
    for (uint32_t l = 0; l < layer; l++) {
        const struct kvc_method_layer at = kvc_policy_method_at(policy, KVC_STAGE_PROPAGATE, l, g, format);
        if (kvc_method_forecast(at.method)->propagated)
            rows = kvc_method_forecast(at.method)->propagated(&at.values, &at.context, rows);
    }
    return rows;
}

double kvc_policy_entries(const struct kvc_method_layer *at, bool whole, uint64_t prompt, uint64_t steps) {
    const struct kvc_forecast *forecast = kvc_method_forecast(at->method);
    if (whole && forecast->whole)
        return (double)(prompt + steps);
    if (forecast->entries)
        return forecast->entries(&at->values, &at->context, prompt, steps);
    return forecast->bound ? (double)forecast->bound(&at->values, prompt, 0) : (double)(prompt + steps);
}

uint64_t kvc_policy_step_most(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *g,
                              const struct kvc_entry_format *format, uint64_t held) {
    struct kvc_method_layer at = kvc_policy_method_at(policy, KVC_STAGE_DECODE, layer, g, format);
    const struct kvc_forecast *forecast = kvc_method_forecast(at.method);
    const uint64_t steps = INT32_MAX; /* more steps than any session takes */
    uint64_t most = forecast->bound ? forecast->bound(&at.values, held, steps) : 0;
    if (forecast->whole)
        return (uint64_t)kvc_policy_entries(&at, false, held, steps) + 1;
    if (most && forecast->entries) { /* `bound` may be a mean over the layers */
        at.context.uneven = true;
        most = kvc_max_u64(most, (uint64_t)kvc_policy_entries(&at, false, held, steps) + 1);
    }
    return most;
}

static double least(double a, double b) { return a < b ? a : b; }

/* The forecast of one kind of a layer's lists in decode steps: the lists that keep everything, or all others. */
struct course {
    struct kvc_method_layer select;
    struct kvc_method_layer decode;
    struct kvc_method_layer longest_decode; /* like `decode`, but with the context of the longest lists */
    uint64_t prompt;
    uint64_t after; /* entries of the longest list at the end of the prompt */
    double lists;   /* number of lists */
    double held;    /* entries per list */
    double longest; /* entries of the layer's longest lists after the prompt, or 0 if this kind is the longest */
    bool whole;
    bool uneven; /* the lengths of lists depend on activations, so the forecast of entries read is an upper bound */
};

/* Returns how many entries a step reads from a list in which n entries are candidates. *choose receives the number of
 * bytes that are read to choose them. `most` is the number of entries of the layer's longest list. */
static double reads_of(const struct course *course, double n, double most, double *choose,
                       struct kvc_formula *formula) {
    const struct kvc_layer_context *context = &course->select.context;
    const struct kvc_stage_info info = {.held = course->prompt,
                                        .after = course->after,
                                        .entries = (uint64_t)(most + 0.5),
                                        .head_size = context->head_size};
    const struct kvc_select select = course->select.method->policy->sizes(&course->select.values, &info);
    const double d = context->head_size, budget = (double)select.budget;
    double top = (double)select.top, dims = select.dims, pages = select.page ? ceil(n / select.page) : 0;
    /* upper bound: some lists are short and read everything; pages and dims are rounded up */
    if (course->uneven) {
        top = top > budget ? top : budget;
        dims = least(d, dims + 1.5);
        pages = select.page ? n / select.page + 1 : 0;
    } else if (n <= budget) {
        /* the step reads all entries of this list, and also its sum of values if the layer's longest lists exceed the
         * budget */
        if (select.mean_value && most > budget)
            *choose = d * sizeof(float);
        return n;
    }
    switch (select.kind) {
    case KVC_SELECT_EXACT:
        *choose = n * context->entry_bytes / 2;
        break;
    case KVC_SELECT_CHANNELS: /* reads the chosen channels, of the keys or of a copy by channel */
        *choose = n * dims * (select.page ? context->page_element_bytes : context->element_bytes) +
                  (select.mean_value ? d * sizeof(float) : 0);
        break;
    case KVC_SELECT_PAGE_CHANNELS:
        *choose = pages * dims * context->page_element_bytes;
        break;
    case KVC_SELECT_PAGE_BOUND: /* reads both bounds of a channel if the group's queries have different signs there */
        *choose = pages * d * (context->group > 1 ? 2 : 1) * context->page_element_bytes;
        if (context->group > 1 || select.page > 1) /* one of the pages read may be the partial last page */
            formula->read_kind = KVC_EXPECTED_MOST;
        return least(n, top * select.page);
    }
    return least(n, top);
}

static void add_steps(struct course *course, uint64_t steps, struct kvc_formula *formula) {
    const struct kvc_method *select = course->select.method, *decode = course->decode.method;
    const double after = (double)course->after, entry_bytes = course->select.context.entry_bytes;
    const double seen = kvc_method_forecast(select)->seen
                            ? (double)kvc_method_forecast(select)->seen(&course->select.values, course->prompt)
                            : after;
    double held = course->held;
    if (seen < after && decode) { /* activations decide how many of the view's entries are evicted */
        course->uneven = true;
        formula->read_kind = KVC_EXPECTED_MOST;
    }
    double longest = course->longest;
    for (uint64_t t = 1; t <= steps; t++) {
        double choose = 0, read = held + 1;
        if (select && select->policy->sizes) {
            const double n = seen < after ? least(seen + (double)t, held + 1) : held + 1;
            read = reads_of(course, n, longest > 0 && longest + 1 > n ? longest + 1 : n, &choose, formula);
        }
        formula->read_bytes += course->lists * (read * entry_bytes + choose);
        formula->select_bytes += course->lists * choose;
        held = held + 1;
        longest += longest > 0;
        if (decode)
            held = least(held, kvc_policy_entries(&course->decode, course->whole, course->prompt, t));
        if (decode && longest > 0)
            longest = least(longest, kvc_policy_entries(&course->longest_decode, true, course->prompt, t));
    }
}

/* Returns true if another method has evicted entries on which this method relies. */
static bool follows(const struct kvc_method *method, double held, uint64_t prompt) {
    return kvc_method_forecast(method)->follows && held < (double)prompt;
}

/* Returns the entries of a list right after the prompt. *before receives the entries before the prompt stage. */
static double kept(const struct kvc_policy *policy, uint32_t layer, bool whole, const struct kvc_geometry *g,
                   const struct kvc_entry_format *format, uint64_t prompt, bool *ragged, double *before) {
    static const enum kvc_stage_kind stages[] = {KVC_STAGE_CHUNK, KVC_STAGE_PROMPT};
    double held = (double)kvc_policy_rows(policy, layer, g, format, prompt);
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        struct kvc_method_layer at = kvc_policy_method_at(policy, stages[i], layer, g, format);
        *before = at.context.from = held;
        at.context.prompts = true;
        const double left = at.method ? kvc_policy_entries(&at, whole, prompt, 0) : held;
        const enum kvc_ragged how = kvc_method_forecast(at.method)->ragged;
        *ragged = *ragged || how == KVC_RAGGED_ANY || (how == KVC_RAGGED_HEADS && left < held) ||
                  ((how == KVC_RAGGED_LAYERS || how == KVC_RAGGED_MODEL) && left < (double)prompt) ||
                  (!whole && follows(at.method, held, prompt));
        held = least(held, left);
    }
    return held;
}

/* Compares the layers in which a method acts. Returns true if all of them have the same select and decode methods and
 * the same number of lists that keep everything. */
static bool alike(const struct kvc_policy *policy, const struct kvc_method *method, const struct kvc_geometry *g,
                  const struct kvc_entry_format *format) {
    static const enum kvc_stage_kind stages[] = {KVC_STAGE_SELECT, KVC_STAGE_DECODE};
    int64_t first = -1;
    for (uint32_t l = 0; l < g->layers; l++) {
        if (!kvc_method_acts(method, l))
            continue;
        int64_t here = (int64_t)kvc_policy_whole(policy, l, g, format);
        for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
            here = 2 * here + (kvc_policy_method_at(policy, stages[i], l, g, format).method != NULL);
        if (first >= 0 && here != first)
            return false;
        first = here;
    }
    return true;
}

/* Handles a prompt method that leaves lists of different lengths. Sets the largest length that a list may have, from
 * the number of entries before that method. In a layer with two kinds of lists, only one kind is affected. */
static void set_longest(const struct kvc_policy *policy, const struct kvc_method_layer *prompt,
                        const struct kvc_geometry *g, const struct kvc_entry_format *format, double before,
                        struct course *course) {
    const enum kvc_ragged ragged = kvc_method_forecast(prompt->method)->ragged;
    const double lists = course->select.context.kv_heads, layers = prompt->context.actings, mean = course->held;
    if (ragged == KVC_RAGGED_MODEL) {
        course->after = (uint64_t)least(before, layers * lists * mean);
        if (course->lists < lists || !alike(policy, prompt->method, g, format))
            course->held = least(before, layers * lists / course->lists * mean);
    } else if (ragged != KVC_RAGGED_LAYERS) {
        course->after = (uint64_t)least(before, lists * mean);
        if (course->lists < lists)
            course->held = least(before, lists / course->lists * mean);
    } else if (!alike(policy, prompt->method, g, format)) {
        course->held = least(before, layers * mean);
    }
}

static void add_layer(const struct kvc_policy *policy, uint32_t layer, const struct kvc_geometry *g,
                      const struct kvc_entry_format *format, uint64_t prompt, uint64_t steps,
                      struct kvc_formula *formula) {
    struct course course = {.select = kvc_policy_method_at(policy, KVC_STAGE_SELECT, layer, g, format),
                            .decode = kvc_policy_method_at(policy, KVC_STAGE_DECODE, layer, g, format),
                            .prompt = prompt};
    const struct kvc_method_layer at = kvc_policy_method_at(policy, KVC_STAGE_PROMPT, layer, g, format);
    const struct kvc_method *prompt_method = at.method;
    const uint64_t whole = kvc_policy_whole(policy, layer, g, format);
    for (int kind = 1; kind >= 0; kind--) { /* the longest lists first */
        double before;
        course.whole = kind == 1;
        course.lists = (double)(course.whole ? whole : course.select.context.kv_heads - whole);
        if (course.lists == 0)
            continue;
        course.held = kept(policy, layer, course.whole, g, format, prompt, &course.uneven, &before);
        if (course.held > (double)course.after)
            course.after = (uint64_t)(course.held + 0.5);
        if (course.uneven) {
            course.held += 0.5; /* rounding may add up to half an entry to each list */
            formula->entry_kind = formula->read_kind = KVC_EXPECTED_MOST;
        }
        formula->entries += course.held * course.lists;
        if (course.uneven && kvc_method_forecast(prompt_method)->ragged)
            set_longest(policy, &at, g, format, before, &course);
        if ((!course.whole && course.decode.method && course.decode.method != prompt_method &&
             follows(course.decode.method, course.held, prompt)) ||
            kvc_method_forecast(course.decode.method)->ragged == KVC_RAGGED_ANY) {
            course.uneven = true;
            formula->read_kind = KVC_EXPECTED_MOST;
        }
        course.decode.context.prompts = course.decode.method == prompt_method;
        course.decode.context.from = course.decode.context.prompts ? before : course.held;
        course.decode.context.uneven = course.uneven;
        add_steps(&course, steps, formula);
        course.longest = course.held;
        course.longest_decode = course.decode;
    }
}

enum kvc_status kvc_formula(const struct kvc_engine *engine, const char *spec, const struct kvc_geometry *geometry,
                            struct kvc_entry_types cache_type, uint64_t prompt, uint64_t steps,
                            struct kvc_formula *formula, struct kvc_error *error) {
    struct kvc_policy *policy;
    *formula = (struct kvc_formula){.entries = 0};
    enum kvc_status status = kvc_geometry_check(geometry, "formula", error);
    if (status != KVC_OK)
        return status;
    if (prompt > INT32_MAX || steps > INT32_MAX)
        return kvc_fail(error, KVC_USAGE, "formula: %llu + %llu tokens: must be at most %d each",
                        (unsigned long long)prompt, (unsigned long long)steps, INT32_MAX);
    if (!kvc_entry_types_valid(cache_type))
        return kvc_fail(error, KVC_USAGE, "formula: " KVC_ENTRY_TYPES_WANTED);
    status = kvc_policy_parse(engine, spec, &policy, error);
    if (status != KVC_OK)
        return status;
    const struct kvc_entry_format format = kvc_entry_format(cache_type, geometry->head_size);
    status = kvc_policy_check_types(policy, cache_type, error);
    if (status == KVC_OK)
        status = kvc_policy_check_model(policy, geometry, error);
    for (uint32_t l = 0; l < geometry->layers && status == KVC_OK; l++)
        add_layer(policy, l, geometry, &format, prompt, steps, formula);
    kvc_policy_free(policy);
    return status;
}
