/* singly.c - runs tasks with one policy at a time: makes their records, finds missing answers, and runs one sample. */
#include "eval/singly.h"
#include "eval/windows.h"

#include <stdlib.h>
#include <string.h>

bool eval_is_singly(const struct eval_task *task) {
    return eval_task_questions(task) > 1 || task->memory || task->measure;
}

struct one { /* one sample */
    struct eval_run *run;
    const struct eval_task *task;
    uint64_t length, index;
};

/* Returns a record with the key fields for one of the questions. */
static json_t *record_of(const struct one *one, const char *spec, size_t side, uint32_t which) {
    const uint32_t questions = eval_task_questions(one->task);
    json_t *record = eval_record(one->run, one->task, one->length, one->index, spec, side);
    if (one->task->measure)
        cli_json_set(record, "question", json_string("none"));
    if (questions > 1) {
        cli_json_set(record, "turn", json_integer((json_int_t)which + 1));
        cli_json_set(record, "turns", json_integer(questions));
    }
    return record;
}

static void set(json_t *record, const char *name, uint64_t value) {
    cli_json_set(record, name, json_integer((json_int_t)value));
}

static void add_reply(json_t *record, uint64_t hash, uint64_t tokens, const struct eval_reply *reply, double score) {
    char text[20];
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    cli_json_set(record, "prompt_hash", json_string(text));
    set(record, "prompt_tokens", tokens);
    cli_json_set(record, "answer", cli_json_text(reply->text, strlen(reply->text)));
    set(record, "answer_tokens", reply->tokens);
    cli_json_set(record, "score", json_real(score));
    set(record, "entries", reply->entries);
    set(record, "held_bytes", reply->held_bytes);
    set(record, "peak_bytes", reply->peak_bytes);
    set(record, "read_bytes", reply->read_bytes);
    set(record, "steps", reply->steps);
    set(record, "prompt_us", reply->prompt_us);
    set(record, "answer_us", reply->answer_us);
    if (reply->points == 0)
        return;
    json_t *points = json_array();
    for (size_t i = 0; i < reply->points; i++)
        json_array_append_new(points,
                              json_pack("[I, I]", (json_int_t)reply->memory[i][0], (json_int_t)reply->memory[i][1]));
    set(record, "answer_peak_bytes", reply->answer_peak_bytes);
    cli_json_set(record, "memory", points);
}

/* Returns true if this question mode is wanted. A task without questions is measured once, with `side` 0. */
static bool is_wanted(const struct one *one, size_t side) {
    return one->task->measure ? side == 0 : one->run->sides[side];
}

static bool has_all(const struct one *one, const char *spec, size_t side) {
    bool all = true;
    for (uint32_t q = 0; q < eval_task_questions(one->task) && all; q++) {
        json_t *record = record_of(one, spec, side, q);
        all = eval_results_has(&one->run->results, record);
        json_decref(record);
    }
    return all;
}

uint64_t eval_singly_missing(const struct eval_run *run, const struct eval_task *task, uint64_t length,
                             uint64_t sample) {
    /* the cast is safe, because only members that records need are read */
    const struct one one = {(struct eval_run *)(uintptr_t)run, task, length, sample};
    uint64_t count = 0;
    for (size_t s = 0; s < 2 * run->specs.count; s++)
        count += is_wanted(&one, s % 2) && !has_all(&one, run->specs.items[s / 2].text, s % 2);
    return count;
}

/* ---- questions ---- */

/* Adds the repetition rate of a long answer. Returns false if memory runs out. */
static bool add_repetition(json_t *record, const char *answer) {
    const double rate = eval_repetition(answer, EVAL_REPEATED);
    json_t *values = json_object();
    cli_json_set(values, "repeated", json_real(rate));
    cli_json_set(record, "values", values);
    return rate >= 0;
}

/* Stores the answers that the results do not have yet: an interrupted run may have stored some. */
static int singly_keep(const struct one *one, const struct eval_sample *sample, const struct eval_prompt *prompt,
                       const char *spec, size_t side, const struct eval_reply *replies) {
    uint64_t tokens = prompt->count;
    int status = KVC_OK;
    for (uint32_t q = 0; q <= prompt->later_count && status == KVC_OK; q++) {
        const struct eval_part *later = q ? &prompt->later[q - 1] : NULL;
        json_t *record = record_of(one, spec, side, q);
        if (later)
            tokens = later->count + (one->task->manner == EVAL_TURNS ? tokens : prompt->context);
        if (eval_results_has(&one->run->results, record)) {
            json_decref(record);
            continue;
        }
        add_reply(record, later ? later->hash : prompt->hash, tokens, &replies[q],
                  one->task->score(&sample->asked[q], replies[q].text));
        if (one->task->memory && !add_repetition(record, replies[q].text))
            status = cli_no_memory(one->run->command);
        if (status == KVC_OK)
            status = eval_results_add(&one->run->results, record);
        else
            json_decref(record);
    }
    return status;
}

static int failed(const struct one *one, const char *spec, const struct kvc_error *error) {
    return cli_error(one->run->command, error->status, "%s of %llu tokens, --kv %s: %s", one->task->name,
                     (unsigned long long)one->length, spec, error->text);
}

static void session_options(const struct one *one, const char *spec, uint64_t expected,
                            struct kvc_session_options *options) {
    cli_session_options(&one->run->common, spec, options);
    if (options->context == 0)
        options->context = one->length;
    options->expected = expected;
}

static int singly_ask(const struct one *one, const struct eval_sample *sample, const struct eval_prompt *prompt,
                      const char *spec, size_t side) {
    const uint32_t most = eval_task_answer(one->task, one->length);
    struct kvc_session_options options;
    struct eval_reply *replies = calloc(prompt->later_count + 1, sizeof *replies);
    struct kvc_error error;
    int status;
    if (!replies)
        return cli_no_memory(one->run->command);
    session_options(one, spec, most, &options);
    if (eval_converse(one->run->model, &options, one->task, prompt, side == 0, most, one->run->logits, replies,
                      &one->run->computed, &error) == KVC_OK)
        status = singly_keep(one, sample, prompt, spec, side, replies);
    else
        status = failed(one, spec, &error);
    for (size_t q = 0; q <= prompt->later_count; q++)
        free(replies[q].text);
    free(replies);
    return status;
}

/* ---- windows ---- */

static int singly_measure(const struct one *one, struct eval_window *window, const char *spec) {
    struct kvc_error error;
    const double start = cli_seconds();
    session_options(one, spec, window->count, &window->options);
    window->reply = (struct eval_reply){.text = window->nothing};
    window->value_count = 0;
    if (one->task->measure(window, &error) != KVC_OK)
        return failed(one, spec, &error);
    const uint64_t took = (uint64_t)(1e6 * (cli_seconds() - start));
    if (window->reply.answer_us == 0)
        window->reply.answer_us = took > window->reply.prompt_us ? took - window->reply.prompt_us : 0;
    json_t *record = record_of(one, spec, 0, 0);
    add_reply(record, eval_hash_tokens(0, window->tokens, window->count), window->count, &window->reply, window->score);
    if (one->task->unit != EVAL_SHARE)
        cli_json_set(record, "unit", json_string(eval_units[one->task->unit]));
    if (window->value_count > 0) {
        json_t *values = json_object();
        for (size_t i = 0; i < window->value_count; i++)
            cli_json_set(values, window->values[i].name, json_real(window->values[i].value));
        cli_json_set(record, "values", values);
    }
    return eval_results_add(&one->run->results, record);
}

int eval_singly_run(struct eval_run *run, const struct eval_task *task, uint64_t length, uint64_t index,
                    struct cli_progress *progress, uint64_t *done, uint64_t total) {
    const struct eval_request request = {task,  &run->data, &run->prompter,       (uint64_t)run->seed,
                                         index, length,     (uint64_t)run->depths};
    const struct one one = {run, task, length, index};
    struct eval_sample sample = {0};
    struct eval_prompt prompt = {0};
    struct eval_window window = {0};
    struct kvc_error error;
    const enum kvc_status made =
        task->measure ? eval_window_open(run, &request, &window, &error) : eval_fit(&request, &sample, &prompt, &error);
    int status = made == KVC_OK ? KVC_OK : cli_report(run->command, &error);
    if (status == KVC_OK && !task->measure && index < (uint64_t)run->show)
        eval_show(task, length, index, &sample, &prompt);
    for (size_t s = 0; s < 2 * run->specs.count && status == KVC_OK; s++) {
        const char *spec = run->specs.items[s / 2].text;
        if (!is_wanted(&one, s % 2) || has_all(&one, spec, s % 2))
            continue;
        status = task->measure ? singly_measure(&one, &window, spec) : singly_ask(&one, &sample, &prompt, spec, s % 2);
        *done += length;
        cli_progress(progress, *done, total);
    }
    eval_window_close(&window);
    eval_sample_free(&sample);
    eval_prompt_free(&prompt);
    return status;
}
