/* draft.h - a draft of the answer, which a method may run as pseudo tokens. */
#ifndef KVC_CORE_ENGINE_DRAFT_H
#define KVC_CORE_ENGINE_DRAFT_H

#include "core/engine/session.h"

/* Before a prompt: if a method of the session wants a draft (`draft` of struct kvc_policy_class), answers the prompt
 * with a copy of the session and stores the answer's first tokens in session->prompt.draft. */
enum kvc_status kvc_draft(struct kvc_session *session, const int32_t *tokens, size_t rows,
                          const struct kvc_prompt_options *options, struct kvc_error *error);

#endif
