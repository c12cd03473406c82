#!/usr/bin/env python3
"""Compares methods on the bundled model: shows the fraction of right answers and the bytes that the cache holds.

    python3 python/examples/compare_methods.py [--texts N] [--sentences N] [--budgets N,..] [--plot FILE.png] [MODEL]

Editors that support "# %%" cells can run them one by one, as in a notebook. With matplotlib it also writes a plot.
"""
# %% Options
import argparse
import json
import random
from pathlib import Path

import kvcull
from kvcull import policy

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("model", nargs="?", default="data/demo", help="the bundled model's folder")
parser.add_argument("--texts", type=int, default=12, help="texts for each row of the table")
parser.add_argument("--sentences", type=int, default=60, help="sentences of a text")
parser.add_argument("--budgets", default="48,64,128,256", help="entries of each head")
parser.add_argument("--plot", default="compare_methods.png", help="the picture to write")
options = parser.parse_args()

model = kvcull.Model(options.model)
words = json.loads((Path(options.model) / "words.json").read_text(encoding="utf-8"))
print(model)


# %% Texts: facts among sentences, and a question about one of them
def make_text(seed):
    """Returns a text and the answer to its question. Equal seeds give equal texts."""
    draw = random.Random(seed)
    key, *others = draw.sample(words["keys"], 4)
    numbers = {name: " ".join(draw.sample(words["numbers"], 2)) for name in (key, *others)}
    sentences = [f"then the {draw.choice(words['adjectives'])} {draw.choice(words['people'])} "
                 f"{draw.choice(words['verbs'])} the {draw.choice(words['adjectives'])} {draw.choice(words['nouns'])} "
                 f"{draw.choice(words['prepositions'])} the {draw.choice(words['places'])} ." for _ in range(options.sentences)]
    for name, number in numbers.items():
        sentences.insert(draw.randrange(len(sentences)), f"the magic number for {name} {number} .")
    return " ".join(sentences) + f" question : the magic number for {key}", numbers[key]


texts = [make_text(seed) for seed in range(options.texts)]
print(len(model.tokenize(texts[0][0])), "tokens in the first text")

# %% Methods. Each is a function of kvcull.policy; help(policy.snapkv) explains its options
rows = [("full", None, policy.full())]
for budget in map(int, options.budgets.split(",")):
    rows += [(name, budget, getattr(policy, name)(budget=budget)) for name in ("streaming", "tova", "morphkv", "snapkv")]

# %% The answers
print(f"{'method':<12}{'budget':>8}{'right':>8}{'entries':>10}{'KiB held':>10}")
table = []
for name, budget, spec in rows:
    right = entries = held = 0
    for text, expected in texts:
        with model.session(spec) as session:
            right += session.answer(text, tokens=2, temperature=0).strip() == expected
            stats = session.stats()
            entries += stats.entries_most
            held += stats.entries * stats.entry_bytes + stats.state_bytes
    count = len(texts)
    table.append((name, right / count, held / count))
    print(f"{name:<12}{budget or '-':>8}{right / count:>8.2f}{entries / count:>10.0f}{held / count / 1024:>10.1f}")

# %% A plot: a line for each method, a point for each budget
try:
    import matplotlib.pyplot as plt
except ImportError:
    print("no matplotlib: no picture")
else:
    figure, axes = plt.subplots(figsize=(7, 4), constrained_layout=True)
    for name in dict.fromkeys(row[0] for row in table):
        points = [(held / 1024, share) for row, share, held in table if row == name]
        axes.plot(*zip(*points), marker="o", label=name)
    axes.set_xscale("log", base=2)
    axes.set(xlabel="held: entries and the method's state (KiB)", ylabel="right answers", ylim=(-0.05, 1.05))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))  # outside the axes, because points may lie anywhere inside
    figure.savefig(options.plot)
    print("written:", options.plot)
