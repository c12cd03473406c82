/* select.h - oracles of quest, sparq, hsa, topk, rocketkv and rocketkv-mt. */
#ifndef KVC_TESTS_ORACLE_SELECT_H
#define KVC_TESTS_ORACLE_SELECT_H

#include "tests/oracle/oracle.h"

enum choice { TOPK, QUEST, SPARQ, HSA, ROCKET, ROCKET_MT };

struct select_plan { /* one method with the values of its options; 0: not specified */
    enum choice method;
    uint32_t budget, share;           /* tokens, or a percentage of the held entries */
    uint32_t page, dims, topk, local; /* quest: page 0 means auto */
    double ratio, split;              /* split < 0: auto */
    bool no_mean;
    double p;                /* quest, hsa */
    uint32_t window, kernel; /* rocketkv */
    bool average;
    moment_fn *prompt, *step; /* of the method that it is joined with */
    const void *prompt_plan, *step_plan;
    uint32_t left_out; /* one bit for each layer in which the method does not act */
};

select_fn oracle_select;
uint32_t rocket_keeps(const struct moment *moment,
                      const struct select_plan *plan); /* The number of entries that rocketkv's first stage keeps. */
/* What the prompt stage keeps (rocketkv's own stage, or that of the joined method), and the decode stage of the joined
 * method. */
moment_fn select_prompt, select_step;

#endif
