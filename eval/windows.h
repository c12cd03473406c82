/* windows.h - tasks without a question: what a policy does to a window of the user's text. */
#ifndef KVC_EVAL_WINDOWS_H
#define KVC_EVAL_WINDOWS_H

#include "eval/singly.h"

enum { EVAL_VALUES = 8 };
struct eval_window {
    struct eval_run *run;
    const int32_t *tokens; /* [count] */
    size_t count;
    size_t prompt;                      /* tokens of these that are the prompt */
    struct kvc_session_options options; /* with the policy that is measured */
    void *state;                        /* what a task keeps from one policy to the next */
    void (*free_state)(void *state);
    char nothing[1];
    /* what is found out */
    double score;
    struct {
        const char *name;
        double value;
    } values[EVAL_VALUES]; /* further figures */
    size_t value_count;
    struct eval_reply reply;
};
/* Sample i is the i-th window of so many tokens; the first half is its prompt. */
enum kvc_status eval_window_open(struct eval_run *run, const struct eval_request *request, struct eval_window *window,
                                 struct kvc_error *error);
void eval_window_close(struct eval_window *window);
/* Whether the text has as many windows as there are samples: KVC_USAGE otherwise. */
enum kvc_status eval_window_fits(struct eval_run *run, const struct eval_request *request, struct kvc_error *error);

/* Nats per token of a window's second half, each token given as a step of its own, as `kvcull perplexity` does. */
enum kvc_status eval_measure_perplexity(struct eval_window *window, struct kvc_error *error);

/* The share of what the full run's answer attended to that a policy holds, in the mean of layers and heads; the other
 * figures of `kvcull eval fidelity` as values. The answer has up to 64 steps, the rest of the window is the prompt. */
enum kvc_status eval_measure_fidelity(struct eval_window *window, struct kvc_error *error);

#endif
