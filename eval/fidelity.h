/* fidelity.h - how near a policy stays to the full cache on a text: what the command and the task share. */
#ifndef KVC_EVAL_FIDELITY_H
#define KVC_EVAL_FIDELITY_H

#include "cli/cli.h"
#include "kvcull/policy.h"

struct fidelity_score {             /* of one policy */
    double *recall, *worst, *error; /* [layers]: the heads' mean, the worst head, of the outputs */
    double recall_mean, recall_worst, error_mean, divergence;
    uint64_t same, entries;
    uint64_t peak_bytes, held_bytes, end_bytes; /* in prefill, at the first token, at the end */
    uint64_t read_bytes, select_bytes;          /* a step */
};

struct fidelity_entry {
    float mass;
    int32_t position;
};

struct fidelity { /* of one text */
    struct kvc_engine *engine;
    struct kvc_model *model;
    const struct kvc_session_options *options; /* of all sessions; the policies are named beside */
    const int32_t *tokens;
    size_t count; /* prompt tokens */
    size_t steps; /* decode steps of the answer */
    uint32_t layers, kv_heads, vocab;
    size_t width; /* H * d */
    /* of the full run: */
    int32_t *answer;             /* [steps + 1] */
    float *logits;               /* [steps + 1, vocab] */
    float *outputs;              /* [steps, layers, H * d] */
    float *mass;                 /* [layers, H_kv, count]: what the answer's queries gave every prompt entry */
    struct fidelity_entry *gold; /* the same, with most mass first */
    size_t step;                 /* under way */
    struct fidelity_score *now;
};

/* The policy of the full run, to be registered with the engine before: its user is where the fidelity lies that runs.
 */
void fidelity_class(struct kvc_policy_class *class, struct fidelity *fidelity);
/* The full run of a text, of which the first members are filled. fidelity_close after a failure, too. */
enum kvc_status fidelity_open(struct fidelity *fidelity, struct kvc_error *error);
void fidelity_close(struct fidelity *fidelity);
/* A policy's run beside it; fidelity_score_free after a failure, too. */
enum kvc_status fidelity_run(struct fidelity *fidelity, const char *spec, struct fidelity_score *score,
                             struct kvc_error *error);
void fidelity_score_free(struct fidelity_score *score);

#endif
