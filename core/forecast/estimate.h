/* estimate.h - a policy's prompt and decode steps on a ledger: what estimate.c and its parts share. */
#ifndef KVC_CORE_FORECAST_ESTIMATE_H
#define KVC_CORE_FORECAST_ESTIMATE_H

#include "core/base/integers.h"
#include "core/forecast/ledger.h"
#include "core/stage/policy.h"

struct kvc_chunk_forecast { /* entries of lists of each kind, between chunks and after the last one */
    bool acts;
    uint32_t decider; /* the layer in which they are thinned */
    double between[2];
    double last[2];
};

struct kvc_last_block { /* of a layer's fullest lists: steps until it comes */
    uint64_t step;
    uint32_t layer;
};

/* The prompt's passes and the first and last decode steps on a ledger, in the order of core/engine/pass.c and step.c. A
 * layer has lists of two kinds: 0: those that the methods evict from, 1: those that keep everything. */
struct kvc_estimator {
    const struct kvc_policy *policy;
    const struct kvc_method_use *use;
    const struct kvc_geometry *g;
    const uint32_t *windows;          /* [layers] or NULL */
    uint32_t first_layer, own_layers; /* those that are counted */
    struct kvc_entry_format format;
    struct kvc_ledger ledger;
    uint64_t prompt;
    uint64_t *view;                    /* [layers]: entries that select methods see after the prompt; 0: all */
    uint64_t *indices;                 /* [layers]: slots of the view's indices */
    uint64_t *after;                   /* [layers]: entries of the fullest list after the prompt */
    struct kvc_chunk_forecast *chunks; /* [layers] */
    uint32_t ended;                    /* layers whose prompt stage is over */
    uint64_t (*most)[2];               /* [layers]: entries that lists of each kind grow to in decode steps */
    struct kvc_last_block *last;       /* [layers] */
    uint64_t *pages;                   /* [layers]: bytes of pages and sums, of which there are more and more */
    double (*from)[2]; /* [layers]: what they held before the first stage of the method that evicts in these */
    bool uneven;       /* data decides how entries fall to heads or layers */
};

/* ---- estimator.c ---- */

/* The method that holds a stage in a layer, and the layer as its formulas see it. */
struct kvc_method_layer kvc_estimator_method(const struct kvc_estimator *e, enum kvc_stage_kind stage, uint32_t layer);
/* `rows` more entries for each list of a layer. */
void kvc_estimator_append(struct kvc_estimator *e, uint32_t l, uint64_t rows);
/* Each list of a kind comes to hold no more than `kept` of it. Whether any held more. */
bool kvc_estimator_thin(struct kvc_estimator *e, uint32_t l, const double kept[2]);
/* By the method's formula: entries of lists of each kind after so many steps, of those that held `from`. */
void kvc_estimator_kept(const struct kvc_estimator *e, struct kvc_method_layer *at, const double from[2],
                        uint64_t steps, double kept[2]);

/* The layer's sliding window, 0: it has none. */
static inline uint32_t kvc_estimator_window(const struct kvc_estimator *e, uint32_t l) {
    return e->windows ? e->windows[l] : 0;
}
/* What rows to come can see of a list of `held`, and N of docs/reference/methods.md for a layer's formulas. */
static inline uint64_t kvc_estimator_seen(const struct kvc_estimator *e, uint32_t l, uint64_t held) {
    const uint32_t window = kvc_estimator_window(e, l);
    return window ? kvc_min_u64(held, window - 1) : held;
}
uint64_t kvc_estimator_prompt(const struct kvc_estimator *e, uint32_t l);
/* A method leaves `kept` in the lists of each kind: where that is fewer than rows to come can see, what the layer's
 * window hides goes first. */
void kvc_estimator_clear(struct kvc_estimator *e, uint32_t l, const double kept[2]);

/* estimate_prompt.c, estimate_steps.c */
void kvc_estimate_prompt(struct kvc_estimator *e);
void kvc_estimate_steps(struct kvc_estimator *e, uint64_t steps);

/* Entries that fit into the blocks for so many. */
static inline uint64_t kvc_whole_blocks(uint64_t entries) { return kvc_round_up(entries, KVC_TILE); }

/* Which kind of a layer's lists is the fullest, and what each of these holds. */
static inline int kvc_longest_kind(const struct kvc_ledger_layer *layer) {
    return layer->lists[1] && (layer->lists[0] == 0 || layer->count[1] > layer->count[0]);
}
static inline uint64_t kvc_longest_count(const struct kvc_ledger_layer *layer) {
    return layer->count[kvc_longest_kind(layer)];
}

#endif
