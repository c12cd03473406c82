/* plan.c - the list of tensors in a model's GGUF file. */
#include "models/config/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/types.h"
#include "models/config/names.h"

enum { LAYER_TENSORS = 32 }; /* upper limit of tensors per layer */

enum kvc_type kvc_plan_type(enum kvc_type asked, uint64_t cols, struct kvc_replaced *replaced) {
    if (kvc_type_row_bytes(asked, cols)) {
        return asked;
    }
    if (kvc_type_row_bytes(KVC_Q8_0, cols)) {
        replaced->q8_0++;
        return KVC_Q8_0;
    }
    replaced->f16++;
    return KVC_F16;
}

void kvc_plan_note(const struct kvc_replaced *replaced, enum kvc_type asked, struct kvc_error *error) {
    if (error) {
        error->status = KVC_OK;
        error->text[0] = '\0';
        const size_t q8_0 = replaced->q8_0, f16 = replaced->f16;
        if (q8_0 + f16 > 0) {
            const int used = snprintf(error->text, sizeof error->text,
                                      "%zu matrices have rows that do not fit %s: ", q8_0 + f16, kvc_type_name(asked));
            char *more = error->text + used;
            const size_t capacity = sizeof error->text - (size_t)used;
            if (q8_0 > 0 && f16 > 0) {
                snprintf(more, capacity, "%zu are q8_0, %zu f16", q8_0, f16);
            } else {
                snprintf(more, capacity, "they are %s", q8_0 > 0 ? "q8_0" : "f16");
            }
        }
    }
}

static struct kvc_planned_tensor *plan_add(struct kvc_plan *plan, enum kvc_plan_kind kind, uint64_t rows,
                                           uint64_t cols) {
    struct kvc_planned_tensor *tensor = &plan->tensors[plan->count++];
    *tensor = (struct kvc_planned_tensor){.kind = kind, .type = KVC_F32, .dimensions = 1, .shape = {cols, 0}};
    if (kind == KVC_PLAN_MATRIX) {
        tensor->dimensions = 2;
        tensor->shape[0] = rows;
        tensor->shape[1] = cols;
    }
    return tensor;
}

static void add_whole(struct kvc_plan *plan, enum kvc_plan_kind kind, const char *const *names, uint64_t rows,
                      uint64_t cols, enum kvc_type type) {
    struct kvc_planned_tensor *tensor = plan_add(plan, kind, rows, cols);
    snprintf(tensor->name, sizeof tensor->name, "%s", names[1]);
    snprintf(tensor->hf, sizeof tensor->hf, "%s", names[0]);
    if (kind == KVC_PLAN_MATRIX) {
        tensor->type = kvc_plan_type(type, cols, &plan->replaced);
    }
}

static void name_layer(struct kvc_planned_tensor *tensor, uint32_t layer, const char *gguf, const char *hf,
                       const char *suffix) {
    kvc_layer_tensor(tensor->name, sizeof tensor->name, true, layer, gguf, suffix);
    kvc_layer_tensor(tensor->hf, sizeof tensor->hf, false, layer, hf, suffix);
}

static void add_matrix(struct kvc_plan *plan, const struct kvc_config *config, uint32_t layer,
                       const struct kvc_matrix_name *matrix, enum kvc_type type) {
    uint64_t rows = 0, interleaved = 0;
    for (unsigned p = 0; p < matrix->parts; p++) {
        rows += kvc_extent(config, matrix->part[p].outputs);
    }
    if (config->family->interleaved && matrix->parts == 1) {
        interleaved = matrix->part[0].weight == offsetof(struct kvc_layer, q)   ? config->heads
                      : matrix->part[0].weight == offsetof(struct kvc_layer, k) ? config->kv_heads
                                                                                : 0;
    }
    struct kvc_planned_tensor *tensor = plan_add(plan, KVC_PLAN_MATRIX, rows, kvc_extent(config, matrix->inputs));
    name_layer(tensor, layer, matrix->gguf, matrix->hf, "weight");
    if (matrix->part[0].outputs !=
        KVC_ONE) /* the shared expert's gate is never quantized: a coarser type would change that expert's weight */
        tensor->type = kvc_plan_type(type, tensor->shape[1], &plan->replaced);
    tensor->interleaved = interleaved;
    if (kvc_has_bias(config, matrix->bias)) {
        tensor = plan_add(plan, KVC_PLAN_BIAS, 1, rows);
        name_layer(tensor, layer, matrix->gguf, matrix->hf, "bias");
        tensor->interleaved = interleaved;
    }
}

uint64_t kvc_plan_parts(const struct kvc_planned_tensor *planned) {
    return planned->apart ? planned->shape[0] : planned->kind == KVC_PLAN_FACTORS ? 0 : 1;
}

void kvc_plan_part(const struct kvc_config *config, const struct kvc_planned_tensor *planned, uint32_t part, char *name,
                   size_t capacity) {
    if (planned->apart && planned->experts)
        kvc_expert_tensor(name, capacity, false, config, planned->layer, planned->experts, part);
    else if (planned->apart)
        kvc_head_norm_tensor(name, capacity, planned->layer, planned->norm, part);
    else if (name != planned->hf)
        snprintf(name, capacity, "%s", planned->hf);
}

/* Adds the biases of a layer's experts, [experts, length]. */
static void add_expert_biases(struct kvc_plan *plan, const struct kvc_config *config, uint32_t layer,
                              const struct kvc_expert_name *matrix) {
    struct kvc_planned_tensor *tensor =
        plan_add(plan, KVC_PLAN_MATRIX, config->experts, kvc_extent(config, matrix->outputs));
    tensor->kind = KVC_PLAN_BIAS;
    tensor->layer = layer;
    tensor->experts = matrix;
    kvc_stack_tensor(tensor->name, sizeof tensor->name, true, layer, matrix, true);
    kvc_stack_tensor(tensor->hf, sizeof tensor->hf, false, layer, matrix, true);
}

/* Adds the router and the stacks of expert matrices. The router keeps its type, because a coarser one would change
 * which experts are chosen. */
static void add_experts(struct kvc_plan *plan, const struct kvc_config *config, uint32_t layer, enum kvc_type type) {
    const char *gguf = kvc_router_stem(true, config), *hf = kvc_router_stem(false, config);
    struct kvc_planned_tensor *tensor = plan_add(plan, KVC_PLAN_MATRIX, config->experts, config->hidden);
    name_layer(tensor, layer, gguf, hf, "weight");
    if (config->family->stacked) {
        name_layer(plan_add(plan, KVC_PLAN_BIAS, 1, config->experts), layer, gguf, hf, "bias");
    }
    for (const struct kvc_expert_name *matrix = kvc_expert_names; matrix->gguf; matrix++) {
        const uint64_t inputs = kvc_extent(config, matrix->inputs);
        tensor = plan_add(plan, KVC_PLAN_EXPERTS, 1, inputs);
        tensor->dimensions = 3;
        tensor->shape[0] = config->experts;
        tensor->shape[1] = kvc_extent(config, matrix->outputs);
        tensor->shape[2] = inputs;
        tensor->layer = layer;
        tensor->experts = matrix;
        tensor->apart = !config->family->stacked;
        tensor->type = kvc_plan_type(type, inputs, &plan->replaced);
        kvc_stack_tensor(tensor->name, sizeof tensor->name, true, layer, matrix, false);
        if (config->family->stacked) {
            kvc_stack_tensor(tensor->hf, sizeof tensor->hf, false, layer, matrix, false);
            add_expert_biases(plan, config, layer, matrix);
        } else {
            kvc_plan_part(config, tensor, 0, tensor->hf, sizeof tensor->hf);
        }
    }
}

static void add_norm(struct kvc_plan *plan, const struct kvc_config *config, uint32_t layer,
                     const struct kvc_norm_name *norm) {
    const uint64_t rows = kvc_norm_rows(config, norm), length = kvc_norm_length(config, norm);
    const bool heads = rows > 1 || config->qk_norm == KVC_QK_EACH || config->qk_norm == KVC_QK_SPLIT;
    struct kvc_planned_tensor *tensor = plan_add(plan, KVC_PLAN_NORM, 1, length);
    name_layer(tensor, layer, norm->gguf, norm->hf, "weight");
    tensor->layer = layer;
    tensor->norm = norm;
    if (norm->qk && heads) { /* even if there is only one head */
        tensor->dimensions = 2;
        tensor->shape[0] = rows;
        tensor->shape[1] = length;
        tensor->apart = config->qk_norm == KVC_QK_SPLIT;
        kvc_plan_part(config, tensor, 0, tensor->hf, sizeof tensor->hf);
    }
    if (kvc_has_norm_bias(config, norm))
        name_layer(plan_add(plan, KVC_PLAN_BIAS, 1, length), layer, norm->gguf, norm->hf, "bias");
}

static void add_layer(struct kvc_plan *plan, const struct kvc_config *config, uint32_t layer, enum kvc_type type) {
    for (const struct kvc_norm_name *norm = kvc_norm_names; norm->gguf; norm++) {
        if (kvc_has_norm(config, norm)) {
            add_norm(plan, config, layer, norm);
        }
    }
    for (const struct kvc_matrix_name *matrix = kvc_matrix_names; matrix->gguf; matrix++) {
        if (kvc_has_matrix(config, layer, matrix)) {
            add_matrix(plan, config, layer, matrix, type);
        }
    }
    if (config->family->sinks) {
        struct kvc_planned_tensor *tensor = plan_add(plan, KVC_PLAN_BIAS, 1, config->heads);
        kvc_sinks_tensor(tensor->name, sizeof tensor->name, true, layer);
        kvc_sinks_tensor(tensor->hf, sizeof tensor->hf, false, layer);
    }
    if (kvc_config_chooses(config, layer)) {
        add_experts(plan, config, layer, type);
    }
}

static enum kvc_status add_factors(struct kvc_plan *plan, const struct kvc_config *config, const char *name,
                                   const float *factors, struct kvc_error *error) {
    const uint64_t pairs = config->rope.rotary / 2;
    struct kvc_planned_tensor *tensor = plan_add(plan, KVC_PLAN_FACTORS, 1, pairs);
    snprintf(tensor->name, sizeof tensor->name, "%s", name);
    tensor->factors = malloc((size_t)pairs * sizeof *tensor->factors);
    if (!tensor->factors) {
        return kvc_fail(error, KVC_RESOURCE, "no memory for %s", name);
    }
    if (factors) {
        memcpy(tensor->factors, factors, (size_t)pairs * sizeof *factors);
    } else {
        kvc_rope_divisors(config, tensor->factors);
    }
    return KVC_OK;
}

static enum kvc_status add_rope(struct kvc_plan *plan, const struct kvc_config *config, struct kvc_error *error) {
    enum kvc_status status = KVC_OK;
    if (config->rope.kind == KVC_ROPE_LLAMA3) {
        status = add_factors(plan, config, "rope_freqs.weight", NULL, error);
    } else if (config->rope.kind == KVC_ROPE_DIVISORS) {
        status = add_factors(plan, config, "rope_freqs.weight", config->rope.divisor, error);
    } else if (config->rope.kind == KVC_ROPE_LONGROPE) {
        status = add_factors(plan, config, "rope_factors_short.weight", config->rope.short_factor, error);
        if (!status) {
            status = add_factors(plan, config, "rope_factors_long.weight", config->rope.long_factor, error);
        }
    }
    return status;
}

enum kvc_status kvc_plan_build(const struct kvc_config *config, enum kvc_type type, struct kvc_plan *plan,
                               struct kvc_error *error) {
    *plan = (struct kvc_plan){0};
    plan->tensors = calloc((size_t)config->layers * LAYER_TENSORS + 8, sizeof *plan->tensors);
    if (!plan->tensors) {
        return kvc_fail(error, KVC_RESOURCE, "no memory for the list of tensors");
    }
    add_whole(plan, KVC_PLAN_MATRIX, kvc_embedding_name, config->vocab, config->hidden, type);
    enum kvc_status status = add_rope(plan, config, error);
    for (uint32_t l = 0; l < config->layers; l++) {
        add_layer(plan, config, l, type);
    }
    for (int bias = 0; bias < (config->family->norm_bias ? 2 : 1); bias++) {
        const char *names[2] = {kvc_final_norm_name(config, false, bias), kvc_final_norm_name(config, true, bias)};
        add_whole(plan, bias ? KVC_PLAN_BIAS : KVC_PLAN_NORM, names, 1, config->hidden, type);
    }
    if (!config->tied) {
        add_whole(plan, KVC_PLAN_MATRIX, kvc_head_name, config->vocab, config->hidden, type);
    }
    if (config->family->head_bias) {
        add_whole(plan, KVC_PLAN_BIAS, kvc_head_bias_name, 1, config->vocab, type);
    }
    if (status) {
        kvc_plan_free(plan);
    }
    return status;
}

void kvc_plan_free(struct kvc_plan *plan) {
    for (size_t i = 0; i < plan->count; i++) {
        free(plan->tensors[i].factors);
    }
    free(plan->tensors);
    *plan = (struct kvc_plan){0};
}
