/* participants.h - the sessions that take part in a decode step, each with one row. */
#ifndef KVC_CORE_ENGINE_PARTICIPANTS_H
#define KVC_CORE_ENGINE_PARTICIPANTS_H

#include "core/engine/session.h"

struct kvc_participants {
    struct kvc_session **session; /* [count] */
    uint32_t *row;                /* [count]: row in the caller's arrays */
    int32_t *token;               /* [count] */
    int32_t *position;            /* [count] */
    bool *long_factors;           /* [count] */
    uint32_t count;
};

/* Makes room for `count` sessions. Returns false if there is no memory. The caller calls kvc_participants_free in any
 * case. */
bool kvc_participants_create(struct kvc_participants *participants, size_t count);
void kvc_participants_free(struct kvc_participants *participants);

/* Begins the step of the caller's session i (kvc_step_begin) and adds the session, or reports why it cannot take
 * part. */
enum kvc_status kvc_participants_join(struct kvc_participants *participants, struct kvc_session *session, size_t i,
                                      int32_t token, struct kvc_runner *runner, struct kvc_error *error);

#endif
