#!/usr/bin/env python3
"""beside_llama.py - compares prefill, decode and batched decode of kvcull with llama.cpp and OpenVINO GenAI on the
same GGUF files.

    tools/beside_llama.py [options] MODEL...          # files as they are
    tools/beside_llama.py [options] --shape llama-3.2-1b --types q8_0,q4_0,q4_k,f16
    tools/beside_llama.py [options] --beside openvino --entries q8_0 models-local/smollm2.gguf

In each round, each program of --beside and each arithmetic of kvcull have a turn; each round begins with another of
them. A turn measures the prefill of --prompt random tokens (the fastest of --repeat), and then the median of --gen
decode steps, for one sequence alone and for --batch at once. A ratio is kvcull's tokens per second divided by the other
program's in the same round. The table shows medians, and the quartiles of the ratios. The cache entries of all programs
have the type of --entries; for q8_0, OpenVINO uses its own 8-bit type (u8). kvcull and llama.cpp compute the logits of
every step, but not of the prompt. OpenVINO's prefill ends with the first token of the answer, and it decodes no batch.
Needs llama-cpp-python or openvino-genai; the error message says how to install each.
"""
import argparse
import datetime
import os
import platform
import random
import statistics
import sys
import time

from openvino_engine import OpenVino, bring_openvino
from llama_engine import (Llama, add_model_options, bring_llama, every_model, fail, kvcull, kvcull_json, parse,
                          positive, positives)

MATHS = ["float", "int8"]


def note(text):
    print(text, file=sys.stderr, flush=True)


def quartiles(values):
    """Returns lower quartile, median and upper quartile, interpolated between values."""
    values = sorted(values)
    if len(values) == 1:
        return values * 3
    return statistics.quantiles(values, n=4, method="inclusive")


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


class Kvcull:
    """Runs kvcull's turns. Prefill is measured separately; for decode, the caches are filled without a prefill."""

    def __init__(self, arguments, path, math):
        self.arguments, self.math = arguments, math
        self.common = ["bench", "-m", path, "--math", math, "-q", "--kv", "full", "--kv-type", arguments.entries]

    def turn(self, threads):
        a, speeds = self.arguments, {}
        common = [*self.common, "--threads", str(threads)]
        prompts = kvcull_json(a.kvcull, *common, "--prompt", ",".join(map(str, a.prompt)), "--gen", "0",
                              "--repeat", str(a.repeat))
        for entry in prompts["prefill"]:
            speeds["prefill", entry["prompt"]] = entry["prompt"] / entry["best_seconds"]
        if not a.gen:
            return speeds
        steps = kvcull_json(a.kvcull, *common, "--fill", "--prompt", str(a.prompt[0]), "--gen", str(a.gen),
                            "--batch", ",".join(map(str, a.batches)))
        for entry in steps["decode"]:
            speeds["decode", entry["batch"]] = entry["batch"] / entry["step_seconds"]
        return speeds


class LlamaTurns:
    """Runs llama.cpp's turns: one model in memory, one context for prompts and single steps, one for batches."""

    def __init__(self, arguments, lib, path):
        self.arguments = arguments
        longest = max(*arguments.prompt, arguments.prompt[0] + arguments.gen)
        self.single = Llama(lib, path, longest, cache=arguments.entries)
        batch = max(arguments.batches, default=1)
        self.many = None
        if batch > 1:
            self.many = Llama(lib, path, arguments.prompt[0] + arguments.gen, batch, cache=arguments.entries)
        self.random = random.Random(1)
        self.turn(1, warm=True)

    def close(self):
        self.single.close()
        if self.many:
            self.many.close()

    def tokens(self, count):
        return [self.random.randrange(self.single.vocab) for _ in range(count)]

    def prefill(self, llama, prompt):
        llama.clear()
        llama.load([(token, i, 0) for i, token in enumerate(self.tokens(prompt))], False)
        start = time.perf_counter()
        llama.compute()
        return time.perf_counter() - start

    def decode(self, llama, batch, steps):
        """Returns the median time of a step after a prompt in sequence 0."""
        seconds, at = [], self.arguments.prompt[0]
        llama.copy(batch)
        for step in range(steps):
            llama.load([(token, at + step, i) for i, token in enumerate(self.tokens(batch))], True)
            start = time.perf_counter()
            llama.compute()
            seconds.append(time.perf_counter() - start)
        return statistics.median(seconds)

    def turn(self, threads, warm=False):
        a, speeds = self.arguments, {}
        for llama in filter(None, (self.single, self.many)):
            llama.threads(threads)
        if warm:  # a first run warms up pages and buffers, as the first of kvcull's repeats does
            self.prefill(self.single, min(a.prompt[0], 64))
            return speeds
        for prompt in a.prompt:
            speeds["prefill", prompt] = prompt / min(self.prefill(self.single, prompt) for _ in range(a.repeat))
        for batch in a.batches:
            llama = self.single if batch == 1 else self.many
            self.prefill(llama, a.prompt[0])
            speeds["decode", batch] = batch / self.decode(llama, batch, a.gen)
        return speeds


class OpenVinoTurns:
    """Runs OpenVINO's turns: a model for each number of threads, which is chosen when a model is loaded."""

    def __init__(self, arguments, lib, path):
        self.arguments, self.lib, self.path = arguments, lib, path
        self.random = random.Random(1)
        self.load(arguments.threads[0])

    def load(self, threads):
        self.model, self.threads = OpenVino(self.lib, self.path, threads, self.arguments.entries), threads
        self.generate(min(self.arguments.prompt[0], 64), 1)

    def close(self):
        self.model = None

    def generate(self, prompt, steps):
        """Returns the seconds of the prefill and the median of the steps after it."""
        return self.model.generate([self.random.randrange(self.model.vocab) for _ in range(prompt)], steps)

    def turn(self, threads):
        a, speeds = self.arguments, {}
        if self.threads != threads:
            self.load(threads)
        for prompt in a.prompt:
            speeds["prefill", prompt] = prompt / min(self.generate(prompt, 1)[0] for _ in range(a.repeat))
        if a.gen:
            speeds["decode", 1] = 1 / self.generate(a.prompt[0], a.gen)[1]
        return speeds


OTHERS = {"llama": ("llama.cpp", bring_llama, LlamaTurns), "openvino": ("OpenVINO", bring_openvino, OpenVinoTurns)}


def name_of(what):
    kind, count = what
    return f"prefill {count}" if kind == "prefill" else "decode" if count == 1 else f"decode, batch {count}"


def cells_of(rounds, what, arguments):
    """Returns the cells of one row: a speed for each program, and a ratio for each pair. A cell is empty if it was not
    measured."""
    names, cells = [*arguments.beside, *arguments.math], []
    for player in names:
        measured = [turns[player][what] for turns in rounds if what in turns[player]]
        cells.append(f"{statistics.median(measured):.4g}" if measured else "")
    for other, math in pairs(arguments):
        ratios = [turns[math][what] / turns[other][what] for turns in rounds if what in turns[other]]
        low, middle, high = quartiles(ratios) if ratios else (0, 0, 0)
        cells.append(f"{middle:.2f} ({low:.2f} to {high:.2f})" if ratios else "")
    return cells


def pairs(arguments):
    return [(other, math) for other in arguments.beside for math in arguments.math]


def measure(arguments, libs, name, path):
    """Prints the table rows of one file."""
    players = {other: OTHERS[other][2](arguments, libs[other], path) for other in arguments.beside}
    players.update({math: Kvcull(arguments, path, math) for math in arguments.math})
    order = list(players)
    for threads in arguments.threads:
        rounds = []
        for r in range(arguments.rounds):
            turns = {}
            for i in range(len(order)):
                player = order[(i + r) % len(order)]
                note(f"{name}, {threads} threads, round {r + 1} of {arguments.rounds}: {player}")
                turns[player] = players[player].turn(threads)
            rounds.append(turns)
        for what in rounds[0][arguments.math[0]]:
            cells = [name, str(threads), name_of(what), *cells_of(rounds, what, arguments)]
            print("| " + " | ".join(cells) + " |", flush=True)
    for other in arguments.beside:
        players[other].close()


def described(other, lib):
    if other == "openvino":
        return f"openvino-genai {lib.__version__}"
    return f"llama-cpp-python {lib.__version__} ({lib.llama_print_system_info().decode().strip(' |')})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_model_options(parser)
    parser.add_argument("--shape", metavar="NAME", help="random weights of this shape, in each of --types (f16)")
    parser.add_argument("--threads", type=positives, default=[1, 2], metavar="N,..", help="threads (1,2)")
    parser.add_argument("--prompt", type=positives, default=[512], metavar="N,..",
                        help="prompt tokens; decode follows the first length (512)")
    parser.add_argument("--gen", type=int, default=32, metavar="N", help="decode steps of a turn, 0 for none (32)")
    parser.add_argument("--batch", type=positive, default=8, metavar="N",
                        help="sequences in a batch, besides 1 (8)")
    parser.add_argument("--repeat", type=positive, default=2, metavar="N", help="prefills of a turn (2)")
    parser.add_argument("--rounds", type=positive, default=5, metavar="N", help="rounds (5)")
    parser.add_argument("--math", default=",".join(MATHS), metavar="LIST", help="arithmetics of kvcull (float,int8)")
    parser.add_argument("--beside", default="llama", metavar="LIST", help="other programs: llama, openvino (llama)")
    parser.add_argument("--entries", default="f16", metavar="TYPE", choices=["f16", "q8_0"],
                        help="type of the cache entries of all programs: f16 or q8_0 (f16)")
    arguments = parse(parser)
    arguments.math, arguments.beside = arguments.math.split(","), arguments.beside.split(",")
    if not set(arguments.math) <= {*MATHS, "int16", "fast"}:
        fail(f"--math: {','.join(arguments.math)}: float, int8, int16 or fast", 2)
    if not set(arguments.beside) <= {*OTHERS}:
        fail(f"--beside: {','.join(arguments.beside)}: llama or openvino", 2)
    if arguments.gen < 0:
        fail(f"--gen {arguments.gen}: 0 or more", 2)
    arguments.batches = sorted({1, arguments.batch}) if arguments.gen else []
    libs = {other: OTHERS[other][1]() for other in arguments.beside}
    version = kvcull(arguments.kvcull, "--version").splitlines()[0]
    print(f"{processor()}, {os.cpu_count()} cores, {datetime.date.today()}; {version};\n"
          + "".join(f"{described(other, lib)}.\n" for other, lib in libs.items())
          + f"{arguments.rounds} rounds, the fastest of {arguments.repeat} prefills, "
          + (f"the median of {arguments.gen} steps" if arguments.gen else "no decode")
          + f"; {arguments.entries} entries; tokens per second.\n")
    head = ["file", "threads", "what", *(OTHERS[other][0] for other in arguments.beside), *arguments.math]
    head += [f"{math} / {OTHERS[other][0]}" for other, math in pairs(arguments)]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|", flush=True)
    for name, path in every_model(arguments):
        measure(arguments, libs, name, path)


if __name__ == "__main__":
    main()
