/* prompt.h - converts samples to tokens, with the model's chat template or without, and to a given length. */
#ifndef KVC_EVAL_PROMPT_H
#define KVC_EVAL_PROMPT_H

#include "eval/task.h"

struct eval_prompter {
    const struct kvc_model *model;
    struct kvc_chat_options chat;
    bool raw;       /* true if prompts do not use the chat template */
    unsigned flags; /* flags of kvc_tokenize */
};
/* Checks that the template works. */
enum kvc_status eval_prompter_open(struct eval_prompter *prompter, struct kvc_error *error);

struct eval_part { /* tokens of a later question */
    int32_t *tokens;
    size_t count;
    uint64_t hash; /* hash of all tokens up to this question's end, without the answers */
};
struct eval_prompt {
    int32_t *tokens; /* the caller frees them */
    size_t count;
    size_t context; /* the first `context` tokens are the text; the question follows */
    uint64_t hash;  /* hash of all tokens */
    /* The questions after the first. With EVAL_TURNS, the tokens begin with the end of the turn of the previous answer.
     * With EVAL_REQUESTS, they replace everything after the first `context` tokens. */
    struct eval_part *later;
    size_t later_count;
};
/* Makes the sample's prompts, including the `opening` of each answer. Until eval_prompt_cut is called, `context` and
 * the hashes are not set, and with EVAL_REQUESTS `later` has whole prompts. */
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
    uint64_t depths; /* number of distinct depths; 0: EVAL_DEPTHS */
};
/* Returns the depth (0 to 1) of the answer in sample `index` of a task with depths. */
double eval_depth(uint64_t depths, uint64_t index);
/* Makes the largest sample whose prompt and answer together have at most `length` tokens. If there are several
 * questions, all turns count or, for separate requests, the longest one. Texts from the user's files keep their length
 * or are cut. Returns KVC_USAGE if even the smallest sample is too long. The caller frees the sample and the
 * prompt, even after a failure. */
enum kvc_status eval_fit(const struct eval_request *request, struct eval_sample *sample, struct eval_prompt *prompt,
                         struct kvc_error *error);
/* Returns KVC_USAGE if the smallest sample does not fit. */
enum kvc_status eval_fits(const struct eval_request *request, struct kvc_error *error);
/* Return XXH64 of some bytes, or of the tokens' bytes, seeded with the previous hash. The first seed is 0. */
uint64_t eval_hash(uint64_t before, const void *bytes, size_t count);
uint64_t eval_hash_tokens(uint64_t before, const int32_t *tokens, size_t count);

#endif
