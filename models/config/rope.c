/* rope.c - rotary frequencies of every scaling, in float32, rounded exactly as in transformers.
 *
 * Pair i of `rotary` channels rotates by position * base^(-2i/rotary), modified by the scaling. Values that
 * transformers computes as float32 tensors are float32 here, operation by operation. Values that it computes as Python
 * numbers are double. */
#include <math.h>
#include <stdlib.h>

#include "core/base/trig.h"
#include "models/config/config.h"

static const double TWO_PI = 0x1.921fb54442d18p+2;

/* Returns base^(2i/rotary). */
static float power(const struct kvc_config *config, uint64_t i) {
    float exponent = (float)(2 * i) / (float)config->rope.rotary;
    return (float)kvc_double_pow((double)(float)config->rope.base, (double)exponent);
}

/* ---- llama3: long waves are slowed by `factor`, short ones are unchanged, a mixture in between ---- */

static float llama3_smooth(const struct kvc_config *config, float wave) {
    const float low = (float)config->rope.low_factor;
    const float range = (float)(config->rope.high_factor - config->rope.low_factor);
    return ((float)config->rope.original_context / wave - low) / range;
}

/* Returns -1 for a short wave, 1 for a long one, 0 in between. */
static int llama3_band(const struct kvc_config *config, float wave) {
    const double original = (double)config->rope.original_context;
    if (wave < (float)(original / config->rope.high_factor))
        return -1;
    return wave > (float)(original / config->rope.low_factor) ? 1 : 0;
}

static float llama3(const struct kvc_config *config, float frequency) {
    const float factor = (float)config->rope.factor, wave = (float)TWO_PI / frequency;
    const int band = llama3_band(config, wave);
    if (band < 0)
        return frequency;
    if (band > 0)
        return frequency / factor;
    const float smooth = llama3_smooth(config, wave);
    return (1.0f - smooth) * frequency / factor + smooth * frequency;
}

void kvc_rope_divisors(const struct kvc_config *config, float *divisor) {
    const float factor = (float)config->rope.factor;
    for (uint64_t i = 0; i < config->rope.rotary / 2; i++) {
        const float wave = (float)TWO_PI / (1.0f / power(config, i));
        const int band = llama3_band(config, wave);
        const float smooth = llama3_smooth(config, wave);
        divisor[i] = band < 0 ? 1.0f : band > 0 ? factor : 1.0f / ((1.0f - smooth) / factor + smooth);
    }
}

/* All published models have low_factor 1, high_factor 4 and a power of two as original context. Their last divisor
 * equals `factor`. */
void kvc_rope_recognise(struct kvc_config *config) {
    const uint64_t pairs = config->rope.rotary / 2;
    if (config->rope.kind != KVC_ROPE_DIVISORS || pairs == 0 || config->rope.divisor_count != pairs)
        return;
    float *expected = malloc((size_t)pairs * sizeof *expected);
    if (!expected)
        return; /* keeping the divisors is correct, too */
    struct kvc_config trial = *config;
    trial.rope.factor = (double)config->rope.divisor[pairs - 1];
    trial.rope.low_factor = 1;
    trial.rope.high_factor = 4;
    for (uint64_t original = 16; original <= 1u << 24 && trial.rope.factor > 1; original *= 2) {
        trial.rope.original_context = original;
        kvc_rope_divisors(&trial, expected);
        uint64_t equal = 0;
        while (equal < pairs && fabsf(expected[equal] - config->rope.divisor[equal]) <= 1e-5f * expected[equal])
            equal++;
        if (equal == pairs) {
            trial.rope.kind = KVC_ROPE_LLAMA3;
            *config = trial;
            break;
        }
    }
    free(expected);
}

/* ---- yarn: slow pairs are interpolated, fast ones are unchanged, with a ramp in between ---- */

/* Returns the pair (a real number) that rotates `rotations` times within the original context. */
static double yarn_pair(const struct kvc_config *config, double rotations) {
    const double rotary = (double)config->rope.rotary, original = (double)config->rope.original_context;
    return rotary * kvc_double_log(original / (rotations * TWO_PI)) / (2 * kvc_double_log(config->rope.base));
}

static void yarn(const struct kvc_config *config, float *frequency) {
    double low = yarn_pair(config, config->rope.beta_fast), high = yarn_pair(config, config->rope.beta_slow);
    const double last = (double)config->rope.rotary - 1;
    if (!config->rope.keep_fractions) {
        low = floor(low);
        high = ceil(high);
    }
    low = low > 0 ? low : 0;
    high = high < last ? high : last;
    if (low == high)
        high += 0.001;
    for (uint64_t i = 0; i < config->rope.rotary / 2; i++) {
        float ramp = ((float)i - (float)low) / (float)(high - low);
        ramp = ramp < 0.0f ? 0.0f : ramp > 1.0f ? 1.0f : ramp;
        const float own = 1.0f - ramp, p = power(config, i);
        const float interpolated = 1.0f / ((float)config->rope.factor * p), extrapolated = 1.0f / p;
        frequency[i] = interpolated * (1.0f - own) + extrapolated * own;
    }
}

static double magnitude(double factor, double scale) {
    return factor <= 1 ? 1 : 0.1 * scale * kvc_double_log(factor) + 1;
}

static float yarn_attention(const struct kvc_config *config) {
    const double scale = config->rope.attention_scale > 0 ? config->rope.attention_scale : 1;
    return (float)(scale * magnitude(config->rope.factor, 1));
}

/* Finds the float32 multiplier whose product with magnitude(factor, 1) is nearest to `wanted`. GGUF stores the
 * multiplier, config.json the product. */
static void set_yarn_attention(struct kvc_config *config, float wanted) {
    const double own = magnitude(config->rope.factor, 1);
    const float nearest = (float)((double)wanted / own);
    const float trials[3] = {nearest, nextafterf(nearest, 0.0f), nextafterf(nearest, 2.0f * nearest)};
    config->rope.attention_scale = (double)nearest;
    for (int i = 0; i < 3; i++) {
        if ((float)((double)trials[i] * own) == wanted) {
            config->rope.attention_scale = (double)trials[i];
            return;
        }
    }
}

/* ---- longrope: a divisor for each pair, one list up to the original context and one beyond ---- */

static float longrope_attention(const struct kvc_config *config) {
    const double original = (double)config->rope.original_context;
    const double factor = config->rope.factor > 0 ? config->rope.factor : (double)config->context / original;
    return factor <= 1 ? 1.0f : (float)sqrt(1 + kvc_double_log(factor) / kvc_double_log(original));
}

static void longrope(const struct kvc_config *config, const float *divisor, float *frequency) {
    for (uint64_t i = 0; i < config->rope.rotary / 2; i++)
        frequency[i] = 1.0f / (divisor[i] * power(config, i));
}

/* ---- all kinds ---- */

static enum kvc_status unify_llama3(struct kvc_config *config, struct kvc_error *error) {
    const uint64_t pairs = config->rope.rotary / 2;
    free(config->rope.divisor);
    config->rope.divisor = malloc((size_t)pairs * sizeof *config->rope.divisor);
    if (!config->rope.divisor) {
        return kvc_fail(error, KVC_RESOURCE, "no memory for %zu rotary frequencies", (size_t)pairs);
    }
    kvc_rope_divisors(config, config->rope.divisor);
    config->rope.divisor_count = pairs;
    config->rope.kind = KVC_ROPE_DIVISORS;
    kvc_rope_recognise(config);
    return KVC_OK;
}

enum kvc_status kvc_rope_unify(struct kvc_config *config, struct kvc_error *error) {
    float attention = (float)config->rope.attention_factor;
    if (config->rope.kind == KVC_ROPE_LLAMA3) {
        return unify_llama3(config, error);
    }
    if (config->rope.kind == KVC_ROPE_YARN) {
        const double factor = config->rope.factor;
        if (attention == 0 && config->rope.mscale > 0 && config->rope.mscale_all > 0) {
            attention = (float)(magnitude(factor, config->rope.mscale) / magnitude(factor, config->rope.mscale_all));
        }
        if (attention > 0) {
            set_yarn_attention(config, attention);
        }
    }
    if (config->rope.kind == KVC_ROPE_LONGROPE) {
        if (attention > 0) {
            config->rope.attention_scale = (double)attention;
        } else if (config->rope.attention_scale == 0) {
            config->rope.attention_scale = (double)longrope_attention(config);
        }
        config->rope.factor = 0;
    }
    config->rope.attention_factor = config->rope.mscale = config->rope.mscale_all = 0;
    return KVC_OK;
}

enum kvc_status kvc_rope_build_still(const struct kvc_config *config, bool interleaved, struct kvc_rope *rope,
                                     struct kvc_error *error) {
    struct kvc_config still = *config;
    still.rope.kind = KVC_ROPE_PLAIN;
    still.rope.attention_scale = 0;
    const enum kvc_status status = kvc_rope_build(&still, interleaved, rope, error);
    for (uint32_t i = 0; status == KVC_OK && i < rope->rotary / 2; i++)
        rope->frequency[i] = 0;
    return status;
}

enum kvc_status kvc_rope_build_local(const struct kvc_config *config, bool interleaved, struct kvc_rope *rope,
                                     struct kvc_error *error) {
    struct kvc_config local = *config;
    local.rope.kind = KVC_ROPE_PLAIN;
    local.rope.base = config->rope.local_base;
    local.rope.attention_scale = 0;
    return kvc_rope_build(&local, interleaved, rope, error);
}

enum kvc_status kvc_rope_build(const struct kvc_config *config, bool interleaved, struct kvc_rope *rope,
                               struct kvc_error *error) {
    const uint64_t pairs = config->rope.rotary / 2;
    const enum kvc_rope_kind kind = config->rope.kind;
    *rope = (struct kvc_rope){.rotary = (uint32_t)config->rope.rotary,
                              .interleaved = interleaved,
                              .original_context = config->rope.original_context,
                              .attention_factor = 1,
                              .long_attention_factor = 1};
    rope->frequency = malloc((size_t)pairs * sizeof *rope->frequency);
    rope->long_frequency = kind == KVC_ROPE_LONGROPE ? malloc((size_t)pairs * sizeof *rope->frequency) : NULL;
    if (!rope->frequency || (kind == KVC_ROPE_LONGROPE && !rope->long_frequency)) {
        free(rope->frequency);
        free(rope->long_frequency);
        *rope = (struct kvc_rope){0};
        return kvc_fail(error, KVC_RESOURCE, "no memory for %zu rotary frequencies", (size_t)pairs);
    }
    if (kind == KVC_ROPE_YARN) {
        yarn(config, rope->frequency);
        rope->attention_factor = rope->long_attention_factor = yarn_attention(config);
        return KVC_OK;
    }
    if (kind == KVC_ROPE_LONGROPE) {
        longrope(config, config->rope.short_factor, rope->frequency);
        longrope(config, config->rope.long_factor, rope->long_frequency);
        rope->attention_factor = (float)config->rope.attention_scale;
        rope->long_attention_factor = rope->attention_factor;
        return KVC_OK;
    }
    if (config->rope.attention_scale > 0) {
        rope->attention_factor = rope->long_attention_factor = (float)config->rope.attention_scale;
    }
    for (uint64_t i = 0; i < pairs; i++) {
        const float frequency = 1.0f / power(config, i);
        rope->frequency[i] = kind == KVC_ROPE_LINEAR     ? frequency / (float)config->rope.factor
                             : kind == KVC_ROPE_LLAMA3   ? llama3(config, frequency)
                             : kind == KVC_ROPE_DIVISORS ? frequency / config->rope.divisor[i]
                                                         : frequency;
    }
    return KVC_OK;
}
