/* collect.c - kvcull collect: runs a model over a text and writes statistics of its queries, for the policy
 * `triattention`. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "kvcull/policy.h"
#include "core/base/assert.h"

struct arguments {
    struct cli_common common;
    const char *model, *file, *out;
    int64_t tokens;
};

/* Sums over the queries before RoPE, added in the order of the text. */
struct collector {
    uint32_t layers, heads, head_size;
    size_t capacity;  /* largest number of rows in `queries` */
    float *queries;   /* [capacity, heads, head_size] */
    uint64_t *rows;   /* [layers] */
    uint32_t *rotary; /* [layers] */
    double *sum;      /* [layers, heads, head_size] */
    double *length;   /* [layers, heads, head_size / 2]: sums of the lengths of the rotated pairs */
};

static void close_collector(struct collector *c) {
    free(c->queries);
    free(c->rows);
    free(c->rotary);
    free(c->sum);
    free(c->length);
}

static bool open_collector(const struct kvc_model_info *info, size_t capacity, struct collector *c) {
    const size_t heads = (size_t)info->layers * info->heads;

    *c = (struct collector){info->layers, info->heads, info->head_size, capacity, NULL, NULL, NULL, NULL, NULL};
    c->queries = calloc(capacity, (size_t)info->heads * info->head_size * sizeof *c->queries);
    c->rows = calloc(info->layers, sizeof *c->rows);
    c->rotary = calloc(info->layers, sizeof *c->rotary);
    c->sum = calloc(heads, info->head_size * sizeof *c->sum);
    c->length = calloc(heads, (info->head_size / 2 + 1) * sizeof *c->length);
    return c->queries && c->rows && c->rotary && c->sum && c->length;
}

static void collect_add(struct collector *c, uint32_t layer, const float *query, uint32_t head) {
    const uint32_t d = c->head_size, pairs = c->rotary[layer] / 2;
    KVC_ASSERT(layer < c->layers && head < c->heads && 2 * pairs <= d);
    double *sum = c->sum + ((size_t)layer * c->heads + head) * d;
    double *length = c->length + ((size_t)layer * c->heads + head) * (d / 2);

    for (uint32_t i = 0; i < d; i++)
        sum[i] += (double)query[i];
    for (uint32_t i = 0; i < pairs; i++) {
        const double a = (double)query[i], b = (double)query[i + pairs];

        length[i] += sqrt(a * a + b * b);
    }
}

static enum kvc_status collect_attended(struct kvc_stage *stage, const struct kvc_values *values,
                                        struct kvc_error *error) {
    struct collector *c = kvc_stage_user(stage);
    const uint32_t layer = kvc_stage_info(stage)->layer;
    size_t rows = 0;
    const enum kvc_status status =
        kvc_stage_read_queries(stage, c->queries, c->capacity, &rows, &c->rotary[layer], error);

    (void)values;
    if (status != KVC_OK)
        return status;
    if (rows > c->capacity)
        return kvc_fail(error, KVC_USAGE, "%zu rows at once; room is for %zu", rows, c->capacity);
    for (size_t row = 0; row < rows; row++)
        for (uint32_t h = 0; h < c->heads; h++)
            collect_add(c, layer, c->queries + (row * c->heads + h) * c->head_size, h);
    c->rows[layer] += rows;
    return KVC_OK;
}

static enum kvc_status keep_all(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    (void)stage, (void)values, (void)error;
    return KVC_OK;
}

/* ---- the file, as policies/query_stats.h has it ---- */

/* Statistics of the concentration over all pairs. A pair's concentration is the length of its mean divided by the mean
 * of its lengths. It is 1 if the queries do not vary. */
struct concentration {
    double sum;
    uint64_t pairs, high;
};

static void write_head(FILE *stream, const struct collector *c, uint32_t layer, uint32_t head,
                       struct concentration *all) {
    const uint32_t d = c->head_size, pairs = c->rotary[layer] / 2;
    const double *sum = c->sum + ((size_t)layer * c->heads + head) * d;
    const double *length = c->length + ((size_t)layer * c->heads + head) * (d / 2);
    const double rows = (double)c->rows[layer];

    for (uint32_t i = 0; i < d; i++)
        fprintf(stream, "%s%.9g", i ? " " : "", (double)(float)(sum[i] / rows));
    for (uint32_t i = 0; i < pairs; i++) {
        const double r = length[i] > 0 ? sqrt(sum[i] * sum[i] + sum[i + pairs] * sum[i + pairs]) / length[i] : 0;

        fprintf(stream, " %.9g", (double)(float)(length[i] / rows));
        all->sum += r;
        all->high += r > 0.9;
        all->pairs++;
    }
    fprintf(stream, "\n");
}

static int write_stats(const struct cli_command *command, const char *path, const struct kvc_model_info *info,
                       const struct collector *c, struct concentration *all) {
    struct cli_file file;
    char name[200];
    int status = cli_file_open(command, path, &file);

    if (status != KVC_OK)
        return status;
    kvc_printable(info->name, strlen(info->name), name, sizeof name);
    fprintf(file.stream, "kvcull query statistics 1\nmodel %s\ntokens %llu\nshape %u %u %u\n", name,
            (unsigned long long)c->rows[0], c->layers, c->heads, c->head_size);
    for (uint32_t l = 0; l < c->layers; l++) {
        fprintf(file.stream, "layer %u rotary %u\n", l, c->rotary[l]);
        for (uint32_t h = 0; h < c->heads; h++)
            write_head(file.stream, c, l, h, all);
    }
    return cli_file_commit(command, &file);
}

static int collect_print(const struct cli_command *command, const struct arguments *a, const struct collector *c,
                         const struct concentration *all) {
    const double mean = all->pairs ? all->sum / (double)all->pairs : 0;
    const double high = all->pairs ? (double)all->high / (double)all->pairs : 0;

    if (strcmp(a->out, "-") == 0)
        return KVC_OK;
    if (a->common.json) {
        json_t *root = json_object();

        cli_json_set(root, "out", cli_json_text(a->out, strlen(a->out)));
        cli_json_set(root, "tokens", json_integer((json_int_t)c->rows[0]));
        cli_json_set(root, "layers", json_integer(c->layers));
        cli_json_set(root, "heads", json_integer(c->heads));
        cli_json_set(root, "head_size", json_integer(c->head_size));
        cli_json_set(root, "concentration", cli_json_number(mean));
        cli_json_set(root, "above_0.9", cli_json_number(high));
        return cli_json_print(command, root, stdout);
    }
    if (a->common.quiet)
        return KVC_OK;
    printf("queries        %llu tokens, %u layers of %u heads of %u, in %s\n", (unsigned long long)c->rows[0],
           c->layers, c->heads, c->head_size, a->out);
    printf("concentration  %.3f in the mean over heads and pairs, above 0.9 in %.1f %% of them\n", mean, 100 * high);
    return cli_flush(command);
}

/* ---- the run ---- */

static int read_tokens(const struct cli_command *command, const struct arguments *a, struct kvc_model *model,
                       int32_t **tokens, size_t *count) {
    const uint64_t trained = kvc_model_info(model)->trained_context;
    const uint64_t most = a->tokens ? (uint64_t)a->tokens : trained ? trained : UINT64_MAX;
    struct kvc_error error;
    char *text = NULL;
    size_t bytes = 0;
    int status = cli_read_file(command, a->file, &text, &bytes);

    if (status != KVC_OK)
        return status;
    if (bytes == 0)
        status = cli_error(command, KVC_INPUT, "%s: is empty; give a file with text", a->file);
    else if (kvc_tokenize(model, text, bytes, KVC_TOKENIZE_BOS, tokens, count, &error) != KVC_OK)
        status = cli_report(command, &error);
    else if (*count == 0)
        status = cli_error(command, KVC_INPUT, "%s: has no tokens; give a file with text", a->file);
    free(text);
    *count = (size_t)cli_min(*count, most);
    return status;
}

#define LOOKS "collect" /* name of the policy that this command defines to collect the queries */

static int collect_statistics(const struct cli_command *command, const struct arguments *a, struct kvc_model *model,
                              struct collector *c) {
    struct kvc_session_options options;
    struct kvc_session *session = NULL;
    struct cli_progress progress;
    const struct kvc_prompt_options prompt = {.progress = cli_progress, .user = &progress};
    struct concentration all = {0};
    struct kvc_error error;
    int32_t *tokens = NULL;
    size_t count = 0;
    bool warned = false;
    int status = read_tokens(command, a, model, &tokens, &count);

    cli_session_options(&a->common, LOOKS, &options);
    if (status == KVC_OK)
        cli_warn_context(command, model, count, &warned);
    if (status == KVC_OK && kvc_session_open(model, &options, &session, &error) != KVC_OK)
        status = cli_report(command, &error);
    if (status == KVC_OK) {
        cli_progress_start(&progress, "prompt", a->common.quiet);
        if (kvc_session_prompt(session, tokens, count, &prompt, NULL, &error) != KVC_OK)
            status = error.status;
        cli_progress_end(&progress);
        if (status != KVC_OK)
            (void)cli_report(command, &error);
    }
    if (status == KVC_OK)
        status = write_stats(command, a->out, kvc_model_info(model), c, &all);
    if (status == KVC_OK)
        status = collect_print(command, a, c, &all);
    kvc_session_close(session);
    free(tokens);
    return status;
}

int kvc_cli_collect(const struct cli_command *command, int argc, char **argv) {
    struct arguments a = {.file = NULL};
    const struct cli_option options[] = {
        {CLI_TEXT, 'm', "model", "MODEL", "a GGUF file or a Hugging Face folder", &a.model, 0, 0, NULL},
        {CLI_TEXT, 'f', "file", "FILE", "a text; - is standard input. The BOS token is added if the model uses one",
         &a.file, 0, 0, NULL},
        {CLI_TEXT, 'o', "out", "OUT", "file to write; - is standard output", &a.out, 0, 0, NULL},
        {CLI_INT, 'n', "tokens", "N", "maximum tokens of the text; 0: as many as the model was trained for", &a.tokens,
         0, 2147483647, NULL},
        CLI_ENGINE_OPTIONS(&a.common),
        CLI_SESSION_OPTIONS(&a.common),
        CLI_OUTPUT_OPTIONS(&a.common),
        {.kind = CLI_END}};
    static const struct kvc_option none[] = {{.name = NULL}};
    struct collector c = {0};
    const struct kvc_policy_class class = {.name = LOOKS,
                                           .summary = "looks at queries and keeps everything",
                                           .user = &c,
                                           .stages = KVC_STAGE_PROMPT,
                                           .options = none,
                                           .attended = collect_attended,
                                           .prompt = keep_all};
    struct kvc_engine *engine = NULL;
    struct kvc_model *model = NULL;
    struct kvc_error error;
    int status;

    cli_common_defaults(&a.common);
    status = cli_parse(command, options, argc, argv, NULL);
    if (status != CLI_GO)
        return status;
    if (!a.file || !a.out)
        return cli_error(command, KVC_USAGE, "give a text with -f FILE and where to write with -o OUT");
    status = cli_check_inputs(command, a.out, (const char *const[]){a.model, a.file}, 2);
    if (status == KVC_OK)
        status = cli_check_output(command, a.out);
    if (status == KVC_OK)
        status = cli_open_model(command, &a.common, a.model, NULL, &engine, &model);
    if (status == KVC_OK && !open_collector(kvc_model_info(model), (size_t)a.common.chunk, &c))
        status = cli_no_memory(command);
    if (status == KVC_OK && kvc_engine_register(engine, &class, &error) != KVC_OK)
        status = cli_report(command, &error);
    if (status == KVC_OK)
        status = collect_statistics(command, &a, model, &c);
    close_collector(&c);
    kvc_model_close(model);
    kvc_engine_close(engine);
    return status;
}
