/* select.h - oracles of quest, sparq, hsa, topk, rocketkv and rocketkv-mt. */
#ifndef KVC_TESTS_ORACLE_SELECT_H
#define KVC_TESTS_ORACLE_SELECT_H

#include "tests/oracle/oracle.h"

enum choice { TOPK, QUEST, SPARQ, HSA, ROCKET, ROCKET_MT };

struct select_plan { /* one method, as its options say; 0: not given */
    enum choice method;
    uint32_t budget, share;           /* tokens, or percent of what is held */
    uint32_t page, dims, topk, local; /* quest: page 0 is auto */
    double ratio, split;              /* split < 0: auto */
    bool no_mean;
    double p;                /* quest, hsa */
    uint32_t window, kernel; /* rocketkv */
    bool average;
    moment_fn *prompt, *step; /* of what it is joined with */
    const void *prompt_plan, *step_plan;
    uint32_t left_out; /* a bit for each layer that stays full */
};

select_fn oracle_select;
uint32_t rocket_keeps(const struct moment *moment, const struct select_plan *plan); /* rocketkv's first stage */
/* What the prompt stage keeps (rocketkv's own, or what it is joined with), and the decode stage of what it is joined
 * with. */
moment_fn select_prompt, select_step;

#endif
