#!/usr/bin/env python3
"""int8_distance.py - measures how far kvcull's --math int8 and llama.cpp are from float32, on the same files and
tokens.

    tools/int8_distance.py [options] MODEL...
    tools/int8_distance.py --types q8_0,q4_0 MODEL...     # converts the models first

The text's tokens are cut into windows, each with BOS in front if the model has one. The reference is kvcull's --math
float with F32 entries: float32 arithmetic on the file's own weights. It is compared, row by row, with --math int8
and llama.cpp: both with F32 entries, where only the arithmetic differs, with F16 entries, the default, and with Q8_0
entries, over which both multiply integers. --math float with Q8_0 entries shows what the entries alone cost. It is
also compared with llama.cpp on the file's weights stored as F32, which shows the distance between the engines
when neither quantizes activations. KL is the Kullback-Leibler divergence from the reference's probabilities, in nats
per token. The excess over llama.cpp's KL with the same entries has a standard error from the windows' differences.
"""
import argparse
import json
import os
import sys
import tempfile

from llama_engine import (Llama, add_model_options, bring_llama, every_model, fail, kvcull, kvcull_json, made, parse,
                          positive)

TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "real", "prose.txt")
ROWS = 16  # processed at once, in float64


class Distance:
    """The distance of one program's rows of logits from the reference."""

    def __init__(self, label, entries, logits, beside=None):
        """logits(window) returns [n, vocab]; beside: the Distance to compare with."""
        self.label, self.entries, self.logits, self.beside = label, entries, logits, beside
        self.windows, self.same, self.surprise = [], 0, []

    def add(self, np, measure, other, tokens):
        """Adds rows [n, vocab] of the reference and the other; tokens: the window's n tokens. Each row predicts the
        next token."""
        divergence = []
        for at in range(0, len(tokens), ROWS):
            p, q = (logs(np, rows[at:at + ROWS]) for rows in (measure, other))
            divergence += (np.exp(p) * (p - q)).sum(1).tolist()
            self.same += int((p.argmax(1) == q.argmax(1)).sum())
            following = tokens[at + 1:at + 1 + ROWS]
            self.surprise += (-q[np.arange(len(following)), following]).tolist()
        self.windows.append(divergence)

    def above(self, np):
        """Returns the mean over windows of the excess over the other's KL, and its standard error."""
        if self.beside is None or len(self.windows) < 2:
            return ""
        each = [np.mean(ours) - np.mean(theirs) for ours, theirs in zip(self.windows, self.beside.windows)]
        return f"{np.mean(each):+.2g} ± {np.std(each, ddof=1) / len(each) ** 0.5:.2g}"


def logs(np, rows):
    """Returns log probabilities in float64."""
    rows = np.asarray(rows, dtype=np.float64)
    rows = rows - rows.max(1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(1, keepdims=True))


def our_logits(np, arguments, path, tokens, math, entries, out):
    """Returns kvcull's logits [n, vocab], read from a safetensors file with one tensor: eight bytes of length, JSON,
    values."""
    ids = out + ".tokens"
    with open(ids, "w", encoding="ascii") as file:
        file.write(",".join(map(str, tokens)))
    kvcull(arguments.kvcull, "logits", "-m", path, "--tokens", "@" + ids, "--math", math, "--kv-type", entries,
           "-o", out, "-q")
    with open(out, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        tensor = json.loads(file.read(length))["logits"]
    return np.memmap(out, np.float32, "r", 8 + length + tensor["data_offsets"][0], tuple(tensor["shape"]))


def their_logits(np, llama, tokens):
    llama.clear()
    llama.load([(token, i, 0) for i, token in enumerate(tokens)], True)
    llama.compute()
    return np.ctypeslib.as_array(llama.logits(), shape=(len(tokens) * llama.vocab,)).reshape(len(tokens), llama.vocab)


def windows_of(arguments, path):
    """Returns lists of --tokens ids."""
    tokenize = ("tokenize", "-m", path, "-f", arguments.text)
    ids = kvcull_json(arguments.kvcull, *tokenize, "--no-bos")["tokens"]
    with_bos = kvcull_json(arguments.kvcull, *tokenize)["tokens"]
    bos = with_bos[:len(with_bos) - len(ids)]
    each = arguments.tokens - len(bos)
    if len(ids) < each * arguments.windows:
        fail(f"{arguments.text}: {len(ids)} tokens; {arguments.windows} windows of {arguments.tokens} are more", 3)
    return [bos + ids[i * each:(i + 1) * each] for i in range(arguments.windows)]


def compare(np, arguments, lib, name, path, work):
    """Compares one file. Holds the logits of one window at a time."""
    windows = windows_of(arguments, path)
    engines = []

    def ours(math, entries):
        return lambda window: our_logits(np, arguments, path, windows[window], math, entries, os.path.join(work, math))

    def theirs(file, entries):
        llama = Llama(lib, file, arguments.tokens, outputs=True, cache=entries)
        llama.threads(arguments.threads)
        engines.append(llama)
        return lambda window: their_logits(np, llama, windows[window])

    with made(arguments.kvcull, "convert", path, "--type", "f32") as widened:
        rows = [Distance("kvcull float", "f32", None)]
        for entries in ("f32", "f16", "q8_0"):
            if entries == "q8_0":
                rows.append(Distance("kvcull float", entries, ours("float", entries)))
            llama = Distance("llama.cpp", entries, theirs(path, entries)) if lib else None
            rows += [Distance("kvcull int8", entries, ours("int8", entries), llama)] + ([llama] if lib else [])
        if lib:
            rows.append(Distance("llama.cpp, weights stored as F32", "f32", theirs(widened, "f32")))
        for window, tokens in enumerate(windows):
            print(f"{name}: window {window + 1} of {len(windows)}", file=sys.stderr, flush=True)
            measure = ours("float", "f32")(window)
            for row in rows:
                row.add(np, measure, row.logits(window) if row.logits else measure, np.asarray(tokens))
        for llama in engines:
            llama.close()

    exact = np.exp(np.mean(rows[0].surprise))
    for row in rows:
        divergence = np.concatenate(row.windows)
        perplexity = np.exp(np.mean(row.surprise))
        cells = [name, row.label, row.entries, f"{np.mean(divergence):.3g}", row.above(np),
                 f"{np.percentile(divergence, 99):.3g}", f"{100 * row.same / len(divergence):.2f} %",
                 f"{perplexity:.4f}", f"{100 * (perplexity / exact - 1):+.3f} %"]
        print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model_options(parser)
    parser.add_argument("--text", default=TEXT, metavar="FILE", help="the text (tests/real/prose.txt)")
    parser.add_argument("--tokens", type=positive, default=500, metavar="N", help="tokens of a window (500)")
    parser.add_argument("--windows", type=positive, default=4, metavar="N", help="number of windows (4)")
    parser.add_argument("--threads", type=positive, default=os.cpu_count(), metavar="N",
                        help="threads of llama.cpp (all cores)")
    parser.add_argument("--alone", action="store_true", help="measure kvcull only, without llama.cpp")
    arguments = parse(parser)
    lib = None if arguments.alone else bring_llama()
    import numpy as np  # llama_cpp also needs it
    head = ["file", "logits of", "entries", "KL, mean", "above llama.cpp's", "KL, 99 of 100 below",
            "likeliest the same", "perplexity", "beside float"]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|", flush=True)
    for name, path in every_model(arguments):
        with tempfile.TemporaryDirectory() as work:
            compare(np, arguments, lib, name, path, work)


if __name__ == "__main__":
    main()
