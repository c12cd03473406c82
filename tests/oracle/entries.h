/* entries.h - oracles of methods without queries (random, knorm, keydiff, qfilter, dms, lagkv, cur), of methods that
 * use the scores of these methods or of snapkv (chunkkv, criticalkv), and of snapkv-decode, rkv, expected,
 * triattention, compactor, leverage, noncausal and cap. */
#ifndef KVC_TESTS_ORACLE_ENTRIES_H
#define KVC_TESTS_ORACLE_ENTRIES_H

#include "tests/oracle/oracle.h"

struct entries_plan { /* one method with the values of its options */
    uint32_t budget;
    uint32_t share;    /* a percentage of the held entries that replaces the budget; 0: no percentage */
    uint32_t left_out; /* one bit for each layer in which the method does not act */
    uint32_t recent;   /* random, knorm, keydiff, qfilter; the window of dms */
    uint64_t seed;     /* random */
    uint32_t sinks, lag;
    bool across;                           /* lagkv */
    uint32_t window, chunk, kernel, every; /* chunkkv, snapkv-decode */
    uint32_t gate;                         /* chunkkv; 0: none */
    bool per_layer;                        /* chunkkv */
    bool average;
    bool logits;                   /* rkv */
    float lambda, threshold;       /* rkv; threshold: also dms */
    bool no_covariance, no_values; /* expected */
    float epsilon;                 /* expected, criticalkv */
    double first;                  /* criticalkv */
    bool mean_heads; /* triattention, with statistics [layers, heads, d and d / 2], of which `pairs` are used */
    uint32_t pairs, filter_heads;
    const float *centre, *spread; /* also of expected: [layers, heads, d and d (d + 1) / 2], or NULL; of qfilter and
                                   * dms: the filters [layers, H_kv, d] */
    double blend;                 /* compactor; below 0: not specified */
    double tau;                   /* cap */
    enum { BOTH_PARTS, LEVERAGE_PART, ATTENTION_PART } part; /* compactor, leverage, noncausal */
    uint32_t shares;                                         /* cur: 0 keys, 1 values, 2 their mean, 3 their product */
    enum scorer {
        SCORE_WINDOW,
        SCORE_NORM,
        SCORE_APART,
        SCORE_DRAW,
        SCORE_EXPECTED,
        SCORE_FILTER
    } scorer; /* chunkkv, criticalkv, dms */
};

moment_fn oracle_random, oracle_knorm, oracle_keydiff, oracle_qfilter, oracle_dms, oracle_lagkv, oracle_chunkkv;
moment_fn oracle_snapkv_decode_look, oracle_snapkv_decode;
moment_fn oracle_rkv_look, oracle_rkv, oracle_expected, oracle_criticalkv, oracle_triattention, oracle_compactor,
    oracle_cur, oracle_cap;

/* entries_budget returns the budget. score_entries scores entries by their contents. keep_best keeps the marked entries
 * and then the entries with the highest scores, `many` in all; it never prefers NaN. pool_older pools the first `older`
 * scores. */
uint32_t entries_budget(const struct entries_plan *plan, const struct moment *m, uint32_t at_least);
void score_entries(const struct moment *m, const struct entries_plan *plan, uint32_t h, float *score);
void keep_best(struct head *head, const float *score, bool *kept, uint32_t many);
void pool_older(float *score, uint32_t older, const struct entries_plan *plan);

#endif
