/* perplexity.c - kvcull perplexity: measures how well a model with a bounded cache predicts a text. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "kvcull/ranks.h"

struct arguments {
    struct cli_common common;
    const char *model, *file;
    int64_t prompt, windows;
    struct cli_texts specs;
};

struct score {           /* the score of one policy, in one window or in all windows */
    double loss, square; /* loss: sum of -log p; square: sum of (log p)^2 */
    uint64_t scored;
    double seconds;
    struct kvc_session_stats stats; /* Statistics at the end of the longest window. Of several windows with this
                                       length, the one with the largest cache counts. The peak is the maximum over all
                                       windows */
};

struct rows { /* data for the function that receives the rows of a window's prompt */
    const int32_t *tokens;
    size_t count, from; /* count: tokens in the window; from: first token that is scored. Each row scores the next
                         * token */
    uint32_t vocab;
    struct score *score;
};

double cli_loss(const float *logits, uint32_t vocab, int32_t token) {
    double most = (double)logits[0], sum = 0;

    for (uint32_t i = 1; i < vocab; i++)
        if ((double)logits[i] > most)
            most = (double)logits[i];
    for (uint32_t i = 0; i < vocab; i++)
        sum += exp((double)logits[i] - most);
    return log(sum) + most - (double)logits[token];
}

static void add_score(struct score *score, const float *logits, uint32_t vocab, int32_t token) {
    const double loss = cli_loss(logits, vocab, token);

    score->loss += loss;
    score->square += loss * loss;
    score->scored++;
}

static int take_row(void *user, uint64_t row, const float *logits) {
    struct rows *rows = user;

    if (row + 1 < rows->count && row + 1 >= rows->from)
        add_score(rows->score, logits, rows->vocab, rows->tokens[row + 1]);
    return 0;
}

/* The windows of a text and how they are scored. All policies score the same tokens. */
struct plan {
    size_t windows, length; /* the last window may be shorter */
    size_t prompt;          /* tokens of each window that form its prompt; only the later tokens are scored */
    enum kvc_math math;     /* the arithmetic that the model uses */
    bool at_once;           /* for policy `full` only: compute a window as one prompt, whose rows are bit-identical
                             * to those of decode steps */
};

/* Adds the scores of a window. Must be called in the order of the windows, so that the sums are bit-identical for any
 * number of ranks. */
static void add_window(struct score *all, const struct score *window) {
    const struct kvc_session_stats *held = &all->stats, *stats = &window->stats;
    const uint64_t peak = cli_max(stats->peak_bytes, held->peak_bytes);

    all->loss += window->loss;
    all->square += window->square;
    all->scored += window->scored;
    all->seconds += window->seconds;
    if (stats->tokens > held->tokens || (stats->tokens == held->tokens && stats->cache_bytes + stats->state_bytes >
                                                                              held->cache_bytes + held->state_bytes))
        all->stats = *stats;
    all->stats.peak_bytes = peak;
}

/* Scores one window with one policy. The last token is scored but not processed. */
static int window(const struct cli_command *command, const struct arguments *a, struct kvc_model *model,
                  const char *spec, const struct plan *plan, const int32_t *tokens, size_t count, struct score *score) {
    struct kvc_session_options options;
    struct kvc_session *session = NULL;
    struct rows rows = {tokens, count, plan->prompt, kvc_model_info(model)->vocab, score};
    struct kvc_prompt_options hooks = {.row = plan->at_once ? take_row : NULL, .user = &rows};
    struct kvc_error error;
    float *logits = malloc((size_t)rows.vocab * sizeof *logits);
    enum kvc_status status;

    if (!logits)
        return cli_no_memory(command);
    cli_session_options(&a->common, spec, &options);
    options.context = plan->length; /* the length selects the rope factors of longrope models */
    options.expected = count - plan->prompt;
    status = kvc_session_open(model, &options, &session, &error);
    if (status == KVC_OK)
        status = kvc_session_prompt(session, tokens, plan->at_once ? count - 1 : plan->prompt, &hooks, logits, &error);
    for (size_t i = plan->prompt; i < count && !plan->at_once && status == KVC_OK; i++) {
        add_score(score, logits, rows.vocab, tokens[i]);
        if (i + 1 < count)
            status = kvc_decode(&session, &tokens[i], 1, logits, NULL, &error);
    }
    if (status == KVC_OK)
        kvc_session_stats(session, &score->stats);
    kvc_session_close(session);
    free(logits);
    return status == KVC_OK ? KVC_OK : cli_report(command, &error);
}

static int perplexity_print(const struct cli_command *command, const struct arguments *a, const struct score *scores,
                            const struct plan *plan, size_t count) {
    struct cli_table *table;
    json_t *root = NULL, *list = NULL;
    int status;

    if (a->common.json) {
        root = json_object();
        list = json_array();
    }
    table = cli_table_open("<policy|perplexity|+-|tokens scored|tokens/s|cache|peak|full holds");
    for (size_t i = 0; i < a->specs.count; i++) {
        const struct score *s = &scores[i];
        double n = (double)s->scored, mean = s->loss / n, value = exp(mean);
        double variance = n > 1 ? (s->square - n * mean * mean) / (n - 1) : 0;
        double spread =
            value *
            sqrt(variance > 0 ? variance / n : 0); /* standard error of the mean loss, multiplied by the perplexity */
        char text[3][32];

        if (a->common.json) {
            json_t *one = json_object();

            cli_json_set(one, "kv", cli_json_text(a->specs.items[i].text, strlen(a->specs.items[i].text)));
            cli_json_set(one, "perplexity", cli_json_number(value));
            cli_json_set(one, "standard_error", n > 1 ? cli_json_number(spread) : json_null());
            cli_json_set(one, "loss", cli_json_number(mean));
            cli_json_set(one, "scored", json_integer((json_int_t)s->scored));
            cli_json_set(one, "seconds", json_real(s->seconds));
            cli_json_set(one, "memory", cli_stats_json(&s->stats));
            cli_json_add(list, one);
            continue;
        }
        cli_cell(table, "%s", a->specs.items[i].text);
        cli_cell(table, "%.4f", value);
        if (n > 1)
            cli_cell(table, "%.4f", spread);
        else
            cli_cell(table, "-"); /* the loss of a single token has no standard error */
        cli_cell(table, "%llu", (unsigned long long)s->scored);
        cli_cell(table, "%.1f", n / s->seconds);
        cli_cell(table, "%s", cli_bytes(s->stats.cache_bytes + s->stats.state_bytes, text[0]));
        cli_cell(table, "%s", cli_bytes(s->stats.peak_bytes, text[1]));
        cli_cell(table, "%s", cli_bytes(s->stats.full_bytes, text[2]));
    }
    if (a->common.json) {
        cli_json_set(root, "math", json_string(cli_math_name(plan->math)));
        cli_json_set(root, "tokens", json_integer((json_int_t)count));
        cli_json_set(root, "windows", json_integer((json_int_t)plan->windows));
        cli_json_set(root, "window", json_integer((json_int_t)plan->length));
        cli_json_set(root, "prompt", json_integer((json_int_t)plan->prompt));
        cli_json_set(root, "scored", json_integer((json_int_t)scores[0].scored));
        cli_json_set(root, "results", list);
        status = cli_json_print(command, root, stdout);
    } else {
        if (!a->common.quiet && cli_math_note(plan->math))
            printf("math %s\n", cli_math_note(plan->math));
        if (!a->common.quiet)
            printf(
                "%zu window%s of at most %zu tokens; the first %zu of each are its prompt, the others are scored%s\n\n",
                plan->windows, plan->windows == 1 ? "" : "s", plan->length, plan->prompt,
                plan->windows == 1 ? "" : ";\ncache and full holds: at the end of a whole window");
        status = cli_table_print(command, table, stdout);
        if (status == KVC_OK)
            status = cli_flush(command);
    }
    cli_table_free(table);
    return status;
}

/* Scores the windows of one rank: those with the numbers rank, rank + ranks, rank + 2 * ranks and so on. */
static int run_windows(const struct cli_command *command, const struct arguments *a, struct kvc_model *model,
                       const struct plan *plan, const int32_t *tokens, size_t count, size_t rank, size_t ranks,
                       struct score *windows) {
    const size_t own = (plan->windows + ranks - 1 - rank) / ranks * a->specs.count;
    struct cli_progress progress;
    size_t done = 0;
    int status = KVC_OK;

    cli_progress_start(&progress, "perplexity", a->common.quiet);
    for (size_t w = rank; w < plan->windows && status == KVC_OK; w += ranks) {
        size_t at = w * plan->length, n = cli_min(count - at, plan->length);

        for (size_t i = 0; i < a->specs.count && status == KVC_OK; i++) {
            struct score *score = &windows[w * a->specs.count + i];
            double start = cli_seconds();

            status = window(command, a, model, a->specs.items[i].text, plan, tokens + at, n, score);
            score->seconds = cli_seconds() - start;
            cli_progress(&progress, ++done, own);
        }
    }
    cli_progress_end(&progress);
    return status;
}

/* Sends the scores of every rank's windows to all other ranks. */
static void gather_windows(const struct cli_command *command, struct kvc_ranks *ranks, size_t each, size_t count,
                           struct score *windows) {
    const size_t rank_count = kvc_ranks_count(ranks), bytes = count * each * sizeof *windows;
    size_t *sizes = malloc(rank_count * sizeof *sizes);
    void *all = NULL;

    if (!sizes)
        _exit(cli_no_memory(command)); /* this ends the other ranks, which are waiting */
    kvc_ranks_gather(ranks, windows, bytes, &all, sizes);
    for (size_t w = 0; w < count; w++)
        memcpy(windows + w * each, (const char *)all + (w % rank_count) * bytes + w * each * sizeof *windows,
               each * sizeof *windows);
    free(all);
    free(sizes);
}

static int perplexity_measure(const struct cli_command *command, const struct arguments *a, struct kvc_model *model,
                              const int32_t *tokens, size_t count) {
    struct plan plan = {.math = kvc_model_info(model)->math,
                        .length = a->common.context ? (size_t)a->common.context : count,
                        .at_once = a->specs.count == 1 && strcmp(a->specs.items[0].text, "full") == 0};
    bool warned = false;
    struct kvc_ranks *ranks = cli_data_ranks();
    struct score *scores = calloc(a->specs.count, sizeof *scores), *windows;
    int status = KVC_OK;

    if (!scores)
        return cli_no_memory(command);
    if (count < 2) {
        free(scores);
        return cli_error(command, KVC_INPUT,
                         "%s: has less than two tokens, so there is nothing to score; give a longer text", a->file);
    }
    if (plan.length > count)
        plan.length = count;
    plan.prompt = a->prompt ? (size_t)a->prompt : plan.length / 2;
    if (plan.length < 2 || plan.prompt >= plan.length) {
        free(scores);
        return cli_error(command, KVC_USAGE,
                         "windows of %zu tokens with a prompt of %zu leave no token to score; give a longer text, a "
                         "larger --ctx or a smaller --prompt",
                         plan.length, plan.prompt);
    }
    cli_warn_context(command, model, plan.length, &warned);
    plan.windows = (count + plan.length - 1) / plan.length;
    if (count - (plan.windows - 1) * plan.length <= plan.prompt) /* the last window is too short to be scored */
        plan.windows--;
    if (a->windows && plan.windows > (size_t)a->windows)
        plan.windows = (size_t)a->windows;
    windows = calloc(plan.windows * a->specs.count, sizeof *windows);
    status = windows ? run_windows(command, a, model, &plan, tokens, count, cli_data_rank(),
                                   ranks ? kvc_ranks_count(ranks) : 1, windows)
                     : cli_no_memory(command);
    status = cli_agree(command, status);
    if (status == KVC_OK && ranks)
        gather_windows(command, ranks, a->specs.count, plan.windows, windows);
    for (size_t i = 0; i < plan.windows * a->specs.count && status == KVC_OK; i++)
        add_window(&scores[i % a->specs.count], &windows[i]);
    if (status == KVC_OK && cli_data_rank() == 0)
        status = perplexity_print(command, a, scores, &plan, count);
    free(windows);
    free(scores);
    return status;
}

int kvc_cli_perplexity(const struct cli_command *command, int argc, char **argv) {
    struct arguments a = {.model = NULL};
    const struct cli_option options[] = {
        {CLI_TEXT, 'm', "model", "MODEL", "a GGUF file or a Hugging Face folder", &a.model, 0, 0, NULL},
        {CLI_TEXT, 'f', "file", "FILE", "text file; - is standard input", &a.file, 0, 0, NULL},
        {CLI_TEXTS, 0, "kv", "SPEC", "a policy; several are compared on the same tokens", &a.specs, 0, 0, NULL},
        {CLI_INT, 0, "prompt", "N",
         "number of tokens at the beginning of each window that are its prompt; later tokens are scored; 0: half of "
         "the window",
         &a.prompt, 0, 2147483647, NULL},
        {CLI_INT, 0, "windows", "N", "maximum number of windows; 0: the whole text", &a.windows, 0, 2147483647, NULL},
        CLI_ENGINE_OPTIONS(&a.common),
        CLI_SESSION_OPTIONS(&a.common),
        CLI_OUTPUT_OPTIONS(&a.common),
        {.kind = CLI_END}};
    struct kvc_engine *engine = NULL;
    struct kvc_model *model = NULL;
    struct kvc_error error;
    int32_t *tokens = NULL;
    char *text = NULL;
    size_t bytes = 0, count = 0;
    int status;

    cli_common_defaults(&a.common);
    status = cli_parse(command, options, argc, argv, NULL);
    if (status == CLI_GO) {
        struct cli_given full = {0, "full"};
        bool given = a.specs.count > 0;

        a.common.quiet = a.common.quiet || cli_data_rank() > 0;
        if (!given)
            a.specs = (struct cli_texts){&full, 1};
        if (!a.file)
            status = cli_error(command, KVC_USAGE, "give a text with -f FILE");
        else if (cli_data_ranks() && strcmp(a.file, "-") == 0)
            status =
                cli_error(command, KVC_USAGE, "-f -: only rank 0 has standard input; with --ranks data give a file");
        else
            status = cli_open_model(command, &a.common, a.model, &a.specs, &engine, &model);
        if (status == KVC_OK)
            status = cli_read_file(command, a.file, &text, &bytes);
        if (model)
            status = cli_same_bytes(command, status, a.file, text, bytes);
        if (status == KVC_OK && kvc_tokenize(model, text, bytes, KVC_TOKENIZE_BOS, &tokens, &count, &error) != KVC_OK)
            status = cli_report(command, &error);
        if (status == KVC_OK)
            status = perplexity_measure(command, &a, model, tokens, count);
        free(tokens);
        free(text);
        kvc_model_close(model);
        kvc_engine_close(engine);
        if (!given)
            a.specs = (struct cli_texts){NULL, 0};
    }
    cli_texts_free(&a.specs);
    return status;
}
