"""Runs tasks. All policies answer a sample together, and its prompt is computed once for all policies that allow it."""
from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from .._library import macros
from ..errors import KvcullError, ResourceError
from ..model import Model
from ..session import Session, decode, prompt_many
from .data import Folder
from .prompts import Prompt, Prompter
from .results import Results
from .task import Question, Sample, Task

SIDES = ("seen", "unseen")


@dataclass
class Answer:
    """The answer with one policy, and the figures of its session."""

    tokens: List[int] = field(default_factory=list)
    text: str = ""
    entries: int = 0
    held_bytes: int = 0
    full_bytes: int = 0
    peak_bytes: int = 0
    read_bytes: int = 0
    steps: int = 0
    prompt_seconds: float = 0.0
    answer_seconds: float = 0.0
    last: Optional[int] = None  # the answer's last token if the session has not read it
    before: Tuple[int, int] = (0, 0)  # read_bytes and steps of earlier turns


class Group:
    """Sessions that answer the same questions together: one for each policy."""

    def __init__(self, model: Model, sessions: List[Session]):
        self.model, self.sessions = model, sessions
        self.answers = [Answer() for _session in sessions]
        self.logits = np.empty((0, 0), np.float32)
        self.read_tokens = 0
        self._spared = 0  # number of rows that a fork did not compute, because the original session had

    def fork(self) -> "Group":
        """Returns a group of copies of the sessions."""
        other = Group(self.model, [session.fork() for session in self.sessions])
        for mine, copy, session in zip(self.answers, other.answers, other.sessions):
            stats = session.stats()
            copy.prompt_seconds, mine.prompt_seconds = mine.prompt_seconds, 0.0
            copy.before = stats.read_bytes, stats.decode_steps
            other._spared += stats.spared_rows
        return other

    def close(self) -> None:
        """Closes the sessions."""
        for session in self.sessions:
            session.close()

    def read(self, tokens: np.ndarray) -> None:
        """Reads a prompt in all sessions. The sessions that share its computation share its time."""
        start = time.perf_counter()
        own = [index for index, answer in enumerate(self.answers) if answer.last is not None]
        if own:  # the last token of each session's answer precedes the question, so the prompts differ
            rows = []
            for session, answer in zip(self.sessions, self.answers):
                front = [] if answer.last is None else [answer.last]
                rows.append(session.prompt(np.concatenate([np.array(front, np.int32), tokens])))
                answer.last = None
            self.logits = np.stack(rows)
        elif len(self.sessions) == 1:
            self.logits = self.sessions[0].prompt(tokens)[None]
        else:
            self.logits = prompt_many(self.sessions, tokens)
        seconds = time.perf_counter() - start
        self.read_tokens += len(tokens) * len(self.sessions)
        shares = [1 / max(session.stats().prompt_sessions, 1) for session in self.sessions]
        for answer, share in zip(self.answers, shares):
            answer.prompt_seconds += seconds * share / sum(shares)

    def computed(self) -> int:
        """Returns how many prompt tokens were computed."""
        spared = sum(session.stats().spared_rows for session in self.sessions) - self._spared
        return self.read_tokens - spared // self.model.info.layers

    def answer(self, limit: int) -> List[Answer]:
        """Generates the answers greedily in one batch. A session leaves the batch when its answer ends."""
        for session, answer in zip(self.sessions, self.answers):
            stats = session.stats()
            answer.entries, answer.full_bytes = stats.entries_most, stats.full_bytes
            answer.held_bytes, answer.tokens = stats.cache_bytes + stats.state_bytes, []
        going, logits = list(range(len(self.sessions))), self.logits
        while going:
            start = time.perf_counter()
            taken = [(index, int(token)) for index, token in zip(going, logits.argmax(axis=1))
                     if not self.model.ends_turn(int(token))]
            for index, token in taken:
                self.answers[index].tokens.append(token)
                self.answers[index].last = token if len(self.answers[index].tokens) == limit else None
            taken = [(index, token) for index, token in taken if self.answers[index].last is None]
            going = [index for index, _token in taken]
            if going:
                logits = decode([self.sessions[index] for index in going], [token for _index, token in taken])
                for index in going:
                    self.answers[index].answer_seconds += (time.perf_counter() - start) / len(going)
        for session, answer in zip(self.sessions, self.answers):
            stats = session.stats()
            answer.text = self.model.detokenize(answer.tokens) if answer.tokens else ""
            answer.peak_bytes = stats.peak_bytes
            answer.read_bytes, answer.steps = stats.read_bytes - answer.before[0], stats.decode_steps - answer.before[1]
        return self.answers

    def next_turn(self) -> None:
        """Begins the figures of the conversation's next answer."""
        for index, (session, old) in enumerate(zip(self.sessions, self.answers)):
            stats = session.stats()
            self.answers[index] = Answer(last=old.last, before=(stats.read_bytes, stats.decode_steps))


@dataclass
class Plan:
    """What a run computes. shard: (index from 0, count). memory: largest number of bytes for sessions that run
    together; 0: half of what is available. alone: policies run one at a time, so that their times can be measured."""

    lengths: Sequence[int] = (4096,)
    samples: int = 0
    sides: Sequence[str] = SIDES
    shard: Tuple[int, int] = (0, 1)
    memory: int = 0
    alone: bool = False
    show: int = 0
    cache_type: str = "f16"
    chunk: int = 0
    seed: int = 0
    session: Dict[str, Any] = field(default_factory=dict)


def available_memory() -> int:
    """Returns the bytes that are available on this machine."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


class Runner:
    """Runs tasks with policies on one model, and adds the answers to results."""

    def __init__(self, model: Model, prompter: Prompter, policies: Sequence[str], results: Results, plan: Plan,
                 say: Optional[Callable[[str], object]] = None):
        self.model, self.prompter, self.policies = model, prompter, list(dict.fromkeys(map(str, policies)))
        self.results, self.plan = results, plan
        self.memory = plan.memory or available_memory() // 2
        self.prompt_tokens = self.computed_tokens = 0
        self._say = say or (lambda _line: None)
        info = model.info
        integers = info.math == "int8"
        version = macros["KVC_INT8_VERSION" if integers else "KVC_ARITHMETIC_VERSION"]
        self._same = {"model": os.path.basename(os.path.abspath(info.path)),
                      "weights": f"{info.parameters} parameters, {info.weight_types}",
                      "arithmetic": f"{info.math} {version}", "cache_type": plan.cache_type, "prompt": prompter.label}

    def run(self, task: Task, data: Folder) -> None:
        """Runs a task at all lengths. All records are checked first."""
        for length in self.plan.lengths:
            data = Folder(data.path)  # so that the hash covers only the files of this length
            samples, count = self._samples(task, data, length)
            for index, sample in samples:
                self._say(f"{task.name} of {length} tokens: sample {index + 1} of {count}")
                self._sample(task, data, length, index, sample)

    def _samples(self, task: Task, data: Folder, length: int) -> Tuple[List[Tuple[int, Sample]], int]:
        """Returns the samples of the shard with their indexes, and how many there are in all shards."""
        kept, count = [], 0
        for index, sample in enumerate(task.samples(data, length)):
            if self.plan.samples and index >= self.plan.samples:
                continue  # iterating has already checked the record
            count += 1
            if index % self.plan.shard[1] == self.plan.shard[0]:
                kept.append((index, sample))
        return kept, count

    def _record(self, task: Task, data: Folder, length: int, index: int, policy: str, side: str,
                turn: Optional[int]) -> Dict[str, Any]:
        record = {**self._same, "data": data.hash, "task": task.name, "length": length, "seed": self.plan.seed,
                  "sample": index, "kv": policy, "question": side}
        if turn is not None:
            record["turn"] = turn + 1
        return record

    def _sample(self, task: Task, data: Folder, length: int, index: int, sample: Sample) -> None:
        turns = [None] if len(sample.asked) == 1 else list(range(len(sample.asked)))
        missing = {side: [policy for policy in self.policies if not all(
            self.results.has(self._record(task, data, length, index, policy, side, turn)) for turn in turns)]
            for side in self.plan.sides}
        if not any(missing.values()):
            return
        prompt = self.prompter.fit(task, sample, length)
        if index < self.plan.show:
            self._show(task, sample, prompt)
        for side in self.plan.sides:
            for policies in self._groups(task, prompt, length, missing[side]):
                self._ask(task, data, length, index, sample, prompt, side, policies)

    def _groups(self, task: Task, prompt: Prompt, length: int, policies: List[str]) -> Iterator[List[str]]:
        """Divides policies into groups that fit in memory together by their forecasts."""
        group: List[str] = []
        held = hidden = 0
        for policy in policies:
            estimate = self.model.estimate(policy, len(prompt.tokens), task.limit(length), self.plan.cache_type)
            copies = 2 if prompt.later and not task.turns else 1  # a fork for each further question
            hidden = max(hidden, estimate.hidden_bytes)
            if group and (self.plan.alone or held + copies * estimate.peak_bytes + hidden > self.memory):
                yield group
                group, held, hidden = [], 0, estimate.hidden_bytes
            group.append(policy)
            held += copies * estimate.peak_bytes
        if group:
            yield group

    def _ask(self, task: Task, data: Folder, length: int, index: int, sample: Sample, prompt: Prompt, side: str,
             policies: List[str]) -> None:
        """Asks a group. If that fails, asks its policies one at a time, so that one failure does not lose the other
        answers."""
        try:
            replies = self._answers(task, length, sample, prompt, side, policies)
        except KvcullError as error:
            if len(policies) == 1:
                raise type(error)(f"{task.name} of {length} tokens, --kv {policies[0]}: {error}") from error
            if not isinstance(error, ResourceError):
                self._say(f"{task.name}: {error}; the policies run one by one")
            for policy in policies:
                self._ask(task, data, length, index, sample, prompt, side, [policy])
            return
        for which, answers in enumerate(replies):
            turn = None if len(replies) == 1 else which
            for policy, answer in zip(policies, answers):
                record = self._record(task, data, length, index, policy, side, turn)
                if not self.results.has(record):
                    self._add(task, record, sample.asked[which], prompt, which, answer, len(policies), len(replies))

    def _add(self, task: Task, record: Dict[str, Any], asked: Question, prompt: Prompt, which: int, answer: Answer,
             shared: int, turns: int) -> None:
        later = prompt.later[which - 1] if which else ()
        tokens = len(prompt.tokens) if not which else len(later) + (0 if task.turns else prompt.context)
        if turns > 1:
            record["turns"] = turns
        record.update(prompt_hash=prompt.hash(which), prompt_tokens=tokens, answer=answer.text,
                      answer_tokens=len(answer.tokens), score=float(task.score(asked, answer.text)),
                      entries=answer.entries, held_bytes=answer.held_bytes, full_bytes=answer.full_bytes,
                      peak_bytes=answer.peak_bytes, read_bytes=answer.read_bytes, steps=answer.steps,
                      prompt_us=round(1e6 * answer.prompt_seconds), answer_us=round(1e6 * answer.answer_seconds))
        if shared > 1:
            record["shared"] = shared
        if task.unit != "share":
            record["unit"] = task.unit
        self.results.add(record)

    def _open(self, policies: List[str], length: int, expected: int) -> Group:
        made: List[Session] = []
        try:
            for policy in policies:
                made.append(self.model.session(policy, cache_type=self.plan.cache_type, chunk=self.plan.chunk,
                                               context=length, expected=expected, **self.plan.session))
        except BaseException:
            for session in made:
                session.close()
            raise
        return Group(self.model, made)

    def _answers(self, task: Task, length: int, sample: Sample, prompt: Prompt, side: str,
                 policies: List[str]) -> List[List[Answer]]:
        """Returns the answers to each question: [question][policy]."""
        limit, groups = task.limit(length), []
        try:
            if task.turns or len(sample.asked) == 1 or side == "unseen":
                groups.append(self._open(policies, length, limit))
                return self._in_order(task, prompt, side, limit, groups)
            replies = []
            for tokens in [prompt.tokens, *(np.concatenate([prompt.tokens[:prompt.context], one])
                                            for one in prompt.later)]:
                groups.append(self._open(policies, length, limit))
                groups[-1].read(tokens)
                replies.append(groups[-1].answer(limit))
                self._count(groups)
            return replies
        finally:
            self._count(groups)

    def _in_order(self, task: Task, prompt: Prompt, side: str, limit: int, groups: List[Group]) -> List[List[Answer]]:
        """Asks the questions as turns of a conversation, or each one in forks of the sessions that have read the
        text."""
        group, rest = groups[0], prompt.tokens
        if side == "unseen":
            group.read(prompt.tokens[:prompt.context])
            rest = prompt.tokens[prompt.context:]
        parts, replies = [rest, *prompt.later], []
        for which, part in enumerate(parts):
            asked = group
            if not task.turns and which + 1 < len(parts):
                asked = group.fork()
                groups.append(asked)
            asked.read(part)
            replies.append(list(asked.answer(limit)))
            if asked is not group:
                self._count(groups, keep=1)
            elif which + 1 < len(parts):
                group.next_turn()
        return replies

    def _count(self, groups: List[Group], keep: int = 0) -> None:
        """Counts the prompt tokens of all groups except the first `keep`, and closes these groups."""
        while len(groups) > keep:
            group = groups.pop()
            self.prompt_tokens += group.read_tokens
            self.computed_tokens += group.computed() if group.read_tokens else 0
            group.close()

    def _show(self, task: Task, sample: Sample, prompt: Prompt) -> None:
        """Prints a sample: text, questions and right answers."""
        out = sys.stderr
        print(f"---- {task.name}: {prompt.context} tokens in the text, {len(prompt.tokens) - prompt.context} in the "
              f"question\n{sample.context}", file=out)
        for asked in sample.asked:
            print(f"\n---- question\n{asked.text}\n---- beginning of the answer\n{asked.opening}\n---- expected",
                  *asked.answers, sep="\n", file=out)


__all__ = ["Answer", "Group", "Plan", "Runner", "SIDES", "available_memory"]
