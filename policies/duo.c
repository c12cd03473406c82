/* duo.c - some heads keep all entries, the others only their first and newest entries. The latter are
 * streaming heads. Scores from a file determine which heads stream (docs/reference/methods/duo.md). */
#include "policies/policies.h"

#include "core/base/assert.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MOST (16u << 20) /* largest size of the file, in bytes */

static const char every_other[] = "every-other";

static const struct kvc_option options[] = {
    {"file", KVC_OPTION_TEXT, NULL, 0, 0, every_other,
     "scores of the heads: a line for each layer, a number for each KV head, separated by tabs; every-other: 0 and 1 "
     "alternating instead of a file, to try the method on any model"},
    {"sinks", KVC_OPTION_INT, "128", 0, KVC_BUDGET_MOST, NULL, "first entries that a streaming head keeps"},
    {"recent", KVC_OPTION_INT, "512", 1, KVC_BUDGET_MOST, NULL, "newest tokens whose entries a streaming head keeps"},
    {"threshold", KVC_OPTION_REAL, "0.5", -1e9, 1e9, NULL, "heads with scores below it stream"},
    {"sparsity", KVC_OPTION_REAL, "0", 0, 1, NULL,
     "share of all heads that stream, the lowest scores first; replaces threshold"},
    KVC_OPTIONS_END};

/* The scores of all KV heads: score [layers, heads]. streams [layers, heads] tells which heads are streaming heads. */
struct duo {
    size_t layers, heads, capacity;
    float *score;
    bool *streams;
};

static void free_duo(struct duo *duo) {
    if (duo) {
        free(duo->score);
        free(duo->streams);
    }
    free(duo);
}

/* Parses one line and appends its numbers to the scores. */
static enum kvc_status read_line(struct duo *duo, const char *path, char *line, struct kvc_error *error) {
    size_t count = 0;
    for (char *at = line; *(at += strspn(at, " \t\r"));) {
        const size_t length = strcspn(at, " \t\r");
        double value;
        if (!kvc_decimal(at, length, &value) || fabs(value) > 1e9)
            return kvc_fail(error, KVC_INPUT,
                            "policy duo: file=%.200s: line %zu: '%.20s': must be a number from -1e9 to 1e9", path,
                            duo->layers + 1, at);
        if (duo->layers * duo->heads + count == duo->capacity) {
            duo->capacity = 2 * duo->capacity + 64;
            float *grown = realloc(duo->score, duo->capacity * sizeof *grown);
            if (!grown)
                return kvc_fail(error, KVC_RESOURCE, "policy duo: no memory for %zu scores", duo->capacity);
            duo->score = grown;
        }
        duo->score[duo->layers * duo->heads + count++] = (float)value;
        at += length;
    }
    if (duo->layers == 0)
        duo->heads = count;
    if (count == 0 || count != duo->heads)
        return kvc_fail(error, KVC_INPUT, "policy duo: file=%.200s: line %zu has %zu numbers: must be %s", path,
                        duo->layers + 1, count, duo->layers ? "as many as the first line" : "one for each KV head");
    duo->layers++;
    return KVC_OK;
}

struct scored {
    float score;
    size_t head;
};

/* Orders heads by ascending score; among equal scores, the last head comes first. */
static int duo_compare(const void *a, const void *b) {
    const struct scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? -1 : 1;
    return x->head > y->head ? -1 : x->head < y->head;
}

/* Marks the streaming heads: with a threshold, the heads whose scores are below it; with the option `sparsity`, the
 * heads with the lowest scores. */
static enum kvc_status mark_streaming(struct duo *duo, const struct kvc_values *values, struct kvc_error *error) {
    const size_t n = duo->layers * duo->heads;
    KVC_ASSERT(n > 0 && duo->score);
    const bool sparsity = kvc_value_given(values, "sparsity");
    const float threshold = (float)kvc_value_real(values, "threshold");
    const double streaming = floor(kvc_value_real(values, "sparsity") * (double)n + 0.5);
    struct scored *order = malloc(n * sizeof *order);
    duo->streams = calloc(n, sizeof *duo->streams);
    if (!order || !duo->streams) {
        free(order);
        return kvc_fail(error, KVC_RESOURCE, "policy duo: no memory for %zu heads", n);
    }
    for (size_t i = 0; i < n; i++)
        order[i] = (struct scored){duo->score[i], i};
    if (sparsity)
        qsort(order, n, sizeof *order, duo_compare);
    for (size_t i = 0; i < n; i++)
        duo->streams[order[i].head] = sparsity ? (double)i < streaming : order[i].score < threshold;
    free(order);
    return KVC_OK;
}

/* Makes scores for the option file=every-other: 0 and 1 in turn. */
static enum kvc_status make_scores(struct duo *duo, size_t layers, size_t heads, struct kvc_error *error) {
    duo->score = malloc(layers * heads * sizeof *duo->score);
    if (!duo->score)
        return kvc_fail(error, KVC_RESOURCE, "policy duo: no memory for %zu scores", layers * heads);
    duo->layers = layers;
    duo->heads = heads;
    for (size_t i = 0; i < layers * heads; i++)
        duo->score[i] = (float)((i / heads + i % heads) % 2);
    return KVC_OK;
}

/* Reads the scores from the file, or makes scores for `layers` layers of `heads` KV heads, and marks the streaming
 * heads. */
static enum kvc_status duo_load(const struct kvc_values *values, size_t layers, size_t heads, struct duo **made,
                                struct kvc_error *error) {
    const char *path = kvc_value_text(values, "file");
    struct duo *duo = calloc(1, sizeof *duo);
    char *text = NULL;
    enum kvc_status status;
    if (!duo)
        status = kvc_fail(error, KVC_RESOURCE, "policy duo: no memory");
    else if (strcmp(path, every_other) == 0)
        status = make_scores(duo, layers, heads, error);
    else
        status = kvc_read_option_file("duo", "file", path, FILE_MOST, &text, error);
    for (char *line = text; status == KVC_OK && line && *line;) {
        char *end = line + strcspn(line, "\n"), *next = *end ? end + 1 : end;
        *end = 0;
        if (line[strspn(line, " \t\r")] || *next) /* the file may end in an empty line */
            status = read_line(duo, path, line, error);
        line = next;
    }
    if (status == KVC_OK && duo->layers == 0)
        status = kvc_fail(error, KVC_INPUT, "policy duo: file=%.200s: holds no scores", path);
    if (status == KVC_OK)
        status = mark_streaming(duo, values, error);
    free(text);
    if (status != KVC_OK) {
        free_duo(duo);
        return status;
    }
    *made = duo;
    return KVC_OK;
}

static enum kvc_status duo_check(const struct kvc_values *values, struct kvc_error *error) {
    struct duo *duo;
    if (kvc_value_given(values, "threshold") && kvc_value_given(values, "sparsity"))
        return kvc_fail(error, KVC_USAGE, "policy duo: sparsity=%s: cannot be given beside threshold=%s",
                        kvc_value_text(values, "sparsity"), kvc_value_text(values, "threshold"));
    const enum kvc_status status = duo_load(values, 1, 1, &duo, error);
    if (status == KVC_OK)
        free_duo(duo);
    return status;
}

/* Loads the scores and checks that they belong to this model. */
static enum kvc_status load_model(const struct kvc_values *values, const struct kvc_geometry *geometry,
                                  struct duo **made, struct kvc_error *error) {
    struct duo *duo;
    enum kvc_status status = duo_load(values, geometry->layers, geometry->kv_heads, &duo, error);
    if (status != KVC_OK)
        return status;
    if (duo->layers != geometry->layers || duo->heads != geometry->kv_heads) {
        status =
            kvc_fail(error, KVC_INPUT,
                     "policy duo: file=%.200s: has %zu lines of %zu numbers; the model has %u layers of %u KV "
                     "heads",
                     kvc_value_text(values, "file"), duo->layers, duo->heads, geometry->layers, geometry->kv_heads);
        free_duo(duo);
        return status;
    }
    *made = duo;
    return KVC_OK;
}

/* The state of a session: [layers, heads], true for streaming heads. */
struct streams {
    size_t heads;
    bool streams[];
};

static size_t state_bytes(const struct kvc_values *values, const struct kvc_geometry *geometry) {
    (void)values;
    return sizeof(struct streams) + (size_t)geometry->layers * geometry->kv_heads;
}

static enum kvc_status open_state(const struct kvc_values *values, const struct kvc_geometry *geometry, void *state,
                                  struct kvc_error *error) {
    struct streams *made = state;
    struct duo *duo;
    const enum kvc_status status = load_model(values, geometry, &duo, error);
    if (status != KVC_OK)
        return status;
    made->heads = duo->heads;
    memcpy(made->streams, duo->streams, duo->layers * duo->heads * sizeof *duo->streams);
    free_duo(duo);
    return KVC_OK;
}

static enum kvc_status check_model(const struct kvc_values *values, const struct kvc_geometry *geometry,
                                   const bool *acts, struct kvc_error *error) {
    struct duo *duo;
    (void)acts;
    const enum kvc_status status = load_model(values, geometry, &duo, error);
    if (status == KVC_OK)
        free_duo(duo);
    return status;
}

/* Returns the bound of a head that keeps all entries. */
static uint64_t duo_bound(const struct kvc_values *values, uint64_t prompt, uint64_t steps) {
    (void)values;
    return prompt + steps;
}

/* Returns the number of entries of a streaming head. */
static double duo_entries(const struct kvc_values *values, const struct kvc_layer_context *context, uint64_t prompt,
                          uint64_t steps) {
    const uint64_t some = (uint64_t)kvc_value_int(values, "sinks") + (uint64_t)kvc_value_int(values, "recent");
    (void)context;
    return (double)kvc_min_u64(prompt + steps, some);
}

/* Returns the number of lists that keep all entries. If the file cannot be read, returns the number of all lists,
 * because an estimate must not be too low. */
static uint32_t duo_whole(const struct kvc_values *values, const struct kvc_layer_context *context) {
    struct duo *duo;
    size_t streaming = 0;
    if (duo_load(values, context->layers, context->model_kv_heads, &duo, NULL) != KVC_OK)
        return context->kv_heads;
    for (size_t h = 0; context->layer < duo->layers && h < duo->heads; h++)
        streaming += duo->streams[context->layer * duo->heads + h];
    const size_t lists = (duo->heads - streaming) * context->kv_heads / duo->heads;
    free_duo(duo);
    return (uint32_t)lists;
}

static enum kvc_status duo_evict(struct kvc_stage *stage, const struct kvc_values *values, struct kvc_error *error) {
    const struct kvc_stage_info *info = kvc_stage_info(stage);
    const struct streams *duo = kvc_stage_state(stage);
    const uint64_t sinks = (uint64_t)kvc_value_int(values, "sinks"), recent = (uint64_t)kvc_value_int(values, "recent");
    const bool *streams = duo->streams + info->layer * duo->heads;
    const size_t lists = info->model_lists / duo->heads; /* lists per KV head */
    KVC_ASSERT(lists > 0 && lists * duo->heads == info->model_lists);
    bool any = false;
    for (size_t h = 0; h < duo->heads; h++)
        any = any || streams[h];
    if (!any || info->entries <= sinks + recent)
        return KVC_OK;
    struct kvc_keep *keep = calloc(info->kv_heads, sizeof *keep);
    if (!keep)
        return kvc_fail(error, KVC_RESOURCE, "no memory for %u heads", info->kv_heads);
    for (uint32_t h = 0; h < info->kv_heads; h++)
        keep[h] = (struct kvc_keep){.first = sinks,
                                    .limit = streams[(info->first_list + h) / lists] ? sinks + recent : UINT64_MAX,
                                    .recent = (int64_t)info->now - (int64_t)recent};
    const enum kvc_status status = kvc_stage_keep_heads(stage, keep, error);
    free(keep);
    return status;
}

const struct kvc_policy_class kvc_policy_duo = {
    .name = "duo",
    .summary = "some heads keep everything, the others only the first and the newest entries",
    .paper = "DuoAttention, arXiv:2410.10819",
    .idea = "A few heads fetch information from far back and need the whole context. The others, the streaming heads, "
            "attend to the first and the newest tokens only, and lose nothing if they hold only these. Scores that "
            "separate the two kinds were measured for the model beforehand, and are read from a file.",
    .formula = "`file` has a line for each layer, with a score for each KV head; heads with a score at or above the "
               "threshold keep everything; the others stream: they keep their first `sinks` entries and those of the "
               "last `recent` tokens. With sparsity, the round(sparsity L H_kv) lowest scores stream, of equal ones "
               "the later layer and head",
    .memory =
        "n entries in a head that keeps everything, sinks + recent entries in a head that streams (one more within a "
        "decode step)",
    .traffic = "per generated token, n entries in a head that keeps everything, and sinks + recent + 1 in a head that "
               "streams",
    .differences = "Each KV head has one score. Keys keep their original positions. The scores are used as they are; "
                   "the training that finds them is not included.",
    .second_turn = "Streaming heads keep the first turn's sinks and the newest entries.",
    .stages = KVC_STAGE_PROMPT | KVC_STAGE_DECODE,
    .options = options,
    .trial = "sinks=4,recent=40",
    .check = duo_check,
    .check_model = check_model,
    .state_bytes = state_bytes,
    .open = open_state,
    .forecast =
        &(const struct kvc_forecast){.bound = duo_bound, .entries = duo_entries, .whole = duo_whole, .follows = true},
    .prompt = duo_evict,
    .decode = duo_evict};
