"""The families of tests/data/golden, for make_golden.py: config.json as published models write it, with small, unusual
sizes."""

LLAMA = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_act="silu", rms_norm_eps=1e-5,
             bos_token_id=1, eos_token_id=2, attention_bias=False, mlp_bias=False, rope_theta=10000.0,
             rope_scaling=None, tie_word_embeddings=False, torch_dtype="bfloat16")
MISTRAL = dict(architectures=["MistralForCausalLM"], model_type="mistral", hidden_act="silu", rms_norm_eps=1e-5,
               bos_token_id=1, eos_token_id=2, rope_theta=1000000.0, sliding_window=None, tie_word_embeddings=False)
QWEN2 = dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_act="silu", rms_norm_eps=1e-6,
             bos_token_id=1, eos_token_id=2, rope_theta=1000000.0, use_sliding_window=False, sliding_window=32768,
             max_window_layers=28, tie_word_embeddings=False)
QWEN3 = dict(architectures=["Qwen3ForCausalLM"], model_type="qwen3", hidden_act="silu", rms_norm_eps=1e-6,
             bos_token_id=1, eos_token_id=[2, 3], rope_theta=1000000, rope_scaling=None, use_sliding_window=False,
             sliding_window=None, max_window_layers=28, attention_bias=False, tie_word_embeddings=True)
QWEN3_MOE = dict(architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", hidden_act="silu", rms_norm_eps=1e-6,
                 bos_token_id=1, eos_token_id=2, rope_theta=1000000.0, rope_scaling=None, use_sliding_window=False,
                 sliding_window=None, max_window_layers=28, attention_bias=False, decoder_sparse_step=1,
                 mlp_only_layers=[], norm_topk_prob=True, output_router_logits=False, router_aux_loss_coef=0.001,
                 tie_word_embeddings=False)
QWEN2_MOE = dict(architectures=["Qwen2MoeForCausalLM"], model_type="qwen2_moe", hidden_act="silu", rms_norm_eps=1e-6,
                 bos_token_id=1, eos_token_id=2, rope_theta=1000000.0, use_sliding_window=False, sliding_window=32768,
                 max_window_layers=21, decoder_sparse_step=1, norm_topk_prob=False, output_router_logits=False,
                 router_aux_loss_coef=0.001, tie_word_embeddings=False)
OLMOE = dict(architectures=["OlmoeForCausalLM"], model_type="olmoe", hidden_act="silu", rms_norm_eps=1e-5,
             eos_token_id=2, rope_theta=10000.0, rope_scaling=None, attention_bias=False, clip_qkv=None,
             norm_topk_prob=False, output_router_logits=False, tie_word_embeddings=False)
MIXTRAL = dict(architectures=["MixtralForCausalLM"], model_type="mixtral", hidden_act="silu", rms_norm_eps=1e-5,
               bos_token_id=1, eos_token_id=2, rope_theta=1000000.0, sliding_window=None, output_router_logits=False,
               router_aux_loss_coef=0.02, tie_word_embeddings=False)
QWEN35 = dict(architectures=["Qwen3_5ForCausalLM"], model_type="qwen3_5_text", hidden_act="silu", rms_norm_eps=1e-6,
              bos_token_id=1, eos_token_id=2, rope_theta=10000000.0, partial_rotary_factor=0.25, attention_bias=False,
              attn_output_gate=True, linear_conv_kernel_dim=4, tie_word_embeddings=False)
QWEN3_NEXT = dict(QWEN35, architectures=["Qwen3NextForCausalLM"], model_type="qwen3_next", decoder_sparse_step=1,
                  mlp_only_layers=[], norm_topk_prob=True, output_router_logits=False, router_aux_loss_coef=0.001)
PHI3 = dict(architectures=["Phi3ForCausalLM"], model_type="phi3", hidden_act="silu", rms_norm_eps=1e-5, bos_token_id=1,
            eos_token_id=2, rope_theta=10000.0, rope_scaling=None, sliding_window=None, tie_word_embeddings=False,
            pad_token_id=None, attention_bias=False)

GEMMA2 = dict(architectures=["Gemma2ForCausalLM"], model_type="gemma2", hidden_act="gelu_pytorch_tanh",
              hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6, bos_token_id=2, eos_token_id=1,
              rope_theta=10000.0, attention_bias=False)
GEMMA3 = dict(architectures=["Gemma3ForCausalLM"], model_type="gemma3_text", hidden_activation="gelu_pytorch_tanh",
              rms_norm_eps=1e-6, bos_token_id=2, eos_token_id=[1, 106], rope_theta=1000000, rope_local_base_freq=10000,
              rope_scaling=None, attention_bias=False, attn_logit_softcapping=None, final_logit_softcapping=None)

SMOLLM3 = dict(architectures=["SmolLM3ForCausalLM"], model_type="smollm3", hidden_act="silu", rms_norm_eps=1e-6,
               bos_token_id=1, eos_token_id=2, pad_token_id=3, rope_theta=5000000.0, rope_scaling=None,
               use_sliding_window=False, sliding_window=None, max_window_layers=28, attention_bias=False,
               mlp_bias=False, no_rope_layer_interval=4)
OLMO2 = dict(architectures=["Olmo2ForCausalLM"], model_type="olmo2", hidden_act="silu", rms_norm_eps=1e-6,
             bos_token_id=1, eos_token_id=2, pad_token_id=3, rope_theta=500000, rope_scaling=None,
             attention_bias=False, tie_word_embeddings=False)
OLMO3 = dict(architectures=["Olmo3ForCausalLM"], model_type="olmo3", hidden_act="silu", rms_norm_eps=1e-6,
             bos_token_id=1, eos_token_id=2, pad_token_id=3, rope_theta=500000.0, attention_bias=False,
             tie_word_embeddings=False)
GRANITE = dict(architectures=["GraniteForCausalLM"], model_type="granite", hidden_act="silu", rms_norm_eps=1e-5,
               bos_token_id=1, eos_token_id=2, pad_token_id=3, rope_theta=10000.0, rope_scaling=None,
               attention_bias=False, mlp_bias=False, tie_word_embeddings=True)
GLM4 = dict(architectures=["Glm4ForCausalLM"], model_type="glm4", hidden_act="silu", rms_norm_eps=1e-5, bos_token_id=1,
            eos_token_id=[2, 3], pad_token_id=3, rope_theta=10000.0, partial_rotary_factor=0.5, attention_bias=True,
            tie_word_embeddings=False)
COHERE = dict(architectures=["CohereForCausalLM"], model_type="cohere", hidden_act="silu", layer_norm_eps=1e-5,
              bos_token_id=1, eos_token_id=2, pad_token_id=0, rope_theta=75000.0, attention_bias=False,
              use_qk_norm=False)
PHI = dict(architectures=["PhiForCausalLM"], model_type="phi", hidden_act="gelu_new", layer_norm_eps=1e-5,
           bos_token_id=1, eos_token_id=2, rope_theta=10000.0, partial_rotary_factor=0.4, qk_layernorm=False,
           tie_word_embeddings=False)
GPT_OSS = dict(architectures=["GptOssForCausalLM"], model_type="gpt_oss", hidden_act="silu", rms_norm_eps=1e-5,
               eos_token_id=2, pad_token_id=3, attention_bias=True, swiglu_limit=7.0, output_router_logits=False,
               router_aux_loss_coef=0.9, rope_theta=150000, tie_word_embeddings=False)
STABLELM = dict(architectures=["StableLmForCausalLM"], model_type="stablelm", hidden_act="silu", layer_norm_eps=1e-5,
                bos_token_id=1, eos_token_id=2, rope_theta=10000, partial_rotary_factor=0.25, use_qkv_bias=True,
                qk_layernorm=False, use_parallel_residual=False, tie_word_embeddings=False)


def sizes(hidden, feed, layers, heads, kv_heads, vocab, context, **more):
    return dict(hidden_size=hidden, intermediate_size=feed, num_hidden_layers=layers, num_attention_heads=heads,
                num_key_value_heads=kv_heads, vocab_size=vocab, max_position_embeddings=context, **more)


def longrope(pairs, **more):
    short = [round(1 + 0.07 * i, 3) for i in range(pairs)]
    long = [round(1.1 + 0.9 * i * i / pairs, 3) for i in range(pairs)]
    return dict(type="longrope", short_factor=short, long_factor=long, **more)


# name: (config, type of the matrices, {case: tokens}, written with transformers' newer keys)
FAMILIES = {
    # Llama 2: one key-value head for each query head, three layers.
    "llama2": (dict(LLAMA, **sizes(24, 34, 3, 4, 4, 61, 64)), "f32", {"short": 40}, False),
    # Llama 3.1 and 3.2: llama3 scaling, tied, heads larger than hidden / heads.
    "llama3": (dict(LLAMA, **sizes(28, 42, 2, 4, 2, 57, 256, head_dim=24, tie_word_embeddings=True,
                                   rope_theta=500000.0,
                                   rope_scaling=dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                     original_max_position_embeddings=32, rope_type="llama3"))),
               "bf16", {"beyond": 90}, False),
    # LongChat: linear scaling; every bias that the family can have.
    "llama-linear": (dict(LLAMA, **sizes(30, 38, 2, 5, 1, 51, 128, attention_bias=True, mlp_bias=True,
                                         rope_scaling=dict(factor=8.0, type="linear"))), "f16", {"short": 48}, False),
    # Mistral v0.1 with a window, v0.2 and v0.3 without; head_dim as in Nemo.
    "mistral-window": (dict(MISTRAL, **sizes(24, 36, 3, 4, 1, 39, 128, head_dim=12, sliding_window=7)), "bf16",
                       {"short": 40}, False),
    "mistral": (dict(MISTRAL, **sizes(36, 30, 2, 6, 2, 43, 128)), "bf16", {"short": 33}, True),
    # Qwen2: biases of q, k, v. Qwen2.5 with yarn, beyond its original context.
    "qwen2": (dict(QWEN2, **sizes(28, 38, 4, 7, 1, 45, 128, tie_word_embeddings=True)), "bf16", {"short": 40}, False),
    "qwen2-yarn": (dict(QWEN2, **sizes(40, 36, 2, 4, 2, 57, 32,
                                       rope_scaling=dict(factor=4.0, original_max_position_embeddings=32,
                                                         type="yarn"))), "f16", {"beyond": 100}, False),
    "qwen2-window": (dict(QWEN2, **sizes(32, 40, 3, 4, 2, 47, 128, use_sliding_window=True, sliding_window=5,
                                         max_window_layers=1)), "bf16", {"short": 37}, False),
    # Qwen3: norms of q and k, head_dim, several end-of-turn tokens; one with yarn and all its options.
    "qwen3": (dict(QWEN3, **sizes(28, 40, 3, 4, 2, 53, 128, head_dim=20)), "bf16", {"short": 40}, False),
    "qwen3-yarn": (dict(QWEN3, **sizes(36, 48, 2, 6, 3, 51, 64, head_dim=16, attention_bias=True, rope_theta=10000,
                                       rope_scaling=dict(rope_type="yarn", factor=2.5, beta_fast=4.0, beta_slow=0.5,
                                                         attention_factor=1.3, original_max_position_embeddings=40))),
                   "bf16", {"beyond": 96}, True),
    # Qwen3-30B-A3B: experts with their own width, routing weights that sum to 1; one with other weights and a window.
    "qwen3-moe": (dict(QWEN3_MOE, **sizes(28, 56, 3, 4, 2, 53, 128, head_dim=20, moe_intermediate_size=12,
                                          num_experts=11, num_experts_per_tok=3)), "bf16", {"short": 40}, False),
    "qwen3-moe-window": (dict(QWEN3_MOE, **sizes(32, 40, 2, 4, 2, 47, 128, head_dim=16, moe_intermediate_size=20,
                                                 num_experts=5, num_experts_per_tok=1, norm_topk_prob=False,
                                                 use_sliding_window=True, sliding_window=9,
                                                 tie_word_embeddings=True)), "f16", {"short": 36}, False),
    # Qwen1.5-MoE and Qwen2-57B-A14B: a shared expert with its own gate; biases of q, k, v.
    "qwen2-moe": (dict(QWEN2_MOE, **sizes(36, 44, 3, 6, 3, 46, 128, moe_intermediate_size=10, num_experts=7,
                                          num_experts_per_tok=2, shared_expert_intermediate_size=26)), "bf16",
                  {"short": 40}, False),
    # Layers with and without experts: by a list, and by a list and a step.
    "qwen3-moe-dense": (dict(QWEN3_MOE, **sizes(28, 44, 4, 4, 2, 51, 128, head_dim=16, moe_intermediate_size=14,
                                                num_experts=6, num_experts_per_tok=2, mlp_only_layers=[0, 2])), "bf16",
                        {"short": 36}, False),
    "qwen2-moe-dense": (dict(QWEN2_MOE, **sizes(24, 38, 5, 4, 2, 73, 128, moe_intermediate_size=12, num_experts=5,
                                                num_experts_per_tok=2, shared_expert_intermediate_size=18,
                                                decoder_sparse_step=2, mlp_only_layers=[3])), "f16", {"short": 33},
                        False),
    # Qwen3.5: gated delta nets, three value heads for each key head; gated attention in every second layer.
    "qwen35": (dict(QWEN35, **sizes(28, 38, 6, 4, 2, 53, 128, head_dim=16, full_attention_interval=2,
                                    linear_num_key_heads=2, linear_num_value_heads=6, linear_key_head_dim=10,
                                    linear_value_head_dim=8)), "bf16", {"long": 90}, False),
    # Qwen3-Next: the same with experts and a shared expert; the delta nets' projections are grouped by key head.
    "qwen3-next": (dict(QWEN3_NEXT, **sizes(32, 44, 3, 4, 1, 47, 128, head_dim=24, full_attention_interval=3,
                                            linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=12,
                                            linear_value_head_dim=16, moe_intermediate_size=10, num_experts=7,
                                            num_experts_per_tok=3, shared_expert_intermediate_size=14)), "bf16",
                   {"long": 70}, False),
    # OLMoE: norms over all query heads and over all key heads; routing weights straight from the softmax.
    "olmoe": (dict(OLMOE, **sizes(40, 14, 3, 4, 4, 51, 128, num_experts=9, num_experts_per_tok=4)), "bf16",
              {"short": 40}, False),
    "olmoe-gqa": (dict(OLMOE, **sizes(32, 18, 2, 4, 2, 45, 128, num_experts=6, num_experts_per_tok=2,
                                      norm_topk_prob=True)), "f32", {"short": 33}, True),
    # Mixtral: w1, w2 and w3, interleaved rotary pairs in GGUF.
    "mixtral": (dict(MIXTRAL, **sizes(24, 34, 3, 4, 2, 49, 128, num_local_experts=8, num_experts_per_tok=2)), "bf16",
                {"short": 40}, False),
    # gpt-oss: a sink in every head, MXFP4 experts with biases and a clamped gate, a window in every other layer, yarn
    # with an unrounded ramp. As the published models, and as transformers writes a model with plain weights.
    "gpt-oss": (dict(GPT_OSS, **sizes(32, 64, 4, 6, 2, 51, 256, head_dim=20, sliding_window=9, num_local_experts=5,
                                      num_experts_per_tok=2, initial_context_length=16, experts_per_token=2,
                                      layer_types=["sliding_attention", "full_attention"] * 2,
                                      quantization_config=dict(quant_method="mxfp4", modules_to_not_convert=[]),
                                      rope_scaling=dict(rope_type="yarn", factor=32.0, beta_fast=3.0, beta_slow=0.5,
                                                        truncate=False, original_max_position_embeddings=16))),
                "bf16", {"beyond": 60}, False),
    "gpt-oss-plain": (dict(GPT_OSS, **sizes(28, 18, 3, 4, 4, 47, 128, head_dim=14, sliding_window=7,
                                            num_local_experts=9, num_experts_per_tok=4, attention_bias=False,
                                            layer_types=["full_attention", "sliding_attention", "sliding_attention"],
                                            rope_scaling=dict(rope_type="yarn", factor=4.0, beta_fast=8.0,
                                                              beta_slow=0.25, truncate=False,
                                                              original_max_position_embeddings=64))),
                      "f32", {"short": 44}, True),
    # Phi-3-mini-4k: fused projections and a window. Phi-3.5 and Phi-4-mini: longrope, partial rotary, tied.
    "phi3": (dict(PHI3, **sizes(32, 36, 3, 4, 4, 55, 128, original_max_position_embeddings=128, sliding_window=11)),
             "bf16", {"short": 40}, False),
    "phi3-longrope": (dict(PHI3, **sizes(48, 28, 2, 4, 2, 49, 256, original_max_position_embeddings=32,
                                         rope_scaling=longrope(6))), "f16", {"short": 32, "beyond": 33, "long": 80},
                      False),
    "phi4-mini": (dict(PHI3, **sizes(64, 30, 2, 4, 1, 57, 320, original_max_position_embeddings=40,
                                     partial_rotary_factor=0.75, tie_word_embeddings=True, sliding_window=25,
                                     rope_scaling=longrope(6))), "bf16", {"short": 30, "long": 70}, False),
    # Gemma 2: both soft caps, its own query scale, a window in every other layer. The caps are low enough to matter.
    "gemma2": (dict(GEMMA2, **sizes(24, 42, 4, 4, 2, 53, 128, head_dim=16, sliding_window=9, query_pre_attn_scalar=6,
                                    attn_logit_softcapping=4.0, final_logit_softcapping=3.0)),
               "bf16", {"short": 40}, False),
    # Gemma 3: q/k norms, two bases, linear scaling of the global layers only, one global layer among seven.
    "gemma3": (dict(GEMMA3, **sizes(36, 30, 7, 6, 2, 49, 256, head_dim=12, sliding_window=8, query_pre_attn_scalar=12,
                                    rope_scaling=dict(factor=8.0, rope_type="linear"))), "bf16", {"short": 48}, False),
    # The same family as current transformers writes it: without scaling, with other global layers.
    "gemma3-new": (dict(GEMMA3, **sizes(20, 34, 4, 2, 1, 45, 128, head_dim=18, sliding_window=5,
                                        query_pre_attn_scalar=18,
                                        layer_types=["full_attention", "sliding_attention", "sliding_attention",
                                                     "full_attention"])), "f32", {"short": 33}, True),
    # A model that also reads images: the language model's keys and tensors have longer names.
    "gemma3-images": (dict(GEMMA3, **sizes(20, 26, 6, 2, 1, 39, 128, head_dim=10, sliding_window=6,
                                           query_pre_attn_scalar=10)), "bf16", {"short": 30}, False),
    # SmolLM3: every fourth layer has no rotary embedding.
    "smollm3": (dict(SMOLLM3, **sizes(24, 38, 5, 4, 2, 51, 128, tie_word_embeddings=True)), "bf16", {"short": 40}, False),
    # OLMo 2: norms of outputs only, norms of q and k over all heads.
    "olmo2": (dict(OLMO2, **sizes(32, 36, 3, 4, 2, 53, 128)), "bf16", {"short": 40}, False),
    # OLMo 3: like OLMo 2, with a window in three of four layers, and yarn in the others.
    "olmo3": (dict(OLMO3, **sizes(32, 36, 5, 4, 2, 53, 160, sliding_window=9,
                                  layer_types=["sliding_attention"] * 3 + ["full_attention", "sliding_attention"],
                                  rope_scaling=dict(rope_type="yarn", factor=8.0, attention_factor=1.2079441541679836,
                                                    original_max_position_embeddings=20))), "bf16", {"beyond": 60},
              False),
    # Granite 3: four multipliers.
    "granite": (dict(GRANITE, **sizes(24, 40, 3, 4, 2, 47, 128, embedding_multiplier=12.0, residual_multiplier=0.22,
                                      attention_multiplier=0.3, logits_scaling=8.0)), "bf16", {"short": 40}, False),
    # GLM-4: half of the channels rotate, in adjacent pairs; norms before and after; q, k, v biases; fused gate and up.
    "glm4": (dict(GLM4, **sizes(28, 34, 3, 4, 2, 49, 128, head_dim=12)), "bf16", {"short": 40}, False),
    # Command-R: parallel attention and feed-forward network, norms that subtract the mean, a logit scale.
    "cohere": (dict(COHERE, **sizes(24, 44, 3, 4, 2, 57, 128, logit_scale=0.0625)), "f16", {"short": 40}, False),
    # Command-R+: norms of q and k, with weights for each head.
    "cohere-plus": (dict(COHERE, **sizes(24, 44, 3, 4, 2, 75, 128, logit_scale=0.0625, use_qk_norm=True)), "bf16",
                    {"short": 36}, False),
    # Phi-2: also parallel, biases everywhere, no gate.
    "phi2": (dict(PHI, **sizes(40, 58, 3, 4, 4, 51, 128)), "f16", {"short": 40}, False),
    # The same with fused q, k and v in the GGUF file, as in older files.
    "phi2-fused": (dict(PHI, **sizes(40, 58, 2, 4, 4, 51, 128)), "bf16", {"short": 24}, False),
    # Also with norms of q and k, with a bias.
    "phi2-norms": (dict(PHI, **sizes(36, 46, 2, 3, 3, 47, 128, qk_layernorm=True, partial_rotary_factor=0.5)), "f16",
                   {"short": 30}, False),
    # StableLM 2.
    "stablelm": (dict(STABLELM, **sizes(32, 42, 3, 4, 2, 47, 128)), "bf16", {"short": 40}, False),
    # The same with parallel attention and feed-forward network.
    "stablelm-parallel": (dict(STABLELM, **sizes(24, 34, 2, 3, 1, 45, 128, use_parallel_residual=True)), "bf16",
                          {"short": 24}, False),
    # StableLM 2 12B: norms of q and k, with one tensor for each head.
    "stablelm-norms": (dict(STABLELM, **sizes(48, 42, 3, 6, 2, 51, 128, qk_layernorm=True, use_parallel_residual=True,
                                              use_qkv_bias=False)), "bf16", {"short": 36}, False),
}

# ---- rotary frequencies of real geometries

ROPES = {
    "llama2-7b": dict(LLAMA, **sizes(4096, 11008, 32, 32, 32, 32000, 4096)),
    "llama3.1-8b": dict(LLAMA, **sizes(4096, 14336, 32, 32, 8, 128256, 131072, rope_theta=500000.0,
                                       rope_scaling=dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                         original_max_position_embeddings=8192, rope_type="llama3"))),
    "llama3.2-1b": dict(LLAMA, **sizes(2048, 8192, 16, 32, 8, 128256, 131072, rope_theta=500000.0,
                                       tie_word_embeddings=True, head_dim=64,
                                       rope_scaling=dict(factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                         original_max_position_embeddings=8192, rope_type="llama3"))),
    "llama3-odd": dict(LLAMA, **sizes(4096, 14336, 32, 32, 8, 128256, 131072, rope_theta=50000.0,
                                      rope_scaling=dict(factor=6.5, low_freq_factor=1.5, high_freq_factor=3.7,
                                                        original_max_position_embeddings=6000, rope_type="llama3"))),
    "longchat-7b": dict(LLAMA, **sizes(4096, 11008, 32, 32, 32, 32000, 32768,
                                       rope_scaling=dict(factor=8.0, type="linear"))),
    "mistral-7b-v0.3": dict(MISTRAL, **sizes(4096, 14336, 32, 32, 8, 32768, 32768)),
    "qwen2.5-7b-yarn": dict(QWEN2, **sizes(3584, 18944, 28, 28, 4, 152064, 32768,
                                           rope_scaling=dict(factor=4.0, original_max_position_embeddings=32768,
                                                             type="yarn"))),
    "qwen3-8b-yarn": dict(QWEN3, **sizes(4096, 12288, 36, 32, 8, 151936, 40960, head_dim=128,
                                         rope_scaling=dict(rope_type="yarn", factor=4.0,
                                                           original_max_position_embeddings=32768))),
    "yarn-options": dict(LLAMA, **sizes(4096, 12288, 36, 32, 8, 151936, 65536,
                                        rope_scaling=dict(rope_type="yarn", factor=16.0, truncate=False, mscale=1.0,
                                                          mscale_all_dim=0.7, beta_fast=24, beta_slow=2,
                                                          original_max_position_embeddings=4096))),
    "phi-4-mini": dict(PHI3, **sizes(3072, 8192, 32, 24, 8, 200064, 131072, partial_rotary_factor=0.75,
                                     original_max_position_embeddings=4096, rope_scaling=longrope(48))),
    "gemma-3-4b": dict(GEMMA3, **sizes(2560, 10240, 34, 8, 4, 262208, 131072, head_dim=256, sliding_window=1024,
                                       query_pre_attn_scalar=256, rope_scaling=dict(factor=8.0, rope_type="linear"))),
    "phi-3-su": dict(PHI3, **sizes(3072, 8192, 32, 32, 32, 32064, 131072, original_max_position_embeddings=4096,
                                   rope_scaling=dict(longrope(48), type="su"))),
    "gpt-oss-20b": dict(GPT_OSS, **sizes(2880, 2880, 24, 64, 8, 201088, 131072, head_dim=64, sliding_window=128,
                                         num_local_experts=32, num_experts_per_tok=4,
                                         rope_scaling=dict(rope_type="yarn", factor=32.0, beta_fast=32.0, beta_slow=1.0,
                                                           truncate=False, original_max_position_embeddings=4096))),
}
