"""Objects of the library as Python objects: who may use them when, and in which order they are closed.

An engine and everything opened from it belong to one thread at a time. cffi releases Python's lock while the library
computes, so that lock is none of this: every engine has a gate, and each call passes it. What is not referred to any
more is closed at the gate, too, because Python may notice in any thread and at any moment.
"""
import collections
import threading
import weakref

from .errors import UsageError


class Gate:
    """Lets one call at a time into an engine; closes what nobody uses any more between calls."""

    def __init__(self):
        self._lock = threading.Lock()
        self._owner = None
        self._closing = collections.deque()

    def __enter__(self):
        if self._owner == threading.get_ident():
            raise UsageError("a function that the engine calls must not use the engine, its models and its sessions")
        self._lock.acquire()
        self._owner = threading.get_ident()

    def __exit__(self, *_exception):
        self._owner = None
        self._lock.release()
        self.drain()

    def later(self, close, pointer):
        """Closes at the next moment at which no call is in the engine, which may be now."""
        self._closing.append((close, pointer))
        self.drain()

    def drain(self):
        """Closes what waits, unless a call is in the engine: that one drains when it leaves."""
        while self._closing and self._lock.acquire(blocking=False):
            try:
                close, pointer = self._closing.popleft()
                close(pointer)
            except IndexError:
                pass
            finally:
                self._lock.release()


class Handle:
    """A pointer of the library, closed once, after everything that was opened from it.

    The finalizer holds the parent, so that Python cannot let a model go before its sessions. `keep` is what the library
    has addresses of.
    """

    def __init__(self, gate, pointer, close, parent=None, keep=None):
        self.gate = gate
        self.keep = keep
        self._pointer = pointer
        self._children = weakref.WeakSet()
        self._finalizer = weakref.finalize(self, Handle._close, gate, close, pointer, parent, keep)
        if parent is not None:
            parent._children.add(self)

    @staticmethod
    def _close(gate, close, pointer, _parent, _keep):
        gate.later(close, pointer)

    @property
    def pointer(self):
        """The pointer. UsageError: the object is closed."""
        if not self._finalizer.alive:
            raise UsageError("it is closed already")
        return self._pointer

    def close(self):
        """Closes what was opened from it, then it. A second time nothing happens."""
        for child in list(self._children):
            child.close()
        self._finalizer()


class Closing:
    """What engines, models, sessions and replays share: `close`, and use in a with statement."""

    _handle: Handle

    def close(self) -> None:
        """Gives its memory back now. What was opened from it is closed, too; neither can be used any more."""
        self._handle.close()

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()
