/* decode.h - runs a decode step through one layer. */
#ifndef KVC_CORE_ENGINE_DECODE_H
#define KVC_CORE_ENGINE_DECODE_H

#include "core/engine/session.h"

/* The rows of a step that pass a layer together: one row per session. */
struct kvc_step {
    struct kvc_runner *runner;
    struct kvc_session *const *session; /* [count] */
    uint32_t count;
    uint32_t first;  /* row of session 0 in runner->step; the other sessions' rows follow */
    uint32_t stored; /* 1, or 0 if the rows' entries are already stored */
};

/* Runs one layer of the step: updates the rows' hidden states, appends their entries and lets methods evict. A replay
 * supplies q, k and v in the runner and uses only the attention output. If a method fails, only its session fails
 * (failed, failure). */
void kvc_step_layer(const struct kvc_step *step, uint32_t layer);

#endif
