/* standard.c - `kvcull eval TASK...`: runs standard tasks with every policy, and stores every sample's result. */
#include "eval/eval.h"
#include "eval/report.h"
#include "eval/standard.h"

#include <stdlib.h>
#include <string.h>

int eval_run_check(struct eval_run *run) {
    int status = KVC_OK;
    if (run->specs.count == 0)
        status = cli_error(run->command, KVC_USAGE, "no policy; give for example --kv full --kv snapkv:budget=128");
    if (status == KVC_OK && run->resume && !run->out)
        status = cli_error(run->command, KVC_USAGE, "--resume needs --out FILE");
    if (status == KVC_OK && run->report)
        status = cli_check_inputs(run->command, run->report,
                                  (const char *const[]){run->model_path, run->resume ? run->out : NULL}, 2);
    if (status == KVC_OK && run->report)
        status = eval_report_check(run->command, run->report);
    if (run->kept == 0 && (run->report || run->spans.count > 0))
        run->kept = 1;
    if (status == KVC_OK && run->raw && (run->template_name || run->variables || run->date))
        status = cli_error(run->command, KVC_USAGE,
                           "--raw uses no chat template, but --template, --template-vars and "
                           "--date need one");
    return status;
}

int eval_run_open(struct eval_run *run) {
    struct kvc_error error;
    int status = cli_open_model(run->command, &run->common, run->model_path, &run->specs, &run->engine, &run->model);
    if (status != KVC_OK)
        return status;
    kvc_chat_defaults(&run->prompter.chat);
    run->prompter.model = run->model;
    run->prompter.raw = run->raw;
    run->prompter.chat.template_name =
        run->template_name && strcmp(run->template_name, "model") == 0 ? NULL : run->template_name;
    run->prompter.chat.variables = run->variables;
    run->prompter.chat.date = run->date;
    if (eval_prompter_open(&run->prompter, &error) != KVC_OK)
        return cli_report(run->command, &error);
    run->logits = malloc(run->specs.count * (size_t)kvc_model_info(run->model)->vocab * sizeof *run->logits);
    if (!run->logits)
        return cli_no_memory(run->command);
    status = eval_results_start(run->command, &run->results);
    if (status == KVC_OK && run->out)
        status = eval_results_append_to(&run->results, run->out, run->resume);
    return status;
}

void eval_run_close(struct eval_run *run) {
    free(run->tasks);
    free(run->logits);
    free(run->text_tokens);
    free(run->words_path);
    free(run->out_path);
    eval_results_close(&run->results);
    eval_data_free(&run->data);
    kvc_model_close(run->model);
    kvc_engine_close(run->engine);
    cli_texts_free(&run->specs);
    cli_texts_free(&run->spans);
}

static int run_tasks(struct eval_run *run, const struct cli_words *names) {
    int status = eval_choose_tasks(run, names);
    if (status == KVC_OK)
        status = eval_choose_shard(run);
    if (status == KVC_OK)
        status = eval_run_check(run);
    for (size_t i = 0; i < run->lengths.count && status == KVC_OK; i++) {
        if (run->common.context > 0 && run->lengths.items[i] > (uint64_t)run->common.context)
            status = cli_error(run->command, KVC_USAGE, "--length %llu: must not exceed --ctx %lld",
                               (unsigned long long)run->lengths.items[i], (long long)run->common.context);
    }
    if (status == KVC_OK)
        status = eval_read_files(run);
    if (status == KVC_OK)
        status = eval_ranks_name(run);
    if (status == KVC_OK)
        status = eval_run_open(run);
    if (run->model)
        status = cli_same_bytes(run->command, status, "the data of the tasks", run->data_hash, sizeof run->data_hash);
    if (status == KVC_OK)
        status = eval_run_samples(run);
    status = cli_agree(run->command, status);
    return status == KVC_OK ? eval_ranks_gather(run) : status;
}

/* Shows all results. */
static int standard_show(const struct eval_run *run) {
    if (json_array_size(run->results.records) == 0) {
        cli_warn(run->command, "--shard %s: has no samples", run->shard ? run->shard : "1/1");
        return KVC_OK;
    }
    return eval_results_show(&run->results, &run->computed, run->common.json, run->report);
}

/* Prints the maximum number of tokens of an answer, or which part of the length it is. */
static void add_answer_cell(struct cli_table *table, const struct eval_task *task) {
    if (task->way || task->measure)
        cli_cell(table, "%s", "");
    else if (task->answer == 0)
        cli_cell(table, "3/4");
    else
        cli_cell(table, "%u", (unsigned)task->answer);
}

static int standard_list(const struct eval_run *run) {
    const struct cli_command *command = run->command;
    const struct cli_common *common = &run->common;
    struct cli_table *table = cli_table_open("<task|<group|answer|<needs|<");
    json_t *tasks = json_array(), *root = json_object();
    for (const struct eval_task *task = eval_tasks; task->name; task++) {
        const char *needs = task->file >= 0 ? eval_file_options[task->file] : "";
        json_t *one = json_object();
        cli_cell(table, "%s", task->name);
        cli_cell(table, "%s", task->group && !strchr(task->name, '/') ? task->group : "");
        add_answer_cell(table, task);
        const char *found = eval_whether_there(run, task);
        cli_cell(table, "%s%s%s%s%s%s", task->optional ? "[" : "", task->file >= 0 ? "--" : "", needs,
                 task->optional ? "]" : "", found[0] ? ": " : "", found);
        cli_cell(table, "%s%s%s%s", task->summary, task->way ? " (`" : "", task->way ? task->way : "",
                 task->way ? "`)" : "");
        cli_json_set(one, "name", json_string(task->name));
        cli_json_set(one, "group", task->group ? json_string(task->group) : json_null());
        cli_json_set(one, "summary", json_string(task->summary));
        cli_json_set(one, "answer_tokens", json_integer(task->answer));
        cli_json_set(one, "questions", json_integer(task->measure || task->way ? 0 : eval_task_questions(task)));
        cli_json_set(one, "unit", json_string(eval_units[task->unit]));
        cli_json_set(one, "needs", json_string(task->optional ? "" : needs));
        cli_json_set(one, "found", json_string(found));
        json_array_append_new(tasks, one);
    }
    cli_json_set(root, "tasks", tasks);
    int status = KVC_OK;
    if (common->json)
        status = cli_json_print(command, root, stdout);
    else
        status = cli_table_print(command, table, stdout);
    if (!common->json)
        json_decref(root);
    cli_table_free(table);
    return status == KVC_OK ? cli_flush(command) : status;
}

enum { NAME_COLUMNS = 17 };

static const char own_prefix[] = "eval "; /* beginning of the names in cli_eval_tasks */

/* Prints a name and its summary. A name that is too long for its column gets a line of its own. */
static void print_entry(const char *name, const char *summary) {
    if (strlen(name) + 1 > NAME_COLUMNS)
        printf("  %s\n  %*s%s\n", name, NAME_COLUMNS, "", summary);
    else
        printf("  %-*s%s\n", NAME_COLUMNS, name, summary);
}

static int help(const struct cli_command *command, const struct cli_option *options) {
    cli_help(command, options);
    printf("\nTasks:\n");
    for (const struct eval_task *task = eval_tasks; task->name; task++) {
        if (!task->way)
            print_entry(task->name, task->summary);
    }
    printf("\nWith options of their own:\n");
    for (const struct cli_command *own = cli_eval_tasks; own->name; own++)
        print_entry(own->name + strlen(own_prefix), own->summary);
    printf("\n`kvcull eval NAME --help` shows their options.\n");
    return cli_flush(command);
}

/* Writes the length of a task's answer and the files that the task needs, for the manual page. */
static void add_needs(struct eval_text *text, const struct eval_task *task) {
    if (task->way)
        eval_add(text, "; it has its own options: `%s`.", task->way);
    else if (task->measure)
        eval_add(text, "; it asks no question");
    else if (task->answer == 0)
        eval_add(text, "; answers have at most three quarters of the length");
    else
        eval_add(text, "; answers have at most %u tokens", (unsigned)task->answer);
    if (task->way)
        return;
    if (task->file >= 0)
        eval_add(text, "; it %s --%s", task->optional ? "accepts" : "needs", eval_file_options[task->file]);
    eval_add(text, ".");
}

/* Prints the manual page, which has a paragraph for each task. */
static int manual(const struct cli_command *command, const struct cli_option *options) {
    struct eval_text text = {0};
    struct cli_command page = *command;
    eval_add(&text, "%s", command->description);
    for (const struct eval_task *task = eval_tasks; task->name; task++) {
        eval_add(&text, "\n\n%s: %s", task->name, task->summary);
        add_needs(&text, task);
    }
    char *description = eval_text_take(&text);
    if (!description)
        return cli_no_memory(command);
    page.description = description;
    cli_manual(&page, options);
    free(description);
    return cli_flush(command);
}

/* Returns true if one of the arguments is this option. */
static bool asks_for(int argc, char **argv, const char *option) {
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
        if (strcmp(argv[i], option) == 0)
            return true;
    }
    return false;
}

int cli_eval_standard(const struct cli_command *command, int argc, char **argv) {
    struct eval_run run = {.command = command,
                           .question = "both",
                           .samples = 20,
                           .seed = 1,
                           .depths = EVAL_DEPTHS,
                           .results = {.file = -1},
                           .lengths = {.items = {4096}, .count = 1}};
    struct cli_words names = {NULL, 0};
    cli_common_defaults(&run.common);
    const struct cli_option options[] = {
        {CLI_FLAG, 0, "list", NULL, "list the tasks and the files that they need", &run.list, 0, 0, NULL},
        {CLI_TEXT, 'm', "model", "MODEL", "a GGUF file or a Hugging Face folder", &run.model_path, 0, 0, NULL},
        {CLI_TEXTS, 0, "kv", "SPEC", "a policy; may be given several times", &run.specs, 0, 0, NULL},
        {CLI_COUNTS, 0, "length", "N,..", "maximum tokens of prompt and answer", &run.lengths, 64, 16777216, NULL},
        {CLI_INT, 0, "samples", "N", "samples of each task and length", &run.samples, 1, 1000000, NULL},
        {CLI_INT, 0, "seed", "S", "seed of the samples; the same seed makes the same samples", &run.seed, 0, 1000000000,
         NULL},
        {CLI_CHOICE, 0, "question", "WHEN",
         "seen (question-aware): the question is part of the compressed prompt. unseen (question-agnostic): the text "
         "is compressed before the question, which is the next turn",
         &run.question, 0, 0, "both|seen|unseen"},
        {CLI_TEXT, 0, "essays", "FILE", "text for tasks with essays: a plain text, or RULER's JSON",
         &run.files[EVAL_ESSAYS], 0, 0, NULL},
        {CLI_TEXT, 0, "squad", "FILE", "file with questions and documents, in SQuAD's JSON", &run.files[EVAL_SQUAD], 0,
         0, NULL},
        {CLI_TEXT, 0, "hotpotqa", "FILE", "file with questions and documents, in HotpotQA's JSON",
         &run.files[EVAL_HOTPOTQA], 0, 0, NULL},
        {CLI_TEXT, 0, "text", "FILE",
         "text for tasks that measure windows of a text; the default is the file of "
         "--essays",
         &run.files[EVAL_TEXT], 0, 0, NULL},
        {CLI_TEXT, 0, "words", "FILE",
         "word lists for needle_demo; the default is words.json beside the model, or the bundled file",
         &run.files[EVAL_WORDS], 0, 0, NULL},
        {CLI_INT, 0, "depths", "N",
         "number of depths in the text at which a task places the answer; sample i uses depth i modulo N", &run.depths,
         2, 101, NULL},
        {CLI_FLAG, 0, "alone", NULL,
         "run policies one by one, so that every measured time is that of one policy alone. Without this option, "
         "policies that can share a prompt compute it once, and answer in one batch",
         &run.alone, 0, 0, NULL},
        {CLI_BYTES, 0, "mem", "SIZE",
         "memory limit for sessions that run together, such as 8G; the default is half of the free memory", &run.memory,
         0, 0, NULL},
        {CLI_INT, 0, "show", "N", "write the first N samples of each task and length to standard error", &run.show, 0,
         1000000, NULL},
        EVAL_PROMPT_OPTIONS(&run),
        {CLI_GROUP, 0, "Results", NULL, NULL, NULL, 0, 0, NULL},
        {CLI_TEXT, 0, "out", "FILE", "append every answer to this file as a line of JSON", &run.out, 0, 0, NULL},
        {CLI_FLAG, 0, "resume", NULL, "continue the file of --out: its samples are not computed again", &run.resume, 0,
         0, NULL},
        {CLI_TEXT, 0, "report", "FILE.html",
         "write one HTML file with tables, charts and the entries held in the first samples; it needs no network",
         &run.report, 0, 0, NULL},
        {CLI_INT, 0, "kept", "N",
         "run the first N samples of each task and length again. These runs record which tokens each head holds, and "
         "when the policy evicts the part of the prompt that contains the answer. With --report or --span, N is "
         "at least 1",
         &run.kept, 0, 1000000, NULL},
        {CLI_TEXTS, 0, "span", "TEXT",
         "also record where this piece of the text is evicted; may be given several times for several pieces",
         &run.spans, 0, 0, NULL},
        {CLI_TEXT, 0, "shard", "I/N", "divide the samples into N shards and run only shard I", &run.shard, 0, 0, NULL},
        CLI_ENGINE_OPTIONS(&run.common),
        CLI_SESSION_OPTIONS(&run.common),
        CLI_OUTPUT_OPTIONS(&run.common),
        {CLI_END, 0, NULL, NULL, NULL, NULL, 0, 0, NULL}};
    int status;
    if (asks_for(argc, argv, "--help") || asks_for(argc, argv, "-h"))
        status = help(command, options);
    else if (asks_for(argc, argv, "--manual"))
        status = manual(command, options);
    else
        status = cli_parse(command, options, argc, argv, &names);
    if (status == CLI_GO && run.list) {
        status = standard_list(&run);
    } else if (status == CLI_GO) {
        status = run_tasks(&run, &names);
        if (status == KVC_OK && cli_data_rank() == 0)
            status = standard_show(&run);
    }
    eval_run_close(&run);
    cli_words_free(&names);
    return status;
}
