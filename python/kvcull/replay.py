"""Replays: run a policy on given queries, keys and values, without a model. `compress` does this for the tensors of one
layer or several.
"""
from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _library
from ._handles import Closing, Handle, Within
from ._library import ffi, lib
from .engine import Engine
from .policy import Policy
from .session import Stats, position_list, session_options, stats_of

if TYPE_CHECKING:
    import torch


@functools.lru_cache(maxsize=None)
def _engine() -> Engine:
    """Returns the process-wide engine on the CPU, used by replays without an engine of their own."""
    return Engine(math="float")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_engine.cache_clear)


def _rows(array, heads: int, head_size: int, what: str) -> np.ndarray:
    """Returns rows as float32 [rows, heads, d], C-contiguous. Copies only if needed."""
    made = np.ascontiguousarray(array, np.float32)
    if made.ndim != 3 or made.shape[1:] != (heads, head_size):
        raise _library.of_status(lib.KVC_USAGE, f"{what} {list(made.shape)}: must be [rows, {heads}, {head_size}]")
    return made


def _floats(array):
    return ffi.from_buffer("float[]", array)


class Replay(Closing):
    """A session whose rows the caller supplies: first a prompt, layer by layer, then decode steps, layer by layer.

    layers, heads, kv_heads, head_size: L, H, H_kv, d. policy, cache_type, chunk, seed, memory_limit, expected and
    record_reads: as in `kvcull.Session`, except that entries are f32 by default. windows [L]: sliding windows, 0: none.
    cap: scores become cap * tanh(score / cap); 0: no cap. sinks [L, H]: attention sinks. All rows are float32; keys and
    queries are after RoPE.
    """

    def __init__(self, layers: int, heads: int, kv_heads: int, head_size: int, policy=None, *,
                 windows: Optional[Sequence[int]] = None, cap: float = 0, sinks: Any = None, engine: Optional[Engine] = None, cache_type: str = "f32",
                 chunk: int = 0, seed: int = 0, memory_limit: int = 0, expected: int = 0, record_reads: bool = False):
        self.layers, self.heads, self.kv_heads, self.head_size = layers, heads, kv_heads, head_size
        self.engine = engine if engine is not None else _engine()
        self._kept: List[Any] = []  # arrays that the library may read until the prompt's last layer
        geometry = ffi.new("struct kvc_geometry *", [layers, heads, kv_heads, head_size])
        options, _text = session_options(policy, cache_type, chunk, 0, seed, memory_limit, expected, record_reads)
        self._handle = Handle(self.engine._handle.gate, "kvc_replay", self.engine._handle, self._kept)
        self.engine._call(lib.kvc_replay_open, self.engine._handle, geometry, options, self._handle.entry)
        if windows is not None:
            if len(windows) != layers:
                raise _library.of_status(lib.KVC_USAGE, f"windows: {len(windows)} given: must be {layers}")
            self.engine._call(lib.kvc_replay_windows, self._handle, ffi.new("uint32_t[]", list(windows)))
        if cap or sinks is not None:
            given = ffi.NULL
            if sinks is not None:
                array = np.ascontiguousarray(sinks, np.float32)
                if array.shape != (layers, heads):
                    raise _library.of_status(lib.KVC_USAGE, f"sinks {list(array.shape)}: must be [{layers}, {heads}]")
                given = _floats(array)
            self.engine._call(lib.kvc_replay_scores, self._handle, cap, given)
        self._session = Within(self._handle, lib.kvc_replay_session)

    def _layer(self, layer: int) -> int:
        if not 0 <= layer < self.layers:
            raise _library.of_status(lib.KVC_USAGE, f"layer {layer}: must be from 0 to {self.layers - 1}")
        return layer

    def on_chunk(self, function: Optional[Callable[[int], object]]) -> None:
        """Calls function(chunk) when a chunk has passed all layers, if a method reads the prompt in chunks. None: stops
        calling."""
        made = ffi.NULL
        if function is not None:
            def call(_user, chunk):
                function(chunk)
                return 0
            made = self._handle.gate.function("kvc_chunk_fn *", call, 1)
        self._handle.watching = self._handle.watching, made  # keeps both functions until the library has switched
        self._handle.gate.call(lib.kvc_replay_on_chunk, self._handle, made, ffi.NULL)
        self._handle.watching = made

    def prompt(self, layer: int, q, k, v) -> np.ndarray:
        """Processes one layer of the prompt: q [rows, H, d], k and v [rows, H_kv, d]. Returns the attention [rows, H,
        d].

        Call it once for each layer, ascending. If a method reads the prompt in chunks, the results of all layers are
        set by the call for the last layer.
        """
        arrays = [_rows(q, self.heads, self.head_size, "q"), _rows(k, self.kv_heads, self.head_size, "k"),
                  _rows(v, self.kv_heads, self.head_size, "v")]
        rows = len(arrays[0])
        if len(arrays[1]) != rows or len(arrays[2]) != rows:
            raise _library.of_status(lib.KVC_USAGE, f"q, k, v: {rows}, {len(arrays[1])}, {len(arrays[2])} rows; "
                                                    "must be equally many")
        arrays.append(np.empty((rows, self.heads, self.head_size), np.float32))
        self._kept.append(arrays)
        self.engine._call(lib.kvc_replay_prompt, self._handle, self._layer(layer), *map(_floats, arrays[:3]), rows,
                          _floats(arrays[3]))
        if layer == self.layers - 1:
            self._kept.clear()
        return arrays[3]

    def pseudo(self, layer: int, q, k) -> None:
        """Adds the pseudo rows of dapq, kvzip and kvcompose. Call it before the layer's prompt: q [rows, H, d], k
        [rows, H_kv, d]."""
        arrays = [_rows(q, self.heads, self.head_size, "pseudo q"), _rows(k, self.kv_heads, self.head_size, "pseudo k")]
        if len(arrays[0]) != len(arrays[1]):
            raise _library.of_status(lib.KVC_USAGE, f"pseudo: {len(arrays[0])} and {len(arrays[1])} rows; must be "
                                                    "equally many")
        self._kept.append(arrays)
        self.engine._call(lib.kvc_replay_pseudo, self._handle, self._layer(layer), *map(_floats, arrays),
                          len(arrays[0]))

    def probe(self, layer: int, chunk: int, q) -> None:
        """Adds the probe of the method `take` for one chunk, except the last. Call it before the layer's prompt: q
        [rows, H, d]."""
        array = _rows(q, self.heads, self.head_size, "probe q")
        self._kept.append(array)
        self.engine._call(lib.kvc_replay_probe, self._handle, self._layer(layer), chunk, _floats(array), len(array))

    def step(self, layer: int, q, k, v) -> np.ndarray:
        """Processes one layer of a decode step: q [H, d], k and v [H_kv, d]. Call it for all layers, ascending, before
        the next step.

        Returns the attention [H, d].
        """
        arrays = [_rows(np.asarray(array)[None], heads, self.head_size, what)
                  for array, heads, what in ((q, self.heads, "q"), (k, self.kv_heads, "k"), (v, self.kv_heads, "v"))]
        out = np.empty((self.heads, self.head_size), np.float32)
        self.engine._call(lib.kvc_replay_step, self._handle, self._layer(layer), *map(_floats, arrays), _floats(out))
        return out

    def lists(self, layer: int) -> int:
        """Returns the number of KV lists of a layer: one per KV head, or one per query head if a method has per=head.
        """
        return self._handle.gate.call(lib.kvc_session_heads, self._session, self._layer(layer))

    def positions(self, layer: int, head: int) -> np.ndarray:
        """Returns the positions that one list holds, int32 [count], ascending."""
        return position_list(self.engine, lib.kvc_session_positions, self._session, self._layer(layer), head)

    def reads(self, layer: int, head: int) -> np.ndarray:
        """Returns the positions of one list that the last step read. Requires record_reads."""
        return position_list(self.engine, lib.kvc_session_reads, self._session, self._layer(layer), head)

    def kept(self) -> List[List[np.ndarray]]:
        """Returns the positions held now: [layer][list] of int32 [count]."""
        return [[self.positions(layer, head) for head in range(self.lists(layer))] for layer in range(self.layers)]

    def stats(self) -> Stats:
        """Returns the current counters."""
        return stats_of(self._handle.gate, self._session)


class Step(NamedTuple):
    """The contents of a replay after its prompt ("prompt"), a chunk ("chunk") or the decode step of a row (its number).

    kept, read: [layer][list] of int32 [count]. read: only for decode steps of methods that select what to read.
    """

    at: Union[str, int]
    kept: List[List[np.ndarray]]
    read: Optional[List[List[np.ndarray]]] = None


def replay(q, k, v, policy, prompt: int = 0, *, engine: Optional[Engine] = None, seed: int = 0,
           **options) -> List[Step]:
    """Runs a policy on arrays of all layers, q [L, T, H, d], k and v [L, T, H_kv, d]. Equivalent to `kvcull replay`.

    The first `prompt` rows are the prompt, and each later row is a decode step. If `prompt` is 0, all rows are the
    prompt.
    """
    q, k, v = (np.ascontiguousarray(array, np.float32) for array in (q, k, v))
    if q.ndim != 4 or k.ndim != 4 or k.shape != v.shape or q.shape[:2] != k.shape[:2] or q.shape[3] != k.shape[3]:
        raise _library.of_status(lib.KVC_USAGE, f"q {list(q.shape)}, k {list(k.shape)}, v {list(v.shape)}: must be "
                                                "[L, T, H, d] and twice [L, T, H_kv, d]")
    layers, total, heads, head_size = q.shape
    prompt = prompt or total
    if not 0 < prompt <= total:
        raise _library.of_status(lib.KVC_USAGE, f"prompt {prompt}: must be from 1 to {total}")
    engine = engine if engine is not None else _engine()
    selects = "select" in engine.stages(policy)
    steps: List[Step] = []
    with Replay(layers, heads, k.shape[2], head_size, policy, engine=engine, seed=seed, expected=total - prompt,
                record_reads=selects, **options) as run:
        for layer in range(layers):
            run.prompt(layer, q[layer, :prompt], k[layer, :prompt], v[layer, :prompt])
        steps.append(Step("prompt", run.kept()))
        for row in range(prompt, total):
            for layer in range(layers):
                run.step(layer, q[layer, row], k[layer, row], v[layer, row])
            read = [[run.reads(layer, head) for head in range(run.lists(layer))]
                    for layer in range(layers)] if selects else None
            steps.append(Step(row, run.kept(), read))
    return steps


# ---- layers of models of other libraries ----


def _numpy(tensor, what: str) -> np.ndarray:
    """Returns a tensor [batch, heads, n, d] of numpy or torch as float32 on the host."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().float().cpu().numpy()
    array = np.asarray(tensor, np.float32)
    if array.ndim != 4:
        raise _library.of_status(lib.KVC_USAGE, f"{what} {list(array.shape)}: must be [batch, heads, n, d]")
    return array


def _by_rows(array: np.ndarray) -> np.ndarray:
    """Converts [heads, n, d] to the library's [n, heads, d]."""
    return np.ascontiguousarray(array.transpose(1, 0, 2))


class Kept(List[List[np.ndarray]]):
    """The positions kept in one layer: [batch][KV head] of int32 [count], ascending (with per=head: [query head])."""

    def mask(self, n: int) -> np.ndarray:
        """Returns whether each entry is kept: bool [batch, heads, n]."""
        made = np.zeros((len(self), len(self[0]) if self else 0, n), bool)
        for b, heads in enumerate(self):
            for h, positions in enumerate(heads):
                made[b, h, positions] = True
        return made

    def take(self, tensor):
        """Returns the kept part [batch, heads, count, d] of a numpy or torch tensor [batch, heads, n, d]. All heads
        must keep equally many entries."""
        counts = {len(positions) for heads in self for positions in heads}
        if len(counts) != 1:
            raise _library.of_status(lib.KVC_USAGE, f"take: heads keep from {min(counts)} to {max(counts)} entries; "
                                                    "they must keep equally many")
        index = np.array(self, np.int64)[..., None]
        if hasattr(tensor, "detach"):
            import torch  # torch is installed, because the tensor is from torch
            places = torch.from_numpy(index).to(tensor.device)
            return tensor.gather(2, places.expand(*places.shape[:3], tensor.shape[3]))
        return np.take_along_axis(np.asarray(tensor), index, 2)


#: A tensor of numpy or torch, or those of several layers.
Tensors = Union[np.ndarray, "torch.Tensor", Sequence[Union[np.ndarray, "torch.Tensor"]]]

#: How many of a prompt's last queries a method uses; a name is the option that gives the number. Methods that are not
#: here use all. A scorer other than snapkv uses all, too.
QUERIES: Dict[str, Union[int, str]] = {
    "full": 0, "window": 0, "streaming": 0, "random": 0, "knorm": 0, "keydiff": 0, "qfilter": 0, "dms": 0, "block": 0,
    "lagkv": 0, "snapkv-decode": 0, "rkv": 0, "leverage": 0, "cur": 0, "quest": 0, "sparq": 0, "hsa": 0, "topk": 0,
    "rocketkv-mt": 0, "tova": 1, "scissorhands": "history",
    "snapkv": "window", "pyramidkv": "window", "adakv": "window", "cake": "window", "chunkkv": "window",
    "criticalkv": "window", "morphkv": "window", "rocketkv": "window",
    "finch": "window", "simlayerkv": "window", "think": "window",
}


def queries_read(policy) -> Optional[int]:
    """Returns how many of a prompt's last queries a policy uses: 0 for none, None for all."""
    from .policy import methods
    most = 0
    for part in str(policy).split("+"):
        name, _colon, text = part.partition(":")
        given = dict(option.partition("=")[::2] for option in text.split(",") if option)
        read = QUERIES.get(name)
        if read is None or (read != 0 and given.get("scorer", "snapkv") != "snapkv"):
            return None
        if isinstance(read, str):
            default = next(option.default for option in methods()[name].options if option.name == read)
            number = given.get(read, default) or ""
            if not number.isdigit():
                return None
            read = int(number)
        most = max(most, read)
    return most


def _all_queries(queries, policy, keys: Sequence[np.ndarray]) -> List[np.ndarray]:
    """Returns queries of all rows. The caller may leave out those that the policy does not use."""
    read = queries_read(policy)
    if queries is None:
        if read != 0:
            raise _library.of_status(lib.KVC_USAGE, f"queries: {policy} looks at {'all' if read is None else f'the last {read}'}"
                                                    "; they must be given")
        return [np.zeros_like(tensor) for tensor in keys]
    made = []
    for tensor, key in zip(queries, keys):
        rows, n = tensor.shape[2], key.shape[2]
        if rows < n and (read is None or rows < min(read, n)):
            raise _library.of_status(lib.KVC_USAGE, f"queries {list(tensor.shape)}: {policy} looks at "
                                                    f"{f'all {n}' if read is None else f'the last {read}'}")
        front = np.zeros((*tensor.shape[:2], max(n - rows, 0), tensor.shape[3]), np.float32)
        made.append(np.concatenate([front, tensor], axis=2) if rows < n else tensor)
    return made


def compress(keys: Tensors, values: Tensors, queries: Optional[Tensors], policy: Union[str, Policy], *,
             pseudo: Optional[Sequence[Any]] = None, probes: Optional[Sequence[Any]] = None,
             engine: Optional[Engine] = None, **options: Any) -> Any:
    """Returns what a policy keeps of a layer of a transformers model: a `Kept`, the positions [batch][KV head].

    keys, values [batch, H_kv, n, d] and queries [batch, H, n, d]: tensors of a prompt after RoPE, of numpy or torch, of
    any type. queries may be only the last ones, as many as the policy uses (snapkv: its window, by default 32), or None
    if it uses none (knorm). For methods that use several layers, pass lists of such tensors, or arrays with the layers
    in front; the result is then a list, too. policy: a text, or from `kvcull.policy`. pseudo: (queries, keys) added by
    dapq, kvzip and kvcompose, [batch, H or H_kv, m, d]. probes: for the method take, one tensor [batch, H, p, d] for each chunk
    except the last. For several layers, pseudo and probes are lists. options: see `Replay`. Each sample of the batch is
    compressed separately.
    """
    several = isinstance(keys, (list, tuple)) or getattr(keys, "ndim", 4) == 5

    def listed(tensors, what):
        return [_numpy(tensor, what) for tensor in (tensors if several else [tensors])]

    k, v = listed(keys, "keys"), listed(values, "values")
    q = _all_queries(None if queries is None else listed(queries, "queries"), policy, k)
    if not k or not len(k) == len(v) == len(q):
        raise _library.of_status(lib.KVC_USAGE, f"keys, values, queries of {len(k)}, {len(v)}, {len(q)} layers")
    batch, kv_heads, n, head_size = k[0].shape
    heads = q[0].shape[1]
    for tensors, count, what in ((k, kv_heads, "keys"), (v, kv_heads, "values"), (q, heads, "queries")):
        for tensor in tensors:
            if tensor.shape != (batch, count, n, head_size):
                raise _library.of_status(lib.KVC_USAGE, f"{what} {list(tensor.shape)}: must be "
                                                        f"{[batch, count, n, head_size]}")
    added = [[_numpy(tensor, "pseudo") for tensor in pair] for pair in (pseudo if several else [pseudo])] \
        if pseudo is not None else []
    probing = [[_numpy(tensor, "probes") for tensor in some] for some in (probes if several else [probes])] \
        if probes is not None else []
    results = [Kept() for _layer in k]
    for b in range(batch):
        with Replay(len(k), heads, kv_heads, head_size, policy, engine=engine, **options) as run:
            for layer, (more_q, more_k) in enumerate(added):
                run.pseudo(layer, _by_rows(more_q[b]), _by_rows(more_k[b]))
            for layer, chunks in enumerate(probing):
                for chunk, tensor in enumerate(chunks):
                    run.probe(layer, chunk, _by_rows(tensor[b]))
            for layer in range(len(k)):
                run.prompt(layer, _by_rows(q[layer][b]), _by_rows(k[layer][b]), _by_rows(v[layer][b]))
            for result, held in zip(results, run.kept()):
                result.append(held)
    return results if several else results[0]


__all__ = ["Kept", "Replay", "Step", "compress", "replay"]
