/* needle.c - `kvcull eval needle`: can a model still find facts at every depth of a text under each policy? */
#include "eval/eval.h"
#include "eval/needle_text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEPTHS_MOST 20u
#define ANSWER_TOKENS 12u

struct cell { /* one policy at one length */
    uint64_t asked[DEPTHS_MOST], right[DEPTHS_MOST];
    uint64_t prompts, entries, held_bytes, peak_bytes, read_bytes, steps;
    double seconds;
};

struct task {
    const struct cli_command *command;
    struct cli_common common;
    const char *model_path, *words_path, *out;
    struct cli_texts specs;
    struct cli_counts lengths;
    int64_t texts, depth_count, seed, show;
    double depths[DEPTHS_MOST];
    struct kvc_engine *engine;
    struct kvc_model *model;
    struct needle_words words;
    float *logits;
    struct cell *cells; /* [lengths, specs] */
    struct cli_progress progress;
};

static struct cell *cell_at(const struct task *task, size_t length, size_t spec) {
    return &task->cells[length * task->specs.count + spec];
}

/* Whether the answer, blanks aside, begins with the fact's two numbers and nothing grows out of the second. */
static bool is_right(const struct needle_fact *fact, const char *answer) {
    for (size_t i = 0; i < 2; i++) {
        const size_t length = strlen(fact->number[i]);
        while (*answer == ' ' || *answer == '\n')
            answer++;
        if (strncmp(answer, fact->number[i], length))
            return false;
        answer += length;
    }
    return !(*answer >= '0' && *answer <= '9');
}

/* Greedy answer to a prompt under a policy, up to the first full stop; *answer is malloc'ed. */
static int answer_prompt(struct task *task, const char *spec, const int32_t *tokens, size_t count, struct cell *cell,
                         char **answer) {
    struct kvc_error error;
    struct kvc_session_options options;
    struct kvc_session *session = NULL;
    struct kvc_session_stats stats;
    int32_t made[ANSWER_TOKENS];
    size_t made_count = 0, bytes;
    const uint32_t vocab = kvc_model_info(task->model)->vocab;
    const double start = cli_seconds();
    *answer = NULL;
    cli_session_options(&task->common, spec, &options);
    enum kvc_status status = kvc_session_open(task->model, &options, &session, &error);
    if (status == KVC_OK)
        status = kvc_session_prompt(session, tokens, count, NULL, task->logits, &error);
    if (status == KVC_OK) {
        kvc_session_stats(session, &stats);
        cell->prompts++;
        cell->entries += stats.entries_most;
        cell->held_bytes += stats.cache_bytes + stats.state_bytes;
        if (stats.peak_bytes > cell->peak_bytes)
            cell->peak_bytes = stats.peak_bytes;
    }
    while (status == KVC_OK && made_count < ANSWER_TOKENS) {
        const int32_t token = eval_likeliest(task->logits, vocab);
        if (kvc_token_ends_turn(task->model, token))
            break;
        made[made_count++] = token;
        free(*answer);
        *answer = NULL;
        status = kvc_detokenize(task->model, made, made_count, false, answer, &bytes, &error);
        if (status == KVC_OK && (strchr(*answer, '.') || made_count == ANSWER_TOKENS))
            break;
        if (status == KVC_OK)
            status = kvc_decode(&session, &token, 1, task->logits, NULL, &error);
    }
    if (status == KVC_OK) {
        kvc_session_stats(session, &stats);
        cell->read_bytes += stats.read_bytes;
        cell->steps += stats.decode_steps;
        cell->seconds += cli_seconds() - start;
        if (!*answer)
            *answer = strdup("");
    }
    kvc_session_close(session);
    if (status != KVC_OK)
        return cli_report(task->command, &error);
    return *answer ? KVC_OK : cli_no_memory(task->command);
}

/* ---- what a person sees of one text ---- */

static void show_prompt(const struct needle_text *text, const struct needle_fact *fact, size_t tokens) {
    enum { EDGE = 160 };
    char sentence[256];
    snprintf(sentence, sizeof sentence, "the magic number for %s ", fact->key);
    const size_t length = strlen(text->text);
    const char *found = strstr(text->text, sentence);
    printf("A text of %zu tokens:\n\n", tokens);
    if (length > 4 * EDGE && found) {
        size_t from = (size_t)(found - text->text);
        from = from > EDGE / 2 ? from - EDGE / 2 : 0;
        while (from > 0 && text->text[from - 1] != ' ')
            from--;
        char *part = NULL;
        const size_t room = 3 * EDGE + 64;
        part = malloc(room);
        if (part) {
            snprintf(part, room, "%.*s ... %.*s ... %.*s", EDGE, text->text, EDGE, text->text + from, EDGE,
                     text->text + length - EDGE);
            cli_wrap(stdout, part, 4);
        }
        free(part);
    } else {
        cli_wrap(stdout, text->text, 4);
    }
    printf("\nQuestion : the magic number for %s\nExpected : %s %s .\n\n", fact->key, fact->number[0], fact->number[1]);
}

static int ask(struct task *task, size_t length, const struct needle_text *text, size_t f, bool show) {
    const struct needle_fact *fact = &text->facts[f];
    struct kvc_error error;
    int32_t *tokens = NULL;
    size_t count = 0;
    int status = KVC_OK;
    char *question = needle_question(fact);
    const size_t bytes = question ? strlen(text->text) + strlen(question) + 2 : 0;
    char *prompt = question ? malloc(bytes) : NULL;
    struct cli_table *table = show ? cli_table_open("<policy|entries|<answer|<") : NULL;
    if (prompt) {
        snprintf(prompt, bytes, "%s %s", text->text, question);
        if (kvc_tokenize(task->model, prompt, strlen(prompt), KVC_TOKENIZE_BOS, &tokens, &count, &error) != KVC_OK)
            status = cli_report(task->command, &error);
    } else {
        status = cli_no_memory(task->command);
    }
    if (status == KVC_OK && show)
        show_prompt(text, fact, count);
    for (size_t s = 0; s < task->specs.count && status == KVC_OK; s++) {
        struct cell *cell = cell_at(task, length, s);
        const uint64_t entries = cell->entries;
        char *answer;
        status = answer_prompt(task, task->specs.items[s].text, tokens, count, cell, &answer);
        if (status != KVC_OK) {
            free(answer);
            break;
        }
        const bool right = is_right(fact, answer);
        cell->asked[f]++;
        cell->right[f] += right;
        if (table) {
            cli_cell(table, "%s", task->specs.items[s].text);
            cli_cell(table, "%llu", (unsigned long long)(cell->entries - entries));
            cli_cell(table, "%s", answer);
            cli_cell(table, "%s", right ? "right" : "wrong");
        }
        free(answer);
    }
    if (table && status == KVC_OK) {
        status = cli_table_print(task->command, table, stdout);
        printf("\n");
    }
    cli_table_free(table);
    free(tokens);
    free(prompt);
    free(question);
    return status;
}

static int run_texts(struct task *task) {
    int status = KVC_OK;
    uint64_t done = 0;
    const uint64_t total = (uint64_t)task->texts * task->lengths.count * (uint64_t)task->depth_count;
    cli_progress_start(&task->progress, "needle", task->common.quiet);
    for (size_t length = 0; length < task->lengths.count && status == KVC_OK; length++) {
        for (int64_t i = 0; i < task->texts && status == KVC_OK; i++) {
            struct needle_text text;
            const uint64_t seed = (uint64_t)task->seed * 1000003u + (uint64_t)i * 101u + length;
            status = needle_text_make(task->command, task->model, &task->words, task->lengths.items[length],
                                      task->depths, (size_t)task->depth_count, seed, &text);
            if (status != KVC_OK)
                break;
            const size_t shown = (size_t)(i % task->depth_count); /* another depth for each text shown */
            for (size_t f = 0; f < text.fact_count && status == KVC_OK; f++) {
                const bool show = length == 0 && i < task->show && f == shown && !task->common.json;
                status = ask(task, length, &text, f, show);
                cli_progress(&task->progress, ++done, total);
            }
            needle_text_free(&text);
        }
    }
    cli_progress_end(&task->progress);
    return status;
}

/* ---- results ---- */

/* "morphkv:budget=128,every=8" is method "morphkv:every=8" with budget "128". */
static void split_budget(const char *spec, char *method, char *budget, size_t room) {
    const char *found = strstr(spec, "budget=");
    size_t start = found ? (size_t)(found - spec) : strlen(spec), end = start;
    snprintf(budget, room, "-");
    if (found) {
        const size_t length = strcspn(found + 7, ",+");
        snprintf(budget, room, "%.*s", (int)length, found + 7);
        end = start + 7 + length;
        if (spec[end] == ',')
            end++;
        else if (start > 0)
            start--;
    }
    snprintf(method, room, "%.*s%s", (int)start, spec, spec + end);
}

static double share(uint64_t part, uint64_t whole) { return whole ? (double)part / (double)whole : 0; }

static void totals(const struct task *task, const struct cell *cell, uint64_t *asked, uint64_t *right) {
    *asked = *right = 0;
    for (int64_t f = 0; f < task->depth_count; f++) {
        *asked += cell->asked[f];
        *right += cell->right[f];
    }
}

static int print_length(const struct task *task, size_t length) {
    char headings[400] = "<method|budget";
    for (int64_t f = 0; f < task->depth_count; f++) {
        const size_t used = strlen(headings);
        snprintf(headings + used, sizeof headings - used, "|%.0f%%", 100 * task->depths[f]);
    }
    const size_t used = strlen(headings);
    snprintf(headings + used, sizeof headings - used, "|all|entries|held|read/token");
    struct cli_table *table = cli_table_open(headings);
    for (size_t s = 0; s < task->specs.count; s++) {
        const struct cell *cell = cell_at(task, length, s);
        char method[256], budget[256], held[32], read[32];
        uint64_t asked, right;
        split_budget(task->specs.items[s].text, method, budget, sizeof method);
        cli_cell(table, "%s", method);
        cli_cell(table, "%s", budget);
        for (int64_t f = 0; f < task->depth_count; f++)
            cli_cell(table, "%.2f", share(cell->right[f], cell->asked[f]));
        totals(task, cell, &asked, &right);
        cli_cell(table, "%.2f", share(right, asked));
        cli_cell(table, "%.0f", share(cell->entries, cell->prompts));
        cli_cell(table, "%s", cli_bytes(cell->prompts ? cell->held_bytes / cell->prompts : 0, held));
        cli_cell(table, "%s", cli_bytes(cell->steps ? cell->read_bytes / cell->steps : 0, read));
    }
    printf("%sTexts of %llu tokens: exact answers by depth of the fact (%lld texts, %s cache)\n\n", length ? "\n" : "",
           (unsigned long long)task->lengths.items[length], (long long)task->texts,
           kvc_type_name(task->common.cache_type));
    const int status = cli_table_print(task->command, table, stdout);
    cli_table_free(table);
    return status;
}

static json_t *cell_json(const struct task *task, size_t length, size_t s) {
    const struct cell *cell = cell_at(task, length, s);
    char method[256], budget[256];
    uint64_t asked, right;
    json_t *object = json_object(), *depths = json_array();
    split_budget(task->specs.items[s].text, method, budget, sizeof method);
    totals(task, cell, &asked, &right);
    for (int64_t f = 0; f < task->depth_count; f++) {
        json_t *depth = json_object();
        cli_json_set(depth, "depth", json_real(task->depths[f]));
        cli_json_set(depth, "asked", json_integer((json_int_t)cell->asked[f]));
        cli_json_set(depth, "right", json_integer((json_int_t)cell->right[f]));
        json_array_append_new(depths, depth);
    }
    const char *spec = task->specs.items[s].text;
    cli_json_set(object, "kv", cli_json_text(spec, strlen(spec)));
    cli_json_set(object, "method", cli_json_text(method, strlen(method)));
    cli_json_set(object, "budget", cli_json_text(budget, strlen(budget)));
    cli_json_set(object, "tokens", json_integer((json_int_t)task->lengths.items[length]));
    cli_json_set(object, "accuracy", json_real(share(right, asked)));
    cli_json_set(object, "depths", depths);
    cli_json_set(object, "entries", json_real(share(cell->entries, cell->prompts)));
    cli_json_set(object, "held_bytes", json_real(share(cell->held_bytes, cell->prompts)));
    cli_json_set(object, "peak_bytes", json_integer((json_int_t)cell->peak_bytes));
    cli_json_set(object, "read_bytes_per_token", json_real(share(cell->read_bytes, cell->steps)));
    cli_json_set(object, "seconds", json_real(cell->seconds));
    return object;
}

static json_t *results_json(const struct task *task) {
    json_t *object = json_object(), *cells = json_array();
    for (size_t length = 0; length < task->lengths.count; length++) {
        for (size_t s = 0; s < task->specs.count; s++)
            json_array_append_new(cells, cell_json(task, length, s));
    }
    cli_json_set(object, "task", json_string("needle"));
    cli_json_set(object, "model", cli_json_text(task->model_path, strlen(task->model_path)));
    cli_json_set(object, "cache_type", json_string(kvc_type_name(task->common.cache_type)));
    cli_json_set(object, "texts", json_integer(task->texts));
    cli_json_set(object, "seed", json_integer(task->seed));
    cli_json_set(object, "results", cells);
    return object;
}

static void write_csv(const void *user, FILE *stream) {
    const struct task *task = user;
    fprintf(stream, "kv,tokens,depth,asked,right,entries,held_bytes,peak_bytes,read_bytes_per_token\n");
    for (size_t length = 0; length < task->lengths.count; length++) {
        for (size_t s = 0; s < task->specs.count; s++) {
            const struct cell *cell = cell_at(task, length, s);
            for (int64_t f = 0; f < task->depth_count; f++) {
                eval_csv_text(stream, task->specs.items[s].text);
                fprintf(stream, ",%llu,%g,%llu,%llu,%.1f,%.1f,%llu,%.1f\n",
                        (unsigned long long)task->lengths.items[length], task->depths[f],
                        (unsigned long long)cell->asked[f], (unsigned long long)cell->right[f],
                        share(cell->entries, cell->prompts), share(cell->held_bytes, cell->prompts),
                        (unsigned long long)cell->peak_bytes, share(cell->read_bytes, cell->steps));
            }
        }
    }
}

/* words.json beside the model, or the bundled model's. */
static int open_words(struct task *task) {
    char *path = NULL;
    if (task->words_path)
        return needle_words_open(task->command, task->words_path, &task->words);
    const size_t room = strlen(task->model_path) + 16;
    path = malloc(room);
    if (!path)
        return cli_no_memory(task->command);
    snprintf(path, room, "%s/words.json", task->model_path);
    struct stat found;
    int status = KVC_OK;
    if (stat(path, &found)) {
        char *folder;
        free(path);
        path = NULL;
        status = cli_data_path(task->command, "demo", &folder);
        if (status != KVC_OK)
            return status;
        const size_t length = strlen(folder) + 16;
        path = malloc(length);
        if (path)
            snprintf(path, length, "%s/words.json", folder);
        else
            status = cli_no_memory(task->command);
        free(folder);
    }
    if (status == KVC_OK)
        status = needle_words_open(task->command, path, &task->words);
    free(path);
    return status;
}

static int run_task(struct task *task) {
    if (task->specs.count == 0)
        return cli_error(task->command, KVC_USAGE, "no policy is given: --kv full --kv snapkv:budget=128, say");
    int status =
        cli_open_model(task->command, &task->common, task->model_path, &task->specs, &task->engine, &task->model);
    if (status == KVC_OK)
        status = open_words(task);
    if (status != KVC_OK)
        return status;
    for (int64_t f = 0; f < task->depth_count; f++)
        task->depths[f] = ((double)f + 0.5) / (double)task->depth_count;
    task->logits = malloc(kvc_model_info(task->model)->vocab * sizeof *task->logits);
    task->cells = calloc(task->lengths.count * task->specs.count, sizeof *task->cells);
    if (!task->logits || !task->cells)
        return cli_no_memory(task->command);
    bool warned = false;
    for (size_t length = 0; length < task->lengths.count; length++)
        cli_warn_context(task->command, task->model, task->lengths.items[length] + ANSWER_TOKENS, &warned);
    status = run_texts(task);
    if (status == KVC_OK && task->out)
        status = eval_write(task->command, task->out, "needle", results_json(task), write_csv, task);
    if (status == KVC_OK && task->common.json)
        return cli_json_print(task->command, results_json(task), stdout);
    for (size_t length = 0; length < task->lengths.count && status == KVC_OK; length++)
        status = print_length(task, length);
    return status;
}

int eval_needle(const struct cli_command *command, int argc, char **argv) {
    struct task task = {
        .command = command, .texts = 10, .depth_count = 5, .seed = 1, .lengths = {.items = {1024}, .count = 1}};
    cli_common_defaults(&task.common);
    const struct cli_option options[] = {
        {CLI_TEXT, 'm', "model", "MODEL", "a GGUF file or a Hugging Face folder", &task.model_path, 0, 0, NULL},
        {CLI_TEXTS, 0, "kv", "SPEC", "a policy; may be given several times", &task.specs, 0, 0, NULL},
        {CLI_COUNTS, 0, "length", "N,..", "tokens of a text", &task.lengths, 32, 16777216, NULL},
        {CLI_INT, 0, "texts", "N", "texts of each length", &task.texts, 1, 100000, NULL},
        {CLI_INT, 0, "depths", "N", "facts in a text, at evenly spaced depths, each asked for", &task.depth_count, 1,
         DEPTHS_MOST, NULL},
        {CLI_INT, 0, "seed", "S", "of the texts", &task.seed, 0, 1000000000, NULL},
        {CLI_INT, 0, "show", "N", "show the first N texts, a question and every answer", &task.show, 0, 1000, NULL},
        {CLI_TEXT, 0, "words", "FILE", "lists of words; words.json beside the model, or the bundled ones",
         &task.words_path, 0, 0, NULL},
        {CLI_TEXT, 0, "out", "DIR", "also write needle.json and needle.csv there", &task.out, 0, 0, NULL},
        CLI_ENGINE_OPTIONS(&task.common),
        CLI_SESSION_OPTIONS(&task.common),
        CLI_OUTPUT_OPTIONS(&task.common),
        {CLI_END, 0, NULL, NULL, NULL, NULL, 0, 0, NULL}};
    int status = cli_parse(command, options, argc, argv, NULL);
    if (status == CLI_GO) {
        status = run_task(&task);
        if (status == KVC_OK)
            status = cli_flush(command);
    }
    free(task.cells);
    free(task.logits);
    needle_words_close(&task.words);
    kvc_model_close(task.model);
    kvc_engine_close(task.engine);
    cli_texts_free(&task.specs);
    return status;
}
