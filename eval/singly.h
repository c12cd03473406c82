/* singly.h - tasks that run one policy at a time: several questions about one text, long answers whose memory is
 * measured while they grow, and windows of text that are measured without a question. */
#ifndef KVC_EVAL_SINGLY_H
#define KVC_EVAL_SINGLY_H

#include "eval/standard.h"

enum { EVAL_POINTS = 5 };
struct eval_reply {
    char *text; /* the caller frees it */
    uint64_t tokens, entries, held_bytes, peak_bytes, read_bytes, steps, prompt_us, answer_us;
    /* For tasks with `memory`: pairs of a number of tokens and the bytes of cache and state, at some points of the
     * answer, and the maximum of these bytes. */
    uint64_t memory[EVAL_POINTS][2], answer_peak_bytes;
    size_t points;
};
/* Answers a sample's questions with one policy, in replies [questions]. If `seen` is true, the text and the first
 * question (with EVAL_REQUESTS, each question) are one prompt. Otherwise the text is a prompt of its own, which is read
 * once for all requests. An answer has at most `most` tokens. logits [vocab] is scratch. Adds the numbers of tokens to
 * *computed. The caller frees the texts, even after a failure. */
enum kvc_status eval_converse(struct kvc_model *model, const struct kvc_session_options *options,
                              const struct eval_task *task, const struct eval_prompt *prompt, bool seen, uint32_t most,
                              float *logits, struct eval_reply *replies, struct eval_computed *computed,
                              struct kvc_error *error);

bool eval_is_singly(const struct eval_task *task);
/* Returns the number of answers of a sample that are missing. All questions to one policy count as one. */
uint64_t eval_singly_missing(const struct eval_run *run, const struct eval_task *task, uint64_t length,
                             uint64_t sample);
/* Computes the missing answers, and adds `length` to *done for each. */
int eval_singly_run(struct eval_run *run, const struct eval_task *task, uint64_t length, uint64_t sample,
                    struct cli_progress *progress, uint64_t *done, uint64_t total);

#endif
