/* query_stats.c - reads statistics of queries from a file (query_stats.h has the format), or draws random ones. */
#include "policies/query_stats.h"

#include "core/base/assert.h"
#include "core/base/canon.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MOST (512u << 20) /* largest size of the file, in bytes */
#define SIZE_MOST 65536u       /* largest number of layers, of heads, and of channels per head */

void kvc_query_stats_free(struct kvc_query_stats *stats) {
    if (stats) {
        free(stats->rotary);
        free(stats->mean);
        free(stats->spread);
    }
    free(stats);
}

static enum kvc_status query_stats_create(uint32_t layers, uint32_t heads, uint32_t head_size,
                                          struct kvc_query_stats **stats, struct kvc_error *error) {
    const size_t rows = (size_t)layers * heads;
    struct kvc_query_stats *made = calloc(1, sizeof *made);
    if (made) {
        *made = (struct kvc_query_stats){.layers = layers, .heads = heads, .head_size = head_size};
        made->rotary = calloc(layers, sizeof *made->rotary);
        made->mean = calloc(rows, head_size * sizeof *made->mean);
        made->spread = calloc(rows, (head_size / 2 + 1) * sizeof *made->spread);
    }
    if (!made || !made->rotary || !made->mean || !made->spread) {
        kvc_query_stats_free(made);
        return kvc_fail(error, KVC_RESOURCE, "policy: no memory for statistics of %zu query heads", rows);
    }
    *stats = made;
    return KVC_OK;
}

enum kvc_status kvc_query_stats_draw(const struct kvc_geometry *geometry, struct kvc_query_stats **stats,
                                     struct kvc_error *error) {
    const uint32_t d = geometry->head_size;
    const enum kvc_status status = query_stats_create(geometry->layers, geometry->heads, d, stats, error);
    for (uint32_t l = 0; l < geometry->layers && status == KVC_OK; l++) {
        (*stats)->rotary[l] = KVC_ANY_ROTARY;
        for (uint32_t h = 0; h < geometry->heads; h++) {
            const size_t row = (size_t)l * geometry->heads + h;
            for (uint32_t c = 0; c < d; c++)
                (*stats)->mean[row * d + c] = (float)(kvc_philox4x32(l, h, c, 3u, 0).word[0] >> 8) * 0x1p-23f - 1.0f;
            for (uint32_t i = 0; i < d / 2; i++)
                (*stats)->spread[row * (d / 2) + i] = (float)(kvc_philox4x32(l, h, i, 4u, 0).word[0] >> 8) * 0x1p-24f;
        }
    }
    return status;
}

/* ---- the file ---- */

struct reader {
    const char *policy, *option, *path;
    char *next; /* the start of the next line */
    size_t number;
    size_t left; /* number of bytes from `next` on */
    struct kvc_error *error;
};

static enum kvc_status query_stats_wrong(const struct reader *reader, const char *right) {
    return kvc_fail(reader->error, KVC_INPUT, "policy %s: %s=%.200s: line %zu: must be %s", reader->policy,
                    reader->option, reader->path, reader->number, right);
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

static enum kvc_status read_head(struct reader *reader, struct kvc_query_stats **stats) {
    uint32_t size[3];
    double tokens;
    char *at = after(next_line(reader), "kvcull query statistics 1");
    if (!at || !is_end(at))
        return query_stats_wrong(reader, "\"kvcull query statistics 1\"");
    if (!after(next_line(reader), "model "))
        return query_stats_wrong(reader, "\"model NAME\"");
    at = after(next_line(reader), "tokens ");
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
    return query_stats_create(size[0], size[1], size[2], stats, reader->error);
}

/* Reads the mean query and the spreads of one query head into row `row`. */
static enum kvc_status read_row(struct reader *reader, struct kvc_query_stats *stats, size_t row, uint32_t pairs) {
    const uint32_t d = stats->head_size;
    float *mean = stats->mean + row * d, *spread = stats->spread + row * (d / 2);
    KVC_ASSERT(pairs <= d / 2 && row < (size_t)stats->layers * stats->heads);
    char *at = next_line(reader);
    for (uint32_t c = 0; c < d + pairs; c++) {
        double value;
        if (!at || !take_number(&at, &value) || fabs(value) > 1e9 || (c >= d && value < 0))
            return query_stats_wrong(
                reader, "a mean query, then mean lengths of its pairs: numbers from -1e9 to 1e9, lengths not "
                        "below 0");
        if (c < d) {
            mean[c] = (float)value;
            continue;
        }
        const double a = (double)mean[c - d], b = (double)mean[c - d + pairs];
        spread[c - d] = (float)((double)(float)value - sqrt(a * a + b * b));
    }
    return is_end(at) ? KVC_OK : query_stats_wrong(reader, "as many numbers as channels and pairs, and no more");
}

static enum kvc_status read_layers(struct reader *reader, struct kvc_query_stats *stats) {
    enum kvc_status status = KVC_OK;
    for (uint32_t l = 0; l < stats->layers && status == KVC_OK; l++) {
        uint32_t number, rotary;
        char *at = after(next_line(reader), "layer ");
        const bool numbered = at && take_whole(&at, SIZE_MOST, &number) && number == l;
        at = numbered ? after(at + strspn(at, " \t"), "rotary ") : NULL;
        if (!at || !take_whole(&at, stats->head_size, &rotary) || rotary % 2 || !is_end(at))
            return query_stats_wrong(reader,
                                     "\"layer L rotary R\", layers in their order, R even and no more than a head has");
        stats->rotary[l] = rotary;
        for (uint32_t h = 0; h < stats->heads && status == KVC_OK; h++)
            status = read_row(reader, stats, (size_t)l * stats->heads + h, rotary / 2);
    }
    if (status == KVC_OK && next_line(reader))
        return query_stats_wrong(reader, "the file's end");
    return status;
}

enum kvc_status kvc_query_stats_read(const char *policy, const char *option, const char *path,
                                     struct kvc_query_stats **stats, struct kvc_error *error) {
    struct kvc_query_stats *made = NULL;
    char *text = NULL;
    enum kvc_status status = kvc_read_option_file(policy, option, path, FILE_MOST, &text, error);
    struct reader reader = {.policy = policy, .option = option, .path = path, .next = text, .error = error};
    if (status == KVC_OK) {
        reader.left = strlen(text);
        status = read_head(&reader, &made);
    }
    if (status == KVC_OK)
        status = read_layers(&reader, made);
    free(text);
    if (status != KVC_OK) {
        kvc_query_stats_free(made);
        return status;
    }
    *stats = made;
    return KVC_OK;
}
