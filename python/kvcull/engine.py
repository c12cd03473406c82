"""Engines: a backend, its threads, its memory, and the methods it knows."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional

from . import _library
from ._handles import Closing, Gate, Handle
from ._library import c_string, c_text, ffi, lib, raise_for, text_of


@dataclass(frozen=True)
class Memory:
    """Bytes by kind, counted at every allocation; `peak_total` is the peak of the sum."""

    now: Dict[str, int]
    peak: Dict[str, int]
    now_total: int
    peak_total: int


@dataclass(frozen=True)
class Backend:
    """A backend of this build: whether it can be used here, the path or device chosen, what it leaves to ref."""

    name: str
    usable: bool
    detail: str
    missing: str
    devices: List[str]


MEMORY_KINDS = ("weights", "cache", "state", "hidden", "scratch")


def _look(_user) -> int:
    """What the library calls between parts of a prompt: Python looks for signals whenever it runs a function."""
    return 0


class Engine(Closing):
    """A backend with its threads. Models are opened from it; most programs let `Model` open one of its own.

    backend: "cpu", "ref", "opencl[:N]" or "cuda[:N]". threads: 0 is one for each core; their number changes no bit.
    math: the arithmetic of linear layers. "int8" (as the program's default): activations of eight bits where weights
    are quantized, "float" elsewhere; "float": without; both are the same bits on every backend. "fast": a BLAS library.

    Several Python threads may use one engine: their calls wait for each other. Python's own lock is released meanwhile.
    """

    def __init__(self, backend: Optional[str] = None, threads: int = 0, math: str = "int8"):
        options = ffi.new("struct kvc_engine_options *")
        name = c_string(backend, "backend")
        options.backend, options.threads = name, threads
        options.math = _library.choice("KVC_MATH_", math, "math")
        gate = Gate()
        look = gate.function("kvc_interrupt_fn *", _look, 1)
        self._handle = Handle(gate, "kvc_engine", keep=[look])
        self._call(lib.kvc_engine_open, options, self._handle.entry)
        self._call(lib.kvc_engine_on_interrupt, self._handle, look, ffi.NULL)

    def _call(self, function, *arguments, record=None) -> None:
        """A function of the library whose last argument is a struct kvc_error *, as `Gate.call` has it."""
        error = ffi.new("struct kvc_error *")
        raise_for(self._handle.gate.call(function, *arguments, error, record=record), error)

    @property
    def backend(self) -> str:
        """The backend as it is: "cpu (avx512, 2 threads)"."""
        return text_of(self._handle.gate.call(lib.kvc_engine_backend, self._handle))

    def memory(self) -> Memory:
        """Bytes held now and at the peak, by kind."""
        memory = ffi.new("struct kvc_memory *")
        self._handle.gate.call(lib.kvc_engine_memory, self._handle, memory)
        return Memory(dict(zip(MEMORY_KINDS, memory.now)), dict(zip(MEMORY_KINDS, memory.peak)),
                      memory.now_total, memory.peak_total)

    def reset_peaks(self) -> None:
        """Lets peaks begin anew at what is held now."""
        self._handle.gate.call(lib.kvc_engine_reset_peaks, self._handle)

    def check(self, policy) -> None:
        """UsageError where a policy, as text or made by `kvcull.policy`, is not well-formed."""
        self._call(lib.kvc_policy_check, self._handle, c_text(policy, "policy"))

    def stages(self, policy) -> List[str]:
        """The stages at which a policy's methods act, of "chunk", "prompt", "propagate", "select", "decode"."""
        from .policy import stage_names
        bits = ffi.new("unsigned *")
        self._call(lib.kvc_policy_stages, self._handle, c_text(policy, "policy"), bits)
        return stage_names(bits[0])

    def register(self, method) -> None:
        """Makes a method known that is written in Python: a class or an object of `kvcull.HostMethod`."""
        from .host import made_known
        made_known(self, method)


def backends() -> List[Backend]:
    """The backends of this build, whether they can be used here or not."""
    found, info, text = [], ffi.new("struct kvc_backend_info *"), ffi.new("char[256]")
    i = 0
    while lib.kvc_backend(i, info):
        devices: List[str] = []
        while lib.kvc_backend_device(i, len(devices), text, 256):
            devices.append(text_of(text))
        found.append(Backend(text_of(info.name), bool(info.usable), text_of(info.detail), text_of(info.missing), devices))
        i += 1
    return found
