"""Tasks define where samples come from and how answers are scored. A new task is a small class derived from `Task`."""
from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple, Type, Union

from ..errors import UsageError
from . import scores
from .data import Folder


@dataclass(frozen=True)
class Question:
    """A question about a sample's text. opening: the first words of the answer, which the model is given. more: other
    data that the score needs."""

    text: str
    answers: Sequence[str] = ()
    opening: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Sample:
    """A text and what is asked about it: one question, or several in `questions`."""

    context: str
    question: str = ""
    answers: Sequence[str] = ()
    opening: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    questions: Sequence[Question] = ()

    @property
    def asked(self) -> Sequence[Question]:
        """The questions, at least one."""
        return self.questions or (Question(self.question, self.answers, self.opening, self.more),)


class Task:
    """A task. Its documentation string is what `list` prints.

    name: as on the command line. group: a name that stands for several tasks. tokens: largest number of tokens of an
    answer; 0: three quarters of the length. template: whether the model's chat template is used. turns: several
    questions are asked in one conversation; otherwise each is asked after the same text, which is read once. files:
    what `list` says about the files. unit: "share" for scores from 0 to 1.
    """

    name: str = ""
    group: str = ""
    tokens: int = 64
    template: bool = True
    turns: bool = False
    files: str = ""
    unit: str = "share"

    @property
    def summary(self) -> str:
        """Describes the task in a line."""
        return (inspect.getdoc(self) or "").split("\n")[0]

    def samples(self, data: Folder, length: int) -> Iterable[Sample]:
        """Returns the samples, in a fixed order. Texts may be longer than `length` tokens: they are cut."""
        raise NotImplementedError(f"{type(self).__name__}: samples is missing")

    def score(self, question: Question, answer: str) -> float:
        """Returns the score of an answer, from 0 to 1. By default, this is the fraction of the right answers that it
        contains."""
        return scores.contains_all(answer, question.answers)

    def limit(self, length: int) -> int:
        """Returns the largest number of tokens of an answer in a sample of `length` tokens."""
        return self.tokens or length // 4 * 3


MODULES = ("longbench", "infinitebench", "helmet", "longwriting", "conversations")


def known() -> Dict[str, Task]:
    """Returns the tasks of the package, by name."""
    found: Dict[str, Task] = {}
    for name in MODULES:
        for task in importlib.import_module(f"{__package__}.{name}").TASKS:
            found[task.name] = task
    return found


def from_file(path: Union[str, Path]) -> List[Task]:
    """Returns one task of every class that has a task name, from a Python file of the user."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None or not Path(path).is_file():
        raise UsageError(f"{path}: no such Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    classes: List[Type[Task]] = [value for value in vars(module).values()
                                 if inspect.isclass(value) and issubclass(value, Task) and value.__module__ == spec.name]
    tasks = [one() for one in classes if one.name]
    if not tasks:
        raise UsageError(f"{path}: no class derived from kvcull.eval.Task with a name")
    return tasks


def choose(names: Sequence[str]) -> List[Task]:
    """Returns the tasks with these names, of these groups and in these Python files, each once."""
    tasks, chosen = known(), {}
    for name in names:
        found = from_file(name) if name.endswith(".py") else [task for task in tasks.values()
                                                               if name in (task.name, task.group)]
        if not found:
            raise UsageError(f"{name}: no such task; `python -m kvcull.eval list` lists them")
        chosen.update({task.name: task for task in found})
    if not chosen:
        raise UsageError("no task; `python -m kvcull.eval list` lists them")
    return list(chosen.values())


def folder_of(task: Task, folders: Sequence[str]) -> Folder:
    """Returns the folder of a task's files from --data: "FOLDER" for all tasks, "GROUP=FOLDER" for a group or a task."""
    pairs: List[Tuple[str, str]] = [tuple(text.split("=", 1)) if "=" in text else ("", text)  # type: ignore[misc]
                                    for text in folders]
    for wanted in (task.name, task.group, ""):
        for name, path in pairs:
            if name == wanted:
                return Folder(path)
    return Folder(".")


__all__ = ["Question", "Sample", "Task", "choose", "folder_of", "from_file", "known"]
