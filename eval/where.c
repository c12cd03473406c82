/* where.c - `kvcull eval span`: shows for every policy when and where pieces of the user's text are evicted: at which
 * chunk, prompt or step, in which layers and heads. */
#include "eval/eval.h"
#include "eval/kept.h"
#include "eval/report.h"
#include "eval/trace.h"

#include <stdlib.h>
#include <string.h>

struct where { /* the user's text as a task with one sample */
    struct eval_run run;
    const char *path, *ask, *opening;
    int64_t answer;
    char *text;
};

static enum kvc_status make_sample(struct eval_maker *maker, struct eval_sample *sample, struct kvc_error *error) {
    const struct where *where = maker->task->form;
    struct eval_text context = {0}, question = {0}, opening = {0};
    eval_add(&context, "%s", where->text);
    eval_add(&question, "\n%s", where->ask);
    eval_add(&opening, "%s", where->opening);
    const bool fine = eval_asked_end(eval_sample_ask(sample), &question, &opening);
    return eval_sample_end(sample, &context, fine, error);
}

/* Checks before anything slow that every span occurs in the text. */
static int where_check(struct where *where) {
    const struct eval_run *run = &where->run;
    size_t bytes;
    if (!where->path)
        return cli_error(run->command, KVC_USAGE, "no text; give -f FILE");
    if (!where->ask)
        return cli_error(run->command, KVC_USAGE, "no question; give -p TEXT");
    if (run->spans.count == 0)
        return cli_error(run->command, KVC_USAGE, "no span; give --span TEXT with a piece of the file");
    const int status = cli_read_file(run->command, where->path, &where->text, &bytes);
    if (status != KVC_OK)
        return status;
    if (strlen(where->text) != bytes)
        return cli_error(run->command, KVC_INPUT, "%s: byte %zu is 0; the file must be a text", where->path,
                         strlen(where->text));
    for (size_t i = 0; i < run->spans.count; i++) {
        const char *span = run->spans.items[i].text;
        if (!span[0] || !strstr(where->text, span))
            return cli_error(run->command, KVC_USAGE, "--span '%.200s': not in %s", span, where->path);
    }
    return KVC_OK;
}

static int run_sample(struct where *where) {
    struct eval_run *run = &where->run;
    const struct eval_task task = {
        .name = "span", .file = -1, .answer = (uint32_t)where->answer, .least = 1, .form = where, .make = make_sample};
    struct eval_request request = {&task, &run->data, &run->prompter, 0, 0, 0, 0};
    struct eval_maker maker = {.task = &task};
    struct eval_sample sample = {0};
    struct eval_prompt prompt = {0};
    struct kvc_error error;
    bool warned = false;
    /* the length is the sample's own, so that nothing is cut */
    enum kvc_status made = make_sample(&maker, &sample, &error);
    if (made == KVC_OK)
        made = eval_prompt_make(&run->prompter, &sample, task.manner, &prompt, &error);
    request.length = prompt.count + task.answer;
    eval_sample_free(&sample);
    eval_prompt_free(&prompt);
    if (made == KVC_OK)
        made = eval_fit(&request, &sample, &prompt, &error);
    int status = made == KVC_OK ? KVC_OK : cli_report(run->command, &error);
    if (status == KVC_OK && run->common.context > 0 && request.length > (uint64_t)run->common.context)
        status =
            cli_error(run->command, KVC_USAGE, "%s: text, question and answer have %llu tokens, more than --ctx %lld",
                      where->path, (unsigned long long)request.length, (long long)run->common.context);
    if (status == KVC_OK) {
        char data[20];
        uint64_t hash = eval_hash(prompt.hash, "", 0);
        for (size_t i = 0; i < run->spans.count; i++)
            hash = eval_hash(hash, run->spans.items[i].text, strlen(run->spans.items[i].text));
        snprintf(data, sizeof data, "%016llx", (unsigned long long)hash);
        struct eval_kept kept = {&task, request.length, 0, task.answer, &sample, &prompt, 0, data};
        cli_warn_context(run->command, run->model, request.length, &warned);
        status = eval_keep_traces(run, &kept);
    }
    eval_sample_free(&sample);
    eval_prompt_free(&prompt);
    return status;
}

/* Prints the policies' answers. */
static int print_answers(const struct eval_run *run) {
    struct cli_table *table = cli_table_open("<policy|<asked|<answer");
    const json_t *record;
    size_t i;
    json_array_foreach(run->results.traces, i, record) {
        const char *answer = eval_member(json_object_get(record, "trace"), "answer");
        char clean[1024];
        kvc_printable(answer, strlen(answer), clean, sizeof clean);
        cli_cell(table, "%s", eval_member(record, "kv"));
        cli_cell(table, "%s", eval_member(record, "question"));
        cli_cell(table, "%s", clean);
    }
    const int status = cli_table_print(run->command, table, stdout);
    cli_table_free(table);
    return status == KVC_OK ? cli_flush(run->command) : status;
}

static int run_where(struct where *where) {
    struct eval_run *run = &where->run;
    int status = eval_run_check(run);
    if (status == KVC_OK)
        status = where_check(where);
    if (status == KVC_OK)
        status = eval_run_open(run);
    if (status == KVC_OK)
        status = run_sample(where);
    if (status == KVC_OK && !run->common.json)
        status = print_answers(run);
    if (status == KVC_OK && !run->common.json)
        printf("\n");
    return status == KVC_OK ? eval_results_show(&run->results, NULL, run->common.json, run->report) : status;
}

int eval_where(const struct cli_command *command, int argc, char **argv) {
    struct where where = {.run = {.command = command, .shards = 1, .results = {.file = -1}, .question = "seen"},
                          .opening = "",
                          .answer = 64};
    struct eval_run *run = &where.run;
    cli_common_defaults(&run->common);
    const struct cli_option options[] = {
        {CLI_TEXT, 'm', "model", "MODEL", "a GGUF file or a Hugging Face folder", &run->model_path, 0, 0, NULL},
        {CLI_TEXT, 'f', "file", "FILE", "the text", &where.path, 0, 0, NULL},
        {CLI_TEXT, 'p', "prompt", "TEXT", "the question about the text", &where.ask, 0, 0, NULL},
        {CLI_TEXTS, 0, "span", "TEXT", "a piece of the text; may be given several times", &run->spans, 0, 0, NULL},
        {CLI_TEXTS, 0, "kv", "SPEC", "a policy; may be given several times", &run->specs, 0, 0, NULL},
        {CLI_INT, 'n', "gen", "N", "maximum tokens of an answer", &where.answer, 1, 65536, NULL},
        {CLI_TEXT, 0, "opening", "TEXT", "the beginning of the answer, which the model continues", &where.opening, 0, 0,
         NULL},
        {CLI_CHOICE, 0, "question", "WHEN",
         "seen (question-aware): the question is part of the compressed prompt. unseen (question-agnostic): the text "
         "is compressed before the question, which is the next turn",
         &run->question, 0, 0, "both|seen|unseen"},
        EVAL_PROMPT_OPTIONS(run),
        {CLI_GROUP, 0, "Results", NULL, NULL, NULL, 0, 0, NULL},
        {CLI_TEXT, 0, "out", "FILE", "append every result to this file as a line of JSON", &run->out, 0, 0, NULL},
        {CLI_FLAG, 0, "resume", NULL, "continue the file of --out: its samples are not computed again", &run->resume, 0,
         0, NULL},
        {CLI_TEXT, 0, "report", "FILE.html", "also write one HTML file", &run->report, 0, 0, NULL},
        CLI_ENGINE_OPTIONS(&run->common),
        CLI_SESSION_OPTIONS(&run->common),
        CLI_OUTPUT_OPTIONS(&run->common),
        {CLI_END, 0, NULL, NULL, NULL, NULL, 0, 0, NULL}};
    int status = cli_parse(command, options, argc, argv, NULL);
    if (status == CLI_GO) {
        run->sides[0] = strcmp(run->question, "unseen") != 0;
        run->sides[1] = strcmp(run->question, "seen") != 0;
        status = run_where(&where);
    }
    eval_run_close(run);
    free(where.text);
    return status;
}
