#!/usr/bin/env python3
"""entry_distance.py - measures how much accuracy each type of cache entries costs: how far the logits are from those
with float32 entries, in kvcull and in llama.cpp, for the same files and tokens.

    tools/entry_distance.py [options] MODEL...
    tools/entry_distance.py --alone --windows 20 --tokens 1024 --threads 1 MODEL...     # kvcull only
    tools/entry_distance.py --entries q4_0,q4h --entries k=q8_0,v=q4h MODEL...

The text's tokens are divided into windows. Each window begins with BOS if the model has that token. The reference is
kvcull's --math float with F32 entries. It is compared, row by row, with --math float and each of --entries, where only
the entries differ, and with llama.cpp and each of --beside. llama.cpp reads the file's weights stored as F32, so that
it does not quantize activations either. Its row with F32 entries shows by how much the two programs differ otherwise.
llama.cpp rotates quantized entries if the size of a head is a multiple of 64. "unrotated" rows have that turned off
(LLAMA_ATTN_ROT_DISABLE=1). KL is the Kullback-Leibler divergence from the reference's probabilities, in nats per token,
with the standard error of the windows' means. The last column is the KL divided by that of llama.cpp's Q4_0 entries or,
with --alone, by that of kvcull's.
"""
import argparse
import os
import sys
import tempfile

from distance import (Distance, add_options, header, line, our_logits, standard_error, their_logits, windows_of)
from entry_types import bits_per_element, known
from llama_engine import Llama, bring_llama, every_model, kvcull_json, made, parse

ENTRIES = ["f16", "q8_0", "k=q8_0,v=q4h", "k=q6h,v=q4h", "k=q5h,v=q4h", "q4h", "q4_0", "q4_1", "iq4_nl"]
BESIDE = ["f32", "q8_0", "q4_0", "q4_1", "iq4_nl"]


def listed(text):
    """Returns the types of a comma-separated list. k=TYPE,v=TYPE is one type and needs an option of its own."""
    kinds = [text] if "=" in text else text.split(",")
    for kind in kinds:
        if not known(kind):
            raise argparse.ArgumentTypeError(f"{kind}: not a type of entries, nor k=TYPE,v=TYPE")
    return kinds


def plain(text):
    kinds = text.split(",")
    for kind in kinds:
        if kind not in BESIDE + ["f16"]:
            raise argparse.ArgumentTypeError(f"{kind}: f16 or one of {','.join(BESIDE)}")
    return kinds


def rows_of(np, arguments, lib, path, widened, windows, work):
    """Returns the Distance of each row of the table, the contexts of llama.cpp, and the function of the reference."""
    engines = []

    def ours(entries):
        return lambda window: our_logits(np, arguments, path, windows[window], "float", entries,
                                         os.path.join(work, "reference" if entries == "f32" else "entries"))

    def theirs(entries, rotate):
        llama = Llama(lib, widened, arguments.tokens, outputs=True, cache=entries, rotate=rotate)
        llama.threads(arguments.threads)
        engines.append(llama)
        return lambda window: their_logits(np, llama, windows[window])

    rows = [Distance("kvcull", "f32", None)] + [Distance("kvcull", kind, ours(kind)) for kind in arguments.entries]
    for kind in arguments.beside if lib else []:
        rows.append(Distance("llama.cpp", kind, theirs(kind, True)))
        if kind not in ("f32", "f16"):
            rows.append(Distance("llama.cpp, unrotated", kind, theirs(kind, False)))
    return rows, engines, ours("f32")


def compare(np, arguments, lib, name, path, widened):
    """Compares one file. Holds the logits of two rows of the table at a time."""
    windows = windows_of(arguments, path)
    with tempfile.TemporaryDirectory() as work:
        rows, engines, reference = rows_of(np, arguments, lib, path, widened, windows, work)
        for window, tokens in enumerate(windows):
            print(f"{name}: window {window + 1} of {len(windows)}", file=sys.stderr, flush=True)
            measure = reference(window)
            for row in rows:
                row.add(np, measure, row.logits(window) if row.logits else measure, np.asarray(tokens))
        for llama in engines:
            llama.close()
    report(np, arguments, name, path, rows)


def report(np, arguments, name, path, rows):
    size = kvcull_json(arguments.kvcull, "info", path)["head_size"]
    exact = rows[0].perplexity(np)
    four = [row.mean(np) for row in rows if row.entries == "q4_0" and row.label in ("kvcull", "llama.cpp")]
    for row in rows:
        error = standard_error(np, [np.mean(window) for window in row.windows])
        perplexity = row.perplexity(np)
        line([name, row.label, row.entries, f"{bits_per_element(row.entries, size):.2f}", f"{row.mean(np):.3g}" +
              (f" ± {error:.1g}" if error else ""), f"{row.mean(np) / four[-1]:.3f}" if four else "",
              f"{100 * row.share_same():.2f} %", f"{perplexity:.4f}", f"{100 * (perplexity / exact - 1):+.3f} %"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, 1024)
    parser.add_argument("--entries", type=listed, action="extend", metavar="LIST",
                        help="types of kvcull's entries, or k=TYPE,v=TYPE; may be given several times")
    parser.add_argument("--beside", type=plain, default=BESIDE, metavar="LIST",
                        help=f"types of llama.cpp's entries ({','.join(BESIDE)})")
    arguments = parse(parser)
    arguments.entries = arguments.entries or ENTRIES
    lib = None if arguments.alone else bring_llama()
    import numpy as np  # llama_cpp also needs it
    header(["file", "logits of", "entries", "bits", "KL, mean", "beside Q4_0", "likeliest the same", "perplexity",
            "beside f32"])
    for name, path in every_model(arguments):
        if lib:
            with made(arguments.kvcull, "convert", path, "--type", "f32") as widened:
                compare(np, arguments, lib, name, path, widened)
        else:
            compare(np, arguments, lib, name, path, None)


if __name__ == "__main__":
    main()
