/* prepare_step.h - before and after a decode step of a session: room for whatever it will ask for, and its end. */
#ifndef KVC_CORE_ENGINE_PREPARE_STEP_H
#define KVC_CORE_ENGINE_PREPARE_STEP_H

#include "core/engine/session.h"

/* Room for one more row in every layer; on failure nothing has changed but spare blocks. cancel: the step that began
 * does not come about. */
enum kvc_status kvc_step_begin(struct kvc_session *session, struct kvc_error *error);
void kvc_step_cancel(struct kvc_session *session);
void kvc_step_end(struct kvc_session *session);
/* Room for the counts that the evictions of a step leave; and at its end, when the host waits: fetches those of its
 * sessions at once and gives back blocks that are not needed any more. */
enum kvc_status kvc_step_reserve_counts(struct kvc_runner *runner, struct kvc_session *const *sessions, size_t count,
                                        struct kvc_error *error);
void kvc_step_take_counts(struct kvc_runner *runner, struct kvc_session *const *sessions, size_t count);

#endif
