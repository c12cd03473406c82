/* prompt.h - converts samples to tokens, in the model's chat template or plain, with a given length. */
#ifndef KVC_EVAL_PROMPT_H
#define KVC_EVAL_PROMPT_H

#include "eval/task.h"

struct eval_prompter {
    const struct kvc_model *model;
    struct kvc_chat_options chat;
    bool raw;       /* prompts do not use the chat template */
    unsigned flags; /* flags of kvc_tokenize */
};
/* Checks that the template works. */
enum kvc_status eval_prompter_open(struct eval_prompter *prompter, struct kvc_error *error);

struct eval_part { /* tokens of a later question */
    int32_t *tokens;
    size_t count;
    uint64_t hash; /* hash of all tokens up to here, without answers */
};
struct eval_prompt {
    int32_t *tokens; /* malloc'ed */
    size_t count;
    size_t context; /* the first of these are the text; the question follows */
    uint64_t hash;  /* hash of all tokens */
    /* The questions after the first. EVAL_TURNS: begins with the end of the previous answer's turn. EVAL_REQUESTS:
     * replaces the first question after the first `context` tokens. */
    struct eval_part *later;
    size_t later_count;
};
/* Makes the sample's prompts, including the openings of answers. Before eval_prompt_cut, `context` and the hashes are
 * unset, and `later` has whole prompts for EVAL_REQUESTS. */
enum kvc_status eval_prompt_make(const struct eval_prompter *prompter, const struct eval_sample *sample,
                                 enum eval_manner manner, struct eval_prompt *prompt, struct kvc_error *error);
enum kvc_status eval_prompt_cut(const struct eval_prompter *prompter, const struct eval_sample *sample,
                                enum eval_manner manner, struct eval_prompt *prompt, struct kvc_error *error);
void eval_prompt_free(struct eval_prompt *prompt);

enum { EVAL_DEPTHS = 11 };
struct eval_request { /* parameters of one sample */
    const struct eval_task *task;
    const struct eval_data *data;
    const struct eval_prompter *prompter;
    uint64_t seed, index, length;
    uint64_t depths; /* number of different depths; 0: EVAL_DEPTHS */
};
/* Returns the depth (0 to 1) of the answer in sample `index` of a task with depths. */
double eval_depth(uint64_t depths, uint64_t index);
/* Makes the sample whose prompt and answer together take almost `length` tokens, never more. With several questions,
 * all turns count, or the longest request. Texts from the user's files keep their length, or are cut. Returns KVC_USAGE
 * if even the smallest sample is longer. The caller frees both, also after a failure. */
enum kvc_status eval_fit(const struct eval_request *request, struct eval_sample *sample, struct eval_prompt *prompt,
                         struct kvc_error *error);
/* Returns KVC_USAGE if the smallest sample does not fit. */
enum kvc_status eval_fits(const struct eval_request *request, struct kvc_error *error);
uint64_t eval_hash(uint64_t before, const void *bytes,
                   size_t count); /* XXH64 seeded with the previous hash; the first is 0 */
uint64_t eval_hash_tokens(uint64_t before, const int32_t *tokens, size_t count); /* hash of the tokens' bytes */

#endif
