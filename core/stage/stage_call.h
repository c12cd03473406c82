/* stage_call.h - makes a stage and calls the methods of a policy at it. */
#ifndef KVC_CORE_STAGE_STAGE_CALL_H
#define KVC_CORE_STAGE_STAGE_CALL_H

#include "core/stage/stage.h"

/* A stage of a layer with no queries. */
struct kvc_stage kvc_stage_make(struct kvc_session *session, uint32_t layer);
/* The same as method i of the policy sees it. */
struct kvc_stage kvc_stage_of_method(const struct kvc_stage *defaults, size_t i, bool observes);
/* Entries of the fullest list: of those that a stage evicts from, what the layer's sliding window leaves to rows to
 * come. Of a method that plans the step's own row counts among them. */
uint64_t kvc_stage_entries(const struct kvc_stage *stage, bool plans);

/* Whether a chunk's stage in the layer chooses for one below it that sees more than it. */
bool kvc_stage_decides(const struct kvc_session *session, uint32_t layer);

/* The stages of a prompt in one layer: after some rows attended; after a chunk; after all rows (observers, propagate,
 * prompt). Then those of a decode step. */
enum kvc_status kvc_stage_call_attended(struct kvc_stage *stage, struct kvc_error *error);
enum kvc_status kvc_stage_call_chunk(struct kvc_stage *stage, struct kvc_error *error);
enum kvc_status kvc_stage_call_prompt(struct kvc_stage *stage, struct kvc_error *error);
enum kvc_status kvc_stage_call_select(struct kvc_stage *stage, struct kvc_error *error);
enum kvc_status kvc_stage_call_decode(struct kvc_stage *stage, struct kvc_error *error);

/* Of a pipeline: the holder's prompt stage in a layer of another rank, for this rank's layers below it; and what the
 * chunk stage of such a layer keeps in one of this rank's. */
enum kvc_status kvc_stage_call_prompt_again(struct kvc_stage *stage, struct kvc_error *error);
enum kvc_status kvc_stage_keep_received(struct kvc_session *session, uint32_t decider, uint32_t layer,
                                        const int32_t *const *positions, const size_t *counts, struct kvc_error *error);

#endif
