/* scores.h - oracles of pyramidkv, adakv, scissorhands, lacache, duo, tova, finch and simlayerkv, and of joined
 * methods. */
#ifndef KVC_TESTS_ORACLE_SCORES_H
#define KVC_TESTS_ORACLE_SCORES_H

#include "tests/oracle/oracle.h"

struct scores_plan { /* one method with the values of its options */
    uint32_t budget;
    uint32_t share;                /* a percentage of the held entries that replaces the budget; 0: no percentage */
    uint32_t left_out;             /* one bit for each layer in which the method does not act */
    uint32_t window, kernel, beta; /* pyramidkv, adakv */
    bool average;
    double floor;
    uint32_t history, recent; /* scissorhands: both, where recent 0 means half of the budget; duo: recent */
    bool prompt_only;         /* scissorhands does not observe decode steps */
    uint32_t span, overlap, sinks;
    const float *scores; /* duo: [layers, H_kv] */
    float threshold;
    bool plain;         /* finch: normalize=off */
    uint32_t chunk;     /* finch */
    double share_above; /* simlayerkv: the threshold */
    bool by_group;      /* tova: each list decides for itself */
    uint32_t apart;     /* tova: one bit for each layer in which it does so because another method evicts there */
};

moment_fn oracle_pyramidkv, oracle_adakv;
moment_fn oracle_scissorhands_look, oracle_scissorhands, oracle_scissorhands_step;
moment_fn oracle_lacache, oracle_duo;
moment_fn oracle_tova, oracle_finch, oracle_simlayerkv;

/* The functions that observe the prompt, evict after it, and evict after a step, each with its plan. A NULL function
 * does nothing. */
struct parts {
    moment_fn *look, *prompt, *step;
    const void *look_plan, *prompt_plan, *step_plan;
};
moment_fn parts_prompt, parts_step;

#endif
