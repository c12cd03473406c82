/* predictor.c - opens the networks that predict scores of entries, draws random ones, and computes the scores. */
#include "core/engine/predictor.h"

#include "core/base/assert.h"
#include "core/base/canon.h"
#include "core/base/types.h"
#include "core/engine/session.h"

#include <stdlib.h>
#include <string.h>

#define DRAWN "drawn" /* stands for random networks instead of a file */
#define DRAWN_INNER 8u
#define DRAWN_CHANNELS 16u
#define NORM_EPS 1e-6f /* of the gates' norms */

/* Returns the rows of a matrix for some number of KV heads. */
static uint32_t rows_of(const struct kvc_predictor_shape *shape, uint32_t kv_heads) {
    return shape->by_head ? shape->rows * kv_heads : shape->rows;
}

bool kvc_predictor_lay_out(const struct kvc_network *network, struct kvc_predictor_file *file) {
    const uint32_t heads = network->part.kv_heads, group = network->heads / network->kv_heads, C = file->channels;
    if (file->kind == KVC_PREDICT_GATES) {
        file->shape[0] = (struct kvc_predictor_shape){group * C, network->hidden, true};
        file->shape[1] = (struct kvc_predictor_shape){C, network->hidden, true};
        file->numbers = (size_t)heads * (group * (C + 1) + file->sinks * C) + 2 * C;
    } else {
        file->shape[0] = (struct kvc_predictor_shape){file->inner, network->hidden, false};
        file->shape[1] = (struct kvc_predictor_shape){1, file->inner ? file->inner : network->hidden, true};
        file->numbers = file->inner + heads;
    }
    file->matrix = calloc(2 * (size_t)network->layers, sizeof *file->matrix);
    file->number = calloc(network->layers * file->numbers, sizeof *file->number);
    return file->matrix && file->number;
}

/* ---- random networks ---- */

/* Draws `count` numbers from -scale to scale. */
static void draw_numbers(uint32_t layer, uint32_t stream, uint32_t count, float scale, float *numbers) {
    for (uint32_t i = 0; i < count; i++)
        numbers[i] = ((float)(kvc_philox4x32(layer, i, stream, 6u, 0).word[0] >> 8) * 0x1p-23f - 1.0f) * scale;
}

static enum kvc_status draw_file(const struct kvc_network *network, struct kvc_predictor_file *file,
                                 struct kvc_error *error) {
    file->inner = DRAWN_INNER;
    file->channels = file->sinks = DRAWN_CHANNELS;
    if (!kvc_predictor_lay_out(network, file))
        return kvc_fail(error, KVC_RESOURCE, "no memory for random networks of %u layers", network->layers);
    const uint32_t first = rows_of(&file->shape[0], network->part.kv_heads) * file->shape[0].inputs;
    const uint32_t second = rows_of(&file->shape[1], network->part.kv_heads) * file->shape[1].inputs;
    float *numbers = malloc((size_t)network->layers * (first + second) * sizeof *numbers);
    file->owner = numbers;
    file->close = free;
    if (!numbers)
        return kvc_fail(error, KVC_RESOURCE, "no memory for random networks of %u layers", network->layers);
    for (uint32_t l = 0; l < network->layers; l++, numbers += first + second) {
        draw_numbers(l, 0, first, 0.125f, numbers);
        draw_numbers(l, 1, second, 1.0f, numbers + first);
        draw_numbers(l, 2, (uint32_t)file->numbers, 1.0f, file->number + l * file->numbers);
        file->matrix[2 * l] = (struct kvc_predictor_matrix){KVC_F32, numbers};
        file->matrix[2 * l + 1] = (struct kvc_predictor_matrix){KVC_F32, numbers + first};
    }
    return KVC_OK;
}

/* ---- files ---- */

static enum kvc_status open_file(const struct kvc_network *network, const char *path, enum kvc_predictor_kind kind,
                                 struct kvc_predictor_file *file, struct kvc_error *error) {
    *file = (struct kvc_predictor_file){.kind = kind};
    if (!strcmp(path, DRAWN))
        return draw_file(network, file, error);
    if (!network->read_predictor)
        return kvc_fail(error, KVC_USAGE, "%s: this program cannot read files of networks; use 'drawn'", path);
    return network->read_predictor(network, path, kind, file, error);
}

static void close_file(struct kvc_predictor_file *file) {
    if (file->close)
        file->close(file->owner);
    free(file->matrix);
    free(file->number);
}

static size_t number_bytes(const struct kvc_network *network, const struct kvc_predictor_file *file) {
    return network->layers * file->numbers * sizeof *file->number;
}

/* Returns the file with a method's networks, or NULL. */
static const char *path_of(const struct kvc_method *method) {
    return method->policy->predictor ? method->policy->predictor(&method->values) : NULL;
}

/* ---- a runner's predictors ---- */

static void predictor_free(struct kvc_device *device, struct kvc_predictor *predictor, uint32_t layers) {
    for (size_t i = 0; predictor->weight && i < 2 * (size_t)layers; i++)
        if (predictor->weight[i])
            device->ops->weight_free(device, predictor->weight[i]);
    device->ops->buffer_free(device, predictor->number);
    kvc_growable_free(device, &predictor->rows);
    kvc_growable_free(device, &predictor->scores);
    close_file(&predictor->file);
    free(predictor->weight);
    free(predictor->path);
    free(predictor);
}

/* Makes the weights of this rank's layers and heads, and uploads all numbers. */
static enum kvc_status make_weights(struct kvc_device *device, const struct kvc_network *network,
                                    struct kvc_predictor *made, struct kvc_error *error) {
    const struct kvc_predictor_file *file = &made->file;
    const size_t bytes = number_bytes(network, file);
    enum kvc_status status = KVC_OK;
    for (size_t i = 0; i < 2 * (size_t)network->layers && status == KVC_OK; i++) {
        const struct kvc_predictor_matrix *matrix = &file->matrix[i];
        const struct kvc_predictor_shape *shape = &file->shape[i % 2];
        const size_t skip = shape->by_head ? rows_of(shape, network->part.first_kv_head) : 0;
        if (shape->rows && kvc_network_has(network, (uint32_t)(i / 2)))
            status = device->ops->weight_create(device, matrix->type, rows_of(shape, network->kv_heads), shape->inputs,
                                                (const char *)matrix->data +
                                                    skip * kvc_type_row_bytes(matrix->type, shape->inputs),
                                                &made->weight[i], error);
    }
    if (status == KVC_OK)
        status = device->ops->buffer_create(device, KVC_MEMORY_WEIGHTS, bytes, &made->number, error);
    if (status == KVC_OK)
        device->ops->upload(device, (struct kvc_span){made->number, 0}, file->number, bytes);
    return status;
}

static enum kvc_status predictor_open(struct kvc_runner *runner, const char *path, enum kvc_predictor_kind kind,
                                      struct kvc_predictor **predictor, struct kvc_error *error) {
    const struct kvc_network *network = runner->network;
    struct kvc_predictor *made = calloc(1, sizeof *made);
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    made->rows.kind = made->scores.kind = KVC_MEMORY_SCRATCH;
    made->path = strdup(path);
    made->weight = calloc(2 * (size_t)network->layers, sizeof *made->weight);
    enum kvc_status status = made->path && made->weight ? KVC_OK : kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    if (status == KVC_OK)
        status = open_file(network, path, kind, &made->file, error);
    if (status == KVC_OK)
        status = make_weights(runner->device, network, made, error);
    if (status != KVC_OK) {
        predictor_free(runner->device, made, network->layers);
        return status;
    }
    made->next = runner->predictors;
    runner->predictors = *predictor = made;
    return KVC_OK;
}

static void predictor_close(struct kvc_runner *runner, struct kvc_predictor *predictor) {
    struct kvc_predictor **at = &runner->predictors;
    if (--predictor->users)
        return;
    while (*at != predictor)
        at = &(*at)->next;
    *at = predictor->next;
    predictor_free(runner->device, predictor, runner->network->layers);
}

/* ---- a session's predictors ---- */

enum kvc_status kvc_predictors_open(struct kvc_session *session, struct kvc_error *error) {
    struct kvc_runner *runner = session->runner;
    enum kvc_status status = KVC_OK;
    for (size_t i = 0; i < session->policy->count && status == KVC_OK; i++) {
        const struct kvc_method *method = &session->policy->method[i];
        const char *path = path_of(method);
        const enum kvc_predictor_kind kind = method->policy->predictor_kind;
        struct kvc_predictor *predictor = runner->predictors;
        struct kvc_error cause = {KVC_OK, ""};
        if (!path)
            continue;
        if (!runner->network)
            return kvc_fail(error, KVC_USAGE, "policy %s: needs a model: a replay has no hidden states",
                            method->policy->name);
        while (predictor && (predictor->file.kind != kind || strcmp(predictor->path, path) != 0))
            predictor = predictor->next;
        if (!predictor)
            status = predictor_open(runner, path, kind, &predictor, &cause);
        if (status != KVC_OK)
            return kvc_fail(error, status, "policy %s: %s", method->policy->name, cause.text);
        predictor->users++;
        session->use[i].predictor = predictor;
    }
    return status;
}

void kvc_predictors_close(struct kvc_session *session) {
    for (size_t i = 0; session->use && i < session->policy->count; i++)
        if (session->use[i].predictor)
            predictor_close(session->runner, session->use[i].predictor);
}

/* ---- forecast ---- */

/* Returns the bytes that make_weights needs, in the arguments' part of the model. */
static uint64_t file_bytes(const struct kvc_network *network, const struct kvc_predictor_file *file,
                           uint32_t first_layer, uint32_t layers, uint32_t kv_heads) {
    uint64_t bytes = number_bytes(network, file);
    for (size_t i = 2 * (size_t)first_layer; i < 2 * ((size_t)first_layer + layers); i++)
        bytes += rows_of(&file->shape[i % 2], kv_heads) *
                 kvc_type_row_bytes(file->matrix[i].type, file->shape[i % 2].inputs);
    return bytes;
}

/* Returns true if a method before the i-th has the same networks. */
static bool named_before(const struct kvc_policy *policy, size_t i, const char *path) {
    for (size_t k = 0; k < i; k++) {
        const char *other = path_of(&policy->method[k]);
        if (other && !strcmp(other, path) &&
            policy->method[k].policy->predictor_kind == policy->method[i].policy->predictor_kind)
            return true;
    }
    return false;
}

enum kvc_status kvc_predictors_bytes(const struct kvc_engine *engine, const struct kvc_network *network,
                                     const char *spec, uint32_t first_layer, uint32_t layers, uint32_t kv_heads,
                                     uint64_t *bytes, struct kvc_error *error) {
    struct kvc_policy *policy;
    enum kvc_status status = kvc_policy_parse(engine, spec, &policy, error);
    *bytes = 0;
    if (status != KVC_OK)
        return status;
    for (size_t i = 0; i < policy->count && status == KVC_OK; i++) {
        const char *path = path_of(&policy->method[i]);
        struct kvc_predictor_file file;
        struct kvc_error cause = {KVC_OK, ""};
        if (!path || named_before(policy, i, path))
            continue;
        status = open_file(network, path, policy->method[i].policy->predictor_kind, &file, &cause);
        if (status == KVC_OK)
            *bytes += file_bytes(network, &file, first_layer, layers, kv_heads);
        else
            kvc_fail(error, status, "policy %s: %s", policy->method[i].policy->name, cause.text);
        close_file(&file);
    }
    kvc_policy_free(policy);
    return status;
}

/* ---- scores ---- */

/* Computes y = A x or B x, plus the layer's numbers from `bias` on; SIZE_MAX: plus nothing. */
static void multiply(struct kvc_runner *runner, const struct kvc_predictor *predictor, size_t matrix, size_t bias,
                     struct kvc_span x, uint32_t rows, struct kvc_span y) {
    const size_t at = (matrix / 2 * predictor->file.numbers + bias) * sizeof(float);
    struct kvc_linear linear = {.y = y, .x = x, .w = predictor->weight[matrix], .rows = rows};
    if (bias != SIZE_MAX)
        linear.bias = (struct kvc_span){predictor->number, at};
    runner->device->ops->linear(runner->device, &linear);
}

static void linear_scores(struct kvc_runner *runner, const struct kvc_predictor *predictor, uint32_t layer,
                          struct kvc_span x, uint32_t rows, struct kvc_span scores) {
    const struct kvc_ops *ops = runner->device->ops;
    const size_t inner = predictor->file.inner, matrix = 2 * (size_t)layer;
    if (inner) {
        const struct kvc_span y = kvc_growable_at(&predictor->rows, 0);
        multiply(runner, predictor, matrix, 0, x, rows, y);
        ops->gated_silu(runner->device,
                        &(struct kvc_gated_silu){.y = y, .gate = y, .n = rows * inner, .activation = KVC_GELU_EXACT});
        x = y;
    }
    multiply(runner, predictor, matrix + 1, inner + runner->network->part.first_kv_head, x, rows, scores);
}

static void gate_scores(struct kvc_runner *runner, const struct kvc_predictor *predictor, uint32_t layer,
                        struct kvc_span x, uint32_t rows, struct kvc_span scores) {
    const struct kvc_network *network = runner->network;
    const struct kvc_ops *ops = runner->device->ops;
    const struct kvc_predictor_file *file = &predictor->file;
    const size_t group = network->heads / network->kv_heads, C = file->channels, word = sizeof(float);
    const size_t all = network->part.kv_heads, first = network->part.first_kv_head, matrix = 2 * (size_t)layer;
    const struct kvc_span q = kvc_growable_at(&predictor->rows, 0);
    const struct kvc_span k = kvc_growable_at(&predictor->rows, rows * network->kv_heads * group * C * word);
    const size_t number = layer * file->numbers, bias = number + all * group * C, base = bias + all * group;
    const size_t norms = base + all * file->sinks * C;
    multiply(runner, predictor, matrix, first * group * C, x, rows, q);
    multiply(runner, predictor, matrix + 1, SIZE_MAX, x, rows, k);
    for (uint32_t keys = 0; keys < 2; keys++) {
        const struct kvc_span y = keys ? k : q, w = {predictor->number, (norms + keys * C) * word};
        const uint32_t each = rows * network->kv_heads * (keys ? 1 : (uint32_t)group);
        ops->norm(runner->device,
                  &(struct kvc_norm){.y = y, .x = y, .w = w, .rows = each, .K = (uint32_t)C, .eps = NORM_EPS});
    }
    ops->gate_scores(runner->device,
                     &(struct kvc_gate_scores){.scores = scores,
                                               .q = q,
                                               .k = k,
                                               .base = {predictor->number, (base + first * file->sinks * C) * word},
                                               .bias = {predictor->number, (bias + first * group) * word},
                                               .rows = rows,
                                               .kv_heads = network->kv_heads,
                                               .group = (uint32_t)group,
                                               .sinks = file->sinks,
                                               .channels = file->channels,
                                               .scale = kvc_div(1.0f, kvc_sqrt((float)C))});
}

enum kvc_status kvc_predictor_scores(struct kvc_runner *runner, struct kvc_predictor *predictor, uint32_t layer,
                                     uint32_t row, uint32_t rows, struct kvc_span *scores, struct kvc_error *error) {
    const struct kvc_network *network = runner->network;
    const struct kvc_predictor_file *file = &predictor->file;
    const bool gates = file->kind == KVC_PREDICT_GATES;
    const struct kvc_span x = kvc_growable_at(&runner->normed, row * (size_t)network->hidden * sizeof(float));
    const size_t width =
        rows_of(&file->shape[0], network->kv_heads) + (size_t)(gates ? rows_of(&file->shape[1], network->kv_heads) : 0);
    KVC_ASSERT(predictor->weight[2 * (size_t)layer + 1] &&
               (row + (size_t)rows) * network->hidden * sizeof(float) <= runner->normed.bytes);
    enum kvc_status status =
        kvc_growable_reserve(runner->device, &predictor->rows, rows * width * sizeof(float), error);
    if (status == KVC_OK)
        status =
            kvc_growable_reserve(runner->device, &predictor->scores, rows * network->kv_heads * sizeof(float), error);
    if (status != KVC_OK)
        return status;
    *scores = kvc_growable_at(&predictor->scores, 0);
    (gates ? gate_scores : linear_scores)(runner, predictor, layer, x, rows, *scores);
    return KVC_OK;
}
