"""seeds_cost.py - measures what the papers of morphkv, dapq, take and rocketkv claim about time and memory.

Part of tools/seeds.py (`seeds.py cost`). RUNS lists calls of `kvcull bench`; each keeps its JSON in a folder, so an
interrupted measurement continues where it stopped. All times are ratios of policies that one run interleaves. Models
have random weights: the values of weights do not change what a step costs.
"""
import json
import os
import subprocess
import sys
import textwrap

# The shapes, each with the type of its weights. Entries are F16 everywhere.
SHAPES = {"1B": ("llama-3.2-1b", "q8_0"), "8B": ("llama-3.1-8b", "q4_0")}
PROMPT, ANSWER, MORPH = 1024, 2560, 512  # a short prompt, a long answer, and the budget of methods of constant size
MEMORY = 1 << 30  # bytes of all caches together, where the largest batch that fits is measured
CONSTANT = (f"h2o:budget={MORPH}", f"morphkv:budget={MORPH}", f"morphkv:budget={MORPH},every=8")
DAPQ = ("full", "streaming:budget=256", "h2o:budget=256", "pyramidkv:budget=256", "snapkv:budget=256",
        "dapq:budget=256,pseudo=32")
PREFILL = ("full", "snapkv:budget=256", "dapq:budget=256,pseudo=32", "fastkv:budget=512", "take:budget=512")
ROCKET = ("full",) + tuple(f"rocketkv:budget={budget}" for budget in (256, 512, 1024, 2048, 4096))


class Run:
    """One `kvcull bench`: a name, a key of SHAPES, policies, and more options."""

    def __init__(self, name, shape, policies, *options):
        self.name, self.shape = name, shape
        geometry, kind = SHAPES[shape]
        self.words = ["bench", "--shape", geometry, "--type", kind]
        self.words += [word for policy in policies for word in ("--kv", policy)] + list(options)

    def text(self):
        return "kvcull " + " ".join(self.words)


def filled(prompt, steps, batch="1"):
    return "--fill", "--prompt", str(prompt), "--gen", str(steps), "--batch", batch


RUNS = [
    # snapkv evicts nothing from so short a prompt, and then grows: halfway through the answer, and at its end.
    Run("answer-middle", "1B", ("full",) + CONSTANT, *filled(PROMPT + ANSWER // 2, 48)),
    Run("answer-end", "1B", ("full",) + CONSTANT, *filled(PROMPT + ANSWER, 4)),
    Run("answer-middle-8B", "8B", ("full",) + CONSTANT, *filled(PROMPT + ANSWER // 2, 16)),
    Run("dapq-batch", "1B", DAPQ, *filled(8192, 16, "1,10,20")),
    Run("dapq-batch-8B", "8B", DAPQ, *filled(8192, 8, "1,8")),
    Run("prefill-8192", "1B", PREFILL, "--prompt", "8192", "--gen", "0", "--repeat", "1"),
    Run("prefill-16384", "1B", PREFILL, "--prompt", "16384", "--gen", "0", "--repeat", "1"),
] + [Run(f"rocket-{length}", "1B", ROCKET, *filled(length, 16)) for length in (32768, 65536, 98304, 131072)] + [
    Run("rocket-32768-8B", "8B", ROCKET, *filled(32768, 8)),
]


# ---- running ----

def measure(program, folder, run):
    """Runs the command unless its result exists, and returns its JSON."""
    path = os.path.join(folder, run.name + ".json")
    if not os.path.exists(path):
        print(f"{run.name}: {run.text()}", file=sys.stderr, flush=True)
        output = subprocess.run([program, *run.words, "--json", "-q"], check=True, stdout=subprocess.PIPE).stdout
        with open(path + ".new", "wb") as file:
            file.write(output)
        os.replace(path + ".new", path)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def held(row):
    """Returns the bytes of cache and state in the last step. The peak may be that of the prompt, which --fill replaces."""
    return row["cache_bytes"][-1]


def largest_batches(program, folder):
    """Measures each policy of long answers at the largest batch whose caches fit in MEMORY at the answer's end, and
    returns (policy, batch, decode row) for each."""
    rows = []
    for row in measure(program, folder, RUNS[1])["decode"]:
        batch = max(1, MEMORY // held(row))
        name = "batch-" + row["kv"].replace(":", "-").replace(",", "-").replace("=", "")
        run = Run(name, "1B", (row["kv"],), *filled(PROMPT + ANSWER // 2, 12, str(batch)))
        rows.append((row["kv"], batch, measure(program, folder, run)["decode"][0]))
    return rows


def forecast(program, folder, length):
    """Returns what `kvcull info` forecasts for the 8B shape and a prompt of this length, by policy."""
    path = os.path.join(folder, f"forecast-{length}.json")
    if not os.path.exists(path):
        model = os.path.join(folder, "model.gguf")
        geometry, kind = SHAPES["8B"]
        try:
            subprocess.run([program, "mkmodel", "--shape", geometry, "--type", kind, "-o", model, "-q"], check=True)
            words = [word for policy in PREFILL for word in ("--kv", policy)]
            output = subprocess.run([program, "info", model, "--prompt", str(length), "--gen", "1", *words, "--json"],
                                    check=True, stdout=subprocess.PIPE).stdout
        finally:
            if os.path.exists(model):
                os.remove(model)
        with open(path, "wb") as file:
            file.write(output)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


# ---- the page ----

def attention_share(length, budget=512, chunk=4096, warmup=4):
    """Returns take's products of queries and keys over those of full: half of the layers hold `warmup` times the
    budget before the last chunk. Rows of a chunk attend to the entries held and, on average, to half of the chunk."""
    def rows(held):
        total, n = 0, 0
        while n < length:
            size = min(chunk, length - n)
            total += size * ((min(held, n)) + size / 2)
            n += size
        return total
    return (rows(budget) + rows(warmup * budget)) / 2 / (length * length / 2)


def wrapped(lines):
    """Yields the lines. Those of a paragraph are joined and wrapped at 120 columns."""
    text = []
    for line in lines:
        if line and not line.startswith(("#", "|", "    ")):
            text.append(line)
            continue
        yield from textwrap.wrap(" ".join(text), 120, break_on_hyphens=False)
        text = []
        yield line


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def ratio(value):
    return f"{value:.2f}"


def size(count):
    return f"{count / (1 << 30):.2f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MiB"


def morph(results, batches):
    """MorphKV, section 6 (runtime, memory, throughput) and A.5 (coarse eviction)."""
    middle, end, large = (results[name]["decode"] for name in ("answer-middle", "answer-end", "answer-middle-8B"))
    paper = {"full": ("1", "1", "1"), "h2o": ("1.62", "0.26", "2.40"), "morphkv": ("1.50", "0.14", "4.68")}
    first = batches[0][2]["tokens_per_second"]
    rows = []
    for row, last, big, (policy, batch, at_most) in zip(middle, end, large, batches):
        theirs = paper[policy.split(":")[0]] if "every" not in policy else ("1.23", "-", "-")
        rows.append([f"`{policy}`" if policy != "full" else "`snapkv:budget=1024` (here: `full`)",
                     ratio(row["relative"]), ratio(big["relative"]), theirs[0],
                     ratio(held(last) / held(end[0])), theirs[1],
                     f"{batch}", ratio(at_most["tokens_per_second"] / first), theirs[2]])
    coarse = middle[3]["relative"] / middle[2]["relative"], large[3]["relative"] / large[2]["relative"]
    return ["## MorphKV: long answers (section 6 and appendix A.5)", "",
            f"A prompt of {PROMPT:,} tokens and an answer of {ANSWER:,}. snapkv keeps the whole prompt and every token of",
            "the answer, so its cache is that of `full`. Times are those of a step halfway through the answer; memory is",
            f"that at the answer's end. `batch` is the number of sessions whose caches fit in {size(MEMORY)}.", "",
            *table(["policy", "step 1B", "step 8B", "paper", "memory", "paper", "batch", "throughput", "paper"], rows),
            f"Eviction in every eighth step takes {coarse[0]:.2f} (1B) and {coarse[1]:.2f} (8B) of the time of eviction in",
            "every step; the paper says 0.82. Here an eviction takes too little of a step's time to show.", "",
            f"Weights are most of what a step reads. A step without any cache would take {weights_share(results, '')}",
            f"(1B) and {weights_share(results, '-8B')} (8B) of the time of `full`, if time followed bytes. So no method can",
            "be much faster for one session; the paper's methods are slower than SnapKV. In a batch all sessions share",
            f"the weights, and then memory decides. {MORPH} of {PROMPT + ANSWER:,} entries are "
            f"{MORPH / (PROMPT + ANSWER):.2f} of the memory; morphkv also",
            "holds the probabilities of the last queries and their sums, and h2o the sums.", ""]


def weights_share(results, suffix):
    """Returns the weights' share of the bytes that a step of `full` reads."""
    result = results["answer-middle" + suffix]
    weights = result["weight_bytes_per_step"]
    return ratio(weights / (weights + result["decode"][0]["cache_read_bytes_per_step"]))


def batches_of(result):
    """Returns {(policy, batch): decode row}."""
    return {(row["kv"], row["batch"]): row for row in result["decode"]}


def dapq(results):
    """DapQ, Tables 3, 4 and 7."""
    rows = []
    for name, shape in (("dapq-batch", "1B"), ("dapq-batch-8B", "8B")):
        by = batches_of(results[name])
        for batch in sorted({batch for _, batch in by}):
            row = [f"{shape}, {batch}"]
            for policy in DAPQ:
                one = by[policy, batch]
                row.append(f"{ratio(one['tokens_per_second'] / by['full', batch]['tokens_per_second'])}, "
                           f"{size(held(one))}")
            rows.append(row)
    return ["## DapQ: throughput and memory by batch (Tables 3 and 7)", "",
            "8,192 tokens of prompt, a budget of 256. Each cell: tokens per second over `full` at the same batch, and the",
            "memory of all caches in decode. The paper (8B, H20) has 1.29 at batch 10 and 1.48 at 20 for DapQ and the same",
            "within 1 % for SnapKV; `full` runs out of memory at 40.", "",
            *table(["shape, batch"] + [f"`{policy}`" for policy in DAPQ], rows)]


def prefill(results, forecasts):
    """DapQ, Table 4, and TAKE, Figure 6."""
    rows = []
    for name in ("prefill-8192", "prefill-16384"):
        result = results[name]["prefill"]
        rows.append([f"{result[0]['prompt']:,}", f"{result[0]['seconds']:.1f} s"] +
                    [ratio(row["relative"]) for row in result[1:]])
    peaks = []
    for length, data in forecasts:
        by = {row["kv"]: row["peak_bytes"] + row["hidden_bytes"] for row in data["policies"]}
        peaks.append([f"{length:,}", size(by["full"])] + [ratio(by[policy] / by["full"]) for policy in PREFILL[1:]])
    shares = ", ".join(f"{100 * attention_share(length):.1f} % at {length:,}" for length in (16384, 131072))
    return ["## DapQ and TAKE: time to the first token, and its memory (DapQ Table 4, TAKE Figure 6)", "",
            "Time of the prompt on the 1B shape, over `full`:", "",
            *table(["tokens", "`full`"] + [f"`{policy}`" for policy in PREFILL[1:]], rows),
            "Peak of cache, state and hidden states on the 8B shape, over `full` (the forecast of `kvcull info`, which",
            "equals the counted bytes wherever both exist, `docs/measured/methods.md`):", "",
            *table(["tokens", "`full`"] + [f"`{policy}`" for policy in PREFILL[1:]], peaks),
            "TAKE says 0.09 of the full cache's memory and 0.18 of global eviction's, 0.40 of its time, and 0.69 of",
            f"FastKV's, at 128K tokens. Of `full`'s products of queries and keys take computes {shares}",
            "(the paper: 7.1 % of the operations). Its linear layers compute as much as those of `full`, so its time cannot",
            "fall below their share. The upper layers of fastkv compute only the rows that it propagates, so it saves",
            "linear layers too. These two shares decide which of the two methods is faster: linear layers take most of the",
            "time at 8,192 tokens, and attention takes most of it at 16,384 and above.", ""]


def rocket(results):
    """RocketKV, Figure 7."""
    rows = []
    for run in RUNS:
        if run.name.startswith("rocket-"):
            result = results[run.name]
            full = result["decode"][0]
            weights = result["weight_bytes"]
            rows.append([f"{run.shape}, {full['prompt']:,}", f"{1000 * full['step_seconds']:.0f} ms"] +
                        [f"{1 / row['relative']:.2f}, "
                         f"{100 * (1 - (weights + held(row)) / (weights + held(full))):.0f} %"
                         for row in result["decode"][1:]])
    return ["## RocketKV: a step's time and memory (Figure 7)", "",
            "Each cell: how many times as fast a step is as that of `full`, and how much less memory weights and cache",
            "need. The paper (8B, F16 weights) has up to 3.7 times on an A100 and 3.3 on an H100, and 32.6 % less memory.",
            "", *table(["shape, tokens", "`full`"] + [f"`{policy}`" for policy in ROCKET[1:]], rows)]


def page(program, folder, machine, date):
    """Measures what is missing and returns the page."""
    os.makedirs(folder, exist_ok=True)
    results = {run.name: measure(program, folder, run) for run in RUNS}
    batches = largest_batches(program, folder)
    forecasts = [(length, forecast(program, folder, length)) for length in (16384, 131072)]
    commands = [f"    {run.text()}" for run in RUNS]
    shapes = ", ".join(f"{key}: `{geometry}` in {kind.upper()}" for key, (geometry, kind) in SHAPES.items())
    lines = ["# Papers' claims of time and memory", "",
             f"Measured by `tools/seeds.py cost` on {date}: {machine}; {results['answer-middle']['backend']}.",
             f"Random weights ({shapes}), entries in F16. Times are ratios of policies that one run interleaves.", "",
             *morph(results, batches), *dapq(results), *prefill(results, forecasts), *rocket(results),
             "## Commands", "", *commands, ""]
    return "\n".join(wrapped(lines))
