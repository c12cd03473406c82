/* mass.h - oracles of h2o, keyformer, cake and fastkv. */
#ifndef KVC_TESTS_ORACLE_MASS_H
#define KVC_TESTS_ORACLE_MASS_H

#include "tests/oracle/oracle.h"

struct cake_seen { /* of the layers that the turn has passed */
    double P[32];
    uint32_t older[32], mean;
};

struct mass_plan { /* one method, as its options say */
    uint32_t budget;
    uint32_t share;           /* percent of what is held, instead of the budget; 0: none */
    uint32_t left_out;        /* a bit for each layer that stays full */
    uint32_t recent;          /* h2o, keyformer; 0: half */
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

/* What all queries of a turn, or a step's, give the entries; eviction by the sums; both for a step. */
moment_fn oracle_mass_look, oracle_mass, oracle_mass_step;
moment_fn oracle_cake, oracle_fastkv; /* fastkv also says in t->kept_rows which rows reach the layers above */

#endif
