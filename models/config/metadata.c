/* metadata.c - the GGUF metadata that describes a model. Other programs read it, so a file has every key that
 * llama.cpp's converter writes for the family. */
#include <stdio.h>
#include <string.h>

#include "models/config/plan.h"

uint32_t kvc_plan_file_type(enum kvc_type type) {
    static const uint32_t numbers[] = {
        [KVC_F32] = 0,   [KVC_F16] = 1,    [KVC_Q4_0] = 2,    [KVC_Q4_1] = 3,   [KVC_Q8_0] = 7,  [KVC_Q5_0] = 8,
        [KVC_Q5_1] = 9,  [KVC_Q2_K] = 10,  [KVC_Q3_K] = 11,   [KVC_Q4_K] = 14,  [KVC_Q5_K] = 16, [KVC_Q6_K] = 18,
        [KVC_BF16] = 32, [KVC_MXFP4] = 38, [KVC_IQ4_NL] = 25, [KVC_IQ4_XS] = 30};
    _Static_assert(sizeof numbers / sizeof *numbers == KVC_TYPES, "every type has a number");
    return numbers[type];
}

/* Writes the size label. "135M" is the number of weights. "8x6.6B" means 8 experts; one expert together with the shared
 * weights has 6.6B weights. */
static void size_label(const struct kvc_plan *plan, uint64_t experts, char *label, size_t capacity) {
    uint64_t count = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const struct kvc_planned_tensor *tensor = &plan->tensors[i];
        uint64_t size = 1;
        for (uint32_t d = tensor->experts ? 1 : 0; d < tensor->dimensions; d++) {
            size *= tensor->shape[d];
        }
        count += size;
    }
    static const char suffixes[] = "KMBT";
    double number = (double)count / 1e3;
    size_t i = 0;
    while (i < 3 && number > 1e3) {
        number /= 1e3;
        i++;
    }
    const int digits = number >= 9.5 ? 0 : number >= 0.5 ? 1 : 2;
    size_t used = 0;
    if (experts > 0) {
        used = (size_t)snprintf(label, capacity, "%ux", (unsigned)experts);
    }
    snprintf(label + used, capacity - used, "%.*f%c", digits, number, suffixes[i]);
}

/* Returns true if the file needs the key. Llama 3's scaling is stored in a tensor; other scalings have keys, which a
 * model without scaling must not have. */
static bool wanted(const struct kvc_config *config, const struct kvc_config_field *field) {
    if (!field->gguf || !kvc_config_knows(config, field->feature)) {
        return false;
    }
    if (strncmp(field->gguf, "rope.scaling.", 13) != 0) {
        return true;
    }
    switch (config->rope.kind) {
    case KVC_ROPE_LINEAR:
        return strcmp(field->gguf, "rope.scaling.factor") == 0;
    case KVC_ROPE_YARN:
        return true;
    case KVC_ROPE_LONGROPE:
        return strcmp(field->gguf, "rope.scaling.factor") != 0;
    default:
        return false;
    }
}

static void put_field(const struct kvc_config *config, const struct kvc_config_field *field,
                      struct kvc_gguf_writer *writer) {
    char key[128];
    const void *at = (const char *)config + field->offset;
    double real = 0;
    uint64_t integer = 0;
    kvc_config_key(config, true, field, key, sizeof key);
    if (field->real) {
        memcpy(&real, at, sizeof real);
        if (real != 0 || field->feature == KVC_SOFT_CAPS) { /* 0 means none, but families with soft caps need the key */
            kvc_gguf_put_float32(writer, key, (float)real);
        }
    } else {
        memcpy(&integer, at, sizeof integer);
        if (integer != 0) {
            kvc_gguf_put_uint32(writer, key, (uint32_t)integer);
        }
    }
}

/* Returns true if the layers with a window are those that other programs assume for the family. */
static bool follows_pattern(const struct kvc_config *config) {
    bool follows = config->family->window == KVC_WINDOW_PATTERN;
    for (uint64_t i = 0; i < config->layers; i++) {
        follows = follows && config->sliding[i] == ((i + 1) % config->family->pattern != 0);
    }
    return follows;
}

/* Writes the "general.*" keys, which describe the file. */
static void put_general(const struct kvc_config *config, const struct kvc_plan *plan, enum kvc_type type,
                        const char *name, struct kvc_gguf_writer *writer) {
    const char *architecture = config->family->gguf;
    char label[48];
    size_label(plan, config->experts, label, sizeof label);
    kvc_gguf_put_string(writer, "general.architecture", architecture, strlen(architecture));
    kvc_gguf_put_string(writer, "general.type", "model", strlen("model"));
    kvc_gguf_put_string(writer, "general.name", name, strlen(name));
    kvc_gguf_put_string(writer, "general.size_label", label, strlen(label));
    kvc_gguf_put_uint32(writer, "general.file_type", kvc_plan_file_type(type));
    kvc_gguf_put_uint32(writer, "general.quantization_version", 2);
}

/* Writes the kind of rotary scaling. Other programs need the kind for Command-R even if there is no scaling. For Phi-3
 * they need the original context. They recognize Phi-4 by a window of 0. */
static void put_scaling(const struct kvc_config *config, struct kvc_gguf_writer *writer) {
    const struct kvc_family *family = config->family;
    const enum kvc_rope_kind kind = config->rope.kind;
    const char *name = kind == KVC_ROPE_LINEAR || kind == KVC_ROPE_YARN || kind == KVC_ROPE_LONGROPE
                           ? kvc_rope_kind_name(kind)
                       : kvc_config_knows(config, KVC_LOGIT_SCALE) ? "none"
                                                                   : NULL;
    char key[128];
    if (name) {
        snprintf(key, sizeof key, "%s.rope.scaling.type", family->gguf);
        kvc_gguf_put_string(writer, key, name, strlen(name));
    }
    if (family->original_context && kind != KVC_ROPE_LONGROPE) {
        const uint64_t original = config->rope.original_context;
        snprintf(key, sizeof key, "%s.rope.scaling.original_context_length", family->gguf);
        kvc_gguf_put_uint32(writer, key, (uint32_t)(original ? original : family->original_context));
    }
    if (family->original_context && config->sliding_window == 0) {
        snprintf(key, sizeof key, "%s.attention.sliding_window", family->gguf);
        kvc_gguf_put_uint32(writer, key, 0);
    }
}

enum kvc_status kvc_plan_metadata(const struct kvc_config *config, const struct kvc_plan *plan, enum kvc_type type,
                                  const char *name, struct kvc_gguf_writer *writer, struct kvc_error *error) {
    const char *architecture = config->family->gguf;
    char key[128];
    if (config->rope.kind == KVC_ROPE_YARN && (config->rope.keep_fractions != config->family->keep_fractions ||
                                               config->rope.mscale != 0 || config->rope.mscale_all != 0)) {
        return kvc_fail(error, KVC_INPUT,
                        "%s: yarn scaling with truncate=%s or mscale cannot be written to a GGUF file", name,
                        config->family->keep_fractions ? "true" : "false");
    }
    for (uint64_t i = 0; config->unrotated && i < config->layers; i++) {
        if (config->unrotated[i] != ((i + 1) % config->family->unrotated == 0)) {
            return kvc_fail(error, KVC_INPUT,
                            "%s: no_rope_layers other than every %dth cannot be written to a GGUF file", name,
                            (int)config->family->unrotated);
        }
    }
    put_general(config, plan, type, name, writer);
    for (const struct kvc_config_field *field = kvc_config_fields; field->gguf || field->hf; field++) {
        if (wanted(config, field)) {
            put_field(config, field, writer);
        }
    }
    snprintf(key, sizeof key, "%s.attention.value_length", architecture);
    kvc_gguf_put_uint32(writer, key, (uint32_t)config->head_size);
    if (config->experts && config->routing_normalized != config->family->normalised) {
        snprintf(key, sizeof key, "%s.expert_weights_norm", architecture);
        kvc_gguf_put_bool(writer, key, config->routing_normalized);
    }
    put_scaling(config, writer);
    if (kvc_config_knows(config, KVC_SIDE_BY_SIDE)) {
        snprintf(key, sizeof key, "%s.use_parallel_residual", architecture);
        kvc_gguf_put_bool(writer, key, config->parallel);
    }
    if (config->sliding && (config->family->local_unscaled || !follows_pattern(config))) {
        snprintf(key, sizeof key, "%s.attention.sliding_window_pattern", architecture);
        kvc_gguf_put_bools(writer, key, config->sliding, (size_t)config->layers);
    }
    return KVC_OK;
}
