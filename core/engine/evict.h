/* evict.h - evicts the entries that a stage does not keep. Policies call the functions declared in
 * include/kvcull/policy.h (kvc_stage_keep and its neighbours). */
#ifndef KVC_CORE_ENGINE_EVICT_H
#define KVC_CORE_ENGINE_EVICT_H

#include "core/engine/growable.h"

struct kvc_session;
struct kvc_stage;

/* The indices that a step will keep in a layer, planned before the step. */
struct kvc_planned_keep {
    struct kvc_growable index; /* uint32 [lists, stride] */
    struct kvc_growable count; /* uint32 [lists] */
    uint32_t stride;
    bool nothing_goes; /* true: no list of the layer loses an entry */
};

/* A session's evictions. */
struct kvc_evictions {
    bool *touched; /* [layers]: entries were evicted since the layer's blocks were last checked */
    bool *thinned; /* [layers]: a method evicted or pruned tokens, so an index no longer implies a position */
    struct kvc_planned_keep *planned; /* [layers] */
    struct kvc_span counts;           /* in runner->counts: where a decode step writes the counts of lists and views */
};

/* Reserves buffers, in whole tiles, for the indices that a stage keeps in every list. */
enum kvc_status kvc_evict_reserve(struct kvc_stage *stage, struct kvc_read_list *kept, struct kvc_error *error);
void kvc_evict_forget_plan(struct kvc_session *session, uint32_t layer);
/* Calls kvc_cache_shrink for each layer below `layers` from which entries were evicted since the last call. */
enum kvc_status kvc_evict_shrink(struct kvc_session *session, uint32_t layers, bool in_step, struct kvc_error *error);

#endif
