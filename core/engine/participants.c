/* participants.c - collects the sessions that take part in a decode step. */
#include "core/engine/participants.h"

#include "core/engine/prepare_step.h"

#include <stdlib.h>

bool kvc_participants_create(struct kvc_participants *participants, size_t count) {
    *participants = (struct kvc_participants){.session = malloc(count * sizeof *participants->session),
                                              .row = malloc(count * sizeof *participants->row),
                                              .token = malloc(count * sizeof *participants->token),
                                              .position = malloc(count * sizeof *participants->position),
                                              .long_factors = malloc(count * sizeof *participants->long_factors)};
    return participants->session && participants->row && participants->token && participants->position &&
           participants->long_factors;
}

void kvc_participants_free(struct kvc_participants *participants) {
    free(participants->session);
    free(participants->row);
    free(participants->token);
    free(participants->position);
    free(participants->long_factors);
}

enum kvc_status kvc_participants_join(struct kvc_participants *participants, struct kvc_session *session, size_t i,
                                      int32_t token, struct kvc_runner *runner, struct kvc_error *error) {
    struct kvc_error cause = {KVC_OK, ""};
    if (session->busy)
        return kvc_fail(error, KVC_USAGE, "decode: session %zu is given twice", i);
    if (session->runner != runner)
        return kvc_fail(error, KVC_USAGE, "decode: session %zu belongs to another model", i);
    enum kvc_status status = kvc_network_check_tokens(runner->network, &token, 1, &cause);
    if (status == KVC_OK)
        status = kvc_step_begin(session, &cause);
    if (status != KVC_OK)
        return kvc_fail(error, status, "decode: session %zu: %s", i, cause.text);
    const uint32_t n = participants->count++;
    participants->session[n] = session;
    participants->row[n] = (uint32_t)i;
    participants->token[n] = token;
    participants->position[n] = (int32_t)session->tokens;
    participants->long_factors[n] = session->long_rope;
    session->busy = true;
    return KVC_OK;
}
