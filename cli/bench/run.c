/* run.c - measures the prefill and the decode steps of the policies. The policies take turns. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench/bench.h"
#include "core/base/assert.h"

void bench_random_tokens(const struct bench *bench, uint64_t *state, int32_t *tokens, uint64_t count) {
    uint32_t vocab = kvc_model_info(bench->model)->vocab;

    for (uint64_t i = 0; i < count; i++)
        tokens[i] = (int32_t)(cli_random(state) % vocab);
}

static struct kvc_geometry geometry_of(const struct bench *bench) {
    const struct kvc_model_info *info = kvc_model_info(bench->model);

    return (struct kvc_geometry){info->layers, info->heads, info->kv_heads, info->head_size};
}

static int open_session(const struct bench *bench, const char *spec, struct kvc_session **session) {
    struct kvc_session_options options;
    struct kvc_error error;

    cli_session_options(&bench->a->common, spec, &options);
    options.seed = (uint64_t)bench->a->seed;
    options.expected = (uint64_t)bench->a->generate;
    if (kvc_session_open(bench->model, &options, session, &error) != KVC_OK)
        return cli_report(bench->command, &error);
    return KVC_OK;
}

/* Returns the median of values[i] / first[i], or 0 if memory runs out. A slow moment of the machine affects values[i]
 * and first[i] alike, because they were measured one after the other. */
static double paired(const double *values, const double *first, size_t count) {
    double *ratio = malloc(count * sizeof *ratio), median;

    if (!ratio)
        return 0;
    for (size_t i = 0; i < count; i++)
        ratio[i] = first[i] > 0 ? values[i] / first[i] : 1;
    median = cli_median(ratio, count);
    free(ratio);
    return median;
}

/* Adds the messages that the ranks have sent since `before` to `sent`. */
static void add_sent(const struct kvc_ranks_traffic *before, struct kvc_ranks_traffic *sent) {
    struct kvc_ranks_traffic now;

    if (cli_traffic(&now)) {
        KVC_ASSERT(now.messages >= before->messages && now.bytes >= before->bytes);
        sent->messages += now.messages - before->messages;
        sent->bytes += now.bytes - before->bytes;
        sent->waited_seconds += now.waited_seconds - before->waited_seconds;
    }
}

/* Returns the mean number of ranks that computed at the same time. Ranks that wait for others do not count. */
static double computing(const struct kvc_ranks_traffic *sent, double seconds) {
    const double ranks = cli_ranks() ? kvc_ranks_count(cli_ranks()) : 1;

    return seconds > 0 ? ranks - sent->waited_seconds / seconds : ranks;
}

/* ---- prefill --------------------------------------------------------------------------------------------------------
 */

/* Returns KVC_EXPECTED_MOST for models with sliding windows. The formulas ignore windows, so for these models their
 * results are only upper bounds. */
static enum kvc_expected most_with_windows(const struct bench *bench, enum kvc_expected kind) {
    return kvc_model_info(bench->model)->windows ? KVC_EXPECTED_MOST : kind;
}

/* Computes the predictions of the formulas and of the estimate. */
static int expect_prefill(struct bench *bench, struct bench_prefill *result, uint64_t entry_bytes) {
    const struct kvc_geometry geometry = geometry_of(bench);
    const struct kvc_entry_types type = bench->a->common.cache_type;
    struct kvc_formula formula;
    struct kvc_estimate estimate;
    struct kvc_error error;

    if (kvc_formula(bench->engine, result->spec, &geometry, type, result->prompt, 0, &formula, &error) != KVC_OK ||
        kvc_estimate_windows(bench->engine, result->spec, &geometry, kvc_model_info(bench->model)->windows,
                             kvc_model_info(bench->model)->hidden, type, result->prompt, 0, &estimate,
                             &error) != KVC_OK)
        return cli_report(bench->command, &error);
    kvc_estimate_recurrent(&estimate, kvc_model_info(bench->model)->recurrent_bytes);
    result->expected_entry_bytes = formula.entries * (double)entry_bytes;
    result->entry_kind = most_with_windows(bench, formula.entry_kind);
    result->expected_peak = estimate.prompt_peak_bytes;
    result->peak_kind = estimate.kind;
    return KVC_OK;
}

static int one_prefill(struct bench *bench, const int32_t *tokens, struct bench_prefill *result, size_t repeat) {
    uint32_t layers = kvc_model_info(bench->model)->layers;
    struct kvc_session *session = NULL;
    struct kvc_session_stats stats;
    struct kvc_memory memory;
    struct cli_progress progress;
    struct kvc_prompt_options hooks = {.progress = cli_progress, .user = &progress, .synthetic = bench->a->fill};
    struct kvc_ranks_traffic before;
    struct kvc_error error;
    double start;
    int status = open_session(bench, result->spec, &session);

    if (status != KVC_OK)
        return status;
    kvc_engine_reset_peaks(bench->engine);
    cli_progress_start(&progress, "prefill", bench->a->common.quiet);
    cli_traffic(&before);
    start = cli_seconds();
    if (kvc_session_prompt(session, tokens, (size_t)result->prompt, &hooks, NULL, &error) != KVC_OK)
        status = cli_report(bench->command, &error);
    result->seconds[repeat] = cli_seconds() - start;
    result->sent = (struct kvc_ranks_traffic){0, 0, 0};
    add_sent(&before, &result->sent);
    result->computing += computing(&result->sent, result->seconds[repeat]) / (double)bench->a->repeat;
    cli_progress_end(&progress);
    if (status == KVC_OK) {
        kvc_session_stats(session, &stats);
        kvc_engine_memory(bench->engine, &memory);
        result->peak_bytes = stats.prompt_peak_bytes;
        result->kept_bytes = stats.cache_bytes + stats.state_bytes;
        result->layer_bytes = stats.full_bytes / layers;
        result->hidden_bytes = memory.peak[KVC_MEMORY_HIDDEN];
        result->entry_bytes = stats.entries * stats.entry_bytes;
        status = expect_prefill(bench, result, stats.entry_bytes);
    }
    kvc_session_close(session);
    return status;
}

int bench_run_prefill(struct bench *bench, uint64_t prompt, struct bench_prefill *results) {
    size_t specs = bench->a->specs.count, repeat = (size_t)bench->a->repeat;
    int32_t *tokens = malloc((size_t)prompt * sizeof *tokens);
    uint64_t state = (uint64_t)bench->a->seed;
    int status = tokens ? KVC_OK : cli_no_memory(bench->command);

    if (tokens)
        bench_random_tokens(bench, &state, tokens, prompt);
    for (size_t i = 0; i < specs && status == KVC_OK; i++) {
        results[i].spec = bench->a->specs.items[i].text;
        results[i].prompt = prompt;
        results[i].seconds = calloc(repeat, sizeof(double));
        if (!results[i].seconds)
            status = cli_no_memory(bench->command);
    }
    /* The policies take turns, and each round starts with another policy, so that a slow moment of the machine does not
     * affect only one policy. */
    for (size_t r = 0; r < repeat && status == KVC_OK; r++)
        for (size_t i = 0; i < specs && status == KVC_OK; i++)
            status = one_prefill(bench, tokens, &results[(i + r) % specs], r);
    for (size_t i = specs; i-- > 0 && status == KVC_OK;) {
        results[i].relative = paired(results[i].seconds, results[0].seconds, repeat);
        results[i].median = cli_median(results[i].seconds, repeat);
        results[i].best = results[i].seconds[0]; /* cli_median has sorted the values */
    }
    free(tokens);
    return status;
}

/* ---- decode ---------------------------------------------------------------------------------------------------------
 */

struct decoding {                  /* the sessions of one policy */
    struct kvc_session **sessions; /* [batch] */
    uint64_t read_start, select_start;
};

static uint64_t sum_stats(const struct decoding *decoding, uint64_t batch, uint64_t *read, uint64_t *select,
                          uint64_t *peak) {
    uint64_t held = 0;

    *read = 0;
    *select = 0;
    *peak = 0;
    for (uint64_t b = 0; b < batch; b++) {
        struct kvc_session_stats stats;

        kvc_session_stats(decoding->sessions[b], &stats);
        held += stats.cache_bytes + stats.state_bytes;
        *read += stats.read_bytes;
        *select += stats.select_bytes;
        *peak += stats.peak_bytes;
    }
    return held;
}

static int open_all(struct bench *bench, uint64_t prompt, uint64_t batch, const char *spec, struct decoding *decoding) {
    int32_t *tokens = malloc((size_t)prompt * sizeof *tokens);
    uint64_t state = (uint64_t)bench->a->seed;
    const struct kvc_prompt_options hooks = {.synthetic = bench->a->fill};
    struct kvc_error error;
    int status = KVC_OK;

    decoding->sessions = calloc((size_t)batch, sizeof(struct kvc_session *));
    if (!tokens || !decoding->sessions)
        status = cli_no_memory(bench->command);
    for (uint64_t b = 0; b < batch && status == KVC_OK; b++) {
        bench_random_tokens(bench, &state, tokens, prompt);
        status = open_session(bench, spec, &decoding->sessions[b]);
        if (status == KVC_OK &&
            kvc_session_prompt(decoding->sessions[b], tokens, (size_t)prompt, &hooks, NULL, &error) != KVC_OK)
            status = cli_report(bench->command, &error);
    }
    free(tokens);
    return status;
}

/* Returns the anonymous resident memory of this process in bytes, or 0 if it is unknown. */
static uint64_t resident(void) {
    FILE *stream = fopen("/proc/self/status", "r");
    uint64_t kilobytes = 0;
    char line[256];

    if (!stream)
        return 0;
    while (fgets(line, sizeof line, stream))
        if (sscanf(line, "RssAnon: %" SCNu64, &kilobytes) == 1)
            break;
    fclose(stream);
    return kilobytes * 1024;
}

static void note_memory(struct bench_decode *result, const struct decoding *decoding, size_t point) {
    uint64_t read, select, peak;

    result->cache[point] = sum_stats(decoding, result->batch, &read, &select, &peak);
    result->resident[point] = resident();
    result->peak_bytes = peak;
}

static int steps(struct bench *bench, uint64_t batch, struct bench_decode *results, struct decoding *decodings,
                 int32_t *tokens, float *logits) {
    size_t specs = bench->a->specs.count;
    uint64_t count = (uint64_t)bench->a->generate, state = (uint64_t)bench->a->seed + 1;
    struct cli_progress progress;
    struct kvc_error error;
    int status = KVC_OK;

    cli_progress_start(&progress, "decode", bench->a->common.quiet);
    for (uint64_t s = 0; s < count && status == KVC_OK; s++) {
        bench_random_tokens(bench, &state, tokens, batch);
        for (size_t i = 0; i < specs && status == KVC_OK; i++) {
            size_t which = (i + s) % specs;
            struct kvc_ranks_traffic before;
            double start;

            cli_traffic(&before);
            start = cli_seconds();
            if (kvc_decode(decodings[which].sessions, tokens, (size_t)batch, logits, NULL, &error) != KVC_OK)
                status = cli_report(bench->command, &error);
            results[which].seconds[s] = cli_seconds() - start;
            add_sent(&before, &results[which].sent);
        }
        for (size_t i = 0; i < specs && status == KVC_OK; i++) {
            if (s == 0)
                note_memory(&results[i], &decodings[i], 0);
            if (s == count / 2)
                note_memory(&results[i], &decodings[i], 1);
            if (s + 1 == count)
                note_memory(&results[i], &decodings[i], 2);
        }
        cli_progress(&progress, s + 1, count);
    }
    cli_progress_end(&progress);
    return status;
}

static void sum_up(const struct bench *bench, struct bench_decode *result, const struct decoding *decoding) {
    size_t count = (size_t)bench->a->generate;
    uint64_t read, select, peak;

    sum_stats(decoding, result->batch, &read, &select, &peak);
    result->read_bytes = (read - decoding->read_start) / count;
    result->select_bytes = (select - decoding->select_start) / count;
    for (size_t s = 0; s < count; s++)
        result->mean += result->seconds[s] / (double)count;
    result->computing = computing(&result->sent, result->mean * (double)count);
    for (size_t q = 0; q < BENCH_QUARTERS; q++) {
        size_t from = q * count / BENCH_QUARTERS, to = (q + 1) * count / BENCH_QUARTERS;

        result->quarter[q] = cli_median(result->seconds + from, to - from);
    }
    result->median = cli_median(result->seconds, count);
}

static int expect_decode(struct bench *bench, struct bench_decode *result) {
    const struct kvc_geometry geometry = geometry_of(bench);
    const uint64_t steps_taken = (uint64_t)bench->a->generate;
    struct kvc_formula formula;
    struct kvc_error error;

    if (kvc_formula(bench->engine, result->spec, &geometry, bench->a->common.cache_type, result->prompt, steps_taken,
                    &formula, &error) != KVC_OK)
        return cli_report(bench->command, &error);
    result->expected_read_bytes = formula.read_bytes * (double)result->batch / (double)steps_taken;
    result->read_kind = most_with_windows(bench, formula.read_kind);
    return KVC_OK;
}

int bench_run_decode(struct bench *bench, uint64_t prompt, uint64_t batch, struct bench_decode *results) {
    size_t specs = bench->a->specs.count;
    struct decoding *decodings = calloc(specs, sizeof *decodings);
    int32_t *tokens = malloc((size_t)batch * sizeof *tokens);
    float *logits = malloc((size_t)batch * kvc_model_info(bench->model)->vocab * sizeof *logits);
    uint64_t peak;
    int status = decodings && tokens && logits ? KVC_OK : cli_no_memory(bench->command);

    for (size_t i = 0; i < specs && status == KVC_OK; i++) {
        results[i] = (struct bench_decode){.spec = bench->a->specs.items[i].text, .prompt = prompt, .batch = batch};
        results[i].seconds = malloc((size_t)bench->a->generate * sizeof(double));
        if (!results[i].seconds) {
            status = cli_no_memory(bench->command);
            break;
        }
        for (int64_t s = 0; s < bench->a->generate;
             s++) /* use this memory now, so that only the library makes resident memory grow later */
            results[i].seconds[s] = 1;
        status = open_all(bench, prompt, batch, results[i].spec, &decodings[i]);
        if (status == KVC_OK)
            sum_stats(&decodings[i], batch, &decodings[i].read_start, &decodings[i].select_start, &peak);
        if (status == KVC_OK)
            status = expect_decode(bench, &results[i]);
    }
    if (status == KVC_OK)
        status = steps(bench, batch, results, decodings, tokens, logits);
    for (size_t i = 0; status == KVC_OK && i < specs; i++) /* must precede sum_up, which sorts the times */
        results[i].relative = paired(results[i].seconds, results[0].seconds, (size_t)bench->a->generate);
    for (size_t i = 0; decodings && i < specs; i++) {
        if (status == KVC_OK)
            sum_up(bench, &results[i], &decodings[i]);
        for (uint64_t b = 0; decodings[i].sessions && b < batch; b++)
            kvc_session_close(decodings[i].sessions[b]);
        free(decodings[i].sessions);
    }
    free(logits);
    free(tokens);
    free(decodings);
    return status;
}
