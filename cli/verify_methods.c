/* verify_methods.c - whole runs: prompt, then decode steps, on ref and on every backend beside each other. After every
 * step the logits and the entries kept must be the same. */
#include <stdlib.h>
#include <string.h>

#include "cli/verify.h"

struct run { /* of one backend; the first is ref */
    const char *name;
    struct kvc_engine *engine;
    struct kvc_model *model;
    struct kvc_session *session;
    struct kvc_hash *hash;
    float *logits;
    struct kvc_verify_row row;
};

struct runs {
    const struct cli_command *command;
    const struct verify_arguments *a;
    struct run *run; /* [count] */
    size_t count;
    uint32_t vocab, layers, kv_heads;
    int32_t *positions[2];
    size_t room;
};

/* ---- one run -------------------------------------------------------------------------------------------------------
 */

static uint32_t bits(float value) {
    uint32_t word;

    memcpy(&word, &value, sizeof word);
    return word;
}

uint64_t verify_values(const float *want, const float *got, size_t count, size_t *first) {
    uint64_t differing = 0;

    for (size_t i = 0; i < count; i++) {
        bool nan = want[i] != want[i] && got[i] != got[i];

        if (bits(want[i]) != bits(got[i]) && !nan && differing++ == 0)
            *first = i;
    }
    return differing;
}

static void compare_logits(const struct runs *runs, struct run *run, const char *when) {
    const float *want = runs->run[0].logits;
    size_t first = 0;
    uint64_t differing = verify_values(want, run->logits, runs->vocab, &first);

    kvc_hash_add(run->hash, run->logits, runs->vocab);
    run->row.values += runs->vocab;
    run->row.differing += differing;
    if (differing && run->row.first[0] == '\0')
        snprintf(run->row.first, sizeof run->row.first, "%s, logit %zu: %08x, not %08x", when, first,
                 bits(run->logits[first]), bits(want[first]));
}

static int read_positions(struct runs *runs, const struct run *run, uint32_t layer, uint32_t head, int which,
                          size_t *count) {
    struct kvc_error error;
    enum kvc_status status =
        kvc_session_positions(run->session, layer, head, runs->positions[which], runs->room, count, &error);

    while (status == KVC_OK && *count > runs->room) {
        size_t room = 2 * *count;

        for (size_t i = 0; i < 2; i++) {
            int32_t *more = realloc(runs->positions[i], room * sizeof *more);

            if (!more)
                return cli_no_memory(runs->command);
            runs->positions[i] = more;
        }
        runs->room = room;
        status = kvc_session_positions(run->session, layer, head, runs->positions[which], room, count, &error);
    }
    return status == KVC_OK ? KVC_OK : cli_error(runs->command, status, "%s", error.text);
}

uint64_t verify_positions(const int32_t *a, size_t n, const int32_t *b, size_t m, int32_t *first) {
    uint64_t count = 0;
    size_t i = 0, j = 0;

    while (i < n || j < m) {
        if (i < n && j < m && a[i] == b[j]) {
            i++;
            j++;
            continue;
        }
        if (j == m || (i < n && a[i] < b[j])) {
            if (count++ == 0)
                *first = a[i];
            i++;
        } else {
            if (count++ == 0)
                *first = b[j];
            j++;
        }
    }
    return count;
}

static int compare_entries(struct runs *runs, const char *when) {
    for (uint32_t l = 0; l < runs->layers; l++)
        for (uint32_t h = 0; h < runs->kv_heads; h++) {
            size_t want, got;
            int status = read_positions(runs, &runs->run[0], l, h, 0, &want);

            for (size_t r = 1; r < runs->count && status == KVC_OK; r++) {
                struct run *run = &runs->run[r];
                int32_t first = 0;
                uint64_t differing;

                status = read_positions(runs, run, l, h, 1, &got);
                if (status != KVC_OK)
                    break;
                if (got > want) /* a list may have been read into less room than it has now */
                    status = read_positions(runs, &runs->run[0], l, h, 0, &want);
                differing = verify_positions(runs->positions[0], want, runs->positions[1], got, &first);
                if (differing && run->row.first[0] == '\0')
                    snprintf(run->row.first, sizeof run->row.first,
                             "%s, layer %u, head %u: the entry at position %d is "
                             "kept by one only",
                             when, l, h, first);
                run->row.kept_differing += differing;
            }
            if (status != KVC_OK)
                return status;
        }
    return KVC_OK;
}

/* Feeds the same tokens to all: the prompt, or one decode step. */
static int feed(struct runs *runs, const int32_t *tokens, size_t count, bool prompt, const char *when) {
    struct kvc_error error;

    for (size_t r = 0; r < runs->count; r++) {
        struct run *run = &runs->run[r];
        enum kvc_status status = prompt ? kvc_session_prompt(run->session, tokens, count, NULL, run->logits, &error)
                                        : kvc_decode(&run->session, tokens, 1, run->logits, NULL, &error);

        if (status != KVC_OK)
            return cli_report(runs->command, &error);
        if (r > 0)
            compare_logits(runs, run, when);
    }
    return compare_entries(runs, when);
}

static int32_t likeliest(const float *logits, uint32_t vocab) {
    uint32_t best = 0;

    for (uint32_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

static int run_policy(struct runs *runs, const char *spec, struct verify_report *report) {
    const struct verify_arguments *a = runs->a;
    size_t prompt = (size_t)a->prompt;
    int32_t *tokens = malloc(prompt * sizeof *tokens);
    uint64_t random = 1;
    struct kvc_session_options options;
    struct kvc_error error;
    int status = tokens ? KVC_OK : cli_no_memory(runs->command);

    cli_session_options(&a->common, spec, &options);
    options.seed = 1;
    options.expected = (uint64_t)a->steps;
    for (size_t i = 0; tokens && i < prompt; i++)
        tokens[i] = (int32_t)(cli_random(&random) % runs->vocab);
    for (size_t r = 0; r < runs->count && status == KVC_OK; r++) {
        struct run *run = &runs->run[r];

        run->row = (struct kvc_verify_row){.kind = "method", .name = spec, .cases = 1 + (uint64_t)a->steps};
        run->hash = kvc_hash_open();
        if (!run->hash)
            status = cli_no_memory(runs->command);
        else if (kvc_session_open(run->model, &options, &run->session, &error) != KVC_OK)
            status = cli_report(runs->command, &error);
    }
    if (status == KVC_OK)
        status = feed(runs, tokens, prompt, true, "prompt");
    for (int64_t step = 1; step <= a->steps && status == KVC_OK; step++) {
        int32_t token = likeliest(runs->run[0].logits, runs->vocab);
        char when[32];

        snprintf(when, sizeof when, "step %lld", (long long)step);
        status = feed(runs, &token, 1, false, when);
    }
    for (size_t r = 0; r < runs->count; r++) {
        struct run *run = &runs->run[r];

        if (status == KVC_OK && r > 0) {
            run->row.hash = kvc_hash_value(run->hash);
            verify_add(report, run->name, &run->row);
        }
        kvc_session_close(run->session);
        kvc_hash_close(run->hash);
        run->session = NULL;
        run->hash = NULL;
    }
    free(tokens);
    return status;
}

/* ---- all runs ------------------------------------------------------------------------------------------------------
 */

static int open_runs(struct runs *runs, const char *path, const char *const *backends) {
    for (size_t r = 0; r < runs->count; r++) {
        struct run *run = &runs->run[r];
        struct cli_common common = runs->a->common;
        int status;

        run->name = r == 0 ? "ref" : backends[r - 1];
        common.backend = run->name;
        status = cli_open_model(runs->command, &common, path, NULL, &run->engine, &run->model);
        if (status != KVC_OK)
            return status;
        runs->vocab = kvc_model_info(run->model)->vocab;
        run->logits = malloc((size_t)runs->vocab * sizeof *run->logits);
        if (!run->logits)
            return cli_no_memory(runs->command);
    }
    runs->layers = kvc_model_info(runs->run[0].model)->layers;
    runs->kv_heads = kvc_model_info(runs->run[0].model)->kv_heads;
    runs->room = (size_t)(runs->a->prompt + runs->a->steps);
    for (size_t i = 0; i < 2; i++) {
        runs->positions[i] = malloc(runs->room * sizeof *runs->positions[i]);
        if (!runs->positions[i])
            return cli_no_memory(runs->command);
    }
    return KVC_OK;
}

int verify_methods(const struct cli_command *command, const struct verify_arguments *a, struct cli_texts *specs,
                   const char *const *backends, size_t count, struct verify_report *report) {
    struct runs runs = {.command = command, .a = a, .count = count + 1};
    struct cli_progress progress;
    char *bundled = NULL;
    int status = KVC_OK;

    runs.run = calloc(runs.count, sizeof *runs.run);
    if (!runs.run)
        return cli_no_memory(command);
    if (!a->model)
        status = cli_data_path(command, "demo", &bundled);
    if (status == KVC_OK)
        status = open_runs(&runs, a->model ? a->model : bundled, backends);
    if (status == KVC_OK)
        cli_leave_out(command, runs.run[0].engine, runs.run[0].model, specs);
    if (status == KVC_OK && report->table && !a->only)
        cli_table_rule(report->table);
    cli_progress_start(&progress, "methods", a->common.quiet);
    for (size_t i = 0; i < specs->count && status == KVC_OK; i++) {
        status = run_policy(&runs, specs->items[i].text, report);
        cli_progress(&progress, i + 1, specs->count);
    }
    cli_progress_end(&progress);
    for (size_t r = 0; r < runs.count; r++) {
        free(runs.run[r].logits);
        kvc_model_close(runs.run[r].model);
        kvc_engine_close(runs.run[r].engine);
    }
    free(runs.positions[0]);
    free(runs.positions[1]);
    free(runs.run);
    free(bundled);
    return status;
}
