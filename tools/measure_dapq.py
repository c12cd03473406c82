#!/usr/bin/env python3
"""measure_dapq.py - measures how well a model still knows a hidden number after dapq, for different pseudo tokens
(docs/measured/dapq.md).

    tools/measure_dapq.py MODEL TEXT [SAMPLES [BUDGET [SPEC...]]]

Each sample hides one sentence with a number among 600 words of the file TEXT and asks for it, in the model's chat
template (with RAW=1 in the environment: without). The first words of the answer are given. The table has the nats per
token of the true number: the mean, its difference from snapkv with the standard error, and in how many samples it is
lower. With SPEC the table compares these policies instead (docs/measured/take.md). The package `kvcull` must be
installed (docs/how-to/python.md).
"""
import math
import os
import random
import sys
import tempfile

import numpy as np

from kvcull import Model
from kvcull.session import prompt_many

KEYS = "lantern harbor violin meadow copper falcon orchard glacier timber saddle ribbon cactus".split()
WORDS = 600


def nats(logits, token):
    row = np.asarray(logits, np.float64)
    return float(np.log(np.exp(row - row.max()).sum()) + row.max() - row[token])


def question(model, words, sample, samples, draw):
    """Returns the prompt's tokens, the index of the first token of the user's text, and the number's tokens."""
    key, number = KEYS[sample % len(KEYS)], str(draw.randrange(1000000, 9999999))
    at = draw.randrange(0, len(words) - WORDS)
    text = words[at:at + WORDS]
    text.insert(int(WORDS * (sample + 0.5) / samples), f"The special magic number for {key} is {number}.")
    text = ("Read this text and answer the question after it.\n" + " ".join(text) +
            f"\nWhat is the special magic number for {key} mentioned in the text?")
    lead, first = f"The special magic number for {key} is", 0
    if os.environ.get("RAW"):
        tokens = list(model.tokenize(text + "\nAnswer: " + lead))
    else:
        tokens = list(model.chat_tokens([{"role": "user", "content": text}]))
        tokens += list(model.tokenize(lead, bos=False, special=False))
    while not model.detokenize(tokens[:first + 1], special=True).endswith("Read"):
        first += 1
    return [int(t) for t in tokens], first, [int(t) for t in model.tokenize(" " + number, bos=False)]


def policies(tokens, first, answer, budget, folder):
    """Returns names and policies. Pseudo tokens that no option can make are written to files."""
    specs = {"full": "full", "snapkv": f"snapkv:budget={budget}"}
    for content, counts in (("ends", (32,)), ("tail", (32, 16, 8)), ("draft", (32, 16, 8))):
        for count in counts:
            specs[f"{content}, {count}"] = f"dapq:budget={budget},content={content},pseudo={count}"
    for name, listed in (("user's first 4, last 28", tokens[first:first + 4] + tokens[-28:]), ("true answer", answer)):
        path = os.path.join(folder, str(len(specs)))
        with open(path, "w", encoding="utf-8") as file:
            file.write(" ".join(map(str, listed)))
        specs[name] = f'dapq:budget={budget},content=file,pseudo={len(listed)},file="{path}"'
    return specs


def main():
    path, text, samples, budget, *given = sys.argv[1:] + ["20", "100"][max(0, len(sys.argv) - 3):]
    samples, model, draw, rows = int(samples), Model(path), random.Random(7), {}
    with open(text, encoding="utf-8") as file:
        words = file.read().split()
    for sample in range(samples):
        tokens, first, answer = question(model, words, sample, samples, draw)
        with tempfile.TemporaryDirectory() as folder:
            specs = policies(tokens, first, answer, budget, folder)
            if given:
                specs = {"full": "full", "snapkv": specs["snapkv"], **{f"`{spec}`": spec for spec in given}}
            sessions = {name: model.session(spec) for name, spec in specs.items()}
        for (name, session), logits in zip(sessions.items(), prompt_many(list(sessions.values()), tokens)):
            total = nats(logits, answer[0])
            for last, token in zip(answer, answer[1:]):
                total += nats(session.decode(last), token)
            rows.setdefault(name, []).append(total / len(answer))
    print("| pseudo tokens | nats per token | minus snapkv | lower |\n|---|---|---|---|")
    for name, values in rows.items():
        change = np.array(values) - np.array(rows["snapkv"])
        print(f"| {name} | {np.mean(values):.3f} | {change.mean():+.3f} +- {change.std(ddof=1) / math.sqrt(samples):.3f}"
              f" | {int((change < 0).sum())} of {samples} |")


if __name__ == "__main__":
    main()
