"""Tasks with long answers: LongWriter's length (github.com/THUDM/LongWriter), LongGenBench's pieces
(github.com/mozhu621/LongGenBench), LongProc's procedures (github.com/princeton-pli/LongProc)."""
from __future__ import annotations

import re
from typing import Callable, Dict, Iterator, List

from ..errors import InputError
from . import scores
from .data import Folder, Row, fill
from .task import Question, Sample, Task


class LongWriter(Task):
    """{"prompt", "length": requested words}"""

    group = "longwriter"
    tokens = 0

    def __init__(self, name: str, about: str, file: str):
        self.name, self.about, self.file, self.files = f"longwriter/{name}", about, file, f"evaluation/{file}"

    @property
    def summary(self) -> str:
        return self.about

    def samples(self, data: Folder, length: int) -> Iterator[Sample]:
        for row in data.rows(f"evaluation/{self.file}", self.file):
            yield Sample(row.text("prompt"), more={"length": row.number("length", 1, 1000000)})

    def score(self, question: Question, answer: str) -> float:
        return scores.length(answer, question.more["length"])


class LongGenBench(Task):
    """{"prompt", "prefix": beginning of the answer, "type", "number": of pieces}"""

    group = "longgenbench"
    tokens = 0

    def __init__(self, name: str, about: str, file: str):
        self.name, self.about, self.file, self.files = f"longgenbench/{name}", about, file, f"Dataset/{file}"

    @property
    def summary(self) -> str:
        return self.about

    def samples(self, data: Folder, length: int) -> Iterator[Sample]:
        for row in data.rows(f"Dataset/{self.file}", self.file):
            prompt, prefix = row.text("prompt"), row.text("prefix", True)
            ends = prefix != "" and prompt.endswith(prefix) and prompt != prefix
            yield Sample(prompt[:-len(prefix)] if ends else prompt, opening=prefix if ends else "",
                         more={"prefix": prefix, "type": row.text("type"), "number": row.number("number", 1, 100000)})

    def score(self, question: Question, answer: str) -> float:
        whole = question.more["prefix"] + answer.split("*** finished")[0]
        return scores.completion(whole, question.more["type"], question.more["number"])


# ---- LongProc ----


def yaml_prompt(data: Folder, *names: str) -> str:
    """Returns the block under "USER_PROMPT: |-" of a YAML file, without its indentation."""
    text = data.text(*names)
    found = re.search(r"USER_PROMPT: \|-\n((?:  .*\n?|\n)+)", text)
    prompt = "\n".join(line[2:] for line in found.group(1).split("\n")).rstrip("\n") if found else ""
    if not prompt:
        raise InputError(f'{data.file(*names)}: no "USER_PROMPT: |-" with a text below')
    return prompt


def _route(data: Folder, row: Row, rows: List[Row]) -> Dict[str, str]:
    ends = row.texts("question_repr", 2)
    return {"city_context": row.text("context_nl"), "src_city": ends[0], "dst_city": ends[1]}


def _beliefs(data: Folder, row: Row, rows: List[Row]) -> Dict[str, str]:
    return {"story": row.text("story"), "question": row.text("question"),
            "story_components": row.text("story_components", True)}


def _table(data: Folder, row: Row, rows: List[Row]) -> Dict[str, str]:
    name = row.text("html_path")
    if name.startswith("/") or ".." in name or "\\" in name:
        raise row.wrong("html_path", "the name of a file in the folder")
    names = (f"data/html_to_tsv/{name}", f"html_to_tsv/{name}", name)
    if data.find(*names) is None:
        raise row.wrong("html_path", "an existing UTF-8 file of at most 16 MiB")
    return {"html_str": data.text(*names, most=16 << 20), "tsv_header": row.text("tsv_header"),
            **{field: row.text(field, True) for field in ("task_topic", "task_description", "filtering_instruction")}}


def _numbers(row: Row) -> str:
    numbers = row.get("nums")
    if not isinstance(numbers, list) or len(numbers) != 4 or not all(
            isinstance(one, int) and not isinstance(one, bool) and 0 <= one <= 1000000 for one in numbers):
        raise row.wrong("nums", "a list of four whole numbers")
    return str(numbers)


def _search(row: Row) -> str:
    """Returns a record's search as an example."""
    shown = row.text("demonstration")
    head = "<Search Procedure>"
    shown = "# Search Procedure" + shown[len(head):] if shown.startswith(head) else shown
    return f"# Example\nNumbers: {_numbers(row)}\nTarget: {row.number('target', 0, 1000000)}\n\n{shown}"


def _countdown(data: Folder, row: Row, rows: List[Row]) -> Dict[str, str]:
    """The two preceding records are the examples."""
    examples = "\n\n".join(_search(rows[(row.index - back) % len(rows)]) for back in (2, 1))
    row.text("demonstration")
    return {"demonstration": examples, "nums": _numbers(row), "target": str(row.number("target", 0, 1000000))}


class LongProc(Task):
    """A set of LongProc, in one of its sizes."""

    group = "longproc"

    def __init__(self, name: str, size: str, about: str, tokens: int, split: str, truth: str,
                 fields: Callable[[Folder, Row, List[Row]], Dict[str, str]],
                 score: Callable[[Question, str], float]):
        self.set, self.about, self.tokens, self.split, self.truth = name, about, tokens, split, truth
        self.name, self._fields, self._score = f"longproc/{name}_{size}", fields, score
        self.file = f"{name}/{name}_{size}.json"
        self.files = f"data/{self.file} and data/{name}/prompts.yaml"

    @property
    def summary(self) -> str:
        return self.about

    def samples(self, data: Folder, length: int) -> Iterator[Sample]:
        template = yaml_prompt(data, f"data/{self.set}/prompts.yaml", f"{self.set}/prompts.yaml")
        rows = list(data.rows(f"data/{self.file}", self.file))
        for row in rows:
            context, question = fill(template, self.split, **self._fields(data, row, rows))
            truth = [row.text(self.truth)] if self.truth else []
            yield Sample(context, question, truth, more={"nums": row.get("nums"), "target": row.get("target")})

    def score(self, question: Question, answer: str) -> float:
        return self._score(question, answer)


_PROC = (
    ("path_traversal", "a route through one-way connections", "city_context", "answer_nl", _route,
     lambda question, answer: scores.route(answer, question.answers[0])[0]),
    ("html_to_tsv", "a table of the items on a web page", "html_str", "gt", _table,
     lambda question, answer: scores.table(answer, question.answers[0])),
    ("tom_tracking", "who believes what, step by step", "story", "solution", _beliefs,
     lambda question, answer: scores.beliefs(answer, question.answers[0])[0]),
    ("countdown", "an equation with four given numbers, found by search", "demonstration", "", _countdown,
     lambda question, answer: scores.countdown(answer, question.more["nums"], question.more["target"])),
)
TASKS = [
    LongWriter("write", "texts of a given length, English and Chinese", "longbench_write.jsonl"),
    LongWriter("write_en", "texts of a given length", "longbench_write_en.jsonl"),
    LongWriter("ruler", "eight texts of given lengths, up to 30000 words", "longwrite_ruler.jsonl"),
    LongGenBench("short", "a diary, menu, building or town in numbered pieces, 16K", "Dataset_short.json"),
    LongGenBench("long", "the same in more pieces, 32K", "Dataset_long.json"),
    *(LongProc(name, size, about, tokens, split, truth, fields, score)
      for name, about, split, truth, fields, score in _PROC
      for size, tokens in (("0.5k", 1024), ("2k", 3072), ("8k", 9216))),
]
