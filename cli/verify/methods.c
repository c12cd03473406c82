/* methods.c - runs a prompt and then decode steps on ref and on every backend, step by step. After every step, all must
 * have the same logits and kept entries. */
#include <stdlib.h>
#include <string.h>

#include "cli/verify/verify.h"

struct run { /* the run of one backend; the first is ref */
    const char *name;
    struct kvc_engine *engine;
    struct kvc_model *model;
    struct kvc_session *session;
    struct kvc_hash *hash, *kept, *read;
    float *logits;
    struct kvc_verify_row row;
};

struct runs {
    const struct cli_command *command;
    const struct verify_arguments *a;
    struct run *run;     /* [count] */
    size_t first, count; /* first: 0, or 1 if the backends run without ref */
    uint32_t vocab, layers;
    int32_t *positions[2];
    size_t capacity;
    char *opened; /* the policy string with which the current sessions were opened */
    char *name;   /* the policy's name in the output; it begins with "int8:" or "int16:" for integer arithmetic */
};

/* ---- one run -------------------------------------------------------------------------------------------------------
 */

static uint32_t bits(float value) {
    uint32_t word;

    memcpy(&word, &value, sizeof word);
    return word;
}

uint64_t verify_values(const float *want, const float *got, size_t count, size_t *first, uint64_t *differing_bits) {
    uint64_t differing = 0;

    for (size_t i = 0; i < count; i++) {
        bool nan = want[i] != want[i] && got[i] != got[i];

        if (bits(want[i]) == bits(got[i]) || nan)
            continue;
        if (differing++ == 0)
            *first = i;
        for (uint32_t word = bits(want[i]) ^ bits(got[i]); word; word &= word - 1)
            ++*differing_bits;
    }
    return differing;
}

static void compare_logits(const struct runs *runs, struct run *run, const char *when) {
    const float *want = runs->run[0].logits;
    size_t first = 0;
    uint64_t differing = 0;

    if (runs->first == 0)
        differing = verify_values(want, run->logits, runs->vocab, &first, &run->row.differing_bits);
    kvc_hash_add(run->hash, run->logits, runs->vocab);
    run->row.values += runs->vocab;
    run->row.differing += differing;
    if (differing && run->row.first[0] == '\0')
        snprintf(run->row.first, sizeof run->row.first, "%s, logit %zu: %08x, not %08x", when, first,
                 bits(run->logits[first]), bits(want[first]));
}

typedef enum kvc_status entries_fn(const struct kvc_session *session, uint32_t layer, uint32_t head, int32_t *positions,
                                   size_t capacity, size_t *count, struct kvc_error *error);

static int read_positions(struct runs *runs, const struct run *run, entries_fn *entries, uint32_t layer, uint32_t head,
                          int which, size_t *count) {
    struct kvc_error error;
    enum kvc_status status = entries(run->session, layer, head, runs->positions[which], runs->capacity, count, &error);

    while (status == KVC_OK && *count > runs->capacity) {
        size_t capacity = 2 * *count;

        for (size_t i = 0; i < 2; i++) {
            int32_t *more = realloc(runs->positions[i], capacity * sizeof *more);

            if (!more)
                return cli_no_memory(runs->command);
            runs->positions[i] = more;
        }
        runs->capacity = capacity;
        status = entries(run->session, layer, head, runs->positions[which], capacity, count, &error);
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

static void hash_positions(struct kvc_hash *hash, const int32_t *positions, size_t count) {
    float value = (float)count;

    kvc_hash_add(hash, &value, 1);
    for (size_t i = 0; i < count; i++) {
        value = (float)positions[i];
        kvc_hash_add(hash, &value, 1);
    }
}

/* Compares the entries that one head keeps or reads in all runs. */
static int compare_head(struct runs *runs, bool read, uint32_t layer, uint32_t head, const char *when) {
    entries_fn *entries = read ? kvc_session_reads : kvc_session_positions;
    size_t want = 0, got;
    int status = runs->first ? KVC_OK : read_positions(runs, &runs->run[0], entries, layer, head, 0, &want);

    for (size_t r = 1; r < runs->count && status == KVC_OK; r++) {
        struct run *run = &runs->run[r];
        int32_t first = 0;
        uint64_t differing = 0;

        status = read_positions(runs, run, entries, layer, head, 1, &got);
        if (status != KVC_OK)
            break;
        hash_positions(read ? run->read : run->kept, runs->positions[1], got);
        if (runs->first == 0)
            differing = verify_positions(runs->positions[0], want, runs->positions[1], got, &first);
        if (differing && run->row.first[0] == '\0')
            snprintf(run->row.first, sizeof run->row.first,
                     "%s, layer %u, head %u: the entry at position %d is %s by only one of the two", when, layer, head,
                     first, read ? "read" : "kept");
        *(read ? &run->row.read_differing : &run->row.kept_differing) += differing;
    }
    return status;
}

static int compare_entries(struct runs *runs, bool read, const char *when) {
    int status = KVC_OK;

    for (uint32_t l = 0; l < runs->layers; l++)
        for (uint32_t h = 0; h < kvc_session_heads(runs->run[1].session, l) && status == KVC_OK; h++)
            status = compare_head(runs, read, l, h, when);
    return status;
}

static int32_t methods_likeliest(const float *logits, uint32_t vocab) {
    uint32_t best = 0;

    for (uint32_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

/* Runs the same tokens in all runs: the prompt or, if tokens is NULL, the most likely token of the first run as one
 * decode step. */
static int feed(struct runs *runs, const int32_t *tokens, size_t count, const char *when) {
    struct kvc_error error;
    int status = KVC_OK;
    int32_t token = 0;

    for (size_t r = runs->first; r < runs->count; r++) {
        struct run *run = &runs->run[r];
        enum kvc_status result;

        if (!tokens && (r == 0 || runs->first))
            token = methods_likeliest(run->logits, runs->vocab);
        result = tokens ? kvc_session_prompt(run->session, tokens, count, NULL, run->logits, &error)
                        : kvc_decode(&run->session, &token, 1, run->logits, NULL, &error);
        if (result != KVC_OK)
            return cli_report(runs->command, &error);
        if (r > 0)
            compare_logits(runs, run, when);
    }
    if (!tokens)
        status = compare_entries(runs, true, when);
    return status == KVC_OK ? compare_entries(runs, false, when) : status;
}

static void close_run(struct run *run) {
    kvc_session_close(run->session);
    kvc_hash_close(run->hash);
    kvc_hash_close(run->kept);
    kvc_hash_close(run->read);
    run->session = NULL;
    run->hash = run->kept = run->read = NULL;
}

static int open_run(const struct runs *runs, struct run *run) {
    struct kvc_session_options options;
    struct kvc_error error;

    cli_session_options(&runs->a->common, runs->opened, &options);
    options.seed = 1;
    options.expected = (uint64_t)runs->a->steps;
    options.record_reads = true;
    run->row = (struct kvc_verify_row){.kind = "method", .name = runs->name, .cases = 1 + (uint64_t)runs->a->steps};
    run->hash = kvc_hash_open();
    run->kept = kvc_hash_open();
    run->read = kvc_hash_open();
    if (!run->hash || !run->kept || !run->read)
        return cli_no_memory(runs->command);
    if (kvc_session_open(run->model, &options, &run->session, &error) != KVC_OK)
        return cli_report(runs->command, &error);
    return KVC_OK;
}

/* Runs one policy on all backends from `first` on, and fills the rows. */
static int run_policy(struct runs *runs) {
    const struct verify_arguments *a = runs->a;
    size_t prompt = (size_t)a->prompt;
    int32_t *tokens = malloc(prompt * sizeof *tokens);
    uint64_t random = 1;
    int status = tokens ? KVC_OK : cli_no_memory(runs->command);

    for (size_t i = 0; tokens && i < prompt; i++)
        tokens[i] = (int32_t)(cli_random(&random) % runs->vocab);
    for (size_t r = runs->first; r < runs->count && status == KVC_OK; r++)
        status = open_run(runs, &runs->run[r]);
    if (status == KVC_OK)
        status = feed(runs, tokens, prompt, "prompt");
    for (int64_t step = 1; step <= a->steps && status == KVC_OK; step++) {
        char when[32];

        snprintf(when, sizeof when, "step %lld", (long long)step);
        status = feed(runs, NULL, 1, when);
    }
    for (size_t r = runs->first; r < runs->count; r++) {
        struct run *run = &runs->run[r];

        if (status == KVC_OK && r > 0) {
            run->row.hash = kvc_hash_value(run->hash);
            run->row.kept_hash = kvc_hash_value(run->kept);
            run->row.read_hash = kvc_hash_value(run->read);
        }
        close_run(run);
    }
    free(tokens);
    return status;
}

static enum kvc_math math_of(const struct runs *runs) { return cli_math(&runs->a->common); }
static bool is_int8(const struct runs *runs) { return math_of(runs) == KVC_MATH_INT8; }

/* Sets runs->opened and runs->name for the next policy. If the policy comes from "all" and needs a file, it gets the
 * bundled file. */
static int name_policy(struct runs *runs, const struct cli_given *given) {
    const char *ending = strstr(given->text, VERIFY_FILE);
    char *path = NULL;
    size_t capacity = strlen(given->text) + 1;
    int status = KVC_OK;

    free(runs->opened);
    free(runs->name);
    runs->opened = NULL;
    runs->name = malloc(capacity + sizeof "int16:");
    if (!runs->name)
        return cli_no_memory(runs->command);
    const bool integers = cli_integer_version(math_of(runs)) != 0;
    snprintf(runs->name, capacity + sizeof "int16:", "%s%s%s", integers ? cli_math_name(math_of(runs)) : "",
             integers ? ":" : "", given->text);
    if (given->letter == '*' && ending)
        status = cli_data_path(runs->command, "tokens.txt", &path);
    if (status != KVC_OK)
        return status;
    capacity += path ? strlen(path) : 0;
    runs->opened = malloc(capacity);
    if (!runs->opened)
        status = cli_no_memory(runs->command);
    else if (path)
        snprintf(runs->opened, capacity, "%.*s,file=\"%s\"", (int)(ending - given->text), given->text, path);
    else
        snprintf(runs->opened, capacity, "%s", given->text);
    free(path);
    return status;
}

/* Verifies one policy. If hashes are stored, the backends run alone; ref runs only if the hashes differ or are missing.
 */
static int verify_policy(struct runs *runs, struct verify_report *report) {
    bool alone = report->stored || report->writing, same = true;
    int status;

    runs->first = alone ? 1 : 0;
    status = run_policy(runs);
    if (status == KVC_OK && report->writing)
        return verify_hashes_add(runs->command, &report->hashes, &runs->run[1].row);
    for (size_t r = 1; alone && r < runs->count; r++)
        same = same && verify_hashes_find(&report->hashes, &runs->run[r].row) == VERIFY_EQUAL;
    if (status == KVC_OK && !same) {
        alone = false;
        runs->first = 0;
        status = run_policy(runs);
    }
    for (size_t r = 1; r < runs->count && status == KVC_OK; r++) {
        const struct kvc_verify_row *row = &runs->run[r].row;
        bool equal = row->differing + row->kept_differing + row->read_differing == 0;

        if (!alone && report->stored && equal && verify_hashes_find(&report->hashes, row) == VERIFY_OTHER)
            return verify_hashes_stale(runs->command, &report->hashes, runs->name);
        verify_add(report, runs->run[r].name, row, alone);
    }
    return status;
}

/* ---- all runs ------------------------------------------------------------------------------------------------------
 */

static int open_runs(struct runs *runs, const char *path, const char *const *backends) {
    for (size_t r = 0; r < runs->count; r++) {
        struct run *run = &runs->run[r];
        struct cli_common common = runs->a->common;
        struct kvc_error error;
        int status;

        run->name = r == 0 ? "ref" : backends[r - 1];
        common.backend = run->name;
        common.alone = r == 0;
        status = cli_open_model(runs->command, &common, path, NULL, &run->engine, &run->model);
        if (status != KVC_OK)
            return status;
        if (r > 0 && runs->a->inject && kvc_verify_inject(run->engine, runs->a->inject, &error) != KVC_OK)
            return cli_report(runs->command, &error);
        runs->vocab = kvc_model_info(run->model)->vocab;
        run->logits = malloc((size_t)runs->vocab * sizeof *run->logits);
        if (!run->logits)
            return cli_no_memory(runs->command);
    }
    runs->layers = kvc_model_info(runs->run[0].model)->layers;
    runs->capacity = (size_t)(runs->a->prompt + runs->a->steps);
    for (size_t i = 0; i < 2; i++) {
        runs->positions[i] = malloc(runs->capacity * sizeof *runs->positions[i]);
        if (!runs->positions[i])
            return cli_no_memory(runs->command);
    }
    return KVC_OK;
}

/* Checks that the stored hashes apply; if not, they are ignored. They belong to one model, prompt, number of steps and
 * cache type. Hashes of int8 belong to the bundled model after quantization. */
static int match_stored(const struct runs *runs, const char *path, struct verify_report *report) {
    const struct verify_arguments *a = runs->a;
    const struct cli_command *command = runs->command;
    struct verify_hashes *hashes = &report->hashes;
    uint64_t model;
    int status = verify_model_hash(command, path, &model);

    if (report->writing) {
        hashes->model = model;
        hashes->prompt = a->prompt;
        hashes->steps = a->steps;
        hashes->type = a->common.cache_type;
    } else if (status == KVC_OK &&
               (hashes->model != model || hashes->prompt != a->prompt || hashes->steps != a->steps ||
                !kvc_entry_types_equal(hashes->type, a->common.cache_type) || (is_int8(runs) && a->model))) {
        for (size_t i = 0; i < hashes->count; i++)
            if (hashes->items[i].method)
                hashes->items[i].name[0] = '\0';
    }
    return status;
}

int verify_model(const struct cli_command *command, const struct verify_arguments *a) {
    struct cli_common common = a->common;
    struct kvc_engine *engine = NULL;
    struct kvc_model *model = NULL;
    char *bundled = NULL;
    int status = a->model ? KVC_OK : cli_data_path(command, "demo", &bundled);

    common.backend = "ref";
    if (status == KVC_OK)
        status = cli_open_model(command, &common, a->model ? a->model : bundled, NULL, &engine, &model);
    kvc_model_close(model);
    kvc_engine_close(engine);
    free(bundled);
    return status;
}

/* Opens the model on all backends. Without a given model, opens the bundled model, which is quantized for int8. */
static int open_model(struct runs *runs, const char *path, const char *const *backends) {
    struct cli_temporary temporary;
    struct kvc_error error;
    int status;

    if (runs->a->model || !is_int8(runs))
        return open_runs(runs, path, backends);
    status = cli_temporary_open(runs->command, &temporary);
    if (status != KVC_OK)
        return status;
    if (kvc_convert(path, temporary.file, KVC_Q8_0, &error) != KVC_OK)
        status = cli_report(runs->command, &error);
    if (status == KVC_OK)
        status = open_runs(runs, temporary.file, backends);
    cli_temporary_close(&temporary);
    return status;
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
    const char *path = a->model ? a->model : bundled;
    if (status == KVC_OK)
        status = open_model(&runs, path, backends);
    if (status == KVC_OK && (report->stored || report->writing))
        status = match_stored(&runs, path, report);
    if (status == KVC_OK)
        cli_leave_out(command, runs.run[0].engine, runs.run[0].model, a->common.cache_type, specs);
    if (status == KVC_OK && report->table && !a->only)
        cli_table_rule(report->table);
    cli_progress_start(&progress,
                       is_int8(&runs)                     ? "methods, int8"
                       : math_of(&runs) == KVC_MATH_INT16 ? "methods, int16"
                                                          : "methods",
                       a->common.quiet);
    for (size_t i = 0; i < specs->count && status == KVC_OK; i++) {
        status = name_policy(&runs, &specs->items[i]);
        if (status == KVC_OK)
            status = verify_policy(&runs, report);
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
    free(runs.opened);
    free(runs.name);
    free(bundled);
    return status;
}
