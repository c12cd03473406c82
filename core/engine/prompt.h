/* prompt.h - a prompt through a network, of one session or of several whose rows are the same. */
#ifndef KVC_CORE_ENGINE_PROMPT_H
#define KVC_CORE_ENGINE_PROMPT_H

#include "core/engine/session.h"

/* Whether a prompt of so many rows is rotated by longrope's long factors. A session keeps the factors that it began
 * with, because its keys stay as they were rotated. */
bool kvc_prompt_long_rope(const struct kvc_session *session, uint32_t rows);
/* Checks the tokens and begins a prompt, for kvc_prompt_run. */
enum kvc_status kvc_prompt_start(struct kvc_session *session, const int32_t *tokens, uint32_t count,
                                 struct kvc_error *error);
/* The prompt that all of the sessions have begun. Several are ones that prompt_many.c found alike, without options.
 * logits [vocab] or NULL: of the last row, the same for all. What fails for one session alone is in its `failure`, and
 * what is returned then is KVC_OK unless all have failed so. */
enum kvc_status kvc_prompt_run(struct kvc_session *const *sessions, size_t session_count, const int32_t *tokens,
                               uint32_t count, const struct kvc_prompt_options *options, float *logits,
                               struct kvc_error *error);

#endif
