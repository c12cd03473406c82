#!/usr/bin/env python3
"""Checks with transformers the result of docs/measured/needle.md for streaming and the bundled model: which facts are
answered if only a text's first 4 entries and its last B - 4 remain after reading.

    tools/streaming_elsewhere.py [--budget 256] [--texts 10] [--length 2000] [--facts 8]

Needs torch and transformers. Texts are made as in tools/train_needle.py, with evenly spaced facts. Prints the share
of right answers by depth, with the whole cache and with those entries only. Each question is asked separately after
the text.
"""
import argparse
import os
import random

import torch
from transformers import AutoModelForCausalLM, DynamicCache

from train_needle import Words

DEMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "demo")


def make_text(words, rng, length, facts):
    """Returns token ids of filler with `facts` evenly spaced facts, and for each fact its question and answer."""
    keys = rng.sample(words.lists["keys"], facts)
    known = [(key, rng.choice(words.lists["numbers"]), rng.choice(words.lists["numbers"])) for key in keys]
    ids, told = [words.ids["<s>"]], 0
    while len(ids) < length - 20 or told < facts:
        if told < facts and len(ids) >= (told + 0.5) / facts * length:
            key, first, second = known[told]
            ids += words.encode(f"the magic number for {key} {first} {second} .")
            told += 1
        ids += words.encode(words.filler(rng))
    asked = [(f"question : the magic number for {key}", f"{first} {second}") for key, first, second in known]
    return ids, [(words.encode(question), words.encode(expected)) for question, expected in asked]


def answer(model, ids, question, tokens, budget):
    """Reads text and question with the whole cache. The generated tokens then attend to the first 4 entries and the
    last budget - 4."""
    prompt = torch.tensor([ids + question])
    with torch.no_grad():
        out = model(prompt, use_cache=True)
        layers = [(layer.keys, layer.values) for layer in out.past_key_values.layers]
        given = []
        for step in range(tokens):
            given.append(int(out.logits[0, -1].argmax()))
            cache = DynamicCache()
            for l, (k, v) in enumerate(layers):
                if budget and k.shape[2] > budget:
                    k, v = (torch.cat((t[:, :, :4], t[:, :, 4 - budget:]), 2) for t in (k, v))
                cache.update(k, v, l)
            at = torch.tensor([[prompt.shape[1] + step]])
            out = model(torch.tensor([[given[-1]]]), past_key_values=cache, position_ids=at, use_cache=True)
            layers = [(layer.keys, layer.values) for layer in out.past_key_values.layers]
    return given


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--budget", type=int, default=256)
    parser.add_argument("--texts", type=int, default=10)
    parser.add_argument("--length", type=int, default=2000)
    parser.add_argument("--facts", type=int, default=8)
    arguments = parser.parse_args()
    words, rng = Words(os.path.join(DEMO, "words.json")), random.Random(1)
    model = AutoModelForCausalLM.from_pretrained(DEMO).eval()
    right = {0: [0] * arguments.facts, arguments.budget: [0] * arguments.facts}
    for _ in range(arguments.texts):
        ids, asked = make_text(words, rng, arguments.length, arguments.facts)
        for budget, counts in right.items():
            for i, (question, expected) in enumerate(asked):
                counts[i] += answer(model, ids, question, len(expected), budget) == expected
    for budget, counts in right.items():
        print(f"{'entries 4 + ' + str(budget - 4) if budget else 'all entries':>18}",
              *(f"{count / arguments.texts:.2f}" for count in counts))


if __name__ == "__main__":
    main()
