"""Generates an answer token by token, with its text and the logits from which each token was drawn."""
from __future__ import annotations

import codecs
import numbers
from typing import List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .errors import KvcullError, UsageError
from .sampling import Sampler


class Piece(NamedTuple):
    """A token of an answer: its id, the text that is now certain, and the logits [vocab] from which it was drawn.

    The joined texts of all pieces are the answer's text. A text is "" while a character or a possible stop text is
    incomplete. If text is still pending when the end token arrives, a last piece contains it together with that token.
    """

    token: int
    text: str
    logits: np.ndarray


class Generation:
    """An iterator over the pieces of an answer. `tokens` and `text` have what has been generated so far. `reason` tells
    why the answer ended; it is None until then.

    reason: "end of turn", "length" or "stop text", as in the program. "grammar" means that no token could continue the
    incomplete answer. "interrupted" means that KeyboardInterrupt or
    another exception from outside the library ended it; the session then continues from the tokens that it holds. If an
    answer did not end by itself, the session reads its last token before the next prompt.
    """

    def __init__(self, session, sampler: Sampler, limit: int, stop: Sequence[str], ignore_end: bool, first: bool):
        if not isinstance(limit, numbers.Integral) or limit < 0:
            raise UsageError(f"generate: tokens={limit!r}: must be a whole number from 0")
        if not all(isinstance(text, str) for text in stop):
            raise UsageError(f"generate: stop={stop!r}: must be a text or a list of texts")
        self.tokens: List[int] = []
        self._texts: List[str] = []
        self.reason: Optional[str] = None
        self._session, self._sampler, self._limit, self._ignore_end = session, sampler, limit, ignore_end
        self._stop = [text for text in stop if text]
        self._first = first
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting = ""
        self._turn = None

    @property
    def text(self) -> str:
        """The text of the pieces so far."""
        return "".join(self._texts)

    def begin(self) -> None:
        """Binds the answer to the session's last prompt."""
        self._sampler.begin(self._first)
        self._session._settle()
        self._turn = self._session._turn

    def __iter__(self):
        return self

    def __next__(self) -> Piece:
        if self.reason is None and len(self.tokens) >= self._limit:
            self.reason = "length"
        if self.reason is not None:
            raise StopIteration
        self._session._settle()
        if self._session._turn is not self._turn:
            raise RuntimeError("the session was given another prompt; this answer is over")
        self.reason = "interrupted"
        try:
            piece, reason = self._piece()
        except KvcullError:
            self.reason = None
            raise
        self.reason = reason
        if piece is None:
            raise StopIteration
        return piece

    def _piece(self) -> Tuple[Optional[Piece], Optional[str]]:
        """Returns the next piece, and the reason if the answer ends with this piece. If the piece is None, the answer
        has already ended."""
        session, model = self._session, self._session.model
        session._give_pending()
        logits = session.logits
        token = self._sampler.sample(logits)
        if token < 0 or ((not self._ignore_end or self._sampler.has_grammar) and model.ends_turn(token)):
            rest, stopped = self._release(True)
            self._texts.append(rest)
            reason = "end of turn" if token >= 0 or self._sampler.whole else "grammar"
            return Piece(token, rest, logits) if rest else None, "stop text" if stopped else reason
        raw = model.token_bytes(token, self._first)
        self._first = self._first and not raw
        self._waiting += self._decoder.decode(raw)
        over = len(self.tokens) + 1 == self._limit
        text, stopped = self._release(over)
        # in one step, so that an interrupt cannot leave the answer and the session with different tokens
        list(map(list.append, (self.tokens, self._texts, session._pending), (token, text, token)))
        return Piece(token, text, logits), "stop text" if stopped else "length" if over else None

    def _release(self, over: bool) -> Tuple[str, bool]:
        """Returns the text that cannot become part of a stop text any more, and whether a stop text follows it."""
        if over:
            self._waiting += self._decoder.decode(b"", True)
        at = min((place for place in map(self._waiting.find, self._stop) if place >= 0), default=-1)
        if at >= 0:
            text, self._waiting = self._waiting[:at], ""
        else:
            held = 0 if over else max((self._begun(stop) for stop in self._stop), default=0)
            cut = len(self._waiting) - held
            text, self._waiting = self._waiting[:cut], self._waiting[cut:]
        return text, at >= 0

    def _begun(self, stop: str) -> int:
        """Returns how many characters at the end may be the beginning of this stop text."""
        return next((n for n in range(min(len(stop) - 1, len(self._waiting)), 0, -1)
                     if self._waiting.endswith(stop[:n])), 0)

    def finish(self) -> str:
        """Generates the rest of the answer and returns its whole text."""
        for _piece in self:
            pass
        return self.text
