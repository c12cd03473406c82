/* fidelity_run.c - compares a policy with the full cache on a text, without labels: recall, output error, KL
 * divergence, top-1 agreement, memory and traffic. */
#include "eval/eval.h"
#include "eval/fidelity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static enum kvc_status no_memory(struct kvc_error *error) { return kvc_fail(error, KVC_RESOURCE, "no memory left"); }

/* ---- the full run ---- */

static uint32_t witness_columns(const struct kvc_values *values) {
    (void)values;
    return 2;
}

/* The decode stage in the run with the full cache: evicts nothing and accumulates the attention of the answer's
 * queries. At the last step, copies the sums to the host. */
static enum kvc_status witness(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    struct fidelity *task = kvc_stage_user(stage);
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
    struct fidelity *task = user;
    memcpy(task->outputs + (task->step * task->layers + layer) * task->width, output,
           task->width * sizeof *task->outputs);
}

static const char witness_name[] = "fidelity-witness";

void fidelity_class(struct kvc_policy_class *class, struct fidelity *fidelity) {
    static const struct kvc_option no_options[] = {{NULL, KVC_OPTION_INT, NULL, 0, 0, NULL, NULL}};
    *class = (struct kvc_policy_class){.name = witness_name,
                                       .summary = "evicts nothing and accumulates the answer's attention",
                                       .user = fidelity,
                                       .stages = KVC_STAGE_DECODE,
                                       .options = no_options,
                                       .columns = witness_columns,
                                       .decode = witness};
}

static struct kvc_session_options options_of(const struct fidelity *task, const char *spec) {
    struct kvc_session_options options = *task->options;
    options.policy = spec;
    return options;
}

static enum kvc_status run_full(struct fidelity *task, struct kvc_error *error) {
    const struct kvc_session_options options = options_of(task, witness_name);
    struct kvc_session *session = NULL;
    enum kvc_status status = kvc_session_open(task->model, &options, &session, error);
    if (status == KVC_OK)
        status = kvc_session_watch(session, keep_output, task, error);
    if (status == KVC_OK)
        status = kvc_session_prompt(session, task->tokens, task->count, NULL, task->logits, error);
    for (size_t i = 0; i < task->steps && status == KVC_OK; i++) {
        task->step = i;
        task->answer[i] = eval_likeliest(task->logits + i * task->vocab, task->vocab);
        status = kvc_decode(&session, &task->answer[i], 1, task->logits + (i + 1) * task->vocab, NULL, error);
    }
    kvc_session_close(session);
    return status;
}

/* ---- a policy's run ---- */

static int by_mass(const void *a, const void *b) {
    const struct fidelity_entry *x = a, *y = b;
    if (x->mass != y->mass)
        return x->mass > y->mass ? -1 : 1;
    return x->position < y->position ? -1 : 1;
}

/* Returns the recall of ascending positions [held]. If n of them are in the prompt, the recall is the fraction of the
 * prompt's n entries with the most mass that are held. If n is 0, the recall is 1. */
static double recall_of(const struct fidelity *task, const struct fidelity_entry *gold, const int32_t *positions,
                        size_t held) {
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

/* Adds `share` times the recall of every layer (the mean of its heads) to the score, and `share` times the recall of
 * every head to `worst`. */
static enum kvc_status add_recall(struct fidelity *task, const struct kvc_session *session, list_fn *list, double share,
                                  double *worst, struct kvc_error *error) {
    const size_t capacity = task->count + task->steps + 1;
    int32_t *positions = malloc(capacity * sizeof *positions);
    enum kvc_status status = KVC_OK;
    if (!positions)
        return no_memory(error);
    for (uint32_t l = 0; l < task->layers && status == KVC_OK; l++) {
        const uint32_t heads = kvc_session_heads(session, l);
        for (uint32_t h = 0; h < heads && status == KVC_OK; h++) {
            const uint32_t source = h / (heads / task->kv_heads);
            size_t held = 0;
            status = list(session, l, h, positions, capacity, &held, error);
            if (status != KVC_OK)
                break;
            const double recall =
                recall_of(task, task->gold + ((size_t)l * task->kv_heads + source) * task->count, positions, held);
            task->now->recall[l] += share * recall / heads;
            worst[(size_t)l * heads + h] += share * recall;
        }
    }
    free(positions);
    return status;
}

static void compare_output(void *user, uint32_t layer, const float *output) {
    struct fidelity *task = user;
    const float *full = task->outputs + (task->step * task->layers + layer) * task->width;
    double square = 0, whole = 0;
    for (size_t i = 0; i < task->width; i++) {
        const double difference = (double)output[i] - (double)full[i];
        square += difference * difference;
        whole += (double)full[i] * (double)full[i];
    }
    /* a NaN stays a NaN */
    task->now->error[layer] += whole == 0 ? square > 0 : sqrt(square / whole) / (double)task->steps;
}

/* Returns the KL divergence: the sum over tokens of p log(p / q). p and q are the softmax of two rows of logits. */
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
    return sum < 0 ? 0 : sum; /* a NaN stays a NaN */
}

static void compare_logits(struct fidelity *task, size_t i, const float *logits) {
    const float *full = task->logits + i * task->vocab;
    task->now->divergence += divergence(full, logits, task->vocab) / (double)(task->steps + 1);
    task->now->same += eval_likeliest(full, task->vocab) == eval_likeliest(logits, task->vocab);
}

static enum kvc_status open_score(const struct fidelity *task, struct fidelity_score *score, struct kvc_error *error) {
    *score = (struct fidelity_score){.recall = calloc(task->layers, sizeof *score->recall),
                                     .worst = calloc(task->layers, sizeof *score->worst),
                                     .error = calloc(task->layers, sizeof *score->error)};
    return score->recall && score->worst && score->error ? KVC_OK : no_memory(error);
}

void fidelity_score_free(struct fidelity_score *score) {
    free(score->recall);
    free(score->worst);
    free(score->error);
    *score = (struct fidelity_score){.recall = NULL};
}

/* Completes the score from the session's statistics. worst [layers, lists] has the recall of every head. */
static void conclude(struct fidelity *task, const struct kvc_session *session, const double *worst) {
    struct fidelity_score *score = task->now;
    struct kvc_session_stats stats;
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

enum kvc_status fidelity_run(struct fidelity *task, const char *spec, struct fidelity_score *score,
                             struct kvc_error *error) {
    const uint32_t heads = kvc_model_info(task->model)->heads;
    struct kvc_session_options options = options_of(task, spec);
    struct kvc_session *session = NULL;
    struct kvc_session_stats stats;
    unsigned stages;
    float *logits = malloc(task->vocab * sizeof *logits);
    double *worst = calloc((size_t)task->layers * heads, sizeof *worst);
    enum kvc_status status = open_score(task, score, error);
    task->now = score;
    if (status == KVC_OK && (!logits || !worst))
        status = no_memory(error);
    if (status == KVC_OK)
        status = kvc_policy_stages(task->engine, spec, &stages, error);
    const bool selects = status == KVC_OK && (stages & KVC_STAGE_SELECT);
    options.record_reads = selects;
    if (status == KVC_OK)
        status = kvc_session_open(task->model, &options, &session, error);
    if (status == KVC_OK)
        status = kvc_session_watch(session, compare_output, task, error);
    if (status == KVC_OK)
        status = kvc_session_prompt(session, task->tokens, task->count, NULL, logits, error);
    if (status == KVC_OK) {
        kvc_session_stats(session, &stats);
        score->entries = stats.entries_most;
        score->peak_bytes = stats.prompt_peak_bytes;
        score->held_bytes = stats.cache_bytes + stats.state_bytes;
        compare_logits(task, 0, logits);
        if (!selects)
            status = add_recall(task, session, kvc_session_positions, 1, worst, error);
    }
    for (size_t i = 0; i < task->steps && status == KVC_OK; i++) {
        task->step = i;
        status = kvc_decode(&session, &task->answer[i], 1, logits, NULL, error);
        if (status == KVC_OK)
            compare_logits(task, i + 1, logits);
        if (status == KVC_OK && selects)
            status = add_recall(task, session, kvc_session_reads, 1 / (double)task->steps, worst, error);
    }
    if (status == KVC_OK)
        conclude(task, session, worst);
    kvc_session_close(session);
    free(logits);
    free(worst);
    return status;
}

/* ---- one text ---- */

enum kvc_status fidelity_open(struct fidelity *task, struct kvc_error *error) {
    const struct kvc_model_info *info = kvc_model_info(task->model);
    const size_t steps = task->steps, heads = (size_t)info->layers * info->kv_heads;
    task->layers = info->layers;
    task->kv_heads = info->kv_heads;
    task->vocab = info->vocab;
    task->width = (size_t)info->heads * info->head_size;
    task->answer = calloc(steps + 1, sizeof *task->answer);
    task->logits = calloc((steps + 1) * task->vocab, sizeof *task->logits);
    task->outputs = calloc(steps * task->layers * task->width, sizeof *task->outputs);
    task->mass = calloc(heads * task->count, sizeof *task->mass);
    task->gold = malloc(heads * task->count * sizeof *task->gold);
    if (!task->answer || !task->logits || !task->outputs || !task->mass || !task->gold)
        return no_memory(error);
    const enum kvc_status status = run_full(task, error);
    for (size_t h = 0; h < heads && status == KVC_OK; h++) {
        for (size_t i = 0; i < task->count; i++)
            task->gold[h * task->count + i] = (struct fidelity_entry){task->mass[h * task->count + i], (int32_t)i};
        qsort(task->gold + h * task->count, task->count, sizeof *task->gold, by_mass);
    }
    return status;
}

void fidelity_close(struct fidelity *task) {
    free(task->answer);
    free(task->logits);
    free(task->outputs);
    free(task->mass);
    free(task->gold);
    task->answer = NULL;
    task->logits = task->outputs = task->mass = NULL;
    task->gold = NULL;
}
