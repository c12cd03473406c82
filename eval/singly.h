/* singly.h - tasks that policies are asked one by one: several questions about one text, long answers that tell what is
 * held while they grow, and windows of a text that are measured without a question. */
#ifndef KVC_EVAL_SINGLY_H
#define KVC_EVAL_SINGLY_H

#include "eval/standard.h"

enum { EVAL_POINTS = 5 };
struct eval_reply {
    char *text; /* malloc'ed */
    uint64_t tokens, entries, held_bytes, peak_bytes, read_bytes, steps, prompt_us, answer_us;
    /* Of tasks that ask for it: cache and state at some points of the answer, tokens and bytes; and at most in it. */
    uint64_t memory[EVAL_POINTS][2], answer_peak_bytes;
    size_t points;
};
/* One policy's answers to a sample's questions; replies [questions]. seen: the text and the first question (of requests
 * each question) are one prompt; otherwise the text is a prompt of its own, which requests read once. most: tokens of
 * an answer. logits [vocab] is for its use; computed is added to. The caller frees the texts, after a failure, too. */
enum kvc_status eval_converse(struct kvc_model *model, const struct kvc_session_options *options,
                              const struct eval_task *task, const struct eval_prompt *prompt, bool seen, uint32_t most,
                              float *logits, struct eval_reply *replies, struct eval_computed *computed,
                              struct kvc_error *error);

bool eval_is_singly(const struct eval_task *task);
/* How many answers of a sample there are still to be had: all questions of a policy count as one. */
uint64_t eval_singly_missing(const struct eval_run *run, const struct eval_task *task, uint64_t length,
                             uint64_t sample);
/* Asks for those; each adds `length` to *done. */
int eval_singly_run(struct eval_run *run, const struct eval_task *task, uint64_t length, uint64_t sample,
                    struct cli_progress *progress, uint64_t *done, uint64_t total);

#endif
