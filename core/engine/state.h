/* state.h - everything that a session knows of its past, listed once: what saving writes, loading reads and forking
 * copies. */
#ifndef KVC_CORE_ENGINE_STATE_H
#define KVC_CORE_ENGINE_STATE_H

#include "core/engine/archive.h"
#include "core/engine/session.h"

/* KVC_USAGE where a session has no state that another could go on from: something of it failed, or it is within a
 * prompt. what: "save", "fork". */
enum kvc_status kvc_state_check(const struct kvc_session *session, const char *what, struct kvc_error *error);

/* Writes the state, or reads it into a session that has just been opened with the same policy and cache type, which
 * must be closed where that fails. The archive's status says whether it did. */
void kvc_state_pass(struct kvc_archive *archive, struct kvc_session *session);

#endif
