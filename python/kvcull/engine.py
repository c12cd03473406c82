"""Engines: a backend with its threads, its memory and its methods."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional

from . import _library
from ._handles import Closing, Gate, Handle
from ._library import c_string, c_text, ffi, lib, raise_for, text_of


@dataclass(frozen=True)
class Memory:
    """Bytes by kind, counted at every allocation. `peak_total` is the peak of the sum."""

    now: Dict[str, int]
    peak: Dict[str, int]
    now_total: int
    peak_total: int


@dataclass(frozen=True)
class Backend:
    """A backend of this build.

    usable: whether it can be used on this machine. detail: the chosen instruction set or device. missing: the
    operations that it does not have and that the backend "ref" computes instead.
    """

    name: str
    usable: bool
    detail: str
    missing: str
    devices: List[str]


MEMORY_KINDS = ("weights", "cache", "state", "hidden", "scratch")


def _look(_user) -> int:
    """Called by the library several times a second during a prompt. Python checks for signals whenever it runs a function."""
    return 0


class Engine(Closing):
    """A backend with its threads. Models are opened from an engine; most programs let `Model` open its own.

    backend: "cpu", "ref", "opencl[:N]" or "cuda[:N]". threads: 0 means one per core; the number does not change
    results. math: the arithmetic. "int8", the program's default, multiplies quantized weights by 8-bit activations; if
    the model has quantized weights, attention over entries of four to eight bits multiplies integers, too. "float" uses
    float32 everywhere. "int16" converts float weights and their activations to integers of 15 bits and multiplies
    these. All three give bit-identical results on every backend. "fast" uses a BLAS library.

    Several Python threads may use one engine; their calls wait for each other. Python's global lock is released during
    a call.
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
        """Calls a library function whose last argument is a struct kvc_error *, through `Gate.call`."""
        error = ffi.new("struct kvc_error *")
        raise_for(self._handle.gate.call(function, *arguments, error, record=record), error)

    @property
    def backend(self) -> str:
        """The backend in use, such as "cpu (avx512, 2 threads)"."""
        return text_of(self._handle.gate.call(lib.kvc_engine_backend, self._handle))

    def memory(self) -> Memory:
        """Returns the bytes in use now and at the peak, by kind."""
        memory = ffi.new("struct kvc_memory *")
        self._handle.gate.call(lib.kvc_engine_memory, self._handle, memory)
        return Memory(dict(zip(MEMORY_KINDS, memory.now)), dict(zip(MEMORY_KINDS, memory.peak)),
                      memory.now_total, memory.peak_total)

    def reset_peaks(self) -> None:
        """Sets all peaks to the current values."""
        self._handle.gate.call(lib.kvc_engine_reset_peaks, self._handle)

    def check(self, policy) -> None:
        """Raises UsageError if a policy (a text, or from `kvcull.policy`) is not well-formed."""
        self._call(lib.kvc_policy_check, self._handle, c_text(policy, "policy"))

    def stages(self, policy) -> List[str]:
        """Returns the stages at which a policy's methods act: some of "chunk", "prompt", "propagate", "select",
        "decode"."""
        from .policy import stage_names
        bits = ffi.new("unsigned *")
        self._call(lib.kvc_policy_stages, self._handle, c_text(policy, "policy"), bits)
        return stage_names(bits[0])

    def register(self, method) -> None:
        """Registers a method written in Python: a subclass of `kvcull.HostMethod` or an object of one."""
        from .host import made_known
        made_known(self, method)


def backends() -> List[Backend]:
    """Returns the backends of this build, including those that cannot be used on this machine."""
    found, info, text = [], ffi.new("struct kvc_backend_info *"), ffi.new("char[256]")
    i = 0
    while lib.kvc_backend(i, info):
        devices: List[str] = []
        while lib.kvc_backend_device(i, len(devices), text, 256):
            devices.append(text_of(text))
        found.append(Backend(text_of(info.name), bool(info.usable), text_of(info.detail), text_of(info.missing), devices))
        i += 1
    return found
