/* fidelity.h - compares a policy with the full cache on one text. `kvcull eval fidelity` and the task share it. */
#ifndef KVC_EVAL_FIDELITY_H
#define KVC_EVAL_FIDELITY_H

#include "cli/cli.h"
#include "kvcull/policy.h"

struct fidelity_score { /* scores of one policy */
    double *recall, *worst,
        *error; /* [layers]: recall, mean of the heads; recall of the worst head; error of the attention outputs */
    double recall_mean, recall_worst, error_mean, divergence;
    uint64_t same, entries;
    uint64_t peak_bytes, held_bytes, end_bytes; /* cache at its peak in prefill, at the first token, and at the end */
    uint64_t read_bytes, select_bytes;          /* bytes per decode step */
};

struct fidelity_entry {
    float mass;
    int32_t position;
};

struct fidelity { /* a text, and the run with the full cache on it */
    struct kvc_engine *engine;
    struct kvc_model *model;
    const struct kvc_session_options *options; /* options of all sessions, without the policy */
    const int32_t *tokens;
    size_t count; /* number of prompt tokens */
    size_t steps; /* number of decode steps in the answer */
    uint32_t layers, kv_heads, vocab;
    size_t width; /* H * d */
    /* results of the run with the full cache: */
    int32_t *answer; /* [steps + 1] */
    float *logits;   /* [steps + 1, vocab] */
    float *outputs;  /* [steps, layers, H * d] */
    float *mass;     /* [layers, H_kv, count]: attention mass that the answer's queries gave to every prompt entry */
    struct fidelity_entry *gold; /* the entries of `mass`, in descending order */
    size_t step;                 /* current step */
    struct fidelity_score *now;
};

/* Makes the policy class for the run with the full cache. The caller registers the class with the engine. The class's
 * user pointer is `fidelity`. */
void fidelity_class(struct kvc_policy_class *class, struct fidelity *fidelity);
/* Runs the text with the full cache. The caller has set the members up to `steps`, and calls fidelity_close, even after
 * a failure. */
enum kvc_status fidelity_open(struct fidelity *fidelity, struct kvc_error *error);
void fidelity_close(struct fidelity *fidelity);
/* Runs the text with a policy and compares it with the full cache. The caller calls fidelity_score_free, even after a
 * failure. */
enum kvc_status fidelity_run(struct fidelity *fidelity, const char *spec, struct fidelity_score *score,
                             struct kvc_error *error);
void fidelity_score_free(struct fidelity_score *score);

#endif
