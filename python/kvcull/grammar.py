"""Grammars restrict an answer: to a regular expression, a JSON schema or a GBNF grammar."""
from __future__ import annotations

import json
import weakref
from typing import Any, Mapping, Optional, Union

from . import _library
from ._handles import Closing, Gate, Handle
from ._library import ffi, lib, raise_for

#: What `Grammar.check` can return: results of kvc_grammar_check by number.
MATCHES = ("wrong", "begun", "whole")


def schema_text(schema: Union[str, bytes, bool, Mapping[str, Any]]) -> Union[str, bytes]:
    """Returns a JSON schema as text. A text stays as it is."""
    if isinstance(schema, (str, bytes)):
        return schema
    try:
        return json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise _library.of_status(lib.KVC_USAGE, f"schema: cannot be written as JSON: {error}") from None


class Grammar(Closing):
    """A set of texts, given by one of: regex, a regular expression of PCRE2; schema, a JSON schema as a dictionary or as
    its text; gbnf, a grammar in llama.cpp's format.

    Pass it to `Session.generate` or to `Sampler`; one grammar may serve several models, sessions and samplers. Closing
    it also closes the samplers that use it.
    """

    def __init__(self, *, regex: Optional[str] = None, schema: Union[str, Mapping[str, Any], None] = None,
                 gbnf: Optional[str] = None):
        given = {"REGEX": regex, "JSON_SCHEMA": schema if schema is None else schema_text(schema), "GBNF": gbnf}
        given = {kind: text for kind, text in given.items() if text is not None}
        if len(given) != 1:
            raise _library.of_status(lib.KVC_USAGE, "Grammar: one of regex, schema and gbnf must be given")
        for name, text in given.items():
            if not isinstance(text, (str, bytes)):
                raise _library.of_status(lib.KVC_USAGE, f"Grammar: {text!r}: must be a text")
            self._kind, self._text = getattr(lib, "KVC_GRAMMAR_" + name), _library.c_text(text, "grammar")
        self._bound: "weakref.WeakKeyDictionary[Any, Handle]" = weakref.WeakKeyDictionary()
        self._handle = self._open(Handle(Gate(), "kvc_grammar"))

    def _open(self, handle: Handle) -> Handle:
        error = ffi.new("struct kvc_error *")
        raise_for(handle.gate.call(lib.kvc_grammar_open, self._kind, self._text, len(self._text), handle.entry, error),
                  error)
        return handle

    def _of(self, model) -> Handle:
        """Returns a handle that belongs to the model's engine, so that samplers, grammar and model are closed in order.
        """
        _ = self._handle.pointer  # raises an exception if the grammar is closed
        if model not in self._bound:
            self._bound[model] = self._open(Handle(model._handle.gate, "kvc_grammar", model._handle))
        return self._bound[model]

    def check(self, text: Union[str, bytes]) -> str:
        """Compares a text, or bytes that may end within a character, with the grammar.

        Returns "whole" if it is a text of the grammar, "begun" if it is the beginning of one, and "wrong" otherwise.
        """
        raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
        error, match = ffi.new("struct kvc_error *"), ffi.new("enum kvc_grammar_match *")
        raise_for(self._handle.gate.call(lib.kvc_grammar_check, self._handle, raw, len(raw), match, error), error)
        return MATCHES[match[0]]

    def close(self) -> None:
        """Frees the grammar's memory now, and closes the samplers that use it."""
        for handle in [*self._bound.values(), self._handle]:
            handle.close()


__all__ = ["Grammar", "MATCHES", "schema_text"]
