/* scores.h - oracles of pyramidkv, adakv, scissorhands, lacache, duo and tova, and of joined methods. */
#ifndef KVC_TESTS_ORACLE_SCORES_H
#define KVC_TESTS_ORACLE_SCORES_H

#include "tests/oracle/oracle.h"

struct scores_plan { /* one method, as its options say */
    uint32_t budget;
    uint32_t share;                /* percent of what is held, instead of the budget; 0: none */
    uint32_t left_out;             /* a bit for each layer that stays full */
    uint32_t window, kernel, beta; /* pyramidkv, adakv */
    bool average;
    double floor;
    uint32_t history, recent; /* scissorhands; recent 0: half. duo: recent, sinks */
    bool prompt_only;         /* scissorhands sees no decode steps */
    uint32_t span, overlap, sinks;
    const float *scores; /* duo: [layers, H_kv] */
    float threshold;
};

moment_fn oracle_pyramidkv, oracle_adakv;
moment_fn oracle_scissorhands_look, oracle_scissorhands, oracle_scissorhands_step;
moment_fn oracle_lacache, oracle_duo;
moment_fn oracle_tova;

/* What looks at the prompt, what evicts after it, what evicts after a step; each with its plan; NULL: none. */
struct parts {
    moment_fn *look, *prompt, *step;
    const void *look_plan, *prompt_plan, *step_plan;
};
moment_fn parts_prompt, parts_step;

#endif
