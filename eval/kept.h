/* kept.h - traces of the first samples, for `--kept`, `--span` and reports. */
#ifndef KVC_EVAL_KEPT_H
#define KVC_EVAL_KEPT_H

#include "eval/standard.h"

struct eval_kept { /* a sample to trace */
    const struct eval_task *task;
    uint64_t length, index;
    uint32_t answer; /* maximum number of tokens of an answer */
    const struct eval_sample *sample;
    const struct eval_prompt *prompt;
    uint64_t made;    /* result: number of traces made */
    const char *data; /* hash of the data file, if the task's records lack one; otherwise NULL */
};
bool eval_wants_trace(const struct eval_run *run, uint64_t sample);
/* Traces every policy in both question modes, unless the results already have the trace. */
int eval_keep_traces(struct eval_run *run, struct eval_kept *kept);

#endif
