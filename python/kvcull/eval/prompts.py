"""Prompts: converts samples to tokens, with the model's chat template or without, cuts them to a length, and divides
them into text and question."""
from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, List, Mapping, Optional, Tuple

import numpy as np


from .._library import allocated, ffi, lib
from ..errors import InputError, UsageError
from ..model import Model, _ids
from .task import Question, Sample, Task

MARK = "@@the-question@@"  # marks the question's beginning in a rendered message


@dataclass
class Prompt:
    """Tokens of a sample: the first `context` are the text, the question follows. later: the tokens of each further
    question, which are either a turn of the conversation or replace the first question."""

    tokens: np.ndarray
    context: int
    later: List[np.ndarray] = field(default_factory=list)

    def hash(self, which: int = 0) -> str:
        """Returns a hash of the tokens up to and including a question."""
        parts = [self.tokens, *self.later[:which]]
        return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()[:16]


class Prompter:
    """Makes prompts for one model. raw: does not use the chat template. template, variables and date: as in
    Model.chat_text."""

    def __init__(self, model: Model, raw: bool = False, template: Optional[str] = None,
                 variables: Optional[Mapping[str, Any]] = None, date: Optional[str] = None):
        self.model, self.raw = model, raw
        self._options = {"template": template, "variables": variables, "date": date}
        self.label = "raw" if raw else " ".join(str(one) for one in (template or "template", variables, date) if one)
        self._flags: Optional[int] = None

    def _chat_flags(self) -> int:
        """Returns how conversations are tokenized. Checks the chat template at the first call."""
        if self._flags is None:
            if not self._options["template"] and not self.model.info.has_chat_template:
                raise UsageError("the model has no chat template; --raw uses none, --template NAME a built-in one")
            text, marks, _at = self._chat("hello", "?")
            tokens, bos = self._tokenize(text, marks, lib.KVC_TOKENIZE_SPECIAL), self.model.info.bos
            left = bos >= 0 and (len(tokens) == 0 or tokens[0] != bos)  # the template leaves BOS to the tokenizer
            self._flags = lib.KVC_TOKENIZE_SPECIAL | (lib.KVC_TOKENIZE_BOS if left else 0)
        return self._flags

    def _render(self, messages) -> Tuple[bytes, bytes]:
        """Returns a conversation and, for each byte, whether it came from a message."""
        options, _keep = self.model._chat_options(messages, **self._options)
        made = ffi.new("struct kvc_rendered *")
        self.model.engine._call(lib.kvc_chat_rendered, self.model._handle, options, ffi.NULL, 0, made)
        try:
            return ffi.buffer(made.text, made.bytes)[:], ffi.buffer(made.marks, made.bytes)[:]
        finally:
            lib.free(made.text)

    def _chat(self, context: str, question: str) -> Tuple[bytes, bytes, int]:
        """Returns the message in the template, its marks, and the byte at which the question begins."""
        text, marks = self._render([{"role": "user", "content": context + MARK + question}])
        at = text.rfind(MARK.encode())
        if at < 0:
            raise InputError("the chat template changes the text of messages; --raw uses no template, --template NAME "
                             "another")
        return text[:at] + text[at + len(MARK):], marks[:at] + marks[at + len(MARK):], at

    def _tokenize(self, text: bytes, marks: Optional[bytes], flags: int) -> np.ndarray:
        tokens, count = allocated("int32_t"), ffi.new("size_t *")
        self.model.engine._call(lib.kvc_tokenize_marked, self.model._handle, text, ffi.NULL if marks is None else marks,
                                len(text), flags, tokens, count)
        return _ids(tokens[0], count[0])

    def _text(self, task: Task, context: str, asked: Question) -> Tuple[bytes, Optional[bytes], int, int]:
        """Returns a prompt's text with the answer's opening, its marks, where the question begins, and the flags."""
        opening = asked.opening.encode("utf-8", "surrogateescape")
        if self.raw or not task.template:
            front = context.encode("utf-8", "surrogateescape")
            back = asked.text.encode("utf-8", "surrogateescape") + (b" " if opening else b"") + opening
            return front + back, None, len(front), lib.KVC_TOKENIZE_BOS
        flags = self._chat_flags()
        text, marks, at = self._chat(context, asked.text)
        return text + opening, marks + bytes(len(opening)), at, flags

    def _turn(self, task: Task, asked: Question) -> np.ndarray:
        """Returns the tokens of a later turn, from the end of the previous answer to the turn's opening."""
        opening = asked.opening.encode("utf-8", "surrogateescape")
        if self.raw or not task.template:
            text = b"\n" + asked.text.encode("utf-8", "surrogateescape") + (b" " if opening else b"") + opening
            return self._tokenize(text, None, 0)
        text, marks = self._render([{"role": "user", "content": "hello"}, {"role": "assistant", "content": MARK},
                                    {"role": "user", "content": asked.text}])
        at = text.rfind(MARK.encode())
        if at < 0:
            raise InputError("the chat template leaves out earlier answers; --raw asks without one")
        at += len(MARK)
        return self._tokenize(text[at:] + opening, marks[at:] + bytes(len(opening)),
                              self._chat_flags() & ~lib.KVC_TOKENIZE_BOS)

    def make(self, task: Task, sample: Sample) -> Prompt:
        """Returns the tokens of a sample, divided before the first token that contains a part of the question."""
        text, marks, at, flags = self._text(task, sample.context, sample.asked[0])
        tokens = self._tokenize(text, marks, flags)
        alone = self._tokenize(text[:at], None if marks is None else marks[:at], flags)
        context = common(tokens, alone)
        later = []
        for asked in sample.asked[1:]:
            if task.turns:
                later.append(self._turn(task, asked))
                continue
            text, marks, _at, flags = self._text(task, sample.context, asked)
            later.append(self._tokenize(text, marks, flags))
        if not task.turns and later:
            context = min([context, *(common(tokens[:context + 1], one) for one in later)])
            later = [one[context:] for one in later]
        if len(tokens) == 0 or any(len(one) == 0 for one in later):
            raise InputError("the tokenizer makes no tokens from a question")
        if context == 0:
            raise InputError("the tokenizer merges text and question into one token")
        return Prompt(tokens, context, later)

    def fit(self, task: Task, sample: Sample, length: int) -> Prompt:
        """Returns the prompt that has, with the longest answer, at most `length` tokens. The text is cut in its middle.
        """
        limit = task.limit(length)
        for _try in range(9):
            prompt = self.make(task, sample)
            if task.turns:
                whole = len(prompt.tokens) + sum(map(len, prompt.later)) + limit * len(sample.asked)
            else:
                whole = max([len(prompt.tokens), *(prompt.context + len(one) for one in prompt.later)]) + limit
            if whole <= length:
                return prompt
            ids = self.model.tokenize(sample.context, bos=False, special=False)
            keep = len(ids) - (whole - length)
            if keep <= 0:
                break
            head = self.model.detokenize(ids[:keep // 2]) if keep // 2 else ""
            tail = self.model.detokenize(ids[len(ids) - (keep - keep // 2):])
            context = head.rstrip("\ufffd") + tail.lstrip("\ufffd")
            sample = Sample(context, sample.question, sample.answers, sample.opening, sample.more, sample.questions)
        raise UsageError(f"--length {length}: the shortest prompt of {task.name} and its answer of up to {limit} tokens "
                         f"are longer; give at least {whole + whole // 8}")


def common(a: np.ndarray, b: np.ndarray) -> int:
    """Returns the length of the common prefix, but at most one less than the length of either prompt."""
    most = min(len(a) - 1, len(b))
    if most <= 0:
        return 0
    differs = np.nonzero(a[:most] != b[:most])[0]
    return int(differs[0]) if len(differs) else most


__all__ = ["Prompt", "Prompter", "common"]
