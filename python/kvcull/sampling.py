"""Samplers choose the next token."""
from __future__ import annotations

from typing import TYPE_CHECKING, Optional

import numpy as np

from . import _library
from ._handles import Closing, Gate, Handle
from ._library import ffi, lib, raise_for
from .grammar import Grammar

if TYPE_CHECKING:
    from .model import Model


class Sampler(Closing):
    """Draws tokens from logits. Options and defaults are the program's, and equal seeds give equal draws.

    temperature: 0 takes the highest logit, and the lowest id among equal ones. top_k: 0 is off. top_p: 1 is off. min_p:
    0 is off. repeat_penalty: 1 is off; repeat_last: how many tokens it looks back. frequency_penalty, presence_penalty:
    -2 to 2, 0 is off. These two count all tokens that this sampler has drawn, but not the tokens of the prompt.

    grammar: a `kvcull.Grammar` that each answer must match. It requires model, whose tokens the sampler draws.
    """

    PENALTIES = ("frequency_penalty", "presence_penalty")
    OPTIONS = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "repeat_last", "seed", *PENALTIES)

    def __init__(self, vocab: int, *, grammar: Optional[Grammar] = None, model: Optional[Model] = None, **options):
        self.vocab, self.model, self._grammar = vocab, model, grammar  # kept, because closing it closes the sampler
        if grammar is not None and (model is None or not isinstance(grammar, Grammar)):
            raise _library.of_status(lib.KVC_USAGE, "Sampler: grammar must be a kvcull.Grammar, and given with model")
        given = ffi.new("struct kvc_sampler_options *")
        lib.kvc_sampler_defaults(given)
        for name, value in options.items():
            if name not in self.OPTIONS:
                raise _library.of_status(lib.KVC_USAGE, f"Sampler: no option {name!r}; there are "
                                                        f"{', '.join(self.OPTIONS)}")
            if name not in self.PENALTIES:
                setattr(given, name, value)
        self._bound = None if grammar is None else grammar._of(model)
        self._handle = Handle(self._bound.gate if self._bound else Gate(), "kvc_sampler", self._bound)
        error = ffi.new("struct kvc_error *")
        raise_for(self._handle.gate.call(lib.kvc_sampler_open, given, vocab, self._handle.entry, error), error)
        penalties = [options.get(name, 0) for name in self.PENALTIES]
        raise_for(self._handle.gate.call(lib.kvc_sampler_penalties, self._handle, *penalties, error), error)
        self.begin()

    def begin(self, first: bool = False) -> None:
        """Begins an answer: the grammar, if there is one, expects its first token. `Session.generate` calls this.

        first: the answer begins a text, so a leading space is removed.
        """
        if self._bound is None:
            return
        error = ffi.new("struct kvc_error *")
        raise_for(self._handle.gate.call(lib.kvc_sampler_grammar, self._handle, self.model._handle,
                                         self._bound, first, error), error)

    @property
    def whole(self) -> bool:
        """Whether the answer so far is a text of the grammar. True if there is no grammar."""
        return bool(self._handle.gate.call(lib.kvc_sampler_whole, self._handle))

    @property
    def has_grammar(self) -> bool:
        """Whether a grammar restricts the answers."""
        return self._bound is not None

    def accept(self, token: int) -> None:
        """Adds a token of the prompt to the repeat penalty's history."""
        if not 0 <= token < self.vocab:
            raise _library.of_status(lib.KVC_USAGE, f"token {token}: must be from 0 to {self.vocab - 1}")
        self._handle.gate.call(lib.kvc_sampler_accept, self._handle, token)

    def sample(self, logits: np.ndarray) -> int:
        """Draws the next token from logits [vocab], float32, and adds it to the history for penalties. Returns -1 if
        the grammar allows no token."""
        array = np.ascontiguousarray(logits, np.float32)
        if array.shape != (self.vocab,):
            raise _library.of_status(lib.KVC_USAGE, f"logits {list(array.shape)}: must be [{self.vocab}]")
        return self._handle.gate.call(lib.kvc_sample, self._handle, ffi.from_buffer("float[]", array))
