"""Methods written in Python, for trying ideas. They see scores and positions as arrays and choose what to keep.

Scores are copied to the host and back, which is slow on devices. docs/how-to/add-a-method.md shows the same in C.
"""
from __future__ import annotations

import inspect
import numbers
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from . import _library
from ._library import c_string, ffi, lib, raise_for, text_of, whole_numbers
from .policy import KINDS, STAGES, Method, Option, function_of, option_rows

ENTRY_KINDS = ("draw", "norm", "apart")
POOLINGS = ("max", "average", "chunks")
FOREVER = (1 << 63) - 1  # INT64_MAX


class Scores:
    """One float32 for each entry of each KV list or, from `head_mass`, for each entry of each query head. scores[head]
    copies one head's scores to the host, float32 [entries]. scores[head] = array writes them back."""

    def __init__(self, stage: "Stage", pointer):
        self._stage, self.pointer = stage, pointer

    def __getitem__(self, head: int) -> np.ndarray:
        capacity, count = max(1, self._stage.entries), ffi.new("size_t *")
        while True:
            values = np.empty(capacity, np.float32)
            self._stage.call(lib.kvc_stage_read_scores, self.pointer, head, ffi.from_buffer("float[]", values), capacity,
                             count)
            if count[0] <= capacity:
                return values[: count[0]]
            capacity = count[0]

    def __setitem__(self, head: int, values) -> None:
        array, count = np.ascontiguousarray(values, np.float32), ffi.new("size_t *")
        self._stage.call(lib.kvc_stage_read_scores, self.pointer, head, ffi.NULL, 0, count)
        if array.shape != (count[0],):
            raise _library.of_status(lib.KVC_USAGE, f"scores {list(array.shape)}: must be [{count[0]}], one for each entry")
        self._stage.call(lib.kvc_stage_write_scores, self.pointer, head, ffi.from_buffer("float[]", array), len(array))


class Values:
    """A method's options as a policy sets them. Valid only during the call of the method's function."""

    def __init__(self, gate, values, kinds):
        self._gate, self._values, self._kinds = gate, values, kinds

    def _check(self) -> None:
        if self._gate.stage is not self:
            raise _library.of_status(lib.KVC_USAGE, "a stage is valid only during the call of its function")

    def _option(self, name: str, *kinds: str) -> bytes:
        self._check()
        if name not in self._kinds:
            raise _library.of_status(lib.KVC_USAGE, f"option {name!r} does not exist; there are {', '.join(self._kinds)}")
        if self._kinds[name] not in kinds:
            raise _library.of_status(lib.KVC_USAGE, f"option {name!r}: it is of kind {self._kinds[name]}, not "
                                                    f"{' or '.join(kinds)}")
        return name.encode()

    def integer(self, option: str) -> int:
        """Returns an option of kind "integer"."""
        return lib.kvc_value_int(self._values, self._option(option, "integer"))

    def number(self, option: str) -> float:
        """Returns an option of kind "number"."""
        return lib.kvc_value_real(self._values, self._option(option, "number"))

    def text(self, option: str) -> str:
        """Returns an option of kind "text" or "choice"."""
        return text_of(lib.kvc_value_text(self._values, self._option(option, "text", "choice")))


class Stage(Values):
    """The argument of a stage function: one session and one layer. Valid only during the call.

    Members of struct kvc_stage_info are attributes: layer, layers, heads, kv_heads, head_size, turn, held, after, now,
    step, entries, expected, seed and others.
    """

    def __init__(self, gate, values, kinds, stage, error):
        super().__init__(gate, values, kinds)
        self._stage, self._error = stage, error

    def _pointer(self):
        self._check()
        return self._stage

    def call(self, function, *arguments) -> None:
        """Calls a library function kvc_stage_... with this stage as first and the error as last argument."""
        raise_for(function(self._pointer(), *arguments, self._error), self._error)

    def __getattr__(self, name: str) -> int:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(lib.kvc_stage_info(self._pointer()), name)

    def budget(self, option: str = "budget", least: int = 1) -> int:
        """Returns a budget in tokens, at least `least`. If the option is a percentage, it is a percentage of the
        longest head's entries after the prompt.
        """
        return lib.kvc_value_budget(self._values, self._option(option, "budget"), self.held, least)

    # ---- scores ----

    def _scores(self, function=None):
        made = ffi.new("struct kvc_scores **")
        self.call(function or lib.kvc_stage_scores, made)
        return Scores(self, made[0])

    def scores(self) -> Scores:
        """Returns scores for every list, which the caller fills."""
        return self._scores()

    def window_mass(self, window: int) -> Scores:
        """Returns the attention from the last `window` prompt queries (in a decode step: from that step's query),
        summed over groups.

        There are at most as many queries as the class attribute `queries`.
        """
        scores = self._scores()
        self.call(lib.kvc_stage_window_mass, window, scores.pointer)
        return scores

    def head_mass(self, window: int) -> Scores:
        """Like `window_mass`, for each query head."""
        scores = self._scores(lib.kvc_stage_head_scores)
        self.call(lib.kvc_stage_window_mass, window, scores.pointer)
        return scores

    def entry_scores(self, kind: str, seed: int = 0) -> Scores:
        """Returns scores that need no query: "draw" (random), "norm" (minus the key's length), "apart" (minus its
        cosine to the mean of all keys)."""
        if kind not in ENTRY_KINDS:
            raise _library.of_status(lib.KVC_USAGE, f"entry_scores: {kind!r}: must be {', '.join(ENTRY_KINDS)}")
        scores = self._scores()
        self.call(lib.kvc_stage_entry_scores, ENTRY_KINDS.index(kind), seed, scores.pointer)
        return scores

    def _own(self, scores: Scores):
        """Returns the pointer of scores. Raises UsageError if they belong to another stage, which is no longer valid.
        """
        if not isinstance(scores, Scores) or scores._stage is not self:
            raise _library.of_status(lib.KVC_USAGE, "scores of another stage: must be created in this stage")
        return scores.pointer

    def pool(self, scores: Scores, kernel: int, pooling: str = "max", tail: int = 0) -> None:
        """Applies 1-D pooling to the scores of each head, except those of its last `tail` entries."""
        if pooling not in POOLINGS:
            raise _library.of_status(lib.KVC_USAGE, f"pool: {pooling!r}: must be {', '.join(POOLINGS)}")
        self.call(lib.kvc_stage_pool, self._own(scores), tail, kernel, POOLINGS.index(pooling))

    def positions(self, head: int) -> np.ndarray:
        """Returns the positions of one list's entries, int32 [entries], ascending."""
        capacity, count = max(1, self.entries), ffi.new("size_t *")
        while True:
            positions = np.empty(capacity, np.int32)
            self.call(lib.kvc_stage_read_positions, head, ffi.from_buffer("int32_t[]", positions), capacity, count)
            if count[0] <= capacity:
                return positions[: count[0]]
            capacity = count[0]

    # ---- what to keep ----

    def keep(self, scores: Optional[Scores] = None, *, top: int = 0, first: int = 0, tail: int = 0, limit: int = 0,
             recent: int = FOREVER) -> None:
        """Keeps, in each head: indices below `first`, the last `tail`, positions from `recent` on, and of the others
        the `top` with the highest scores. A head with at most `limit` entries keeps all."""
        rule = ffi.new("struct kvc_keep *")
        rule.first, rule.tail, rule.top, rule.limit, rule.recent = first, tail, top, limit, recent
        rule.scores = self._own(scores) if scores is not None else ffi.NULL
        self.call(lib.kvc_stage_keep, rule)

    def keep_positions(self, positions: Sequence[Sequence[int]]) -> None:
        """Keeps, in each head, the entries at these ascending positions. Positions that a head does not hold are
        ignored."""
        if len(positions) != self.kv_heads:
            raise _library.of_status(lib.KVC_USAGE, f"keep_positions: {len(positions)} lists: must be {self.kv_heads}")
        arrays = [whole_numbers(one, np.int32, "keep_positions") for one in positions]
        lists = ffi.new("int32_t *[]", [ffi.from_buffer("int32_t[]", array) for array in arrays])
        counts = ffi.new("size_t[]", [len(array) for array in arrays])
        self.call(lib.kvc_stage_keep_positions, ffi.cast("int32_t **", lists), counts)

    def keep_indices(self, indices: Sequence[int]) -> None:
        """Keeps these ascending indices in every head."""
        array = whole_numbers(indices, np.uint32, "keep_indices")
        self.call(lib.kvc_stage_keep_indices, ffi.from_buffer("uint32_t[]", array), len(array))


class HostMethod:
    """Base class of methods written in Python. A subclass needs `name` and at least one of `prompt` and `decode`.
    `engine.register(TheClass)` registers it; its policy strings then work like those of any other method.

    options: `kvcull.Option`s. queries: how many of the prompt's last queries the method uses.
    `TheClass.policy(budget=64)` makes a policy.
    """

    name = ""
    summary = "a method written in Python"
    idea = ""
    formula = ""
    paper = "-"
    options: Sequence[Option] = ()
    queries = 0

    def check(self, values: Values) -> None:
        """Called for every policy with this method. Raises errors for values that are wrong although each option is in
        its range."""

    def prompt(self, stage: Stage) -> None:
        """Called once per layer when a prompt has been processed."""

    def decode(self, stage: Stage) -> None:
        """Called once per layer after the attention of each decode step."""

    @classmethod
    def policy(cls, **options):
        """Returns the policy with these options."""
        return function_of(_method_of(cls))(**options)


def _common() -> Tuple[Option, ...]:
    """Returns the options that every method accepts."""
    return option_rows(lib.kvc_common_options())


def _method_of(cls) -> Method:
    return Method(name=cls.name, summary=cls.summary, paper=cls.paper, idea=cls.idea, formula=cls.formula, memory="",
                  traffic="", differences="", second_turn="", stages=_stages(cls), options=tuple(cls.options),
                  common=_common())


def _stages(cls) -> Tuple[str, ...]:
    return tuple(stage for stage in ("prompt", "decode") if getattr(cls, stage) is not getattr(HostMethod, stage))


def _wrong(option: Option) -> str:
    """Returns what is wrong with an option's definition, or ""."""
    if option.kind not in KINDS:
        return f"kind {option.kind!r}: must be {', '.join(KINDS)}"
    if isinstance(option.choices, str):
        return f"choices {option.choices!r}: must be a list of texts"
    if option.maximum and option.maximum < option.minimum:
        return f"from {option.minimum} to {option.maximum}: must be a range, or a maximum of 0 for none"
    return ""


def _option_table(options: Sequence[Option], keep: List[Any]):
    table = ffi.new("struct kvc_option[]", len(options) + 1)
    for row, option in zip(table, options):
        if _wrong(option):
            raise _library.of_status(lib.KVC_USAGE, f"option {option.name}: {_wrong(option)}")
        texts = {"name": option.name, "help": option.help or option.name, "choices": "|".join(option.choices),
                 "default_value": option.default}
        for name, text in texts.items():
            keep.append(c_string(text, f"option {option.name}: {name}"))
            setattr(row, name, keep[-1])
        row.kind, row.minimum = KINDS.index(option.kind), option.minimum
        row.maximum = option.maximum or 2147483647.0
    keep.append(table)
    return table


def made_known(engine, method) -> None:
    """Registers a HostMethod class or object. The engine keeps everything whose address the library has."""
    own = method() if inspect.isclass(method) else method
    stages = _stages(type(own))
    if not isinstance(own, HostMethod) or not stages:
        raise _library.of_status(lib.KVC_USAGE, "register: must be a HostMethod with prompt, decode or both")
    if not isinstance(own.queries, numbers.Integral) or not 0 <= own.queries < 1 << 32:
        raise _library.of_status(lib.KVC_USAGE, f"register: queries={own.queries!r}: must be from 0 to {(1 << 32) - 1}")
    gate, queries = engine._handle.gate, int(own.queries)  # not the engine itself, which could then never be freed
    keep: List[Any] = [own]
    row = ffi.new("struct kvc_policy_class *")
    for text in ("name", "summary", "paper", "idea", "formula"):
        keep.append(c_string(getattr(own, text), f"register: {text}"))
        setattr(row, text, keep[-1])
    for text in ("memory", "traffic", "differences", "second_turn"):
        keep.append(c_string("", text))
        setattr(row, text, keep[-1])
    row.options = _option_table(own.options, keep)
    row.stages = sum(1 << STAGES.index(stage) for stage in stages)
    if queries:
        keep.append(ffi.callback("uint32_t(const struct kvc_values *)", lambda _values: queries, error=queries))
        row.queries = keep[-1]
    kinds = {option.name: option.kind for option in (*own.options, *_common())}
    for name in stages:
        keep.append(gate.function("kvc_stage_fn *", _stage_function(gate, getattr(own, name), kinds), lib.KVC_USAGE))
        setattr(row, name, keep[-1])
    if type(own).check is not HostMethod.check:
        keep.append(gate.function("enum kvc_status(const struct kvc_values *, struct kvc_error *)",
                                  _check_function(gate, own.check, kinds), lib.KVC_USAGE))
        row.check = keep[-1]
    keep.append(row)
    engine._handle.entry.keep.extend(keep)
    engine._call(lib.kvc_engine_register, engine._handle, row)


def _stage_function(gate, function, kinds):
    def call(stage, values, error):
        return _within(gate, function, Stage(gate, values, kinds, stage, error))

    return call


def _check_function(gate, function, kinds):
    def call(values, _error):
        return _within(gate, function, Values(gate, values, kinds))

    return call


def _within(gate, function, seen):
    """Calls a method's function. `Gate.call` raises its exception again; an exception also ends the validity of `seen`.
    """
    gate.stage = seen
    function(seen)
    gate.stage = None
    return lib.KVC_OK
