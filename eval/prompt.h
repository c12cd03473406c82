/* prompt.h - samples as tokens: in the model's chat template or plain, as long as was asked for. */
#ifndef KVC_EVAL_PROMPT_H
#define KVC_EVAL_PROMPT_H

#include "eval/task.h"

struct eval_prompter {
    const struct kvc_model *model;
    struct kvc_chat_options chat;
    bool raw;       /* without the chat template */
    unsigned flags; /* of kvc_tokenize */
};
/* Looks whether the template will do. */
enum kvc_status eval_prompter_open(struct eval_prompter *prompter, struct kvc_error *error);

struct eval_prompt {
    int32_t *tokens; /* malloc'ed */
    size_t count;
    size_t context; /* of these, the first that are the text alone; the question follows */
    uint64_t hash;  /* of all */
};
/* The sample's prompt, the opening of the answer included; without `context` and `hash`. */
enum kvc_status eval_prompt_make(const struct eval_prompter *prompter, const struct eval_sample *sample,
                                 struct eval_prompt *prompt, struct kvc_error *error);
void eval_prompt_free(struct eval_prompt *prompt);

struct eval_request { /* of one sample */
    const struct eval_task *task;
    const struct eval_data *data;
    const struct eval_prompter *prompter;
    uint64_t seed, index, length;
};
/* The sample whose prompt and answer together take nearly `length` tokens, and never more. KVC_USAGE: there is none
 * that short. The caller frees both, after a failure, too. */
enum kvc_status eval_fit(const struct eval_request *request, struct eval_sample *sample, struct eval_prompt *prompt,
                         struct kvc_error *error);
/* Whether the smallest sample is short enough: KVC_USAGE otherwise. */
enum kvc_status eval_fits(const struct eval_request *request, struct kvc_error *error);
uint64_t eval_hash(uint64_t before, const void *bytes, size_t count); /* XXH64 seeded with the hash before; first 0 */

#endif
