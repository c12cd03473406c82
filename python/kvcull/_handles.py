"""Objects of the library as Python objects: who may use them when, and in which order they are closed.

An engine and everything opened from it belong to one thread at a time. cffi releases Python's lock while the library
computes, so that lock does not help: every engine has a gate, and each call passes it.

Python raises KeyboardInterrupt between two bytecodes, and no `with` or `finally` is safe from that. So no bytecode runs
between the lock's acquisition and its release, but for functions that the library calls: `Gate.call` and `Gate.close`
give all steps to one function of C (`list.extend`, `all`), which takes them one after another.

Nor do finalizers count what is open. `_entries` has all of it, and an object is closed once nothing refers to it, which
a weak reference tells; where an interrupt keeps one call of `Gate.drain` from closing it, the next does.
"""
import atexit
import functools
import itertools
import operator
import os
import threading
import weakref
from typing import Any, Dict, List

from ._library import ffi, lib, ready
from .errors import UsageError

_run, _first = operator.methodcaller("__call__"), operator.itemgetter(0)
_entries: Dict["Entry", None] = {}  # what is open, in the order in which it was opened
_process = [object()]  # another object in each process, because a fork copies no threads


def _forked():
    _process[0] = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class Gate:
    """Lets one call at a time into an engine; closes between calls what nobody uses any more."""

    def __init__(self):
        self.caught: List[BaseException] = []  # by functions that the call under way has called
        self.stage = None  # the kvcull.Stage of the method's function that is under way
        self._lock = threading.RLock()  # it knows its owner
        self._process = _process[0]
        self._due = False

    @property
    def here(self) -> bool:
        """Whether this process made it, and not one that was forked into this one."""
        return self._process is _process[0]

    @property
    def inside(self) -> bool:
        """Whether this thread is in a call."""
        return self._lock._is_owned()

    def check(self) -> None:
        """UsageError where this thread must not call."""
        if not self.here:
            raise UsageError("it was opened before this process was forked; open another engine here")
        if self.inside:
            raise UsageError("a function that the engine calls must not use the engine, its models and its sessions")

    def call(self, function, *arguments, record=None) -> Any:
        """What a function of the library returns, alone in the engine. Handles among the arguments stand for their
        pointers, a list of handles for an array of these, an entry for the place of a pointer that is to be opened.

        What a Python function raised that the library called meanwhile is raised here. record: an empty list, whose
        item 2 becomes [what the function returned] in any case, also where an interrupt follows the call.
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
        usable = map(all, [map(_first, needed)])  # looked at under the lock
        try:
            record.extend(map(_run, (
                self._lock.acquire,
                self.caught.clear,
                functools.partial(list, map(_run, itertools.compress([call], usable))),
                functools.partial(setattr, self, "stage", None),
                self.caught.copy,
                self._lock.release)))
        except BaseException:
            if self.inside:  # a step failed, which none does but for want of memory
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
        """For cffi: keeps what a function raised that the library calls, for `call`."""
        self.caught.append(exception)

    def function(self, kind: str, function, failed=None):
        """A function for the library to call, of this type of C; failed: what it returns where it raises."""
        return ffi.callback(kind, function, error=failed, onerror=self.catch)

    def drain(self, _reference=None) -> None:
        """Closes what nobody uses any more, of any engine that no call is in: such a call drains when it leaves."""
        busy: List[Gate] = []
        while not busy:
            self._due = False
            for entry in [entry for entry in reversed(list(_entries)) if entry.over and entry.gate.here]:
                if entry.gate not in busy and not entry.gate.close(entry):
                    busy.append(entry.gate)
            if not self._due:
                break

    def close(self, entry: "Entry") -> bool:
        """Closes it, unless a call is in the engine. Returns whether it is closed."""
        done: List[bool] = []
        self._due = True  # before the lock is asked for, which a call may just be giving back
        if not self.inside:
            all(map(_run, (  # up to the first that gives nothing
                functools.partial(self._lock.acquire, False),
                functools.partial(list, map(entry.close, map(_first, [entry.cell]))),
                functools.partial(list, map(operator.setitem, [entry.cell, entry.usable], [0, 0], [ffi.NULL, False])),
                functools.partial(list, map(done.append, [True])),
                self._lock.release)))
        if done:
            _entries.pop(entry, None)
        return bool(done)


class Entry:
    """An object of the library that is open: `cell` points to its pointer, which is NULL before and after, and
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
        """Whether it is to be closed: by its handle, with its parent, or because nothing refers to it."""
        return self.given_up or self._handle() is None or (self.parent is not None and self.parent.over)


class Handle:
    """A pointer of the library, closed once, after everything that was opened from it.

    It is made before there is a pointer: whoever opens gives `entry` for the library to write it to. keep: what the
    library has addresses of until it is closed. A handle holds its parent, so that a model cannot go before its sessions.
    """

    def __init__(self, gate, kind, parent=None, keep=None):
        self.gate = gate
        self.array = f"struct {kind} *[]"
        self.entry = Entry(self, gate, kind, parent.entry if parent is not None else None, keep)
        self.watching = None  # a function that the library calls
        self._parent = parent

    @property
    def pointer(self):
        """The pointer. UsageError: the object is closed."""
        if self.entry.over or not self.entry.cell[0]:
            raise UsageError("it is closed already")
        return self.entry.cell[0]

    def close(self):
        """Closes what was opened from it, then it. A second time nothing happens."""
        self.entry.given_up = True
        self.gate.drain()


class Within:
    """A pointer that the library gives for a handle, good for as long as that is open; `function` says which."""

    def __init__(self, handle: Handle, function):
        self.entry, self._handle = handle.entry, handle
        self._pointer = handle.gate.call(function, handle)

    @property
    def pointer(self):
        """The pointer. UsageError: the object is closed."""
        return self._handle.pointer and self._pointer


@atexit.register
def _close_all():
    for entry in list(_entries):
        entry.given_up = True
    for gate in {entry.gate for entry in _entries}:
        gate.drain()


class Closing:
    """What engines, models, sessions, samplers and replays share: `close`, and use in a with statement."""

    _handle: Handle

    def close(self) -> None:
        """Gives its memory back now. What was opened from it is closed, too; neither can be used any more."""
        self._handle.close()

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()
