/* windows.h - tasks without questions: they measure a policy on a window of the user's text. */
#ifndef KVC_EVAL_WINDOWS_H
#define KVC_EVAL_WINDOWS_H

#include "eval/singly.h"

enum { EVAL_VALUES = 8 };
struct eval_window {
    struct eval_run *run;
    const int32_t *tokens; /* [count] */
    size_t count;
    size_t prompt;                      /* the number of tokens, from the first on, that are the prompt */
    struct kvc_session_options options; /* these options include the policy to measure */
    void *state;                        /* data that a task keeps from one policy to the next */
    void (*free_state)(void *state);
    char nothing[1];
    /* results */
    double score;
    struct {
        const char *name;
        double value;
    } values[EVAL_VALUES]; /* further results */
    size_t value_count;
    struct eval_reply reply;
};
/* Opens sample i, which is the i-th window of `length` tokens. The first half of the window is the prompt. */
enum kvc_status eval_window_open(struct eval_run *run, const struct eval_request *request, struct eval_window *window,
                                 struct kvc_error *error);
void eval_window_close(struct eval_window *window);
/* Checks that the text has a window for each sample. Returns KVC_USAGE if it does not. */
enum kvc_status eval_window_fits(struct eval_run *run, const struct eval_request *request, struct kvc_error *error);

/* Measures the nats per token of the window's second half, one step per token, as `kvcull perplexity` does. */
enum kvc_status eval_measure_perplexity(struct eval_window *window, struct kvc_error *error);

/* Measures the recall of `kvcull eval fidelity`: of the entries that the full run attended to most, the fraction that
 * the policy holds, averaged over layers and heads. The other figures of `kvcull eval fidelity` go to
 * window->values. The answer has up to 64 steps; the rest of the window is the prompt. */
enum kvc_status eval_measure_fidelity(struct eval_window *window, struct kvc_error *error);

#endif
