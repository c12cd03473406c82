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

/* How the facts of a text are asked for: each after the whole text, one after another within one answer, or in turns.
 */
enum mode { ONE, ANSWER, TURNS };
static const char *const modes[] = {"one", "answer", "turns"};

struct task {
    const struct cli_command *command;
    struct cli_common common;
    const char *model_path, *words_path, *out, *ask;
    enum mode mode;
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
    uint64_t done, total; /* texts times policies */
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

/* ---- one policy and one text ---- */

/* A session that reads and answers; which of its tokens the session has not seen yet. */
struct dialogue {
    struct kvc_session *session;
    int32_t pending; /* the answer's last token, -1: none */
};

/* More tokens: the text and a question at first, then one question after another, as a new turn or within the answer.
 */
static enum kvc_status read_tokens(struct task *task, struct dialogue *d, const int32_t *tokens, size_t count,
                                   bool as_turn, struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    if (d->pending >= 0 && as_turn) { /* the turn begins with what the last one ended with */
        int32_t *all = malloc((count + 1) * sizeof *all);
        if (!all)
            return kvc_fail(error, KVC_RESOURCE, "no memory");
        all[0] = d->pending;
        memcpy(all + 1, tokens, count * sizeof *all);
        status = kvc_session_prompt(d->session, all, count + 1, NULL, task->logits, error);
        free(all);
    } else if (as_turn) {
        status = kvc_session_prompt(d->session, tokens, count, NULL, task->logits, error);
    } else {
        if (d->pending >= 0)
            status = kvc_decode(&d->session, &d->pending, 1, task->logits, NULL, error);
        for (size_t i = 0; i < count && status == KVC_OK; i++)
            status = kvc_decode(&d->session, &tokens[i], 1, task->logits, NULL, error);
    }
    d->pending = -1;
    return status;
}

/* The greedy answer, up to the first full stop; *answer is malloc'ed. */
static enum kvc_status answer_once(struct task *task, struct dialogue *d, char **answer, struct kvc_error *error) {
    int32_t made[ANSWER_TOKENS];
    size_t count = 0, bytes;
    enum kvc_status status = KVC_OK;
    *answer = NULL;
    while (status == KVC_OK && count < ANSWER_TOKENS) {
        const int32_t token = eval_likeliest(task->logits, kvc_model_info(task->model)->vocab);
        if (kvc_token_ends_turn(task->model, token))
            break;
        made[count++] = d->pending = token;
        free(*answer);
        *answer = NULL;
        status = kvc_detokenize(task->model, made, count, false, answer, &bytes, error);
        if (status == KVC_OK && (strchr(*answer, '.') || count == ANSWER_TOKENS))
            break;
        if (status == KVC_OK)
            status = kvc_decode(&d->session, &token, 1, task->logits, NULL, error);
        d->pending = -1;
    }
    if (status == KVC_OK && !*answer && !(*answer = strdup("")))
        status = kvc_fail(error, KVC_RESOURCE, "no memory");
    return status;
}

/* Tokens of the text with its first question, and of every later question alone. */
struct questions {
    int32_t *tokens[DEPTHS_MOST];
    size_t count[DEPTHS_MOST];
};

static void free_questions(struct questions *questions) {
    for (size_t f = 0; f < DEPTHS_MOST; f++)
        free(questions->tokens[f]);
}

/* Questions from..to in one session; answers [facts], malloc'ed. */
static enum kvc_status converse(struct task *task, const char *spec, const struct questions *questions, size_t from,
                                size_t to, struct cell *cell, char **answers, struct kvc_error *error) {
    struct kvc_session_options options;
    struct kvc_session_stats stats;
    struct dialogue d = {NULL, -1};
    const double start = cli_seconds();
    cli_session_options(&task->common, spec, &options);
    options.expected = ANSWER_TOKENS * (uint64_t)(to - from);
    enum kvc_status status = kvc_session_open(task->model, &options, &d.session, error);
    for (size_t f = from; f < to && status == KVC_OK; f++) {
        status =
            read_tokens(task, &d, questions->tokens[f], questions->count[f], f == from || task->mode == TURNS, error);
        if (status == KVC_OK && f == from) {
            kvc_session_stats(d.session, &stats);
            cell->prompts++;
            cell->entries += stats.entries_most;
            cell->held_bytes += stats.cache_bytes + stats.state_bytes;
        }
        if (status == KVC_OK)
            status = answer_once(task, &d, &answers[f], error);
    }
    if (status == KVC_OK) {
        kvc_session_stats(d.session, &stats);
        if (stats.peak_bytes > cell->peak_bytes)
            cell->peak_bytes = stats.peak_bytes;
        cell->read_bytes += stats.read_bytes;
        cell->steps += stats.decode_steps;
        cell->seconds += cli_seconds() - start;
    }
    kvc_session_close(d.session);
    return status;
}

static int make_questions(struct task *task, const struct needle_text *text, struct questions *questions) {
    struct kvc_error error;
    int status = KVC_OK;
    for (size_t f = 0; f < text->fact_count && status == KVC_OK; f++) {
        const bool whole = f == 0 || task->mode == ONE;
        char *question = needle_question(&text->facts[f]);
        const size_t bytes = question ? strlen(text->text) + strlen(question) + 2 : 0;
        char *prompt = question ? malloc(bytes) : NULL;
        if (!prompt) {
            status = cli_no_memory(task->command);
        } else {
            snprintf(prompt, bytes, "%s%s%s", whole ? text->text : "", whole ? " " : "", question);
            if (kvc_tokenize(task->model, prompt, strlen(prompt), whole ? KVC_TOKENIZE_BOS : 0, &questions->tokens[f],
                             &questions->count[f], &error) != KVC_OK)
                status = cli_report(task->command, &error);
        }
        free(prompt);
        free(question);
    }
    return status;
}

/* All policies over one text; fact `shown` with every answer where it is to be shown. */
static int ask(struct task *task, size_t length, const struct needle_text *text, size_t shown, bool show) {
    struct questions questions = {{NULL}, {0}};
    struct kvc_error error;
    struct cli_table *table = show ? cli_table_open("<policy|entries|<answer|<") : NULL;
    int status = make_questions(task, text, &questions);
    if (status == KVC_OK && show)
        show_prompt(text, &text->facts[shown], questions.count[0]);
    for (size_t s = 0; s < task->specs.count && status == KVC_OK; s++) {
        struct cell *cell = cell_at(task, length, s);
        const char *spec = task->specs.items[s].text;
        const uint64_t entries = cell->entries, prompts = cell->prompts;
        char *answers[DEPTHS_MOST] = {NULL};
        enum kvc_status done = KVC_OK;
        for (size_t f = 0; f < text->fact_count && done == KVC_OK; f++) {
            if (task->mode == ONE)
                done = converse(task, spec, &questions, f, f + 1, cell, answers, &error);
            else if (f == 0)
                done = converse(task, spec, &questions, 0, text->fact_count, cell, answers, &error);
        }
        if (done != KVC_OK)
            status = cli_report(task->command, &error);
        for (size_t f = 0; f < text->fact_count && status == KVC_OK; f++) {
            const bool right = is_right(&text->facts[f], answers[f]);
            cell->asked[f]++;
            cell->right[f] += right;
            if (table && f == shown) {
                cli_cell(table, "%s", spec);
                cli_cell(table, "%llu", (unsigned long long)((cell->entries - entries) / (cell->prompts - prompts)));
                cli_cell(table, "%s", answers[f]);
                cli_cell(table, "%s", right ? "right" : "wrong");
            }
        }
        for (size_t f = 0; f < text->fact_count; f++)
            free(answers[f]);
        cli_progress(&task->progress, ++task->done, task->total);
    }
    if (table && status == KVC_OK) {
        status = cli_table_print(task->command, table, stdout);
        printf("\n");
    }
    cli_table_free(table);
    free_questions(&questions);
    return status;
}

static int run_texts(struct task *task) {
    int status = KVC_OK;
    task->total = (uint64_t)task->texts * task->lengths.count * task->specs.count;
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
            status = ask(task, length, &text, shown, length == 0 && i < task->show && !task->common.json);
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
    static const char *const asked[] = {"each after the text", "asked for within one answer", "asked for in turns"};
    printf("%sTexts of %llu tokens: exact answers by the fact's depth, %s (%lld texts, %s)\n\n", length ? "\n" : "",
           (unsigned long long)task->lengths.items[length], asked[task->mode], (long long)task->texts,
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
    cli_json_set(object, "ask", json_string(modes[task->mode]));
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
    while (strcmp(modes[task->mode], task->ask))
        task->mode++;
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
    struct task task = {.command = command,
                        .ask = "one",
                        .texts = 10,
                        .depth_count = 5,
                        .seed = 1,
                        .lengths = {.items = {1024}, .count = 1}};
    cli_common_defaults(&task.common);
    const struct cli_option options[] = {
        {CLI_TEXT, 'm', "model", "MODEL", "a GGUF file or a Hugging Face folder", &task.model_path, 0, 0, NULL},
        {CLI_TEXTS, 0, "kv", "SPEC", "a policy; may be given several times", &task.specs, 0, 0, NULL},
        {CLI_COUNTS, 0, "length", "N,..", "tokens of a text", &task.lengths, 32, 16777216, NULL},
        {CLI_INT, 0, "texts", "N", "texts of each length", &task.texts, 1, 100000, NULL},
        {CLI_INT, 0, "depths", "N", "facts in a text, at evenly spaced depths, each asked for", &task.depth_count, 1,
         DEPTHS_MOST, NULL},
        {CLI_CHOICE, 0, "ask", "HOW",
         "each fact after the whole text, one after another within one answer, or one after another in turns",
         &task.ask, 0, 0, "one|answer|turns"},
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
