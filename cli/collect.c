/* collect.c - kvcull collect: runs a model over a text and writes statistics of its queries, for the policies
 * `triattention`, `expected` and `qfilter`. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "kvcull/policy.h"
#include "core/base/assert.h"

struct arguments {
    struct cli_common common;
    const char *model, *file, *out, *user;
    int64_t tokens;
};

#define LEFT_OUT 4u /* first tokens, whose queries do not count for the policy `expected` */

/* The policy that reads the file. */
enum user { TRIATTENTION, EXPECTED, QFILTER };

static enum user user_of(const char *name) {
    return strcmp(name, "qfilter") == 0 ? QFILTER : strcmp(name, "expected") == 0 ? EXPECTED : TRIATTENTION;
}

/* Sums over the queries, added in the order of the text. The queries for `qfilter` are rotated, the others are not. */
struct collector {
    enum user user;
    uint32_t layers, heads, kv_heads, head_size;
    size_t capacity;  /* largest number of rows in `queries` */
    float *queries;   /* [capacity, heads, head_size] */
    uint64_t *seen;   /* [layers]: rows of the text so far */
    uint64_t *rows;   /* [layers]: rows in the sums */
    uint32_t *rotary; /* [layers] */
    double *sum;      /* [layers, heads, head_size] */
    double *more; /* [layers, heads, width]. For triattention: sums of the lengths of the rotated pairs. For the others:
                   * sums of the products of channels b and c, for all c <= b, one b after another */
};

static void close_collector(struct collector *c) {
    free(c->queries);
    free(c->seen);
    free(c->rows);
    free(c->rotary);
    free(c->sum);
    free(c->more);
}

static size_t width_of(const struct collector *c) {
    return c->user == TRIATTENTION ? c->head_size / 2 : (size_t)c->head_size * (c->head_size + 1) / 2;
}

static bool open_collector(const struct kvc_model_info *info, size_t capacity, enum user user, struct collector *c) {
    const size_t heads = (size_t)info->layers * info->heads;

    *c = (struct collector){.user = user,
                            .layers = info->layers,
                            .heads = info->heads,
                            .kv_heads = info->kv_heads,
                            .head_size = info->head_size,
                            .capacity = capacity};
    c->queries = calloc(capacity, (size_t)info->heads * info->head_size * sizeof *c->queries);
    c->seen = calloc(info->layers, sizeof *c->seen);
    c->rows = calloc(info->layers, sizeof *c->rows);
    c->rotary = calloc(info->layers, sizeof *c->rotary);
    c->sum = calloc(heads, info->head_size * sizeof *c->sum);
    c->more = calloc(heads, (width_of(c) + 1) * sizeof *c->more);
    return c->queries && c->seen && c->rows && c->rotary && c->sum && c->more;
}

static void collect_add(struct collector *c, uint32_t layer, const float *query, uint32_t head) {
    const uint32_t d = c->head_size, pairs = c->rotary[layer] / 2;
    KVC_ASSERT(layer < c->layers && head < c->heads && 2 * pairs <= d);
    double *sum = c->sum + ((size_t)layer * c->heads + head) * d;
    double *more = c->more + ((size_t)layer * c->heads + head) * width_of(c);

    for (uint32_t i = 0; i < d; i++)
        sum[i] += (double)query[i];
    for (uint32_t i = 0; c->user == TRIATTENTION && i < pairs; i++) {
        const double a = (double)query[i], b = (double)query[i + pairs];

        more[i] += sqrt(a * a + b * b);
    }
    for (uint32_t b = 0; c->user != TRIATTENTION && b < d; b++)
        for (uint32_t i = 0; i <= b; i++)
            *more++ += (double)query[b] * (double)query[i];
}

static enum kvc_status collect_attended(struct kvc_stage *stage, const struct kvc_values *values,
                                        struct kvc_error *error) {
    struct collector *c = kvc_stage_user(stage);
    const uint32_t layer = kvc_stage_info(stage)->layer;
    size_t rows = 0;
    const enum kvc_status status =
        kvc_stage_read_queries(stage, c->user == QFILTER, c->queries, c->capacity, &rows, &c->rotary[layer], error);

    (void)values;
    if (status != KVC_OK)
        return status;
    KVC_ASSERT(rows <= c->capacity); /* the session's chunk */
    for (size_t row = 0; row < rows; row++) {
        if (c->seen[layer]++ < LEFT_OUT && c->user == EXPECTED)
            continue;
        for (uint32_t h = 0; h < c->heads; h++)
            collect_add(c, layer, c->queries + (row * c->heads + h) * c->head_size, h);
        c->rows[layer]++;
    }
    return KVC_OK;
}

static enum kvc_status keep_all(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    (void)stage, (void)values, (void)error;
    return KVC_OK;
}

/* ---- the file, as policies/query_stats.h has it ---- */

/* Statistics of the concentration over all pairs or filters. A pair's concentration is the length of its mean divided
 * by the mean of its lengths; it is 1 if the queries do not vary. A filter's concentration is the share of the queries'
 * squared lengths that lies along the filter. */
struct concentration {
    double sum;
    uint64_t count, high;
};

static void add_concentration(struct concentration *all, double r) {
    all->sum += r;
    all->high += r > 0.9;
    all->count++;
}

static const double *sum_of(const struct collector *c, uint32_t layer, uint32_t head) {
    return c->sum + ((size_t)layer * c->heads + head) * c->head_size;
}

static const double *more_of(const struct collector *c, uint32_t layer, uint32_t head) {
    return c->more + ((size_t)layer * c->heads + head) * width_of(c);
}

static void write_number(FILE *stream, const char *before, double number) {
    fprintf(stream, "%s%.9g", before, (double)(float)number);
}

static void write_head(FILE *stream, const struct collector *c, uint32_t layer, uint32_t head,
                       struct concentration *all) {
    const uint32_t d = c->head_size, pairs = c->rotary[layer] / 2;
    const double *sum = sum_of(c, layer, head), *more = more_of(c, layer, head), rows = (double)c->rows[layer];

    for (uint32_t i = 0; i < d; i++)
        write_number(stream, i ? " " : "", sum[i] / rows);
    for (uint32_t i = 0; c->user == TRIATTENTION && i < pairs; i++) {
        const double length = sqrt(sum[i] * sum[i] + sum[i + pairs] * sum[i + pairs]);

        write_number(stream, " ", more[i] / rows);
        add_concentration(all, more[i] > 0 ? length / more[i] : 0);
    }
    for (uint32_t b = 0; c->user == EXPECTED && b < d; b++)
        for (uint32_t i = 0; i <= b; i++)
            write_number(stream, " ", *more++ / rows - sum[b] / rows * (sum[i] / rows));
    fprintf(stream, "\n");
}

/* Multiplies the symmetric matrix in `products` by v [d]. Returns the length of the result, and sets v to the result
 * divided by this length. next [d] is scratch. */
static double multiply(const double *products, uint32_t d, double *v, double *next) {
    double square = 0;

    for (uint32_t b = 0; b < d; b++)
        next[b] = 0;
    for (uint32_t b = 0; b < d; b++)
        for (uint32_t i = 0; i <= b; i++) {
            const double x = *products++;

            next[b] += x * v[i];
            next[i] += i < b ? x * v[b] : 0;
        }
    for (uint32_t b = 0; b < d; b++)
        square += next[b] * next[b];
    for (uint32_t b = 0; b < d; b++)
        v[b] = square > 0 ? next[b] / sqrt(square) : 0;
    return sqrt(square);
}

/* Sets v [d] to the first eigenvector of the products, with the sign that makes its dot product with the sum positive.
 * Returns the share of the queries' squared lengths along it. space [2 * d] is scratch. */
static double main_direction(const double *sum, const double *products, uint32_t d, double *v, double *space) {
    double along = 0, all = 0, dot = 0, change = 1;

    for (uint32_t i = 0; i < d; i++) {
        v[i] = 1.0 / (i + 1); /* not orthogonal to the eigenvector, except by chance */
        all += products[(size_t)i * (i + 1) / 2 + i];
    }
    for (unsigned round = 0; round < 2000 && change > 1e-10; round++) {
        memcpy(space + d, v, d * sizeof *v);
        along = multiply(products, d, v, space);
        change = 0;
        for (uint32_t i = 0; i < d; i++)
            change = fmax(change, fabs(v[i] - space[d + i]));
    }
    for (uint32_t i = 0; i < d; i++)
        dot += v[i] * sum[i];
    for (uint32_t i = 0; dot < 0 && i < d; i++)
        v[i] = -v[i];
    return all > 0 ? along / all : 0;
}

/* Writes the mean direction of the query heads that share a KV head. space [4 * d] is scratch. */
static void write_filter(FILE *stream, const struct collector *c, uint32_t layer, uint32_t kv_head, double *space,
                         struct concentration *all) {
    const uint32_t d = c->head_size, group = c->heads / c->kv_heads;
    double *filter = space + 3 * d;

    memset(filter, 0, d * sizeof *filter);
    for (uint32_t h = kv_head * group; h < (kv_head + 1) * group; h++) {
        add_concentration(all, main_direction(sum_of(c, layer, h), more_of(c, layer, h), d, space, space + d));
        for (uint32_t i = 0; i < d; i++)
            filter[i] += space[i] / group;
    }
    for (uint32_t i = 0; i < d; i++)
        write_number(stream, i ? " " : "", filter[i]);
    fprintf(stream, "\n");
}

static int write_stats(const struct cli_command *command, const char *path, const struct kvc_model_info *info,
                       const struct collector *c, struct concentration *all) {
    static const char *const titles[] = {"statistics", "covariances", "filters"};
    const uint32_t heads = c->user == QFILTER ? c->kv_heads : c->heads;
    struct cli_file file;
    char name[200];
    double *space = calloc(c->head_size, 4 * sizeof *space);
    int status = space ? cli_file_open(command, path, &file) : cli_no_memory(command);

    if (status != KVC_OK) {
        free(space);
        return status;
    }
    kvc_printable(info->name, strlen(info->name), name, sizeof name);
    fprintf(file.stream, "kvcull query %s 1\nmodel %s\ntokens %llu\nshape %u %u %u\n", titles[c->user], name,
            (unsigned long long)c->rows[0], c->layers, heads, c->head_size);
    for (uint32_t l = 0; l < c->layers; l++) {
        fprintf(file.stream, "layer %u rotary %u\n", l, c->rotary[l]);
        for (uint32_t h = 0; h < heads; h++)
            if (c->user == QFILTER)
                write_filter(file.stream, c, l, h, space, all);
            else
                write_head(file.stream, c, l, h, all);
    }
    free(space);
    return cli_file_commit(command, &file);
}

static int collect_print(const struct cli_command *command, const struct arguments *a, const struct collector *c,
                         const struct concentration *all) {
    const double mean = all->count ? all->sum / (double)all->count : 0;
    const double high = all->count ? (double)all->high / (double)all->count : 0;

    if (strcmp(a->out, "-") == 0)
        return KVC_OK;
    if (a->common.json) {
        json_t *root = json_object();

        cli_json_set(root, "out", cli_json_text(a->out, strlen(a->out)));
        cli_json_set(root, "tokens", json_integer((json_int_t)c->rows[0]));
        cli_json_set(root, "layers", json_integer(c->layers));
        cli_json_set(root, "heads", json_integer(c->heads));
        cli_json_set(root, "head_size", json_integer(c->head_size));
        if (all->count) {
            cli_json_set(root, "concentration", cli_json_number(mean));
            cli_json_set(root, "above_0.9", cli_json_number(high));
        }
        return cli_json_print(command, root, stdout);
    }
    if (a->common.quiet)
        return KVC_OK;
    printf("queries        %llu tokens, %u layers of %u heads of %u, in %s\n", (unsigned long long)c->rows[0],
           c->layers, c->heads, c->head_size, a->out);
    if (all->count)
        printf("concentration  %.3f in the mean over %s, above 0.9 in %.1f %% of them\n", mean,
               c->user == QFILTER ? "query heads" : "heads and pairs", 100 * high);
    return cli_flush(command);
}

/* ---- the run ---- */

static int read_tokens(const struct cli_command *command, const struct arguments *a, struct kvc_model *model,
                       int32_t **tokens, size_t *count) {
    const uint64_t trained = kvc_model_info(model)->trained_context;
    const uint64_t most = a->tokens ? (uint64_t)a->tokens : trained ? trained : UINT64_MAX;
    const unsigned least = user_of(a->user) == EXPECTED ? LEFT_OUT : 0;
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
    *count = (size_t)cli_min(*count, most);
    if (status == KVC_OK && *count <= least)
        status = cli_error(command, KVC_INPUT, "%s: has %zu tokens: must be more than %u", a->file, *count, least);
    free(text);
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
        status = cli_check_context(command, &a->common, count);
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
    struct arguments a = {.user = "triattention"};
    const struct cli_option options[] = {
        {CLI_TEXT, 'm', "model", "MODEL", "a GGUF file or a Hugging Face folder", &a.model, 0, 0, NULL},
        {CLI_TEXT, 'f', "file", "FILE", "a text; - is standard input. The BOS token is added if the model uses one",
         &a.file, 0, 0, NULL},
        {CLI_TEXT, 'o', "out", "OUT", "file to write; - is standard output", &a.out, 0, 0, NULL},
        {CLI_CHOICE, 0, "for", "METHOD", "the method that will read the file", &a.user, 0, 0,
         "triattention|expected|qfilter"},
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
                                           .channels = true,
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
    if (status == KVC_OK && !open_collector(kvc_model_info(model), (size_t)a.common.chunk, user_of(a.user), &c))
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
