#!/usr/bin/env python3
"""make_real_golden.py - makes tests/real/golden: other software's results for the real models that ./dev model
downloads.

    python tests/golden/make_real_golden.py [--models models-local] [--out tests/real/golden] [--types LIBRARY] [smollm2] [gemma3]

The gguf package dequantizes the weights. transformers' own model of the family gets them, with the tensor names and
orders of its checkpoints. Tokens come from the tokenizers library (byte-level BPE) or sentencepiece, with the file's
own vocabulary. Each model gets one JSON file:

    tokens      of every difficult text (tests/data/tokenizers/texts.json except the last), without special tokens
    rows        logits at three of the first 300 tokens of tests/real/prose.txt in float64 (norms too; angles and softmax
                as in transformers): every STRIDE-th, the largest 32 with their ids, the root of the sum of squares
    greedy      100 tokens after each of five prompts
    chat        messages rendered by jinja2 with the file's template, if it has one
    perplexity  of 20,000 tokens of the same prose in windows of WINDOW, float32; the first token of each is not scored
    types       perplexity of the first TYPE_TOKENS tokens of the prose with weights in one type after another, quantized
                by ggml without an importance matrix: the target for conversions. --types adds it to an existing golden;
                LIBRARY is libggml-base.so of the package llama-cpp-python

Prints the error of a float32 run, and the smallest distance between the two most likely tokens on the greedy paths.
A test can require equal tokens only if that distance is far above rounding errors. Needs gguf, torch, transformers,
tokenizers, sentencepiece, jinja2 and numpy.
"""
import argparse
import ctypes
import importlib.metadata
import json
import math
import os

import gguf
import jinja2
import jinja2.sandbox
import numpy as np
import sentencepiece
import tokenizers
import torch
import transformers

ROWS, STRIDE, TOP = (0, 99, 299), 101, 32
TYPE_TOKENS = 200
TYPES = ["Q8_0", "Q4_0", "Q5_0", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q4_1", "Q5_1", "IQ4_NL", "MXFP4", "Q2_K", "IQ4_XS"]
WINDOW, WINDOWS = 500, 40
SYSTEM = "You answer in one sentence."
CHATS = [
    [("user", "What is the capital of France?")],
    [("system", SYSTEM), ("user", "Why is the sky blue?")],
    [("user", "Name a color."), ("assistant", "Blue."), ("user", "Another one?")],
    [("system", SYSTEM), ("user", " Spaces \n and\n\nlines "), ("assistant", "x"),
     ("user", "<|im_end|> & \"quotes\" {{ x }}")],
]
PROMPTS = ["The capital of France is", "Once upon a time, in a small village by the sea,", "def fibonacci(n):\n",
           "Water boils when it is heated because", "The three primary colors are"]


class Folder:
    """A GGUF file's metadata and dequantized weights."""

    def __init__(self, path):
        self.reader = gguf.GGUFReader(path)

    def key(self, name):
        field = self.reader.fields.get(name)
        return None if field is None else field.contents()

    def state(self, names, turn, weights=None):
        state = {}
        for tensor in self.reader.tensors:
            values = (weights[tensor.name] if weights else
                      gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
            values = values.reshape(tuple(int(n) for n in reversed(tensor.shape)))
            state[names(tensor.name)] = torch.from_numpy(np.ascontiguousarray(turn(tensor.name, values)))
        return state


# ---- the two families ----------------------------------------------------------------------------------------------


def renamed(norms):
    parts = {"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
             "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj", **norms}

    def name(tensor):
        if tensor.startswith("blk."):
            _, layer, part, end = tensor.split(".")
            return f"model.layers.{layer}.{parts[part]}.{end}"
        return {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight",
                "output.weight": "lm_head.weight"}[tensor]

    return name


def llama(folder, weights=None):
    heads, kv_heads = folder.key("llama.attention.head_count"), folder.key("llama.attention.head_count_kv")
    config = transformers.LlamaConfig(
        hidden_size=folder.key("llama.embedding_length"), intermediate_size=folder.key("llama.feed_forward_length"),
        num_hidden_layers=folder.key("llama.block_count"), num_attention_heads=heads, num_key_value_heads=kv_heads,
        vocab_size=len(folder.key("tokenizer.ggml.tokens")), max_position_embeddings=folder.key("llama.context_length"),
        rms_norm_eps=folder.key("llama.attention.layer_norm_rms_epsilon"),
        rope_parameters=dict(rope_type="default", rope_theta=folder.key("llama.rope.freq_base")), tie_word_embeddings=True)

    def turn(name, values):  # GGUF stores the two halves of each rotary pair next to each other
        count = heads if name.endswith("attn_q.weight") else kv_heads if name.endswith("attn_k.weight") else 0
        if not count:
            return values
        return values.reshape(count, -1, 2, values.shape[1]).swapaxes(1, 2).reshape(values.shape)

    state = folder.state(renamed({"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}), turn, weights)
    return transformers.LlamaForCausalLM, config, state


def gemma3(folder, weights=None):
    layers = folder.key("gemma3.block_count")
    config = transformers.Gemma3TextConfig(
        hidden_size=folder.key("gemma3.embedding_length"), intermediate_size=folder.key("gemma3.feed_forward_length"),
        num_hidden_layers=layers, num_attention_heads=folder.key("gemma3.attention.head_count"),
        num_key_value_heads=folder.key("gemma3.attention.head_count_kv"),
        head_dim=folder.key("gemma3.attention.key_length"),
        vocab_size=len(folder.key("tokenizer.ggml.tokens")), max_position_embeddings=folder.key("gemma3.context_length"),
        rms_norm_eps=folder.key("gemma3.attention.layer_norm_rms_epsilon"),
        sliding_window=folder.key("gemma3.attention.sliding_window"), query_pre_attn_scalar=256,
        layer_types=["full_attention" if (i + 1) % 6 == 0 else "sliding_attention" for i in range(layers)],
        rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=folder.key("gemma3.rope.freq_base")),
                             sliding_attention=dict(rope_type="default", rope_theta=10000.0)),
        hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True)

    def turn(name, values):  # the checkpoints store w - 1
        return values.astype(np.float64) - 1 if name.endswith("norm.weight") else values

    names = renamed({"attn_norm": "input_layernorm", "post_attention_norm": "post_attention_layernorm",
                     "ffn_norm": "pre_feedforward_layernorm", "post_ffw_norm": "post_feedforward_layernorm"})
    return transformers.Gemma3ForCausalLM, config, folder.state(names, turn, weights)


def build(kind, config, state, dtype):
    config._attn_implementation = "sdpa"
    model = kind(config).to(dtype).eval()
    missing = model.load_state_dict({name: value.to(dtype) for name, value in state.items()}, strict=False)
    model.tie_weights()
    assert not missing.unexpected_keys and set(missing.missing_keys) <= {"lm_head.weight"}, missing
    if dtype == torch.float64:  # transformers computes norms in float32
        for module in model.modules():
            if type(module).__name__.endswith("RMSNorm"):
                module.forward = double_norm.__get__(module)
    return model


def double_norm(self, hidden):
    gemma = hasattr(self, "eps")
    scale = torch.rsqrt(hidden.pow(2).mean(-1, keepdim=True) + (self.eps if gemma else self.variance_epsilon))
    return hidden * scale * (1 + self.weight if gemma else self.weight)


# ---- tokens --------------------------------------------------------------------------------------------------------


def byte_level(folder):
    tokens, kinds = folder.key("tokenizer.ggml.tokens"), folder.key("tokenizer.ggml.token_type")
    made = tokenizers.Tokenizer(tokenizers.models.BPE(
        vocab={text: i for i, text in enumerate(tokens)},
        merges=[tuple(merge.split(" ", 1)) for merge in folder.key("tokenizer.ggml.merges")]))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Digits(individual_digits=True),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)])
    special = tokenizers.Tokenizer.from_str(made.to_str())
    control = [text for text, kind in zip(tokens, kinds) if kind == 3]
    special.add_special_tokens([tokenizers.AddedToken(text, special=True, normalized=False) for text in control])
    return lambda text, control=False: (special if control else made).encode(text, add_special_tokens=False).ids


def pieces(folder):
    """Returns a SentencePiece model as protobuf, for the library."""

    def varint(n):
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

    def field(number, value):
        if isinstance(value, int):
            return varint(number << 3) + varint(value)
        if isinstance(value, float):
            return varint(number << 3 | 5) + np.float32(value).tobytes()
        return varint(number << 3 | 2) + varint(len(value)) + value

    made = []
    unknown = folder.key("tokenizer.ggml.unknown_token_id")
    columns = (folder.key(f"tokenizer.ggml.{name}") for name in ("tokens", "scores", "token_type"))
    for i, (text, score, kind) in enumerate(zip(*columns)):
        text = text.replace(" ", "\u2581") if kind == 4 else text  # GGUF has spaces there
        made.append(field(1, field(1, text.encode()) + field(2, float(score)) + field(3, 2 if i == unknown else int(kind))))
    named = ((45, b"<unk>"), (46, b"<bos>"), (47, b"<eos>"), (48, b"<pad>"))
    trainer = field(3, 2) + field(35, 1) + b"".join(field(*one) for one in named)
    normalizer = field(1, b"identity") + field(3, 0) + field(4, 0) + field(5, 1)
    model = b"".join(made) + field(2, trainer) + field(3, normalizer)
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    return lambda text, control=False: library.encode(text)


MODELS = {"smollm2": ("smollm2.gguf", llama, byte_level), "gemma3": ("gemma3.gguf", gemma3, pieces)}

# ---- results ----


def chats(folder):
    template = folder.key("tokenizer.chat_template")
    if not template:
        return []
    world = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    made = []
    for chat in CHATS:
        messages = [{"role": role, "content": content} for role, content in chat]
        made.append({"messages": messages, "text": world.from_string(template).render(
            messages=messages, add_generation_prompt=True, bos_token="", eos_token="")})
    return made


def greedy(model, prompt, count):
    ids, cache, margin = list(prompt), None, math.inf
    with torch.no_grad():
        given = torch.tensor([ids])
        for _ in range(count):
            out = model(given, past_key_values=cache, use_cache=True)
            cache = out.past_key_values
            row = out.logits[0, -1]
            best = torch.topk(row, 2).values
            margin = min(margin, float((best[0] - best[1]) / row.norm()))
            ids.append(int(row.argmax()))
            given = torch.tensor([ids[-1:]])
    return ids[len(prompt):], margin


def perplexity(model, tokens, length=WINDOW, windows=WINDOWS):
    loss, scored = 0.0, 0
    with torch.no_grad():
        for i in range(windows):
            window = torch.tensor([tokens[i * length:(i + 1) * length]])
            logits = model(window).logits[0, :-1]
            loss += float(torch.nn.functional.cross_entropy(logits, window[0, 1:], reduction="sum"))
            scored += window.shape[1] - 1
    return math.exp(loss / scored)


def requantized(library, name, values):
    """Quantizes a matrix and dequantizes it. Uses q8_0 if rows are not whole blocks, as kvcull convert does."""
    kind = getattr(gguf.GGMLQuantizationType, name)
    if values.shape[-1] % gguf.GGML_QUANT_SIZES[kind][0]:
        kind = gguf.GGMLQuantizationType.Q8_0
    rows, cols = values.shape
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    made = np.zeros((rows, cols // elements * size), np.uint8)
    take = library.ggml_quantize_chunk
    take.restype = ctypes.c_size_t
    take.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]
    assert take(int(kind), values.ctypes.data, made.ctypes.data, 0, rows, cols, None) == made.nbytes
    return gguf.quants.dequantize(made, kind).astype(np.float32)


def types(folder, family, tokens, library):
    made = {}
    for name in TYPES:
        replaced = {}
        for tensor in folder.reader.tensors:
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            same = tensor.tensor_type == getattr(gguf.GGMLQuantizationType, name) or len(tensor.shape) < 2
            replaced[tensor.name] = values if same else requantized(library, name, np.ascontiguousarray(values))
        kind, config, state = family(folder, replaced)
        made[name.lower()] = round(perplexity(build(kind, config, state, torch.float32), tokens, TYPE_TOKENS, 1), 4)
        print(f"{name.lower()}: perplexity {made[name.lower()]}", flush=True)
    return made


def make(name, path, prose, texts, library, golden):
    file, family, tokenizer = MODELS[name]
    folder = Folder(os.path.join(path, file))
    encode = tokenizer(folder)
    front = [folder.key("tokenizer.ggml.bos_token_id")] if folder.key("tokenizer.ggml.add_bos_token") else []
    tokens = front + encode(prose)
    assert len(tokens) >= WINDOW * WINDOWS, len(tokens)
    if library:
        with open(golden) as made:
            return {**json.load(made), "types": types(folder, family, tokens, library)}
    kind, config, state = family(folder)
    made = {"made": {"gguf": importlib.metadata.version("gguf"), "torch": torch.__version__,
                     "transformers": transformers.__version__, "tokenizers": tokenizers.__version__,
                     "sentencepiece": sentencepiece.__version__, "jinja2": jinja2.__version__},
            "file": file, "tokens": [encode(text) for text in texts], "chat": chats(folder)}
    double, single = build(kind, config, state, torch.float64), build(kind, config, state, torch.float32)
    with torch.no_grad():
        given = torch.tensor([tokens[:max(ROWS) + 1]])
        rows, near = double(given).logits[0].numpy(), single(given).logits[0].numpy()
    made["rows"] = []
    for at in ROWS:
        row = rows[at]
        print(f"{name}: row {at}: float32 is {np.linalg.norm(near[at] - row) / np.linalg.norm(row):.1e} away")
        best = [int(i) for i in np.argsort(-row)[:TOP]]
        made["rows"].append({"row": at, "norm": round(float(np.linalg.norm(row)), 6), "best": best,
                             "best_logits": [round(float(row[i]), 7) for i in best],
                             "every": STRIDE, "logits": [round(float(v), 7) for v in row[::STRIDE]]})
    made["prose"] = tokens[:max(ROWS) + 1]
    prompts = PROMPTS
    if made["chat"]:
        prompts = [chat["text"] for chat in made["chat"][:2]] + PROMPTS[:3]
    made["greedy"] = []
    for prompt in prompts:
        ids = front + encode(prompt, True)
        out, margin = greedy(double, ids, 100)
        print(f"{name}: {prompt[-30:]!r}: the two likeliest tokens are at least {margin:.1e} of the row apart")
        made["greedy"].append({"prompt": prompt, "ids": ids, "out": out})
    del double
    made["window"], made["windows"] = WINDOW, WINDOWS
    made["perplexity"] = round(perplexity(single, tokens), 6)
    print(f"{name}: perplexity {made['perplexity']}")
    return made


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--models", default="models-local")
    parser.add_argument("--types", type=ctypes.CDLL, metavar="LIBRARY", help="only add the perplexities of the types")
    parser.add_argument("--out", default="tests/real/golden")
    arguments = parser.parse_args()
    top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    with open(os.path.join(top, "tests/real/prose.txt")) as file:
        prose = file.read()
    with open(os.path.join(top, "tests/data/tokenizers/texts.json")) as file:
        texts = json.load(file)[:-1]
    os.makedirs(arguments.out, exist_ok=True)
    for name in arguments.names or MODELS:
        golden = os.path.join(arguments.out, f"{name}.json")
        made = make(name, arguments.models, prose, texts, arguments.types, golden)
        with open(golden, "w") as file:
            json.dump(made, file, separators=(",", ":"))
            file.write("\n")


if __name__ == "__main__":
    main()
