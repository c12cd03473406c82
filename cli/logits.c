/* logits.c - kvcull logits: streams the logits of every token of a text to a safetensors file, and prints their
 * hash. */
#include <stdlib.h>
#include <string.h>

#include "cli/distance.h"

struct arguments {
    struct cli_common common;
    const char *model, *kv, *tokens, *file, *out;
    int64_t prompt;
};

struct sink { /* where the rows go */
    struct kvc_tensor_writer *writer;
    struct kvc_hash *hash;
    struct distance *distance; /* NULL if no distance is measured */
    uint32_t vocab;
    enum kvc_math math; /* the arithmetic that the model uses */
    enum kvc_status status;
    struct kvc_error error;
    struct cli_progress *progress;
};

static int write_row(void *user, uint64_t row, const float *logits) {
    struct sink *sink = user;

    (void)row;
    kvc_hash_add(sink->hash, logits, sink->vocab);
    if (sink->writer)
        sink->status = kvc_tensor_write(sink->writer, 0, logits, sink->vocab, &sink->error);
    if (sink->status == KVC_OK && sink->distance && !distance_keep(sink->distance, logits))
        sink->status = kvc_fail(&sink->error, KVC_RESOURCE, "no space for a temporary file of logits");
    return sink->status != KVC_OK;
}

static int compare_row(void *user, uint64_t row, const float *logits) {
    struct sink *sink = user;

    if (!distance_compare(sink->distance, row, logits))
        sink->status = kvc_fail(&sink->error, KVC_RESOURCE, "the temporary file of logits cannot be read");
    return sink->status != KVC_OK;
}

static int show_progress(void *user, uint64_t done, uint64_t total) {
    return cli_progress(((struct sink *)user)->progress, done, total);
}

static int read_tokens(const struct cli_command *command, const struct arguments *a, struct kvc_model *model,
                       int32_t **tokens, size_t *count) {
    const char *name = a->tokens && a->tokens[0] == '@' ? a->tokens + 1 : a->file;
    struct kvc_error error;
    char *text = NULL;
    size_t bytes = 0;
    int status;

    if (a->tokens && a->tokens[0] != '@')
        return cli_token_list(command, "--tokens", a->tokens, strlen(a->tokens), KVC_USAGE, tokens, count);
    status = cli_read_file(command, name, &text, &bytes);
    if (status != KVC_OK)
        return status;
    if (a->tokens)
        status = cli_token_list(command, name, text, bytes, KVC_INPUT, tokens, count);
    else if (kvc_tokenize(model, text, bytes, KVC_TOKENIZE_BOS, tokens, count, &error) != KVC_OK)
        status = cli_report(command, &error);
    else if (*count == 0)
        status = cli_error(command, KVC_INPUT, "%s: has no tokens; give a file with text", name);
    free(text);
    return status;
}

static int compute(const struct cli_command *command, const struct arguments *a, struct kvc_session *session,
                   const int32_t *tokens, size_t count, kvc_row_fn *take_row, struct sink *sink) {
    size_t prompt = a->prompt ? (size_t)a->prompt : count;
    struct cli_progress progress;
    struct kvc_prompt_options options = {.row = take_row, .progress = show_progress, .user = sink};
    struct kvc_error error;
    enum kvc_status status;
    float *row;

    cli_progress_start(&progress, "prompt", a->common.quiet);
    sink->progress = &progress;
    status = kvc_session_prompt(session, tokens, prompt, &options, NULL, &error);
    cli_progress_end(&progress);
    if (sink->status != KVC_OK)
        return cli_report(command, &sink->error);
    if (status != KVC_OK)
        return cli_report(command, &error);
    row = malloc((size_t)sink->vocab * sizeof *row);
    if (!row)
        return cli_no_memory(command);
    cli_progress_start(&progress, "decode", a->common.quiet);
    for (size_t i = prompt; i < count && status == KVC_OK; i++) {
        status = kvc_decode(&session, &tokens[i], 1, row, NULL, &error);
        if (status == KVC_OK && take_row(sink, i, row) != 0) {
            status = sink->status;
            error = sink->error;
        }
        cli_progress(&progress, i + 1 - prompt, count - prompt);
    }
    cli_progress_end(&progress);
    free(row);
    return status == KVC_OK ? KVC_OK : cli_report(command, &error);
}

/* Computes the same tokens again in float arithmetic, and compares the rows with those of the first run. */
static int logits_compare(const struct cli_command *command, const struct arguments *a,
                          const struct kvc_session_options *options, const int32_t *tokens, size_t count,
                          struct sink *sink) {
    struct cli_common common = a->common;
    struct kvc_engine *engine = NULL;
    struct kvc_model *model = NULL;
    struct kvc_session *session = NULL;
    struct kvc_error error;
    int status;

    common.math = "float";
    common.trace = common.trace_values = NULL; /* the file belongs to the first run */
    status = cli_open_model(command, &common, a->model, NULL, &engine, &model);
    if (status == KVC_OK && kvc_session_open(model, options, &session, &error) != KVC_OK)
        status = cli_report(command, &error);
    if (status == KVC_OK)
        status = compute(command, a, session, tokens, count, compare_row, sink);
    kvc_session_close(session);
    kvc_model_close(model);
    kvc_engine_close(engine);
    return status;
}

static int logits_print(const struct cli_command *command, const struct arguments *a, const struct kvc_session *session,
                        const struct sink *sink, size_t count) {
    struct kvc_session_stats stats;
    const enum kvc_math math = sink->math;
    char hash[24], held[32], version[24];

    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)kvc_hash_value(sink->hash));
    kvc_session_stats(session, &stats);
    if (a->common.json) {
        json_t *root = json_object();

        cli_json_set(root, "kv", cli_json_text(a->kv, strlen(a->kv)));
        cli_json_set(root, "tokens", json_integer((json_int_t)count));
        cli_json_set(root, "prompt", json_integer((json_int_t)(a->prompt ? (uint64_t)a->prompt : count)));
        cli_json_set(root, "vocab", json_integer(sink->vocab));
        cli_json_set(root, "hash", json_string(hash));
        cli_json_set(root, "arithmetic", json_integer(KVC_ARITHMETIC_VERSION));
        if (cli_integer_version(math))
            cli_json_set(root, cli_math_name(math), json_integer(cli_integer_version(math)));
        cli_json_set(root, "math", json_string(cli_math_name(math)));
        if (sink->distance)
            cli_json_set(root, "distance", distance_json(sink->distance));
        cli_json_set(root, "out", a->out ? cli_json_text(a->out, strlen(a->out)) : json_null());
        cli_json_set(root, "memory", cli_stats_json(&stats));
        return cli_json_print(command, root, stdout);
    }
    printf("logits  [%zu, %u] float32%s%s\n", count, sink->vocab, a->out ? " in " : "", a->out ? a->out : "");
    printf("hash    %s (XXH64, arithmetic %d%s%s)\n", hash, KVC_ARITHMETIC_VERSION, cli_integer_text(math, version),
           math == KVC_MATH_FAST ? ", but math=fast: others get another" : "");
    if (sink->distance)
        distance_print(sink->distance, a->common.math);
    printf("cache   %s, %llu of %zu entries in the longest head\n",
           cli_bytes(stats.cache_bytes + stats.state_bytes, held), (unsigned long long)stats.entries_most, count);
    return cli_flush(command);
}

static int logits(const struct cli_command *command, const struct arguments *a, struct kvc_model *model) {
    struct kvc_session_options options;
    struct kvc_session *session = NULL;
    const struct kvc_model_info *info = kvc_model_info(model);
    struct sink sink = {.vocab = info->vocab, .math = info->math, .hash = kvc_hash_open()};
    struct distance distance = {0};
    struct kvc_tensor tensor = {.name = "logits", .dimensions = 2};
    struct kvc_error error;
    int32_t *tokens = NULL;
    size_t count = 0;
    bool warned = false;
    int status = sink.hash ? read_tokens(command, a, model, &tokens, &count) : cli_no_memory(command);

    cli_session_options(&a->common, a->kv, &options);
    if (status == KVC_OK && (uint64_t)a->prompt > count)
        status = cli_error(command, KVC_USAGE, "--prompt %lld: there are %zu tokens; give 1 to %zu, or 0 for all",
                           (long long)a->prompt, count, count);
    if (status == KVC_OK)
        status = cli_check_context(command, &a->common, count);
    if (status == KVC_OK)
        cli_warn_context(command, model, count, &warned);
    options.expected = a->prompt ? count - (uint64_t)a->prompt : 0;
    if (status == KVC_OK && kvc_session_open(model, &options, &session, &error) != KVC_OK)
        status = cli_report(command, &error);
    if (status == KVC_OK && a->common.math && cli_math(&a->common) != KVC_MATH_FLOAT) {
        sink.distance = &distance;
        status = distance_open(command, sink.vocab, &distance);
    }
    tensor.shape[0] = count;
    tensor.shape[1] = sink.vocab;
    if (status == KVC_OK && a->out && kvc_tensor_writer_open(a->out, &tensor, 1, &sink.writer, &error) != KVC_OK)
        status = cli_report(command, &error);
    if (status == KVC_OK)
        status = compute(command, a, session, tokens, count, write_row, &sink);
    if (status == KVC_OK && sink.distance)
        status = logits_compare(command, a, &options, tokens, count, &sink);
    if (status == KVC_OK && sink.writer) {
        if (kvc_tensor_writer_commit(sink.writer, &error) != KVC_OK)
            status = cli_report(command, &error);
        sink.writer = NULL;
    }
    if (status == KVC_OK)
        status = logits_print(command, a, session, &sink, count);
    kvc_tensor_writer_abandon(sink.writer);
    distance_close(&distance);
    kvc_session_close(session);
    kvc_hash_close(sink.hash);
    free(tokens);
    return status;
}

int kvc_cli_logits(const struct cli_command *command, int argc, char **argv) {
    struct arguments a = {.kv = "full"};
    const struct cli_option options[] = {
        {CLI_TEXT, 'm', "model", "MODEL", "a GGUF file or a Hugging Face folder", &a.model, 0, 0, NULL},
        {CLI_TEXT, 0, "tokens", "LIST", "token ids such as 1,2,3, or @FILE with such a list; nothing is added",
         &a.tokens, 0, 0, NULL},
        {CLI_TEXT, 'f', "file", "FILE", "a text; - is standard input. The BOS token is added if the model uses one",
         &a.file, 0, 0, NULL},
        {CLI_TEXT, 'o', "out", "OUT",
         "safetensors file to write: logits [tokens, vocab]; without this option only the hash is printed", &a.out, 0,
         0, NULL},
        {CLI_TEXT, 0, "kv", "SPEC", "policy of the cache", &a.kv, 0, 0, NULL},
        {CLI_INT, 0, "prompt", "N",
         "the first N tokens are the prompt, later ones are decode steps; 0: all are the prompt", &a.prompt, 0,
         2147483647, NULL},
        CLI_ENGINE_OPTIONS(&a.common),
        CLI_SESSION_OPTIONS(&a.common),
        CLI_OUTPUT_OPTIONS(&a.common),
        {.kind = CLI_END}};
    struct kvc_engine *engine = NULL;
    struct kvc_model *model = NULL;
    struct cli_given kv;
    struct cli_texts specs = {&kv, 1};
    int status;

    cli_common_defaults(&a.common);
    a.common.cache_type = kvc_entry_types(KVC_F32);
    status = cli_parse(command, options, argc, argv, NULL);
    if (status != CLI_GO)
        return status;
    if ((a.tokens != NULL) == (a.file != NULL))
        return cli_error(command, KVC_USAGE, "give the text with either --tokens LIST or -f FILE");
    if (a.out && ((status = cli_check_name(command, "out", a.out)) != KVC_OK ||
                  (status = cli_check_inputs(command, a.out, (const char *const[]){a.model, a.file}, 2)) != KVC_OK))
        return status;
    kv = (struct cli_given){0, a.kv};
    status = cli_open_model(command, &a.common, a.model, &specs, &engine, &model);
    if (status == KVC_OK)
        status = logits(command, &a, model);
    kvc_model_close(model);
    kvc_engine_close(engine);
    return status;
}
