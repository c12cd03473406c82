/* answer.h - one policy's answer to one sample. */
#ifndef KVC_EVAL_ANSWER_H
#define KVC_EVAL_ANSWER_H

#include "eval/prompt.h"

struct eval_answer {
    char *text; /* malloc'ed */
    uint64_t tokens, entries, held_bytes, peak_bytes, read_bytes, steps, prompt_us, answer_us;
};
/* seen: text and question are one prompt. Otherwise the text is a prompt of its own, which the policy's prompt stage
 * compresses, and the question is the next turn. logits [vocab] is for its use. */
enum kvc_status eval_ask(struct kvc_model *model, const struct kvc_session_options *options,
                         const struct eval_prompt *prompt, bool seen, uint32_t most, float *logits,
                         struct eval_answer *answer, struct kvc_error *error);

#endif
