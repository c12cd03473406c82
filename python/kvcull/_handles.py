"""Wraps objects of the library as Python objects. Controls which thread may use them, and the order in which they are
closed.

An engine and everything opened from it may be used by one thread at a time. Python's global lock does not ensure this,
because cffi releases it while the library computes. So every engine has a gate, and each call passes it.

Python may raise KeyboardInterrupt between any two bytecodes, and neither `with` nor `finally` is safe from that.
Therefore no bytecode runs between acquiring the gate's lock and releasing it, except in callbacks from the library.
`Gate.call` and `Gate.close` pass all steps to one C function (`list.extend`, `all`), which runs them one after another.

The code does not rely on finalizers either. `_entries` lists all open objects. A weak reference tells when nothing
refers to an object any more, and the object is then closed. If an interrupt prevents one call of `Gate.drain` from
closing it, the next call does.
"""
import atexit
import functools
import itertools
import operator
import os
import threading
import weakref
from typing import Any, Dict, List, TypeVar

from ._library import ffi, lib, ready
from .errors import UsageError

_run, _first = operator.methodcaller("__call__"), operator.itemgetter(0)
_entries: Dict["Entry", None] = {}  # open objects, in the order of opening
_process = [object()]  # a different object in each process, because a fork copies no threads


def _forked():
    _process[0] = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Gate:
    """Lets one call at a time into an engine, and closes unused objects between calls."""

    def __init__(self):
        self.caught: List[BaseException] = []  # exceptions raised by callbacks of the current call
        self.stage = None  # the kvcull.Stage of the method function that is running
        self._lock = threading.RLock()  # a reentrant lock, because it knows which thread holds it
        self._process = _process[0]
        self._due = False

    @property
    def here(self) -> bool:
        """Whether this process created the gate. False if a parent did, before a fork."""
        return self._process is _process[0]

    @property
    def inside(self) -> bool:
        """Whether this thread is inside a call."""
        return self._lock._is_owned()

    def check(self) -> None:
        """Raises UsageError if this thread must not make a call."""
        if not self.here:
            raise UsageError("it was opened before this process was forked; open another engine in this process")
        if self.inside:
            raise UsageError("a function that the engine calls must not use the engine, its models and its sessions")

    def call(self, function, *arguments, record=None) -> Any:
        """Calls a function of the library with exclusive use of the engine, and returns its result. Among the
        arguments, a handle stands for its pointer, a list of handles for an array of pointers, and an entry for the
        location to which a newly opened pointer is written.

        If a Python callback raises an exception during the call, the exception is raised here. record: an empty list,
        to which the call appends the result of each step. record[2] is then [result], even if an interrupt follows the
        call.
        """
        self.check()
        needed: List[List[bool]] = []
        given = []
        for argument in arguments:
            if isinstance(argument, list):
                needed += [handle.entry.usable for handle in argument]
                argument = ffi.new(argument[0].array, [handle.pointer for handle in argument])
            elif isinstance(argument, (Handle, Within)):
                needed.append(argument.entry.usable)
                argument = argument.pointer
            elif isinstance(argument, Entry):
                needed.append(argument.usable)
                argument = argument.cell
            given.append(argument)
        record = [] if record is None else record
        call = functools.partial(function, *ready(function, given))
        usable = map(all, [map(_first, needed)])  # evaluated while the lock is held
        try:
            record.extend(map(_run, (
                self._lock.acquire,
                self.caught.clear,
                functools.partial(list, map(_run, itertools.compress([call], usable))),
                functools.partial(setattr, self, "stage", None),
                self.caught.copy,
                self._lock.release)))
        except BaseException:
            if self.inside:  # a step failed, which happens only if memory runs out
                self._lock.release()
            raise
        if self._due:
            self.drain()
        if record[4]:
            raise record[4][0]
        if not record[2]:
            raise UsageError("it is closed already")
        return record[2][0]

    def catch(self, _kind, exception, _traceback) -> None:
        """Stores an exception raised by a callback, for `call`. Used by cffi."""
        self.caught.append(exception)

    def function(self, kind: str, function, failed=None):
        """Makes a callback for the library with the given C type. failed: the callback's result if `function` raises an
        exception."""
        return ffi.callback(kind, function, error=failed, onerror=self.catch)

    def drain(self, _reference=None) -> None:
        """Closes unused objects of all engines that are not in a call. A call drains its own engine when it ends."""
        busy: List[Gate] = []
        while not busy:
            self._due = False
            for entry in [entry for entry in reversed(list(_entries)) if entry.over and entry.gate.here]:
                if entry.gate not in busy and not entry.gate.close(entry):
                    busy.append(entry.gate)
            if not self._due:
                break

    def close(self, entry: "Entry") -> bool:
        """Closes the object unless a call is in the engine. Returns True if the object is closed."""
        done: List[bool] = []
        self._due = True  # set before trying the lock, because another call may be releasing it at this moment
        if not self.inside:
            all(map(_run, (  # stops at the first false result
                functools.partial(self._lock.acquire, False),
                functools.partial(list, map(entry.close, map(_first, [entry.cell]))),
                functools.partial(list, map(operator.setitem, [entry.cell, entry.usable], [0, 0], [ffi.NULL, False])),
                functools.partial(list, map(done.append, [True])),
                self._lock.release)))
        if done:
            _entries.pop(entry, None)
        return bool(done)


class Entry:
    """An open object of the library. `cell` points to its pointer, which is NULL before opening and after closing.
    usable[0] is False once it is closed."""

    def __init__(self, handle, gate, kind, parent, keep):
        self.gate, self.parent, self.keep = gate, parent, keep
        self.cell = ffi.new(f"struct {kind} **")
        self.usable, self.given_up = [True], False
        self.close = getattr(lib, f"{kind}_close")
        self._handle = weakref.ref(handle, gate.drain)
        _entries[self] = None

    @property
    def over(self) -> bool:
        """Whether the object must be closed: its handle or its parent was closed, or nothing refers to it."""
        return self.given_up or self._handle() is None or (self.parent is not None and self.parent.over)


class Handle:
    """A pointer of the library that is closed once, after everything opened from it.

    A handle is created before the pointer exists; the opening function receives `entry` and writes the pointer there.
    keep: objects that must live while the library has their addresses. A handle refers to its parent, so that a model
    is never freed before its sessions.
    """

    def __init__(self, gate, kind, parent=None, keep=None):
        self.gate = gate
        self.array = f"struct {kind} *[]"
        self.entry = Entry(self, gate, kind, parent.entry if parent is not None else None, keep)
        self.watching = None  # a callback of the library
        self._parent = parent

    @property
    def pointer(self):
        """The pointer. Raises UsageError if the object is closed."""
        if self.entry.over or not self.entry.cell[0]:
            raise UsageError("it is closed already")
        return self.entry.cell[0]

    def close(self):
        """Closes everything that was opened from the object, then the object itself. Further calls have no effect."""
        self.entry.given_up = True
        self.gate.drain()


class Within:
    """A pointer that the library returns for a handle and that is valid while the handle is open. `function` returns
    it."""

    def __init__(self, handle: Handle, function):
        self.entry, self._handle = handle.entry, handle
        self._pointer = handle.gate.call(function, handle)

    @property
    def pointer(self):
        """The pointer. Raises UsageError if the object is closed."""
        return self._handle.pointer and self._pointer


@atexit.register
def _close_all():
    for entry in list(_entries):
        entry.given_up = True
    for gate in {entry.gate for entry in _entries}:
        gate.drain()


Opened = TypeVar("Opened", bound="Closing")


class Closing:
    """Base class of engines, models, sessions, samplers and replays: `close`, and use in a with statement."""

    _handle: Handle

    def close(self) -> None:
        """Frees the object's memory now. Objects opened from it are closed, too. None of them can be used afterwards.
        """
        self._handle.close()

    def __enter__(self: Opened) -> Opened:
        return self

    def __exit__(self, *_exception: Any) -> None:
        self.close()
