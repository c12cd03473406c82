"""Engines: a backend, its threads, its memory, and the methods it knows."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional

from . import _library
from ._handles import Closing, Gate, Handle
from ._library import ffi, lib, raise_for, text_of


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


class Engine(Closing):
    """A backend with its threads. Models are opened from it; most programs let `Model` open one of its own.

    backend: "cpu", "ref", "opencl[:N]" or "cuda[:N]". threads: 0 is one for each core; their number changes no bit.
    math: the arithmetic of linear layers. "int8" (as the program's default): activations of eight bits where weights
    are quantized, "float" elsewhere; "float": without; both are the same bits on every backend. "fast": a BLAS library.

    Several Python threads may use one engine: their calls wait for each other. Python's own lock is released meanwhile.
    """

    def __init__(self, backend: Optional[str] = None, threads: int = 0, math: str = "int8"):
        options = ffi.new("struct kvc_engine_options *")
        name = ffi.new("char[]", backend.encode()) if backend is not None else ffi.NULL
        options.backend, options.threads = name, threads
        options.math = _library.choice("KVC_MATH_", math, "math")
        made, error = ffi.new("struct kvc_engine **"), ffi.new("struct kvc_error *")
        raise_for(lib.kvc_engine_open(options, made, error), error)
        self._handle = Handle(Gate(), made[0], lib.kvc_engine_close, keep=[])
        self._caught: List[BaseException] = []

    def _call(self, function, *arguments) -> None:
        """A function of the library whose last argument is a struct kvc_error *, alone on this engine. Handles among the
        arguments stand for their pointers, which are looked up when no other thread can close them.

        What a Python function raised that the library called meanwhile is raised here.
        """
        error = ffi.new("struct kvc_error *")
        with self._handle.gate:
            status = function(*(a.pointer if isinstance(a, Handle) else a for a in arguments), error)
            caught = self._caught[:]
            self._caught.clear()
        if caught:
            raise caught[0]
        raise_for(status, error)

    def _guard(self, function, failed=1):
        """A function for the library to call: an exception is kept for _call, and `failed` returned."""

        def guarded(*arguments):
            try:
                return function(*arguments)
            except BaseException as exception:  # pylint: disable=broad-except  # KeyboardInterrupt, too
                self._caught.append(exception)
                return failed

        return guarded

    @property
    def backend(self) -> str:
        """The backend as it is: "cpu (avx512, 2 threads)"."""
        return text_of(lib.kvc_engine_backend(self._handle.pointer))

    def memory(self) -> Memory:
        """Bytes held now and at the peak, by kind."""
        memory = ffi.new("struct kvc_memory *")
        with self._handle.gate:
            lib.kvc_engine_memory(self._handle.pointer, memory)
        return Memory(dict(zip(MEMORY_KINDS, memory.now)), dict(zip(MEMORY_KINDS, memory.peak)),
                      memory.now_total, memory.peak_total)

    def reset_peaks(self) -> None:
        """Lets peaks begin anew at what is held now."""
        with self._handle.gate:
            lib.kvc_engine_reset_peaks(self._handle.pointer)

    def check(self, policy) -> None:
        """UsageError where a policy, as text or made by `kvcull.policy`, is not well-formed."""
        self._call(lib.kvc_policy_check, self._handle, str(policy).encode())

    def stages(self, policy) -> List[str]:
        """The stages at which a policy's methods act, of "chunk", "prompt", "propagate", "select", "decode"."""
        from .policy import stage_names
        bits = ffi.new("unsigned *")
        self._call(lib.kvc_policy_stages, self._handle, str(policy).encode(), bits)
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
