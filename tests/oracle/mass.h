/* mass.h - oracles of h2o, keyformer, cake and fastkv. */
#ifndef KVC_TESTS_ORACLE_MASS_H
#define KVC_TESTS_ORACLE_MASS_H

#include "tests/oracle/oracle.h"

struct cake_seen { /* statistics of the layers that the turn has passed */
    double P[32];
    uint32_t older[32], mean;
};

struct mass_plan { /* one method with the values of its options */
    uint32_t budget;
    uint32_t share;           /* a percentage of the held entries that replaces the budget; 0: no percentage */
    uint32_t left_out;        /* one bit for each layer in which the method does not act */
    uint32_t recent;          /* h2o, keyformer; 0 means half of the budget */
    bool keeps_prompt;        /* h2o */
    bool noise;               /* keyformer */
    double tau_init, tau_end; /* keyformer */
    uint32_t steps;
    uint64_t seed;
    uint32_t window, kernel; /* cake, fastkv */
    bool average;
    double gamma, tau1, tau2; /* cake */
    struct cake_seen *seen;
    uint32_t tsp, tsp_layer; /* fastkv */
};

/* oracle_mass_look records the attention of all queries of a turn or step to the entries, oracle_mass evicts by the
 * sums, and oracle_mass_step does both. */
moment_fn oracle_mass_look, oracle_mass, oracle_mass_step;
/* Returns the sum over all queries so far of the attention to an entry, in tiles of 256 positions. */
float oracle_mass_sum(const struct entry *e, uint32_t now);
moment_fn oracle_cake, oracle_fastkv; /* fastkv also records in t->kept_rows which rows reach the layers above */

#endif
