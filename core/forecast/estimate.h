/* estimate.h - a dry run of a policy's prompt and decode steps, whose memory a ledger counts (ledger.h); shared by
 * estimate.c and its parts. */
#ifndef KVC_CORE_FORECAST_ESTIMATE_H
#define KVC_CORE_FORECAST_ESTIMATE_H

#include "core/base/integers.h"
#include "core/forecast/ledger.h"
#include "core/stage/policy.h"

struct kvc_chunk_forecast { /* entries per list of each kind, between chunks and after the last chunk */
    bool acts;
    uint32_t decider; /* the layer whose chunk stage evicts from this layer */
    double between[2];
    double last[2];
};

struct kvc_step_event { /* the step at which a layer's longest lists need their last block, or first lose entries */
    uint64_t step;
    uint32_t layer;
    bool evicts;
};

/* Counts the memory of a prompt's passes and of the first and last decode steps in a ledger, in the order of
 * core/engine/pass.c and decode.c. A layer has two kinds of lists. Kind 0: lists from which the methods evict. Kind 1:
 * lists that keep everything. */
struct kvc_estimator {
    const struct kvc_policy *policy;
    const struct kvc_method_use *use;
    const struct kvc_geometry *g;
    const uint32_t *windows;          /* [layers] or NULL */
    uint32_t first_layer, own_layers; /* the layers that are counted */
    struct kvc_entry_format format;
    struct kvc_ledger ledger;
    uint64_t prompt;
    uint64_t *view;    /* [layers]: entries that select methods may choose from after the prompt; 0: all */
    uint64_t *indices; /* [layers]: capacity of the view's indices */
    uint64_t *after;   /* [layers]: entries of the longest list after the prompt */
    struct kvc_chunk_forecast *chunks; /* [layers] */
    uint32_t ended;                    /* number of layers whose prompt stage is over */
    uint64_t (*most)[2];               /* [layers]: entries to which lists of each kind grow in decode steps */
    uint64_t *now;                     /* [layers]: entries of the longest list before the decode steps */
    struct kvc_step_event *events;     /* [2 layers] */
    uint64_t *pages;                   /* [layers]: bytes of pages and sums, which grow */
    double (*from)[2]; /* [layers]: entries per list of each kind before the evicting method's first stage */
    bool uneven;       /* activations decide how entries are divided among heads or layers */
};

/* ---- estimator.c ---- */

/* Returns the method that holds a stage in a layer, with the layer's context for its formulas. */
struct kvc_method_layer kvc_estimator_method(const struct kvc_estimator *e, enum kvc_stage_kind stage, uint32_t layer);
/* Returns true if the method's layers share one budget. */
static inline bool kvc_shared_by_layers(const struct kvc_method *method) {
    const enum kvc_ragged ragged = kvc_method_forecast(method)->ragged;
    return ragged == KVC_RAGGED_LAYERS || ragged == KVC_RAGGED_MODEL;
}
/* Appends `rows` entries to each list of a layer. */
void kvc_estimator_append(struct kvc_estimator *e, uint32_t l, uint64_t rows);
/* Reduces each list to at most kept[kind] entries. Returns true if any list held more. */
bool kvc_estimator_thin(struct kvc_estimator *e, uint32_t l, const double kept[2]);
/* Sets kept[kind] to the number of entries that a list of each kind holds after `steps` steps, by the method's formula.
 * Before the steps the list held from[kind] entries. */
void kvc_estimator_kept(const struct kvc_estimator *e, struct kvc_method_layer *at, const double from[2],
                        uint64_t steps, double kept[2]);

/* Returns the layer's sliding window, or 0 if it has none. */
static inline uint32_t kvc_estimator_window(const struct kvc_estimator *e, uint32_t l) {
    return e->windows ? e->windows[l] : 0;
}
/* Returns how many of a list's `held` entries later rows can see. kvc_estimator_prompt returns N for a layer's formulas
 * (docs/reference/methods.md). */
static inline uint64_t kvc_estimator_seen(const struct kvc_estimator *e, uint32_t l, uint64_t held) {
    const uint32_t window = kvc_estimator_window(e, l);
    return window ? kvc_min_u64(held, window - 1) : held;
}
uint64_t kvc_estimator_prompt(const struct kvc_estimator *e, uint32_t l);
/* Prepares for a method that leaves kept[kind] entries per list: if that is less than later rows can see, expired
 * entries are evicted first. */
void kvc_estimator_clear(struct kvc_estimator *e, uint32_t l, const double kept[2]);

/* ---- estimate_prompt.c, estimate_steps.c ---- */
void kvc_estimate_prompt(struct kvc_estimator *e);
void kvc_estimate_steps(struct kvc_estimator *e, uint64_t steps);

/* Return `entries` rounded up to whole blocks, and to whole tiles. */
static inline uint64_t kvc_whole_blocks(uint64_t entries) { return kvc_round_up(entries, KVC_BLOCK); }
static inline uint64_t kvc_whole_tiles(uint64_t entries) { return kvc_round_up(entries, KVC_TILE); }

/* Returns the kind of a layer's longest lists, and the number of entries that each of them holds. */
static inline int kvc_longest_kind(const struct kvc_ledger_layer *layer) {
    return layer->lists[1] && (layer->lists[0] == 0 || layer->count[1] > layer->count[0]);
}
static inline uint64_t kvc_longest_count(const struct kvc_ledger_layer *layer) {
    return layer->count[kvc_longest_kind(layer)];
}

#endif
