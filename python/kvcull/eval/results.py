"""Results: one JSON object for each answer, appended to a file immediately, and descriptions of how the results were
made.

The members are those of `kvcull eval --out` (docs/reference/tasks.md), and `full_bytes`, the bytes that the method
`full` would hold after the prompt. A line with the member `run` says how the following results were made.
"""
from __future__ import annotations

import fcntl
import json
import os
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from ..errors import InputError, UsageError

#: The members that identify a result.
KEY = ("model", "weights", "arithmetic", "cache_type", "prompt", "data", "task", "length", "seed", "sample", "kv",
       "question", "depth", "turn")
NEEDED: Dict[str, Any] = {"model": str, "task": str, "length": int, "sample": int, "kv": str, "question": str, "score": (int, float),
          "held_bytes": int, "prompt_tokens": int}


def key_of(record: Mapping[str, Any]) -> Tuple[Any, ...]:
    """Returns what identifies a result."""
    return tuple(record.get(name) for name in KEY)


class Results:
    """The results of files and of a run. `records` are in the order in which they were read or made; `runs` tells how
    they were made.
    """

    def __init__(self) -> None:
        self.records: List[Dict[str, Any]] = []
        self.runs: List[Dict[str, Any]] = []
        self._known: Dict[Tuple[Any, ...], Dict[str, Any]] = {}
        self._file: Any = None

    def has(self, record: Mapping[str, Any]) -> bool:
        """Returns whether there is a result with the same key."""
        return key_of(record) in self._known

    def add(self, record: Dict[str, Any]) -> None:
        """Adds a result, and writes it to the file at once."""
        self._known[key_of(record)] = record
        self.records.append(record)
        self._write(record)

    def add_run(self, run: Dict[str, Any]) -> None:
        """Adds a description of how the following results are made."""
        self.runs.append(run)
        self._write({"run": run})

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            self._file.flush()

    def read(self, path: "os.PathLike[str] | str") -> None:
        """Adds the results of a file. An incomplete last line is ignored; equal results count once."""
        try:
            with open(path, "rb") as file:
                raw = file.read()
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        for number, line in enumerate(raw[:raw.rfind(b"\n") + 1].splitlines(), 1):
            self._take(f"{path}: line {number}", line)

    def _take(self, where: str, line: bytes) -> None:
        try:
            record = json.loads(line)
        except ValueError as error:
            raise InputError(f"{where}: not a JSON object: {error}") from None
        if not isinstance(record, dict):
            raise InputError(f"{where}: not an object")
        if isinstance(record.get("run"), dict):
            self.runs.append(record["run"])
            return
        if "trace" in record:  # made by `kvcull eval --kept`; its report shows them
            return
        for name, kind in NEEDED.items():
            if not isinstance(record.get(name), kind):
                raise InputError(f'{where}: "{name}" is missing or of another kind')
        known = self._known.get(key_of(record))
        if known is not None:
            if known.get("answer") != record.get("answer"):
                raise InputError(f"{where}: another answer for the same sample is in the results already")
            return
        self._known[key_of(record)] = record
        self.records.append(record)

    def append_to(self, path: str, resume: bool) -> None:
        """Appends further results to a new file or, with `resume`, to an existing file, whose results are read first.
        Only one process at a time may write to the file."""
        try:
            file = open(path, "r+b" if resume and os.path.exists(path) else "a+b")
        except OSError as error:
            raise InputError(f"{path}: cannot be opened: {error.strerror}") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise UsageError(f"--out {path}: another process writes to it") from None
        size = os.path.getsize(path)
        if size and not resume:
            file.close()
            raise UsageError(f"--out {path}: has results already; --resume continues them")
        if size:
            self.read(path)
            file.seek(0)
            file.truncate(file.read().rfind(b"\n") + 1)  # drops an incomplete last line
            file.seek(0, os.SEEK_END)
        self._file = file

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def merged(paths: Iterable[str]) -> Results:
    """Returns the results of several files."""
    results = Results()
    for path in paths:
        results.read(path)
    if not results.records:
        raise InputError("no results in these files")
    return results


def latest_run(results: Results) -> Optional[Dict[str, Any]]:
    """Returns the description of how the last results were made, or None if the files have none."""
    return results.runs[-1] if results.runs else None


__all__ = ["KEY", "Results", "key_of", "latest_run", "merged"]
