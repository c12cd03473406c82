/* standard.h - options and state of `kvcull eval TASK...`. */
#ifndef KVC_EVAL_STANDARD_H
#define KVC_EVAL_STANDARD_H

#include "eval/fidelity.h"
#include "eval/prompt.h"
#include "eval/results.h"

struct eval_run {
    const struct cli_command *command;
    struct cli_common common;
    /* values of the options */
    const char *model_path, *template_name, *variables, *date, *out, *question, *shard, *report;
    const char *files[EVAL_FILES];
    char *words_path; /* default path, if the option is absent */
    char *out_path;   /* path of the file with this rank's results (--ranks data) */
    struct cli_texts specs, spans;
    struct cli_counts lengths;
    int64_t samples, seed, show, depths, kept;
    uint64_t memory; /* limit for the caches of sessions that run together; 0: half of the free memory */
    bool raw, resume, list, alone;
    /* set from the options */
    const struct eval_task **tasks; /* [task_count] */
    size_t task_count;
    uint64_t shard_index, shards; /* counted from 0 */
    bool sides[2];                /* [0]: question-aware; [1]: question-agnostic */
    struct eval_data data;
    char data_hash[EVAL_FILES][20];
    struct kvc_engine *engine;
    struct kvc_model *model;
    struct eval_prompter prompter;
    struct eval_results results;
    float *logits;                 /* [specs, vocab] */
    struct eval_computed computed; /* numbers of prompt tokens: in total, and computed */
    int32_t *text_tokens;          /* [text_count]: tokens of data.text, made on demand */
    size_t text_count;
    struct fidelity fidelity; /* data of the current window */
    struct kvc_policy_class fidelity_class;
};

/* Read the tasks, the shard and the files. Called before anything slow. */
int eval_choose_tasks(struct eval_run *run, const struct cli_words *names);
int eval_choose_shard(struct eval_run *run);
int eval_read_files(struct eval_run *run);
/* Returns "there" or "missing" for the file that was given for the task; "" if the task needs no file or none was
 * given. */
const char *eval_whether_there(const struct eval_run *run, const struct eval_task *task);
/* eval_record returns a record with its key fields (samples.c); side 0 is question-aware. eval_show prints a sample for
 * the user. */
json_t *eval_record(const struct eval_run *run, const struct eval_task *task, uint64_t length, uint64_t sample,
                    const char *spec, size_t side);
void eval_show(const struct eval_task *task, uint64_t length, uint64_t index, const struct eval_sample *sample,
               const struct eval_prompt *prompt);
/* Check that the options agree with each other; open engine, model, template and results. Both print their errors. */
int eval_run_check(struct eval_run *run);
int eval_run_open(struct eval_run *run);
void eval_run_close(struct eval_run *run);
/* Runs every sample of the shard that has no result. */
int eval_run_samples(struct eval_run *run);
/* Returns the number of a result's sample over all shards; UINT64_MAX: it belongs to no task. */
uint64_t eval_unit_number(const struct eval_run *run, const json_t *record);
/* For --ranks data (ranks.c): eval_ranks_name sets the name of the file with a rank's results (FILE.1of4), and
 * eval_ranks_gather collects the results of all ranks on rank 0, in the order of a single process. */
int eval_ranks_name(struct eval_run *run);
int eval_ranks_gather(struct eval_run *run);

/* clang-format off */
#define EVAL_PROMPT_OPTIONS(run)                                                                                      \
    {CLI_GROUP, 0, "Prompts", NULL, NULL, NULL, 0, 0, NULL},                                                          \
        {CLI_FLAG, 0, "raw", NULL, "use no chat template", &(run)->raw, 0, 0, NULL},                         \
        {CLI_TEXT, 0, "template", "NAME",                                                                             \
         "a chat template other than the model's; `kvcull info templates` lists them", &(run)->template_name, 0, 0,   \
         NULL},                                                                                                       \
        {CLI_TEXT, 0, "template-vars", "JSON", "variables for the template: '{\"enable_thinking\": false}'",          \
         &(run)->variables, 0, 0, NULL},                                                                              \
        {CLI_TEXT, 0, "date", "DATE", "date for the template, such as 2025-06-30", &(run)->date, 0, 0, NULL}
/* clang-format on */

#endif
