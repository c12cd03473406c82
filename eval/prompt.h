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

struct eval_part { /* tokens of a later question */
    int32_t *tokens;
    size_t count;
    uint64_t hash; /* of all that the model was given until then, answers aside */
};
struct eval_prompt {
    int32_t *tokens; /* malloc'ed */
    size_t count;
    size_t context; /* of these, the first that are the text alone; the question follows */
    uint64_t hash;  /* of all */
    /* The questions after the first. EVAL_TURNS: from the end of the answer before, what ends its turn included.
     * EVAL_REQUESTS: what follows the first `context` tokens in the first question's place. */
    struct eval_part *later;
    size_t later_count;
};
/* The sample's prompts, the openings of answers included. Until eval_prompt_cut there is neither `context` nor a hash,
 * and EVAL_REQUESTS have whole prompts in `later`. */
enum kvc_status eval_prompt_make(const struct eval_prompter *prompter, const struct eval_sample *sample,
                                 enum eval_manner manner, struct eval_prompt *prompt, struct kvc_error *error);
enum kvc_status eval_prompt_cut(const struct eval_prompter *prompter, const struct eval_sample *sample,
                                enum eval_manner manner, struct eval_prompt *prompt, struct kvc_error *error);
void eval_prompt_free(struct eval_prompt *prompt);

enum { EVAL_DEPTHS = 11 };
struct eval_request { /* of one sample */
    const struct eval_task *task;
    const struct eval_data *data;
    const struct eval_prompter *prompter;
    uint64_t seed, index, length;
    uint64_t depths; /* how many different ones; 0: EVAL_DEPTHS */
};
/* At which depth sample `index` of a task with depths has what it asks for, 0 to 1. */
double eval_depth(uint64_t depths, uint64_t index);
/* The sample whose prompt and answer together take nearly `length` tokens, and never more; of several questions those
 * of all turns, or of the longest request. Texts of the user's files are as long as they are, but never longer.
 * KVC_USAGE: there is none that short. The caller frees both, after a failure, too. */
enum kvc_status eval_fit(const struct eval_request *request, struct eval_sample *sample, struct eval_prompt *prompt,
                         struct kvc_error *error);
/* Whether the smallest sample is short enough: KVC_USAGE otherwise. */
enum kvc_status eval_fits(const struct eval_request *request, struct kvc_error *error);
uint64_t eval_hash(uint64_t before, const void *bytes, size_t count); /* XXH64 seeded with the hash before; first 0 */
uint64_t eval_hash_tokens(uint64_t before, const int32_t *tokens, size_t count); /* of each token's bytes in turn */

#endif
