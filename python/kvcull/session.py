"""Sessions: a conversation with a model over a bounded cache, its counters and the cache's contents."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _library
from ._handles import Closing, Handle
from ._library import ffi, lib, record
from .generation import Generation
from .grammar import Grammar
from .model import Model, tokens_array
from .policy import Policy
from .sampling import Sampler

Tokens = Union[str, Sequence[int], np.ndarray]


@dataclass(frozen=True)
class Stats:
    """A session's counters. Sizes are in bytes, counts in tokens or entries; see struct kvc_session_stats.

    entries: number of entries in all layers and heads; entries_most: number in the longest head; entry_bytes: a key and
    a value. cache_bytes, state_bytes: current bytes; peak_bytes: peak of both since the session was opened;
    prompt_peak_bytes: peak during the last prompt; full_bytes: bytes that the method `full` would hold. read_bytes:
    cache bytes that decode steps have read; select_bytes: the part of them that was read to select entries.
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
    mean_rows: int


def session_options(policy, cache_type, chunk, context, seed, memory_limit, expected, record_reads):
    """Returns struct kvc_session_options *, and the text to which it points."""
    options = ffi.new("struct kvc_session_options *")
    lib.kvc_session_defaults(options)
    text = _library.c_string(policy if policy is not None else "full", "policy")
    options.policy, options.cache_type = text, _library.cache_type(cache_type)
    options.chunk, options.context, options.seed = chunk, context, seed
    options.memory_limit, options.expected, options.record_reads = memory_limit, expected, record_reads
    return options, text


def position_list(engine, function, session, layer, head) -> np.ndarray:
    """Returns a list's positions from kvc_session_positions or kvc_session_reads, int32 [count]."""
    count, capacity = ffi.new("size_t *"), 1024
    while True:
        positions = np.empty(capacity, np.int32)
        engine._call(function, session, layer, head, ffi.from_buffer("int32_t[]", positions), capacity, count)
        if count[0] <= capacity:
            return positions[: count[0]].copy()
        capacity = count[0]


def stats_of(gate, session) -> Stats:
    """Returns the counters of a session."""
    stats = ffi.new("struct kvc_session_stats *")
    gate.call(lib.kvc_session_stats, session, stats)
    return record(Stats, stats)


class Computed(NamedTuple):
    """A prompt or step that is running or has run. Its logits are valid once done() is true. `turn` is None for a step.
    """

    done: Callable[[], bool]
    logits: np.ndarray
    turn: Optional[object]


class Session(Closing):
    """A conversation with a model.

    policy: a text ("snapkv:budget=512"), or from `kvcull.policy`; None: full. cache_type: type of keys and values,
    such as "f16", "q4h" or "k=q8_0,v=q4h". chunk: rows of a prompt computed together; does not change results. context:
    number of tokens that the caller will use; longrope models choose their factors by it. seed: for methods that draw
    at random. memory_limit: largest number of bytes of cache and state; 0: no limit. expected: tokens to be generated
    after each prompt, which some methods use. record_reads: records which entries steps read, for `reads`.
    """

    def __init__(self, model: Model, policy: Union[str, Policy, None] = None, *, cache_type: str = "f16", chunk: int = 0, context: int = 0,
                 seed: int = 0, memory_limit: int = 0, expected: int = 0, record_reads: bool = False):
        options, _text = session_options(policy, cache_type, chunk, context, seed, memory_limit, expected, record_reads)
        self.model = model
        self.policy = str(policy if policy is not None else "full")
        self._logits: Optional[np.ndarray] = None
        self._pending: List[int] = []  # the last token of an answer, which the session has not read yet
        self._turn = object()  # a new object for each prompt
        self._computed: Optional[Computed] = None
        self._handle = Handle(model._handle.gate, "kvc_session", model._handle)
        model.engine._call(lib.kvc_session_open, model._handle, options, self._handle.entry)

    # ---- computing ----

    def _settle(self) -> None:
        """Stores the result of the last prompt or step. An interrupt may occur right after the library's call or at any
        point of this function; another call of this function then completes the work."""
        computed = self._computed
        if computed is not None:
            if computed.done():
                self._logits, self._pending = computed.logits, []
                self._turn = computed.turn or self._turn
            self._computed = None

    def _tokens(self, tokens: Tokens) -> np.ndarray:
        """Returns the tokens of a prompt. If a text is the session's first prompt, the model's prefix tokens are added.
        """
        self._settle()
        if isinstance(tokens, (str, bytes, bytearray)):
            tokens = self.model.tokenize(tokens, bos=not self._pending and self.stats().tokens == 0)
        return tokens_array(tokens)

    def prompt(self, tokens: Tokens, *, rows: Optional[Callable[[int, np.ndarray], object]] = None,
               progress: Optional[Callable[[int, int], object]] = None) -> np.ndarray:
        """Processes the prompt of one turn: token ids or a text. Returns the logits of its last token, float32 [vocab].

        rows(row, logits [vocab]) is called for each row in order, with its own array. progress(done, total) is called
        from time to time; it counts rows times layers. Exceptions that the two raise are raised here, and so is
        KeyboardInterrupt, between two parts of a layer. After any error, the session must be closed. If the session has
        not yet read the last token of an answer, that token is processed first.
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
        """Runs one decode step. Returns the logits after the token, float32 [vocab], in a new array."""
        return decode([self], [token])[0]

    @property
    def logits(self) -> np.ndarray:
        """The logits of the last prompt or step, float32 [vocab]: the array to which the library wrote them."""
        self._settle()
        if self._logits is None:
            raise _library.of_status(lib.KVC_USAGE, "logits: the session has had no prompt yet")
        return self._logits

    def _give_pending(self):
        self._settle()
        if self._pending:
            _step([self], self._pending)

    def generate(self, prompt: Optional[Tokens] = None, *, tokens: int = 256, stop: Sequence[str] = (),
                 ignore_end: bool = False, first: bool = False, regex: Optional[str] = None,
                 json_schema: Union[str, Mapping[str, Any], None] = None, grammar: Union[str, Grammar, None] = None,
                 sampler: Optional[Sampler] = None, **sampling: Any) -> Generation:
        """Returns an iterator over an answer's pieces (`kvcull.Piece`), which are computed on demand.

        prompt: token ids or a text to process first; None: the answer continues from the session's contents. tokens:
        largest number of tokens to generate. stop: texts that end the answer; they are not part of it. ignore_end: the
        model's end token does not end the answer; no effect with a grammar. first: the answer begins a text, so a
        leading space is removed. sampling: the options of `kvcull.Sampler`; or pass sampler=, an object that may serve
        several turns. temperature=0 takes the most likely token.

        One of these restricts the answer: regex, a PCRE2 regular expression; json_schema, a dictionary or its text;
        grammar, a `kvcull.Grammar` or the text of a GBNF grammar. The model can then end only a complete answer. If the
        reason is not "end of turn", the answer may be incomplete; "grammar" means that no token could continue it.
        """
        forms = {"regex": regex, "schema": json_schema, "gbnf": None if isinstance(grammar, Grammar) else grammar}
        forms = {name: form for name, form in forms.items() if form is not None}
        if len(forms) + isinstance(grammar, Grammar) > 1:
            raise _library.of_status(lib.KVC_USAGE, "generate: only one of regex, json_schema and grammar may be given")
        if forms or grammar is not None:
            sampling = dict(sampling, grammar=Grammar(**forms) if forms else grammar, model=self.model)
        if sampler is not None and sampling:
            raise _library.of_status(lib.KVC_USAGE, f"generate: {', '.join(sampling)}: must be given to the sampler")
        if sampler is not None and sampler.model not in (None, self.model):
            raise _library.of_status(lib.KVC_USAGE, "generate: the sampler's grammar is for another model")
        own = sampler if sampler is not None else Sampler(self.model.info.vocab, **sampling)
        answer = Generation(self, own, tokens, [stop] if isinstance(stop, str) else stop, ignore_end, first)
        if prompt is not None:
            ids = self._tokens(prompt)
            for token in ids:
                own.accept(int(token))
            self.prompt(ids)
        answer.begin()
        return answer

    def answer(self, prompt: Optional[Tokens] = None, **options: Any) -> str:
        """Returns the text of an answer, with the options of `generate`."""
        return self.generate(prompt, **options).finish()

    def fork(self) -> "Session":
        """Returns a copy of the session. Both continue independently, with results that are bit-identical to those of a
        single session."""
        self._settle()
        copy = object.__new__(type(self))
        copy.model, copy.policy, copy._logits = self.model, self.policy, self._logits
        copy._pending, copy._turn, copy._computed = list(self._pending), object(), None
        copy._handle = Handle(self._handle.gate, "kvc_session", self.model._handle)
        self.model.engine._call(lib.kvc_session_fork, self._handle, copy._handle.entry)
        return copy

    # ---- contents ----

    def stats(self) -> Stats:
        """Returns the current counters."""
        return stats_of(self._handle.gate, self._handle)

    def heads(self, layer: int) -> int:
        """Returns the number of KV lists of a layer: one per KV head, or one per query head if a method has per=head.
        """
        return self._handle.gate.call(lib.kvc_session_heads, self._handle, self._layer(layer))

    def positions(self, layer: int, head: int) -> np.ndarray:
        """Returns the positions that one list holds, int32 [count], ascending."""
        return position_list(self.model.engine, lib.kvc_session_positions, self._handle, self._layer(layer),
                             head)

    def reads(self, layer: int, head: int) -> np.ndarray:
        """Returns the positions of one list that the last decode step read. Requires record_reads."""
        return position_list(self.model.engine, lib.kvc_session_reads, self._handle, self._layer(layer), head)

    def _layer(self, layer):
        if not 0 <= layer < self.model.info.layers:
            raise _library.of_status(lib.KVC_USAGE, f"layer {layer}: must be from 0 to {self.model.info.layers - 1}")
        return layer

    def watch(self, function: Optional[Callable[[int, np.ndarray], object]]) -> None:
        """Calls function(layer, output [H, d]) in every decode step, layer by layer. None: stops calling.

        output: the output of attention, float32, in a new array.
        """
        info, made = self.model.info, ffi.NULL
        if function is not None:
            def call(_user, layer, output):
                function(layer, _copy(output, info.heads * info.head_size).reshape(info.heads, info.head_size))
            made = self._handle.gate.function("kvc_output_fn *", call)
        self._handle.watching = self._handle.watching, made  # keeps both functions until the library has switched
        self.model.engine._call(lib.kvc_session_watch, self._handle, made, ffi.NULL)
        self._handle.watching = made


def _copy(values, count: int) -> np.ndarray:
    """Copies floats of the library, which are valid only during the call. Returns float32 [count]."""
    return np.frombuffer(ffi.buffer(values, 4 * count), np.float32).copy()


def _sessions(sessions):
    if not sessions:
        raise _library.of_status(lib.KVC_USAGE, "no sessions; there must be at least one")
    if any(session.model is not sessions[0].model for session in sessions):
        raise _library.of_status(lib.KVC_USAGE, "sessions of different models; all must be of one model")
    return sessions[0].model


def decode(sessions: Sequence[Session], tokens: Union[Sequence[int], np.ndarray]) -> np.ndarray:
    """Runs one decode step of several sessions of one model together. Returns logits, float32 [sessions, vocab].

    Batching does not change results: each session gets the logits that it would get alone.
    """
    model, ids = _sessions(sessions), tokens_array(tokens)
    if len(ids) != len(sessions):
        raise _library.of_status(lib.KVC_USAGE, f"{len(ids)} tokens for {len(sessions)} sessions")
    for session in sessions:
        session._give_pending()  # the last token of an interrupted answer
    return _step(sessions, ids)


def _together(sessions, logits, turns) -> Any:
    """Records that several sessions now compute together and that each has one row of the logits. Returns the array in
    which the library stores each session's status, enum kvc_status [sessions]."""
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
    """Processes the same prompt in several sessions of one model. If their methods allow it, the prompt is computed
    only once.

    Returns the logits of its last token for each session, float32 [sessions, vocab]. Each is what `prompt` alone would
    return.
    """
    model = _sessions(sessions)
    for session in sessions:
        session._settle()
    if any(session._pending for session in sessions):
        raise _library.of_status(lib.KVC_USAGE, "prompt_many: a session must first read the last token of an answer")
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
