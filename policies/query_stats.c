/* query_stats.c - reads statistics of queries from a file (query_stats.h has the format), or draws random ones. */
#include "policies/query_stats.h"

#include "core/base/assert.h"
#include "core/base/canon.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MOST (512u << 20) /* largest size of the file, in bytes */
#define SIZE_MOST 65536u       /* largest number of layers, of heads, and of channels per head */

/* The contents of a file. */
struct contents {
    uint32_t layers, heads, head_size;
    uint32_t *rotary;   /* [layers] */
    float *mean, *rest; /* [layers, heads, head_size], [layers, heads, kvc_query_rest] */
};

size_t kvc_query_rest(enum kvc_query_file file, uint32_t head_size) {
    return file == KVC_QUERY_PAIRS         ? head_size / 2
           : file == KVC_QUERY_COVARIANCES ? (size_t)head_size * (head_size + 1) / 2
                                           : 0;
}

static void contents_free(struct contents *made) {
    free(made->rotary);
    free(made->mean);
    free(made->rest);
}

static enum kvc_status contents_create(uint32_t layers, uint32_t heads, uint32_t head_size, enum kvc_query_file file,
                                       struct contents *made, struct kvc_error *error) {
    const size_t rows = (size_t)layers * heads;
    *made = (struct contents){.layers = layers, .heads = heads, .head_size = head_size};
    made->rotary = calloc(layers, sizeof *made->rotary);
    made->mean = calloc(rows, head_size * sizeof *made->mean);
    made->rest = calloc(rows, (kvc_query_rest(file, head_size) + 1) * sizeof *made->rest);
    if (made->rotary && made->mean && made->rest)
        return KVC_OK;
    contents_free(made);
    return kvc_fail(error, KVC_RESOURCE, "policy: no memory for statistics of %zu heads", rows);
}

/* ---- random statistics ---- */

static float draw(uint32_t layer, uint32_t head, uint32_t i, uint32_t stream, float width) {
    return (float)(kvc_philox4x32(layer, head, i, stream, 0).word[0] >> 8) * width;
}

/* Draws the numbers that follow the mean in a head's line. The covariance of channels b and c is the product of two
 * random numbers, plus 1 if b is c, so that it is a valid covariance. */
static void draw_rest(enum kvc_query_file file, uint32_t layer, uint32_t head, uint32_t d, float *rest) {
    for (uint32_t i = 0; file == KVC_QUERY_PAIRS && i < d / 2; i++)
        rest[i] = draw(layer, head, i, 4u, 0x1p-24f);
    for (uint32_t b = 0; file == KVC_QUERY_COVARIANCES && b < d; b++)
        for (uint32_t c = 0; c <= b; c++)
            *rest++ = draw(layer, head, b, 5u, 0x1p-24f) * draw(layer, head, c, 5u, 0x1p-24f) + (b == c ? 1.0f : 0.0f);
}

static void contents_draw(enum kvc_query_file file, struct contents *made) {
    const uint32_t d = made->head_size;
    for (uint32_t l = 0; l < made->layers; l++) {
        made->rotary[l] = KVC_ANY_ROTARY;
        for (uint32_t h = 0; h < made->heads; h++) {
            const size_t row = (size_t)l * made->heads + h;
            for (uint32_t c = 0; c < d; c++)
                made->mean[row * d + c] = draw(l, h, c, 3u, 0x1p-23f) - 1.0f;
            draw_rest(file, l, h, d, made->rest + row * kvc_query_rest(file, d));
        }
    }
}

/* ---- the file ---- */

struct reader {
    const struct kvc_query_option *option;
    const char *path;
    char *next; /* the start of the next line */
    size_t number;
    size_t left; /* number of bytes from `next` on */
    struct kvc_error *error;
};

static enum kvc_status query_stats_wrong(const struct reader *reader, const char *right) {
    return kvc_fail(reader->error, KVC_INPUT, "policy %s: %s=%.200s: line %zu: must be %s", reader->option->policy,
                    reader->option->name, reader->path, reader->number, right);
}

/* Returns the next line without its line break, or NULL after the last line. */
static char *next_line(struct reader *reader) {
    char *line = reader->next, *end = line + strcspn(line, "\n");
    const size_t taken = (size_t)(end - line) + (*end != 0);
    reader->number++;
    if (!*line)
        return NULL;
    reader->next = line + taken;
    KVC_ASSERT(taken <= reader->left);
    reader->left -= taken;
    *end = 0;
    end = line + strlen(line);
    if (end > line && end[-1] == '\r')
        end[-1] = 0;
    return line;
}

/* Skips blanks, reads a number and moves *at past it. Returns false if there is no valid number. */
static bool take_number(char **at, double *value) {
    *at += strspn(*at, " \t");
    const size_t length = strcspn(*at, " \t");
    if (length == 0 || !kvc_decimal(*at, length, value))
        return false;
    *at += length;
    return true;
}

static bool take_whole(char **at, double most, uint32_t *value) {
    double number;
    if (!take_number(at, &number) || number < 0 || number > most || number != floor(number))
        return false;
    *value = (uint32_t)number;
    return true;
}

/* Returns the rest of the line after `words`, or NULL if the line does not begin with them. */
static char *after(char *line, const char *words) {
    const size_t n = strlen(words);
    return line && !strncmp(line, words, n) ? line + n : NULL;
}

static bool is_end(const char *at) { return !at[strspn(at, " \t")]; }

static enum kvc_status read_head(struct reader *reader, struct contents *made) {
    static const char *const titles[] = {"\"kvcull query statistics 1\"", "\"kvcull query covariances 1\"",
                                         "\"kvcull query filters 1\""};
    const char *title = titles[reader->option->file];
    const char *line = next_line(reader);
    const size_t n = strlen(title) - 2;
    uint32_t size[3];
    double tokens;
    if (!line || strncmp(line, title + 1, n) != 0 || !is_end(line + n))
        return query_stats_wrong(reader, title);
    if (!after(next_line(reader), "model "))
        return query_stats_wrong(reader, "\"model NAME\"");
    char *at = after(next_line(reader), "tokens ");
    if (!at || !take_number(&at, &tokens) || tokens < 1 || !is_end(at))
        return query_stats_wrong(reader, "\"tokens N\", N at least 1");
    at = after(next_line(reader), "shape ");
    for (unsigned i = 0; i < 3; i++)
        if (!at || !take_whole(&at, SIZE_MOST, &size[i]) || size[i] == 0)
            return query_stats_wrong(reader, "\"shape LAYERS HEADS SIZE\", each 1 to 65536");
    if (!is_end(at))
        return query_stats_wrong(reader, "\"shape LAYERS HEADS SIZE\" and no more");
    /* A number takes at least two bytes in the file. This check prevents a large allocation for a wrong shape. */
    if ((uint64_t)size[0] * size[1] > reader->left / 2 / size[2])
        return query_stats_wrong(reader, "a shape whose numbers the file has");
    return contents_create(size[0], size[1], size[2], reader->option->file, made, reader->error);
}

/* Subtracts from each pair's mean length, in `spread`, the length of the pair's mean. */
static void subtract_means(const float *mean, uint32_t pairs, float *spread) {
    for (uint32_t i = 0; i < pairs; i++) {
        const double a = (double)mean[i], b = (double)mean[i + pairs];
        spread[i] = (float)((double)spread[i] - sqrt(a * a + b * b));
    }
}

/* Reads a head's line into row `row`. */
static enum kvc_status read_row(struct reader *reader, struct contents *made, size_t row, uint32_t rotary) {
    const enum kvc_query_file file = reader->option->file;
    const uint32_t d = made->head_size;
    const size_t rest = kvc_query_rest(file, d), numbers = file == KVC_QUERY_PAIRS ? rotary / 2 : rest;
    float *to = made->rest + row * rest;
    KVC_ASSERT(rotary <= d && row < (size_t)made->layers * made->heads);
    char *at = next_line(reader);
    for (size_t i = 0; i < d + numbers; i++) {
        double value;
        if (!at || !take_number(&at, &value) || fabs(value) > 1e9 || (file == KVC_QUERY_PAIRS && i >= d && value < 0))
            return query_stats_wrong(
                reader, file == KVC_QUERY_PAIRS ? "a mean query, then mean lengths of its pairs: numbers from -1e9 to "
                                                  "1e9, lengths not below 0"
                        : file == KVC_QUERY_COVARIANCES ? "a mean query, then its covariances: numbers from -1e9 to 1e9"
                                                        : "a filter: numbers from -1e9 to 1e9");
        *(i < d ? &made->mean[row * d + i] : &to[i - d]) = (float)value;
    }
    if (file == KVC_QUERY_PAIRS)
        subtract_means(made->mean + row * d, rotary / 2, to);
    return is_end(at) ? KVC_OK : query_stats_wrong(reader, "as many numbers as the shape says, and no more");
}

static enum kvc_status read_layers(struct reader *reader, struct contents *made) {
    enum kvc_status status = KVC_OK;
    for (uint32_t l = 0; l < made->layers && status == KVC_OK; l++) {
        uint32_t number, rotary;
        char *at = after(next_line(reader), "layer ");
        const bool numbered = at && take_whole(&at, SIZE_MOST, &number) && number == l;
        at = numbered ? after(at + strspn(at, " \t"), "rotary ") : NULL;
        if (!at || !take_whole(&at, made->head_size, &rotary) || rotary % 2 || !is_end(at))
            return query_stats_wrong(reader,
                                     "\"layer L rotary R\", layers in their order, R even and no more than a head has");
        made->rotary[l] = rotary;
        for (uint32_t h = 0; h < made->heads && status == KVC_OK; h++)
            status = read_row(reader, made, (size_t)l * made->heads + h, rotary);
    }
    if (status == KVC_OK && next_line(reader))
        return query_stats_wrong(reader, "the file's end");
    return status;
}

static enum kvc_status contents_read(const struct kvc_query_option *option, const char *path, struct contents *made,
                                     struct kvc_error *error) {
    char *text = NULL;
    *made = (struct contents){0};
    enum kvc_status status = kvc_read_option_file(option->policy, option->name, path, FILE_MOST, &text, error);
    struct reader reader = {.option = option, .path = path, .next = text, .error = error};
    if (status == KVC_OK) {
        reader.left = strlen(text);
        status = read_head(&reader, made);
    }
    if (status == KVC_OK && (status = read_layers(&reader, made)) != KVC_OK)
        contents_free(made);
    free(text);
    return status;
}

/* ---- the option and the state ---- */

static const char *path_of(const struct kvc_query_option *option, const struct kvc_values *values) {
    const char *path = kvc_value_text(values, option->name);
    return strcmp(path, "drawn") == 0 ? NULL : path;
}

enum kvc_status kvc_query_check(const struct kvc_query_option *option, const struct kvc_values *values,
                                struct kvc_error *error) {
    const char *path = path_of(option, values);
    struct contents made;
    const enum kvc_status status = path ? contents_read(option, path, &made, error) : KVC_OK;
    if (path && status == KVC_OK)
        contents_free(&made);
    return status;
}

static uint32_t heads_of(const struct kvc_query_option *option, const struct kvc_geometry *geometry) {
    return option->file == KVC_QUERY_FILTERS ? geometry->kv_heads : geometry->heads;
}

/* Reads the file and checks that it fits the model, or draws random numbers. */
static enum kvc_status contents_of(const struct kvc_query_option *option, const struct kvc_values *values,
                                   const struct kvc_geometry *geometry, struct contents *made,
                                   struct kvc_error *error) {
    const char *path = path_of(option, values);
    const uint32_t heads = heads_of(option, geometry);
    enum kvc_status status =
        path ? contents_read(option, path, made, error)
             : contents_create(geometry->layers, heads, geometry->head_size, option->file, made, error);
    if (status != KVC_OK)
        return status;
    if (!path)
        contents_draw(option->file, made);
    if (made->layers == geometry->layers && made->heads == heads && made->head_size == geometry->head_size)
        return KVC_OK;
    status = kvc_fail(error, KVC_INPUT,
                      "policy %s: %s=%.200s: has %u layers of %u %s heads of %u channels; the model has %u layers of "
                      "%u heads of %u",
                      option->policy, option->name, path, made->layers, made->heads,
                      option->file == KVC_QUERY_FILTERS ? "KV" : "query", made->head_size, geometry->layers, heads,
                      geometry->head_size);
    contents_free(made);
    return status;
}

enum kvc_status kvc_query_check_model(const struct kvc_query_option *option, const struct kvc_values *values,
                                      const struct kvc_geometry *geometry, struct kvc_error *error) {
    struct contents made;
    if (!path_of(option, values))
        return KVC_OK;
    const enum kvc_status status = contents_of(option, values, geometry, &made, error);
    if (status == KVC_OK)
        contents_free(&made);
    return status;
}

/* The state of a session: the values of `rotary` [layers], then the means, then the rests of all heads. */
struct known {
    uint32_t layers, heads, head_size;
    uint32_t rotary[];
};

static size_t rest_of(const struct kvc_query_option *option, uint32_t head_size) {
    return option->means_only ? 0 : kvc_query_rest(option->file, head_size);
}

size_t kvc_query_state_bytes(const struct kvc_query_option *option, const struct kvc_geometry *geometry) {
    const size_t rows = (size_t)geometry->layers * heads_of(option, geometry);
    return sizeof(struct known) + geometry->layers * sizeof(uint32_t) +
           rows * (geometry->head_size + rest_of(option, geometry->head_size)) * sizeof(float);
}

enum kvc_status kvc_query_open(const struct kvc_query_option *option, const struct kvc_values *values,
                               const struct kvc_geometry *geometry, void *state, struct kvc_error *error) {
    struct known *known = state;
    struct contents made;
    const enum kvc_status status = contents_of(option, values, geometry, &made, error);
    if (status != KVC_OK)
        return status;
    *known = (struct known){.layers = made.layers, .heads = made.heads, .head_size = made.head_size};
    const size_t rows = (size_t)made.layers * made.heads, means = rows * made.head_size;
    float *mean = (float *)(known->rotary + made.layers);
    memcpy(known->rotary, made.rotary, made.layers * sizeof *made.rotary);
    memcpy(mean, made.mean, means * sizeof *mean);
    memcpy(mean + means, made.rest, rows * rest_of(option, made.head_size) * sizeof *mean);
    contents_free(&made);
    return KVC_OK;
}

/* Returns the numbers of the stage's layer, from head `first` on. */
static struct kvc_query_stats stats_from(const struct kvc_query_option *option, struct kvc_stage *stage, size_t first) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const struct known *known = kvc_stage_state(stage);
    const size_t row = (size_t)info->layer * known->heads + first, rows = (size_t)known->layers * known->heads;
    const float *mean = (const float *)(known->rotary + known->layers);
    return (struct kvc_query_stats){.rotary = known->rotary[info->layer],
                                    .mean = mean + row * known->head_size,
                                    .rest = mean + rows * known->head_size + row * rest_of(option, known->head_size)};
}

struct kvc_query_stats kvc_query_stats_of(const struct kvc_query_option *option, struct kvc_stage *stage) {
    return stats_from(option, stage, kvc_stage_info(stage)->first_head);
}

enum kvc_status kvc_query_prepare_filter(const struct kvc_query_option *option, struct kvc_stage *stage,
                                         struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const struct known *known = kvc_stage_state(stage);
    const float *filters = stats_from(option, stage, 0).mean;
    const size_t lists = info->model_lists / known->heads; /* lists per KV head */
    KVC_ASSERT(lists > 0 && lists * known->heads == info->model_lists);
    if (lists == 1)
        return kvc_stage_prepare_filter(stage, filters + (size_t)info->first_list * info->head_size, error);
    const size_t bytes = info->head_size * sizeof(float);
    float *each = malloc(info->kv_heads * bytes);
    if (!each)
        return kvc_fail(error, KVC_RESOURCE, "policy: no memory for %u filters", info->kv_heads);
    for (size_t h = 0; h < info->kv_heads; h++)
        memcpy(each + h * info->head_size, filters + (info->first_list + h) / lists * info->head_size, bytes);
    const enum kvc_status status = kvc_stage_prepare_filter(stage, each, error);
    free(each);
    return status;
}
