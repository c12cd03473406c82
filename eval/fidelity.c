/* fidelity.c - `kvcull eval fidelity`: compares policies with the full cache on a text, and prints the result. */
#include "eval/eval.h"
#include "eval/fidelity.h"

#include <stdlib.h>
#include <string.h>

struct task {
    const struct cli_command *command;
    struct cli_common common;
    const char *model_path, *file, *out;
    struct cli_texts specs;
    int64_t prompt, generate;
    struct kvc_engine *engine;
    struct kvc_model *model;
    struct kvc_session_options options;
    int32_t *tokens;
    struct fidelity run;
    struct fidelity_score *scores; /* [specs] */
};

/* ---- results ---- */

static int fidelity_print(const struct task *task) {
    struct cli_table *table = cli_table_open("<policy|recall|worst|output|KL|top-1|entries|peak|held|end|read/token");
    for (size_t s = 0; s < task->specs.count; s++) {
        const struct fidelity_score *score = &task->scores[s];
        char text[4][32];
        cli_cell(table, "%s", task->specs.items[s].text);
        cli_cell(table, "%.3f", score->recall_mean);
        cli_cell(table, "%.3f", score->recall_worst);
        cli_cell(table, "%.4f", score->error_mean);
        cli_cell(table, "%.4f", score->divergence);
        cli_cell(table, "%.3f", (double)score->same / (double)(task->run.steps + 1));
        cli_cell(table, "%llu", (unsigned long long)score->entries);
        cli_cell(table, "%s", cli_bytes(score->peak_bytes, text[0]));
        cli_cell(table, "%s", cli_bytes(score->held_bytes, text[1]));
        cli_cell(table, "%s", cli_bytes(score->end_bytes, text[2]));
        cli_cell(table, "%s", cli_bytes(score->read_bytes, text[3]));
    }
    printf("%zu prompt tokens, an answer of %zu tokens from the full cache, %s cache\n\n", task->run.count,
           task->run.steps + 1, kvc_entry_types_name(task->common.cache_type, (char[KVC_ENTRY_TYPES_NAME]){0}));
    const int status = cli_table_print(task->command, table, stdout);
    cli_table_free(table);
    return status;
}

static json_t *results_json(const struct task *task) {
    json_t *object = json_object(), *results = json_array();
    for (size_t s = 0; s < task->specs.count; s++) {
        const struct fidelity_score *score = &task->scores[s];
        const char *spec = task->specs.items[s].text;
        json_t *one = json_object(), *layers = json_array();
        for (uint32_t l = 0; l < task->run.layers; l++) {
            json_t *layer = json_object();
            cli_json_set(layer, "recall", json_real(score->recall[l]));
            cli_json_set(layer, "recall_worst_head", json_real(score->worst[l]));
            cli_json_set(layer, "output_error", json_real(score->error[l]));
            json_array_append_new(layers, layer);
        }
        cli_json_set(one, "kv", cli_json_text(spec, strlen(spec)));
        cli_json_set(one, "recall", json_real(score->recall_mean));
        cli_json_set(one, "recall_worst_head", json_real(score->recall_worst));
        cli_json_set(one, "output_error", json_real(score->error_mean));
        cli_json_set(one, "kl", json_real(score->divergence));
        cli_json_set(one, "same_top", json_real((double)score->same / (double)(task->run.steps + 1)));
        cli_json_set(one, "entries", json_integer((json_int_t)score->entries));
        cli_json_set(one, "prompt_peak_bytes", json_integer((json_int_t)score->peak_bytes));
        cli_json_set(one, "held_bytes", json_integer((json_int_t)score->held_bytes));
        cli_json_set(one, "end_bytes", json_integer((json_int_t)score->end_bytes));
        cli_json_set(one, "read_bytes_per_token", json_integer((json_int_t)score->read_bytes));
        cli_json_set(one, "select_bytes_per_token", json_integer((json_int_t)score->select_bytes));
        cli_json_set(one, "layers", layers);
        json_array_append_new(results, one);
    }
    cli_json_set(object, "task", json_string("fidelity"));
    cli_json_set(object, "model", cli_json_text(task->model_path, strlen(task->model_path)));
    cli_json_set(object, "cache_type",
                 json_string(kvc_entry_types_name(task->common.cache_type, (char[KVC_ENTRY_TYPES_NAME]){0})));
    cli_json_set(object, "prompt", json_integer((json_int_t)task->run.count));
    cli_json_set(object, "answer", json_integer((json_int_t)task->run.steps + 1));
    cli_json_set(object, "results", results);
    return object;
}

static void write_csv(const void *user, FILE *stream) {
    const struct task *task = user;
    fprintf(stream, "kv,layer,recall,recall_worst_head,output_error,kl,same_top,entries,prompt_peak_bytes,held_bytes,"
                    "end_bytes,read_bytes_per_token\n");
    for (size_t s = 0; s < task->specs.count; s++) {
        const struct fidelity_score *score = &task->scores[s];
        for (uint32_t l = 0; l < task->run.layers; l++) {
            eval_csv_text(stream, task->specs.items[s].text);
            fprintf(stream, ",%u,%.6f,%.6f,%.6g,%.6g,%.6f,%llu,%llu,%llu,%llu,%llu\n", l, score->recall[l],
                    score->worst[l], score->error[l], score->divergence,
                    (double)score->same / (double)(task->run.steps + 1), (unsigned long long)score->entries,
                    (unsigned long long)score->peak_bytes, (unsigned long long)score->held_bytes,
                    (unsigned long long)score->end_bytes, (unsigned long long)score->read_bytes);
        }
    }
}

/* ---- the command ---- */

static int read_text(struct task *task) {
    struct kvc_error error;
    char *text = NULL;
    size_t bytes, count = 0;
    int status = cli_read_file(task->command, task->file, &text, &bytes);
    if (status == KVC_OK &&
        kvc_tokenize(task->model, text, bytes, KVC_TOKENIZE_BOS, &task->tokens, &count, &error) != KVC_OK)
        status = cli_report(task->command, &error);
    free(text);
    if (status == KVC_OK && count == 0)
        status = cli_error(task->command, KVC_INPUT, "%s: has no tokens; give a file with text", task->file);
    if (status == KVC_OK && task->prompt > 0 && (uint64_t)task->prompt < count)
        count = (size_t)task->prompt;
    task->run.tokens = task->tokens;
    task->run.count = count;
    return status;
}

static int run_policies(struct task *task) {
    struct cli_progress progress;
    struct kvc_error error;
    int status = KVC_OK;
    task->scores = calloc(task->specs.count, sizeof *task->scores);
    if (!task->scores)
        return cli_no_memory(task->command);
    cli_progress_start(&progress, "fidelity", task->common.quiet);
    for (size_t s = 0; s < task->specs.count && status == KVC_OK; s++) {
        if (fidelity_run(&task->run, task->specs.items[s].text, &task->scores[s], &error) != KVC_OK)
            status = cli_report(task->command, &error);
        cli_progress(&progress, s + 1, task->specs.count);
    }
    cli_progress_end(&progress);
    return status;
}

static int run_task(struct task *task, struct kvc_policy_class *class) {
    struct kvc_error error;
    bool warned = false;
    if (task->specs.count == 0)
        return cli_error(task->command, KVC_USAGE, "no policy; give for example --kv snapkv:budget=128");
    if (!task->file)
        return cli_error(task->command, KVC_USAGE, "no text; give -f FILE, or -f - for standard input");
    int status = task->out ? eval_write_check(task->command, task->out, "fidelity") : KVC_OK;
    if (status == KVC_OK)
        status =
            cli_open_model(task->command, &task->common, task->model_path, &task->specs, &task->engine, &task->model);
    fidelity_class(class, &task->run);
    if (status == KVC_OK && kvc_engine_register(task->engine, class, &error) != KVC_OK)
        status = cli_report(task->command, &error);
    if (status == KVC_OK)
        status = read_text(task);
    if (status == KVC_OK)
        status = cli_check_context(task->command, &task->common, task->run.count + (uint64_t)task->generate);
    if (status != KVC_OK)
        return status;
    cli_warn_context(task->command, task->model, task->run.count + (uint64_t)task->generate, &warned);
    cli_session_options(&task->common, NULL, &task->options);
    task->options.expected = (uint64_t)task->generate;
    task->run.engine = task->engine;
    task->run.model = task->model;
    task->run.options = &task->options;
    task->run.steps = (size_t)task->generate;
    if (fidelity_open(&task->run, &error) != KVC_OK)
        status = cli_report(task->command, &error);
    if (status == KVC_OK)
        status = run_policies(task);
    if (status == KVC_OK)
        status = task->common.json ? cli_json_print(task->command, results_json(task), stdout) : fidelity_print(task);
    if (status == KVC_OK && task->out) /* written after printing: if memory runs out there, no files are left */
        status = eval_write(task->command, task->out, "fidelity", results_json(task), write_csv, task);
    return status;
}

int eval_fidelity(const struct cli_command *command, int argc, char **argv) {
    struct kvc_policy_class class;
    struct task task = {.command = command, .generate = 64};
    cli_common_defaults(&task.common);
    const struct cli_option options[] = {
        {CLI_TEXT, 'm', "model", "MODEL", "a GGUF file or a Hugging Face folder", &task.model_path, 0, 0, NULL},
        {CLI_TEXT, 'f', "file", "TEXT", "the text to read; - is standard input", &task.file, 0, 0, NULL},
        {CLI_TEXTS, 0, "kv", "SPEC", "a policy; may be given several times", &task.specs, 0, 0, NULL},
        {CLI_INT, 0, "prompt", "N", "use only the text's first N tokens; 0: all", &task.prompt, 0, 2147483647, NULL},
        {CLI_INT, 0, "gen", "N", "decode steps of the answer", &task.generate, 1, 1000000, NULL},
        {CLI_TEXT, 0, "out", "DIR", "also write fidelity.json and fidelity.csv to the folder DIR", &task.out, 0, 0,
         NULL},
        CLI_ENGINE_OPTIONS(&task.common),
        CLI_SESSION_OPTIONS(&task.common),
        CLI_OUTPUT_OPTIONS(&task.common),
        {CLI_END, 0, NULL, NULL, NULL, NULL, 0, 0, NULL}};
    int status = cli_parse(command, options, argc, argv, NULL);
    if (status == CLI_GO) {
        status = run_task(&task, &class);
        if (status == KVC_OK)
            status = cli_flush(command);
    }
    for (size_t s = 0; task.scores && s < task.specs.count; s++)
        fidelity_score_free(&task.scores[s]);
    free(task.scores);
    fidelity_close(&task.run);
    free(task.tokens);
    kvc_model_close(task.model);
    kvc_engine_close(task.engine);
    cli_texts_free(&task.specs);
    return status;
}
