#!/usr/bin/env python3
"""dapq_cosine.py - measures how alike pseudo tokens and the tokens of the true answer are: their queries, and the
attention that they give to the prompt (docs/measured/dapq.md; the tables 1 and 8 of the paper of dapq).

    tools/dapq_cosine.py MODEL TEXT [SAMPLES [BASE]]

Each sample asks the model to summarize 400 words of the file TEXT. The true answer is the first 32 tokens that the model
generates with the full cache. The queries and keys come from traces of `kvcull logits`, KVCULL or build/kvcull. BASE is
the base of the model's rope, 100000 by default. The package `kvcull` must be installed (docs/how-to/python.md).
"""
import math
import os
import subprocess
import sys
import tempfile

import numpy as np

from kvcull import Model

WORDS, ANSWER = 400, 32
SORRY = "Sorry, I don't know. "
SIZES = (128, 64, 32, 16, 8, 4, 2, 1)


class Traced:
    """A model's queries [positions, layers, H, d] and keys after rope."""

    def __init__(self, model, path, folder):
        self.model, self.path, self.folder = model, path, folder
        self.kvcull = os.environ.get("KVCULL", "build/kvcull")

    def run(self, tokens, pseudo, offset):
        """Writes the trace of a prompt and of pseudo tokens that begin `offset` positions after its end."""
        trace, ids, added = (os.path.join(self.folder, name) for name in ("trace", "ids", "pseudo"))
        for path, listed in ((ids, tokens), (added, pseudo)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(",".join(map(str, listed)))
        policy = f'dapq:budget=8,content=file,pseudo={len(pseudo)},offset={offset},file="{added}"'
        subprocess.run([self.kvcull, "logits", "-m", self.path, "--tokens", "@" + ids, "--kv", policy, "--math", "float",
                        "--trace", trace, "--trace-values", "*:*:rope"], check=True, stdout=subprocess.DEVNULL)
        return trace

    def read(self, trace, first, count, newest):
        """Returns the queries and keys at these positions. If a position has several rows: the newest or the oldest."""
        info = self.model.info
        found, rows = {}, info.heads + info.kv_heads
        with open(trace, encoding="utf-8") as lines:
            for line in lines:
                if " rope y " in line:
                    fields = line.split(" ")
                    if first <= int(fields[1]) < first + count:
                        found.setdefault((int(fields[1]), int(fields[2][len("layer"):])), []).append(fields[-1])
        values = np.empty((count, info.layers, rows, info.head_size), np.float32)
        for (position, layer), texts in found.items():
            for at, text in enumerate(texts[-rows:] if newest else texts[:rows]):
                values[position - first, layer, at] = np.frombuffer(bytes.fromhex(text.replace(",", " ")), ">f4")
        return values[:, :, :info.heads], values[:, :, info.heads:]

    def pseudo(self, tokens, pseudo, offset=0):
        return self.read(self.run(tokens, pseudo, offset), len(tokens) + offset, len(pseudo), True)


def cosine(a, b):
    """Returns the mean over all vectors."""
    return float(((a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))).mean())


def unrotated(queries, first, base):
    """Returns queries at positions `first` and following before rope."""
    half = queries.shape[-1] // 2
    angles = np.arange(first, first + len(queries))[:, None, None, None] * base ** -(np.arange(half) / half)
    pairs = (queries[..., :half] + 1j * queries[..., half:]) * np.exp(-1j * angles)
    return np.concatenate([pairs.real, pairs.imag], -1)


def weights(queries, keys, prompt):
    """Returns the attention [layers, H, prompt] of all queries together to the prompt. The queries are those of the last
    keys, and see the keys up to their own."""
    keys = np.repeat(keys, queries.shape[2] // keys.shape[2], 2)
    scores = np.einsum("qlhd,klhd->qlhk", queries, keys) / math.sqrt(queries.shape[-1])
    hidden = np.arange(len(keys)) > np.arange(len(keys) - len(queries), len(keys))[:, None]
    scores[np.broadcast_to(hidden[:, None, None], scores.shape)] = -np.inf
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return (scores / scores.sum(-1, keepdims=True)).sum(0)[..., :prompt]


def measure(traced, tokens, answer, base):
    """Returns {row: cosine} of one sample."""
    n, found = len(tokens), {}
    sorry = [int(t) for t in traced.model.tokenize(SORRY * ANSWER, bos=False)][:len(answer)]
    trace = traced.run(tokens, answer, 0)
    true, own = traced.read(trace, n, len(answer), True)
    prompt, keys = traced.read(trace, 0, n, False)
    before = unrotated(true, n, base)
    for name, content, offset in (("same content, same position", answer, 0), ("other content, same position", sorry, 0),
                                  ("same content, positions 0 to 31", answer, -n),
                                  ("other content, positions 0 to 31", sorry, -n)):
        queries = traced.pseudo(tokens, content, offset)[0]
        first = unrotated(queries, n + offset, base)
        found[name] = cosine(queries, true), cosine(first, before)
        if content is answer and cosine(first[:, 0], before[:, 0]) < 0.9999:
            sys.exit(f"dapq_cosine.py: BASE {base}: the queries of layer 0 before rope depend on their positions; it "
                     "must be the model's base")
    wanted = weights(true, np.concatenate([keys, own]), n)
    first = 4  # the window `ends` has these tokens of the prompt first; shorter windows begin larger ones
    for name, pseudo in (("dapq:content=ends", lambda size: tokens[:first] + tokens[n - size + first:]),
                         ("dapq:content=tail", lambda size: tokens[-size:])):
        for size in SIZES:
            if size > first or "tail" in name:
                queries, more = traced.pseudo(tokens, pseudo(size))
            found[name, size] = cosine(weights(queries[:size], np.concatenate([keys, more[:size]]), n), wanted)
    for size in SIZES:
        found["snapkv", size] = cosine(weights(prompt[-size:], keys, n), wanted)
    return found


def cell(values):
    values = np.array(values)
    return f"{values.mean():.3f} +- {values.std(ddof=1) / math.sqrt(len(values)):.3f}"


def main():
    path, text, samples, base = (sys.argv[1:] + ["8", "100000"][max(0, len(sys.argv) - 3):])[:4]
    samples, model, rows = int(samples), Model(path, math="float"), {}
    with open(text, encoding="utf-8") as file:
        words = file.read().split()
    for sample in range(samples):
        at = (len(words) - WORDS) * sample // samples
        request = "Summarize this text.\n" + " ".join(words[at:at + WORDS])
        tokens = [int(t) for t in model.chat_tokens([{"role": "user", "content": request}])]
        answer = [piece.token for piece in model.session("full").generate(tokens, tokens=ANSWER, temperature=0)]
        with tempfile.TemporaryDirectory() as folder:
            for name, value in measure(Traced(model, path, folder), tokens, answer, float(base)).items():
                rows.setdefault(name, []).append(value)
        print(f"sample {sample}: {len(tokens)} tokens, {model.detokenize(answer)!r}", file=sys.stderr, flush=True)
    print("| content and position | queries after rope | before |\n|---|---|---|")
    for name, values in rows.items():
        if isinstance(name, str):
            print(f"| {name} | {cell([after for after, _ in values])} | {cell([before for _, before in values])} |")
    print("\n| window | " + " | ".join(map(str, SIZES)) + " |\n|" + "---|" * (len(SIZES) + 1))
    for name in ("dapq:content=ends", "dapq:content=tail", "snapkv"):
        print(f"| `{name}` | " + " | ".join(cell(rows[name, size]) for size in SIZES) + " |")


if __name__ == "__main__":
    main()
