"""Several questions about one text: SCBench (github.com/microsoft/MInference, scbench) and LooGLE
(github.com/bigai-nlco/LooGLE)."""
from __future__ import annotations

import ast
from typing import Any, Callable, Iterator, List

from . import scores
from .data import Folder, Row
from .task import Question, Sample, Task


def _texts(answer: Any, row: Row) -> List[str]:
    found = answer if isinstance(answer, list) else [answer]
    if not found or not all(isinstance(one, (str, int, float)) and not isinstance(one, bool) for one in found):
        raise row.wrong("answer", "a text or a number, or a list of them")
    return [str(one) for one in found]


class ScBench(Task):
    """A set of SCBench: {"context", "multi_turns": [{"input", "answer", "options"}]}."""

    files = "data/SET.jsonl"

    def __init__(self, name: str, about: str, tokens: int, score: Callable[[Question, str], float], turns: bool):
        self.set, self.about, self.tokens, self._score, self.turns = name, about, tokens, score, turns
        self.group = "scbench" if turns else "scbench_requests"
        self.name = f"{self.group}/{name}"

    @property
    def summary(self) -> str:
        return self.about + ("" if self.turns else ", each asked after the same text")

    def samples(self, data: Folder, length: int) -> Iterator[Sample]:
        for row in data.rows(f"data/scbench_{self.set}.jsonl", f"scbench_{self.set}.jsonl", f"{self.set}.jsonl"):
            asked = []
            for turn in row.objects("multi_turns"):
                options = turn.get("options") or []
                letters = [f"{letter}. {text}" for letter, text in zip("ABCDEFGH", options)]
                answers = _texts(turn.get("answer"), turn)
                if options and answers[0] in options:
                    answers = [answers[0], "ABCDEFGH"[options.index(answers[0])]]
                asked.append(Question("\n".join(["\n\n" + turn.text("input"), *letters]), answers))
            yield Sample(row.text("context"), questions=asked)

    def score(self, question: Question, answer: str) -> float:
        return self._score(question, answer)


class Loogle(Task):
    """A set of LooGLE: {"input": the text, "qa_pairs": a list of {"Q", "A"} as a text, or "none", "output"}."""

    group = "loogle"
    files = "data/SET.jsonl"

    def __init__(self, name: str, about: str, tokens: int):
        self.set, self.about, self.tokens, self.name = name, about, tokens, f"loogle/{name}"

    @property
    def summary(self) -> str:
        return self.about

    def samples(self, data: Folder, length: int) -> Iterator[Sample]:
        for row in data.rows(f"data/{self.set}.jsonl", f"{self.set}.jsonl"):
            text = "Read this text, then answer a question about it.\n\n" + row.text("input")
            pairs = row.get("qa_pairs")
            if pairs in (None, "none"):
                yield Sample(text, "\n\nWrite a summary of the text.", [row.text("output")], "Summary:")
                continue
            try:
                found = ast.literal_eval(pairs) if isinstance(pairs, str) else pairs
                asked = [Question(f"\n\nQuestion: {pair['Q']}", [str(pair["A"])], "Answer:") for pair in found]
            except (ValueError, SyntaxError, KeyError, TypeError):
                raise row.wrong("qa_pairs", 'a list of objects with "Q" and "A", or "none"') from None
            if not asked:
                raise row.wrong("qa_pairs", "a list of at least one question")
            yield Sample(text, questions=asked)

    def score(self, question: Question, answer: str) -> float:
        return scores.best(scores.rouge_l, answer, question.answers)


def _contains(question: Question, answer: str) -> float:
    return scores.contains_any(answer, question.answers)


def _value(question: Question, answer: str) -> float:
    return float(question.answers[0] in answer)


def _option(question: Question, answer: str) -> float:
    return scores.infinite_option(answer, question.answers)


def _best(score: scores.Score) -> Callable[[Question, str], float]:
    return lambda question, answer: scores.best(score, answer, question.answers)


_SETS = (
    ("kv", "values of a JSON object", 150, _value),
    ("prefix_suffix", "strings by their first and last characters", 150, _value),
    ("vt", "variables of a chain of assignments", 30, lambda question, answer: scores.contains_all(answer,
                                                                                                 question.answers)),
    ("qa_eng", "questions about a novel", 40, _best(scores.word_f1)),
    ("qa_chn", "questions about a book in Chinese", 40, _best(scores.character_f1)),
    ("choice_eng", "multiple-choice questions about a novel", 40, _option),
    ("many_shot", "multiple-choice questions after many examples", 10, _contains),
    ("mf", "statistics of a list of numbers", 5, _value),
    ("summary", "summaries of several documents", 800, _best(scores.rouge_sum)),
)
TASKS = [
    *(ScBench(name, about, tokens, score, turns) for turns in (True, False) for name, about, tokens, score in _SETS),
    Loogle("longdep_qa", "questions that need several parts of a text", 300),
    Loogle("shortdep_qa", "questions that need one part of a text", 300),
    Loogle("longdep_summarization", "summaries of papers", 500),
]
