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

/* ---- random networks ---- */

/* Draws `count` numbers from -scale to scale. */
static void draw_numbers(uint32_t layer, uint32_t stream, uint32_t count, float scale, float *numbers) {
    for (uint32_t i = 0; i < count; i++)
        numbers[i] = ((float)(kvc_philox4x32(layer, i, stream, 6u, 0).word[0] >> 8) * 0x1p-23f - 1.0f) * scale;
}

static enum kvc_status draw_file(const struct kvc_network *network, struct kvc_predictor_file *file,
                                 struct kvc_error *error) {
    const uint32_t first = DRAWN_INNER * network->hidden, second = network->part.kv_heads * DRAWN_INNER;
    const uint32_t biases = DRAWN_INNER + network->part.kv_heads;
    float *numbers = malloc((size_t)network->layers * (first + second) * sizeof *numbers);
    *file = (struct kvc_predictor_file){.inner = DRAWN_INNER, .owner = numbers, .close = free};
    file->matrix = malloc(2 * (size_t)network->layers * sizeof *file->matrix);
    file->bias = malloc((size_t)network->layers * biases * sizeof *file->bias);
    if (!numbers || !file->matrix || !file->bias)
        return kvc_fail(error, KVC_RESOURCE, "no memory for random networks of %u layers", network->layers);
    for (uint32_t l = 0; l < network->layers; l++, numbers += first + second) {
        draw_numbers(l, 0, first, 0.125f, numbers);
        draw_numbers(l, 1, second, 1.0f, numbers + first);
        draw_numbers(l, 2, biases, 1.0f, file->bias + (size_t)l * biases);
        file->matrix[2 * l] = (struct kvc_predictor_matrix){KVC_F32, numbers};
        file->matrix[2 * l + 1] = (struct kvc_predictor_matrix){KVC_F32, numbers + first};
    }
    return KVC_OK;
}

/* ---- files ---- */

static enum kvc_status open_file(const struct kvc_network *network, const char *path, struct kvc_predictor_file *file,
                                 struct kvc_error *error) {
    if (!strcmp(path, DRAWN))
        return draw_file(network, file, error);
    if (!network->read_predictor)
        return kvc_fail(error, KVC_USAGE, "%s: this program cannot read files of networks; use 'drawn'", path);
    return network->read_predictor(network, path, file, error);
}

static void close_file(struct kvc_predictor_file *file) {
    if (file->close)
        file->close(file->owner);
    free(file->matrix);
    free(file->bias);
}

static size_t bias_bytes(const struct kvc_network *network, const struct kvc_predictor_file *file) {
    return network->layers * (file->inner + (size_t)network->part.kv_heads) * sizeof *file->bias;
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
    device->ops->buffer_free(device, predictor->bias);
    kvc_growable_free(device, &predictor->rows);
    kvc_growable_free(device, &predictor->scores);
    close_file(&predictor->file);
    free(predictor->weight);
    free(predictor->path);
    free(predictor);
}

/* Makes the weights of this rank's layers and heads, and uploads all biases. */
static enum kvc_status make_weights(struct kvc_device *device, const struct kvc_network *network,
                                    struct kvc_predictor *made, struct kvc_error *error) {
    const struct kvc_predictor_file *file = &made->file;
    const uint32_t inputs = file->inner ? file->inner : network->hidden;
    const size_t bytes = bias_bytes(network, file);
    enum kvc_status status = KVC_OK;
    for (uint32_t l = 0; l < network->layers && status == KVC_OK; l++) {
        const struct kvc_predictor_matrix *matrix = &file->matrix[2 * (size_t)l], *last = matrix + 1;
        struct kvc_weight **weight = &made->weight[2 * (size_t)l];
        const size_t skip = network->part.first_kv_head * kvc_type_row_bytes(last->type, inputs);
        if (!kvc_network_has(network, l))
            continue;
        if (file->inner)
            status = device->ops->weight_create(device, matrix->type, file->inner, network->hidden, matrix->data,
                                                &weight[0], error);
        if (status == KVC_OK)
            status = device->ops->weight_create(device, last->type, network->kv_heads, inputs,
                                                (const char *)last->data + skip, &weight[1], error);
    }
    if (status == KVC_OK)
        status = device->ops->buffer_create(device, KVC_MEMORY_WEIGHTS, bytes, &made->bias, error);
    if (status == KVC_OK)
        device->ops->upload(device, (struct kvc_span){made->bias, 0}, file->bias, bytes);
    return status;
}

static enum kvc_status predictor_open(struct kvc_runner *runner, const char *path, struct kvc_predictor **predictor,
                                      struct kvc_error *error) {
    const struct kvc_network *network = runner->network;
    struct kvc_predictor *made = calloc(1, sizeof *made);
    if (!made)
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    made->rows.kind = made->scores.kind = KVC_MEMORY_SCRATCH;
    made->path = strdup(path);
    made->weight = calloc(2 * (size_t)network->layers, sizeof *made->weight);
    enum kvc_status status = made->path && made->weight ? KVC_OK : kvc_fail(error, KVC_RESOURCE, "%s: no memory", path);
    if (status == KVC_OK)
        status = open_file(network, path, &made->file, error);
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
        struct kvc_predictor *predictor = runner->predictors;
        struct kvc_error cause = {KVC_OK, ""};
        if (!path)
            continue;
        if (!runner->network)
            return kvc_fail(error, KVC_USAGE, "policy %s: needs a model: a replay has no hidden states",
                            method->policy->name);
        while (predictor && strcmp(predictor->path, path) != 0)
            predictor = predictor->next;
        if (!predictor)
            status = predictor_open(runner, path, &predictor, &cause);
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
    uint64_t bytes = bias_bytes(network, file);
    for (uint32_t l = first_layer; l < first_layer + layers; l++) {
        const struct kvc_predictor_matrix *matrix = &file->matrix[2 * (size_t)l];
        bytes += kv_heads * kvc_type_row_bytes(matrix[1].type, file->inner ? file->inner : network->hidden);
        if (file->inner)
            bytes += file->inner * kvc_type_row_bytes(matrix[0].type, network->hidden);
    }
    return bytes;
}

/* Returns true if a method before the i-th has the same networks. */
static bool named_before(const struct kvc_policy *policy, size_t i, const char *path) {
    for (size_t k = 0; k < i; k++) {
        const char *other = path_of(&policy->method[k]);
        if (other && !strcmp(other, path))
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
        struct kvc_predictor_file file = {.inner = 0};
        struct kvc_error cause = {KVC_OK, ""};
        if (!path || named_before(policy, i, path))
            continue;
        status = open_file(network, path, &file, &cause);
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

enum kvc_status kvc_predictor_scores(struct kvc_runner *runner, struct kvc_predictor *predictor, uint32_t layer,
                                     uint32_t row, uint32_t rows, struct kvc_span *scores, struct kvc_error *error) {
    const struct kvc_network *network = runner->network;
    const struct kvc_ops *ops = runner->device->ops;
    const size_t word = sizeof(float), inner = predictor->file.inner;
    const size_t bias = layer * (inner + network->part.kv_heads) * word;
    struct kvc_weight *const *weight = &predictor->weight[2 * (size_t)layer];
    struct kvc_span x = kvc_growable_at(&runner->normed, row * (size_t)network->hidden * word);
    KVC_ASSERT(weight[1] && (row + (size_t)rows) * network->hidden * word <= runner->normed.bytes);
    enum kvc_status status = kvc_growable_reserve(runner->device, &predictor->rows, rows * inner * word, error);
    if (status == KVC_OK)
        status = kvc_growable_reserve(runner->device, &predictor->scores, rows * network->kv_heads * word, error);
    if (status != KVC_OK)
        return status;
    *scores = kvc_growable_at(&predictor->scores, 0);
    if (inner) {
        const struct kvc_span y = kvc_growable_at(&predictor->rows, 0);
        ops->linear(runner->device, &(struct kvc_linear){
                                        .y = y, .x = x, .w = weight[0], .bias = {predictor->bias, bias}, .rows = rows});
        ops->gated_silu(runner->device,
                        &(struct kvc_gated_silu){.y = y, .gate = y, .n = rows * inner, .activation = KVC_GELU_EXACT});
        x = y;
    }
    const size_t own = bias + (inner + network->part.first_kv_head) * word;
    ops->linear(
        runner->device,
        &(struct kvc_linear){.y = *scores, .x = x, .w = weight[1], .bias = {predictor->bias, own}, .rows = rows});
    return KVC_OK;
}
