/* samples.c - runs the samples. For each, it makes the text, asks all policies in both question modes, in groups that
 * fit in memory, and stores the results. */
#include "eval/answer.h"
#include "eval/kept.h"
#include "eval/singly.h"
#include "eval/windows.h"
#include "core/base/assert.h"

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

/* Returns a record with the key fields of a result. */
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
             cli_integer_version(info->math) ? cli_integer_version(info->math) : KVC_ARITHMETIC_VERSION);
    cli_json_set(record, "arithmetic", text_json(text));
    cli_json_set(record, "cache_type",
                 text_json(kvc_entry_types_name(run->common.cache_type, (char[KVC_ENTRY_TYPES_NAME]){0})));
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
    if (task->depths)
        cli_json_set(record, "depth", json_real(eval_depth((uint64_t)run->depths, sample)));
    return record;
}

static uint64_t microseconds(double seconds) { return seconds > 0 ? (uint64_t)(1e6 * seconds) : 0; }

static void add_answer(json_t *record, const struct eval_prompt *prompt, const struct eval_answer *answer, double score,
                       size_t shared) {
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
    cli_json_set(record, "prompt_us", json_integer((json_int_t)microseconds(answer->prompt_seconds)));
    cli_json_set(record, "answer_us", json_integer((json_int_t)microseconds(answer->answer_seconds)));
    cli_json_set(record, "shared", json_integer((json_int_t)shared));
}

struct unit { /* one sample for all policies */
    const struct eval_task *task;
    uint64_t length, sample;
};

/* One question mode of a sample, and the policies whose answers are missing. */
struct asking {
    const struct unit *unit;
    const struct eval_sample *sample;
    const struct eval_prompt *prompt;
    size_t side;
    const char **specs; /* [count] */
    json_t **records;   /* [count]: records to complete; NULL if the results own the record already */
    size_t count;
};

static struct kvc_session_options options_of(const struct eval_run *run, const struct asking *asking, size_t i) {
    struct kvc_session_options options;
    cli_session_options(&run->common, asking->specs[i], &options);
    if (options.context == 0)
        options.context = asking->unit->length;
    options.expected = eval_task_answer(asking->unit->task, asking->unit->length);
    return options;
}

/* Asks `count` policies, from index `first` on, in one group. *answered is false if that failed; error has the reason.
 */
static int ask_group(struct eval_run *run, struct asking *asking, size_t first, size_t count, bool *answered,
                     struct kvc_error *error) {
    struct kvc_session_options *options = calloc(count, sizeof *options);
    struct eval_group group = {.count = 0};
    int status = KVC_OK;
    *answered = false;
    if (!options)
        return cli_no_memory(run->command);
    for (size_t i = 0; i < count; i++)
        options[i] = options_of(run, asking, first + i);
    *answered = eval_group_open(&group, run->model, options, count, run->logits, error) == KVC_OK &&
                eval_ask(&group, asking->prompt, asking->side == 0,
                         eval_task_answer(asking->unit->task, asking->unit->length), error) == KVC_OK;
    for (size_t i = 0; i < count && *answered && status == KVC_OK; i++) {
        json_t *record = asking->records[first + i];
        const struct eval_answer *answer = &group.answers[i];
        KVC_ASSERT(record); /* the results take each record only once */
        asking->records[first + i] = NULL;
        add_answer(record, asking->prompt, answer, asking->unit->task->score(&asking->sample->asked[0], answer->text),
                   count);
        status = eval_results_add(&run->results, record);
    }
    if (*answered) {
        run->computed.prompt_tokens += group.prompt_tokens;
        run->computed.computed_tokens += eval_group_computed(&group);
    }
    eval_group_close(&group);
    free(options);
    return status;
}

/* Asks like ask_group. If a group fails, asks its policies one by one, so that one failure does not lose the other
 * answers. */
static int samples_ask(struct eval_run *run, struct asking *asking, size_t first, size_t count) {
    struct kvc_error error;
    bool answered;
    int status = ask_group(run, asking, first, count, &answered, &error);
    if (status != KVC_OK || answered)
        return status;
    if (count == 1)
        return cli_error(run->command, error.status, "%s of %llu tokens, --kv %s: %s", asking->unit->task->name,
                         (unsigned long long)asking->unit->length, asking->specs[first], error.text);
    for (size_t i = 0; i < count && status == KVC_OK; i++)
        status = samples_ask(run, asking, first + i, 1);
    return status;
}

/* Returns how many policies, from index `first` on, fit in memory together according to the forecast; at least 1. */
static size_t fitting(const struct eval_run *run, const struct asking *asking, size_t first) {
    const struct kvc_model_info *info = kvc_model_info(run->model);
    const struct kvc_geometry geometry = {info->layers, info->heads, info->kv_heads, info->head_size};
    uint64_t held = 0, hidden = 0;
    size_t count = 0;
    for (; first + count < asking->count && !(run->alone && count); count++) {
        struct kvc_estimate estimate;
        if (kvc_estimate_windows(run->engine, asking->specs[first + count], &geometry, info->windows, info->hidden,
                                 run->common.cache_type, asking->prompt->count,
                                 eval_task_answer(asking->unit->task, asking->unit->length), &estimate, NULL) != KVC_OK)
            break;
        kvc_estimate_recurrent(&estimate, info->recurrent_bytes);
        hidden = cli_max(hidden, estimate.hidden_bytes);
        if (estimate.peak_bytes > run->memory || held > run->memory - estimate.peak_bytes ||
            hidden > run->memory - estimate.peak_bytes - held)
            break;
        held += estimate.peak_bytes;
    }
    return cli_max(count, 1);
}

/* Returns the number of answers of a unit that are missing. */
static uint64_t samples_missing(const struct eval_run *run, const struct unit *unit) {
    if (eval_is_singly(unit->task))
        return eval_singly_missing(run, unit->task, unit->length, unit->sample);
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

struct work { /* progress, in tokens to read */
    struct cli_progress progress;
    uint64_t done, total;
};

/* Prints the sample: text, questions and expected answers. */
static void samples_show(const struct unit *unit, const struct eval_sample *sample, const struct eval_prompt *prompt) {
    fprintf(stderr, "---- %s, sample %llu of %llu tokens: %zu in the text, %zu in the question\n", unit->task->name,
            (unsigned long long)unit->sample, (unsigned long long)unit->length, prompt->context,
            prompt->count - prompt->context);
    cli_write_text(stderr, sample->context, strlen(sample->context));
    for (size_t q = 0; q < sample->count; q++) {
        const struct eval_asked *asked = &sample->asked[q];
        fprintf(stderr, "\n---- question\n");
        cli_write_text(stderr, asked->question, strlen(asked->question));
        fprintf(stderr, "\n---- beginning of the answer\n%s\n---- expected\n", asked->opening);
        for (size_t i = 0; i < asked->answer_count; i++) {
            cli_write_text(stderr, asked->answers[i], strlen(asked->answers[i]));
            fputc('\n', stderr);
        }
    }
}

/* Returns true if policy i is the same as an earlier one. */
static bool stands_before(const struct eval_run *run, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (strcmp(run->specs.items[k].text, run->specs.items[i].text) == 0)
            return true;
    return false;
}

/* Asks all policies whose answers are missing, in one question mode. */
static int ask_side(struct eval_run *run, struct asking *asking, struct work *work) {
    int status = KVC_OK;
    asking->count = 0;
    for (size_t i = 0; i < run->specs.count; i++) {
        const char *spec = run->specs.items[i].text;
        json_t *record =
            eval_record(run, asking->unit->task, asking->unit->length, asking->unit->sample, spec, asking->side);
        if (stands_before(run, i) || eval_results_has(&run->results, record)) {
            json_decref(record);
            continue;
        }
        asking->specs[asking->count] = spec;
        asking->records[asking->count++] = record;
    }
    for (size_t first = 0, count; first < asking->count && status == KVC_OK; first += count) {
        count = fitting(run, asking, first);
        KVC_ASSERT(first + count <= asking->count);
        status = samples_ask(run, asking, first, count);
        work->done += count * asking->unit->length;
        cli_progress(&work->progress, work->done, work->total);
    }
    for (size_t i = 0; i < asking->count; i++)
        json_decref(asking->records[i]);
    return status;
}

static int run_unit(struct eval_run *run, const struct unit *unit, struct work *work) {
    const struct eval_request request = {unit->task,   &run->data,   &run->prompter,       (uint64_t)run->seed,
                                         unit->sample, unit->length, (uint64_t)run->depths};
    struct eval_sample sample;
    struct eval_prompt prompt;
    struct kvc_error error;
    struct asking asking = {.unit = unit, .sample = &sample, .prompt = &prompt};
    if (samples_missing(run, unit) == 0)
        return cli_json_lost() ? cli_no_memory(run->command) : KVC_OK;
    if (eval_is_singly(unit->task))
        return eval_singly_run(run, unit->task, unit->length, unit->sample, &work->progress, &work->done, work->total);
    int status = eval_fit(&request, &sample, &prompt, &error) == KVC_OK ? KVC_OK : cli_report(run->command, &error);
    asking.specs = malloc(run->specs.count * sizeof *asking.specs);
    asking.records = malloc(run->specs.count * sizeof *asking.records);
    if (status == KVC_OK && (!asking.specs || !asking.records))
        status = cli_no_memory(run->command);
    if (status == KVC_OK && unit->sample < (uint64_t)run->show)
        samples_show(unit, &sample, &prompt);
    for (; asking.side < 2 && status == KVC_OK; asking.side++) {
        if (run->sides[asking.side])
            status = ask_side(run, &asking, work);
    }
    free(asking.specs);
    free(asking.records);
    if (status == KVC_OK && eval_wants_trace(run, unit->sample)) {
        struct eval_kept kept = {.task = unit->task,
                                 .length = unit->length,
                                 .index = unit->sample,
                                 .answer = eval_task_answer(unit->task, unit->length),
                                 .sample = &sample,
                                 .prompt = &prompt};
        status = eval_keep_traces(run, &kept);
        work->done += kept.made * unit->length;
        cli_progress(&work->progress, work->done, work->total);
    }
    eval_sample_free(&sample);
    eval_prompt_free(&prompt);
    return status;
}

/* Calls do_unit for every unit of the shard, in order. */
static int each_unit(struct eval_run *run, int (*do_unit)(struct eval_run *, const struct unit *, struct work *),
                     struct work *work) {
    uint64_t number = 0;
    for (size_t l = 0; l < run->lengths.count; l++) {
        for (size_t t = 0; t < run->task_count; t++) {
            for (uint64_t i = 0; i < (uint64_t)run->samples; i++) {
                const struct unit unit = {run->tasks[t], run->lengths.items[l], i};
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

uint64_t eval_unit_number(const struct eval_run *run, const json_t *record) {
    const char *task = json_string_value(json_object_get(record, "task"));
    const uint64_t length = (uint64_t)json_integer_value(json_object_get(record, "length"));
    const uint64_t sample = (uint64_t)json_integer_value(json_object_get(record, "sample"));
    const uint64_t count = (uint64_t)run->samples;
    uint64_t number = 0;
    for (size_t l = 0; l < run->lengths.count; l++) {
        for (size_t t = 0; t < run->task_count; t++) {
            if (sample < count && length == run->lengths.items[l] && strcmp(task, run->tasks[t]->name) == 0)
                return number + sample;
            number += count;
        }
    }
    return UINT64_MAX;
}

/* Counts the work. Fails early if a length is too short for a task. */
static int count_unit(struct eval_run *run, const struct unit *unit, struct work *work) {
    const struct eval_request request = {unit->task,   &run->data,   &run->prompter,       (uint64_t)run->seed,
                                         unit->sample, unit->length, (uint64_t)run->depths};
    struct kvc_error error;
    const uint64_t count = samples_missing(run, unit);
    work->total += count * unit->length;
    if (cli_json_lost())
        return cli_no_memory(run->command);
    if (count > 0 && unit->sample / run->shards == 0 &&
        (unit->task->measure ? eval_window_fits(run, &request, &error) : eval_fits(&request, &error)) != KVC_OK)
        return cli_report(run->command, &error);
    return KVC_OK;
}

int eval_run_samples(struct eval_run *run) {
    const size_t resumed = json_array_size(run->results.records);
    struct work work = {.total = 0};
    bool warned = false;
    if (!run->memory)
        run->memory = cli_available() / 2;
    int status = each_unit(run, count_unit, &work);
    if (status != KVC_OK)
        return status;
    if (run->resume && !run->common.quiet)
        fprintf(stderr, "%zu results exist%s\n", resumed, work.total ? "" : "; none is missing");
    for (size_t i = 0; i < run->lengths.count && work.total > 0; i++)
        cli_warn_context(run->command, run->model, run->lengths.items[i], &warned);
    cli_progress_start(&work.progress, "answers", run->common.quiet);
    status = each_unit(run, run_unit, &work);
    cli_progress_end(&work.progress);
    return status;
}

void eval_show(const struct eval_task *task, uint64_t length, uint64_t index, const struct eval_sample *sample,
               const struct eval_prompt *prompt) {
    const struct unit unit = {task, length, index};
    samples_show(&unit, sample, prompt);
}
