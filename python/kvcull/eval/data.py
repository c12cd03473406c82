"""Reads the user's files, checks their records, and fills prompts that have fields.

An error names the file, the line, the field and what would be right.
"""
from __future__ import annotations

import hashlib
import json
import os
import string
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from ..errors import InputError

KINDS = {str: "a text", int: "a number", float: "a number", bool: "true or false", list: "a list", dict: "an object",
         type(None): "null"}


class Row(Dict[str, Any]):
    """A record of a file, and its place. The methods return a field, or raise InputError if the field has another
    type."""

    def __init__(self, values: Mapping[str, Any], where: str, index: int = 0):
        super().__init__(values)
        self.where, self.index = where, index

    def wrong(self, field: str, must: str) -> InputError:
        """Returns the error for a field that must be something else."""
        if field not in self:
            return InputError(f'{self.where}: "{field}" is missing; it must be {must}')
        value = self[field]
        kind = "an empty text" if value == "" else "an empty list" if value == [] else KINDS.get(type(value), "?")
        return InputError(f'{self.where}: "{field}" is {kind}; it must be {must}')

    def text(self, field: str, empty: bool = False) -> str:
        """Returns a field that is a text. empty: the text may be empty."""
        value = self.get(field)
        if not isinstance(value, str) or (not value and not empty):
            raise self.wrong(field, "a text" if empty else "a text with at least one character")
        return value

    def texts(self, field: str, least: int = 1, single: bool = False) -> List[str]:
        """Returns a field that is a list of at least `least` texts, none of them empty. single: a text instead of a
        list is also accepted."""
        value = self.get(field)
        if single and isinstance(value, str) and value:
            return [value]
        if not isinstance(value, list) or len(value) < least or not all(isinstance(one, str) and one for one in value):
            raise self.wrong(field, f"a list of texts, at least {least}")
        return value

    def objects(self, field: str, least: int = 1) -> List["Row"]:
        """Returns a field that is a list of at least `least` objects."""
        value = self.get(field)
        if not isinstance(value, list) or len(value) < least or not all(isinstance(one, dict) for one in value):
            raise self.wrong(field, f"a list of objects, at least {least}")
        return [Row(one, f"{self.where}: {field}[{i}]", self.index) for i, one in enumerate(value)]

    def number(self, field: str, least: int, most: int) -> int:
        """Returns a field that is a whole number from `least` to `most`."""
        value = self.get(field)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.wrong(field, f"a whole number from {least} to {most}")
        return value


def _once(pairs: Sequence[Tuple[str, Any]]) -> Dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("duplicate field")
    return made


def _parse(text: str, where: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except ValueError as error:
        raise InputError(f"{where}: not a JSON object: {error}") from None


class Folder:
    """The folder with a benchmark's files. `read` collects a hash of everything that was read."""

    def __init__(self, path: Union[str, "os.PathLike[str]"]):
        self.path = Path(path)
        self._hash = hashlib.sha256()

    @property
    def hash(self) -> str:
        """A hash of the files read so far."""
        return self._hash.hexdigest()[:16]

    def find(self, *names: str) -> Optional[Path]:
        """Returns the first of these files that exists, or None if none does."""
        return next((self.path / name for name in names if (self.path / name).exists()), None)

    def file(self, *names: str) -> Path:
        """Like `find`, but raises InputError if none exists."""
        found = self.find(*names)
        if found is None:
            raise InputError(f"{self.path}: does not contain {' or '.join(names)}" if self.path.exists() else
                             f"{self.path}: no such folder")
        return found

    def text(self, *names: str, most: int = 1 << 20) -> str:
        """Returns the text of the first of these files. It may have at most `most` bytes."""
        path = self.file(*names)
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        if len(raw) > most:
            raise InputError(f"{path}: has {len(raw)} bytes; it must have at most {most}")
        self._hash.update(raw)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: byte {error.start}: not UTF-8; the file must be a text in UTF-8") from None

    def rows(self, *names: str) -> Iterator[Row]:
        """Returns the records of the first of these files: JSON lines, or one array of objects."""
        path, count = self.file(*names), 0
        try:
            with open(path, "rb") as file:
                while (start := file.read(1)).isspace():
                    pass
                file.seek(0)
                for line, raw in ([(1, file.read())] if start == b"[" else enumerate(file, 1)):
                    self._hash.update(raw)
                    for row in self._objects(path, line, raw):
                        yield Row(row[1], row[0], count)
                        count += 1
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror}") from None
        if count == 0:
            raise InputError(f"{path}: no records")

    @staticmethod
    def _objects(path: Path, line: int, raw: bytes) -> Iterator[Tuple[str, Mapping[str, Any]]]:
        try:
            text = raw.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            line += raw.count(b"\n", 0, error.start)
            raise InputError(f"{path}: line {line}: not UTF-8") from None
        if not text:
            return
        made = _parse(text, f"{path}: line {line}")
        rows = [(f"{path}: record {i + 1}", one) for i, one in enumerate(made)] if isinstance(made, list) \
            else [(f"{path}: line {line}", made)]
        for where, row in rows:
            if not isinstance(row, dict):
                raise InputError(f"{where}: not an object")
            yield where, row


def fill(template: str, split: str, **fields: str) -> Tuple[str, str]:
    """Fills a template like str.format. Returns two parts: up to the end of the field `split`, and the rest.

    {{ and }} are braces. Fields may occur several times; the template is divided at the first `split`.
    """
    parts: List[str] = []
    divided = None
    try:
        for literal, field, spec, conversion in string.Formatter().parse(template):
            parts.append(literal)
            if field is None:
                continue
            if field not in fields or spec or conversion:
                raise InputError(f"the prompt has {{{field}}}, which is not a field; there are {', '.join(fields)}")
            parts.append(fields[field])
            if field == split and divided is None:
                divided = len(parts)
    except ValueError as error:
        raise InputError(f"the prompt is not a template: {error}") from None
    if divided is None:
        raise InputError(f"the prompt must contain {{{split}}}")
    return "".join(parts[:divided]), "".join(parts[divided:])


__all__ = ["Folder", "Row", "fill"]
