/* prepare_step.h - begins and ends a session's decode step: allocates all memory that the step may need, and updates
 * counts. */
#ifndef KVC_CORE_ENGINE_PREPARE_STEP_H
#define KVC_CORE_ENGINE_PREPARE_STEP_H

#include "core/engine/session.h"

/* kvc_step_begin reserves memory for one more row in every layer. After a failure the session may have more capacity,
 * but nothing else has changed. kvc_step_cancel undoes a step that began; kvc_step_end completes it. */
enum kvc_status kvc_step_begin(struct kvc_session *session, struct kvc_error *error);
void kvc_step_cancel(struct kvc_session *session);
void kvc_step_end(struct kvc_session *session);
/* kvc_step_reserve_counts reserves a buffer for the counts after a step's evictions. kvc_step_take_counts, called at
 * the end of the step when the host waits anyway, fetches the counts of all sessions at once and frees unneeded
 * blocks. */
enum kvc_status kvc_step_reserve_counts(struct kvc_runner *runner, struct kvc_session *const *sessions, size_t count,
                                        struct kvc_error *error);
void kvc_step_take_counts(struct kvc_runner *runner, struct kvc_session *const *sessions, size_t count);

#endif
