"""Several questions about one text: SCBench (github.com/microsoft/MInference, scbench) and LooGLE
(github.com/bigai-nlco/LooGLE). Their own prompts are parts of their programs. The prompts here are new and have the
same structure."""
from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, List

from . import scores
from .data import Folder, Row
from .task import Question, Sample, Task

Scored = Callable[[Question, str], float]


def _texts(answer: Any, row: Row) -> List[str]:
    found = answer if isinstance(answer, list) else [answer]
    if not found or not all(isinstance(one, (str, int, float)) and not isinstance(one, bool) for one in found):
        raise row.wrong("answer", "a text or a number, or a list of them")
    return [str(one) for one in found]


def _list(score: Callable[[str, List[str]], float]) -> Scored:
    return lambda question, answer: score(answer, list(question.answers))


def _best(score: scores.Score) -> Scored:
    return lambda question, answer: scores.best(score, answer, question.answers)


def _value(question: Question, answer: str) -> float:
    return float(question.answers[0] in answer)


def _first(score: scores.Score) -> Scored:
    return lambda question, answer: score(answer, question.answers[0])


_summary, _number = _best(scores.rouge_sum), _first(scores.infinite_number)


def _summary_or_key(question: Question, answer: str) -> float:
    return (_number if question.more["key"] else _summary)(question, answer)


@dataclass(frozen=True)
class _Set:
    """A set of SCBench. ahead: what comes before the text. ask: a question, with the field {input}."""

    name: str
    about: str
    tokens: int
    score: Scored
    ahead: str = ""
    ask: str = "{input}"
    opening: str = ""


_FIND = "Find the value that belongs to the key asked for in this JSON object."
_SETS = (
    _Set("kv", "values of a JSON object", 150, _value, _FIND),
    _Set("prefix_suffix", "strings by their first and last characters", 150, _value),
    _Set("vt", "variables of a chain of assignments", 30, _list(scores.contains_all)),
    _Set("qa_eng", "questions about a novel", 40, _list(scores.contains_any),
         "Read this book, then answer questions about it in as few words as you can.", "Question: {input}", "Answer:"),
    _Set("qa_chn", "questions about a book in Chinese", 40, _best(scores.character_f1),
         "请先阅读下面这本书，再回答关于它的问题。", "问题：{input}", "答案："),
    _Set("choice_eng", "multiple-choice questions about a novel", 40, _list(scores.infinite_option),
         "Read this book, then answer questions about it.", "Question: {input}", "The letter of the correct answer is"),
    _Set("many_shot", "multiple-choice questions after many examples", 10, _list(scores.contains_any)),
    _Set("mf", "statistics of a list of numbers", 5, _first(scores.infinite_find), "", "What is {wanted}?\n\n{input}"),
    _Set("summary", "summaries of several documents", 200, _summary),
    _Set("summary_with_needles", "summaries of several documents, and keys of digits in them", 800, _summary_or_key),
)


class ScBench(Task):
    """A set of SCBench: {"context", "multi_turns": [{"input", "answer", "options", "task"}]}."""

    files = "data/SET.jsonl"

    def __init__(self, made: _Set, turns: bool):
        self.made, self.tokens, self.turns = made, made.tokens, turns
        self.group = "scbench" if turns else "scbench_requests"
        self.name = f"{self.group}/{made.name}"

    @property
    def summary(self) -> str:
        return self.made.about + ("" if self.turns else ", each asked after the same text")

    def _question(self, turn: Row) -> Question:
        options = turn.get("options") or []
        answers = _texts(turn.get("answer"), turn)
        if options and answers[0] in options:
            answers = [answers[0], "ABCDEFGH"[options.index(answers[0])]]
        fields, more = {"input": turn.text("input")}, {}
        if "{wanted}" in self.made.ask:  # such as "The second largest number is", with which the question ends
            found = re.search(r"(The .+) is", fields["input"])
            if not found:
                raise turn.wrong("input", 'a text with "The ... is" in it')
            fields["wanted"] = found.group(1).lower()
        if self.made.score is _summary_or_key:
            more["key"] = turn.text("task") == "scbench_passkey"
        asked = self.made.ask.format(**fields)
        lettered = [f"{letter}. {text}" for letter, text in zip("ABCDEFGH", options)]
        return Question("\n".join(["\n\n" + asked, *lettered]), answers, self.made.opening, more)

    def samples(self, data: Folder, length: int) -> Iterator[Sample]:
        name = self.made.name
        for row in data.rows(f"data/scbench_{name}.jsonl", f"scbench_{name}.jsonl", f"{name}.jsonl"):
            text = row.text("context" if "context" in row else "input")
            yield Sample("\n\n".join(filter(None, [self.made.ahead, text])),
                         questions=[self._question(turn) for turn in row.objects("multi_turns")])

    def score(self, question: Question, answer: str) -> float:
        return self.made.score(question, answer)


class Loogle(Task):
    """A set of LooGLE: {"input": the text, "qa_pairs": a list of {"Q", "A"} as a text, or "none", "output"}."""

    group = "loogle"
    files = "data/SET.jsonl"
    ahead = "Read this text, then answer a question about it."

    def __init__(self, name: str, about: str, tokens: int):
        self.set, self.about, self.tokens, self.name = name, about, tokens, f"loogle/{name}"

    @property
    def summary(self) -> str:
        return self.about

    def question(self, pair: Dict[str, Any]) -> Question:
        """Returns the question of a pair."""
        return Question(f"\n\nQuestion: {pair['Q']}", [str(pair["A"])], "Answer:")

    def samples(self, data: Folder, length: int) -> Iterator[Sample]:
        for row in data.rows(f"data/{self.set}.jsonl", f"LooGLE-testdata/{self.set}.jsonl", f"{self.set}.jsonl"):
            text = f"{self.ahead}\n\n{row.text('input')}"
            pairs = row.get("qa_pairs")
            if pairs in (None, "none"):
                yield Sample(text, "\n\nWrite a summary of the text.", [row.text("output")], "Summary:")
                continue
            try:
                found = ast.literal_eval(pairs) if isinstance(pairs, str) else pairs
                asked = [self.question(pair) for pair in found]
            except (ValueError, SyntaxError, KeyError, TypeError, AttributeError):
                raise row.wrong("qa_pairs", 'a list of objects with "Q" and "A", or "none"') from None
            if not asked:
                raise row.wrong("qa_pairs", "a list of at least one question")
            yield Sample(text, questions=asked)

    def score(self, question: Question, answer: str) -> float:
        return scores.best(scores.rouge_l, answer, question.answers)


class LoogleCloze(Loogle):
    """The set of LooGLE in which names are masked: "A" is an object that maps the masks to their names."""

    ahead = ("In a summary of this text, names of persons, places and organizations are replaced by masks such as "
             "'<mask-0>'; equal masks stand for equal names. Answer with an object like {'<mask-0>': 'Ada', '<mask-1>': "
             "'Oslo'}.")

    def question(self, pair: Dict[str, Any]) -> Question:
        names = {str(mask): str(name) for mask, name in pair["A"].items()}
        return Question(f"\n\nSummary: {pair['Q']}\nWhich names do the masks stand for?", list(names.values()), "Answer:",
                        {"names": names})

    def score(self, question: Question, answer: str) -> float:
        return scores.masks(answer, question.more["names"])


TASKS = [
    *(ScBench(made, turns) for turns in (True, False) for made in _SETS),
    Loogle("longdep_qa", "questions that need several parts of a text", 500),
    Loogle("shortdep_qa", "questions that need one part of a text", 300),
    LoogleCloze("shortdep_cloze", "names that are masked in summaries of a part of a text", 50),
    Loogle("longdep_summarization", "summaries of papers", 500),
]
