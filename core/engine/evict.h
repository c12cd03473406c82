/* evict.h - eviction: the entries that a stage keeps stay, the others go. The functions that policies call for it are
 * declared in include/kvcull/policy.h (kvc_stage_keep and those beside it). */
#ifndef KVC_CORE_ENGINE_EVICT_H
#define KVC_CORE_ENGINE_EVICT_H

#include "core/engine/growable.h"

struct kvc_session;
struct kvc_stage;

/* Indices that a step of a layer will keep, as its policy said before it. */
struct kvc_planned_keep {
    struct kvc_growable index; /* uint32 [lists, stride] */
    struct kvc_growable count; /* uint32 [lists] */
    uint32_t stride;
    bool nothing_goes; /* every list of the layer keeps all */
};

/* Of a session. */
struct kvc_evictions {
    bool *touched;                    /* [layers]: evicted from since its blocks were last looked at */
    bool *thinned;                    /* [layers]: indices do not say positions: a method evicted or pruned tokens */
    struct kvc_planned_keep *planned; /* [layers] */
    struct kvc_span counts;           /* of runner->counts: where a decode step writes the counts of lists and views */
};

/* Buffers for the indices that a stage keeps of every list, in whole tiles. */
enum kvc_status kvc_evict_reserve(struct kvc_stage *stage, struct kvc_read_list *kept, struct kvc_error *error);
void kvc_evict_forget_plan(struct kvc_session *session, uint32_t layer);
/* Gives back blocks of layers 0 .. layers-1 that have no entries any more, where a head has `many` of them. */
enum kvc_status kvc_evict_shrink(struct kvc_session *session, uint32_t layers, uint32_t many, struct kvc_error *error);

#endif
