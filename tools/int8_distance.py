#!/usr/bin/env python3
"""int8_distance.py - measures how far the logits of kvcull's --math int8 and of llama.cpp are from those of float32,
for the same files and tokens.

    tools/int8_distance.py [options] MODEL...
    tools/int8_distance.py --alone --windows 12 --tokens 500 MODEL...     # kvcull only
    tools/int8_distance.py --types q8_0,q4_0 MODEL...     # converts the models first
    tools/int8_distance.py --alone --entries q4_1 MODEL...     # other types of entries
    tools/int8_distance.py --alone --math int16 --types f16 MODEL...      # int16 instead of int8

The text's tokens are divided into windows. Each window begins with BOS if the model has that token. The reference is
kvcull's --math float with F32 entries: float32 arithmetic on the file's own weights. It is compared, row by row, with
--math int8 and with llama.cpp. Both run with F32 entries (only the arithmetic differs), with F16 entries (the default)
and with Q8_0 entries (both multiply integers). --math float with Q8_0 entries shows what the entries alone cost.
--entries names other types. The reference is also compared with llama.cpp on the file's weights stored as F32. This
shows how far the two programs are apart when neither quantizes activations. KL is the Kullback-Leibler divergence from
the reference's probabilities, in nats per token. The table also shows by how much kvcull's KL exceeds that of llama.cpp
with the same entries, with the standard error of the windows' differences.
"""
import argparse
import os
import sys
import tempfile

from distance import (Distance, add_options, header, line, our_logits, standard_error, their_logits, windows_of)
from llama_engine import Llama, bring_llama, every_model, made, parse

ENTRIES = ["f32", "f16", "q8_0", "q4_0", "q4_1", "iq4_nl"]


def above(np, row):
    """Returns by how much the row's KL exceeds that of the row with which it is compared, as a mean over windows, and
    its standard error."""
    if row.beside is None or len(row.windows) < 2:
        return ""
    each = [np.mean(ours) - np.mean(theirs) for ours, theirs in zip(row.windows, row.beside.windows)]
    return f"{np.mean(each):+.2g} ± {standard_error(np, each):.2g}"


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
        for entries in arguments.entries or ENTRIES[:3]:
            if entries not in ENTRIES[:2]:
                rows.append(Distance("kvcull float", entries, ours("float", entries)))
            llama = Distance("llama.cpp", entries, theirs(path, entries)) if lib else None
            rows += [Distance(f"kvcull {arguments.math}", entries, ours(arguments.math, entries), llama)]
            rows += [llama] if lib else []
        if lib:
            rows.append(Distance("llama.cpp, weights stored as F32", "f32", theirs(widened, "f32")))
        for window, tokens in enumerate(windows):
            print(f"{name}: window {window + 1} of {len(windows)}", file=sys.stderr, flush=True)
            measure = ours("float", "f32")(window)
            for row in rows:
                row.add(np, measure, row.logits(window) if row.logits else measure, np.asarray(tokens))
        for llama in engines:
            llama.close()

    exact = rows[0].perplexity(np)
    for row in rows:
        perplexity = row.perplexity(np)
        line([name, row.label, row.entries, f"{row.mean(np):.3g}", above(np, row),
              f"{np.percentile(np.concatenate(row.windows), 99):.3g}", f"{100 * row.share_same():.2f} %",
              f"{perplexity:.4f}", f"{100 * (perplexity / exact - 1):+.3f} %"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, 500)
    parser.add_argument("--math", default="int8", choices=["int8", "int16"], help="kvcull's arithmetic (int8)")
    parser.add_argument("--entries", choices=ENTRIES, action="append",
                        help="type of entries, may be given several times (f32, f16 and q8_0)")
    arguments = parse(parser)
    lib = None if arguments.alone else bring_llama()
    import numpy as np  # llama_cpp also needs it
    header(["file", "logits of", "entries", "KL, mean", "above llama.cpp's", "KL, 99 of 100 below",
            "likeliest the same", "perplexity", "beside float"])
    for name, path in every_model(arguments):
        with tempfile.TemporaryDirectory() as work:
            compare(np, arguments, lib, name, path, work)


if __name__ == "__main__":
    main()
