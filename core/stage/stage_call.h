/* stage_call.h - creates stages and calls the methods of a policy in them. */
#ifndef KVC_CORE_STAGE_STAGE_CALL_H
#define KVC_CORE_STAGE_STAGE_CALL_H

#include "core/stage/stage.h"

/* Returns a stage of a layer, without queries. */
struct kvc_stage kvc_stage_make(struct kvc_session *session, uint32_t layer);
/* Returns the stage as method i of the policy sees it. */
struct kvc_stage kvc_stage_of_method(const struct kvc_stage *defaults, size_t i, bool observes);
/* Returns the number of entries of the longest list. If the stage may evict, expired entries of a sliding window do not
 * count. If the method makes a plan, the step's own row counts. */
uint64_t kvc_stage_entries(const struct kvc_stage *stage, bool plans);

/* Returns true if the layer's chunk stage chooses for a lower layer that sees more than the layer itself. */
bool kvc_stage_decides(const struct kvc_session *session, uint32_t layer);

/* The first three functions call the stages of a prompt in one layer: after the attention of some rows, after a chunk,
 * and after all rows (observers, propagate, prompt). The last two call the stages of a decode step. */
enum kvc_status kvc_stage_call_attended(struct kvc_stage *stage, struct kvc_error *error);
enum kvc_status kvc_stage_call_chunk(struct kvc_stage *stage, struct kvc_error *error);
enum kvc_status kvc_stage_call_prompt(struct kvc_stage *stage, struct kvc_error *error);
enum kvc_status kvc_stage_call_select(struct kvc_stage *stage, struct kvc_error *error);
enum kvc_status kvc_stage_call_decode(struct kvc_stage *stage, struct kvc_error *error);

/* Calls the function `evicts` of each method, before the stage evicts all indices that are not in `kept`. */
enum kvc_status kvc_stage_call_evicts(const struct kvc_stage *stage, const struct kvc_read_list *kept,
                                      struct kvc_error *error);

/* Repeats the prompt stage of a layer that another rank of a pipeline has. The stage may evict from this rank's layers
 * below it. */
enum kvc_status kvc_stage_call_prompt_again(struct kvc_stage *stage, struct kvc_error *error);

#endif
