/* answer.h - the answers of several policies to one sample: a session each, asked together. */
#ifndef KVC_EVAL_ANSWER_H
#define KVC_EVAL_ANSWER_H

#include "eval/prompt.h"

struct eval_answer {
    char *text; /* malloc'ed */
    uint64_t tokens, entries, held_bytes, peak_bytes, read_bytes, steps;
    double prompt_seconds, answer_seconds; /* its share of what the group took (docs/how-to/evaluate.md) */
};
struct eval_group {
    struct kvc_model *model;
    size_t count;
    struct kvc_session **sessions; /* [count] */
    struct eval_answer *answers;   /* [count] */
    float *logits;                 /* [count, vocab], the caller's: of what was read last */
    uint64_t prompt_tokens;        /* of all sessions' prompts so far */
};
/* options [count]. The caller closes the group, after a failure, too. */
enum kvc_status eval_group_open(struct eval_group *group, struct kvc_model *model,
                                const struct kvc_session_options *options, size_t count, float *logits,
                                struct kvc_error *error);
void eval_group_close(struct eval_group *group);
/* All sessions read the tokens as their next turn: computed once for those that may share them. */
enum kvc_status eval_group_read(struct eval_group *group, const int32_t *tokens, size_t count, struct kvc_error *error);
/* Each answers what it read, until the end of its turn or `most` tokens, in one batch. */
enum kvc_status eval_group_answer(struct eval_group *group, uint32_t most, struct kvc_error *error);
/* Of the prompts' tokens, how many were computed. */
uint64_t eval_group_computed(const struct eval_group *group);

/* The sample: read and answered. seen: text and question are one prompt. Otherwise the text is a prompt of its own,
 * which the policies' prompt stages compress, and the question is the next turn. */
enum kvc_status eval_ask(struct eval_group *group, const struct eval_prompt *prompt, bool seen, uint32_t most,
                         struct kvc_error *error);

#endif
