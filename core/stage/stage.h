/* stage.h - the stage object that policy functions get: one moment of one layer, the queries it may look at, and the
 * scores it has made. */
#ifndef KVC_CORE_STAGE_STAGE_H
#define KVC_CORE_STAGE_STAGE_H

#include "core/engine/session.h"

struct kvc_scores {
    struct kvc_span span; /* float32 [heads, stride] */
    uint32_t stride;
    uint32_t heads;
};

struct kvc_stage {
    struct kvc_stage_info info;
    struct kvc_session *session;
    const struct kvc_method_use *use;
    void *user; /* of the method's class */
    uint32_t layer;
    /* The queries it may look at, oldest first. causal_offset counts from the lists as they are before any eviction,
     * and has no buffer where visibility goes by position. */
    uint32_t queries;
    uint32_t row;                      /* in `attended`: of the rows of the prompt that are kept, the first query's */
    struct kvc_span q;                 /* float32 [queries, H, d], rotated */
    struct kvc_span maximum;           /* float32 [queries, H]: M of their attention */
    struct kvc_span sum;               /* float32 [queries, H]: L */
    struct kvc_span positions;         /* int32 [queries] */
    struct kvc_span causal_offset;     /* uint32 [queries] */
    const int32_t *host_positions;     /* [queries], NULL in a decode step */
    const struct kvc_read_list *reads; /* what the step's query read; NULL: everything */
    struct kvc_scores scores[KVC_STAGE_SCORES];
    unsigned score_count;
    bool evicted;
    bool cleared;    /* what the layer's sliding window hides from every row to come has gone */
    bool observes;   /* a method that observes and must not evict */
    bool decides;    /* it chooses for a layer that sees more than it: among all that it holds */
    bool plans;      /* before a decode step: what it will keep */
    uint32_t coming; /* entries that buffers are reserved for and that are not there yet */
    /* out: */
    struct kvc_read_list *chosen; /* select stage: set where not everything is read */
    bool mean_value;
};

/* Rows row .. row+rows-1 of the runner's q, maximum and sum, which lie at batch_row of the batch, are its queries. */
void kvc_stage_set_rows(struct kvc_stage *stage, const struct kvc_batch *batch, uint32_t row, uint32_t batch_row,
                        uint32_t rows);
/* The rows of kvc_probabilities of the stage's newest `count` queries. */
struct kvc_probabilities kvc_stage_rows(const struct kvc_stage *stage, uint32_t count);
static inline struct kvc_cache_layer *kvc_stage_lists(const struct kvc_stage *stage) {
    return &stage->session->cache.layer[stage->layer];
}
static inline struct kvc_device *kvc_stage_device(const struct kvc_stage *stage) {
    return stage->session->runner->device;
}
/* Entries of the layer's fullest list, with those that a sliding window hides: what buffers are for. */
static inline uint64_t kvc_stage_capacity(const struct kvc_stage *stage) {
    return kvc_cache_most(&stage->session->cache, stage->layer) + (uint64_t)stage->coming;
}
/* Scores as kvc_stage_scores makes them, of entries of which none has to go before. */
enum kvc_status kvc_stage_some_scores(struct kvc_stage *stage, struct kvc_scores **scores, struct kvc_error *error);
/* KVC_USAGE once the stage has evicted: what is looked at then is no longer what was there. */
enum kvc_status kvc_stage_check(const struct kvc_stage *stage, struct kvc_error *error);
/* The same, and KVC_USAGE for scores that were made in another stage, or in a layer before the stage turned. */
enum kvc_status kvc_stage_check_scores(const struct kvc_stage *stage, const struct kvc_scores *scores,
                                       struct kvc_error *error);
/* The first of the class's `count` columns from `first` on, among those of all methods. */
enum kvc_status kvc_stage_columns(const struct kvc_stage *stage, uint32_t first, uint32_t count, uint32_t *at,
                                  struct kvc_error *error);

#endif
