/* family.c - the families of models: what distinguishes one from the next, as data. */
#include "models/config.h"

/* clang-format off */
const struct kvc_family kvc_families[] = {
    /* Llama 2, 3, 3.1, 3.2, LongChat, Vicuna. Mistral's GGUF files say "llama" too. */
    {.gguf = "llama", .hf = "llama", .interleaved = true, .attention_bias = true, .feed_bias = true,
     .window = KVC_WINDOW_NONE, .context = 2048, .norm_eps = 1e-6},
    {.gguf = "llama", .hf = "mistral", .interleaved = true, .window = KVC_WINDOW_ALL, .kv_heads = 8,
     .sliding_window = 4096, .context = 131072, .norm_eps = 1e-6},
    {.gguf = "qwen2", .hf = "qwen2", .qkv_bias = true, .window = KVC_WINDOW_CHOSEN, .kv_heads = 32,
     .sliding_window = 4096, .context = 32768, .norm_eps = 1e-6},
    {.gguf = "qwen3", .hf = "qwen3", .qk_norm = true, .attention_bias = true, .window = KVC_WINDOW_CHOSEN,
     .head_size = 128, .kv_heads = 32, .sliding_window = 4096, .context = 32768, .norm_eps = 1e-6},
    /* Phi-3, 3.5, 4 and 4-mini. */
    {.gguf = "phi3", .hf = "phi3", .fused = true, .su = true, .window = KVC_WINDOW_ALL, .original_context = 4096,
     .context = 4096, .norm_eps = 1e-5},
    {0},
};
/* clang-format on */
