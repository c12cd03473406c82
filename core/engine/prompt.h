/* prompt.h - runs a prompt through a network, for one session or for several sessions whose rows are the same. */
#ifndef KVC_CORE_ENGINE_PROMPT_H
#define KVC_CORE_ENGINE_PROMPT_H

#include "core/engine/session.h"

/* Returns true if longrope's long factors rotate a prompt of `rows` rows. A session keeps the factors of its first
 * prompt, because its keys are stored rotated. */
bool kvc_prompt_long_rope(const struct kvc_session *session, uint32_t rows);
/* Checks the tokens and begins a prompt for kvc_prompt_run. */
enum kvc_status kvc_prompt_start(struct kvc_session *session, const int32_t *tokens, uint32_t count,
                                 struct kvc_error *error);
/* Runs the prompt that all of the sessions have begun. If there are several sessions, they must have passed the check
 * in prompt_many.c, and `options` must be NULL. logits [vocab], or NULL, receives the last row's logits, which are the
 * same for all. If some sessions fail, their `failure` is set and the result is KVC_OK, unless all of them fail. */
enum kvc_status kvc_prompt_run(struct kvc_session *const *sessions, size_t session_count, const int32_t *tokens,
                               uint32_t count, const struct kvc_prompt_options *options, float *logits,
                               struct kvc_error *error);

#endif
