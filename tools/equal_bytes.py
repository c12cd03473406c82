#!/usr/bin/env python3
"""Measures, for caches of equal size in bytes, whether answers are better with fewer entries of more bits or with more
entries of fewer bits, for docs/measured/bytes.json.

    tools/equal_bytes.py [options] MODEL FOLDER
    tools/equal_bytes.py --collect FOLDER... > docs/measured/bytes.json
    python3 tools/chart_bytes.py svg docs/measured/bytes.json > docs/pictures/bytes.svg
    python3 tools/chart_bytes.py table docs/measured/bytes.json      # the tables of docs/measured/bytes.md

The first command runs `kvcull eval needle --ask both` once for each type of entries. A list is the cache of one KV head
of one layer. In each run every method has, for each size in --kib, as many entries as a list of that size holds:
its bytes divided by the bytes of a key and a value, rounded down to whole blocks of 32 entries. States of methods,
such as the rows of morphkv, are not part of the size; `held_bytes` counts them too. The budget of rocketkv is a number
of entries to read, not to hold; it gets the largest budget with which it holds no more entries than the others.

FOLDER gets a file for each type, and one with the options. A type whose file exists is not measured again.
"""
import argparse
import datetime
import json
import math
import os
import sys

from entry_types import entry_bytes
from llama_engine import fail, kvcull, kvcull_json, positive, positives

METHODS = ["snapkv", "adakv", "rocketkv", "morphkv", "expected", "kvzip"]
READ_CHANNELS = ["rocketkv", "expected"]  # methods that refuse rotated keys
TYPES = ["f16", "q8_0", "k=q8_0,v=q4h", "q4h"]
BLOCK = 32  # entries
WINDOW = 32  # entries that several methods always keep
OPTIONS = "options.json"


def rocket_holds(read, tokens):
    """Returns how many of the prompt's entries rocketkv keeps if it reads `read` entries per step
    (docs/reference/methods)."""
    ratio = max(tokens / read, 1)
    return math.floor(tokens / ratio ** min(0.2 + 0.06 * math.log2(ratio), 0.8))


def budget(method, entries, tokens):
    """Returns the budget with which a method holds this many entries."""
    if method != "rocketkv":
        return entries
    fitting = [read for read in range(2, tokens + 1) if rocket_holds(read, tokens) <= entries]
    return max(fitting, default=0)


def cells_of(given, kind, size):
    """Returns the policies of one type, each with the size of its lists and their entries."""
    cells = []
    for kib in given.kib:
        entries = min(kib * 1024 // entry_bytes(kind, size), given.length) // BLOCK * BLOCK
        for method in given.methods:
            number = budget(method, entries, given.length)
            if entries <= WINDOW or number < 2 or method in READ_CHANNELS and kind == "q4h":
                continue
            cells.append({"kib": kib, "method": method, "entries": entries, "kv": f"{method}:budget={number}"})
    return cells


def measure(given, name, kind, size):
    """Runs one type and returns its cells with their results."""
    cells = cells_of(given, kind, size)
    policies = [word for kv in dict.fromkeys(cell["kv"] for cell in cells) for word in ("--kv", kv)]
    if not policies:
        fail("no list of these sizes has room for more than a window of 32 entries", 2)
    measured = kvcull_json(given.kvcull, "eval", "needle", "-m", given.model, "--ask", "both", "--length",
                           str(given.length), "--texts", str(given.texts), "--depths", str(given.depths), "--kv-type",
                           kind, "--threads", str(given.threads), "-q", *policies)
    found = {row["kv"]: row for row in measured["results"]}
    for cell in cells:
        row = found[cell["kv"]]
        cell.update(seen=row["accuracy"], unseen=row["accuracy_unseen"], held_bytes=row["held_bytes"],
                    read_bytes=row["read_bytes_per_token"])
    return {"model": name, "type": kind, "bytes_per_entry": entry_bytes(kind, size), "cells": cells}


def run(given):
    info = kvcull_json(given.kvcull, "info", given.model)
    os.makedirs(given.folder, exist_ok=True)
    place = "data/demo" if given.name == "demo" else f"models-local/{given.name}.gguf"
    command = (f"tools/equal_bytes.py --length {given.length} --texts {given.texts} --depths {given.depths} --kib "
               f"{','.join(map(str, given.kib))} --methods {','.join(given.methods)} "
               f"{place} FOLDER")
    with open(os.path.join(given.folder, OPTIONS), "w", encoding="utf-8") as file:
        json.dump({"model": given.name, "head_size": info["head_size"], "lists": info["layers"] * info["kv_heads"],
                   "length": given.length, "questions": given.texts * given.depths, "kib": given.kib,
                   "methods": given.methods, "types": given.types, "machine": given.machine, "date": given.date,
                   "kvcull": kvcull(given.kvcull, "--version").splitlines()[0].removeprefix("kvcull "),
                   "command": command}, file)
    for number, kind in enumerate(given.types):
        path = os.path.join(given.folder, f"{number}.json")
        if not os.path.exists(path):
            measured = measure(given, given.name, kind, info["head_size"])
            with open(path + ".part", "w", encoding="utf-8") as file:
                json.dump(measured, file)
            os.replace(path + ".part", path)
        print(f"{given.name}: {kind} is in {path}", file=sys.stderr, flush=True)


def collect(folders):
    """Prints one JSON file of all folders' results: every cell of a model is a line."""
    models = []
    for folder in folders:
        with open(os.path.join(folder, OPTIONS), encoding="utf-8") as file:
            options = json.load(file)
        cells = []
        for number, kind in enumerate(options["types"]):
            path = os.path.join(folder, f"{number}.json")
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    cells += [{"type": kind, **cell} for cell in json.load(file)["cells"]]
        models.append((options, cells))
    out = [json.dumps(options)[:-1] + ', "cells": [\n  ' + ",\n  ".join(map(json.dumps, cells)) + "\n ]}"
           for options, cells in models]
    print('{"models": [\n ' + ",\n ".join(out) + "\n]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.error = lambda text: fail(f"{text}; --help lists the options", 2)
    parser.add_argument("paths", nargs="+", metavar="MODEL FOLDER")
    parser.add_argument("--collect", action="store_true", help="print the results in the folders as one JSON file")
    parser.add_argument("--kvcull", default="build/kvcull", metavar="PROGRAM")
    parser.add_argument("--name", help="the model's name in the results (its file's)")
    parser.add_argument("--length", type=positive, default=1000, metavar="N", help="tokens of a text (1000)")
    parser.add_argument("--texts", type=positive, default=10, metavar="N", help="texts (10)")
    parser.add_argument("--depths", type=positive, default=4, metavar="N",
                        help="questions about each text (4)")
    parser.add_argument("--kib", type=positives, default=[8, 16, 32], metavar="LIST", help="sizes of a list")
    parser.add_argument("--methods", type=lambda text: text.split(","), default=METHODS, metavar="LIST")
    parser.add_argument("--threads", type=positive, default=os.cpu_count(), metavar="N")
    parser.add_argument("--machine", default="unknown", help="the machine's name in the result")
    parser.add_argument("--date", default=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"))
    given = parser.parse_args()
    if given.collect:
        collect(given.paths)
        return
    if len(given.paths) != 2:
        parser.error("MODEL and FOLDER are needed")
    given.model, given.folder = given.paths
    given.name = given.name or os.path.basename(os.path.normpath(given.model)).removesuffix(".gguf")
    given.types = TYPES
    run(given)


if __name__ == "__main__":
    main()
