"""Sessions: a conversation over a model with a bounded cache, its counters, and what the cache holds."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, List, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _library
from ._handles import Closing, Handle
from ._library import ffi, lib, record
from .generation import Generation
from .model import Model, tokens_array
from .sampling import Sampler

Tokens = Union[str, Sequence[int], np.ndarray]


@dataclass(frozen=True)
class Stats:
    """A session's counters. Sizes are in bytes, counts in tokens or entries; see struct kvc_session_stats.

    entries: held now, by all layers and heads; entries_most: by the fullest head; entry_bytes: a key and a value.
    cache_bytes, state_bytes: held now; peak_bytes: of both since the session was opened; prompt_peak_bytes: of the
    last prompt; full_bytes: what the method full would hold. read_bytes: cache bytes read by decode steps so far;
    select_bytes: of these, read to choose what to read.
    """

    tokens: int
    entries: int
    entries_most: int
    entry_bytes: int
    cache_bytes: int
    state_bytes: int
    peak_bytes: int
    prompt_peak_bytes: int
    full_bytes: int
    read_bytes: int
    select_bytes: int
    decode_steps: int
    saturated: int
    outgrown: bool
    prompt_sessions: int
    spared_rows: int


def session_options(policy, cache_type, chunk, context, seed, memory_limit, expected, record_reads):
    """struct kvc_session_options *, and what it points to."""
    options = ffi.new("struct kvc_session_options *")
    lib.kvc_session_defaults(options)
    text = _library.c_string(policy if policy is not None else "full", "policy")
    options.policy, options.cache_type = text, _library.cache_type(cache_type)
    options.chunk, options.context, options.seed = chunk, context, seed
    options.memory_limit, options.expected, options.record_reads = memory_limit, expected, record_reads
    return options, text


def position_list(engine, function, session, layer, head) -> np.ndarray:
    """What kvc_session_positions or kvc_session_reads says of a list of a session, int32 [count]."""
    count, capacity = ffi.new("size_t *"), 1024
    while True:
        positions = np.empty(capacity, np.int32)
        engine._call(function, session, layer, head, ffi.from_buffer("int32_t[]", positions), capacity, count)
        if count[0] <= capacity:
            return positions[: count[0]].copy()
        capacity = count[0]


def stats_of(gate, session) -> Stats:
    """The counters of a session."""
    stats = ffi.new("struct kvc_session_stats *")
    gate.call(lib.kvc_session_stats, session, stats)
    return record(Stats, stats)


class Computed(NamedTuple):
    """A prompt or a step that is or was under way: its logits count once done(), and `turn` is None in a step."""

    done: Callable[[], bool]
    logits: np.ndarray
    turn: Optional[object]


class Session(Closing):
    """A conversation over a model.

    policy: as text ("snapkv:budget=512") or of `kvcull.policy`; None: full. cache_type: of entries, "f32", "f16" or
    "q8_0". chunk: rows of a prompt computed at once; changes no bit. context: tokens the caller means to use, by which
    longrope models choose their factors. seed: of methods that draw. memory_limit: bytes of cache and state at most, 0:
    no limit. expected: tokens that will be asked for after each prompt, which some methods use. record_reads: remember
    what steps read, for `reads`.
    """

    def __init__(self, model: Model, policy=None, *, cache_type: str = "f16", chunk: int = 0, context: int = 0,
                 seed: int = 0, memory_limit: int = 0, expected: int = 0, record_reads: bool = False):
        options, _text = session_options(policy, cache_type, chunk, context, seed, memory_limit, expected, record_reads)
        self.model = model
        self.policy = str(policy if policy is not None else "full")
        self._logits: Optional[np.ndarray] = None
        self._pending: List[int] = []  # the last token of an answer, which the session has not seen
        self._turn = object()  # another one for each prompt
        self._computed: Optional[Computed] = None
        self._handle = Handle(model._handle.gate, "kvc_session", model._handle)
        model.engine._call(lib.kvc_session_open, model._handle, options, self._handle.entry)

    # ---- computing ----

    def _settle(self) -> None:
        """Takes over what the last prompt or step gave. An interrupt may have come right behind the library's call, and
        at any moment of this function, which then does the same once more."""
        computed = self._computed
        if computed is not None:
            if computed.done():
                self._logits, self._pending = computed.logits, []
                self._turn = computed.turn or self._turn
            self._computed = None

    def _tokens(self, tokens: Tokens) -> np.ndarray:
        """Tokens of a prompt; a text gets what the model puts in front where it is the session's first."""
        self._settle()
        if isinstance(tokens, (str, bytes, bytearray)):
            tokens = self.model.tokenize(tokens, bos=not self._pending and self.stats().tokens == 0)
        return tokens_array(tokens)

    def prompt(self, tokens: Tokens, *, rows: Optional[Callable[[int, np.ndarray], object]] = None,
               progress: Optional[Callable[[int, int], object]] = None) -> np.ndarray:
        """One turn's prompt: token ids, or a text. Returns the logits of its last token, float32 [vocab].

        rows(row, logits [vocab]): called for each row in order, with an array of its own. progress(done, total): called
        now and then, in rows times layers. What either raises is raised here, as is KeyboardInterrupt between two parts
        of a layer; the session must then be closed, as after any other error. The last token of an answer comes first,
        where the session has not seen it yet.
        """
        ids = self._tokens(tokens)
        ids = np.concatenate([np.array(self._pending, np.int32), ids])
        vocab, engine = self.model.info.vocab, self.model.engine
        options, logits = ffi.new("struct kvc_prompt_options *"), np.empty(vocab, np.float32)
        keep, function = [], self._handle.gate.function
        if rows is not None:
            def call_row(_user, row, values):
                rows(row, _copy(values, vocab))
                return 0
            keep.append(function("kvc_row_fn *", call_row, 1))
            options.row = keep[-1]
        if progress is not None:
            def call_progress(_user, done, total):
                progress(done, total)
                return 0
            keep.append(function("kvc_progress_fn *", call_progress, 1))
            options.progress = keep[-1]
        outcome: List[Any] = []
        self._computed = Computed(lambda: outcome[2:3] == [[lib.KVC_OK]], logits, object())
        engine._call(lib.kvc_session_prompt, self._handle, ffi.from_buffer("int32_t[]", ids), len(ids), options,
                     ffi.from_buffer("float[]", logits), record=outcome)
        self._settle()
        return logits

    def decode(self, token: int) -> np.ndarray:
        """One decode step. Returns the logits that follow the token, float32 [vocab], an array of their own."""
        return decode([self], [token])[0]

    @property
    def logits(self) -> np.ndarray:
        """The logits of the last prompt or step, float32 [vocab]: the array that the library wrote them to."""
        self._settle()
        if self._logits is None:
            raise _library.of_status(lib.KVC_USAGE, "logits: the session has had no prompt yet")
        return self._logits

    def _give_pending(self):
        self._settle()
        if self._pending:
            _step([self], self._pending)

    def generate(self, prompt: Optional[Tokens] = None, *, tokens: int = 256, stop: Sequence[str] = (),
                 ignore_end: bool = False, first: bool = False, sampler: Optional[Sampler] = None,
                 **sampling) -> Generation:
        """An iterator over an answer's pieces (`kvcull.Piece`), computed as they are asked for.

        prompt: token ids or a text, read first; None: the answer goes on from what the session holds. tokens: at most.
        stop: texts before which an answer ends. ignore_end: the model's end token does not end it. first: nothing
        precedes the answer's text, so that a leading blank goes. sampling: the options of `kvcull.Sampler`, or a
        sampler of one's own, which may serve several turns; temperature=0 takes the likeliest token.
        """
        own = sampler if sampler is not None else Sampler(self.model.info.vocab, **sampling)
        if sampler is not None and sampling:
            raise _library.of_status(lib.KVC_USAGE, f"generate: {', '.join(sampling)}: belong to the sampler")
        answer = Generation(self, own, tokens, [stop] if isinstance(stop, str) else stop, ignore_end, first)
        if prompt is not None:
            ids = self._tokens(prompt)
            for token in ids:
                own.accept(int(token))
            self.prompt(ids)
        answer.begin()
        return answer

    def answer(self, prompt: Optional[Tokens] = None, **options) -> str:
        """The text of an answer, with the options of `generate`."""
        return self.generate(prompt, **options).finish()

    # ---- what it holds ----

    def stats(self) -> Stats:
        """The counters now."""
        return stats_of(self._handle.gate, self._handle)

    def heads(self, layer: int) -> int:
        """Lists of entries that a layer has: the KV heads, or the query heads where a method has per=head."""
        return self._handle.gate.call(lib.kvc_session_heads, self._handle, self._layer(layer))

    def positions(self, layer: int, head: int) -> np.ndarray:
        """The positions that one list holds, int32 [count], ascending."""
        return position_list(self.model.engine, lib.kvc_session_positions, self._handle, self._layer(layer),
                             head)

    def reads(self, layer: int, head: int) -> np.ndarray:
        """The positions that the last decode step read of one list. For sessions opened with record_reads."""
        return position_list(self.model.engine, lib.kvc_session_reads, self._handle, self._layer(layer), head)

    def _layer(self, layer):
        if not 0 <= layer < self.model.info.layers:
            raise _library.of_status(lib.KVC_USAGE, f"layer {layer}: must be from 0 to {self.model.info.layers - 1}")
        return layer

    def watch(self, function: Optional[Callable[[int, np.ndarray], object]]) -> None:
        """Calls function(layer, output [H, d]) in every decode step, layer by layer; None: no longer.

        The output is the attention's, float32, an array of its own.
        """
        info, made = self.model.info, ffi.NULL
        if function is not None:
            def call(_user, layer, output):
                function(layer, _copy(output, info.heads * info.head_size).reshape(info.heads, info.head_size))
            made = self._handle.gate.function("kvc_output_fn *", call)
        self._handle.watching = self._handle.watching, made  # until the library knows the new one
        self.model.engine._call(lib.kvc_session_watch, self._handle, made, ffi.NULL)
        self._handle.watching = made


def _copy(values, count: int) -> np.ndarray:
    """Floats of the library, float32 [count], which are its own after the call."""
    return np.frombuffer(ffi.buffer(values, 4 * count), np.float32).copy()


def _sessions(sessions):
    if not sessions:
        raise _library.of_status(lib.KVC_USAGE, "no sessions; there must be at least one")
    if any(session.model is not sessions[0].model for session in sessions):
        raise _library.of_status(lib.KVC_USAGE, "sessions of several models; they must be of one")
    return sessions[0].model


def decode(sessions: Sequence[Session], tokens: Sequence[int]) -> np.ndarray:
    """One decode step of several sessions of one model together: logits, float32 [sessions, vocab].

    A batch changes no bit: each session gets the logits that it would get alone.
    """
    model, ids = _sessions(sessions), tokens_array(tokens)
    if len(ids) != len(sessions):
        raise _library.of_status(lib.KVC_USAGE, f"{len(ids)} tokens for {len(sessions)} sessions")
    for session in sessions:
        session._give_pending()  # the last token of an answer that was broken off
    return _step(sessions, ids)


def _together(sessions, logits, turns) -> Any:
    """Notes what several sessions compute now, each with a row of the logits. Returns where the library says for each
    whether it succeeded, enum kvc_status [sessions]."""
    statuses = ffi.new("enum kvc_status[]", [lib.KVC_RESOURCE] * len(sessions))
    for i, (session, row, turn) in enumerate(zip(sessions, logits, turns)):
        session._settle()
        session._computed = Computed(lambda i=i: statuses[i] == lib.KVC_OK, row, turn)
    return statuses


def _step(sessions, tokens):
    logits, ids = np.empty((len(tokens), sessions[0].model.info.vocab), np.float32), np.array(tokens, np.int32)
    statuses = _together(sessions, logits, [None] * len(sessions))
    try:
        sessions[0].model.engine._call(lib.kvc_decode, [session._handle for session in sessions],
                                       ffi.from_buffer("int32_t[]", ids), len(ids), ffi.from_buffer("float[]", logits),
                                       statuses)
    finally:
        for session in sessions:
            session._settle()
    return logits


def prompt_many(sessions: Sequence[Session], tokens: Tokens) -> np.ndarray:
    """The same prompt for several sessions of one model, computed once where their methods allow it.

    Returns the logits of its last token for each, float32 [sessions, vocab]; each is what `prompt` would give alone.
    """
    model = _sessions(sessions)
    for session in sessions:
        session._settle()
    if any(session._pending for session in sessions):
        raise _library.of_status(lib.KVC_USAGE, "prompt_many: a session has an answer's last token to see first")
    ids = sessions[0]._tokens(tokens)
    logits = np.empty((len(sessions), model.info.vocab), np.float32)
    statuses = _together(sessions, logits, [object() for _session in sessions])
    try:
        model.engine._call(lib.kvc_session_prompt_many, [session._handle for session in sessions], len(sessions),
                           ffi.from_buffer("int32_t[]", ids), len(ids), ffi.from_buffer("float[]", logits), statuses)
    finally:
        for session in sessions:
            session._settle()
    return logits


__all__: List[str] = ["Session", "Stats", "decode", "prompt_many"]
