#!/usr/bin/env python3
"""Makes tests/data/golden: small random models of every family and what transformers computes with them.

    python3 tools/make_golden.py [--out tests/data/golden] [family...]

Each family gets a folder with config.json and safetensors as a model on the hub has them, the same model as
model.gguf, and one or more CASE.golden files: int32 count, vocab, context, 0, then the token ids (int32), then the
logits at every position (float64), all little-endian. The logits are those of the model in float64: its norms too are
computed in float64 here, rotary angles stay float32 as transformers has them. Prints how far transformers' own float32
run is from them, and how far a run without the rotary scaling, the window or the biases would be: a test that did not
see these would be blind. Needs torch, transformers, safetensors, numpy.
"""
import argparse
import copy
import importlib
import json
import math
import os
import struct

import numpy as np
import safetensors.torch
import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

# ---- the families: config.json as the published models write it ----------------------------------------------------

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


# name: (config, type of the matrices, {case: tokens}, written with transformers' own newer keys)
FAMILIES = {
    # Llama 2: one key-value head for each query head, three layers.
    "llama2": (dict(LLAMA, **sizes(24, 34, 3, 4, 4, 61, 64)), "f32", {"short": 40}, False),
    # Llama 3.1 and 3.2: llama3 scaling, tied, heads larger than hidden / heads.
    "llama3": (dict(LLAMA, **sizes(28, 42, 2, 4, 2, 57, 256, head_dim=24, tie_word_embeddings=True,
                                   rope_theta=500000.0,
                                   rope_scaling=dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                     original_max_position_embeddings=32, rope_type="llama3"))),
               "bf16", {"beyond": 90}, False),
    # LongChat: linear scaling; every bias the family can have.
    "llama-linear": (dict(LLAMA, **sizes(30, 38, 2, 5, 1, 51, 128, attention_bias=True, mlp_bias=True,
                                         rope_scaling=dict(factor=8.0, type="linear"))), "f16", {"short": 48}, False),
    # Mistral v0.1's window, v0.2 and v0.3's lack of one; head_dim as in Nemo.
    "mistral-window": (dict(MISTRAL, **sizes(24, 36, 3, 4, 1, 39, 128, head_dim=12, sliding_window=7)), "bf16",
                       {"short": 40}, False),
    "mistral": (dict(MISTRAL, **sizes(36, 30, 2, 6, 2, 43, 128)), "bf16", {"short": 33}, True),
    # Qwen2: biases of q, k, v. Qwen2.5 with yarn, past its original context.
    "qwen2": (dict(QWEN2, **sizes(28, 38, 4, 7, 1, 45, 128, tie_word_embeddings=True)), "bf16", {"short": 40}, False),
    "qwen2-yarn": (dict(QWEN2, **sizes(40, 36, 2, 4, 2, 57, 32,
                                       rope_scaling=dict(factor=4.0, original_max_position_embeddings=32,
                                                         type="yarn"))), "f16", {"beyond": 100}, False),
    "qwen2-window": (dict(QWEN2, **sizes(32, 40, 3, 4, 2, 47, 128, use_sliding_window=True, sliding_window=5,
                                         max_window_layers=1)), "bf16", {"short": 37}, False),
    # Qwen3: norms of q and k, head_dim, several ends of turn; one with yarn and all its options.
    "qwen3": (dict(QWEN3, **sizes(28, 40, 3, 4, 2, 53, 128, head_dim=20)), "bf16", {"short": 40}, False),
    "qwen3-yarn": (dict(QWEN3, **sizes(36, 48, 2, 6, 3, 51, 64, head_dim=16, attention_bias=True, rope_theta=10000,
                                       rope_scaling=dict(rope_type="yarn", factor=2.5, beta_fast=4.0, beta_slow=0.5,
                                                         attention_factor=1.3, original_max_position_embeddings=40))),
                   "bf16", {"beyond": 96}, True),
    # Phi-3-mini-4k: fused projections and a window. Phi-3.5 and Phi-4-mini: longrope, partial rotary, tied.
    "phi3": (dict(PHI3, **sizes(32, 36, 3, 4, 4, 55, 128, original_max_position_embeddings=128, sliding_window=11)),
             "bf16", {"short": 40}, False),
    "phi3-longrope": (dict(PHI3, **sizes(48, 28, 2, 4, 2, 49, 256, original_max_position_embeddings=32,
                                         rope_scaling=longrope(6))), "f16", {"short": 32, "beyond": 33, "long": 80},
                      False),
    "phi4-mini": (dict(PHI3, **sizes(64, 30, 2, 4, 1, 57, 320, original_max_position_embeddings=40,
                                     partial_rotary_factor=0.75, tie_word_embeddings=True, sliding_window=25,
                                     rope_scaling=longrope(6))), "bf16", {"short": 30, "long": 70}, False),
    # Gemma 2: both soft caps, a query scale of its own, every other layer with a window. Caps low enough to be felt.
    "gemma2": (dict(GEMMA2, **sizes(24, 42, 4, 4, 2, 53, 128, head_dim=16, sliding_window=9, query_pre_attn_scalar=6,
                                    attn_logit_softcapping=4.0, final_logit_softcapping=3.0)),
               "bf16", {"short": 40}, False),
    # Gemma 3: q/k norms, two bases, linear scaling of the global layers' alone, six layers of which one is global.
    "gemma3": (dict(GEMMA3, **sizes(36, 30, 7, 6, 2, 49, 256, head_dim=12, sliding_window=8, query_pre_attn_scalar=12,
                                    rope_scaling=dict(factor=8.0, rope_type="linear"))), "bf16", {"short": 48}, False),
    # The same family as transformers writes it today, without scaling, other layers global.
    "gemma3-new": (dict(GEMMA3, **sizes(20, 34, 4, 2, 1, 45, 128, head_dim=18, sliding_window=5,
                                        query_pre_attn_scalar=18,
                                        layer_types=["full_attention", "sliding_attention", "sliding_attention",
                                                     "full_attention"])), "f32", {"short": 33}, True),
    # A model that reads images too: the language model's keys and tensors have longer names.
    "gemma3-images": (dict(GEMMA3, **sizes(20, 26, 6, 2, 1, 39, 128, head_dim=10, sliding_window=6,
                                           query_pre_attn_scalar=10)), "bf16", {"short": 30}, False),
    # SmolLM3: every fourth layer does not rotate.
    "smollm3": (dict(SMOLLM3, **sizes(24, 38, 5, 4, 2, 51, 128, tie_word_embeddings=True)), "bf16", {"short": 40}, False),
    # OLMo 2: norms of what comes out only, norms of q and k over all heads.
    "olmo2": (dict(OLMO2, **sizes(32, 36, 3, 4, 2, 53, 128)), "bf16", {"short": 40}, False),
    # Granite 3: four multipliers.
    "granite": (dict(GRANITE, **sizes(24, 40, 3, 4, 2, 47, 128, embedding_multiplier=12.0, residual_multiplier=0.22,
                                      attention_multiplier=0.3, logits_scaling=8.0)), "bf16", {"short": 40}, False),
    # GLM-4: half of the channels rotate, in pairs side by side; norms around; q, k, v biases, fused gate and up.
    "glm4": (dict(GLM4, **sizes(28, 34, 3, 4, 2, 49, 128, head_dim=12)), "bf16", {"short": 40}, False),
    # Command-R: attention and feed-forward side by side, norms that take the mean away, a logit scale.
    "cohere": (dict(COHERE, **sizes(24, 44, 3, 4, 2, 57, 128, logit_scale=0.0625)), "f16", {"short": 40}, False),
    # Phi-2: side by side too, biases everywhere, no gate.
    "phi2": (dict(PHI, **sizes(40, 58, 3, 4, 4, 51, 128)), "f16", {"short": 40}, False),
    # StableLM 2.
    "stablelm": (dict(STABLELM, **sizes(32, 42, 3, 4, 2, 47, 128)), "bf16", {"short": 40}, False),
}

DTYPE = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}

# ---- weights and runs -----------------------------------------------------------------------------------------------


def randomise(model, dtype, generator):
    """Values that `dtype` holds exactly, large enough that attention is far from even."""
    for name, parameter in model.named_parameters():
        shape = parameter.shape
        value = torch.randn(shape, generator=generator, dtype=torch.float64)
        if "norm" in name and name.endswith(".bias"):
            value = 0.2 * value
        elif "norm" in name and name.endswith(".weight"):
            value = (0 if "gemma" in model.config.model_type else 1) + 0.3 * value
        elif name.endswith(".bias"):
            value = 0.5 * value
        elif "embed_tokens" in name:
            pass
        elif any(part in name for part in ("q_proj", "k_proj", "qkv_proj")):  # attention_multiplier is below 1
            value = value * (2.0 / math.sqrt(shape[1]))
        else:
            value = value / math.sqrt(shape[1])
        with torch.no_grad():
            parameter.copy_(value.to(dtype).to(torch.float32))


def double_norm(self, hidden_states):
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    return self.weight * (hidden_states * torch.rsqrt(variance + self.variance_epsilon))


def double_layer_norm(self, hidden_states):
    centred = hidden_states - hidden_states.mean(-1, keepdim=True)
    return self.weight * (centred * torch.rsqrt(centred.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def double_gemma_norm(self, hidden_states):
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    return (1 + self.weight) * (hidden_states * torch.rsqrt(variance + self.eps))


def build(config, state=None):
    made = AutoConfig.for_model(**copy.deepcopy(config))  # it changes what it is given
    model = AutoModelForCausalLM.from_config(made, attn_implementation="eager" if config["model_type"] == "gemma2" else "sdpa", dtype=torch.float32).eval()
    if state is not None:
        missing = model.load_state_dict(state, strict=False)
        model.tie_weights()
        assert not missing.unexpected_keys or "bias" in str(missing.unexpected_keys), missing
    return model


def run(model, tokens, double):
    if double:
        model = model.double()
        for module in model.modules():
            if type(module).__name__.endswith("RMSNorm"):
                gemma = type(module).__name__.startswith("Gemma")
                module.forward = (double_gemma_norm if gemma else double_norm).__get__(module)
            if type(module).__name__ == "CohereLayerNorm":
                module.forward = double_layer_norm.__get__(module)
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].double().numpy()


def worst(a, b):
    return float(np.max(np.linalg.norm(a - b, axis=1) / np.linalg.norm(b, axis=1)))


def without(config):
    """Ways to get the model wrong, each of which must be visible in the logits."""
    if config.get("rope_scaling"):
        yield "no scaling", dict(config, rope_scaling=None)
    if config.get("rope_scaling") and "beta_fast" in config["rope_scaling"]:
        yield "standard betas", dict(config, rope_scaling={k: v for k, v in config["rope_scaling"].items()
                                                           if not k.startswith("beta")})
    if config.get("sliding_window") and config["model_type"] in ("mistral", "phi3"):
        yield "no window", dict(config, sliding_window=None)
    if config.get("use_sliding_window"):
        yield "no window", dict(config, use_sliding_window=False)
        yield "window everywhere", dict(config, max_window_layers=0)
    if config["model_type"] == "gemma2":
        for key in ("attn_logit_softcapping", "final_logit_softcapping"):
            yield "no " + key, dict(config, **{key: None})
        yield "scale of the head size", dict(config, query_pre_attn_scalar=config["head_dim"])
    if config["model_type"] == "smollm3":
        yield "all rotate", dict(config, no_rope_layers=[1] * config["num_hidden_layers"])
    for key in ("embedding_multiplier", "residual_multiplier", "logits_scaling", "logit_scale"):
        if key in config:
            yield "no " + key, dict(config, **{key: 1.0})
    if "attention_multiplier" in config:
        yield "scale of the head size", dict(config, attention_multiplier=(config["hidden_size"] //
                                                                           config["num_attention_heads"]) ** -0.5)
    if "gemma" in config["model_type"]:
        yield "windows elsewhere", dict(config, layer_types=["full_attention"] * config["num_hidden_layers"])
    if "rope_local_base_freq" in config:
        yield "one base", dict(config, rope_local_base_freq=config["rope_theta"])
    if config["model_type"] in ("glm4", "phi", "stablelm"):
        yield "other share", dict(config, partial_rotary_factor=1.0)
    if config.get("partial_rotary_factor") and config["model_type"] == "phi3":
        yield "other share", dict(config, partial_rotary_factor=0.5, rope_scaling=longrope(4))


# ---- GGUF -----------------------------------------------------------------------------------------------------------

GGUF_TYPE = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 30}


def gguf_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(value):
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_string(value)
    assert isinstance(value, list) and all(isinstance(item, bool) for item in value)
    return struct.pack("<IIQ", 9, 7, len(value)) + bytes(value)


def write_gguf(path, keys, tensors):
    header = b"".join(gguf_string(key) + gguf_value(value) for key, value in keys.items())
    infos, data = b"", b""
    for name, tensor in tensors.items():
        tensor = tensor.contiguous()
        infos += gguf_string(name) + struct.pack("<I", tensor.dim())
        infos += struct.pack(f"<{tensor.dim()}Q", *reversed(tensor.shape))
        infos += struct.pack("<IQ", GGUF_TYPE[tensor.dtype], len(data))
        raw = tensor.view(torch.uint8).numpy().tobytes()
        data += raw + bytes(-len(raw) % 32)
    start = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + header + infos
    with open(path, "wb") as file:
        file.write(start + bytes(-len(start) % 32) + data)


def llama3_divisors(scaling, base, rotary):
    """rope_freqs.weight, in float32 from the definition."""
    f32 = np.float32
    factor, low, high = (f32(scaling[key]) for key in ("factor", "low_freq_factor", "high_freq_factor"))
    original = scaling["original_max_position_embeddings"]
    divisors = []
    for i in range(0, rotary, 2):
        wave = 2 * math.pi * base ** (i / rotary)
        smooth = (original / wave - low) / (high - low)
        divisors.append(1.0 if wave < original / high else factor if wave > original / low
                        else 1 / ((1 - smooth) / factor + smooth))
    return torch.tensor(np.array(divisors, dtype=np.float32))


def gguf_name(name, kind):
    gemma = kind.startswith("gemma") or kind == "olmo2"
    if kind == "glm4":  # what others call the norm before the feed-forward network stands after the attention there
        name = name.replace("post_attention_layernorm", "ffn_norm")
        name = name.replace("post_self_attn_layernorm", "post_attention_norm").replace("post_mlp_layernorm", "post_ffw_norm")
    for old, new in (("model.embed_tokens", "token_embd"), ("model.norm", "output_norm"),
                     ("model.final_layernorm", "output_norm"), ("self_attn.dense", "attn_output"),
                     ("mlp.fc1", "ffn_up"), ("mlp.fc2", "ffn_down"), ("lm_head", "output"),
                     ("model.layers.", "blk."), ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"),
                     ("self_attn.v_proj", "attn_v"), ("self_attn.qkv_proj", "attn_qkv"),
                     ("self_attn.o_proj", "attn_output"), ("self_attn.q_norm", "attn_q_norm"),
                     ("self_attn.k_norm", "attn_k_norm"), ("mlp.gate_up_proj", "ffn_up"), ("mlp.gate_proj", "ffn_gate"),
                     ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"), ("input_layernorm", "attn_norm"),
                     ("post_attention_layernorm", "post_attention_norm" if gemma else "ffn_norm"),
                     ("pre_feedforward_layernorm", "ffn_norm"), ("post_feedforward_layernorm", "post_ffw_norm")):
        name = name.replace(old, new)
    return name


def interleave(tensor, heads):
    """Half-split rotary order to pairs side by side, head by head."""
    shape = tensor.shape
    return tensor.reshape(heads, 2, shape[0] // heads // 2, -1).transpose(1, 2).reshape(shape)


def make_gguf(path, name, config, state):
    kind = {"mistral": "llama", "gemma3_text": "gemma3", "cohere": "command-r", "phi": "phi2"}.get(config["model_type"], config["model_type"])
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size = config.get("head_dim") or config["hidden_size"] // heads
    rotary = int(size * config.get("partial_rotary_factor", 1.0))
    keys = {
        "general.architecture": kind, "general.name": name, "general.alignment": 32,
        f"{kind}.block_count": config["num_hidden_layers"], f"{kind}.context_length": config["max_position_embeddings"],
        f"{kind}.embedding_length": config["hidden_size"], f"{kind}.feed_forward_length": config["intermediate_size"],
        f"{kind}.attention.head_count": heads, f"{kind}.attention.head_count_kv": kv_heads,
        f"{kind}.rope.freq_base": float(config["rope_theta"]), f"{kind}.rope.dimension_count": rotary,
        f"{kind}.vocab_size": config["vocab_size"],
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
    }
    for key, name_there in (("rms_norm_eps", "attention.layer_norm_rms_epsilon"),
                            ("layer_norm_eps", "attention.layer_norm_epsilon"), ("logit_scale", "logit_scale"),
                            ("attention_multiplier", "attention.scale"), ("embedding_multiplier", "embedding_scale"),
                            ("residual_multiplier", "residual_scale"), ("logits_scaling", "logit_scale"),
                            ("use_parallel_residual", "use_parallel_residual")):
        if key in config:
            keys[f"{kind}.{name_there}"] = config[key]
    if config.get("head_dim"):
        keys[f"{kind}.attention.key_length"] = keys[f"{kind}.attention.value_length"] = size
    if config["model_type"] in ("mistral", "phi3") and config.get("sliding_window"):
        keys[f"{kind}.attention.sliding_window"] = config["sliding_window"]
    if config.get("use_sliding_window"):
        keys[f"{kind}.attention.sliding_window"] = config["sliding_window"]
        keys[f"{kind}.attention.sliding_window_pattern"] = [i >= config["max_window_layers"]
                                                            for i in range(config["num_hidden_layers"])]
    if kind.startswith("gemma"):
        keys[f"{kind}.attention.sliding_window"] = config["sliding_window"]
        keys["tokenizer.ggml.bos_token_id"], keys["tokenizer.ggml.eos_token_id"] = 2, 1
        for key in ("attn_logit_softcapping", "final_logit_softcapping"):
            if config.get(key):
                keys[f"{kind}.{key}"] = config[key]
        if config["query_pre_attn_scalar"] != size:  # which converters leave to a rule of the published sizes
            keys[f"{kind}.attention.scale"] = config["query_pre_attn_scalar"] ** -0.5
        if "layer_types" in config:
            keys[f"{kind}.attention.sliding_window_pattern"] = [kind == "sliding_attention"
                                                                for kind in config["layer_types"]]
    tensors = {}
    scaling = config.get("rope_scaling") or {}
    rope = scaling.get("rope_type", scaling.get("type"))
    if rope in ("linear", "yarn"):
        keys[f"{kind}.rope.scaling.type"] = rope
        keys[f"{kind}.rope.scaling.factor"] = scaling["factor"]
    if rope == "yarn":
        keys[f"{kind}.rope.scaling.original_context_length"] = scaling["original_max_position_embeddings"]
        if "beta_fast" in scaling:
            keys[f"{kind}.rope.scaling.yarn_beta_fast"] = scaling["beta_fast"]
            keys[f"{kind}.rope.scaling.yarn_beta_slow"] = scaling["beta_slow"]
        if "attention_factor" in scaling:  # GGUF's multiplies what follows from the factor
            keys[f"{kind}.rope.scaling.attn_factor"] = (scaling["attention_factor"] /
                                                        (0.1 * math.log(scaling["factor"]) + 1))
    if rope == "llama3":
        tensors["rope_freqs.weight"] = llama3_divisors(scaling, config["rope_theta"], rotary)
    if rope == "longrope":
        original = config["original_max_position_embeddings"]
        keys[f"{kind}.rope.scaling.original_context_length"] = original
        keys[f"{kind}.rope.scaling.attn_factor"] = math.sqrt(
            1 + math.log(config["max_position_embeddings"] / original) / math.log(original))
        tensors["rope_factors_long.weight"] = torch.tensor(scaling["long_factor"], dtype=torch.float32)
        tensors["rope_factors_short.weight"] = torch.tensor(scaling["short_factor"], dtype=torch.float32)
    for old, tensor in state.items():
        if kind in ("llama", "smollm3", "granite") and (".q_proj." in old or ".k_proj." in old):
            tensor = interleave(tensor, heads if ".q_proj." in old else kv_heads)
        gemma = kind.startswith("gemma")
        vector = tensor.float() + 1 if gemma else tensor.float()  # norms; Gemma has no biases
        tensors[gguf_name(old, kind)] = vector if tensor.dim() == 1 else tensor
    write_gguf(path, keys, tensors)


# ---- files ----------------------------------------------------------------------------------------------------------


def save(folder, state, shards):
    names = sorted(state)
    if shards == 1:
        safetensors.torch.save_file(state, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
        return
    index = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = names[shard::shards]
        safetensors.torch.save_file({name: state[name] for name in part}, os.path.join(folder, file),
                                    metadata={"format": "pt"})
        index.update({name: file for name in part})
    total = sum(state[name].numel() * state[name].element_size() for name in names)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": index}, file, indent=1, sort_keys=True)


def save_with_images(folder, config, state):
    """As Gemma3ForConditionalGeneration lies on the hub, with a little of what reads images."""
    whole = dict(architectures=["Gemma3ForConditionalGeneration"], model_type="gemma3", eos_token_id=[1, 106],
                 text_config={key: value for key, value in config.items() if key not in ("architectures", "eos_token_id")},
                 vision_config=dict(model_type="siglip_vision_model", hidden_size=8))
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(whole, file, indent=2)
    renamed = {"language_model." + key: value for key, value in state.items()}
    renamed["vision_tower.vision_model.embeddings.patch_embedding.weight"] = torch.zeros(8, 3, 2, 2)
    renamed["multi_modal_projector.mm_input_projection_weight"] = torch.zeros(8, config["hidden_size"])
    save(folder, renamed, 1)


def make(out, name):
    config, kind, cases, newer = FAMILIES[name]
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    generator = torch.Generator().manual_seed(sum(name.encode()) * 7919)
    model = build(config)
    randomise(model, DTYPE[kind], generator)
    tied = config.get("tie_word_embeddings", "gemma" in config["model_type"] or config["model_type"] == "cohere")
    full = {key: value.clone() for key, value in model.state_dict().items()}
    state = {key: value.to(DTYPE[kind]) for key, value in full.items() if not (tied and key == "lm_head.weight")}
    if name == "gemma3-images":
        save_with_images(folder, config, state)
    elif newer:
        model.config.architectures = config["architectures"]
        with open(os.path.join(folder, "config.json"), "w") as file:
            file.write(model.config.to_json_string())
    else:
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file, indent=2)
    if name != "gemma3-images":
        save(folder, state, 2 if name == "qwen2" else 1)
    make_gguf(os.path.join(folder, "model.gguf"), name, config, state)
    for case, count in cases.items():
        tokens = torch.randint(0, config["vocab_size"], (count,), generator=generator).tolist()
        tokens[count // 2:count // 2 + 4] = tokens[2:6]  # something to look back to
        single = run(build(config, full), tokens, False)
        double = run(build(config, full), tokens, True)
        others = ", ".join(f"{what} {worst(run(build(other, full), tokens, True), double):.1e}"
                           for what, other in without(config))
        print(f"{name} {case}: float32 {worst(single, double):.1e}" + (f"; {others}" if others else ""))
        with open(os.path.join(folder, f"{case}.golden"), "wb") as file:
            file.write(struct.pack("<4i", count, config["vocab_size"], count, 0))
            file.write(np.array(tokens, dtype="<i4").tobytes() + double.astype("<f8").tobytes())


# ---- rotary frequencies of real geometries -------------------------------------------------------------------------

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
}


def rotary(config):
    """inv_freq and attention factor as transformers computes them, from the rotary module alone."""
    scaling = config.get("rope_scaling") or {}
    if scaling.get("type") == "su":  # the name that earlier files have and transformers 5 no longer takes
        config = dict(config, rope_scaling=dict(scaling, type="longrope"))
    made = AutoConfig.for_model(**copy.deepcopy(config))  # it changes what it is given
    kind = {"llama": "llama.modeling_llama.Llama", "mistral": "mistral.modeling_mistral.Mistral",
            "qwen2": "qwen2.modeling_qwen2.Qwen2", "qwen3": "qwen3.modeling_qwen3.Qwen3",
            "phi3": "phi3.modeling_phi3.Phi3", "gemma3_text": "gemma3.modeling_gemma3.Gemma3"}[config["model_type"]]
    module, name = kind.rsplit(".", 1)
    module = importlib.import_module("transformers.models." + module)
    rope = getattr(module, name + "RotaryEmbedding")(made)
    if hasattr(rope, "full_attention_inv_freq"):  # of the layers without a window
        return dict(short=rope.full_attention_inv_freq.tolist(),
                    attention_factor=float(rope.full_attention_attention_scaling))
    found = dict(short=rope.inv_freq.tolist(), attention_factor=float(rope.attention_scaling))
    if "long_factor" in scaling:
        original = config["original_max_position_embeddings"]
        rope(torch.zeros(1, 1, 1), torch.tensor([[original]]))
        found["long"] = rope.inv_freq.tolist()
    return found


def make_ropes(out):
    """One config.json and one list of frequencies (float32 as hexadecimal reals) for each real geometry."""
    os.makedirs(os.path.join(out, "rope"), exist_ok=True)
    for name, config in ROPES.items():
        with open(os.path.join(out, "rope", name + ".json"), "w") as file:
            json.dump(config, file)
        found = rotary(config)
        with open(os.path.join(out, "rope", name + ".txt"), "w") as file:
            file.write(f"{found['attention_factor'].hex()} {len(found['short'])} {int('long' in found)}\n")
            for value in found["short"] + found.get("long", []):
                file.write(value.hex() + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default="tests/data/golden")
    parser.add_argument("family", nargs="*", default=list(FAMILIES))
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    for name in arguments.family or FAMILIES:
        make(arguments.out, name)
    make_ropes(arguments.out)
    with open(os.path.join(arguments.out, "versions.txt"), "w") as file:
        for module in (torch, transformers, safetensors, np):
            file.write(f"{module.__name__} {module.__version__.split('+')[0]}\n")


if __name__ == "__main__":
    main()
