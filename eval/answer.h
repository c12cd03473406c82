/* answer.h - runs several policies on one sample, with one session for each, in one batch. */
#ifndef KVC_EVAL_ANSWER_H
#define KVC_EVAL_ANSWER_H

#include "eval/prompt.h"

struct eval_answer {
    char *text; /* the caller frees it */
    uint64_t tokens, entries, held_bytes, peak_bytes, read_bytes, steps;
    double prompt_seconds, answer_seconds; /* its part of the group's time (docs/how-to/evaluate.md) */
};
struct eval_group {
    struct kvc_model *model;
    size_t count;
    struct kvc_session **sessions; /* [count] */
    struct eval_answer *answers;   /* [count] */
    float *logits;                 /* [count, vocab]: logits of the last row of each session; the caller owns them */
    uint64_t prompt_tokens;        /* sum over the prompts of all sessions so far */
};
/* Opens a session for each of options [count]. The caller closes the group, even after a failure. */
enum kvc_status eval_group_open(struct eval_group *group, struct kvc_model *model,
                                const struct kvc_session_options *options, size_t count, float *logits,
                                struct kvc_error *error);
void eval_group_close(struct eval_group *group);
/* Gives the tokens to all sessions as their next turn. Sessions that can share this computation share it. */
enum kvc_status eval_group_read(struct eval_group *group, const int32_t *tokens, size_t count, struct kvc_error *error);
/* Lets each session answer, up to the end of its turn or `most` tokens, in one batch. */
enum kvc_status eval_group_answer(struct eval_group *group, uint32_t most, struct kvc_error *error);
/* Returns how many of the prompts' tokens were computed. */
uint64_t eval_group_computed(const struct eval_group *group);

/* Reads the sample and answers it. If `seen` is true, text and question are one prompt (question-aware). Otherwise the
 * text is a prompt of its own, which the policies compress, and the question is the next turn (question-agnostic). */
enum kvc_status eval_ask(struct eval_group *group, const struct eval_prompt *prompt, bool seen, uint32_t most,
                         struct kvc_error *error);

#endif
