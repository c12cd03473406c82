#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets, except for JSON tokenizers: very small models and files, each with a different
part of the formats. Needs only Python.

    tests/golden/make_fuzz_seeds.py tests/fuzz/seeds
"""
import json
import os
import struct
import sys

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
PACK = {U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<B", U64: "<Q", I64: "<q", F64: "<d"}
BLOCK = {0: (1, 4), 1: (1, 2), 30: (1, 2), 8: (32, 34), 2: (32, 18), 6: (32, 22), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210)}


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, v):
    if kind == STRING:
        return string(v)
    if kind == ARRAY:
        element, items = v
        return struct.pack("<IQ", element, len(items)) + b"".join(value(element, i) for i in items)
    return struct.pack(PACK[kind], v)


def gguf(keys, tensors, alignment=32, version=3, small=False):
    """keys: (name, kind, value). tensors: (name, type, shape outermost first). small: use values that inference can
    compute with."""
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for name, kind, v in keys:
        head += string(name) + struct.pack("<I", kind) + value(kind, v)
    data = b""
    for name, kind, shape in tensors:
        elements, size = BLOCK[kind]
        count = 1
        for d in shape:
            count *= d
        head += string(name) + struct.pack("<I", len(shape)) + b"".join(struct.pack("<Q", d) for d in reversed(shape))
        head += struct.pack("<IQ", kind, len(data))
        if name.startswith("rope_"):
            data += struct.pack("<%df" % count, *(1 + i for i in range(count)))
        elif small and kind == 0:
            data += struct.pack("<%df" % count, *((i * 7919 % 97 - 40) / 64 for i in range(count)))
        else:
            data += bytes(i % 61 for i in range(count // elements * size))
        data += bytes(-len(data) % alignment)
    return head + bytes(-len(head) % alignment) + data


def model(arch, kind=0, fused=False, norms=False, bias=False, tied=True, hidden=8, feed=8, experts=0,
          shared=False):
    heads, kv, d, vocab = 2, 1, 4, 24
    keys = [("general.architecture", STRING, arch), ("general.name", STRING, "seed")]
    for name, v in (("block_count", 1), ("embedding_length", hidden), ("feed_forward_length", feed), ("context_length", 64),
                    ("attention.head_count", heads), ("attention.head_count_kv", kv), ("attention.key_length", d),
                    ("attention.value_length", d), ("rope.dimension_count", d), ("vocab_size", vocab)):
        keys.append((f"{arch}.{name}", U32, v))
    keys += [(f"{arch}.attention.layer_norm_rms_epsilon", F32, 1e-5), (f"{arch}.rope.freq_base", F32, 10000.0)]
    t = [("token_embd.weight", kind, (vocab, hidden)), ("output_norm.weight", 0, (hidden,)),
         ("blk.0.attn_norm.weight", 0, (hidden,)), ("blk.0.ffn_norm.weight", 0, (hidden,)),
         ("blk.0.attn_output.weight", kind if heads * d % BLOCK[kind][0] == 0 else 0, (hidden, heads * d))]
    if experts:
        keys += [(f"{arch}.expert_count", U32, experts), (f"{arch}.expert_used_count", U32, 2),
                 (f"{arch}.expert_feed_forward_length", U32, feed)]
        t += [("blk.0.ffn_gate_inp.weight", 0, (experts, hidden)), ("blk.0.ffn_gate_exps.weight", kind, (experts, feed, hidden)),
              ("blk.0.ffn_up_exps.weight", kind, (experts, feed, hidden)), ("blk.0.ffn_down_exps.weight", kind, (experts, hidden, feed))]
    else:
        t += [("blk.0.ffn_down.weight", kind, (hidden, feed))]
    if shared:
        t += [("blk.0.ffn_gate_inp_shexp.weight", 0, (hidden,)), ("blk.0.ffn_gate_shexp.weight", kind, (feed, hidden)),
              ("blk.0.ffn_up_shexp.weight", kind, (feed, hidden)), ("blk.0.ffn_down_shexp.weight", kind, (hidden, feed))]
    if fused:
        t += [("blk.0.attn_qkv.weight", kind, ((heads + 2 * kv) * d, hidden)), ("blk.0.ffn_up.weight", kind, (2 * feed, hidden))]
    else:
        t += [("blk.0.attn_q.weight", kind, (heads * d, hidden)), ("blk.0.attn_k.weight", kind, (kv * d, hidden)),
              ("blk.0.attn_v.weight", kind, (kv * d, hidden))]
    if not fused and not experts:
        t += [("blk.0.ffn_gate.weight", kind, (feed, hidden)), ("blk.0.ffn_up.weight", kind, (feed, hidden))]
    if norms:
        t += [("blk.0.attn_q_norm.weight", 0, (d,)), ("blk.0.attn_k_norm.weight", 0, (d,))]
    if bias:
        t += [("blk.0.attn_q.bias", 0, (heads * d,)), ("blk.0.attn_k.bias", 0, (kv * d,)), ("blk.0.attn_v.bias", 0, (kv * d,))]
    if not tied:
        t += [("output.weight", kind, (vocab, hidden))]
    return keys, t


def spoken(vocab=24):
    tokens = ["<unk>", "<s>", "</s>", "<0x61>", "<0x0A>", "<0xFF>", "\u2581", "a", "t", "e", "x", "\u2581a", "te", "xt", "text"]
    tokens += [f"w{i}" for i in range(vocab - len(tokens))]
    types = [2, 3, 3, 6, 6, 6] + [1] * (vocab - 6)
    return [("tokenizer.ggml.model", STRING, "llama"), ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
            ("tokenizer.ggml.scores", ARRAY, (F32, [-float(i) for i in range(vocab)])),
            ("tokenizer.ggml.token_type", ARRAY, (I32, types)), ("tokenizer.ggml.bos_token_id", U32, 1),
            ("tokenizer.ggml.eos_token_id", U32, 2), ("tokenizer.ggml.unknown_token_id", U32, 0),
            ("tokenizer.ggml.add_bos_token", BOOL, 1), ("tokenizer.chat_template", STRING, "{{ messages }} [INST]")]


def byte_level(vocab=24, pre="llama-bpe"):
    tokens = ["a", "t", "e", "x", "\u0120", "1", "2", "te", "xt", "text", "\u0120a", "12"]
    tokens += [f"w{i}" for i in range(vocab - 2 - len(tokens))] + ["<|begin|>", "<|end|>"]
    types = [1] * (vocab - 2) + [3, 3]
    merges = ["t e", "x t", "te xt", "\u0120 a", "1 2"]
    return [("tokenizer.ggml.model", STRING, "gpt2"), ("tokenizer.ggml.pre", STRING, pre),
            ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)), ("tokenizer.ggml.token_type", ARRAY, (I32, types)),
            ("tokenizer.ggml.merges", ARRAY, (STRING, merges)), ("tokenizer.ggml.bos_token_id", U32, vocab - 2),
            ("tokenizer.ggml.eos_token_id", U32, vocab - 1)]


def embedded(vocab=24):
    words = {f"w{i}": i for i in range(vocab)}
    text = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"},
            "post_processor": None, "decoder": None, "model": {"type": "WordLevel", "vocab": words, "unk_token": "w0"}}
    return [("tokenizer.ggml.model", STRING, "huggingface"), ("tokenizer.huggingface.json", STRING, json.dumps(text)),
            ("tokenizer.ggml.bos_token_id", U32, 1), ("tokenizer.ggml.eos_token_id", U32, 2),
            ("tokenizer.ggml.add_bos_token", BOOL, 1)]


def gguf_seeds():
    yield "empty", gguf([], [])
    yield "values", gguf([(f"k.{kind}", kind, 1) for kind in PACK] +
                         [("k.text", STRING, "text")] + [(f"k.array.{kind}", ARRAY, (kind, [1, 0, 1])) for kind in PACK] +
                         [("k.texts", ARRAY, (STRING, ["one", "", "three"])), ("general.alignment", U32, 64)], [], 64)
    yield "types", gguf([], [(f"t{kind}", kind, (2, BLOCK[kind][0])) for kind in BLOCK], version=2)
    for name, arguments, text in (("llama", {}, spoken()), ("qwen2", {"bias": True, "tied": False}, byte_level(pre="qwen2")),
                                  ("qwen3", {"norms": True, "kind": 1}, byte_level()),
                                  ("phi3", {"fused": True, "kind": 30}, embedded())):
        keys, tensors = model(name, **arguments)
        yield name, gguf(keys + text, tensors)
    keys, tensors = model("llama", kind=8, hidden=32, feed=32)
    yield "blocks", gguf(keys + byte_level(pre="gpt-2"), tensors)
    keys, tensors = model("llama")
    yield "llama3", gguf(keys, tensors + [("rope_freqs.weight", 0, (2,))])
    keys, tensors = model("phi3", fused=True)
    yield "longrope", gguf(keys + [("phi3.rope.scaling.original_context_length", U32, 16), ("phi3.attention.sliding_window", U32, 8),
                                   ("phi3.rope.scaling.attn_factor", F32, 1.2)],
                           tensors + [("rope_factors_short.weight", 0, (2,)), ("rope_factors_long.weight", 0, (2,))])
    keys, tensors = model("qwen2", bias=True)
    yield "yarn", gguf(keys + [("qwen2.rope.scaling.type", STRING, "yarn"), ("qwen2.rope.scaling.factor", F32, 4.0),
                               ("qwen2.rope.scaling.original_context_length", U32, 16),
                               ("qwen2.attention.sliding_window", U32, 8),
                               ("qwen2.attention.sliding_window_pattern", ARRAY, (BOOL, [1]))], tensors)
    keys, tensors = model("llama")
    split = [("split.count", U16, 2), ("split.tensors.count", I32, len(tensors))]
    first = gguf(keys + split + [("split.no", U16, 0)], tensors[:4])
    yield "parts", b"PART" + struct.pack("<I", len(first)) + first + gguf(split + [("split.no", U16, 1)], tensors[4:])


def safetensors(entries, padding=0, metadata=None):
    header, at, size = {}, 0, {"F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "U8": 1}
    if metadata:
        header["__metadata__"] = metadata
    for name, dtype, shape in entries:
        count = size[dtype]
        for d in shape:
            count *= d
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + count]}
        at += count
    text = json.dumps(header, separators=(",", ":")).encode() + b" " * padding
    return struct.pack("<Q", len(text)) + text + bytes(i % 251 for i in range(at))


def safetensors_seeds():
    yield "empty", safetensors([])
    yield "one", safetensors([("model.norm.weight", "F32", [4])])
    yield "three", safetensors([("a", "F32", [2, 3]), ("b", "F16", [1, 2, 3]), ("c", "BF16", [])], 3, {"format": "pt"})
    yield "misaligned", safetensors([("a", "F16", [1]), ("b", "F32", [2])], 1)
    yield "blocks", safetensors([("w", "F8_E4M3", [130, 2]), ("w_scale_inv", "BF16", [2, 1])])
    yield "rows", safetensors([("w_scale", "F32", [3, 1]), ("w", "F8_E4M3", [3, 2])])
    yield "mxfp4", safetensors([("w_blocks", "U8", [1, 2, 16]), ("w_scales", "U8", [1, 2])])
    yield "index", json.dumps({"metadata": {"total_size": 8}, "weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}).encode()
    yield "outside", json.dumps({"weight_map": {"a": "../one.safetensors"}}).encode()


def config_seeds():
    base = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2, "num_attention_heads": 2,
            "num_key_value_heads": 1, "vocab_size": 24, "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
            "rope_theta": 10000.0, "tie_word_embeddings": True, "bos_token_id": 1, "eos_token_id": [2, 3]}
    yield "llama", {**base, "model_type": "llama", "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0, "original_max_position_embeddings": 16}}
    yield "linear", {**base, "model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2.0}, "attention_bias": True}
    yield "mistral", {**base, "model_type": "mistral", "sliding_window": 16, "head_dim": 6}
    yield "qwen2", {**base, "model_type": "qwen2", "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1,
                    "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}}
    yield "qwen3", {**base, "model_type": "qwen3", "head_dim": 4, "layer_types": ["full_attention", "full_attention"]}
    yield "experts", {**base, "model_type": "qwen2_moe", "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": False,
                      "moe_intermediate_size": 4, "shared_expert_intermediate_size": 6, "decoder_sparse_step": 1,
                      "mlp_only_layers": []}
    yield "phi3", {**base, "model_type": "phi3", "original_max_position_embeddings": 16, "partial_rotary_factor": 0.5,
                   "rope_scaling": {"type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}}


def run_seeds():
    for arch, options in (("llama", {"tied": False}), ("qwen2", {"bias": True}), ("qwen3", {"norms": True}), ("phi3", {"fused": True})):
        keys, tensors = model(arch, **options)
        yield arch, gguf(keys, tensors, small=True)
    for name, arch, options in (("mixtral", "llama", {"experts": 3}),
                                ("qwen2moe", "qwen2moe", {"bias": True, "experts": 5, "shared": True})):
        keys, tensors = model(arch, **options)
        yield name, gguf(keys, tensors, small=True)
    keys, tensors = model("llama", kind=1)
    yield "f16", gguf(keys, tensors, small=True)


def policy_seeds():
    place = bytes([15, 7, 8, 80, 0, 195, 40, 0])
    for i, spec in enumerate(("snapkv:budget=10%+morphkv:budget=512", "take:budget=64,chunk=50,probe=8+quest:budget=40,page=4",
                              "dapq:budget=5,content=random,pseudo=9", "duo:file=every-other,sinks=4,recent=9",
                              "lacache:budget=90,span=2,sinks=4,positions=cache+hsa:budget=20", "cake:budget=40,layers=0-3",
                              "fastkv:budget=40,tsp=48,tsp_layer=2+sparq:budget=9", "adakv:budget=40+h2o:budget=41,per=head",
                              "rocketkv-mt:budget=66+keyformer:budget=66", "streaming:budget=\"64\",sinks=4,stages=decode")):
        yield f"policy{i}", bytes([place[0] + i]) + place[1:] + spec.encode()


def list_seeds():
    yield "tokens", b"\0" + b"1 2,3\n\n 4 2147483647\t"
    yield "more", b"\1" + b" ".join(b"%d" % i for i in range(300))
    yield "scores", b"\2" + b"0.5 1 0.25\n1e-3 -2 +7.5\n"
    yield "shares", b"\3" + b"0 1 0\r\n1 1 1\n\n"
    layers = b"".join(b"layer %d rotary 2\n" % l + b"0.5 -1 2e-3 0 1.5\r\n" * 6 for l in range(2))
    yield "statistics", b"\4" + b"kvcull query statistics 1\nmodel any\ntokens 7\nshape 2 6 4\n" + layers
    layers = b"".join(b"layer %d rotary 4\n" % l + b"0.5 -1 2e-3 0 1 0 1 0 0 1 0 0 0 1\n" * 6 for l in range(2))
    yield "covariances", b"\5" + b"kvcull query covariances 1\nmodel any\ntokens 7\nshape 2 6 4\n" + layers
    layers = b"".join(b"layer %d rotary 4\n" % l + b"0.5 -1 2e-3 0\n" * 3 for l in range(2))
    yield "filters", b"\6" + b"kvcull query filters 1\nmodel any\ntokens 7\nshape 2 3 4\n" + layers


def replay_seeds():
    q, kv = [6, 4, 2], [6, 2, 2]
    dump = [(f"layers.{l}.{n}", "F32", q if n == "q" else kv) for l in range(2) for n in "qkv"]
    pseudo = [(f"layers.{l}.pseudo_{n}", "F32", [2, 4 if n == "q" else 2, 2]) for l in range(2) for n in "qk"]
    for i in (0, 3, 4, 128, 131):
        yield f"dump{i}", bytes([i]) + safetensors(dump)
    yield "pseudo", bytes([1]) + safetensors(dump + pseudo)


def word_seeds():
    names = ("keys", "numbers", "nouns", "adjectives", "verbs", "people", "places", "prepositions")
    yield "words", {name: ["one", "two\u00e9"] for name in names}
    yield "few", {name: ["one"] for name in names}


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def field(number, v):
    """Encodes a number, a float or bytes in protobuf's wire format."""
    if isinstance(v, int):
        return varint(number << 3) + varint(v)
    if isinstance(v, float):
        return varint(number << 3 | 5) + struct.pack("<f", v)
    return varint(number << 3 | 2) + varint(len(v)) + v


def piece_seeds():
    normal = [(text, 1) for text in ("\u2581", "a", "t", "e", "x", "\u2581a", "te", "xt", "text", "\u00e9")]
    special, runs = [("<unk>", 2), ("<s>", 3), ("</s>", 3)], [("\u2581\u2581", 4), ("\n\n", 4), ("<user>", 4)]
    for name, pieces, trainer, normalizer in (
            ("plain", special + normal, [(3, 2)], [(1, b"identity")]),
            ("bytes", special + [(f"<0x{i:02X}>", 6) for i in range(256)] + normal, [(3, 2), (35, 1)], [(1, b"identity"), (4, 0)]),
            ("runs", special + runs + normal, [(3, 2), (46, b"<s>"), (47, b"</s>")], [(3, 0), (4, 0), (5, 1)]),
            ("unigram", special + normal, [(3, 1)], [(1, b"nmt_nfkc"), (2, b"map")])):
        yield name, b"".join(field(1, field(1, text.encode()) + field(2, -float(i)) + field(3, kind))
                             for i, (text, kind) in enumerate(pieces)) + \
            field(2, b"".join(field(*f) for f in trainer)) + field(3, b"".join(field(*f) for f in normalizer))


def main():
    for name, seeds in (("pieces", piece_seeds()), ("run", run_seeds()), ("policy", policy_seeds()), ("lists", list_seeds()), ("replay", replay_seeds()),
                        ("words", word_seeds()), ("gguf", gguf_seeds()), ("safetensors", safetensors_seeds()), ("config", config_seeds())):
        folder = os.path.join(sys.argv[1], name)
        os.makedirs(folder, exist_ok=True)
        for seed, data in seeds:
            with open(os.path.join(folder, seed), "wb") as file:
                file.write(data if isinstance(data, bytes) else json.dumps(data).encode())


if __name__ == "__main__":
    main()
