/* family.c - the model families: the differences between them, as data. */
#include "models/config/config.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
#define DELTA .qk_norm = KVC_QK_ALIKE, .attention_bias = true, .norm_plus_one = true, .norms = KVC_NORMS_POST,         \
    .gated_attention = true, .attention_every = 4, .features = KVC_DELTA | KVC_NO_WINDOW, .partial = 0.25,             \
    .head_size = 256, .context = 32768, .norm_eps = 1e-6
#define QWEN35 DELTA, .delta_tiled = true, .kv_heads = 4
#define GEMMA .norm_plus_one = true, .attention_bias = true, .scaled_embedding = true, .tied = true,                    \
    .norms = KVC_NORMS_AROUND, .activation = KVC_GELU, .query_scalar = 256, .norm_eps = 1e-6
#define GEMMA3 GEMMA, .qk_norm = KVC_QK_ALIKE, .window = KVC_WINDOW_PATTERN, .pattern = 6, .wide_layers = 62,          \
    .sliding_window = 4096, .heads = 8, .kv_heads = 4, .head_size = 256, .vocab = 262208, .context = 131072,           \
    .features = KVC_SOFT_CAPS | KVC_SCORE_SCALE | KVC_LOCAL_ROPE, .base = 1e6, .local_base = 10000

const struct kvc_family kvc_families[] = {
    {.gguf = "llama", .hf = "llama", .models = "Llama 2, 3, 3.1, 3.2, LongChat",
     .apart = "linear and llama3 scaling, optional biases, interleaved rotary pairs in GGUF",
     .interleaved = true, .attention_bias = true, .feed_bias = true,
     .window = KVC_WINDOW_NONE, .context = 2048, .norm_eps = 1e-6},
    {.gguf = "llama", .hf = "mistral", .models = "Mistral v0.1 to v0.3, Nemo",
     .apart = "sliding window, head size other than hidden / heads",
     .interleaved = true, .window = KVC_WINDOW_ALL, .kv_heads = 8,
     .sliding_window = 4096, .context = 131072, .norm_eps = 1e-6},
    {.gguf = "llama", .hf = "mixtral", .models = "Mixtral",
     .apart = "experts (`expert_count` in GGUF); otherwise as Mistral",
     .interleaved = true, .experts = true, .block_sparse = true, .normalised = true,
     .window = KVC_WINDOW_ALL, .kv_heads = 8, .context = 131072, .norm_eps = 1e-5},
    {.gguf = "qwen2", .hf = "qwen2", .models = "Qwen2, Qwen2.5",
     .apart = "biases of q, k, v; yarn; a sliding window in some layers",
     .qkv_bias = true, .window = KVC_WINDOW_CHOSEN, .kv_heads = 32,
     .sliding_window = 4096, .context = 32768, .norm_eps = 1e-6},
    {.gguf = "qwen2moe", .hf = "qwen2_moe", .models = "Qwen1.5-MoE, Qwen2-MoE",
     .apart = "experts, and a shared expert with its own weight; biases of q, k, v; optional layers without experts",
     .qkv_bias = true, .qkv_bias_key = "qkv_bias", .experts = true, .shared = true, .norm_topk_prob = true,
     .features = KVC_DENSE_LAYERS,
     .window = KVC_WINDOW_LISTED, .kv_heads = 16, .sliding_window = 4096, .context = 32768, .norm_eps = 1e-6},
    {.gguf = "qwen3", .hf = "qwen3", .models = "Qwen3",
     .apart = "norms of q and k, explicit head size",
     .qk_norm = KVC_QK_ALIKE, .attention_bias = true, .window = KVC_WINDOW_CHOSEN,
     .head_size = 128, .kv_heads = 32, .sliding_window = 4096, .context = 32768, .norm_eps = 1e-6},
    {.gguf = "qwen3moe", .hf = "qwen3_moe", .models = "Qwen3-MoE (30B-A3B, 235B-A22B)",
     .apart = "experts in all or some layers; otherwise as Qwen3; a sliding window in all layers or none",
     .qk_norm = KVC_QK_ALIKE, .attention_bias = true, .experts = true,
     .normalised = true, .norm_topk_prob = true, .features = KVC_DENSE_LAYERS, .window = KVC_WINDOW_ASKED,
     .kv_heads = 4, .sliding_window = 4096, .context = 32768, .norm_eps = 1e-6},
    {.gguf = "qwen35", .hf = "qwen3_5_text", .models = "Qwen3.5, dense",
     .apart = "gated delta nets, with a recurrent state instead of a cache, in three layers of four; gated attention",
     QWEN35},
    {.gguf = "qwen35", .hf = "qwen3_5", .nested = true, QWEN35},
    {.gguf = "qwen3next", .hf = "qwen3_next", .models = "Qwen3-Next (80B-A3B)",
     .apart = "as Qwen3.5, with experts and a shared expert",
     DELTA, .delta_grouped = true, .experts = true, .shared = true, .normalised = true, .norm_topk_prob = true,
     .kv_heads = 2},
    {.gguf = "olmoe", .hf = "olmoe", .models = "OLMoE",
     .apart = "experts whose routing weights are not normalized to 1; norms over all query heads and over all key "
              "heads",
     .qk_norm = KVC_QK_WHOLE, .attention_bias = true, .experts = true,
     .norm_topk_prob = true, .window = KVC_WINDOW_NONE, .context = 4096, .norm_eps = 1e-5},
    {.gguf = "gpt-oss", .hf = "gpt_oss", .models = "gpt-oss (20B, 120B)",
     .apart = "attention sinks; experts with biases and a clamped gate, mostly in MXFP4; biases of q, k, v and o; a "
              "sliding window in every other layer; yarn with an unrounded ramp",
     .norms = KVC_NORMS_POST, .activation = KVC_CLAMPED_SILU, .sinks = true,
     .clamps = true, .attention_bias = true, .output_bias = true, .experts = true, .stacked = true, .normalised = true,
     .window = KVC_WINDOW_PATTERN, .pattern = 2, .keep_fractions = true, .sliding_window = 128, .head_size = 64,
     .heads = 64, .kv_heads = 8, .vocab = 201088, .base = 150000, .context = 131072, .norm_eps = 1e-5},
    {.gguf = "phi3", .hf = "phi3", .models = "Phi-3, 3.5, 4, 4-mini",
     .apart = "fused q, k, v and gate, up; longrope; partial rotary; sliding window",
     .fused = true, .su = true, .window = KVC_WINDOW_ALL, .original_context = 4096,
     .context = 4096, .norm_eps = 1e-5},
    {.gguf = "gemma2", .hf = "gemma2", .models = "Gemma 2",
     .apart = "gelu, norms around attention and feed-forward, scaled embeddings, soft caps, query scale, a sliding "
              "window in every other layer",
     GEMMA, .window = KVC_WINDOW_PATTERN, .pattern = 2, .wide_layers = 46,
     .sliding_window = 4096, .heads = 8, .kv_heads = 4, .head_size = 256, .vocab = 256000, .context = 8192,
     .features = KVC_SOFT_CAPS | KVC_SCORE_SCALE, .score_cap = 50, .logit_cap = 30},
    {.gguf = "gemma3", .hf = "gemma3_text", .models = "Gemma 3, text",
     .apart = "as Gemma 2, without soft caps; norms of q and k; five of six layers have a sliding window and a "
              "separate rope",
     GEMMA3},
    {.gguf = "gemma3", .hf = "gemma3", .nested = true, GEMMA3},
    {.gguf = "smollm3", .hf = "smollm3", .models = "SmolLM3",
     .apart = "no rotation in every fourth layer (rope frequencies 0)",
     .interleaved = true, .attention_bias = true, .feed_bias = true, .tied = true,
     .features = KVC_UNROTATED | KVC_NO_WINDOW, .unrotated = 4, .kv_heads = 4, .base = 2e6, .context = 32768,
     .norm_eps = 1e-6},
    {.gguf = "olmo2", .hf = "olmo2", .models = "OLMo 2",
     .apart = "norms of the outputs of attention and feed-forward only; norms of q and k over all heads",
     .norms = KVC_NORMS_AFTER, .qk_norm = KVC_QK_WHOLE,
     .attention_bias = true, .features = KVC_NO_WINDOW, .context = 2048, .norm_eps = 1e-5},
    {.gguf = "olmo2", .hf = "olmo3", .models = "OLMo 3",
     .apart = "as OLMo 2; a sliding window in three layers of four, whose rope is not scaled",
     .norms = KVC_NORMS_AFTER, .qk_norm = KVC_QK_WHOLE, .attention_bias = true,
     .window = KVC_WINDOW_PATTERN, .pattern = 4, .sliding_window = 4096, .features = KVC_LOCAL_ROPE,
     .local_unscaled = true, .base = 5e5, .context = 2048, .norm_eps = 1e-5},
    {.gguf = "granite", .hf = "granite", .models = "Granite 3",
     .apart = "multipliers of embeddings, scores, residuals and logits",
     .interleaved = true, .attention_bias = true, .feed_bias = true,
     .features = KVC_MULTIPLIERS | KVC_NO_WINDOW, .context = 2048, .norm_eps = 1e-6},
    {.gguf = "glm4", .hf = "glm4", .models = "GLM-4, dense",
     .apart = "interleaved rotary pairs in both formats, partial rotary, norms before and after each block, fused "
              "gate and up",
     .pairs = true, .fused_feed = true, .norms = KVC_NORMS_GLM, .qkv_bias = true,
     .qkv_bias_key = "attention_bias", .features = KVC_NO_WINDOW, .kv_heads = 2, .head_size = 128, .partial = 0.5,
     .context = 131072, .norm_eps = 1.5625e-7},
    {.gguf = "command-r", .hf = "cohere", .models = "Command-R, Command-R+",
     .apart = "parallel attention and feed-forward, centred norms, norms of q and k with weights for each head, logit"
              " scale, interleaved rotary pairs",
     .pairs = true, .norms = KVC_NORMS_ONE, .qk_norm = KVC_QK_EACH, .attention_bias = true, .tied = true,
     .features = KVC_LAYER_NORM | KVC_LOGIT_SCALE | KVC_NO_WINDOW, .logit_scale = 0.0625, .base = 5e5, .context = 8192,
     .norm_eps = 1e-5},
    {.gguf = "phi2", .hf = "phi", .models = "Phi-2",
     .apart = "parallel attention and feed-forward, centred norms with biases, optionally of q and k too; no gate, "
              "biases everywhere; q, k, v in one tensor or three",
     .may_fuse = true, .qk_norm = KVC_QK_BIASED,
     .ungated = true, .norms = KVC_NORMS_ONE, .norm_bias = true, .head_bias = true,
     .qkv_bias = true, .activation = KVC_GELU, .features = KVC_LAYER_NORM | KVC_NO_WINDOW, .partial = 0.5,
     .context = 2048, .norm_eps = 1e-5},
    {.gguf = "stablelm", .hf = "stablelm", .models = "StableLM 2",
     .apart = "centred norms with biases, partial rotary; in the 12B model parallel attention and feed-forward, and "
              "norms of q and k with weights for each head",
     .norm_bias = true, .qk_norm = KVC_QK_SPLIT, .qkv_bias_key = "use_qkv_bias",
     .features = KVC_LAYER_NORM | KVC_NO_WINDOW | KVC_SIDE_BY_SIDE, .kv_heads = 32, .partial = 0.25, .context = 4096,
     .norm_eps = 1e-5},
    {0},
};
/* clang-format on */

bool kvc_model_family(size_t i, struct kvc_model_family *family) {
    const struct kvc_family *row = kvc_families;
    while (i > 0 && row->gguf) {
        row++;
        i--;
    }
    if (!row->gguf)
        return false;
    *family = (struct kvc_model_family){row->models, row->gguf, row->hf, row->apart};
    return true;
}

char *kvc_family_names(bool gguf, char *text, size_t capacity) {
    const char *last = NULL; /* rows with the same GGUF name are adjacent */
    text[0] = 0;
    for (const struct kvc_family *family = kvc_families; family->gguf; family++) {
        const char *name = gguf ? family->gguf : family->hf;
        if (!last || strcmp(name, last) != 0) {
            const struct kvc_family *next = family + 1;
            while (next->gguf && !strcmp(gguf ? next->gguf : next->hf, name))
                next++;
            const size_t used = strlen(text);
            snprintf(text + used, capacity - used, "%s%s", !last ? "" : next->gguf ? ", " : " and ", name);
        }
        last = name;
    }
    return text;
}
