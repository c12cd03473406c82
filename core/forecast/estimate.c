/* estimate.c - the bytes a policy will need, from its classes' formulas alone: "will it fit", before loading. */
#include "core/engine/cache.h"
#include "core/forecast/ledger.h"
#include "core/stage/policy.h"

#include <stdlib.h>
#include <string.h>

/* Rows that a method adds behind the prompt and stores for a while. */
static uint64_t pseudo_rows(const struct kvc_policy *policy, const struct kvc_method_use *use, uint64_t prompt) {
    const struct kvc_method *method = kvc_policy_holder(policy, KVC_STAGE_PROMPT);
    uint32_t offset;
    if (!method || !method->policy->pseudo)
        return 0;
    const struct kvc_turn turn = {NULL, prompt, prompt, 0, use[method - policy->method].state};
    return method->policy->pseudo(&method->values, &turn, &offset, NULL);
}

static uint64_t in_blocks(uint64_t entries) { return (entries + KVC_TILE - 1) / KVC_TILE * KVC_TILE; }

struct chunk_plan { /* entries of lists of each kind, between chunks and after the last one */
    bool acts;
    uint32_t decider; /* at whose turn they are thinned */
    double between[2], last[2];
};

struct last_block { /* of a layer's fullest lists: steps until it comes */
    uint64_t step;
    uint32_t layer;
};

/* The prompt's passes and the first and last decode steps on a ledger, in the order of prompt.c and step.c. */
struct estimate {
    const struct kvc_policy *policy;
    const struct kvc_method_use *use;
    const struct kvc_geometry *g;
    struct kvc_entry_format format;
    struct kvc_ledger ledger;
    uint64_t prompt;
    uint64_t *view;            /* [layers]: entries that select methods see after the prompt; 0: all */
    uint64_t *ranks;           /* [layers]: slots of the view's ranks */
    uint64_t *after;           /* [layers]: entries of the fullest list after the prompt */
    struct chunk_plan *chunks; /* [layers] */
    uint32_t ended;            /* layers whose prompt stage is over */
    uint64_t (*most)[2];       /* [layers]: entries that lists of each kind grow to in decode steps */
    struct last_block *last;   /* [layers] */
    uint64_t *pages;           /* [layers]: bytes of pages and sums, of which there are more and more */
    double (*from)[2];         /* [layers]: what they held before the first stage of the method that evicts in these */
    bool uneven;               /* data decides how entries fall to heads or layers */
};

static struct kvc_method_layer context(const struct estimate *e, enum kvc_stage_kind stage, uint32_t layer) {
    return kvc_policy_method_at(e->policy, stage, layer, e->g, &e->format);
}

/* Which kind of a layer's lists is the fullest. */
static int fullest(const struct kvc_ledger_layer *layer) {
    return layer->lists[1] && (layer->lists[0] == 0 || layer->count[1] > layer->count[0]);
}

static uint64_t most_in(const struct kvc_ledger_layer *layer) { return layer->count[fullest(layer)]; }

static void append(struct estimate *e, uint32_t l, uint64_t rows) {
    struct kvc_ledger_layer *layer = &e->ledger.layer[l];
    kvc_ledger_reserve(&e->ledger, l, rows);
    layer->count[0] += rows;
    layer->count[1] += rows;
    layer->pool += layer->members * rows;
}

/* Each list holds no more than `kept` of its kind. Whether any held more. */
static bool thin(struct estimate *e, uint32_t l, const double kept[2]) {
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

/* The layers so far share what all of them will have: none may hold it but all together. */
static void thin_layers(struct estimate *e, uint32_t l, const struct kvc_method_layer *at, double mean) {
    struct kvc_ledger *ledger = &e->ledger;
    const uint64_t so_far = at->context.acting + 1, all = (uint64_t)(mean * at->context.actings + 0.999);
    e->uneven = e->uneven || mean < (double)e->prompt; /* also where another method has left no more than that */
    if (mean >= (double)ledger->layer[l].count[0])
        return;
    for (uint32_t i = 0; i <= l; i++) {
        struct kvc_ledger_layer *layer = &ledger->layer[i];
        if (!kvc_method_acts(at->method, i))
            continue;
        kvc_ledger_order(ledger, i);
        layer->touched = layer->by_layer = true;
        layer->members = so_far;
        layer->pool = all;
        layer->count[0] = all / so_far < layer->count[0] ? all / so_far : layer->count[0];
    }
    const uint64_t tables = kvc_ledger_arrays(&ledger->layer[l], ledger->layer[l].slots);
    kvc_ledger_state(ledger, tables, tables); /* of whichever shrinks first */
}

static void kept_by(const struct estimate *e, struct kvc_method_layer *at, const double from[2], uint64_t steps,
                    double kept[2]) {
    for (int whole = 0; whole < 2; whole++) {
        at->context.from = from[whole];
        kept[whole] = kvc_policy_entries(at, whole == 1, e->prompt, steps);
    }
}

static void note_counts(const struct estimate *e, uint32_t l, double counts[2]) {
    for (int whole = 0; whole < 2; whole++)
        counts[whole] = (double)e->ledger.layer[l].count[whole];
}

/* Another method has taken entries that this one counts on. */
static void note_stale(struct estimate *e, uint32_t l, const struct kvc_method *method) {
    if (method && method->policy->follows && e->ledger.layer[l].count[0] < e->prompt)
        e->uneven = true;
}

static void thin_after_prompt(struct estimate *e, uint32_t l) {
    struct kvc_method_layer at = context(e, KVC_STAGE_PROMPT, l);
    const struct kvc_method *causal_offset = context(e, KVC_STAGE_DECODE, l).method;
    struct kvc_ledger_layer *layer = &e->ledger.layer[l];
    double kept[2];
    note_stale(e, l, at.method);
    note_counts(e, l, e->from[l]);
    at.context.prompts = true;
    if (at.method)
        kept_by(e, &at, e->from[l], 0, kept);
    if (at.method && at.method->policy->ragged == KVC_RAGGED_LAYERS) {
        thin_layers(e, l, &at, kept[0]);
    } else if (at.method && thin(e, l, kept) && at.method->policy->ragged == KVC_RAGGED_HEADS) {
        layer->members = layer->heads;
        layer->pool = layer->lists[0] * layer->count[0] + layer->lists[1] * layer->count[1];
        layer->pool += layer->members / 2 + 1; /* each head rounds its share */
        e->uneven = true;
    }
    if (causal_offset == at.method)
        return;
    note_counts(e, l, e->from[l]);
    note_stale(e, l, causal_offset);
}

/* What the chunk stage does with a layer, worked out once. */
static void plan_chunks(struct estimate *e) {
    for (uint32_t l = 0; l < e->g->layers; l++) {
        struct kvc_method_layer at = context(e, KVC_STAGE_CHUNK, l);
        struct chunk_plan *plan = &e->chunks[l];
        plan->decider = kvc_policy_decider(e->policy, l, e->g, &e->format);
        if (!at.method)
            continue;
        const struct kvc_policy_class *class = at.method->policy;
        plan->acts = true;
        kept_by(e, &at, (double[]){(double)e->prompt, (double)e->prompt}, 0, plan->last);
        memcpy(plan->between, plan->last, sizeof plan->between);
        if (class->between)
            plan->between[0] = plan->between[1] = (double)class->between(&at.method->values, &at.context, e->prompt);
    }
}

/* A chunk has passed layer l, which decides for itself and may decide for those below. */
static void thin_after_chunk(struct estimate *e, uint32_t l, bool last) {
    for (uint32_t i = 0; i <= l; i++)
        if (e->chunks[i].acts && e->chunks[i].decider == l)
            thin(e, i, last ? e->chunks[i].last : e->chunks[i].between);
}

static void make_view(struct estimate *e, uint32_t l) {
    const struct kvc_method_layer at = context(e, KVC_STAGE_PROMPT, l);
    const struct kvc_ledger_layer *layer = &e->ledger.layer[l];
    if (!at.method || !at.method->policy->seen)
        return;
    const uint64_t seen = at.method->policy->seen(&at.method->values, e->prompt), held = layer->count[0];
    if (seen >= held)
        return;
    e->view[l] = seen;
    e->ranks[l] = in_blocks(held + 1);
    kvc_ledger_state(&e->ledger, 4ull * layer->heads * (1 + e->ranks[l]), 0);
}

static void end_prompt(struct estimate *e, uint32_t l) {
    e->ledger.layer[l].step_most = kvc_policy_step_most(e->policy, l, e->g, &e->format, e->prompt);
    thin_after_prompt(e, l);
    make_view(e, l);
    e->after[l] = most_in(&e->ledger.layer[l]);
    for (uint32_t i = 0; i <= l; i++)
        if (e->ledger.layer[i].touched) {
            e->ledger.layer[i].touched = false;
            kvc_ledger_shrink(&e->ledger, i, kvc_policy_surplus(e->policy, i), 1);
        }
}

/* `rows` more rows of the prompt pass a layer, with `pseudo` that leave again. */
static void pass_layer(struct estimate *e, uint32_t l, uint64_t rows, uint64_t pseudo, bool chunked, bool last) {
    kvc_ledger_reserve(&e->ledger, l, rows + pseudo);
    if (!chunked && rows < e->prompt) /* ranks do not say the positions of what a propagate stage left */
        kvc_ledger_order(&e->ledger, l);
    append(e, l, rows);
    if (chunked)
        thin_after_chunk(e, l, last);
    while (last && e->ended <= l && e->chunks[e->ended].decider <= l)
        end_prompt(e, e->ended++);
}

#define PASSES_MOST 64u /* then those that are left, but the last, count at once: they are as the ones before */

static void prefill(struct estimate *e) {
    struct kvc_chunking chunking;
    const bool chunked = kvc_policy_chunking(e->policy, &chunking);
    const uint64_t pseudo = pseudo_rows(e->policy, e->use, e->prompt), N = e->prompt;
    const uint64_t chunk = chunked && chunking.chunk < N ? chunking.chunk : N;
    uint32_t passes = 0;
    plan_chunks(e);
    for (uint64_t from = 0; from < N;) {
        const uint64_t rows = N - from < chunk ? N - from : chunk;
        const bool last = from + rows == N;
        for (uint32_t l = 0; l < e->g->layers; l++)
            pass_layer(e, l, chunked ? rows : kvc_policy_rows(e->policy, l, e->g, &e->format, N), last ? pseudo : 0,
                       chunked, last);
        from += rows;
        if (++passes < PASSES_MOST || N - from <= chunk)
            continue;
        const uint64_t skipped = (N - from - 1) / chunk * chunk;
        for (uint32_t l = 0; l < e->g->layers; l++) {
            e->ledger.layer[l].count[0] += skipped;
            e->ledger.layer[l].count[1] += skipped;
            thin_after_chunk(e, l, false);
        }
        from += skipped;
    }
}

/* ---- decode steps ---- */

/* The decode method of a layer, and what its formula goes by. */
static struct kvc_method_layer decoder(const struct estimate *e, uint32_t l) {
    struct kvc_method_layer at = context(e, KVC_STAGE_DECODE, l);
    at.context.prompts = at.method == context(e, KVC_STAGE_PROMPT, l).method;
    at.context.uneven = e->ledger.layer[l].members > 0;
    return at;
}

static void step(struct estimate *e, uint32_t l, uint64_t steps) {
    struct kvc_method_layer at = decoder(e, l);
    double kept[2];
    if (!at.method)
        return;
    kept_by(e, &at, e->from[l], steps, kept);
    thin(e, l, kept);
}

/* The most that lists of a kind hold up to the last of so many steps, of which `over` are. */
static uint64_t most_held(const struct estimate *e, uint32_t l, int whole, uint64_t steps, uint64_t over) {
    struct kvc_method_layer at = decoder(e, l);
    const uint64_t now = e->ledger.layer[l].count[whole], grown = now + steps - over;
    uint64_t most = grown;
    if (at.method && at.method->policy->whole)
        most = (uint64_t)kvc_policy_entries(&at, whole == 1, e->prompt, steps) + 1;
    else if (at.method && at.method->policy->bound)
        most = at.method->policy->bound(&at.method->values, e->prompt, steps);
    if (at.method && at.method->policy->entries && !(whole && at.method->policy->whole)) {
        at.context.from = e->from[l][whole]; /* of this layer, where `bound` is the layers' mean */
        at.context.uneven = true;
        const uint64_t last = (uint64_t)kvc_policy_entries(&at, false, e->prompt, steps) + 1;
        most = last > most ? last : most;
    }
    return grown < most ? grown : now > most ? now : most;
}

/* Whether lists of a kind are evicted from up to the last step, of which `over` are. */
static bool thinned(const struct estimate *e, uint32_t l, int whole, uint64_t steps, uint64_t over) {
    struct kvc_method_layer at = decoder(e, l);
    at.context.from = e->from[l][whole];
    return at.method && e->ledger.layer[l].lists[whole] &&
           kvc_policy_entries(&at, whole == 1, e->prompt, steps) <
               (double)(e->ledger.layer[l].count[whole] + steps - over);
}

/* The view's ranks, of n entries. */
static void keep_ranks(struct estimate *e, uint32_t l, uint64_t n) {
    const uint64_t rank = 4ull * e->ledger.layer[l].heads;
    if (!e->view[l] || in_blocks(n) <= e->ranks[l])
        return;
    kvc_ledger_state(&e->ledger, rank * in_blocks(n), rank * e->ranks[l]);
    e->ranks[l] = in_blocks(n);
}

/* Pages and sums that choosing what to read needs, once there are more entries than its budget: of `first` entries, and
 * growing from there, of n. */
static void keep_pages(struct estimate *e, uint32_t l, uint64_t first, uint64_t n) {
    const struct kvc_method_layer at = context(e, KVC_STAGE_SELECT, l);
    const struct kvc_ledger_layer *layer = &e->ledger.layer[l];
    if (!at.method || !at.method->policy->sizes)
        return;
    n = n > first ? n : first; /* a decode method evicts after the first step has read */
    const struct kvc_stage_info info = {
        .held = e->prompt, .after = e->after[l], .entries = n, .head_size = e->g->head_size};
    const struct kvc_select select = at.method->policy->sizes(&at.method->values, &info);
    const uint64_t each = (uint64_t)layer->heads * e->g->head_size, value = (uint64_t)at.context.page_element_bytes;
    const bool paged = select.kind == KVC_SELECT_PAGE_CHANNELS || select.kind == KVC_SELECT_PAGE_BOUND;
    uint64_t bytes = select.mean_value ? each * sizeof(float) : 0;
    if (n <= select.budget)
        return;
    if (select.page) {
        const uint64_t page = paged ? select.page : 1, last = (n + page - 1) / page;
        first = first > select.budget ? first : select.budget + 1;
        uint64_t stride = 0;
        for (uint64_t pages = (first + page - 1) / page; stride < last; pages = stride + 1)
            stride = ((pages + pages / 64) / 64 + 1) * 64; /* as select.c makes room */
        bytes += each * stride * value * (paged ? 2 : 1);
    }
    if (bytes > e->pages[l])
        kvc_ledger_state(&e->ledger, bytes - e->pages[l], 0);
    e->pages[l] = bytes > e->pages[l] ? bytes : e->pages[l];
}

/* The same in step t, when the layer's fullest list holds `most`. */
static void keep_pages_in(struct estimate *e, uint32_t l, uint64_t t, uint64_t most) {
    if (e->view[l])
        keep_pages(e, l, e->view[l] + 1, e->view[l] + t);
    else
        keep_pages(e, l, e->after[l] + 1, e->ledger.layer[l].members ? e->prompt + t : most);
}

/* A layer's lists grow to `most`; but_last: to what their last block of it leaves. */
static void grow(struct estimate *e, uint32_t l, const uint64_t most[2], bool but_last) {
    struct kvc_ledger_layer *layer = &e->ledger.layer[l];
    for (int i = 0; i < 2; i++) {
        const uint64_t to = but_last && most[i] > KVC_TILE ? most[i] - KVC_TILE : most[i];
        if (to <= layer->count[i] || !layer->lists[i])
            continue;
        if (layer->step_most > layer->count[i] && layer->step_most < to && !layer->members) {
            layer->count[i] = layer->step_most; /* with a spare place, as the others that grow no further */
            kvc_ledger_reserve(&e->ledger, l, 0);
        }
        layer->pool += layer->members * (to - layer->count[i]);
        layer->count[i] = to;
    }
    kvc_ledger_reserve(&e->ledger, l, 0);
}

static int by_step(const void *a, const void *b) {
    const struct last_block *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return x->layer < y->layer ? -1 : x->layer > y->layer;
}

/* Lists grow to `most`, block by block; `over` steps are. The last blocks come in the order of the steps that need
 * them, and the pages that are there by then count beside the tables that are made anew. */
static void grow_all(struct estimate *e, uint64_t over) {
    for (uint32_t l = 0; l < e->g->layers; l++) {
        const int kind = fullest(&e->ledger.layer[l]);
        const uint64_t now = e->ledger.layer[l].count[kind], full = in_blocks(e->most[l][kind]);
        e->last[l] = (struct last_block){full > now + KVC_TILE ? full - KVC_TILE - now : 0, l};
        grow(e, l, e->most[l], true);
    }
    qsort(e->last, e->g->layers, sizeof *e->last, by_step);
    for (uint32_t l = 0; l < e->g->layers; l++) {
        const struct kvc_ledger_layer *layer = &e->ledger.layer[l];
        const uint64_t now = most_in(layer), most = e->most[l][fullest(layer)];
        const uint64_t full = in_blocks(now), t = over + full - now;
        if (full < most && t > 0)
            keep_pages_in(e, l, t, full);
    }
    for (uint32_t i = 0; i < e->g->layers; i++)
        grow(e, e->last[i].layer, e->most[e->last[i].layer], false);
}

/* The steps up to the first that evicts. */
static void first_steps(struct estimate *e, uint64_t steps) {
    struct kvc_ledger *ledger = &e->ledger;
    for (uint32_t l = 0; l < e->g->layers; l++) {
        kvc_ledger_reserve(ledger, l, 1);
        for (int whole = 0; whole < 2; whole++)
            e->most[l][whole] = ledger->layer[l].count[whole] + steps - 1;
    }
    grow_all(e, 0);
    for (uint32_t l = 0; l < e->g->layers; l++) {
        append(e, l, 1);
        keep_ranks(e, l, most_in(&ledger->layer[l]));
        keep_pages_in(e, l, steps, most_in(&ledger->layer[l]));
        step(e, l, steps);
    }
}

static void decode(struct estimate *e, uint64_t steps) {
    struct kvc_ledger *ledger = &e->ledger;
    uint64_t first = 1;
    for (uint32_t l = 0; l < e->g->layers; l++)
        if (kvc_policy_surplus(e->policy, l) > first)
            first = kvc_policy_surplus(e->policy, l);
    first = first < steps ? first : steps;
    first_steps(e, first);
    for (uint32_t l = 0; l < e->g->layers; l++) {
        if (ledger->layer[l].touched)
            kvc_ledger_shrink(ledger, l, kvc_policy_surplus(e->policy, l), 2);
        ledger->layer[l].touched = false;
        for (int whole = 0; whole < 2; whole++) {
            e->most[l][whole] = most_held(e, l, whole, steps, first);
            if (thinned(e, l, whole, steps, first))
                kvc_ledger_order(ledger, l);
        }
    }
    grow_all(e, first);
    for (uint32_t l = 0; l < e->g->layers; l++) {
        const struct kvc_ledger_layer *layer = &ledger->layer[l];
        keep_ranks(e, l, most_in(layer));
        e->uneven = e->uneven || (e->view[l] && context(e, KVC_STAGE_DECODE, l).method); /* whose entries go? */
        keep_pages_in(e, l, steps, most_in(layer));
    }
}

static enum kvc_status open_estimate(struct estimate *e, struct kvc_error *error) {
    const uint32_t layers = e->g->layers;
    enum kvc_status status = kvc_ledger_open(&e->ledger, layers, &e->format, error);
    if (status != KVC_OK)
        return status;
    e->view = calloc(layers, sizeof *e->view);
    e->ranks = calloc(layers, sizeof *e->ranks);
    e->after = calloc(layers, sizeof *e->after);
    e->most = calloc(layers, sizeof *e->most);
    e->last = calloc(layers, sizeof *e->last);
    e->pages = calloc(layers, sizeof *e->pages);
    e->from = calloc(layers, sizeof *e->from);
    e->chunks = calloc(layers, sizeof *e->chunks);
    if (!e->view || !e->ranks || !e->after || !e->most || !e->last || !e->pages || !e->from || !e->chunks)
        return kvc_fail(error, KVC_RESOURCE, "estimate: no memory for %u layers", layers);
    for (uint32_t l = 0; l < layers; l++) {
        struct kvc_ledger_layer *layer = &e->ledger.layer[l];
        layer->heads = kvc_policy_heads(e->policy, l, e->g);
        layer->columns = kvc_policy_all_columns(e->policy, l, e->g->head_size);
        layer->lists[1] = kvc_policy_whole(e->policy, l, e->g, &e->format);
        layer->lists[0] = layer->heads - layer->lists[1];
    }
    return KVC_OK;
}

static void close_estimate(struct estimate *e) {
    kvc_ledger_close(&e->ledger);
    free(e->view);
    free(e->ranks);
    free(e->after);
    free(e->most);
    free(e->last);
    free(e->pages);
    free(e->from);
    free(e->chunks);
}

static void run(struct estimate *e, uint64_t generated, struct kvc_estimate *estimate) {
    if (e->prompt)
        prefill(e);
    estimate->prompt_peak_bytes = e->ledger.peak;
    if (generated)
        decode(e, generated);
    for (uint32_t l = 0; l < e->g->layers; l++)
        if (most_in(&e->ledger.layer[l]) > estimate->entries)
            estimate->entries = most_in(&e->ledger.layer[l]);
    estimate->cache_bytes = e->ledger.cache;
    estimate->state_bytes = e->ledger.state;
    estimate->peak_bytes = e->ledger.peak;
    estimate->kind = e->uneven ? KVC_EXPECTED_MOST : KVC_EXPECTED_EXACT;
}

/* Sums below must fit 64 bits, whatever geometry and lengths a caller has in mind. */
static enum kvc_status check(const struct kvc_geometry *g, uint32_t hidden, enum kvc_type cache_type, uint64_t prompt,
                             uint64_t generated, struct kvc_error *error) {
    const enum kvc_status status = kvc_geometry_check(g, "estimate", error);
    if (status != KVC_OK)
        return status;
    if (cache_type != KVC_F32 && cache_type != KVC_F16 && cache_type != KVC_Q8_0)
        return kvc_fail(error, KVC_USAGE, "estimate: a cache of %s: must be f32, f16 or q8_0",
                        kvc_type_name(cache_type));
    if (prompt > INT32_MAX || generated > INT32_MAX)
        return kvc_fail(error, KVC_USAGE, "estimate: %llu + %llu tokens: must be at most %d each",
                        (unsigned long long)prompt, (unsigned long long)generated, INT32_MAX);
    const double entry = 2 * 4.0 * g->head_size + 8 + 4.0 * KVC_COLUMNS_MOST; /* bytes, of any type */
    const double heads = (double)g->layers * g->heads, tokens = (double)(prompt + generated + 2 * KVC_TILE);
    if (heads * tokens * entry * 4 > 0x1p63 || (double)prompt * hidden * 4 > 0x1p63)
        return kvc_fail(error, KVC_USAGE,
                        "estimate: %llu tokens of %u layers with %u heads of size %u: more bytes than 2^63",
                        (unsigned long long)(prompt + generated), g->layers, g->heads, g->head_size);
    return KVC_OK;
}

enum kvc_status kvc_estimate(const struct kvc_engine *engine, const char *spec, const struct kvc_geometry *geometry,
                             uint32_t hidden, enum kvc_type cache_type, uint64_t prompt, uint64_t generated,
                             struct kvc_estimate *estimate, struct kvc_error *error) {
    struct kvc_policy *policy;
    struct kvc_method_use *use;
    enum kvc_status status = check(geometry, hidden, cache_type, prompt, generated, error);
    if (status == KVC_OK)
        status = kvc_policy_parse(engine, spec, &policy, error);
    if (status != KVC_OK)
        return status;
    status = kvc_policy_open(policy, geometry, &use, error);
    if (status != KVC_OK) {
        kvc_policy_free(policy);
        return status;
    }
    struct kvc_chunking chunking;
    const bool chunked = kvc_policy_chunking(policy, &chunking) && chunking.chunk < prompt;
    const uint64_t rows = chunked ? chunking.chunk + (uint64_t)chunking.probe : prompt;
    *estimate = (struct kvc_estimate){.hidden_bytes = rows * hidden * sizeof(float)};
    struct estimate made = {
        .policy = policy,
        .use = use,
        .g = geometry,
        .format = {cache_type, geometry->head_size, kvc_entry_row_bytes(cache_type, geometry->head_size)},
        .prompt = prompt};
    status = open_estimate(&made, error);
    if (status == KVC_OK)
        run(&made, generated, estimate);
    close_estimate(&made);
    kvc_policy_close(policy, use);
    kvc_policy_free(policy);
    return status;
}
