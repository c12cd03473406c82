/* config.c - the numbers that describe a model: their keys in both formats, their ranges, and the relations between
 * them. */
#include "models/config/config.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/assert.h"
#include "core/base/canon.h"
#include "core/base/delta.h"

#define AT(member) offsetof(struct kvc_config, member)
#define INTEGER(gguf, hf, member, minimum, maximum)                                                                    \
    { gguf, hf, AT(member), KVC_TOP, false, false, minimum, maximum, 0 }
#define NEEDED(gguf, hf, member, minimum, maximum)                                                                     \
    { gguf, hf, AT(member), KVC_TOP, false, true, minimum, maximum, 0 }
#define REAL(gguf, hf, member, place, minimum, maximum)                                                                \
    { gguf, hf, AT(member), place, true, false, minimum, maximum, 0 }
#define ONLY(feature, gguf, hf, member, minimum, maximum)                                                              \
    { gguf, hf, AT(member), KVC_TOP, true, false, minimum, maximum, feature }

#define DELTA(gguf, hf, member, minimum, maximum)                                                                      \
    { gguf, hf, AT(delta.member), KVC_TOP, false, false, minimum, maximum, KVC_DELTA }

/* The ranges go well beyond any model of these families, but no product of two numbers can overflow. */
const struct kvc_config_field kvc_config_fields[] = {
    NEEDED("block_count", "num_hidden_layers", layers, 1, 4096),
    NEEDED("embedding_length", "hidden_size", hidden, 1, 1048576),
    NEEDED("attention.head_count", "num_attention_heads", heads, 1, 4096),
    INTEGER("attention.head_count_kv", "num_key_value_heads", kv_heads, 1, 4096),
    INTEGER("attention.key_length", "head_dim", head_size, 2, 4096),
    NEEDED("feed_forward_length", "intermediate_size", feed_forward, 1, 16777216),
    INTEGER("expert_feed_forward_length", "moe_intermediate_size", expert_feed, 0, 16777216),
    INTEGER("expert_shared_feed_forward_length", "shared_expert_intermediate_size", shared_feed, 0, 16777216),
    INTEGER("expert_count", "num_experts", experts, 0, KVC_EXPERTS_MOST),
    INTEGER(NULL, "num_local_experts", experts, 0, KVC_EXPERTS_MOST),
    INTEGER("expert_used_count", "num_experts_per_tok", experts_used, 0, KVC_EXPERTS_USED_MOST),
    INTEGER("vocab_size", NULL, vocab, 1, 16777216),
    NEEDED(NULL, "vocab_size", vocab, 1, 16777216),
    INTEGER("context_length", "max_position_embeddings", context, 1, 2147483647),
    INTEGER("attention.sliding_window", NULL, sliding_window, 0, 2147483647),
    INTEGER(NULL, "sliding_window", sliding_window, 0, 2147483647),
    REAL("attention.layer_norm_rms_epsilon", "rms_norm_eps", norm_eps, KVC_TOP, 1e-30, 1),
    INTEGER("rope.dimension_count", NULL, rope.rotary, 2, 4096),
    REAL("rope.freq_base", "rope_theta", rope.base, KVC_ROPE_THEN_TOP, 1, 1e30),
    REAL(NULL, "partial_rotary_factor", rope.partial, KVC_ROPE_THEN_TOP, 1e-3, 1),
    {"rope.scaling.original_context_length", "original_max_position_embeddings", AT(rope.original_context),
     KVC_TOP_THEN_ROPE, false, false, 1, 2147483647, 0},
    REAL("rope.scaling.factor", "factor", rope.factor, KVC_ROPE, 1e-6, 1e9),
    REAL(NULL, "low_freq_factor", rope.low_factor, KVC_ROPE, 1e-6, 1e9),
    REAL(NULL, "high_freq_factor", rope.high_factor, KVC_ROPE, 1e-6, 1e9),
    REAL("rope.scaling.yarn_beta_fast", "beta_fast", rope.beta_fast, KVC_ROPE, 1e-6, 1e9),
    REAL("rope.scaling.yarn_beta_slow", "beta_slow", rope.beta_slow, KVC_ROPE, 1e-6, 1e9),
    REAL(NULL, "attention_factor", rope.attention_factor, KVC_ROPE, 1e-6, 1e6),
    REAL("rope.scaling.attn_factor", NULL, rope.attention_scale, KVC_TOP, 1e-6, 1e6),
    REAL(NULL, "mscale", rope.mscale, KVC_ROPE, 0, 1e6),
    REAL(NULL, "mscale_all_dim", rope.mscale_all, KVC_ROPE, 0, 1e6),
    DELTA("ssm.conv_kernel", "linear_conv_kernel_dim", taps, 2, KVC_DELTA_TAPS_MOST),
    DELTA("ssm.state_size", "linear_key_head_dim", key_size, 1, KVC_DELTA_KEY_MOST),
    DELTA(NULL, "linear_value_head_dim", value_size, 1, 4096),
    DELTA("ssm.group_count", "linear_num_key_heads", key_heads, 1, 4096),
    DELTA("ssm.time_step_rank", "linear_num_value_heads", heads, 1, 4096),
    DELTA("ssm.inner_size", NULL, inner, 1, 16777216),
    DELTA("full_attention_interval", "full_attention_interval", every, 1, 4096),
    ONLY(KVC_LOCAL_ROPE, "rope.freq_base_swa", "rope_local_base_freq", rope.local_base, 1, 1e30),
    ONLY(KVC_SCORE_SCALE | KVC_MULTIPLIERS, "attention.scale", NULL, score_scale, 0, 1e3),
    ONLY(KVC_MULTIPLIERS, NULL, "attention_multiplier", score_scale, 1e-6, 1e3),
    ONLY(KVC_MULTIPLIERS, "embedding_scale", "embedding_multiplier", embedding_scale, 1e-6, 1e6),
    ONLY(KVC_MULTIPLIERS, "residual_scale", "residual_multiplier", residual_scale, 1e-6, 1e6),
    ONLY(KVC_MULTIPLIERS, "logit_scale", "logits_scaling", logit_divisor, 1e-6, 1e6),
    ONLY(KVC_LOGIT_SCALE, "logit_scale", "logit_scale", logit_scale, 1e-6, 1e6),
    ONLY(KVC_LAYER_NORM, "attention.layer_norm_epsilon", "layer_norm_eps", norm_eps, 1e-30, 1),
    ONLY(KVC_SCORE_SCALE, NULL, "query_pre_attn_scalar", query_scalar, 1e-6, 1e9),
    ONLY(KVC_SOFT_CAPS, "attn_logit_softcapping", "attn_logit_softcapping", score_cap, 0, 1e6),
    ONLY(KVC_SOFT_CAPS, "final_logit_softcapping", "final_logit_softcapping", logit_cap, 0, 1e6),
    {0},
};

static const char *prefix(const struct kvc_config *config, bool gguf, const struct kvc_config_field *field) {
    if (gguf) {
        return config->family->gguf;
    }
    return field->place == KVC_ROPE ? "rope_scaling" : NULL;
}

const char *kvc_config_key(const struct kvc_config *config, bool gguf, const struct kvc_config_field *field, char *key,
                           size_t capacity) {
    const char *name = gguf ? field->gguf : field->hf, *before = prefix(config, gguf, field);
    snprintf(key, capacity, "%s%s%s", before ? before : "", before ? "." : "", name);
    return key;
}

static uint64_t *integer_at(struct kvc_config *config, size_t offset) {
    KVC_ASSERT(offset % sizeof(uint64_t) == 0 && offset + sizeof(uint64_t) <= sizeof *config);
    return (uint64_t *)(void *)((char *)config + offset);
}

static double *real_at(struct kvc_config *config, size_t offset) { return (double *)(void *)((char *)config + offset); }

enum kvc_status kvc_config_set(struct kvc_config *config, const struct kvc_config_field *field, bool gguf, double value,
                               const char *where, struct kvc_error *error) {
    char key[128];
    if (!(value >= field->minimum && value <= field->maximum)) {
        kvc_config_key(config, gguf, field, key, sizeof key);
        return field->real ? kvc_fail(error, KVC_INPUT, "%s: %s is %g, it must be %g to %g", where, key, value,
                                      field->minimum, field->maximum)
                           : kvc_fail(error, KVC_INPUT, "%s: %s is %.0f, it must be %.0f to %.0f", where, key, value,
                                      field->minimum, field->maximum);
    }
    if (!field->real) {
        *integer_at(config, field->offset) = (uint64_t)value;
    } else {
        /* Rounds to float32, which is what GGUF stores, so that both formats give the same number. */
        *real_at(config, field->offset) = field->gguf ? (double)(float)value : value;
    }
    return KVC_OK;
}

/* Returns the key of the field at `offset`, for error messages. */
static const char *key_of(const struct kvc_config *config, bool gguf, size_t offset, char *key, size_t capacity) {
    for (const struct kvc_config_field *field = kvc_config_fields; field->gguf || field->hf; field++) {
        if (field->offset == offset && (gguf ? field->gguf : field->hf)) {
            return kvc_config_key(config, gguf, field, key, capacity);
        }
    }
    return "a value";
}

static enum kvc_status config_missing(const struct kvc_config *config, bool gguf, size_t offset, const char *why,
                                      const char *where, struct kvc_error *error) {
    char key[128];
    return kvc_fail(error, KVC_INPUT, "%s: %s is missing%s", where, key_of(config, gguf, offset, key, sizeof key), why);
}

static enum kvc_status check_required(const struct kvc_config *config, bool gguf, const char *where,
                                      struct kvc_error *error) {
    for (const struct kvc_config_field *field = kvc_config_fields; field->gguf || field->hf; field++) {
        if (field->required && (gguf ? field->gguf : field->hf) &&
            *(const uint64_t *)(const void *)((const char *)config + field->offset) == 0) {
            return config_missing(config, gguf, field->offset, "", where, error);
        }
    }
    return KVC_OK;
}

/* Applies the defaults of transformers where config.json lacks a key. */
static void take_defaults(struct kvc_config *config, bool gguf) {
    if (!gguf && config->heads == 0)
        config->heads = config->family->heads;
    if (!gguf && config->vocab == 0)
        config->vocab = config->family->vocab;
    if (!gguf && config->query_scalar == 0)
        config->query_scalar = config->family->query_scalar;
    if (!gguf && config->rope.base == 0)
        config->rope.base = config->family->base;
    if (!gguf && config->rope.partial == 0)
        config->rope.partial = config->family->partial;
    if (!gguf && config->score_scale == 0 && kvc_config_knows(config, KVC_MULTIPLIERS))
        config->score_scale = 1;
    if (!gguf && config->logit_scale == 0)
        config->logit_scale = config->family->logit_scale;
    if (config->rope.local_base == 0)
        config->rope.local_base = config->family->local_base;
    if (config->score_cap < 0)
        config->score_cap = config->family->score_cap;
    if (config->logit_cap < 0)
        config->logit_cap = config->family->logit_cap;
    if (config->pattern == 0)
        config->pattern = config->family->pattern;
}

/* Sets the score scale to 1 / sqrt(query_scalar), or to 0 if that equals the default of 1 / sqrt(head size), in
 * float32: config.json may have a rounded decimal number. */
static void complete_scale(struct kvc_config *config, bool gguf) {
    double scalar = config->query_scalar;
    KVC_ASSERT(config->heads > 0 && config->head_size > 0);
    if (gguf && config->score_scale == 0 && config->layers == config->family->wide_layers)
        scalar = (double)config->hidden / (double)config->heads;
    if (scalar > 0)
        config->score_scale = (double)(float)(1 / sqrt(scalar));
    if ((float)config->score_scale == (float)(1 / sqrt((double)config->head_size)))
        config->score_scale = 0;
    config->query_scalar = 0;
}

enum kvc_status kvc_config_unrotate(struct kvc_config *config, uint64_t every, const char *where,
                                    struct kvc_error *error) {
    config->unrotated = malloc((size_t)config->layers);
    if (!config->unrotated) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for %" PRIu64 " layers", where, config->layers);
    }
    for (uint64_t i = 0; i < config->layers; i++) {
        config->unrotated[i] = (i + 1) % every == 0;
    }
    return KVC_OK;
}

enum kvc_status kvc_config_slide(struct kvc_config *config, const char *where, struct kvc_error *error) {
    free(config->sliding);
    config->sliding = malloc((size_t)config->layers);
    if (!config->sliding) {
        return kvc_fail(error, KVC_RESOURCE, "%s: no memory for %" PRIu64 " layers", where, config->layers);
    }
    for (uint64_t i = 0; i < config->layers; i++) {
        config->sliding[i] = config->pattern == 0 || (i + 1) % config->pattern != 0;
    }
    return KVC_OK;
}

enum kvc_status kvc_config_check_dense(struct kvc_config *config, const char *where, struct kvc_error *error) {
    uint64_t dense = 0;
    for (uint64_t i = 0; i < config->layers; i++) {
        dense += config->dense[i];
    }
    if (dense == config->layers) {
        return kvc_fail(error, KVC_INPUT, "%s: no layer has experts, though there are %" PRIu64 " of them", where,
                        config->experts);
    }
    if (dense == 0) {
        free(config->dense);
        config->dense = NULL;
    }
    return KVC_OK;
}

static enum kvc_status complete_heads(struct kvc_config *config, bool gguf, const char *where,
                                      struct kvc_error *error) {
    char a[128], b[128];
    if (config->kv_heads == 0) {
        config->kv_heads = gguf || config->family->kv_heads == 0 ? config->heads : config->family->kv_heads;
    }
    if (config->heads % config->kv_heads != 0) {
        return kvc_fail(error, KVC_INPUT, "%s: %s is %" PRIu64 ", it must be a multiple of %s, which is %" PRIu64,
                        where, key_of(config, gguf, AT(heads), a, sizeof a), config->heads,
                        key_of(config, gguf, AT(kv_heads), b, sizeof b), config->kv_heads);
    }
    if (config->head_size == 0 && !gguf) {
        config->head_size = config->family->head_size;
    }
    if (config->head_size == 0) {
        if (config->hidden % config->heads != 0) {
            char c[128];
            return kvc_fail(error, KVC_INPUT,
                            "%s: %s is %" PRIu64 ", not a multiple of %s, %" PRIu64 "; then %s must "
                            "be given",
                            where, key_of(config, gguf, AT(hidden), a, sizeof a), config->hidden,
                            key_of(config, gguf, AT(heads), b, sizeof b), config->heads,
                            key_of(config, gguf, AT(head_size), c, sizeof c));
        }
        config->head_size = config->hidden / config->heads;
        if (config->head_size < 2 || config->head_size > 4096) {
            return kvc_fail(error, KVC_INPUT, "%s: %s / %s gives heads of size %" PRIu64 ", it must be 2 to 4096",
                            where, key_of(config, gguf, AT(hidden), a, sizeof a),
                            key_of(config, gguf, AT(heads), b, sizeof b), config->head_size);
        }
    }
    return KVC_OK;
}

/* Checks the counts of experts against the family and fills in missing widths. */
static enum kvc_status complete_experts(struct kvc_config *config, bool gguf, const char *where,
                                        struct kvc_error *error) {
    char a[128], b[128];
    const char *count = gguf ? key_of(config, gguf, AT(experts), a, sizeof a) : "num_experts or num_local_experts";
    const char *used = key_of(config, gguf, AT(experts_used), b, sizeof b);
    if (!config->family->experts) {
        config->expert_feed = config->shared_feed = 0;
        return config->experts == 0 && config->experts_used == 0
                   ? KVC_OK
                   : kvc_fail(error, KVC_INPUT, "%s: %s is %" PRIu64 ": a model that uses this is not supported", where,
                              config->experts ? count : used, config->experts ? config->experts : config->experts_used);
    }
    if (config->experts == 0) {
        return kvc_fail(error, KVC_INPUT, "%s: %s is missing or 0", where, count);
    }
    if (config->experts_used == 0) {
        return config_missing(config, gguf, AT(experts_used), " or 0", where, error);
    }
    if (config->experts_used > config->experts) {
        return kvc_fail(error, KVC_INPUT, "%s: %s is %" PRIu64 ", it must be at most %s, which is %" PRIu64, where,
                        used, config->experts_used, count, config->experts);
    }
    if (config->expert_feed ==
        0) { /* in the first Qwen2-MoE files, feed_forward is the sum of the widths of a token's experts */
        config->expert_feed = config->feed_forward / (config->family->shared ? config->experts_used : 1);
    }
    if (config->family->shared && config->shared_feed == 0) {
        config->shared_feed = config->feed_forward;
    }
    if (!config->family->shared && config->shared_feed) {
        return kvc_fail(error, KVC_INPUT, "%s: %s is %" PRIu64 ": a model that uses this is not supported", where,
                        key_of(config, gguf, AT(shared_feed), b, sizeof b), config->shared_feed);
    }
    return config->expert_feed ? KVC_OK : config_missing(config, gguf, AT(expert_feed), "", where, error);
}

static enum kvc_status complete_rotary(struct kvc_config *config, bool gguf, const char *where,
                                       struct kvc_error *error) {
    if (config->rope.rotary == 0) {
        double partial = config->rope.partial > 0 ? config->rope.partial : 1;
        config->rope.rotary = (uint64_t)((double)config->head_size * partial);
    }
    if (config->rope.rotary < 2 || config->rope.rotary % 2 != 0 || config->rope.rotary > config->head_size) {
        return kvc_fail(error, KVC_INPUT,
                        "%s: %s makes %" PRIu64 " channels of a head rotate, it must be an even number "
                        "from 2 to the head size, %" PRIu64,
                        where, gguf ? "rope.dimension_count" : "partial_rotary_factor or head_dim", config->rope.rotary,
                        config->head_size);
    }
    if (config->rope.base == 0) {
        config->rope.base = 10000;
    }
    if (config->family->local_unscaled && config->rope.local_base == 0) {
        config->rope.local_base = config->rope.base;
    }
    return KVC_OK;
}

/* Checks longrope's two lists or GGUF's divisors: one number per pair of rotated channels. */
static enum kvc_status check_list(const char *name, const float *values, uint64_t count, uint64_t expected,
                                  const char *where, struct kvc_error *error) {
    if (count != expected) {
        return kvc_fail(error, KVC_INPUT,
                        "%s: %s has %" PRIu64 " numbers, it must have %" PRIu64 ", one for each pair "
                        "of channels that rotate",
                        where, name, count, expected);
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!(values[i] >= 1e-6f && values[i] <= 1e9f)) {
            return kvc_fail(error, KVC_INPUT, "%s: %s[%" PRIu64 "] is %g, it must be 1e-06 to 1e+09", where, name, i,
                            (double)values[i]);
        }
    }
    return KVC_OK;
}

static enum kvc_status complete_scaling(struct kvc_config *config, bool gguf, const char *where,
                                        struct kvc_error *error) {
    const enum kvc_rope_kind kind = config->rope.kind;
    const uint64_t pairs = config->rope.rotary / 2;
    KVC_ASSERT(config->rope.rotary >= 2 && config->rope.rotary <= config->head_size);
    char key[128], need[64];
    if (kind == KVC_ROPE_PLAIN) {
        return KVC_OK;
    }
    if (kind == KVC_ROPE_DIVISORS) {
        return check_list("rope_freqs.weight", config->rope.divisor, config->rope.divisor_count, pairs, where, error);
    }
    if (config->rope.original_context == 0) {
        config->rope.original_context =
            !gguf && config->family->original_context ? config->family->original_context : config->context;
    }
    if (kind == KVC_ROPE_LONGROPE) {
        if (config->rope.original_context < 2) {
            return kvc_fail(error, KVC_INPUT, "%s: %s is %" PRIu64 ", longrope needs at least 2", where,
                            key_of(config, gguf, AT(rope.original_context), key, sizeof key),
                            config->rope.original_context);
        }
        const char *names[2] = {gguf ? "rope_factors_short.weight" : "rope_scaling.short_factor",
                                gguf ? "rope_factors_long.weight" : "rope_scaling.long_factor"};
        enum kvc_status status =
            check_list(names[0], config->rope.short_factor, config->rope.short_count, pairs, where, error);
        return status ? status
                      : check_list(names[1], config->rope.long_factor, config->rope.long_count, pairs, where, error);
    }
    if (config->rope.factor == 0 && kind == KVC_ROPE_YARN && !gguf) {
        config->rope.factor = (double)(float)((double)config->context / (double)config->rope.original_context);
    }
    snprintf(need, sizeof need, "; rope scaling of type %s needs it", kvc_rope_kind_name(kind));
    if (config->rope.factor == 0) {
        return config_missing(config, gguf, AT(rope.factor), need, where, error);
    }
    if (kind == KVC_ROPE_LLAMA3) {
        if (config->rope.low_factor == 0)
            return config_missing(config, gguf, AT(rope.low_factor), need, where, error);
        if (config->rope.high_factor == 0)
            return config_missing(config, gguf, AT(rope.high_factor), need, where, error);
        if (config->rope.high_factor <= config->rope.low_factor) {
            return kvc_fail(error, KVC_INPUT,
                            "%s: rope_scaling.high_freq_factor is %g, it must be greater than "
                            "low_freq_factor, %g",
                            where, config->rope.high_factor, config->rope.low_factor);
        }
    }
    if (kind == KVC_ROPE_YARN) {
        if (config->rope.beta_fast == 0)
            config->rope.beta_fast = 32;
        if (config->rope.beta_slow == 0)
            config->rope.beta_slow = 1;
        if (config->rope.base <= 1) {
            return kvc_fail(error, KVC_INPUT, "%s: %s is %g, yarn needs more than 1", where,
                            key_of(config, gguf, AT(rope.base), key, sizeof key), config->rope.base);
        }
    }
    return KVC_OK;
}

enum kvc_status kvc_config_complete(struct kvc_config *config, bool gguf, const char *where, struct kvc_error *error) {
    take_defaults(config, gguf);
    config->fused = config->fused || config->family->fused;
    config->norms = config->parallel ? KVC_NORMS_ONE : config->family->norms;
    enum kvc_status status = check_required(config, gguf, where, error);
    if (!status)
        status = complete_heads(config, gguf, where, error);
    if (!status)
        status = complete_experts(config, gguf, where, error);
    if (!status)
        status = complete_rotary(config, gguf, where, error);
    if (!status && kvc_config_knows(config, KVC_DELTA))
        status = kvc_config_delta(config, gguf, where, error);
    if (status) {
        return status;
    }
    complete_scale(config, gguf);
    if (config->context == 0) {
        config->context = config->family->context;
    }
    if (config->norm_eps == 0) {
        config->norm_eps = config->family->norm_eps;
    }
    status = complete_scaling(config, gguf, where, error);
    if (!status && config->rope.kind == KVC_ROPE_YARN) {
        /* In many files, the given context length is the length before scaling. */
        double scaled = (double)config->rope.original_context * config->rope.factor;
        if (scaled > (double)config->context && scaled <= 2147483647.0) {
            config->context = (uint64_t)scaled;
        }
    }
    if (!status && config->rope.kind == KVC_ROPE_DIVISORS) {
        kvc_rope_recognise(config);
    }
    KVC_ASSERT(status || config->heads % config->kv_heads == 0);
    return status ? status : kvc_rope_unify(config, error);
}

const char *kvc_rope_kind_name(enum kvc_rope_kind kind) {
    static const char *const names[] = {"plain", "linear", "llama3", "yarn", "longrope", "divisors"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

void kvc_config_free(struct kvc_config *config) {
    free(config->sliding);
    free(config->unrotated);
    free(config->dense);
    free(config->recurrent);
    free(config->rope.short_factor);
    free(config->rope.long_factor);
    free(config->rope.divisor);
    config->sliding = config->unrotated = config->recurrent = config->dense = NULL;
    config->rope.short_factor = config->rope.long_factor = config->rope.divisor = NULL;
}
