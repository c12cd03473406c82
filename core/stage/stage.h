/* stage.h - the stage object that policy functions receive: one moment in one layer, with the queries that the function
 * may read and the scores that it has made. */
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
    void *user; /* user data of the method's class */
    uint32_t layer;
    /* The queries that the stage may read, oldest first. causal_offset is relative to the lists before any eviction.
     * Its buffer is NULL if positions alone decide which entries a query sees. */
    uint32_t queries;
    uint32_t row;                      /* index of the first query in `attended`, among the prompt's kept rows */
    uint32_t first;                    /* index of the first query in the runner's buffers, if the query is in them */
    struct kvc_span q;                 /* float32 [queries, H, d], rotated */
    struct kvc_span maximum;           /* float32 [queries, H]: M of attention */
    struct kvc_span sum;               /* float32 [queries, H]: L of attention */
    struct kvc_span positions;         /* int32 [queries] */
    struct kvc_span causal_offset;     /* uint32 [queries] */
    const int32_t *host_positions;     /* [queries]; NULL in a decode step */
    const struct kvc_read_list *reads; /* the entries that the step's query read; NULL: all */
    const struct kvc_read_list *kept;  /* before an eviction: the indices that stay; NULL: no eviction comes */
    struct kvc_scores scores[KVC_STAGE_SCORES];
    unsigned score_count;
    bool evicted;
    bool cleared;    /* expired entries of the layer's sliding window have been evicted */
    bool observes;   /* the method only observes and must not evict */
    bool ends;       /* the prompt stage is over, and channels of keys may be pruned */
    bool decides;    /* the method chooses for a lower layer that sees more entries; until it has done so, expired
                      * entries are kept */
    bool plans;      /* true: the method plans, before a decode step, which entries the step will keep */
    uint32_t coming; /* entries for which buffers are reserved, although they are not appended yet */
    /* results: */
    struct kvc_read_list *chosen; /* select stage: set if not all entries are read */
    bool mean_value;
};

/* Sets the stage's queries to rows row .. row+rows-1 of the runner's q, maximum and sum. batch_row is the batch row of
 * the first query. */
void kvc_stage_set_rows(struct kvc_stage *stage, const struct kvc_batch *batch, uint32_t row, uint32_t batch_row,
                        uint32_t rows);
/* Returns the parameters of the attention probabilities of the stage's newest `count` queries. */
struct kvc_probabilities kvc_stage_rows(const struct kvc_stage *stage, uint32_t count);
static inline struct kvc_cache_layer *kvc_stage_lists(const struct kvc_stage *stage) {
    return &stage->session->cache.layer[stage->layer];
}
static inline struct kvc_device *kvc_stage_device(const struct kvc_stage *stage) {
    return stage->session->runner->device;
}
/* Returns the number of entries of the layer's longest list, including expired ones. Buffers have this capacity. */
static inline uint64_t kvc_stage_capacity(const struct kvc_stage *stage) {
    return kvc_cache_most(&stage->session->cache, stage->layer) + (uint64_t)stage->coming;
}
/* Makes scores as kvc_stage_scores does, but without evicting expired entries first. */
enum kvc_status kvc_stage_some_scores(struct kvc_stage *stage, struct kvc_scores **scores, struct kvc_error *error);
/* Returns KVC_USAGE after an eviction, because queries and scores no longer match the lists. */
enum kvc_status kvc_stage_check(const struct kvc_stage *stage, struct kvc_error *error);
/* Also returns KVC_USAGE for scores of another stage, or of another layer of this stage. */
enum kvc_status kvc_stage_check_scores(const struct kvc_stage *stage, const struct kvc_scores *scores,
                                       struct kvc_error *error);
/* Returns KVC_USAGE if a mean was subtracted from the keys, so that a method must not compare whole keys. */
enum kvc_status kvc_stage_whole_keys(const struct kvc_stage *stage, struct kvc_error *error);
/* *at receives the index of the class's column `first` among the columns of all methods. Returns KVC_USAGE if the
 * class did not reserve columns first .. first+count-1. */
enum kvc_status kvc_stage_columns(const struct kvc_stage *stage, uint32_t first, uint32_t count, uint32_t *at,
                                  struct kvc_error *error);

/* Checks that the layer rotates `rotary` channels, or that rotary is KVC_ANY_ROTARY. */
enum kvc_status kvc_stage_check_rotary(const struct kvc_stage *stage, uint32_t rotary, struct kvc_error *error);

#endif
