/* pass.h - runs rows of a prompt through one layer. */
#ifndef KVC_CORE_ENGINE_PASS_H
#define KVC_CORE_ENGINE_PASS_H

#include "core/engine/session.h"

/* Runs the rows of the current pass through one layer for all sessions, then the stages of their policies. All sessions
 * have the same rows. */
enum kvc_status kvc_pass_layer(struct kvc_session *const *sessions, size_t count, const struct kvc_row_source *source,
                               uint32_t layer, struct kvc_error *error);
/* Applies the choices that stages of other ranks' layers made for this rank's layers. Called after each pass of a
 * pipeline. */
enum kvc_status kvc_pass_settle(struct kvc_session *session, const struct kvc_row_source *source,
                                struct kvc_error *error);

#endif
