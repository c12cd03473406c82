"""Samplers choose the next token."""
from __future__ import annotations

import numpy as np

from . import _library
from ._handles import Closing, Gate, Handle
from ._library import ffi, lib, raise_for


class Sampler(Closing):
    """Draws tokens from logits. Options and defaults are the program's, and equal seeds give equal draws.

    temperature: 0 takes the highest logit, and the lowest id among equal ones. top_k: 0 is off. top_p: 1 is off. min_p:
    0 is off. repeat_penalty: 1 is off; repeat_last: how many tokens it looks back. frequency_penalty, presence_penalty:
    -2 to 2, 0 is off. These two count all tokens that this sampler has drawn, but not the tokens of the prompt.
    """

    PENALTIES = ("frequency_penalty", "presence_penalty")
    OPTIONS = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "repeat_last", "seed", *PENALTIES)

    def __init__(self, vocab: int, **options):
        self.vocab = vocab
        given = ffi.new("struct kvc_sampler_options *")
        lib.kvc_sampler_defaults(given)
        for name, value in options.items():
            if name not in self.OPTIONS:
                raise _library.of_status(lib.KVC_USAGE, f"Sampler: no option {name!r}; there are "
                                                        f"{', '.join(self.OPTIONS)}")
            if name not in self.PENALTIES:
                setattr(given, name, value)
        self._handle, error = Handle(Gate(), "kvc_sampler"), ffi.new("struct kvc_error *")
        raise_for(self._handle.gate.call(lib.kvc_sampler_open, given, vocab, self._handle.entry, error), error)
        penalties = [options.get(name, 0) for name in self.PENALTIES]
        raise_for(self._handle.gate.call(lib.kvc_sampler_penalties, self._handle, *penalties, error), error)

    def accept(self, token: int) -> None:
        """Adds a token of the prompt to the repeat penalty's history."""
        if not 0 <= token < self.vocab:
            raise _library.of_status(lib.KVC_USAGE, f"token {token}: must be from 0 to {self.vocab - 1}")
        self._handle.gate.call(lib.kvc_sampler_accept, self._handle, token)

    def sample(self, logits: np.ndarray) -> int:
        """Draws the next token from logits [vocab], float32, and adds it to the penalties' history."""
        array = np.ascontiguousarray(logits, np.float32)
        if array.shape != (self.vocab,):
            raise _library.of_status(lib.KVC_USAGE, f"logits {list(array.shape)}: must be [{self.vocab}]")
        return self._handle.gate.call(lib.kvc_sample, self._handle, ffi.from_buffer("float[]", array))
