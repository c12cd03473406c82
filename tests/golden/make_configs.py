#!/usr/bin/env python3
"""Writes small models' config.json files as transformers saves them, for every family, with and without the family's
optional parts: one line of JSON each, for tests/models/test_optional_parts.c.

    python3 tests/golden/make_configs.py >>tests/data/configs.jsonl

Run it once with transformers 4 and once with transformers 5. Neither needs torch.
"""
import copy
import json
import tempfile

import transformers

SMALL = dict(hidden_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
             vocab_size=64, max_position_embeddings=128, head_dim=8, num_experts=4, num_local_experts=4,
             num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40,
             query_pre_attn_scalar=8, bos_token_id=1, eos_token_id=2, pad_token_id=0)
# Settings other than the defaults, for every family whose configuration knows them.
VARIANTS = {
    "default": {},
    "attention_bias": {"attention_bias": True},
    "no attention_bias": {"attention_bias": False},
    "mlp_bias": {"mlp_bias": True},
    "use_qkv_bias": {"use_qkv_bias": True},
    "no qkv_bias": {"qkv_bias": False},
    "norms of q and k": {"use_qk_norm": True},
    "layer norms of q and k": {"qk_layernorm": True},
    "parallel": {"use_parallel_residual": True},
    "tied": {"tie_word_embeddings": True},
    "window": {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 2},
    "unused window": {"use_sliding_window": False, "sliding_window": 0},
    "no window": {"sliding_window": None},
}
# Family: configuration class, then the biases of q, k and v, of o, and of the feed-forward network, as in transformers'
# modules.
NEVER, ALWAYS = (lambda c: False), (lambda c: True)
ATTENTION, MLP = (lambda c: c.attention_bias), (lambda c: c.mlp_bias)
FAMILIES = {
    "llama": ("LlamaConfig", ATTENTION, ATTENTION, MLP),
    "mistral": ("MistralConfig", NEVER, NEVER, NEVER),
    "mixtral": ("MixtralConfig", NEVER, NEVER, NEVER),
    "qwen2": ("Qwen2Config", ALWAYS, NEVER, NEVER),
    "qwen2_moe": ("Qwen2MoeConfig", lambda c: c.qkv_bias, NEVER, NEVER),
    "qwen3": ("Qwen3Config", ATTENTION, ATTENTION, NEVER),
    "qwen3_moe": ("Qwen3MoeConfig", ATTENTION, ATTENTION, NEVER),
    "qwen3_5": ("Qwen3_5Config", ATTENTION, ATTENTION, NEVER),
    "qwen3_next": ("Qwen3NextConfig", ATTENTION, ATTENTION, NEVER),
    "olmoe": ("OlmoeConfig", ATTENTION, ATTENTION, NEVER),
    "gpt_oss": ("GptOssConfig", ATTENTION, ATTENTION, NEVER),
    "phi3": ("Phi3Config", NEVER, NEVER, NEVER),
    "gemma2": ("Gemma2Config", ATTENTION, ATTENTION, NEVER),
    "gemma3_text": ("Gemma3TextConfig", ATTENTION, ATTENTION, NEVER),
    "gemma3": ("Gemma3Config", ATTENTION, ATTENTION, NEVER),
    "smollm3": ("SmolLM3Config", ATTENTION, ATTENTION, MLP),
    "olmo2": ("Olmo2Config", ATTENTION, ATTENTION, NEVER),
    "olmo3": ("Olmo3Config", ATTENTION, ATTENTION, NEVER),
    "granite": ("GraniteConfig", ATTENTION, ATTENTION, MLP),
    "glm4": ("Glm4Config", ATTENTION, NEVER, NEVER),
    "cohere": ("CohereConfig", ATTENTION, ATTENTION, NEVER),
    "phi": ("PhiConfig", ALWAYS, ALWAYS, ALWAYS),
    "stablelm": ("StableLmConfig", lambda c: c.use_qkv_bias, NEVER, NEVER),
}


def text_of(config):
    return getattr(config, "text_config", config)


def make(cls, settings):
    nested = hasattr(cls(), "text_config")
    config = cls(text_config=settings) if nested else cls(**settings)
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        with open(folder + "/config.json") as file:
            return text_of(config), json.load(file)


def main():
    transformers.utils.logging.set_verbosity_error()
    for family, (name, qkv, output, feed) in FAMILIES.items():
        cls = getattr(transformers, name, None)
        if cls is None:
            continue
        known = text_of(cls()).to_dict()
        small = {key: value for key, value in SMALL.items() if key in known or key == "head_dim"}
        seen = []
        for variant, settings in VARIANTS.items():
            slides = "sliding_attention" in (known.get("layer_types") or [])
            if any(key not in known and key != "tie_word_embeddings" for key in settings):
                continue
            if slides and "window" in variant: # a sliding layer needs its window
                continue
            if variant == "window" and family == "qwen2_moe" and "layer_types" not in known:
                continue # transformers 4 gives all layers a window, 5 only some: kvcull refuses to guess
            config, saved = make(cls, copy.deepcopy({**small, **settings}))
            saved.pop("transformers_version", None)
            saved.pop("vision_config", None)
            if saved in seen:
                continue
            seen.append(saved)
            print(json.dumps({"family": family, "variant": variant, "transformers": transformers.__version__,
                              "qkv_bias": bool(qkv(config)), "output_bias": bool(output(config)),
                              "feed_bias": bool(feed(config)), "tied": bool(config.tie_word_embeddings),
                              "config": saved}))


main()
