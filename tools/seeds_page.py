"""seeds_page.py - makes docs/measured/seeds.md: every claim of seeds_claims.py, with the results of the runs and a
verdict that fixed rules give."""
import textwrap

import seeds_claims
from seeds import ABLE, SETS
from seeds_numbers import Data, interval, mean, paired

FEWEST = 3   # minimum samples of a comparison
LEVEL = 0.1  # maximum difference of shares that count as level


SHOWN = {"demo": "bundled", "smollm2": "SmolLM2", "gemma3": "Gemma 3"}


def wrap(text):
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False) + "\n"


def table(heading, rows):
    lines = [heading, ["---"] * len(heading)] + rows
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def number(x, share=True):
    return f"{x:.2f}" if share else f"{x:.3f}"


def bounds(low, high, share=True):
    return f"{number(low, share)} to {number(high, share)}"


def kib(count):
    return f"{count / 1024:,.0f} KiB" if count < 10 << 20 else f"{count / 1024 / 1024:.1f} MiB"


# ---- comparisons and claims ----

class Compared:
    """The result of one comparison: `low` and `high` of the difference, positive in favor of the first policy."""

    def __init__(self, data, one):
        self.one, self.value = one, one.value
        a, b = (data.scores(one.set, one.question, kv, one.value) for kv in (one.a, one.b))
        self.share = data.share(one.set, one.value)
        self.head, self.count, self.a, self.b = data.heads[one.set], len(a), mean(a), mean(b)
        low, high = paired(a, b, self.share)
        self.difference = self.a - self.b
        better = -1 if one.lower else 1
        self.low, self.high = sorted((better * low, better * high))
        full = data.scores(one.set, one.question, "full")
        self.able = one.lower or one.value or full is None or mean(full) >= ABLE  # measured values have no upper limit
        self.shown = bounds(low, high, self.share)

    def says(self):
        """Returns 1 if the first is better, -1 if the second is, 0 if undecided, None if the task is beyond the model."""
        return None if not self.able else 1 if self.low > 0 else -1 if self.high < 0 else 0

    def level(self):
        """Returns 1 if level, -1 if the first is clearly worse, 0 if undecided."""
        limit = LEVEL if self.share else 0.02
        if not self.able:
            return None
        return 1 if self.low > -limit and (self.high < limit or self.low > 0) else -1 if self.high < 0 else 0

    def cells(self):
        return [SHOWN[self.one.set.split("-")[0]], self.one.task, self.one.question.replace("none", "-"),
                f"`{self.one.a}`", f"`{self.one.b}`", str(self.count), number(self.a, self.share),
                number(self.b, self.share), f"{self.difference:+.2f}" if self.share else f"{self.difference:+.3f}",
                self.shown + ("" if self.able else " (full is below 0.3)")]


def verdict(compared, level):
    """Returns the verdict in one line, which fixed rules derive from the comparisons."""
    said = [one.level() if level else one.says() for one in compared]
    said = [one for one in said if one is not None]
    if not said:
        return "not tested: the models cannot solve the tasks"
    yes, no, known = said.count(1), said.count(-1), len(said)
    if yes == known:
        text = "holds"
    elif no == known:
        text = "does not hold"
    elif yes and no:
        text = "mixed"
    elif yes:
        text = "holds in part"
    elif no:
        text = "does not hold in part"
    else:
        text = "undecided"
    return f"{text} ({yes} of {known} comparisons for it, {no} against, {known - yes - no} undecided)"


HEADING = ["model", "task", "question", "policy", "compared with", "n", "score", "other score", "difference", "95 %"]


def beyond(data, name):
    """Returns true if the full cache cannot solve the task of a set."""
    chosen = next(one for one in SETS if one.name == name)
    scores = data.scores(f"{chosen.model}-able-{chosen.task}", "seen", "full")
    return bool(scores) and mean(scores) < ABLE


def claim_text(data, claim):
    compared = [Compared(data, one) for one in claim.comparisons
                if min(len(data.scores(one.set, one.question, kv) or []) for kv in (one.a, one.b)) >= FEWEST]
    result = verdict(compared, claim.level)
    text = f"### {claim.title}\n\n" + wrap(f"*Claim:* {claim.text} ({claim.source})") + "\n"
    if not compared:
        some = any(data.scores(one.set, one.question, one.a) for one in claim.comparisons)
        result = (f"fewer than {FEWEST} samples so far" if some else "no model here can solve the task"
                  if all(beyond(data, one.set) for one in claim.comparisons) else "not run so far")
        return text + wrap(f"**{result[0].upper()}{result[1:]}.** {claim.why}") + "\n", result
    text += table(HEADING, [one.cells() for one in compared]) + "\n"
    return text + wrap(f"**{result[0].upper()}{result[1:]}.** {claim.why}") + "\n", result


# ---- tables of the runs ----

def able_text(data):
    rows = []
    for name, head in data.heads.items():
        if "-able-" not in name:
            continue
        scores = data.scores(name, "seen", "full")
        low, high = interval(scores, True)
        rows.append([SHOWN[name.split("-")[0]], head["task"], str(head["length"]), str(len(scores)),
                     number(mean(scores)), bounds(low, high)])
    return table(["model", "task", "tokens", "n", "full", "95 %"], rows) + "\n"


def cell(data, name, question, kv):
    scores = data.scores(name, question, kv)
    if scores is None:
        return "-"
    share = data.share(name)
    return f"{number(mean(scores), share)} ({bounds(*interval(scores, share), share)})"


def set_text(data, name):
    head = data.heads[name]
    questions = list(dict.fromkeys(question for one, question, _ in data.rows if one == name))
    policies = list(dict.fromkeys(kv for one, _, kv in data.rows if one == name))
    words = {"none": "score", "seen": "seen", "unseen": "unseen", "turns": "over turns", "answer": "one answer"}
    rows = []
    values = next(iter(data.row(name, questions[0], kv).get("values", {}) for kv in policies))
    for kv in policies:
        row = next(data.row(name, question, kv) for question in questions if data.row(name, question, kv))
        more = [f"{mean(row['values'][value]):.3f}" for value in values]
        rows.append([f"`{kv}`", *[cell(data, name, question, kv) for question in questions], *more,
                     kib(row.get("end", row["held"])), kib(row["peak"]), kib(row["read"])])
    held = "most held while answering" if "end" in row else "held after the prompt"
    model, count = SHOWN[name.split("-")[0]], len(head["samples"])
    text = f"### {model}: `{name}`, {head['task']} of {head['length']} tokens, {count} samples\n\n"
    return text + table(["policy", *[words[question] for question in questions], *values, held, "peak",
                         "read/token"], rows) + "\n"


def settings(data):
    parts, seen = [], set()
    for name, head in data.heads.items():
        model = name.split("-")[0]
        if model in seen or "weights" not in head:
            continue
        seen.add(model)
        parts.append(f"{SHOWN[model]}: {head['weights']}, arithmetic {head['arithmetic']}, {head['cache_type']} cache, "
                     f"prompts: {head['prompt']}")
    return "; ".join(parts) + "."


def write(path):
    data = Data(path)
    done, verdicts = "", []
    for paper, claims in seeds_claims.CLAIMS.items():
        done += f"## {paper}\n\n"
        for claim in claims:
            text, result = claim_text(data, claim)
            done += text
            verdicts.append([paper.split(" ")[0], claim.title, result])
    spent = sum(head.get("seconds", 0) for head in data.heads.values())
    page = "# Papers' claims on small models\n\n" + wrap(
        seeds_claims.INTRODUCTION.replace("DATE", data.first["date"]).replace(
            "MACHINE", data.first["machine"]).replace("SETTINGS", settings(data)).replace(
                "MINUTES", f"{spent / 60:.0f}")) + "\n"
    page += "".join(f"    {line}\n" for line in seeds_claims.COMMANDS) + "\n"
    page += "\n".join(wrap(text) for text in seeds_claims.READING) + "\n"
    page += "## Summary\n\n" + table(["paper", "claim", "result"], verdicts) + "\n"
    page += "\n".join(wrap(text) for text in seeds_claims.SHORT) + "\n"
    page += "## What the models can do\n\n" + wrap(seeds_claims.ABLE) + "\n" + able_text(data)
    page += done + "## Every policy of every run\n\n" + wrap(seeds_claims.TABLES) + "\n"
    page += "".join(set_text(data, name) for name in data.heads if "-able-" not in name)
    return page.rstrip("\n") + "\n"
