/* prepare_step.h - before and after a decode step of a session: memory for whatever it will need, and its end. */
#ifndef KVC_CORE_ENGINE_PREPARE_STEP_H
#define KVC_CORE_ENGINE_PREPARE_STEP_H

#include "core/engine/session.h"

/* Memory for one more row in every layer; on failure the session has at most more capacity than before. cancel: the
 * step that began is not taken. */
enum kvc_status kvc_step_begin(struct kvc_session *session, struct kvc_error *error);
void kvc_step_cancel(struct kvc_session *session);
void kvc_step_end(struct kvc_session *session);
/* A buffer for the counts after a step's evictions; and at its end, when the host waits: fetches those of all its
 * sessions at once and gives back blocks that are not needed any more. */
enum kvc_status kvc_step_reserve_counts(struct kvc_runner *runner, struct kvc_session *const *sessions, size_t count,
                                        struct kvc_error *error);
void kvc_step_take_counts(struct kvc_runner *runner, struct kvc_session *const *sessions, size_t count);

#endif
