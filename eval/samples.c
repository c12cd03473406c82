/* samples.c - runs samples one by one: makes the text, asks every policy with the question seen and not, keeps the
 * results. */
#include "eval/answer.h"
#include "eval/kept.h"

#include <stdlib.h>
#include <string.h>

static const char *last_part(const char *path, size_t *bytes) {
    size_t end = strlen(path), start;
    while (end > 1 && path[end - 1] == '/')
        end--;
    start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    *bytes = end - start;
    return path + start;
}

static json_t *text_json(const char *text) { return cli_json_text(text, strlen(text)); }

/* The key fields of a result. */
json_t *eval_record(const struct eval_run *run, const struct eval_task *task, uint64_t length, uint64_t sample,
                    const char *spec, size_t side) {
    const struct kvc_model_info *info = kvc_model_info(run->model);
    json_t *record = json_object();
    char text[400];
    size_t bytes;
    const char *name = last_part(run->model_path, &bytes);
    cli_json_set(record, "model", cli_json_text(name, bytes));
    snprintf(text, sizeof text, "%llu parameters, %s", (unsigned long long)info->parameters, info->weight_types);
    cli_json_set(record, "weights", text_json(text));
    snprintf(text, sizeof text, "%s %d", cli_math_name(info->math),
             info->math == KVC_MATH_INT8 ? KVC_INT8_VERSION : KVC_ARITHMETIC_VERSION);
    cli_json_set(record, "arithmetic", text_json(text));
    cli_json_set(record, "cache_type", text_json(kvc_type_name(run->common.cache_type)));
    snprintf(text, sizeof text, "%s%s%s%s%s",
             run->raw             ? "raw"
             : run->template_name ? run->template_name
                                  : "template",
             run->variables ? " " : "", run->variables ? run->variables : "", run->date ? " " : "",
             run->date ? run->date : "");
    cli_json_set(record, "prompt", text_json(text));
    cli_json_set(record, "data", text_json(task->file >= 0 ? run->data_hash[task->file] : ""));
    cli_json_set(record, "task", text_json(task->name));
    cli_json_set(record, "length", json_integer((json_int_t)length));
    cli_json_set(record, "seed", json_integer((json_int_t)run->seed));
    cli_json_set(record, "sample", json_integer((json_int_t)sample));
    cli_json_set(record, "kv", text_json(spec));
    cli_json_set(record, "question", json_string(side ? "unseen" : "seen"));
    return record;
}

static void add_answer(json_t *record, const struct eval_prompt *prompt, const struct eval_answer *answer,
                       double score) {
    char hash[20];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)prompt->hash);
    cli_json_set(record, "prompt_hash", json_string(hash));
    cli_json_set(record, "prompt_tokens", json_integer((json_int_t)prompt->count));
    cli_json_set(record, "answer", text_json(answer->text));
    cli_json_set(record, "answer_tokens", json_integer((json_int_t)answer->tokens));
    cli_json_set(record, "score", json_real(score));
    cli_json_set(record, "entries", json_integer((json_int_t)answer->entries));
    cli_json_set(record, "held_bytes", json_integer((json_int_t)answer->held_bytes));
    cli_json_set(record, "peak_bytes", json_integer((json_int_t)answer->peak_bytes));
    cli_json_set(record, "read_bytes", json_integer((json_int_t)answer->read_bytes));
    cli_json_set(record, "steps", json_integer((json_int_t)answer->steps));
    cli_json_set(record, "prompt_us", json_integer((json_int_t)answer->prompt_us));
    cli_json_set(record, "answer_us", json_integer((json_int_t)answer->answer_us));
}

struct unit { /* one sample: what all policies are asked */
    const struct eval_task *task;
    uint64_t length, sample;
};

/* One policy and one way to ask. Takes the record. */
static int ask(struct eval_run *run, const struct unit *unit, const struct eval_sample *sample,
               const struct eval_prompt *prompt, const char *spec, size_t side, json_t *record) {
    struct kvc_session_options options;
    struct eval_answer answer;
    struct kvc_error error;
    cli_session_options(&run->common, spec, &options);
    if (options.context == 0)
        options.context = unit->length;
    options.expected = unit->task->answer;
    const enum kvc_status status =
        eval_ask(run->model, &options, prompt, side == 0, unit->task->answer, run->logits, &answer, &error);
    if (status != KVC_OK) {
        free(answer.text);
        json_decref(record);
        return cli_error(run->command, error.status, "%s of %llu tokens, --kv %s: %s", unit->task->name,
                         (unsigned long long)unit->length, spec, error.text);
    }
    add_answer(record, prompt, &answer, unit->task->score(sample, answer.text));
    free(answer.text);
    return eval_results_add(&run->results, record);
}

/* How many answers of a unit there are still to be had. */
static uint64_t missing(const struct eval_run *run, const struct unit *unit) {
    uint64_t count = 0;
    for (size_t s = 0; s < 2 * run->specs.count; s++) {
        if (!run->sides[s % 2])
            continue;
        json_t *record = eval_record(run, unit->task, unit->length, unit->sample, run->specs.items[s / 2].text, s % 2);
        count += !eval_results_has(&run->results, record);
        count += eval_wants_trace(run, unit->sample) && !eval_results_has_trace(&run->results, record);
        json_decref(record);
    }
    return count;
}

struct work { /* in tokens that are read */
    struct cli_progress progress;
    uint64_t done, total;
};

/* The sample, its answers and the text: what a person wants to see of the first ones. */
static void show(const struct unit *unit, const struct eval_sample *sample, const struct eval_prompt *prompt) {
    fprintf(stderr, "---- %s, sample %llu of %llu tokens: %zu of the text, %zu of the question\n", unit->task->name,
            (unsigned long long)unit->sample, (unsigned long long)unit->length, prompt->context,
            prompt->count - prompt->context);
    cli_write_text(stderr, sample->context, strlen(sample->context));
    fprintf(stderr, "\n---- question\n");
    cli_write_text(stderr, sample->question, strlen(sample->question));
    fprintf(stderr, "\n---- the answer begins\n%s\n---- wanted\n", sample->opening);
    for (size_t i = 0; i < sample->answer_count; i++) {
        cli_write_text(stderr, sample->answers[i], strlen(sample->answers[i]));
        fputc('\n', stderr);
    }
}

static int run_unit(struct eval_run *run, const struct unit *unit, struct work *work) {
    const struct eval_request request = {unit->task,          &run->data,   &run->prompter,
                                         (uint64_t)run->seed, unit->sample, unit->length};
    struct eval_sample sample;
    struct eval_prompt prompt;
    struct kvc_error error;
    if (missing(run, unit) == 0)
        return cli_json_lost() ? cli_no_memory(run->command) : KVC_OK;
    int status = eval_fit(&request, &sample, &prompt, &error) == KVC_OK ? KVC_OK : cli_report(run->command, &error);
    if (status == KVC_OK && unit->sample < (uint64_t)run->show)
        show(unit, &sample, &prompt);
    for (size_t s = 0; s < 2 * run->specs.count && status == KVC_OK; s++) {
        const char *spec = run->specs.items[s / 2].text;
        if (!run->sides[s % 2])
            continue;
        json_t *record = eval_record(run, unit->task, unit->length, unit->sample, spec, s % 2);
        if (eval_results_has(&run->results, record)) {
            json_decref(record);
            continue;
        }
        status = ask(run, unit, &sample, &prompt, spec, s % 2, record);
        work->done += unit->length;
        cli_progress(&work->progress, work->done, work->total);
    }
    if (status == KVC_OK && eval_wants_trace(run, unit->sample)) {
        struct eval_kept kept = {unit->task, unit->length, unit->sample, unit->task->answer, &sample, &prompt, 0, NULL};
        status = eval_keep_traces(run, &kept);
        work->done += kept.made * unit->length;
        cli_progress(&work->progress, work->done, work->total);
    }
    eval_sample_free(&sample);
    eval_prompt_free(&prompt);
    return status;
}

/* Calls do_unit with every unit of the shard, in order. */
static int each_unit(struct eval_run *run, int (*do_unit)(struct eval_run *, const struct unit *, struct work *),
                     struct work *work) {
    uint64_t number = 0;
    for (size_t l = 0; l < run->lengths.count; l++) {
        for (size_t t = 0; t < run->task_count; t++) {
            for (int64_t i = 0; i < run->samples; i++) {
                const struct unit unit = {run->tasks[t], run->lengths.items[l], (uint64_t)i};
                if (number++ % run->shards != run->shard_index)
                    continue;
                const int status = do_unit(run, &unit, work);
                if (status != KVC_OK)
                    return status;
            }
        }
    }
    return KVC_OK;
}

/* Counts what there is to do; a length that is too short for a task is told before anything is computed. */
static int count_unit(struct eval_run *run, const struct unit *unit, struct work *work) {
    const struct eval_request request = {unit->task,          &run->data,   &run->prompter,
                                         (uint64_t)run->seed, unit->sample, unit->length};
    struct kvc_error error;
    const uint64_t count = missing(run, unit);
    work->total += count * unit->length;
    if (cli_json_lost())
        return cli_no_memory(run->command);
    if (count > 0 && unit->sample / run->shards == 0 && eval_fits(&request, &error) != KVC_OK)
        return cli_report(run->command, &error);
    return KVC_OK;
}

int eval_run_samples(struct eval_run *run) {
    const size_t resumed = json_array_size(run->results.records);
    struct work work = {.total = 0};
    bool warned = false;
    int status = each_unit(run, count_unit, &work);
    if (status != KVC_OK)
        return status;
    if (run->resume && !run->common.quiet)
        fprintf(stderr, "%zu results are there%s\n", resumed, work.total ? "" : ", and all that were asked for");
    for (size_t i = 0; i < run->lengths.count && work.total > 0; i++)
        cli_warn_context(run->command, run->model, run->lengths.items[i], &warned);
    cli_progress_start(&work.progress, "answers", run->common.quiet);
    status = each_unit(run, run_unit, &work);
    cli_progress_end(&work.progress);
    return status;
}
