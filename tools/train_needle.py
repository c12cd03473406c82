#!/usr/bin/env python3
"""Trains a small Llama-shaped model to find numbers in a long text, like the one in data/demo.

    tools/train_needle.py --words data/demo/words.json --out DIR [--hours 1.5] [--seed 1]

Needs torch, safetensors and the words file; downloads nothing. Training begins with repeated random sequences, which
form induction heads; without them the model never learns to look up a key. Then come texts with facts, mixed with
fewer and fewer random sequences, at 128, 256, 512, 1024 and finally 2048 tokens. Writes config.json,
model.safetensors, tokenizer.json and tokenizer_config.json. `kvcull eval needle -m DIR --kv full` measures the
result.
"""
import argparse
import json
import os
import random
import time

import torch
import torch.nn.functional as F
from safetensors.torch import save_file

LAYERS, WIDTH, HEADS, KV_HEADS, HEAD_SIZE, FEED, CONTEXT, THETA, EPS = 4, 128, 8, 2, 32, 320, 2048, 10000.0, 1e-5
SPECIAL = ["<s>", "</s>", "<pad>"]
GRAMMAR = ["the", "a", "and", "then", ".", "?", "is", "what", "magic", "number", "for", "of", "answer", "question", ":"]
TAIL = ["list", "all", "remember"]
LISTS = ["numbers", "keys", "nouns", "adjectives", "verbs", "people", "places", "prepositions"]


# ---- words and texts ------------------------------------------------------------------------------------------------

class Words:
    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            self.lists = {name: words for name, words in json.load(file).items() if isinstance(words, list)}
        order = GRAMMAR + SPECIAL + TAIL + [word for name in LISTS for word in self.lists[name]]
        self.ids = {}
        for word in order:
            self.ids.setdefault(word, len(self.ids))

    def encode(self, text):
        return [self.ids[word] for word in text.split()]

    def filler(self, rng):
        pick = lambda name: rng.choice(self.lists[name])
        text = f"the {pick('adjectives')} {pick('people')} {pick('verbs')} the {pick('adjectives')} {pick('nouns')} " \
               f"{pick('prepositions')} the {pick('places')}"
        if rng.random() < 0.5:
            text = "then " + text
        if rng.random() < 0.5:
            text += f" and {pick('verbs')} a {pick('nouns')}"
        return text + " ."


def fact_text(words, rng, length):
    """Returns token ids and loss weights of a text with facts, then questions and answers, about `length` tokens."""
    questions = rng.randint(1, min(24, max(2, length // 40)))
    keys = rng.sample(words.lists["keys"], min(len(words.lists["keys"]), questions + rng.randint(0, 4)))
    facts = [(key, rng.choice(words.lists["numbers"]), rng.choice(words.lists["numbers"])) for key in keys]
    tail = []
    for key, first, second in rng.sample(facts, min(questions, len(facts))):
        tail.append((f"question : the magic number for {key}", f"{first} {second} ."))
    needed = sum(len((q + " " + a).split()) for q, a in tail) + 8 * len(facts) + 1
    sentences, used = [], needed
    while True:
        sentence = words.filler(rng)
        used += len(sentence.split())
        if used > length:
            break
        sentences.append(sentence)
    for key, first, second in facts:
        sentences.insert(rng.randint(0, len(sentences)), f"the magic number for {key} {first} {second} .")
    ids = [words.ids["<s>"]] + words.encode(" ".join(sentences))
    weights = [0.1] * len(ids)
    for question, answer in tail:
        ids += words.encode(question)
        weights += [0.1] * len(words.encode(question))
        ids += words.encode(answer)
        weights += [1.0] * len(words.encode(answer))
    return ids, weights


def repeated(words, rng, length):
    """Returns a random sequence twice; only the second half is predictable."""
    half = [rng.randrange(len(words.ids)) for _ in range(length // 2)]
    return [words.ids["<s>"]] + half + half, [0.0] * (len(half) + 1) + [1.0] * len(half)


def batch(words, rng, rows, length, share_repeated):
    texts = [repeated(words, rng, min(length, 256)) if rng.random() < share_repeated else fact_text(words, rng, length)
             for _ in range(rows)]
    most = max(len(ids) for ids, _ in texts)
    ids = torch.full((rows, most), words.ids["<pad>"])
    weights = torch.zeros(rows, most)
    for row, (row_ids, row_weights) in enumerate(texts):
        ids[row, :len(row_ids)] = torch.tensor(row_ids)
        weights[row, :len(row_weights)] = torch.tensor(row_weights)
    return ids, weights


# ---- the model, with a Hugging Face folder's names ----

def norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + EPS) * weight


def rotate(x, cosine, sine):
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1)


def make_parameters(vocab):
    parameters = {"model.embed_tokens.weight": torch.randn(vocab, WIDTH) * 0.02, "model.norm.weight": torch.ones(WIDTH)}
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        for part, rows, columns in (("self_attn.q_proj", HEADS * HEAD_SIZE, WIDTH),
                                    ("self_attn.k_proj", KV_HEADS * HEAD_SIZE, WIDTH),
                                    ("self_attn.v_proj", KV_HEADS * HEAD_SIZE, WIDTH),
                                    ("self_attn.o_proj", WIDTH, HEADS * HEAD_SIZE),
                                    ("mlp.gate_proj", FEED, WIDTH), ("mlp.up_proj", FEED, WIDTH),
                                    ("mlp.down_proj", WIDTH, FEED)):
            parameters[name + part + ".weight"] = torch.randn(rows, columns) * columns ** -0.5
        parameters[name + "input_layernorm.weight"] = torch.ones(WIDTH)
        parameters[name + "post_attention_layernorm.weight"] = torch.ones(WIDTH)
    return {name: value.requires_grad_() for name, value in parameters.items()}


def forward(p, ids):
    rows, length = ids.shape
    frequency = THETA ** (-torch.arange(0, HEAD_SIZE, 2).float() / HEAD_SIZE)
    angle = torch.arange(length).float()[:, None] * frequency
    cosine, sine = angle.cos(), angle.sin()
    x = p["model.embed_tokens.weight"][ids]
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        y = norm(x, p[name + "input_layernorm.weight"])
        heads = lambda part, count: F.linear(y, p[name + part]).view(rows, length, count, HEAD_SIZE).transpose(1, 2)
        q = rotate(heads("self_attn.q_proj.weight", HEADS), cosine, sine)
        k = rotate(heads("self_attn.k_proj.weight", KV_HEADS), cosine, sine)
        v = heads("self_attn.v_proj.weight", KV_HEADS)
        k, v = (t.repeat_interleave(HEADS // KV_HEADS, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(rows, length, -1)
        x = x + F.linear(y, p[name + "self_attn.o_proj.weight"])
        y = norm(x, p[name + "post_attention_layernorm.weight"])
        gate = F.silu(F.linear(y, p[name + "mlp.gate_proj.weight"]))
        x = x + F.linear(gate * F.linear(y, p[name + "mlp.up_proj.weight"]), p[name + "mlp.down_proj.weight"])
    return F.linear(norm(x, p["model.norm.weight"]), p["model.embed_tokens.weight"])


# ---- training schedule ----

# up to this share of the time: tokens, rows, share of repeated sequences, learning rate
COURSE = [(0.12, 64, 64, 1.0, 1.5e-3), (0.22, 128, 32, 0.5, 1.5e-3), (0.37, 256, 16, 0.3, 1.5e-3),
          (0.62, 512, 8, 0.15, 1.2e-3), (0.87, 1024, 4, 0.1, 9e-4), (1.0, 2048, 2, 0.05, 7e-4)]


def train(words, hours, seed):
    torch.manual_seed(seed)
    rng = random.Random(seed)
    p = make_parameters(len(words.ids))
    decay = [value for value in p.values() if value.dim() > 1]
    plain = [value for value in p.values() if value.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}],
                                  lr=1e-3, betas=(0.9, 0.98))
    start, step, last = time.time(), 0, 0.0
    while (done := (time.time() - start) / (3600 * hours)) < 1:
        _, length, rows, share, rate = next(stage for stage in COURSE if done < stage[0])
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1, (step + 1) / 50)
        ids, weights = batch(words, rng, rows, length, share)
        logits = forward(p, ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view(rows, -1)
        loss = (loss * weights[:, 1:]).sum() / weights[:, 1:].sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(p.values()), 1.0)
        optimizer.step()
        step += 1
        if time.time() - last > 15:
            last = time.time()
            print(f"{100 * done:5.1f} %  step {step}  {length} tokens  loss {loss.item():.3f}", flush=True)
    return p


def write(folder, words, p):
    os.makedirs(folder, exist_ok=True)
    save_file({name: value.detach().contiguous() for name, value in p.items()},
              os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": WIDTH,
              "intermediate_size": FEED, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
              "num_key_value_heads": KV_HEADS, "head_dim": HEAD_SIZE, "vocab_size": len(words.ids),
              "max_position_embeddings": CONTEXT, "rms_norm_eps": EPS, "rope_theta": THETA, "hidden_act": "silu",
              "tie_word_embeddings": True, "attention_bias": False, "mlp_bias": False,
              "bos_token_id": words.ids["<s>"], "eos_token_id": words.ids["</s>"], "pad_token_id": words.ids["<pad>"],
              "torch_dtype": "float32"}
    added = [{"id": words.ids[word], "content": word, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True} for word in SPECIAL]
    bos = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
                 "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "WhitespaceSplit"},
                 "post_processor": {"type": "TemplateProcessing", "single": [bos, {"Sequence": {"id": "A", "type_id": 0}}],
                                    "pair": [bos, {"Sequence": {"id": "A", "type_id": 0}},
                                             {"Sequence": {"id": "B", "type_id": 1}}],
                                    "special_tokens": {"<s>": {"id": "<s>", "ids": [words.ids["<s>"]],
                                                               "tokens": ["<s>"]}}},
                 "decoder": None, "model": {"type": "WordLevel", "vocab": words.ids, "unk_token": "<pad>"}}
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>",
                "pad_token": "<pad>", "unk_token": "<pad>"}
    for name, content in (("config.json", config), ("tokenizer.json", tokenizer), ("tokenizer_config.json", settings)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.write("\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--words", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--hours", type=float, default=1.5)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    words = Words(arguments.words)
    write(arguments.out, words, train(words, arguments.hours, arguments.seed))


if __name__ == "__main__":
    main()
