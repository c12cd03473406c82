/* state.h - the complete state of a session, listed once. Saving writes it, loading reads it and forking copies it. */
#ifndef KVC_CORE_ENGINE_STATE_H
#define KVC_CORE_ENGINE_STATE_H

#include "core/engine/archive.h"
#include "core/engine/session.h"

/* Returns KVC_USAGE if the session's state cannot be continued: part of it failed, or a prompt is running. what: "save"
 * or "fork". */
enum kvc_status kvc_state_check(const struct kvc_session *session, const char *what, struct kvc_error *error);

/* Writes the state, or reads it into a session that was just opened with the same policy and cache type. On failure,
 * reported by the archive's status, that session must be closed. */
void kvc_state_pass(struct kvc_archive *archive, struct kvc_session *session);

#endif
