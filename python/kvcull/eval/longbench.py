"""LongBench and LongBench v2 (github.com/THUDM/LongBench): records and prompts come from the user's folder, and scores
follow the benchmarks' scripts."""
from __future__ import annotations

import json
from typing import Callable, Iterator

from ..errors import InputError
from . import scores
from .data import Folder, Row, fill
from .task import Question, Sample, Task


def _best(score: scores.Score) -> Callable[[Question, str], float]:
    return lambda question, answer: scores.best(score, answer, question.answers)


def _best_of_line(score: scores.Score) -> Callable[[Question, str], float]:
    return lambda question, answer: scores.best(score, scores.first_line(answer), question.answers)


def _class(question: Question, answer: str) -> float:
    line = scores.first_line(answer)
    return max(scores.class_share(line, truth, question.more["all_classes"]) for truth in question.answers)


SCORES = {
    "f1": _best(scores.word_f1), "line_f1": _best_of_line(scores.word_f1), "zh_f1": _best(scores.chinese_f1),
    "rouge": _best(scores.rouge), "line_rouge": _best_of_line(scores.rouge), "zh_rouge": _best(scores.chinese_rouge),
    "class": _class, "count": _best(scores.count), "retrieval": _best(scores.retrieval),
    "zh_retrieval": _best(scores.chinese_retrieval), "code": _best(scores.code_similarity),
}


class LongBench(Task):
    """A set of LongBench: {"input", "context", "answers": [text], "all_classes": [text] or null}."""

    files = "data/SET.jsonl and config/dataset2prompt.json"

    def __init__(self, name: str, about: str, tokens: int, score: str, plain: bool = False, even: bool = False):
        self.set, self.about, self.tokens, self.kind, self.template = name, about, tokens, score, not plain
        self.group = "longbench_e" if even else "longbench"
        self.name = f"{self.group}/{name}"
        self.file = f"{name}_e.jsonl" if even else f"{name}.jsonl"

    @property
    def summary(self) -> str:
        return self.about

    def prompt(self, data: Folder) -> str:
        """Returns the set's prompt from the benchmark's file."""
        names = ("config/dataset2prompt.json", "LongBench/config/dataset2prompt.json", "dataset2prompt.json")
        path, text = data.file(*names), data.text(*names)
        try:
            prompts = json.loads(text)
        except ValueError as error:
            raise InputError(f"{path}: not JSON: {error}") from None
        if not isinstance(prompts, dict) or not isinstance(prompts.get(self.set), str):
            raise InputError(f'{path}: no text "{self.set}", which is the prompt of {self.name}')
        return prompts[self.set]

    def samples(self, data: Folder, length: int) -> Iterator[Sample]:
        template = self.prompt(data)
        for row in data.rows(f"data/{self.file}", f"LongBench/data/{self.file}", self.file):
            answers = row.texts("answers")
            if self.kind == "class":
                row.texts("all_classes")
            if "retrieval" in self.kind and not all(SCORES[self.kind](Question("", [one]), one) for one in answers):
                raise row.wrong("answers", "texts with a paragraph's number")
            context, question = fill(template, "context", context=row.text("context"), input=row.text("input", True))
            yield Sample(context, question, answers, more={"all_classes": row.get("all_classes")})

    def score(self, question: Question, answer: str) -> float:
        return SCORES[self.kind](question, answer)


class LongBench2(Task):
    """multiple-choice questions about texts of all kinds and lengths"""

    name = group = "longbench2"
    tokens = 128
    files = "data.json and prompts/0shot.txt"

    def samples(self, data: Folder, length: int) -> Iterator[Sample]:
        template = data.text("prompts/0shot.txt", "0shot.txt")
        if "$DOC$" not in template:
            raise InputError(f"{data.path}: the prompt must contain $DOC$")
        for row in data.rows("data.json", "data.jsonl", "longbench2.jsonl"):
            answer = row.text("answer")
            if answer not in ("A", "B", "C", "D"):
                raise row.wrong("answer", "a letter from A to D")
            yield self.sample(row, template, answer)

    @staticmethod
    def sample(row: Row, template: str, answer: str) -> Sample:
        """Fills the prompt, whose fields are between dollar signs."""
        fields = {"Q": "question", "C_A": "choice_A", "C_B": "choice_B", "C_C": "choice_C", "C_D": "choice_D"}
        front, back = template.replace("{", "{{").replace("}", "}}").split("$DOC$", 1)
        for mark, name in fields.items():
            front, back = (part.replace(f"${mark}$", f"{{{name}}}") for part in (front, back))
        texts = {name: row.text(name).strip() for name in (*fields.values(), "context")}
        context, question = fill(front + "{context}" + back, "context", **texts)
        return Sample(context, question, [answer])

    def score(self, question: Question, answer: str) -> float:
        return scores.choice(answer.strip(), question.answers[0])


_SETS = [
    LongBench("narrativeqa", "questions about books and film scripts", 128, "f1"),
    LongBench("qasper", "questions about scientific papers", 128, "f1"),
    LongBench("multifieldqa_en", "questions about articles from many fields", 64, "f1"),
    LongBench("multifieldqa_zh", "the same in Chinese", 64, "zh_f1"),
    LongBench("hotpotqa", "questions that need two documents", 32, "f1"),
    LongBench("2wikimqa", "questions that need up to five documents", 32, "f1"),
    LongBench("musique", "questions that need up to four steps", 32, "f1"),
    LongBench("dureader", "questions about documents in Chinese", 128, "zh_rouge"),
    LongBench("gov_report", "summaries of reports", 512, "rouge"),
    LongBench("qmsum", "summaries of what a meeting said about a topic", 512, "rouge"),
    LongBench("multi_news", "summaries of several articles", 512, "rouge"),
    LongBench("vcsum", "summaries of meetings in Chinese", 512, "zh_rouge"),
    LongBench("trec", "classes of questions, after examples", 64, "class", plain=True),
    LongBench("triviaqa", "questions about passages, after examples", 32, "line_f1", plain=True),
    LongBench("samsum", "summaries of dialogues, after examples", 128, "line_rouge", plain=True),
    LongBench("lsht", "classes of news in Chinese, after examples", 64, "class", plain=True),
    LongBench("passage_count", "the number of different paragraphs", 32, "count"),
    LongBench("passage_retrieval_en", "which of 30 paragraphs a summary belongs to", 32, "retrieval"),
    LongBench("passage_retrieval_zh", "the same in Chinese", 32, "zh_retrieval"),
    LongBench("lcc", "the next line of code", 64, "code", plain=True),
    LongBench("repobench-p", "the next line of code in a project of several files", 64, "code", plain=True),
]
_EVEN = ("qasper", "multifieldqa_en", "hotpotqa", "2wikimqa", "gov_report", "multi_news", "trec", "triviaqa", "samsum",
         "passage_count", "passage_retrieval_en", "lcc", "repobench-p")
TASKS = [*_SETS, *(LongBench(one.set, "the same with evenly distributed text lengths", one.tokens, one.kind,
                             not one.template, even=True) for one in _SETS if one.set in _EVEN), LongBench2()]
