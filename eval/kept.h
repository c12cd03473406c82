/* kept.h - traces of the first samples, for `--kept`, `--span` and reports. */
#ifndef KVC_EVAL_KEPT_H
#define KVC_EVAL_KEPT_H

#include "eval/standard.h"

struct eval_kept { /* a sample to be traced */
    const struct eval_task *task;
    uint64_t length, index;
    uint32_t answer; /* tokens at most */
    const struct eval_sample *sample;
    const struct eval_prompt *prompt;
    uint64_t made; /* traces, when it is done */
    const char
        *data; /* a hash of what the user gave, where the task has no file that `data` of records tells; or NULL */
};
bool eval_wants_trace(const struct eval_run *run, uint64_t sample);
/* Every policy, asked in every way, whose trace is not there yet. */
int eval_keep_traces(struct eval_run *run, struct eval_kept *kept);

#endif
