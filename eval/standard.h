/* standard.h - what `kvcull eval TASK...` was asked to do. */
#ifndef KVC_EVAL_STANDARD_H
#define KVC_EVAL_STANDARD_H

#include "eval/fidelity.h"
#include "eval/prompt.h"
#include "eval/results.h"

struct eval_run {
    const struct cli_command *command;
    struct cli_common common;
    /* options */
    const char *model_path, *template_name, *variables, *date, *out, *question, *shard, *report;
    const char *files[EVAL_FILES];
    char *words_path; /* where none was given */
    char *out_path;   /* of --ranks data */
    struct cli_texts specs, spans;
    struct cli_counts lengths;
    int64_t samples, seed, show, depths, kept;
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
    float *logits;                 /* [specs, vocab] */
    struct eval_computed computed; /* what was done */
    int32_t *text_tokens;          /* [text_count]: of data.text, once they were asked for */
    size_t text_count;
    struct fidelity fidelity; /* of the window under way */
    struct kvc_policy_class fidelity_class;
};

/* Tasks, shard and files, before anything slow. */
int eval_choose_tasks(struct eval_run *run, const struct cli_words *names);
int eval_choose_shard(struct eval_run *run);
int eval_read_files(struct eval_run *run);
/* Benchmarks' folders (open_sets.c): the sets of the tasks, whose record i is sample i; a run takes no more samples
 * than a set has. The hash of the data that a task needs. */
bool eval_is_folder(int file);
int eval_open_sets(struct eval_run *run);
uint64_t eval_samples_of(const struct eval_run *run, const struct eval_task *task, uint64_t length);
const char *eval_data_hash(const struct eval_run *run, const struct eval_task *task, uint64_t length);
/* "there", "missing"; "" where no file or folder was given, or none is needed. */
const char *eval_whether_there(const struct eval_run *run, const struct eval_task *task);
/* A record with its key fields (samples.c); side 0: the question seen. What the first samples are, for a person. */
json_t *eval_record(const struct eval_run *run, const struct eval_task *task, uint64_t length, uint64_t sample,
                    const char *spec, size_t side);
void eval_show(const struct eval_task *task, uint64_t length, uint64_t index, const struct eval_sample *sample,
               const struct eval_prompt *prompt);
/* Whether options go together; then engine, model, template and results are opened. Both have said what is wrong. */
int eval_run_check(struct eval_run *run);
int eval_run_open(struct eval_run *run);
void eval_run_close(struct eval_run *run);
/* Every sample of the shard that has no result yet. */
int eval_run_samples(struct eval_run *run);
/* The number of a result's sample among all shards', in order; UINT64_MAX: it is of none of the tasks. */
uint64_t eval_unit_number(const struct eval_run *run, const json_t *record);
/* --ranks data (ranks.c): the file of a rank's share, FILE.1of4 say; what all ranks have found, with rank 0, in the
 * order of one process. */
int eval_ranks_name(struct eval_run *run);
int eval_ranks_gather(struct eval_run *run);

/* clang-format off */
#define EVAL_PROMPT_OPTIONS(run)                                                                                      \
    {CLI_GROUP, 0, "Prompts", NULL, NULL, NULL, 0, 0, NULL},                                                          \
        {CLI_FLAG, 0, "raw", NULL, "ask without the chat template", &(run)->raw, 0, 0, NULL},                         \
        {CLI_TEXT, 0, "template", "NAME",                                                                             \
         "another chat template than the model's; `kvcull info templates` lists them", &(run)->template_name, 0, 0,   \
         NULL},                                                                                                       \
        {CLI_TEXT, 0, "template-vars", "JSON", "variables for the template: '{\"enable_thinking\": false}'",          \
         &(run)->variables, 0, 0, NULL},                                                                              \
        {CLI_TEXT, 0, "date", "DATE", "the date for the template, like 2025-06-30", &(run)->date, 0, 0, NULL}
/* clang-format on */

#endif
