"""InfiniteBench (github.com/OpenBMB/InfiniteBench). Its own prompts are part of its program. The prompts here are new
and have the structure of its prompts for base models."""
from __future__ import annotations

import re
from typing import Callable, Dict, Iterator, List

from . import scores
from .data import Folder, Row, fill
from .task import Question, Sample, Task

Scored = Callable[[Question, str], float]


def _first(score: scores.Score) -> Scored:
    return lambda question, answer: score(answer, question.answers[0])


def _list(score) -> Scored:
    return lambda question, answer: score(answer, question.answers)


def _best(score: scores.Score) -> Scored:
    return lambda question, answer: scores.best(score, answer, question.answers)


def answers_of(row: Row) -> List[str]:
    """Returns the answers as texts: a text or a number, or a list of them."""
    answer = row.get("answer")
    if isinstance(answer, list) and answer and isinstance(answer[0], list):
        answer = answer[0]
    found = answer if isinstance(answer, list) else [answer]
    if not found or not all(isinstance(one, (str, int, float)) and not isinstance(one, bool) and one != "" for one in found):
        raise row.wrong("answer", "a text or a number, or a list of them")
    return [one if isinstance(one, str) else repr(one) for one in found]


def _no_fields(_row: Row, answers: List[str]) -> Dict[str, str]:
    return {}


def _options(row: Row, answers: List[str]) -> Dict[str, str]:
    """Returns the options, and adds to the answers, so that they are the right option's text and its letter."""
    options = row.texts("options", 4)
    if len(answers) > 1 and not re.fullmatch("[A-D]", answers[1]):
        raise row.wrong("answer", "one of the options, optionally with its letter")
    if len(answers) < 2:
        if answers[0] not in options[:4]:
            raise row.wrong("answer", "one of the options")
        answers.append("ABCD"[options.index(answers[0])])
    return dict(zip("ABCD", options))


def _ahead(row: Row, answers: List[str]) -> Dict[str, str]:
    """Returns the question that precedes the list, made from "The LARGEST number of ..."."""
    found = re.search(r"The (.+) of", row.text("input"))
    if not found:
        raise row.wrong("input", 'a question with "The ... of" in it')
    return {"ahead": f"Which number in this list is the {found.group(1).lower()}?"}


def _call(row: Row, answers: List[str]) -> Dict[str, str]:
    found = re.search(r"(func_\d+)\(-?\d+\)", row.text("input"))
    if not found:
        raise row.wrong("input", "a text with a call like func_12(3) in it")
    return {"function": found.group(1), "call": found.group(0)}


class InfiniteBench(Task):
    """A set of InfiniteBench: {"context", "input", "answer", "options"}."""

    group = "infinitebench"
    files = "data/SET.jsonl"

    def __init__(self, name: str, about: str, tokens: int, score: Scored, prompt: str, opening: str = "",
                 fields: Callable[[Row, List[str]], Dict[str, str]] = _no_fields):
        self.set, self.about, self.tokens, self._score = name, about, tokens, score
        self.prompt, self.opening, self._fields, self.name = prompt, opening, fields, f"infinitebench/{name}"

    @property
    def summary(self) -> str:
        return self.about

    def samples(self, data: Folder, length: int) -> Iterator[Sample]:
        for row in data.rows(f"data/{self.set}.jsonl", f"{self.set}.jsonl"):
            answers = answers_of(row)
            context, question = fill(self.prompt, "context", context=row.text("context"), input=row.text("input", True),
                                     **self._fields(row, answers))
            yield Sample(context, question, answers, self.opening)

    def score(self, question: Question, answer: str) -> float:
        return self._score(question, answer)


_LETTERS = "A. {A}\nB. {B}\nC. {C}\nD. {D}"
TASKS = [
    InfiniteBench("passkey", "a key of digits in noise", 6, _first(scores.infinite_number),
                  "A key is hidden somewhere in a text that is of no use otherwise. Remember it: it will be asked for."
                  "\n\n{context}\n\n{input}", "The pass key is"),
    InfiniteBench("number_string", "a sequence of digits in noise", 12, _first(scores.infinite_number),
                  "A sequence of digits is hidden somewhere in a text that is of no use otherwise. Find it: it will be "
                  "asked for.\n\n{context}\n\n{input}", "The sequence of digits is"),
    InfiniteBench("kv_retrieval", "a value of a JSON object", 50, _first(scores.infinite_value),
                  "Find the value that belongs to the key asked for in this JSON object.\n\n{context}\n\n{input}"),
    InfiniteBench("longbook_sum_eng", "a summary of a novel", 1200, _best(scores.rouge_sum),
                  "Write a summary of this book.\n\n{context}\n\n", "Summary:"),
    InfiniteBench("longbook_choice_eng", "a multiple-choice question about a novel", 40, _list(scores.infinite_option),
                  "Read this book, then answer a question about it.\n\n{context}\n\nQuestion: {input}\n" + _LETTERS,
                  "The letter of the correct answer is", _options),
    InfiniteBench("longbook_qa_eng", "a question about a novel", 40, _best(scores.word_f1),
                  "Read this book, then answer a question about it in as few words as you can.\n\n{context}\n\nQuestion: "
                  "{input}", "Answer:"),
    InfiniteBench("longbook_qa_chn", "a question about a book in Chinese", 40, _best(scores.character_f1),
                  "请先阅读下面这本书，再回答关于它的问题。\n\n{context}\n\n问题：{input}", "答案："),
    InfiniteBench("longdialogue_qa_eng", "the name that is masked in a film script", 40, _first(scores.infinite_speaker),
                  "In this script of a dialogue the name of one character has been replaced by \"$$MASK$$\" at one "
                  "place. Guess who it is.\n\n{context}\n\nWhose name stands at $$MASK$$?",
                  "The name behind $$MASK$$ is likely"),
    InfiniteBench("math_find", "the largest, smallest or median number of a list", 3, _first(scores.infinite_find),
                  "{ahead}\n\n{context}\n\n{input}", "", _ahead),
    InfiniteBench("math_calc", "all intermediate results of a long sum", 0, _list(scores.infinite_steps),
                  "Compute what an expression is after each of its numbers.\n\nExpression: 2 + 5 - 1\nValues: [2, 7, 6]"
                  "\n\nExpression: 9 - 4 + 3 - 6\nValues: [9, 5, 8, 2]\n\nExpression: {context}\n", "Values:"),
    InfiniteBench("code_run", "the return value of one of many functions", 5, _first(scores.infinite_run),
                  "One of the functions in this Python code is called {function}.\n\n{context}\n\nCompute what {call} "
                  "returns.", "The value of the call is", _call),
    InfiniteBench("code_debug", "the function with a bug", 5, _list(scores.infinite_bug),
                  "Exactly one function or method in this Python code was given an obvious error that makes it crash."
                  "\n\n{context}\n\nWhich one?\n" + _LETTERS, "The correct option is:", _options),
]
