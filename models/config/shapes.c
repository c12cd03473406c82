/* shapes.c - the table of model geometries for `mkmodel` and `bench --shape`. */
#include "models/config/shapes.h"

#include <stdlib.h>
#include <string.h>

/* Columns: name, summary, family, layers, hidden, heads, kv heads, head size, feed-forward width, vocabulary, context,
 * window, tied, eps, base, scaling, factor, original context, tokenizer, experts, experts per token. */
/* clang-format off */
static const struct kvc_shape shapes[] = {
    {"tiny", "odd sizes for tests: 3 layers, head size 24, GQA 3", "llama", 3, 72, 6, 2, 24, 100, 300, 512, 0, true,
     1e-5f, 10000.0f, KVC_ROPE_PLAIN, 0, 0, "gpt-2", 0, 0},
    {"thin", "little to compute, for long tests: 2 layers, head size 32, GQA 2", "llama", 2, 64, 2, 1, 32, 64, 300, 512, 0,
     true, 1e-5f, 10000.0f, KVC_ROPE_PLAIN, 0, 0, "gpt-2", 0, 0},
    {"small", "rows of whole blocks for tests: 2 layers, GQA 4", "llama", 2, 256, 8, 2, 32, 512, 512, 2048, 0, false,
     1e-5f, 10000.0f, KVC_ROPE_PLAIN, 0, 0, "gpt-2", 0, 0},
    {"tiny-experts", "odd sizes for tests: 3 layers, 13 experts of width 40, 3 a token", "qwen3_moe", 3, 72, 6, 2, 24,
     40, 300, 512, 0, true, 1e-6f, 10000.0f, KVC_ROPE_PLAIN, 0, 0, "gpt-2", 13, 3},
    {"small-experts", "experts of whole blocks for tests: 2 layers, 5 experts of width 64, 2 a token", "qwen3_moe", 2, 128,
     4, 2, 32, 64, 512, 2048, 0, false, 1e-6f, 10000.0f, KVC_ROPE_PLAIN, 0, 0, "gpt-2", 5, 2},
    {"100m", "100 million parameters: 12 layers, GQA 3, tied", "llama", 12, 768, 12, 4, 64, 2048, 32000, 32768, 0, true,
     1e-5f, 500000.0f, KVC_ROPE_PLAIN, 0, 0, "gpt-2", 0, 0},
    {"llama-3.2-1b", "Llama 3.2 1B: 16 layers, GQA 4, tied", "llama", 16, 2048, 32, 8, 64, 8192, 128256, 131072, 0,
     true, 1e-5f, 500000.0f, KVC_ROPE_LLAMA3, 32, 8192, "llama-bpe", 0, 0},
    {"llama-3.2-3b", "Llama 3.2 3B: 28 layers, GQA 3, tied", "llama", 28, 3072, 24, 8, 128, 8192, 128256, 131072, 0,
     true, 1e-5f, 500000.0f, KVC_ROPE_LLAMA3, 32, 8192, "llama-bpe", 0, 0},
    {"llama-3.1-8b", "Llama 3.1 8B: 32 layers, GQA 4", "llama", 32, 4096, 32, 8, 128, 14336, 128256, 131072, 0, false,
     1e-5f, 500000.0f, KVC_ROPE_LLAMA3, 8, 8192, "llama-bpe", 0, 0},
    {"llama-2-7b", "Llama 2 7B: 32 layers, no GQA", "llama", 32, 4096, 32, 32, 128, 11008, 32000, 4096, 0, false, 1e-5f,
     10000.0f, KVC_ROPE_PLAIN, 0, 0, NULL, 0, 0},
    {"mistral-7b", "Mistral 7B v0.3: 32 layers, GQA 4", "mistral", 32, 4096, 32, 8, 128, 14336, 32768, 32768, 0, false,
     1e-5f, 1000000.0f, KVC_ROPE_PLAIN, 0, 0, NULL, 0, 0},
    {"qwen2.5-0.5b", "Qwen2.5 0.5B: 24 layers, GQA 7, biases, tied", "qwen2", 24, 896, 14, 2, 64, 4864, 151936, 32768,
     0, true, 1e-6f, 1000000.0f, KVC_ROPE_PLAIN, 0, 0, "qwen2", 0, 0},
    {"qwen2.5-7b", "Qwen2.5 7B: 28 layers, GQA 7, biases", "qwen2", 28, 3584, 28, 4, 128, 18944, 152064, 32768, 0,
     false, 1e-6f, 1000000.0f, KVC_ROPE_PLAIN, 0, 0, "qwen2", 0, 0},
    {"qwen3-0.6b", "Qwen3 0.6B: 28 layers, GQA 2, q/k norms, tied", "qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 40960,
     0, true, 1e-6f, 1000000.0f, KVC_ROPE_PLAIN, 0, 0, "qwen2", 0, 0},
    {"qwen3-8b", "Qwen3 8B: 36 layers, GQA 4, q/k norms", "qwen3", 36, 4096, 32, 8, 128, 12288, 151936, 40960, 0, false,
     1e-6f, 1000000.0f, KVC_ROPE_PLAIN, 0, 0, "qwen2", 0, 0},
    {"qwen3-30b-a3b", "Qwen3 30B-A3B: 48 layers, GQA 8, 128 experts of width 768, 8 a token", "qwen3_moe", 48, 2048, 32,
     4, 128, 768, 151936, 40960, 0, false, 1e-6f, 1000000.0f, KVC_ROPE_PLAIN, 0, 0, "qwen2", 128, 8},
    {"olmoe-1b-7b", "OLMoE 1B-7B: 16 layers, no GQA, 64 experts of width 1024, 8 a token", "olmoe", 16, 2048, 16, 16,
     128, 1024, 50304, 4096, 0, false, 1e-5f, 10000.0f, KVC_ROPE_PLAIN, 0, 0, "gpt-2", 64, 8},
    {"mixtral-8x7b", "Mixtral 8x7B: 32 layers, GQA 4, 8 experts of width 14336, 2 a token", "mixtral", 32, 4096, 32, 8,
     128, 14336, 32000, 32768, 0, false, 1e-5f, 1000000.0f, KVC_ROPE_PLAIN, 0, 0, NULL, 8, 2},
    {"phi-3.5-mini", "Phi-3.5 mini: 32 layers, no GQA, head size 96, fused projections, longrope", "phi3", 32, 3072, 32,
     32, 96, 8192, 32064, 131072, 262144, false, 1e-5f, 10000.0f, KVC_ROPE_LONGROPE, 0, 4096, NULL, 0, 0},
    {"tiny-gemma2", "odd sizes for tests: Gemma 2, 4 layers, windows of 40 in two of them, head size 24, GQA 2",
     "gemma2", 4, 48, 4, 2, 24, 76, 300, 2048, 40, true, 1e-6f, 10000.0f, KVC_ROPE_PLAIN, 0, 0, NULL, 0, 0},
    {"tiny-gemma3", "odd sizes for tests: Gemma 3, 7 layers, windows of 40 in six of them, head size 20, GQA 2",
     "gemma3_text", 7, 60, 4, 2, 20, 84, 300, 2048, 40, true, 1e-6f, 1000000.0f, KVC_ROPE_LINEAR, 8, 0, NULL, 0, 0},
    {"gemma-2-2b", "Gemma 2 2B: 26 layers, GQA 2, soft caps, windows in every other layer, tied", "gemma2", 26, 2304, 8,
     4, 256, 9216, 256000, 8192, 4096, true, 1e-6f, 10000.0f, KVC_ROPE_PLAIN, 0, 0, NULL, 0, 0},
    {"gemma-3-270m", "Gemma 3 270M: 18 layers, GQA 4, windows in five of six layers, tied", "gemma3_text", 18, 640, 4,
     1, 256, 2048, 262144, 32768, 512, true, 1e-6f, 1000000.0f, KVC_ROPE_PLAIN, 0, 0, NULL, 0, 0},
    {"gemma-3-1b", "Gemma 3 1B: 26 layers, GQA 4, windows in five of six layers, tied", "gemma3_text", 26, 1152, 4, 1,
     256, 6912, 262144, 32768, 512, true, 1e-6f, 1000000.0f, KVC_ROPE_PLAIN, 0, 0, NULL, 0, 0},
    {"gemma-3-4b", "Gemma 3 4B: 34 layers, GQA 2, windows in five of six layers, tied", "gemma3_text", 34, 2560, 8, 4,
     256, 10240, 262208, 131072, 1024, true, 1e-6f, 1000000.0f, KVC_ROPE_LINEAR, 8, 0, NULL, 0, 0},
    {"tiny-gpt-oss", "odd sizes for tests: gpt-oss, 4 layers, sinks, windows of 40 in two of them, 7 experts, 3 a token",
     "gpt_oss", 4, 60, 6, 2, 20, 44, 300, 2048, 40, false, 1e-5f, 150000.0f, KVC_ROPE_YARN, 8, 64, "gpt-4o", 7, 3},
    {"gpt-oss-20b", "gpt-oss 20B: 24 layers, GQA 8, sinks, windows in every other layer, 32 experts, 4 a token", "gpt_oss",
     24, 2880, 64, 8, 64, 2880, 201088, 131072, 128, false, 1e-5f, 150000.0f, KVC_ROPE_YARN, 32, 4096, "gpt-4o", 32, 4},
    {"gpt-oss-120b", "gpt-oss 120B: 36 layers, GQA 8, sinks, windows in every other layer, 128 experts, 4 a token",
     "gpt_oss", 36, 2880, 64, 8, 64, 2880, 201088, 131072, 128, false, 1e-5f, 150000.0f, KVC_ROPE_YARN, 32, 4096,
     "gpt-4o", 128, 4},
};
/* clang-format on */

bool kvc_shape(size_t i, const char **name, const char **summary) {
    if (i >= sizeof shapes / sizeof *shapes) {
        return false;
    }
    *name = shapes[i].name;
    *summary = shapes[i].summary;
    return true;
}

const struct kvc_shape *kvc_shape_find(const char *name) {
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (strcmp(shapes[i].name, name) == 0) {
            return &shapes[i];
        }
    }
    return NULL;
}

/* Adds longrope factors. Factors of published models were found by search and follow no formula. The added factors grow
 * in a similar way, up to 2 (short) and 64 (long). */
static enum kvc_status add_factors(struct kvc_config *config, struct kvc_error *error) {
    const uint64_t pairs = config->rope.rotary / 2;
    config->rope.short_factor = malloc((size_t)pairs * sizeof(float));
    config->rope.long_factor = malloc((size_t)pairs * sizeof(float));
    if (!config->rope.short_factor || !config->rope.long_factor) {
        return kvc_fail(error, KVC_RESOURCE, "no memory for %d rotary factors", (int)pairs);
    }
    config->rope.short_count = config->rope.long_count = pairs;
    for (uint64_t i = 0; i < pairs; i++) {
        float share = (float)i / (float)pairs;
        config->rope.short_factor[i] = 1.0f + share;
        config->rope.long_factor[i] = 1.0f + 63.0f * share * share;
    }
    return KVC_OK;
}

enum kvc_status kvc_shape_config(const struct kvc_shape *shape, struct kvc_config *config, struct kvc_error *error) {
    const struct kvc_family *family = kvc_families;
    while (family->gguf && strcmp(family->hf, shape->hf) != 0) {
        family++;
    }
    *config = (struct kvc_config){
        .family = family,
        .layers = shape->layers,
        .hidden = shape->hidden,
        .heads = shape->heads,
        .kv_heads = shape->kv_heads,
        .head_size = shape->head_size,
        .feed_forward = shape->feed_forward,
        .experts = shape->experts,
        .experts_used = shape->experts_used,
        .expert_feed = shape->experts ? shape->feed_forward : 0,
        .routing_normalized = family->normalised,
        .vocab = shape->vocab,
        .context = shape->context,
        .sliding_window = shape->window,
        .norm_eps = (double)shape->norm_eps,
        .tied = shape->tied,
        .score_cap = family->score_cap,
        .logit_cap = family->logit_cap,
        .pattern = family->pattern,
        .qkv_bias = family->qkv_bias || family->output_bias,
        .output_bias = family->output_bias,
        .fused = family->fused,
        .norms = family->norms,
        .qk_norm = kvc_qk_norm_key(family) ? KVC_QK_NONE : family->qk_norm,
        .rope = {.kind = shape->rope,
                 .local_base = family->local_base,
                 .base = (double)shape->base,
                 .rotary = shape->head_size,
                 .original_context = shape->original_context,
                 .factor = (double)shape->factor,
                 .low_factor = 1,
                 .high_factor = 4,
                 .keep_fractions = family->keep_fractions},
        .bos = -1,
        .eos = -1,
    };
    enum kvc_status status = KVC_OK;
    if (!family->gguf) {
        status = kvc_fail(error, KVC_USAGE, "shape %s: there is no family %s", shape->name, shape->hf);
    } else if (shape->rope == KVC_ROPE_LONGROPE) {
        status = add_factors(config, error);
    } else if (family->window == KVC_WINDOW_PATTERN) {
        status = kvc_config_slide(config, "shape", error);
    }
    if (status) {
        kvc_config_free(config);
    }
    return status;
}
