/* entries.h - oracles of random, knorm, keydiff and lagkv, which look at no query, of chunkkv, which takes scores of
 * these or of snapkv, and of snapkv-decode. */
#ifndef KVC_TESTS_ORACLE_ENTRIES_H
#define KVC_TESTS_ORACLE_ENTRIES_H

#include "tests/oracle/oracle.h"

struct entries_plan { /* one method, as its options say */
    uint32_t budget;
    uint32_t share;    /* percent of what is held, instead of the budget; 0: none */
    uint32_t left_out; /* a bit for each layer that stays full */
    uint32_t recent;   /* random, knorm, keydiff */
    uint64_t seed;     /* random */
    uint32_t sinks, lag;
    bool across;                           /* lagkv */
    uint32_t window, chunk, kernel, every; /* chunkkv, snapkv-decode */
    bool average;
    enum scorer { SCORE_WINDOW, SCORE_NORM, SCORE_APART, SCORE_DRAW } scorer; /* chunkkv */
};

moment_fn oracle_random, oracle_knorm, oracle_keydiff, oracle_lagkv, oracle_chunkkv;
moment_fn oracle_snapkv_decode_look, oracle_snapkv_decode;

#endif
