#!/usr/bin/env python3
"""Makes tests/data/golden: small random models of every family, and transformers' results for them.

    python3 tests/golden/make_golden.py [--out tests/data/golden] [family...]

Each family gets a folder with config.json and safetensors as on the Hugging Face hub, the same model as model.gguf,
and one or more CASE.golden files: int32 count, vocab, context, 0, then the token ids (int32), then the logits at
every position (float64), all little-endian. The logits come from the model in float64. Norms are computed in float64
here too; rotary angles stay float32, as in transformers. Prints the error of transformers' own float32 run, and the
error of runs without the rotary scaling, the window or the biases. These must be large, or a test could not detect
such a mistake. Needs torch, transformers, safetensors and numpy.
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

import golden_delta as delta
import golden_gpt_oss as gpt_oss
from golden_families import FAMILIES, ROPES, longrope
from golden_gguf import write_gguf

DTYPE = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}

# ---- weights and runs -----------------------------------------------------------------------------------------------


def randomise(model, dtype, generator):
    """Sets values that `dtype` holds exactly, and that make attention far from uniform."""
    for name, parameter in model.named_parameters():
        shape = parameter.shape
        kind = model.config.model_type
        family = gpt_oss if kind == "gpt_oss" else delta if kind in delta.FAMILIES else None
        own = family.randomise(name, shape, generator) if family else None
        if own is not None:
            with torch.no_grad():
                parameter.copy_(own.to(dtype).to(torch.float32))
            continue
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
        elif name.endswith("mlp.gate.weight"):  # experts: routing weights far from uniform
            value = value * (1.5 / math.sqrt(shape[1]))
        else:
            value = value / math.sqrt(shape[-1])
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


def double_router(self, hidden_states):
    logits = torch.nn.functional.linear(hidden_states.reshape(-1, self.hidden_dim), self.weight)
    shares, experts = torch.topk(torch.softmax(logits, -1), self.top_k, dim=-1)
    if getattr(self, "norm_topk_prob", True):
        shares = shares / shares.sum(-1, keepdim=True)
    return logits, shares, experts


def build(config, state=None):
    config = {key: value for key, value in copy.deepcopy(config).items() if key != "quantization_config"}
    made = AutoConfig.for_model(**config)  # for_model changes its argument
    attention = "eager" if config["model_type"] in ("gemma2", "gpt_oss") else "sdpa"
    model = AutoModelForCausalLM.from_config(made, attn_implementation=attention, experts_implementation="eager",
                                             dtype=torch.float32).eval()
    if state is not None:
        missing = model.load_state_dict(state, strict=False)
        model.tie_weights()
        assert all("bias" in key or "norm" in key for key in missing.unexpected_keys), missing
    return model


def run(model, tokens, double):
    if double:
        model = model.double()
        for module in model.modules():
            if type(module).__name__.endswith("RMSNorm"):
                gemma = type(module).__name__.startswith(("Gemma", "Qwen3_5", "Qwen3Next"))
                module.forward = (double_gemma_norm if gemma else double_norm).__get__(module)
            if type(module).__name__.endswith("GatedDeltaNet"):
                module.forward = delta.double_net.__get__(module)
            if type(module).__name__ == "CohereLayerNorm":
                module.forward = double_layer_norm.__get__(module)
            if type(module).__name__.endswith("TopKRouter") and not type(module).__name__.startswith("GptOss"):
                module.forward = double_router.__get__(module)
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].double().numpy()


def worst(a, b):
    return float(np.max(np.linalg.norm(a - b, axis=1) / np.linalg.norm(b, axis=1)))


def without(config):
    """Yields wrong versions of the model. Each must be visible in the logits."""
    if config.get("rope_scaling") and config["model_type"] != "gpt_oss":
        yield "no scaling", dict(config, rope_scaling=None)
    if config.get("rope_scaling") and "beta_fast" in config["rope_scaling"]:
        yield "standard betas", dict(config, rope_scaling={k: v for k, v in config["rope_scaling"].items()
                                                           if not k.startswith("beta")})
    if config.get("sliding_window") and config["model_type"] in ("mistral", "phi3"):
        yield "no window", dict(config, sliding_window=None)
    if config.get("use_sliding_window"):
        yield "no window", dict(config, use_sliding_window=False)
        if config["model_type"] != "qwen3_moe":  # transformers has it in every layer
            yield "window everywhere", dict(config, max_window_layers=0)
    if config["model_type"] == "gemma2":
        for key in ("attn_logit_softcapping", "final_logit_softcapping"):
            yield "no " + key, dict(config, **{key: None})
        yield "scale of the head size", dict(config, query_pre_attn_scalar=config["head_dim"])
    if config["model_type"] == "gpt_oss":
        scaling = config["rope_scaling"]
        yield "plain rope", dict(config, rope_scaling=dict(rope_type="default"))
        yield "rounded ramp", dict(config, rope_scaling=dict(scaling, truncate=not scaling["truncate"]))
        yield "no clamp", dict(config, swiglu_limit=1e9)
        yield "windows elsewhere", dict(config, layer_types=["full_attention"] * config["num_hidden_layers"])
    for key in ("use_qk_norm", "qk_layernorm"):
        if config.get(key):
            yield "no norms of q and k", dict(config, **{key: False})
    if config.get("use_parallel_residual"):
        yield "one after the other", dict(config, use_parallel_residual=False)
    if config["model_type"] == "smollm3":
        yield "all rotate", dict(config, no_rope_layers=[1] * config["num_hidden_layers"])
    for key in ("embedding_multiplier", "residual_multiplier", "logits_scaling", "logit_scale"):
        if key in config:
            yield "no " + key, dict(config, **{key: 1.0})
    if "attention_multiplier" in config:
        yield "scale of the head size", dict(config, attention_multiplier=(config["hidden_size"] //
                                                                           config["num_attention_heads"]) ** -0.5)
    if "gemma" in config["model_type"] or config["model_type"] == "olmo3":
        yield "windows elsewhere", dict(config, layer_types=["full_attention"] * config["num_hidden_layers"])
    if "rope_local_base_freq" in config:
        yield "one base", dict(config, rope_local_base_freq=config["rope_theta"])
    if config["model_type"] in ("glm4", "phi", "stablelm"):
        yield "other share", dict(config, partial_rotary_factor=1.0)
    if config["model_type"] in delta.FAMILIES:
        yield from delta.without(config)
    if "norm_topk_prob" in config:
        yield "other shares", dict(config, norm_topk_prob=not config["norm_topk_prob"])
    if config.get("num_experts_per_tok"):
        yield "one expert more", dict(config, num_experts_per_tok=config["num_experts_per_tok"] + 1)
    if config.get("partial_rotary_factor") and config["model_type"] == "phi3":
        yield "other share", dict(config, partial_rotary_factor=0.5, rope_scaling=longrope(4))


# ---- GGUF -----------------------------------------------------------------------------------------------------------

def llama3_divisors(scaling, base, rotary):
    """Computes rope_freqs.weight in float32 from the definition."""
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
    gemma = kind.startswith("gemma") or kind in ("olmo2", "gpt-oss", "qwen35", "qwen3next")
    if kind == "glm4":  # GLM-4's post-attention norm corresponds to other families' pre-feed-forward norm
        name = name.replace("post_attention_layernorm", "ffn_norm")
        name = name.replace("post_self_attn_layernorm", "post_attention_norm").replace("post_mlp_layernorm", "post_ffw_norm")
    for old, new in (("model.embed_tokens", "token_embd"), ("model.norm", "output_norm"),
                     ("model.final_layernorm", "output_norm"), ("self_attn.dense", "attn_output"),
                     ("mlp.fc1", "ffn_up"), ("mlp.fc2", "ffn_down"), ("lm_head", "output"),
                     ("model.layers.", "blk."), ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"),
                     ("self_attn.v_proj", "attn_v"), ("self_attn.qkv_proj", "attn_qkv"),
                     ("self_attn.o_proj", "attn_output"), ("self_attn.q_norm", "attn_q_norm"),
                     ("self_attn.q_layernorm.w", "attn_q_norm.w"), ("self_attn.q_layernorm.b", "attn_q_norm.b"),
                     ("self_attn.k_layernorm.w", "attn_k_norm.w"), ("self_attn.k_layernorm.b", "attn_k_norm.b"),
                     ("self_attn.k_norm", "attn_k_norm"), ("mlp.gate_up_proj", "ffn_up"), ("mlp.gate_proj", "ffn_gate"),
                     ("mlp.gate.", "ffn_gate_inp."), ("mlp.shared_expert_gate", "ffn_gate_inp_shexp"),
                     ("mlp.shared_expert.gate_proj", "ffn_gate_shexp"), ("mlp.shared_expert.up_proj", "ffn_up_shexp"),
                     ("mlp.shared_expert.down_proj", "ffn_down_shexp"), ("block_sparse_moe.gate.", "ffn_gate_inp."),
                     ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"), ("input_layernorm", "attn_norm"),
                     ("post_attention_layernorm", "post_attention_norm" if gemma else "ffn_norm"),
                     ("pre_feedforward_layernorm", "ffn_norm"), ("post_feedforward_layernorm", "post_ffw_norm")):
        name = name.replace(old, new)
    return name


EXPERT_NAMES = {"gate": ("mlp.experts.{}.gate_proj", "block_sparse_moe.experts.{}.w1"),
                "up": ("mlp.experts.{}.up_proj", "block_sparse_moe.experts.{}.w3"),
                "down": ("mlp.experts.{}.down_proj", "block_sparse_moe.experts.{}.w2")}


def stacks(prefix, state):
    """Returns the matrices of a layer's experts as transformers holds them: [experts, outputs, inputs] each."""
    gate_up = state[prefix + "mlp.experts.gate_up_proj"]
    half = gate_up.shape[1] // 2
    return {"gate": gate_up[:, :half], "up": gate_up[:, half:], "down": state[prefix + "mlp.experts.down_proj"]}


def published(config, state, blocks):
    """Returns tensors as files on the hub have them: one for each expert, or for gpt-oss one for all."""
    if config["model_type"] == "gpt_oss":
        return gpt_oss.published(state, blocks)
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
    """Converts the rotary order of each head from half-split to adjacent pairs."""
    shape = tensor.shape
    return tensor.reshape(heads, 2, shape[0] // heads // 2, -1).transpose(1, 2).reshape(shape)


def make_gguf(path, name, config, state, blocks):
    kind = {"mistral": "llama", "mixtral": "llama", "qwen2_moe": "qwen2moe", "qwen3_moe": "qwen3moe",
            "gemma3_text": "gemma3", "gpt_oss": "gpt-oss", "cohere": "command-r", "phi": "phi2",
            "olmo3": "olmo2", "qwen3_5_text": "qwen35",
            "qwen3_next": "qwen3next"}.get(config["model_type"], config["model_type"])
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
    if config["model_type"] in ("mistral", "phi3", "gpt_oss", "olmo3") and config.get("sliding_window"):
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
        if config["query_pre_attn_scalar"] != size:  # converters derive it by a rule for the published sizes
            keys[f"{kind}.attention.scale"] = config["query_pre_attn_scalar"] ** -0.5
        if "layer_types" in config:
            keys[f"{kind}.attention.sliding_window_pattern"] = [kind == "sliding_attention"
                                                                for kind in config["layer_types"]]
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
    if kind == "gpt-oss" and "layer_types" in config:
        keys[f"{kind}.attention.sliding_window_pattern"] = [layer == "sliding_attention"
                                                            for layer in config["layer_types"]]
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
        if "attention_factor" in scaling:  # GGUF's multiplier applies on top of the factor's own
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
    own = gpt_oss.gguf_tensors(state, blocks) if kind == "gpt-oss" else {}
    if config["model_type"] in delta.FAMILIES:
        keys.update(delta.gguf_keys(kind, config))
        tensors.update(delta.gguf_tensors(config, state))
    tensors.update(own)
    for old, tensor in state.items():
        if (own and (".mlp." in old or old.endswith(".sinks"))) or ".linear_attn." in old:
            continue
        if kind in ("llama", "smollm3", "granite") and (".q_proj." in old or ".k_proj." in old):
            tensor = interleave(tensor, heads if ".q_proj." in old else kv_heads)
        if old.endswith("mlp.experts.gate_up_proj"):
            for part, stack in stacks(old.split("mlp.")[0], state).items():
                tensors[gguf_name(old.split("mlp.")[0] + f"ffn_{part}_exps.weight", kind)] = stack
        elif old.endswith("mlp.shared_expert_gate.weight"):
            tensors[gguf_name(old, kind)] = tensor[0].float()
        elif not old.endswith("mlp.experts.down_proj"):
            vector = tensor.float() + (1 if kind.startswith(("gemma", "qwen35", "qwen3next")) else 0)  # norms; no biases
            tensors[gguf_name(old, kind)] = vector if tensor.dim() == 1 or "_norm." in old else tensor
    for old in [old for old in tensors if "_layernorm.norms.0." in old]:  # StableLM: a tensor for each head
        each = [tensors.pop(old.replace("norms.0.", f"norms.{head}.")) for head in range(heads if ".q_" in old else kv_heads)]
        tensors[old.replace("self_attn.", "attn_").replace("layernorm.norms.0", "norm")] = torch.stack(each)
    if name.endswith("-fused"):
        for old in [old for old in tensors if ".attn_q." in old]:
            parts = [tensors.pop(old.replace(".attn_q.", f".attn_{part}.")) for part in "qkv"]
            tensors[old.replace(".attn_q.", ".attn_qkv.")] = torch.cat(parts)
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
    """Writes a folder like Gemma3ForConditionalGeneration's on the hub, with a few image tensors."""
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
    blocks = gpt_oss.pack(full, generator) if "quantization_config" in config else {}
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
    save(folder, published(config, state, blocks), 2 if name in ("qwen2", "olmoe") else 1)
    make_gguf(os.path.join(folder, "model.gguf"), name, config, state, blocks)
    for case, count in cases.items():
        tokens = torch.randint(0, config["vocab_size"], (count,), generator=generator).tolist()
        tokens[count // 2:count // 2 + 4] = tokens[2:6]  # a repetition to attend to
        single = run(build(config, full), tokens, False)
        double = run(build(config, full), tokens, True)
        if config["model_type"] == "gpt_oss":
            deaf = {key: value - 1e4 if key.endswith("sinks") else value for key, value in full.items()}
            print(f"{name}: no sinks {worst(run(build(config, deaf), tokens, True), double):.1e}")
        others = ", ".join(f"{what} {worst(run(build(other, full), tokens, True), double):.1e}"
                           for what, other in without(config))
        print(f"{name} {case}: float32 {worst(single, double):.1e}" + (f"; {others}" if others else ""))
        with open(os.path.join(folder, f"{case}.golden"), "wb") as file:
            file.write(struct.pack("<4i", count, config["vocab_size"], count, 0))
            file.write(np.array(tokens, dtype="<i4").tobytes() + double.astype("<f8").tobytes())


def rotary(config):
    """Returns inv_freq and attention factor, computed by transformers' rotary module."""
    scaling = config.get("rope_scaling") or {}
    if scaling.get("type") == "su":  # an old name, which transformers 5 does not accept
        config = dict(config, rope_scaling=dict(scaling, type="longrope"))
    made = AutoConfig.for_model(**copy.deepcopy(config))  # for_model changes its argument
    kind = {"llama": "llama.modeling_llama.Llama", "mistral": "mistral.modeling_mistral.Mistral",
            "qwen2": "qwen2.modeling_qwen2.Qwen2", "qwen3": "qwen3.modeling_qwen3.Qwen3",
            "phi3": "phi3.modeling_phi3.Phi3", "gemma3_text": "gemma3.modeling_gemma3.Gemma3",
            "gpt_oss": "gpt_oss.modeling_gpt_oss.GptOss"}[config["model_type"]]
    module, name = kind.rsplit(".", 1)
    rope = getattr(importlib.import_module("transformers.models." + module), name + "RotaryEmbedding")(made)
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
    """Writes one config.json and one list of frequencies (float32 as hexadecimal reals) for each real geometry."""
    os.makedirs(os.path.join(out, "rope"), exist_ok=True)
    for name, config in ROPES.items():
        with open(os.path.join(out, "rope", name + ".json"), "w") as file:
            json.dump(config, file)
        found = rotary(config)
        with open(os.path.join(out, "rope", name + ".txt"), "w") as file:
            file.write(f"{found['attention_factor'].hex()} {len(found['short'])} {int('long' in found)}\n")
            file.writelines(value.hex() + "\n" for value in found["short"] + found.get("long", []))


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
