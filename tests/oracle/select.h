/* select.h - oracles of quest, sparq, hsa, topk, rocketkv and rocketkv-mt. */
#ifndef KVC_TESTS_ORACLE_SELECT_H
#define KVC_TESTS_ORACLE_SELECT_H

#include "tests/oracle/oracle.h"

enum choice { TOPK, QUEST, SPARQ, HSA, ROCKET, ROCKET_MT };

struct select_plan { /* one method with the values of its options; 0: not specified */
    enum choice method;
    uint32_t budget, share;           /* tokens, or a percentage of the held entries */
    uint32_t page, dims, topk, local; /* the options of quest, sparq, hsa and topk; page 0 means auto */
    double ratio, split;              /* a negative split means auto */
    bool no_mean;
    double p;                /* quest, hsa */
    uint32_t window, kernel; /* rocketkv */
    bool is_split;           /* the budget is split: a prompt method has left only a part of the held entries */
    bool average;
    moment_fn *prompt, *step; /* functions of the method that this method is joined with */
    const void *prompt_plan, *step_plan;
    uint32_t left_out; /* one bit for each layer in which the method does not act */
};

select_fn oracle_select;
uint32_t
rocket_keeps(const struct moment *moment,
             const struct select_plan *plan); /* returns the number of entries that rocketkv's first stage keeps */
/* select_prompt runs the prompt stage of rocketkv or of the joined method, and select_step runs the decode stage of the
 * joined method. */
moment_fn select_prompt, select_step;

#endif
