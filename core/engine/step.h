/* step.h - a decode step through one layer. */
#ifndef KVC_CORE_ENGINE_STEP_H
#define KVC_CORE_ENGINE_STEP_H

#include "core/engine/session.h"

/* The rows of a step that pass a layer together, one of each session. */
struct kvc_step {
    struct kvc_runner *runner;
    struct kvc_session *const *session; /* [count] */
    uint32_t count;
    uint32_t first;  /* session i has row first + i of runner->step */
    uint32_t stored; /* 1; 0: the rows' entries are there already */
};

/* A layer of the step: the rows' hidden states pass it, their entries join the lists, and methods evict. Of a replay
 * q, k and v lie in the runner, and its output is what attention gives. Where a method fails its session fails (failed,
 * failure); the other sessions take the step. */
void kvc_step_layer(const struct kvc_step *step, uint32_t layer);

#endif
