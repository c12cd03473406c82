#!/usr/bin/env python3
"""measure_dapq.py - measures how well a model still knows a hidden number after dapq, for different pseudo tokens
(docs/measured/dapq.md).

    tools/measure_dapq.py MODEL TEXT [SAMPLES [BUDGET [SPEC...]]]

Each sample hides one sentence with a number among 600 words of the file TEXT and asks for it, in the model's chat
template (with RAW=1 in the environment: without). The first words of the answer are given. For the bundled model, TEXT
is data/demo/words.json: 1,800 words of sentences that this model knows hide eight numbers, and the question asks for
one. The table has the nats per token of the true number: the mean, its difference from snapkv with the standard error,
and in how many samples it is lower. With SPEC the table compares these policies instead (docs/measured/take.md). The
package `kvcull` must be installed (docs/how-to/python.md).
"""
import json
import math
import os
import random
import sys
import tempfile

import numpy as np

from kvcull import Model
from kvcull.session import prompt_many

KEYS = "lantern harbor violin meadow copper falcon orchard glacier timber saddle ribbon cactus".split()
WORDS, DEMO_WORDS, DEMO_FACTS = 600, 1800, 8


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


def demo_question(model, lists, sample, samples, draw):
    """The same with the words of the bundled model."""
    sentences, any_of = [], lambda name: draw.choice(lists[name])
    while sum(map(len, sentences)) < DEMO_WORDS:
        sentences.append(f"the {any_of('adjectives')} {any_of('people')} {any_of('verbs')} the {any_of('adjectives')} "
                         f"{any_of('nouns')} {any_of('prepositions')} the {any_of('places')} .".split())
    facts = [f"the magic number for {key} {any_of('numbers')} {any_of('numbers')}"
             for key in draw.sample(lists["keys"], DEMO_FACTS)]
    sentences.insert(int(len(sentences) * (sample + 0.5) / samples), f"{facts[0]} .".split())
    for fact in facts[1:]:
        sentences.insert(draw.randrange(len(sentences)), f"{fact} .".split())
    asked, *number = facts[0].rsplit(" ", 2)
    text = " ".join(sum(sentences, [])) + " question : " + asked
    return [int(t) for t in model.tokenize(text)], 1, [int(t) for t in model.tokenize(" ".join(number), bos=False)]


def drafted(model, spec, tokens):
    return [piece.token for piece in model.session(spec).generate(tokens, tokens=8, temperature=0)]


def policies(model, tokens, first, answer, budget, folder):
    """Returns names and policies. Pseudo tokens that no option can make are written to files."""
    specs = {"full": "full", "snapkv": f"snapkv:budget={budget}"}
    for content, counts in (("ends", (32, 8)), ("tail", (32, 16, 8, 4)), ("draft", (8, 16, 32))):
        for count in counts:
            specs[f"`content={content},pseudo={count}`"] = f"dapq:budget={budget},content={content},pseudo={count}"
    user = tokens[first:]
    for name, listed in (("user's first 4, last 28", user[:4] + user[-28:]),
                         ("user's first 8, last 24", user[:8] + user[-24:]),
                         ("user's first 4, last 4", user[:4] + user[-4:]),
                         ("8 drafted with snapkv's cache", drafted(model, specs["snapkv"], tokens)),
                         ("last 24, then 8 drafted", user[-24:] +
                          drafted(model, f"dapq:budget={budget},content=tail,pseudo=32", tokens)),
                         ("the true answer", answer)):
        path = os.path.join(folder, str(len(specs)))
        with open(path, "w", encoding="utf-8") as file:
            file.write(" ".join(map(str, listed)))
        specs[name] = f'dapq:budget={budget},content=file,pseudo={len(listed)},file="{path}"'
    return specs


def main():
    path, text, samples, budget, *given = sys.argv[1:] + ["20", "100"][max(0, len(sys.argv) - 3):]
    samples, model, draw, rows = int(samples), Model(path), random.Random(7), {}
    with open(text, encoding="utf-8") as file:
        ask, words = (demo_question, json.load(file)) if text.endswith(".json") else (question, file.read().split())
    for sample in range(samples):
        tokens, first, answer = ask(model, words, sample, samples, draw)
        with tempfile.TemporaryDirectory() as folder:
            if given:
                specs = {"full": "full", "snapkv": f"snapkv:budget={budget}", **{f"`{one}`": one for one in given}}
            else:
                specs = policies(model, tokens, first, answer, budget, folder)
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
