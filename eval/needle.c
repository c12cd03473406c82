/* needle.c - `kvcull eval needle`: measures under each policy whether a model finds facts at every depth of a text. */
#include "eval/needle.h"

#include <stdlib.h>
#include <string.h>

#define ANSWER_TOKENS 12u

/* Returns true if the answer begins with the fact's two numbers, ignoring blanks, and no digit follows. */
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

/* ---- printing one text ---- */

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
        const size_t capacity = 3 * EDGE + 64;
        part = malloc(capacity);
        if (part) {
            snprintf(part, capacity, "%.*s ... %.*s ... %.*s", EDGE, text->text, EDGE, text->text + from, EDGE,
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

/* Returns true if each fact is asked separately, after the whole text. */
static bool is_alone(enum needle_mode mode) { return mode == NEEDLE_ONE || mode == NEEDLE_BOTH; }

/* A session, and the token that it has not computed yet. */
struct dialogue {
    struct kvc_session *session;
    int32_t pending; /* the answer's last token; -1: none */
};

/* Reads more tokens: first the text and a question, then each further question. A further question is a new turn or
 * continues the answer. */
static enum kvc_status read_tokens(struct needle_task *task, struct dialogue *d, const int32_t *tokens, size_t count,
                                   bool as_turn, struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    if (d->pending >= 0 && as_turn) { /* the new turn begins with the last token of the previous answer */
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

/* Generates the greedy answer, up to the first full stop. The caller frees *answer. */
static enum kvc_status answer_once(struct needle_task *task, struct dialogue *d, char **answer,
                                   struct kvc_error *error) {
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

/* Tokens of the questions. If each fact is asked separately, these are the text with each question. Otherwise they are
 * the text with the first question, then each later question alone. */
struct questions {
    int32_t *tokens[NEEDLE_DEPTHS];
    size_t count[NEEDLE_DEPTHS];
    size_t context; /* for NEEDLE_BOTH: number of tokens of the text alone */
};

static void free_questions(struct questions *questions) {
    for (size_t f = 0; f < NEEDLE_DEPTHS; f++)
        free(questions->tokens[f]);
}

/* Asks questions [from, to) in one session. The caller frees answers [facts]. */
static enum kvc_status converse(struct needle_task *task, const char *spec, const struct questions *questions,
                                size_t from, size_t to, struct needle_cell *cell, char **answers,
                                struct kvc_error *error) {
    struct kvc_session_options options;
    struct kvc_session_stats stats;
    struct dialogue d = {NULL, -1};
    const double start = cli_seconds();
    cli_session_options(&task->common, spec, &options);
    options.expected = ANSWER_TOKENS * (uint64_t)(to - from);
    enum kvc_status status = kvc_session_open(task->model, &options, &d.session, error);
    for (size_t f = from; f < to && status == KVC_OK; f++) {
        status = read_tokens(task, &d, questions->tokens[f], questions->count[f],
                             f == from || task->mode == NEEDLE_TURNS, error);
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

/* Asks each question as a turn after the text, which is read only once. The caller frees answers [facts]. */
static enum kvc_status converse_unseen(struct needle_task *task, const char *spec, const struct questions *questions,
                                       size_t facts, char **answers, struct kvc_error *error) {
    struct kvc_session *sessions[NEEDLE_DEPTHS] = {NULL};
    struct kvc_session_options options;
    enum kvc_status status = KVC_OK;
    const size_t context = questions->context;
    cli_session_options(&task->common, spec, &options);
    options.expected = ANSWER_TOKENS;
    for (size_t f = 0; f < facts && status == KVC_OK; f++)
        status = kvc_session_open(task->model, &options, &sessions[f], error);
    if (status == KVC_OK)
        status = kvc_session_prompt_many(sessions, facts, questions->tokens[0], context, NULL, NULL, error);
    for (size_t f = 0; f < facts && status == KVC_OK; f++) {
        struct dialogue d = {sessions[f], -1};
        status = read_tokens(task, &d, questions->tokens[f] + context, questions->count[f] - context, true, error);
        if (status == KVC_OK)
            status = answer_once(task, &d, &answers[f], error);
    }
    for (size_t f = 0; f < facts; f++)
        kvc_session_close(sessions[f]);
    return status;
}

/* Sets questions->context to the length of the common prefix of two token lists: the tokens of the text, and the tokens
 * of text and question together. */
static enum kvc_status count_context(const struct needle_task *task, const struct needle_text *text,
                                     struct questions *questions, struct kvc_error *error) {
    int32_t *tokens = NULL;
    size_t count = 0, same = 0;
    const enum kvc_status status =
        kvc_tokenize(task->model, text->text, strlen(text->text), KVC_TOKENIZE_BOS, &tokens, &count, error);
    if (status != KVC_OK)
        return status;
    for (size_t f = 0; f < text->fact_count; f++)
        count = cli_min(count, questions->count[f] - 1);
    while (same < count && tokens[same] == questions->tokens[0][same])
        same++;
    free(tokens);
    questions->context = same;
    return same ? KVC_OK : kvc_fail(error, KVC_INPUT, "the tokenizer merges text and question into one token");
}

static int make_questions(struct needle_task *task, const struct needle_text *text, struct questions *questions) {
    struct kvc_error error;
    int status = KVC_OK;
    for (size_t f = 0; f < text->fact_count && status == KVC_OK; f++) {
        const bool whole = f == 0 || is_alone(task->mode);
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
    if (status == KVC_OK && task->mode == NEEDLE_BOTH && count_context(task, text, questions, &error) != KVC_OK)
        status = cli_report(task->command, &error);
    return status;
}

/* A policy's answers. [0]: to questions in the mode of --ask (NEEDLE_BOTH: directly after the text). [1]: to questions
 * that are a separate turn (only with NEEDLE_BOTH). */
struct replies {
    char *answers[2][NEEDLE_DEPTHS];
};

/* Asks one policy about one text, and counts the correct answers. */
static enum kvc_status ask_policy(struct needle_task *task, const struct needle_text *text,
                                  const struct questions *questions, const char *spec, struct needle_cell *cell,
                                  struct replies *replies, struct kvc_error *error) {
    const size_t facts = text->fact_count;
    enum kvc_status status = KVC_OK;
    for (size_t f = 0; f < facts && status == KVC_OK; f++) {
        if (is_alone(task->mode))
            status = converse(task, spec, questions, f, f + 1, cell, replies->answers[0], error);
        else if (f == 0)
            status = converse(task, spec, questions, 0, facts, cell, replies->answers[0], error);
    }
    if (status == KVC_OK && task->mode == NEEDLE_BOTH)
        status = converse_unseen(task, spec, questions, facts, replies->answers[1], error);
    for (size_t f = 0; f < facts && status == KVC_OK; f++) {
        cell->asked[f]++;
        cell->right[f] += is_right(&text->facts[f], replies->answers[0][f]);
        cell->unseen[f] += replies->answers[1][f] && is_right(&text->facts[f], replies->answers[1][f]);
    }
    return status;
}

static void add_answers(struct cli_table *table, const struct needle_fact *fact, const char *spec, uint64_t entries,
                        const struct replies *replies, size_t f) {
    cli_cell(table, "%s", spec);
    cli_cell(table, "%llu", (unsigned long long)entries);
    for (size_t way = 0; way < 2 && replies->answers[way][f]; way++) {
        cli_cell(table, "%s", replies->answers[way][f]);
        cli_cell(table, "%s", is_right(fact, replies->answers[way][f]) ? "right" : "wrong");
    }
}

/* Asks all policies about one text. If `show` is true, prints fact number `shown` and every answer. */
static int needle_ask(struct needle_task *task, size_t length, const struct needle_text *text, size_t shown,
                      bool show) {
    const bool both = task->mode == NEEDLE_BOTH;
    struct questions questions = {{NULL}, {0}, 0};
    struct kvc_error error;
    struct cli_table *table =
        show ? cli_table_open(both ? "<policy|entries|<seen|<|<unseen|<" : "<policy|entries|<answer|<") : NULL;
    int status = make_questions(task, text, &questions);
    if (status == KVC_OK && show)
        show_prompt(text, &text->facts[shown], questions.count[0]);
    for (size_t s = 0; s < task->specs.count && status == KVC_OK; s++) {
        struct needle_cell *cell = needle_cell_at(task, length, s);
        const char *spec = task->specs.items[s].text;
        const uint64_t entries = cell->entries, prompts = cell->prompts;
        struct replies replies = {{{NULL}, {NULL}}};
        if (ask_policy(task, text, &questions, spec, cell, &replies, &error) != KVC_OK)
            status = cli_report(task->command, &error);
        else if (table)
            add_answers(table, &text->facts[shown], spec, (cell->entries - entries) / (cell->prompts - prompts),
                        &replies, shown);
        for (size_t f = 0; f < text->fact_count; f++) {
            free(replies.answers[0][f]);
            free(replies.answers[1][f]);
        }
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

static int run_texts(struct needle_task *task) {
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
            const size_t shown = (size_t)(i % task->depth_count); /* shows a different depth of each text */
            status = needle_ask(task, length, &text, shown, length == 0 && i < task->show && !task->common.json);
            needle_text_free(&text);
        }
    }
    cli_progress_end(&task->progress);
    return status;
}

static int open_words(struct needle_task *task) {
    char *path = NULL;
    if (task->words_path)
        return needle_words_open(task->command, task->words_path, &task->words);
    int status = needle_words_path(task->command, task->model_path, &path);
    if (status == KVC_OK)
        status = needle_words_open(task->command, path, &task->words);
    free(path);
    return status;
}

static int run_task(struct needle_task *task) {
    if (task->specs.count == 0)
        return cli_error(task->command, KVC_USAGE, "no policy; give for example --kv full --kv snapkv:budget=128");
    for (size_t length = 0; length < task->lengths.count; length++)
        if (task->common.context > 0 && task->lengths.items[length] > (uint64_t)task->common.context)
            return cli_error(task->command, KVC_USAGE, "--length %llu: must not exceed --ctx %lld",
                             (unsigned long long)task->lengths.items[length], (long long)task->common.context);
    int status = task->out ? eval_write_check(task->command, task->out, "needle") : KVC_OK;
    if (status == KVC_OK)
        status =
            cli_open_model(task->command, &task->common, task->model_path, &task->specs, &task->engine, &task->model);
    if (status == KVC_OK)
        status = open_words(task);
    if (status != KVC_OK)
        return status;
    while (strcmp(needle_modes[task->mode], task->ask))
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
    if (status == KVC_OK && task->common.json)
        status = cli_json_print(task->command, needle_json(task), stdout);
    for (size_t length = 0; length < task->lengths.count && status == KVC_OK && !task->common.json; length++)
        status = needle_print_length(task, length);
    if (status == KVC_OK && task->out) /* written after printing: if memory runs out there, no files are left */
        status = eval_write(task->command, task->out, "needle", needle_json(task), needle_csv, task);
    return status;
}

int eval_needle(const struct cli_command *command, int argc, char **argv) {
    struct needle_task task = {.command = command,
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
        {CLI_INT, 0, "depths", "N", "facts in a text, at evenly spaced depths; each has a question", &task.depth_count,
         1, NEEDLE_DEPTHS, NULL},
        {CLI_CHOICE, 0, "ask", "HOW",
         "one: each question is in the prompt, after the whole text. both: as in one, and again as a turn after a text "
         "that was compressed without any question. answer: all questions are within one answer. turns: the questions "
         "are turns of a conversation",
         &task.ask, 0, 0, "one|both|answer|turns"},
        {CLI_INT, 0, "seed", "S", "seed of the texts", &task.seed, 0, 1000000000, NULL},
        {CLI_INT, 0, "show", "N", "show the first N texts, a question and every answer", &task.show, 0, 1000, NULL},
        {CLI_TEXT, 0, "words", "FILE", "word lists; the default is words.json beside the model, or the bundled file",
         &task.words_path, 0, 0, NULL},
        {CLI_TEXT, 0, "out", "DIR", "also write needle.json and needle.csv to the folder DIR", &task.out, 0, 0, NULL},
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
