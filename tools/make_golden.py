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
PHI3 = dict(architectures=["Phi3ForCausalLM"], model_type="phi3", hidden_act="silu", rms_norm_eps=1e-5, bos_token_id=1,
            eos_token_id=2, rope_theta=10000.0, rope_scaling=None, sliding_window=None, tie_word_embeddings=False,
            pad_token_id=None, attention_bias=False)


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
    # Qwen3-30B-A3B: experts of a width of their own, shares that add up to 1; one without that, with a window.
    "qwen3-moe": (dict(QWEN3_MOE, **sizes(28, 56, 3, 4, 2, 53, 128, head_dim=20, moe_intermediate_size=12,
                                          num_experts=11, num_experts_per_tok=3)), "bf16", {"short": 40}, False),
    "qwen3-moe-window": (dict(QWEN3_MOE, **sizes(32, 40, 2, 4, 2, 47, 128, head_dim=16, moe_intermediate_size=20,
                                                 num_experts=5, num_experts_per_tok=1, norm_topk_prob=False,
                                                 use_sliding_window=True, sliding_window=9,
                                                 tie_word_embeddings=True)), "f16", {"short": 36}, False),
    # Qwen1.5-MoE and Qwen2-57B-A14B: an expert that every token passes, by a share of its own; biases of q, k, v.
    "qwen2-moe": (dict(QWEN2_MOE, **sizes(36, 44, 3, 6, 3, 46, 128, moe_intermediate_size=10, num_experts=7,
                                          num_experts_per_tok=2, shared_expert_intermediate_size=26)), "bf16",
                  {"short": 40}, False),
    # OLMoE: norms over all query and all key heads at once, shares as the softmax has them.
    "olmoe": (dict(OLMOE, **sizes(40, 14, 3, 4, 4, 51, 128, num_experts=9, num_experts_per_tok=4)), "bf16",
              {"short": 40}, False),
    "olmoe-gqa": (dict(OLMOE, **sizes(32, 18, 2, 4, 2, 45, 128, num_experts=6, num_experts_per_tok=2,
                                      norm_topk_prob=True)), "f32", {"short": 33}, True),
    # Mixtral: w1, w2 and w3, interleaved rotary pairs in GGUF.
    "mixtral": (dict(MIXTRAL, **sizes(24, 34, 3, 4, 2, 49, 128, num_local_experts=8, num_experts_per_tok=2)), "bf16",
                {"short": 40}, False),
    # Phi-3-mini-4k: fused projections and a window. Phi-3.5 and Phi-4-mini: longrope, partial rotary, tied.
    "phi3": (dict(PHI3, **sizes(32, 36, 3, 4, 4, 55, 128, original_max_position_embeddings=128, sliding_window=11)),
             "bf16", {"short": 40}, False),
    "phi3-longrope": (dict(PHI3, **sizes(48, 28, 2, 4, 2, 49, 256, original_max_position_embeddings=32,
                                         rope_scaling=longrope(6))), "f16", {"short": 32, "beyond": 33, "long": 80},
                      False),
    "phi4-mini": (dict(PHI3, **sizes(64, 30, 2, 4, 1, 57, 320, original_max_position_embeddings=40,
                                     partial_rotary_factor=0.75, tie_word_embeddings=True, sliding_window=25,
                                     rope_scaling=longrope(6))), "bf16", {"short": 30, "long": 70}, False),
}

DTYPE = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}

# ---- weights and runs -----------------------------------------------------------------------------------------------


def randomise(model, dtype, generator):
    """Values that `dtype` holds exactly, large enough that attention is far from even."""
    for name, parameter in model.named_parameters():
        shape = parameter.shape
        value = torch.randn(shape, generator=generator, dtype=torch.float64)
        if name.endswith("norm.weight"):
            value = 1 + 0.3 * value
        elif name.endswith(".bias"):
            value = 0.5 * value
        elif "embed_tokens" in name:
            pass
        elif any(part in name for part in ("q_proj", "k_proj", "qkv_proj")):
            value = value * (2.0 / math.sqrt(shape[1]))
        elif name.endswith("mlp.gate.weight"):  # of experts: shares far from even
            value = value * (1.5 / math.sqrt(shape[1]))
        else:
            value = value / math.sqrt(shape[-1])
        with torch.no_grad():
            parameter.copy_(value.to(dtype).to(torch.float32))


def double_norm(self, hidden_states):
    variance = hidden_states.pow(2).mean(-1, keepdim=True)
    return self.weight * (hidden_states * torch.rsqrt(variance + self.variance_epsilon))


def double_router(self, hidden_states):
    logits = torch.nn.functional.linear(hidden_states.reshape(-1, self.hidden_dim), self.weight)
    shares, experts = torch.topk(torch.softmax(logits, -1), self.top_k, dim=-1)
    if getattr(self, "norm_topk_prob", True):
        shares = shares / shares.sum(-1, keepdim=True)
    return logits, shares, experts


def build(config, state=None):
    made = AutoConfig.for_model(**copy.deepcopy(config))  # it changes what it is given
    model = AutoModelForCausalLM.from_config(made, attn_implementation="sdpa", experts_implementation="eager",
                                             dtype=torch.float32).eval()
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
                module.forward = double_norm.__get__(module)
            if type(module).__name__.endswith("TopKRouter"):
                module.forward = double_router.__get__(module)
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
        if config["model_type"] != "qwen3_moe":  # there it is everywhere
            yield "window everywhere", dict(config, max_window_layers=0)
    if "norm_topk_prob" in config:
        yield "other shares", dict(config, norm_topk_prob=not config["norm_topk_prob"])
    if config.get("num_experts_per_tok"):
        yield "one expert more", dict(config, num_experts_per_tok=config["num_experts_per_tok"] + 1)
    if config.get("partial_rotary_factor"):
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


def gguf_name(name):
    for old, new in (("model.embed_tokens", "token_embd"), ("model.norm", "output_norm"), ("lm_head", "output"),
                     ("model.layers.", "blk."), ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"),
                     ("self_attn.v_proj", "attn_v"), ("self_attn.qkv_proj", "attn_qkv"),
                     ("self_attn.o_proj", "attn_output"), ("self_attn.q_norm", "attn_q_norm"),
                     ("self_attn.k_norm", "attn_k_norm"), ("mlp.gate_up_proj", "ffn_up"), ("mlp.gate_proj", "ffn_gate"),
                     ("mlp.gate.", "ffn_gate_inp."), ("mlp.shared_expert_gate", "ffn_gate_inp_shexp"),
                     ("mlp.shared_expert.gate_proj", "ffn_gate_shexp"), ("mlp.shared_expert.up_proj", "ffn_up_shexp"),
                     ("mlp.shared_expert.down_proj", "ffn_down_shexp"), ("block_sparse_moe.gate.", "ffn_gate_inp."),
                     ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"), ("input_layernorm", "attn_norm"),
                     ("post_attention_layernorm", "ffn_norm")):
        name = name.replace(old, new)
    return name


EXPERT_NAMES = {"gate": ("mlp.experts.{}.gate_proj", "block_sparse_moe.experts.{}.w1"),
                "up": ("mlp.experts.{}.up_proj", "block_sparse_moe.experts.{}.w3"),
                "down": ("mlp.experts.{}.down_proj", "block_sparse_moe.experts.{}.w2")}


def stacks(prefix, state):
    """The matrices of a layer's experts as transformers holds them: [experts, outputs, inputs] each."""
    gate_up = state[prefix + "mlp.experts.gate_up_proj"]
    half = gate_up.shape[1] // 2
    return {"gate": gate_up[:, :half], "up": gate_up[:, half:], "down": state[prefix + "mlp.experts.down_proj"]}


def published(config, state):
    """Tensors as files on the hub have them: one for each expert."""
    sparse = config["model_type"] == "mixtral"
    made = {}
    for name, tensor in state.items():
        prefix = name.split("mlp.")[0]
        if name.endswith("mlp.experts.gate_up_proj"):
            for kind, stack in stacks(prefix, state).items():
                for expert, matrix in enumerate(stack):
                    made[prefix + EXPERT_NAMES[kind][sparse].format(expert) + ".weight"] = matrix.contiguous()
        elif not name.endswith("mlp.experts.down_proj"):
            made[name.replace("mlp.gate.", "block_sparse_moe.gate.") if sparse else name] = tensor
    return made


def interleave(tensor, heads):
    """Half-split rotary order to pairs side by side, head by head."""
    shape = tensor.shape
    return tensor.reshape(heads, 2, shape[0] // heads // 2, -1).transpose(1, 2).reshape(shape)


def make_gguf(path, name, config, state):
    kind = {"mistral": "llama", "mixtral": "llama", "qwen2_moe": "qwen2moe",
            "qwen3_moe": "qwen3moe"}.get(config["model_type"],
                                                                               config["model_type"])
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    size = config.get("head_dim") or config["hidden_size"] // heads
    rotary = int(size * config.get("partial_rotary_factor", 1.0))
    keys = {
        "general.architecture": kind, "general.name": name, "general.alignment": 32,
        f"{kind}.block_count": config["num_hidden_layers"], f"{kind}.context_length": config["max_position_embeddings"],
        f"{kind}.embedding_length": config["hidden_size"], f"{kind}.feed_forward_length": config["intermediate_size"],
        f"{kind}.attention.head_count": heads, f"{kind}.attention.head_count_kv": kv_heads,
        f"{kind}.attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]),
        f"{kind}.rope.freq_base": float(config["rope_theta"]), f"{kind}.rope.dimension_count": rotary,
        f"{kind}.vocab_size": config["vocab_size"],
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
    }
    if config.get("head_dim"):
        keys[f"{kind}.attention.key_length"] = keys[f"{kind}.attention.value_length"] = size
    if config["model_type"] in ("mistral", "phi3") and config.get("sliding_window"):
        keys[f"{kind}.attention.sliding_window"] = config["sliding_window"]
    if config.get("use_sliding_window"):
        keys[f"{kind}.attention.sliding_window"] = config["sliding_window"]
        keys[f"{kind}.attention.sliding_window_pattern"] = [i >= config["max_window_layers"]
                                                            for i in range(config["num_hidden_layers"])]
    if config["model_type"] == "qwen3_moe" and config.get("use_sliding_window"):
        del keys[f"{kind}.attention.sliding_window_pattern"]
    experts = config.get("num_experts") or config.get("num_local_experts")
    if experts:
        keys[f"{kind}.expert_count"] = experts
        keys[f"{kind}.expert_used_count"] = config["num_experts_per_tok"]
    if "moe_intermediate_size" in config:
        keys[f"{kind}.expert_feed_forward_length"] = config["moe_intermediate_size"]
    if "shared_expert_intermediate_size" in config:
        keys[f"{kind}.expert_shared_feed_forward_length"] = config["shared_expert_intermediate_size"]
    if experts and config.get("norm_topk_prob", True) != (kind not in ("olmoe", "qwen2moe")):
        keys[f"{kind}.expert_weights_norm"] = config["norm_topk_prob"]
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
        if kind == "llama" and (".q_proj." in old or ".k_proj." in old):
            tensor = interleave(tensor, heads if ".q_proj." in old else kv_heads)
        if old.endswith("mlp.experts.gate_up_proj"):
            for part, stack in stacks(old.split("mlp.")[0], state).items():
                tensors[gguf_name(old.split("mlp.")[0] + f"ffn_{part}_exps.weight")] = stack
        elif old.endswith("mlp.shared_expert_gate.weight"):
            tensors[gguf_name(old)] = tensor[0].float()
        elif not old.endswith("mlp.experts.down_proj"):
            tensors[gguf_name(old)] = tensor.float() if tensor.dim() == 1 else tensor
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


def make(out, name):
    config, kind, cases, newer = FAMILIES[name]
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    generator = torch.Generator().manual_seed(sum(name.encode()) * 7919)
    model = build(config)
    randomise(model, DTYPE[kind], generator)
    tied = config["tie_word_embeddings"]
    full = {key: value.clone() for key, value in model.state_dict().items()}
    state = {key: value.to(DTYPE[kind]) for key, value in full.items() if not (tied and key == "lm_head.weight")}
    if newer:
        model.config.architectures = config["architectures"]
        with open(os.path.join(folder, "config.json"), "w") as file:
            file.write(model.config.to_json_string())
    else:
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file, indent=2)
    save(folder, published(config, state), 2 if name in ("qwen2", "olmoe") else 1)
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
            "phi3": "phi3.modeling_phi3.Phi3"}[config["model_type"]]
    module, name = kind.rsplit(".", 1)
    module = importlib.import_module("transformers.models." + module)
    rope = getattr(module, name + "RotaryEmbedding")(made)
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
