/* standard.h - what `kvcull eval TASK...` was asked to do. */
#ifndef KVC_EVAL_STANDARD_H
#define KVC_EVAL_STANDARD_H

#include "eval/prompt.h"
#include "eval/results.h"

struct eval_run {
    const struct cli_command *command;
    struct cli_common common;
    /* options */
    const char *model_path, *template_name, *variables, *date, *out, *question, *shard;
    const char *files[EVAL_FILES];
    struct cli_texts specs;
    struct cli_counts lengths;
    int64_t samples, seed, show;
    uint64_t memory; /* bytes that sessions asked together may hold; 0: half of what is left */
    bool raw, resume, list, alone;
    /* what they come to */
    const struct eval_task **tasks; /* [task_count] */
    size_t task_count;
    uint64_t shard_index, shards; /* from 0 */
    bool sides[2];                /* the question seen, and not */
    struct eval_data data;
    char data_hash[EVAL_FILES][20];
    struct kvc_engine *engine;
    struct kvc_model *model;
    struct eval_prompter prompter;
    struct eval_results results;
    float *logits; /* [specs, vocab] */
    /* what was done: tokens of prompts, and how many of them were computed */
    uint64_t prompt_tokens, computed_tokens;
};

/* Tasks, shard and files, before anything slow. */
int eval_choose_tasks(struct eval_run *run, const struct cli_words *names);
int eval_choose_shard(struct eval_run *run);
int eval_read_files(struct eval_run *run);
/* Every sample of the shard that has no result yet. */
int eval_run_samples(struct eval_run *run);

#endif
