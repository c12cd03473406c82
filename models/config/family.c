/* family.c - the families of models: what distinguishes one from the next, as data. */
#include "models/config/config.h"

#include <stdio.h>
#include <string.h>

/* clang-format off */
const struct kvc_family kvc_families[] = {
    /* Llama 2, 3, 3.1, 3.2, LongChat, Vicuna. Mistral's GGUF files say "llama" too. */
    {.gguf = "llama", .hf = "llama", .interleaved = true, .attention_bias = true, .feed_bias = true,
     .window = KVC_WINDOW_NONE, .context = 2048, .norm_eps = 1e-6},
    {.gguf = "llama", .hf = "mistral", .interleaved = true, .window = KVC_WINDOW_ALL, .kv_heads = 8,
     .sliding_window = 4096, .context = 131072, .norm_eps = 1e-6},
    {.gguf = "llama", .hf = "mixtral", .interleaved = true, .experts = true, .block_sparse = true, .normalised = true,
     .window = KVC_WINDOW_ALL, .kv_heads = 8, .context = 131072, .norm_eps = 1e-5},
    {.gguf = "qwen2", .hf = "qwen2", .qkv_bias = true, .window = KVC_WINDOW_CHOSEN, .kv_heads = 32,
     .sliding_window = 4096, .context = 32768, .norm_eps = 1e-6},
    {.gguf = "qwen2moe", .hf = "qwen2_moe", .qkv_bias = true, .experts = true, .shared = true, .norm_topk_prob = true,
     .window = KVC_WINDOW_LISTED, .kv_heads = 16, .sliding_window = 4096, .context = 32768, .norm_eps = 1e-6},
    {.gguf = "qwen3", .hf = "qwen3", .qk_norm = true, .attention_bias = true, .window = KVC_WINDOW_CHOSEN,
     .head_size = 128, .kv_heads = 32, .sliding_window = 4096, .context = 32768, .norm_eps = 1e-6},
    {.gguf = "qwen3moe", .hf = "qwen3_moe", .qk_norm = true, .attention_bias = true, .experts = true,
     .normalised = true, .norm_topk_prob = true, .window = KVC_WINDOW_ASKED, .kv_heads = 4, .sliding_window = 4096,
     .context = 32768, .norm_eps = 1e-6},
    {.gguf = "olmoe", .hf = "olmoe", .qk_norm = true, .whole_norm = true, .attention_bias = true, .experts = true,
     .norm_topk_prob = true, .window = KVC_WINDOW_NONE, .context = 4096, .norm_eps = 1e-5},
    /* Phi-3, 3.5, 4 and 4-mini. */
    {.gguf = "phi3", .hf = "phi3", .fused = true, .su = true, .window = KVC_WINDOW_ALL, .original_context = 4096,
     .context = 4096, .norm_eps = 1e-5},
    {0},
};
/* clang-format on */

char *kvc_family_names(bool gguf, char *text, size_t capacity) {
    const char *last = NULL; /* rows of one GGUF name stand together */
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
