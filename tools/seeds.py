#!/usr/bin/env python3
"""seeds.py - tests claims from the papers of morphkv, dapq, take and rocketkv on small models.

    tools/seeds.py run --model smollm2=models-local/smollm2.gguf --model gemma3=models-local/gemma3.gguf
    tools/seeds.py slim > docs/measured/seeds.jsonl
    tools/seeds.py page > docs/measured/seeds.md
    tools/seeds.py cost > docs/measured/seeds-cost.md
    tools/seeds.py list

`run` runs the SETS below: always those of the bundled model, and those of other models if --model names their files.
The results of every sample are kept in --work (build/seeds), so an interrupted run, even by kill -9, continues where
it stopped. All sets advance together, sample by sample, each with all its policies. So at any moment every set has
some complete samples. --minutes limits the time. --samples N replaces every set's number of samples. --shard I/N
takes every N-th sample: two shards on two cores need half the time.

`cost` measures the claims about time and memory (seeds_cost.py); run it on an idle machine with 16 GiB.

`slim` extracts the page's data from the complete samples; `page` makes the page from them (seeds_page.py). Texts
come from --text FILE, or are free texts that Debian installs: the Python policy (package python3) and licenses
(package base-files).
"""
import argparse
import gzip
import itertools
import json
import os
import re
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
WORK = os.path.join(TOP, "build", "seeds")
ABLE = 0.3  # minimum score of the full cache: below it, a task says nothing about methods


def fail(text):
    sys.exit(f"seeds.py: {text}")


# ---- the sets ----

def each(form, *budgets):
    return [form.format(budget) for budget in budgets]


def traffic(*budgets):
    """Returns methods that select entries to read, each with budgets that read equally many bytes. The rows of snapkv
    are in PROMPT."""
    forms = ("rocketkv:budget={}", "quest:budget={},page=auto", "sparq:budget={}", "hsa:budget={}", "topk:budget={}")
    return [form.format(budget) for budget in budgets for form in forms]


def constant(budget):
    """Returns methods with constant memory while the answer grows, and snapkv, whose memory grows."""
    forms = ("morphkv:budget={}", "morphkv:budget={},every=4", "morphkv:budget={},every=16",
             "morphkv:budget={},fusion=max", "h2o:budget={}", "streaming:budget={}",
             "snapkv:budget={}+snapkv-decode:budget={}", "snapkv:budget={}")
    return [form.replace("{}", str(budget)) for form in forms]


def layers(budget, first):
    """Returns morphkv, and morphkv with the first layers left full."""
    return [f"morphkv:budget={budget}", f"morphkv:budget={budget},skip_layers={first}"]


REPEATED = ["full", "morphkv:budget=200", "snapkv:budget=200"]
BUDGETS = (64, 128, 200, 400)  # 3, 6, 10 and 20 % of 2,000 tokens
DAPQ = "dapq:budget={},content=ends,pseudo=32"
PROMPT = each("snapkv:budget={}", *BUDGETS) + each(DAPQ, *BUDGETS)
TAKE, TAKE_PROBES, TAKE_MAX, TAKE_BOTH = ["take:budget=200,chunk=512" + more for more in (
    ",probe_sees=chunk,pooling=avg,kernel=5", ",pooling=avg,kernel=5", ",probe_sees=chunk", "")]
ORDER = ["pyramidkv:budget=128", "adakv:budget=128", "cake:budget=128", "h2o:budget=128,stages=prompt",
         "streaming:budget=128,stages=prompt", "random:budget=128,stages=prompt", "morphkv:budget=128"]
TENTH = ["adakv:budget=200", "cake:budget=200"]


class Set:
    """One task of one model. `asks`: pairs of a question mode and its policies."""

    def __init__(self, name, model, task, length, samples, asks, *more, file=None, step=1):
        self.name, self.model, self.task, self.length, self.samples = name, model, task, length, samples
        self.asks, self.more, self.file, self.step = asks, more, file, step

    def wanted(self):
        return {(question, kv) for question, policies in self.asks for kv in policies}


def able(model, tasks):
    """Returns the tasks that the model can solve with the full cache; other tasks say nothing about methods."""
    for task in tasks:
        length, text = (1024, None) if task == "list" else (2048, "essays" if "niah" in task else None)
        yield Set(f"{model}-able-{task}", model, task, length, 5, [("seen", ["full"])], file=text, step=5)


def both_ways(name, model, task, length, samples, seen, unseen, *more, **others):
    return Set(name, model, task, length, samples, [("seen", seen), ("unseen", unseen)], *more, **others)


SEEN = ["full"] + PROMPT + [TAKE, TAKE_BOTH] + ORDER + TENTH + traffic(64, 200)
UNSEEN = PROMPT + [TAKE, TAKE_BOTH] + ORDER + each("rocketkv:budget={}", 64, 200)
DEMO = ["full"] + each("snapkv:budget={}", 64, 200) + each(DAPQ, 64, 200) + [TAKE, TAKE_BOTH]
DEMO_TAKE = [TAKE, TAKE_PROBES, TAKE_MAX, TAKE_BOTH, TAKE_BOTH + ",warmup_layers=0"]
DEMO_ORDER = ["snapkv:budget=128", "dapq:budget=128,content=ends,pseudo=32"] + ORDER
DEMO_TRAFFIC = ["full", "snapkv:budget=64"] + traffic(64) + ["snapkv:budget=64,per=head", "morphkv:budget=256"]
GEMMA_SEEN = (["full"] + each("snapkv:budget={}", 64, 200) + each(DAPQ, 64, 200) + [TAKE, TAKE_BOTH] +
              ["h2o:budget=128,stages=prompt", "streaming:budget=128,stages=prompt"] + traffic(64))
GEMMA_UNSEEN = GEMMA_SEEN[1:9]
RECALL = (each("snapkv:budget={}", 64, 200) + each(DAPQ, 64, 200) +
          ["dapq:budget=64,content=random,pseudo=32", "dapq:budget=64,content=ends,pseudo=32,kernel=1",
           "snapkv:budget=64,kernel=1", TAKE, TAKE_BOTH])
TURNS = ["full"] + [kv for t in (64, 128) for kv in [f"snapkv:budget={t}", f"rocketkv-mt:budget={t}"] + traffic(t)]
SCB = ["full", "snapkv:budget=128", "rocketkv-mt:budget=128"] + traffic(128)
ANSWER = (["full"] + constant(128) + constant(256) + ["morphkv:budget=256,window=128,fusion=max"])

SETS = [
    *able("smollm2", ["niah", "kv_retrieval", "niah_multikey_1", "niah_multikey_2", "vt", "fwe", "scb_niah", "scb_kv",
                      "scb_vt", "scb_mf", "list"]),
    *able("gemma3", ["niah", "kv_retrieval", "niah_multikey_1", "vt"]),
    both_ways("demo-niah", "demo", "needle", 2000, 60, DEMO, DEMO, "--ask", "both", "--depths", "4"),
    both_ways("demo-take", "demo", "needle", 2000, 60, DEMO_TAKE, DEMO_TAKE, "--ask", "both", "--depths", "4"),
    both_ways("demo-order", "demo", "needle", 2000, 60, DEMO_ORDER, DEMO_ORDER, "--ask", "both", "--depths", "4"),
    Set("demo-traffic", "demo", "needle", 2000, 60, [("seen", DEMO_TRAFFIC)], "--ask", "one", "--depths", "4"),
    Set("demo-turns", "demo", "needle", 2000, 40, [("turns", TURNS)], "--ask", "turns", "--depths", "8"),
    Set("demo-answer", "demo", "needle", 2000, 40, [("answer", ANSWER)], "--ask", "answer", "--depths", "8"),
    both_ways("smollm2-niah", "smollm2", "niah", 2048, 22, SEEN, UNSEEN, file="essays"),
    both_ways("smollm2-kv", "smollm2", "kv_retrieval", 2048, 22, SEEN, UNSEEN),
    Set("smollm2-recall", "smollm2", "fidelity_recall", 2048, 12, [("none", RECALL)], file="text"),
    Set("smollm2-perplexity", "smollm2", "perplexity", 512, 16, [("none", ["full"] + constant(64))], file="text"),
    Set("smollm2-list", "smollm2", "list", 1024, 10, [("seen", ["full"] + constant(200))]),
    Set("demo-layers", "demo", "needle", 2000, 40, [("answer", ["full"] + layers(128, 1) + layers(256, 1))],
        "--ask", "answer", "--depths", "8"),
    Set("smollm2-layers-list", "smollm2", "list", 1024, 10, [("seen", ["full"] + layers(200, 3))]),
    Set("smollm2-layers", "smollm2", "perplexity", 512, 16, [("none", ["full"] + layers(64, 3))], file="text"),
    Set("smollm2-turns", "smollm2", "scb_niah", 2048, 12, [("seen", SCB)], file="essays"),
    Set("gemma3-repeated", "gemma3", "list", 1024, 10, [("seen", REPEATED)]),
    both_ways("gemma3-niah", "gemma3", "niah", 2048, 22, GEMMA_SEEN, GEMMA_UNSEEN, file="essays"),
]


# ---- runs ----

def free_text(path):
    """Writes Debian's free texts to one file, with each run of blanks as one blank."""
    licences = "/usr/share/common-licenses"
    parts = [gzip.open, "/usr/share/doc/python3/python-policy.txt.gz"], *(
        [open, f"{licences}/{name}"] for name in ("GFDL-1.3", "GPL-3", "MPL-2.0", "LGPL-2.1", "Apache-2.0", "Artistic"))
    text = []
    for opener, name in parts:
        try:
            with opener(name, "rt", encoding="utf-8") as stream:
                text += [" ".join(line.split()) + "\n" for line in stream if line.strip()]
        except OSError as error:
            fail(f"{name}: {error.strerror}; give another text with --text FILE")
    with open(path, "w", encoding="utf-8") as stream:
        stream.writelines(text)


def records_of(path):
    """Returns the records of a file, without an incomplete last line."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as stream:
        lines = [line for line in stream if line.endswith("\n")]
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        return fail(f"{path}: {error}; it takes the lines that a run wrote")


def complete(chosen, records):
    """Returns {sample: {(question, kv): its records}} for complete samples."""
    found = {}
    for record in records:
        part = found.setdefault(record["sample"], {}).setdefault((record["question"], record["kv"]), {})
        part[record.get("turn", 1)] = record
    whole = lambda parts: all(len(turns) == next(iter(turns.values())).get("turns", 1) for turns in parts.values())
    wanted = chosen.wanted()
    return {sample: parts for sample, parts in sorted(found.items()) if wanted <= parts.keys() and whole(parts)}


class Run:
    def __init__(self, options):
        self.kvcull = os.path.join(options.build, "kvcull")
        self.work, self.models = options.work, {"demo": os.path.join(TOP, "data", "demo")}
        self.threads, self.templates = str(options.threads), {}
        self.ends = time.time() + 60 * options.minutes if options.minutes else None
        try:
            self.shard, self.shards = [int(part) for part in options.shard.split("/")]
            if not 1 <= self.shard <= self.shards:
                raise ValueError
        except ValueError:
            fail(f"--shard {options.shard}: takes I/N, I from 1 to N")
        for given in options.model or []:
            name, equals, path = given.partition("=")
            if not equals or not os.path.exists(path):
                fail(f"--model {given}: takes NAME=FILE, a file that is there")
            self.models[name] = path
        known = {chosen.model for chosen in SETS}
        if set(self.models) - known:
            fail(f"--model {', '.join(set(self.models) - known)}: takes one of {', '.join(sorted(known))}")
        if not os.access(self.kvcull, os.X_OK):
            fail(f"--build {options.build}: has no program kvcull")
        os.makedirs(self.work, exist_ok=True)
        self.text = options.text
        if not self.text:
            self.text = os.path.join(self.work, f"text.{self.shard}")
            free_text(self.text)

    def raw(self, model):
        """Returns --raw for a model without chat template."""
        if model not in self.templates:
            printed = subprocess.run([self.kvcull, "info", self.models[model], "--json"], capture_output=True, text=True)
            if printed.returncode:
                fail(f"{self.models[model]}: {printed.stderr.strip()}")
            self.templates[model] = json.loads(printed.stdout)["chat_template"]
        return [] if self.templates[model] else ["--raw"]

    def file(self, chosen):
        return os.path.join(self.work, f"{chosen.name}.{self.shard}-{self.shards}.jsonl")

    def call(self, chosen, *arguments):
        """Returns kvcull's output, or None if the time has run out."""
        left = self.ends - time.time() if self.ends else None
        if left is not None and left <= 0:
            return None
        command = [self.kvcull, "eval", chosen.task, "-m", self.models[chosen.model], "--length", str(chosen.length),
                   "--threads", self.threads, "-q", *chosen.more, *arguments]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            printed, errors = child.communicate(timeout=left)
        except subprocess.TimeoutExpired:
            child.terminate()
            child.communicate()
            return None
        if child.returncode:
            fail(f"{chosen.name}: {(errors.strip() or 'no message').splitlines()[-1]}")
        return printed

    def ask(self, chosen, samples):
        """Runs all policies on all samples below `samples` of this shard. Existing results are kept."""
        for question, policies in chosen.asks:
            given = [word for kv in policies for word in ("--kv", kv)]
            given += ["--samples", str(samples), "--question", "seen" if question == "none" else question]
            given += ["--shard", f"{self.shard}/{self.shards}", "--out", self.file(chosen), "--resume"]
            given += ["--" + chosen.file, self.text] if chosen.file else []
            if self.call(chosen, *self.raw(chosen.model), *given) is None:
                return False
        return True

    def ask_needle(self, chosen, samples):
        """Runs `eval needle`, which stores no samples: each text is a run with its own seed."""
        there = complete(chosen, records_of(self.file(chosen)))
        policies = chosen.asks[0][1]  # one command asks all policies in all question modes
        for sample in range(self.shard - 1, samples, self.shards):
            if sample in there:
                continue
            printed = self.call(chosen, "--texts", "1", "--seed", str(sample + 1), "--json",
                                *[word for kv in policies for word in ("--kv", kv)])
            if printed is None:
                return False
            results = json.loads(printed)
            with open(self.file(chosen), "a", encoding="utf-8") as stream:
                for one in results["results"]:
                    depths = one["depths"]
                    for (turn, depth), (question, _) in itertools.product(enumerate(depths, 1), chosen.asks):
                        stream.write(json.dumps({
                            "model": "demo", "task": "needle", "length": chosen.length, "sample": sample,
                            "question": question, "kv": one["kv"], "turn": turn, "turns": len(depths),
                            "score": depth["right_unseen" if question == "unseen" else "right"],
                            "cache_type": results["cache_type"], "entries": one["entries"],
                            "held_bytes": one["held_bytes"], "peak_bytes": one["peak_bytes"],
                            "read_bytes": one["read_bytes_per_token"], "steps": 1,
                            "answer_us": 1e6 * one["seconds"] / len(depths) / len(chosen.asks),
                            "prompt_us": 0}) + "\n")
        return True

    def is_beyond(self, chosen):
        """Returns true if able() found that the model cannot solve the task."""
        for able_set in SETS:
            if able_set.name == f"{chosen.model}-able-{chosen.task}" and able_set is not chosen:
                there = complete(able_set, records_of(self.file(able_set)))
                scores = [turn["score"] for parts in there.values() for turns in parts.values()
                          for turn in turns.values()]
                return len(there) == able_set.samples and sum(scores) / len(scores) < ABLE
        return False

    def all(self, chosen, count):
        """Runs next the set with the smallest fraction of its samples complete, until all are complete or the time has
        run out."""
        todo = {one: 0 for one in chosen}
        ends = {one: count or one.samples for one in chosen}
        while todo:
            one = min(todo, key=lambda some: todo[some] / ends[some])
            if todo[one] == 0 and self.is_beyond(one):
                print(f"{one.name}: skipped, because the full cache scores less than {ABLE}", file=sys.stderr)
                del todo[one]
                continue
            samples = min(todo[one] + one.step * self.shards, ends[one])
            start = time.time()
            ask = self.ask_needle if one.task == "needle" else self.ask
            if not ask(one, samples):
                print("the time is over", file=sys.stderr)
                return
            todo[one] = samples
            print(f"{time.strftime('%H:%M:%S')} {one.name}: {samples} of {ends[one]}, {time.time() - start:.0f} s",
                  file=sys.stderr, flush=True)
            if samples == ends[one]:
                del todo[one]


def run(options):
    made = Run(options)
    chosen = [one for one in SETS if one.model in made.models and (not options.set or one.name in options.set)]
    if not chosen:
        fail(f"--set {', '.join(options.set)}: tools/seeds.py list shows the sets; those of other models need --model")
    made.all(chosen, options.samples)


# ---- data for the page ----

def digits(answer, wanted):
    """Returns which fraction of the expected number's digits, from the first one on, the answer's number has."""
    found, number = [(re.findall(r"\d+", text) + [""])[0] for text in (answer, wanted)]
    same = len(os.path.commonprefix([found, number]))
    return same / len(number) if number else 0.0


HEADER = ("model", "weights", "arithmetic", "cache_type", "prompt", "task", "length", "data")


def mean(numbers):
    numbers = list(numbers)
    return sum(numbers) / len(numbers)


def slim_set(chosen, there):
    """Returns a line with the results' common fields, and a line for each policy and question mode."""
    first = next(iter(next(iter(there.values())).values()))[1]
    spent = sum(turn["prompt_us"] + turn["answer_us"] for parts in there.values() for turns in parts.values()
                for turn in turns.values())
    yield {"set": chosen.name, **{name: first[name] for name in HEADER if name in first}, "samples": list(there),
           "seconds": round(spent / 1e6)}
    for question, policies in chosen.asks:
        for kv in policies:
            answers = [[turn for _, turn in sorted(parts[question, kv].items())] for parts in there.values()]
            every = [turn for answer in answers for turn in answer]
            line = {"set": chosen.name, "question": question, "kv": kv,
                    "scores": [[round(turn["score"], 5) for turn in answer] for answer in answers]}
            for name, field in (("held", "held_bytes"), ("peak", "peak_bytes"), ("end", "answer_peak_bytes")):
                if field in every[0]:
                    line[name] = round(mean(turn[field] for turn in every))
            steps = sum(turn["steps"] for turn in every)
            line["read"] = round(sum(turn["read_bytes"] for turn in every) / steps) if steps else 0
            for name in ("prompt_tokens", "answer_tokens"):
                if name in every[0]:
                    line[name] = round(mean(turn[name] for turn in every))
            if "memory" in every[0]:
                line["memory"] = [round(mean(turn["memory"][at][1] for turn in every)) for at in (0, -1)]
            if chosen.task == "niah":  # a score between right and wrong, relative to the full cache's answer
                full = [parts["seen", "full"][1]["answer"] for parts in there.values()]
                line["values"] = {"digits": [round(digits(turn["answer"], text), 5) for turn, text in zip(every, full)]}
            if "values" in every[0]:
                line["values"] = {name: [round(turn["values"][name], 5) for turn in every]
                                  for name in every[0]["values"]}
            yield line


def slim(options):
    lines = []
    for chosen in SETS:
        records = []
        for name in sorted(os.listdir(options.work)) if os.path.isdir(options.work) else []:
            if name.startswith(chosen.name + ".") and name.endswith(".jsonl"):
                records += records_of(os.path.join(options.work, name))
        there = complete(chosen, records)
        if there:
            lines += slim_set(chosen, there)
    if not lines:
        fail(f"--work {options.work}: has no sample that is complete; tools/seeds.py run makes some")
    print(json.dumps({"date": time.strftime("%Y-%m-%d", time.gmtime()), "machine": options.machine}))
    for line in lines:
        print(json.dumps(line, separators=(",", ":")))


def page(options):
    import seeds_page  # pylint: disable=import-outside-toplevel
    sys.stdout.write(seeds_page.write(options.data))


def cost(options):
    import seeds_cost  # pylint: disable=import-outside-toplevel
    date = time.strftime("%Y-%m-%d", time.gmtime())
    sys.stdout.write(seeds_cost.page(os.path.join(options.build, "kvcull"), options.work, options.machine, date))


def show(_):
    for chosen in SETS:
        print(f"{chosen.name:28}{chosen.samples:4} samples of {chosen.length} tokens, {len(chosen.wanted())} policies")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run", help="run the sets")
    one.add_argument("--model", action="append", metavar="NAME=FILE", help="smollm2 or gemma3; may be repeated")
    one.add_argument("--build", default=os.path.join(TOP, "build"), help="the folder of the program")
    one.add_argument("--work", default=WORK, help="the folder of results")
    one.add_argument("--text", help="a text of about 25,000 tokens instead of Debian's")
    one.add_argument("--samples", type=int, default=0, help="samples of every set, instead of its own number")
    one.add_argument("--shard", default="1/1", metavar="I/N", help="only every N-th sample")
    one.add_argument("--minutes", type=float, default=0, help="time limit")
    one.add_argument("--threads", type=int, default=1)
    one.add_argument("--set", action="append", metavar="NAME", help="only this set; may be repeated")
    one.set_defaults(function=run)
    one = commands.add_parser("slim", help="write the page's data to standard output")
    one.add_argument("--work", default=WORK)
    one.add_argument("--machine", default="", help="a description of the machine, for the page")
    one.set_defaults(function=slim)
    one = commands.add_parser("page", help="write docs/measured/seeds.md to standard output")
    one.add_argument("--data", default=os.path.join(TOP, "docs", "measured", "seeds.jsonl"))
    one.set_defaults(function=page)
    one = commands.add_parser("cost", help="measure time and memory, and write docs/measured/seeds-cost.md")
    one.add_argument("--build", default=os.path.join(TOP, "build"), help="the folder of the program")
    one.add_argument("--work", default=os.path.join(WORK, "cost"), help="the folder of results")
    one.add_argument("--machine", default="", help="a description of the machine, for the page")
    one.set_defaults(function=cost)
    one = commands.add_parser("list", help="list the sets")
    one.set_defaults(function=show)
    options = parser.parse_args()
    options.function(options)


if __name__ == "__main__":
    main()
