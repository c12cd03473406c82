/* fidelity.c - `kvcull eval fidelity`: how near a policy stays to the full cache on a text, without any labels
 * (recall, output error, KL and top-1 agreement, memory, traffic). */
#include "eval/eval.h"
#include "kvcull/policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct score {                      /* of one policy */
    double *recall, *worst, *error; /* [layers]: the heads' mean, the worst head, of the outputs */
    double recall_mean, recall_worst, error_mean, divergence;
    uint64_t same, entries;
    uint64_t peak_bytes, held_bytes, end_bytes; /* in prefill, at the first token, at the end */
    uint64_t read_bytes, select_bytes;          /* a step */
};

struct task {
    const struct cli_command *command;
    struct cli_common common;
    const char *model_path, *file, *out;
    struct cli_texts specs;
    int64_t prompt, generate;
    struct kvc_engine *engine;
    struct kvc_model *model;
    uint32_t layers, kv_heads, vocab;
    size_t width; /* H * d */
    int32_t *tokens;
    size_t count; /* prompt tokens */
    /* of the full run: */
    int32_t *answer; /* [steps + 1] */
    size_t steps;
    float *logits;        /* [steps + 1, vocab] */
    float *outputs;       /* [steps, layers, H * d] */
    float *mass;          /* [layers, H_kv, count]: what the answer's queries gave every prompt entry */
    struct score *scores; /* [specs] */
    size_t step;          /* under way */
    struct score *now;
};

/* ---- the full run ---- */

static uint32_t witness_columns(const struct kvc_values *values) {
    (void)values;
    return 2;
}

/* A policy that evicts nothing and adds up the answer's attention; at the last step they come to the host. */
static enum kvc_status witness(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    struct task *task = kvc_stage_user(stage);
    struct kvc_scores *scores;
    (void)values;
    enum kvc_status status = kvc_stage_accumulate(stage, 0, 0.0f, 0, error);
    if (status != KVC_OK || info->step < task->steps)
        return status;
    status = kvc_stage_scores(stage, &scores, error);
    if (status == KVC_OK)
        status = kvc_stage_column_scores(stage, 0, 2, scores, error);
    for (uint32_t h = 0; h < info->kv_heads && status == KVC_OK; h++) {
        size_t held;
        status = kvc_stage_read_scores(stage, scores, h,
                                       task->mass + ((size_t)info->layer * task->kv_heads + h) * task->count,
                                       task->count, &held, error);
    }
    return status;
}

static void keep_output(void *user, uint32_t layer, const float *output) {
    struct task *task = user;
    memcpy(task->outputs + (task->step * task->layers + layer) * task->width, output,
           task->width * sizeof *task->outputs);
}

static int run_full(struct task *task, const struct kvc_policy_class *class) {
    struct kvc_session_options options;
    struct kvc_session *session = NULL;
    struct kvc_error error;
    const size_t steps = (size_t)task->generate;
    cli_session_options(&task->common, class->name, &options);
    enum kvc_status status = kvc_session_open(task->model, &options, &session, &error);
    if (status == KVC_OK)
        status = kvc_session_watch(session, keep_output, task, &error);
    if (status == KVC_OK)
        status = kvc_session_prompt(session, task->tokens, task->count, NULL, task->logits, &error);
    task->steps = steps;
    for (size_t i = 0; i < steps && status == KVC_OK; i++) {
        task->step = i;
        task->answer[i] = eval_likeliest(task->logits + i * task->vocab, task->vocab);
        status = kvc_decode(&session, &task->answer[i], 1, task->logits + (i + 1) * task->vocab, NULL, &error);
    }
    kvc_session_close(session);
    return status == KVC_OK ? KVC_OK : cli_report(task->command, &error);
}

/* ---- a policy's run ---- */

struct ranked {
    float mass;
    int32_t position;
};

static int by_mass(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    if (x->mass != y->mass)
        return x->mass > y->mass ? -1 : 1;
    return x->position < y->position ? -1 : 1;
}

/* The share of the `count` prompt entries of most mass that are among positions [held] (ascending); 1 of none. */
static double recall_of(const struct task *task, struct ranked *gold, const int32_t *positions, size_t held) {
    size_t count = 0, found = 0;
    while (count < held && (size_t)positions[count] < task->count)
        count++;
    for (size_t i = 0; i < count; i++) {
        size_t low = 0, high = count;
        while (low < high) {
            const size_t middle = low + (high - low) / 2;
            if (positions[middle] < gold[i].position)
                low = middle + 1;
            else
                high = middle;
        }
        found += low < count && positions[low] == gold[i].position;
    }
    return count ? (double)found / (double)count : 1;
}

typedef enum kvc_status list_fn(const struct kvc_session *, uint32_t, uint32_t, int32_t *, size_t, size_t *,
                                struct kvc_error *);

/* Adds every layer's recall, its heads' mean, to the score. gold [layers, H_kv, count], best first. */
static int add_recall(struct task *task, const struct kvc_session *session, list_fn *list, struct ranked *gold,
                      double share, double *worst) {
    const size_t capacity = task->count + task->steps + 1;
    int32_t *positions = malloc(capacity * sizeof *positions);
    struct kvc_error error;
    enum kvc_status status = KVC_OK;
    if (!positions)
        return cli_no_memory(task->command);
    for (uint32_t l = 0; l < task->layers && status == KVC_OK; l++) {
        const uint32_t heads = kvc_session_heads(session, l);
        for (uint32_t h = 0; h < heads && status == KVC_OK; h++) {
            const uint32_t source = h / (heads / task->kv_heads);
            size_t held = 0;
            status = list(session, l, h, positions, capacity, &held, &error);
            if (status != KVC_OK)
                break;
            const double recall =
                recall_of(task, gold + ((size_t)l * task->kv_heads + source) * task->count, positions, held);
            task->now->recall[l] += share * recall / heads;
            worst[(size_t)l * heads + h] += share * recall;
        }
    }
    free(positions);
    return status == KVC_OK ? KVC_OK : cli_report(task->command, &error);
}

static void compare_output(void *user, uint32_t layer, const float *output) {
    struct task *task = user;
    const float *full = task->outputs + (task->step * task->layers + layer) * task->width;
    double square = 0, whole = 0;
    for (size_t i = 0; i < task->width; i++) {
        const double difference = (double)output[i] - (double)full[i];
        square += difference * difference;
        whole += (double)full[i] * (double)full[i];
    }
    task->now->error[layer] += whole == 0 ? square > 0 : sqrt(square / whole) / (double)task->steps; /* NaN stays NaN */
}

/* Sum over tokens of p log(p / q), p and q the softmax of two rows of logits. */
static double divergence(const float *p, const float *q, uint32_t vocab) {
    double p_most = -INFINITY, q_most = -INFINITY, p_sum = 0, q_sum = 0, sum = 0;
    for (uint32_t i = 0; i < vocab; i++) {
        p_most = fmax(p_most, (double)p[i]);
        q_most = fmax(q_most, (double)q[i]);
    }
    for (uint32_t i = 0; i < vocab; i++) {
        p_sum += exp((double)p[i] - p_most);
        q_sum += exp((double)q[i] - q_most);
    }
    for (uint32_t i = 0; i < vocab; i++) {
        const double log_p = (double)p[i] - p_most - log(p_sum), log_q = (double)q[i] - q_most - log(q_sum);
        sum += exp(log_p) * (log_p - log_q);
    }
    return sum < 0 ? 0 : sum; /* NaN is NaN */
}

static void compare_logits(struct task *task, size_t i, const float *logits) {
    const float *full = task->logits + i * task->vocab;
    task->now->divergence += divergence(full, logits, task->vocab) / (double)(task->steps + 1);
    task->now->same += eval_likeliest(full, task->vocab) == eval_likeliest(logits, task->vocab);
}

static int run_policy(struct task *task, const char *spec, struct ranked *gold) {
    const uint32_t heads = kvc_model_info(task->model)->heads;
    struct kvc_session_options options;
    struct kvc_session *session = NULL;
    struct kvc_session_stats stats;
    struct kvc_error error;
    unsigned stages;
    if (kvc_policy_stages(task->engine, spec, &stages, &error) != KVC_OK)
        return cli_report(task->command, &error);
    const bool selects = stages & KVC_STAGE_SELECT;
    float *logits = malloc(task->vocab * sizeof *logits);
    double *worst = calloc((size_t)task->layers * heads, sizeof *worst); /* recall of every head */
    struct score *score = task->now;
    if (!logits || !worst) {
        free(logits);
        free(worst);
        return cli_no_memory(task->command);
    }
    cli_session_options(&task->common, spec, &options);
    options.record_reads = selects;
    options.expected = (uint64_t)task->generate;
    int failed = KVC_OK;
    enum kvc_status status = kvc_session_open(task->model, &options, &session, &error);
    if (status == KVC_OK)
        status = kvc_session_watch(session, compare_output, task, &error);
    if (status == KVC_OK)
        status = kvc_session_prompt(session, task->tokens, task->count, NULL, logits, &error);
    if (status == KVC_OK) {
        kvc_session_stats(session, &stats);
        score->entries = stats.entries_most;
        score->peak_bytes = stats.prompt_peak_bytes;
        score->held_bytes = stats.cache_bytes + stats.state_bytes;
        compare_logits(task, 0, logits);
        if (!selects)
            failed = add_recall(task, session, kvc_session_positions, gold, 1, worst);
    }
    for (size_t i = 0; i < task->steps && status == KVC_OK && failed == KVC_OK; i++) {
        task->step = i;
        status = kvc_decode(&session, &task->answer[i], 1, logits, NULL, &error);
        if (status == KVC_OK) {
            compare_logits(task, i + 1, logits);
            if (selects)
                failed = add_recall(task, session, kvc_session_reads, gold, 1 / (double)task->steps, worst);
        }
    }
    if (status == KVC_OK && failed == KVC_OK) {
        kvc_session_stats(session, &stats);
        score->end_bytes = stats.cache_bytes + stats.state_bytes;
        score->read_bytes = stats.read_bytes / task->steps;
        score->select_bytes = stats.select_bytes / task->steps;
        score->recall_worst = 1;
        for (uint32_t l = 0; l < task->layers; l++) {
            const uint32_t lists = kvc_session_heads(session, l);
            score->recall_mean += score->recall[l] / task->layers;
            score->error_mean += score->error[l] / task->layers;
            score->worst[l] = 1;
            for (uint32_t h = 0; h < lists; h++)
                score->worst[l] = fmin(score->worst[l], worst[(size_t)l * lists + h]);
            score->recall_worst = fmin(score->recall_worst, score->worst[l]);
        }
    }
    kvc_session_close(session);
    free(logits);
    free(worst);
    return status == KVC_OK ? failed : cli_report(task->command, &error);
}

/* ---- results ---- */

static int print(const struct task *task) {
    struct cli_table *table = cli_table_open("<policy|recall|worst|output|KL|top-1|entries|peak|held|end|read/token");
    for (size_t s = 0; s < task->specs.count; s++) {
        const struct score *score = &task->scores[s];
        char text[4][32];
        cli_cell(table, "%s", task->specs.items[s].text);
        cli_cell(table, "%.3f", score->recall_mean);
        cli_cell(table, "%.3f", score->recall_worst);
        cli_cell(table, "%.4f", score->error_mean);
        cli_cell(table, "%.4f", score->divergence);
        cli_cell(table, "%.3f", (double)score->same / (double)(task->steps + 1));
        cli_cell(table, "%llu", (unsigned long long)score->entries);
        cli_cell(table, "%s", cli_bytes(score->peak_bytes, text[0]));
        cli_cell(table, "%s", cli_bytes(score->held_bytes, text[1]));
        cli_cell(table, "%s", cli_bytes(score->end_bytes, text[2]));
        cli_cell(table, "%s", cli_bytes(score->read_bytes, text[3]));
    }
    printf("%zu prompt tokens, an answer of %zu tokens from the full cache, %s cache\n\n", task->count, task->steps + 1,
           kvc_type_name(task->common.cache_type));
    const int status = cli_table_print(task->command, table, stdout);
    cli_table_free(table);
    return status;
}

static json_t *results_json(const struct task *task) {
    json_t *object = json_object(), *results = json_array();
    for (size_t s = 0; s < task->specs.count; s++) {
        const struct score *score = &task->scores[s];
        const char *spec = task->specs.items[s].text;
        json_t *one = json_object(), *layers = json_array();
        for (uint32_t l = 0; l < task->layers; l++) {
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
        cli_json_set(one, "same_top", json_real((double)score->same / (double)(task->steps + 1)));
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
    cli_json_set(object, "cache_type", json_string(kvc_type_name(task->common.cache_type)));
    cli_json_set(object, "prompt", json_integer((json_int_t)task->count));
    cli_json_set(object, "answer", json_integer((json_int_t)task->steps + 1));
    cli_json_set(object, "results", results);
    return object;
}

static void write_csv(const void *user, FILE *stream) {
    const struct task *task = user;
    fprintf(stream, "kv,layer,recall,recall_worst_head,output_error,kl,same_top,entries,prompt_peak_bytes,held_bytes,"
                    "end_bytes,read_bytes_per_token\n");
    for (size_t s = 0; s < task->specs.count; s++) {
        const struct score *score = &task->scores[s];
        for (uint32_t l = 0; l < task->layers; l++) {
            eval_csv_text(stream, task->specs.items[s].text);
            fprintf(stream, ",%u,%.6f,%.6f,%.6g,%.6g,%.6f,%llu,%llu,%llu,%llu,%llu\n", l, score->recall[l],
                    score->worst[l], score->error[l], score->divergence,
                    (double)score->same / (double)(task->steps + 1), (unsigned long long)score->entries,
                    (unsigned long long)score->peak_bytes, (unsigned long long)score->held_bytes,
                    (unsigned long long)score->end_bytes, (unsigned long long)score->read_bytes);
        }
    }
}

/* ---- the task ---- */

static int read_text(struct task *task) {
    struct kvc_error error;
    char *text = NULL;
    size_t bytes;
    int status = cli_read_file(task->command, task->file, &text, &bytes);
    if (status == KVC_OK &&
        kvc_tokenize(task->model, text, bytes, KVC_TOKENIZE_BOS, &task->tokens, &task->count, &error) != KVC_OK)
        status = cli_report(task->command, &error);
    free(text);
    if (status == KVC_OK && task->count == 0)
        status = cli_error(task->command, KVC_USAGE, "-f %s: is empty; it takes a text to read", task->file);
    if (status == KVC_OK && task->prompt > 0 && (uint64_t)task->prompt < task->count)
        task->count = (size_t)task->prompt;
    return status;
}

static int reserve(struct task *task) {
    const struct kvc_model_info *info = kvc_model_info(task->model);
    const size_t steps = (size_t)task->generate;
    task->layers = info->layers;
    task->kv_heads = info->kv_heads;
    task->vocab = info->vocab;
    task->width = (size_t)info->heads * info->head_size;
    task->answer = calloc(steps + 1, sizeof *task->answer);
    task->logits = calloc((steps + 1) * task->vocab, sizeof *task->logits);
    task->outputs = calloc(steps * task->layers * task->width, sizeof *task->outputs);
    task->mass = calloc((size_t)task->layers * task->kv_heads * task->count, sizeof *task->mass);
    task->scores = calloc(task->specs.count, sizeof *task->scores);
    if (!task->answer || !task->logits || !task->outputs || !task->mass || !task->scores)
        return cli_no_memory(task->command);
    for (size_t s = 0; s < task->specs.count; s++) {
        task->scores[s].recall = calloc(task->layers, sizeof(double));
        task->scores[s].worst = calloc(task->layers, sizeof(double));
        task->scores[s].error = calloc(task->layers, sizeof(double));
        if (!task->scores[s].recall || !task->scores[s].worst || !task->scores[s].error)
            return cli_no_memory(task->command);
    }
    return KVC_OK;
}

static int run_policies(struct task *task) {
    const size_t heads = (size_t)task->layers * task->kv_heads;
    struct ranked *gold = malloc(heads * task->count * sizeof *gold);
    struct cli_progress progress;
    int status = gold ? KVC_OK : cli_no_memory(task->command);
    for (size_t h = 0; h < heads && gold; h++) {
        for (size_t i = 0; i < task->count; i++)
            gold[h * task->count + i] = (struct ranked){task->mass[h * task->count + i], (int32_t)i};
        qsort(gold + h * task->count, task->count, sizeof *gold, by_mass);
    }
    cli_progress_start(&progress, "fidelity", task->common.quiet);
    for (size_t s = 0; s < task->specs.count && status == KVC_OK; s++) {
        task->now = &task->scores[s];
        status = run_policy(task, task->specs.items[s].text, gold);
        cli_progress(&progress, s + 1, task->specs.count);
    }
    cli_progress_end(&progress);
    free(gold);
    return status;
}

static int run_task(struct task *task, struct kvc_policy_class *class) {
    struct kvc_error error;
    bool warned = false;
    if (task->specs.count == 0)
        return cli_error(task->command, KVC_USAGE, "no policy is given: --kv snapkv:budget=128, say");
    if (!task->file)
        return cli_error(task->command, KVC_USAGE, "no text is given: -f FILE, or -f - for standard input");
    int status =
        cli_open_model(task->command, &task->common, task->model_path, &task->specs, &task->engine, &task->model);
    class->user = task;
    if (status == KVC_OK && kvc_engine_register(task->engine, class, &error) != KVC_OK)
        status = cli_report(task->command, &error);
    if (status == KVC_OK)
        status = read_text(task);
    if (status == KVC_OK)
        status = reserve(task);
    if (status != KVC_OK)
        return status;
    cli_warn_context(task->command, task->model, task->count + (uint64_t)task->generate, &warned);
    status = run_full(task, class);
    if (status == KVC_OK)
        status = run_policies(task);
    if (status == KVC_OK)
        status = task->common.json ? cli_json_print(task->command, results_json(task), stdout) : print(task);
    if (status == KVC_OK && task->out) /* last: without memory for what is printed, nothing is left there */
        status = eval_write(task->command, task->out, "fidelity", results_json(task), write_csv, task);
    return status;
}

int eval_fidelity(const struct cli_command *command, int argc, char **argv) {
    static const struct kvc_option no_options[] = {{NULL, KVC_OPTION_INT, NULL, 0, 0, NULL, NULL}};
    struct kvc_policy_class class = {.name = "fidelity-witness",
                                     .summary = "keeps everything and adds up the answer's attention",
                                     .stages = KVC_STAGE_DECODE,
                                     .options = no_options,
                                     .columns = witness_columns,
                                     .decode = witness};
    struct task task = {.command = command, .generate = 64};
    cli_common_defaults(&task.common);
    const struct cli_option options[] = {
        {CLI_TEXT, 'm', "model", "MODEL", "a GGUF file or a Hugging Face folder", &task.model_path, 0, 0, NULL},
        {CLI_TEXT, 'f', "file", "TEXT", "the text to read; - is standard input", &task.file, 0, 0, NULL},
        {CLI_TEXTS, 0, "kv", "SPEC", "a policy; may be given several times", &task.specs, 0, 0, NULL},
        {CLI_INT, 0, "prompt", "N", "only the text's first N tokens; 0: all", &task.prompt, 0, 2147483647, NULL},
        {CLI_INT, 0, "gen", "N", "decode steps of the answer", &task.generate, 1, 1000000, NULL},
        {CLI_TEXT, 0, "out", "DIR", "also write fidelity.json and fidelity.csv there", &task.out, 0, 0, NULL},
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
    for (size_t s = 0; task.scores && s < task.specs.count; s++) {
        free(task.scores[s].recall);
        free(task.scores[s].worst);
        free(task.scores[s].error);
    }
    free(task.scores);
    free(task.mass);
    free(task.outputs);
    free(task.logits);
    free(task.answer);
    free(task.tokens);
    kvc_model_close(task.model);
    kvc_engine_close(task.engine);
    cli_texts_free(&task.specs);
    return status;
}
