"""Policies decide what the cache keeps. Each method of the library is a function here, made from the library's tables.

    from kvcull import policy
    policy.snapkv(budget=512) + policy.morphkv(budget=600, window=64)
    help(policy.snapkv)           # what the method does; its options with defaults and ranges
    policy.methods()              # all methods, as data

Hyphens in the names of methods become underscores. An option whose name is a Python keyword gets a trailing underscore
(lambda_). A budget is a number of tokens, or a fraction of the prompt: 0.1 or "10%". A list as a value is joined with
"/".
"""
from __future__ import annotations

import inspect
import keyword
import math
import numbers
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np

from . import _library
from ._library import ffi, lib, text_of

KINDS = ("integer", "number", "budget", "choice", "text")
STAGES = ("chunk", "prompt", "propagate", "select", "decode")


@dataclass(frozen=True)
class Option:
    """An option of a method. default: None if the option is required, "" if it has no default. choices: the values of
    kind "choice"; for kind "text", a word that may replace a file name."""

    name: str
    kind: str
    default: Optional[str] = None
    minimum: float = 0.0
    maximum: float = 0.0
    choices: Tuple[str, ...] = ()
    help: str = ""

    @property
    def takes(self) -> str:
        """The accepted values, in words."""
        if self.kind in ("integer", "number"):
            bounds = f"{self.minimum:.10g}"
            return f"{bounds} or more" if self.maximum >= 2147483647 else f"{bounds} to {self.maximum:.10g}"
        if self.kind == "budget":
            return "tokens, or a share of the prompt as 0.1 or \"10%\""
        return "|".join(self.choices) if self.kind == "choice" else "text"


@dataclass(frozen=True)
class Method:
    """A method with its texts and its options. `common`: the options that every method accepts."""

    name: str
    summary: str
    paper: str
    idea: str
    formula: str
    memory: str
    traffic: str
    differences: str
    second_turn: str
    stages: Tuple[str, ...]
    options: Tuple[Option, ...]
    common: Tuple[Option, ...] = field(repr=False)


class Policy:
    """One method with its options, or several joined with +. Its text is the value of the program's --kv."""

    def __init__(self, spec: str):
        self.spec = spec

    def __str__(self):
        return self.spec

    def __repr__(self):
        return f"Policy({self.spec!r})"

    def __eq__(self, other):
        return isinstance(other, Policy) and other.spec == self.spec

    def __hash__(self):
        return hash(self.spec)

    def __add__(self, other):
        if not isinstance(other, (Policy, str)):
            return NotImplemented
        return Policy(f"{self}+{other}")


def stage_names(bits: int) -> List[str]:
    """Returns the names of stages given as bits."""
    return [name for i, name in enumerate(STAGES) if bits & (1 << i)]


def option_rows(table) -> Tuple[Option, ...]:
    """Converts a table of the library to options."""
    found: List[Option] = []
    while table and table[len(found)].name:
        row = table[len(found)]
        found.append(Option(text_of(row.name), KINDS[row.kind], text_of(row.default_value) if row.default_value else None,
                            row.minimum, row.maximum, tuple(filter(None, text_of(row.choices).split("|"))),
                            text_of(row.help)))
    return tuple(found)


_TEXTS = ("name", "summary", "paper", "idea", "formula", "memory", "traffic", "differences", "second_turn")
_known: Dict[str, Method] = {}
_functions: Dict[str, Callable[..., Policy]] = {}


def methods() -> Dict[str, Method]:
    """Returns every built-in method by its name, in the program's order."""
    if not _known:
        from .engine import Engine
        found, common = {}, option_rows(lib.kvc_common_options())
        engine = Engine("ref", threads=1)  # this engine is used only here, so no gate is needed
        row = lib.kvc_policy(engine._handle.pointer, 0)
        while row:
            texts = {text: text_of(getattr(row, text)) for text in _TEXTS}
            found[texts["name"]] = Method(**texts, stages=tuple(stage_names(row.stages)), options=option_rows(row.options),
                                          common=common if row.stages else ())
            row = lib.kvc_policy(engine._handle.pointer, len(found))
        engine.close()
        _known.update(found)
    return dict(_known)


def _value(option: Option, value: Any) -> str:
    """Returns a value as written in a policy string."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return "/".join(_value(option, one) for one in value)
    if isinstance(value, bool):
        raise _library.of_status(lib.KVC_USAGE, f"{option.name}={value}: takes {option.takes}")
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        number = float(value)
        if option.kind == "budget":
            if not 0 < number <= 1:
                raise _library.of_status(lib.KVC_USAGE, f"{option.name}={value}: takes {option.takes}")
            return f"{number * 100:.12g}%"
        if not math.isfinite(number):
            raise _library.of_status(lib.KVC_USAGE, f"{option.name}={value}: takes {option.takes}")
        return repr(number)
    text = str(value)
    if '"' in text or "\0" in text:
        raise _library.of_status(lib.KVC_USAGE, f"{option.name}={text!r}: a value has no double quotes")
    return f'"{text}"' if any(character in text for character in ",+") else text


def keyword_of(option: Option) -> str:
    """Returns the name of an option's keyword argument."""
    return option.name + "_" if keyword.iskeyword(option.name) else option.name


def spec_of(method: Method, given: Dict[str, Any]) -> str:
    """Returns the policy string of a method with options. Options that are None are left out."""
    known = {keyword_of(option): option for option in method.options + method.common}
    for name in given:
        if name not in known:
            raise TypeError(f"{method.name}: no option {name!r}; there are {', '.join(known) or 'none'}")
    for option in method.options:
        if option.default is None and given.get(keyword_of(option)) is None:
            raise TypeError(f"{method.name}: {option.name} must be given: {option.help}")
    parts = [f"{known[name].name}={_value(known[name], value)}" for name, value in given.items() if value is not None]
    return method.name + (":" + ",".join(parts) if parts else "")


def _document(method: Method) -> str:
    lines = [f"{method.summary}.", "", method.idea, "", f"    {method.formula}", "",
             f"Stages: {', '.join(method.stages) or 'none'}."]
    for title, options in (("Options:", method.options), ("Options that every method takes:", method.common)):
        if options:
            lines += ["", title]
            lines += [f"    {option.name}: {option.help}. Takes {option.takes}"
                      + ("; must be given." if option.default is None
                         else f"; {option.default}." if option.default else ".") for option in options]
    for title, text in (("Memory", method.memory), ("Traffic", method.traffic), ("A second turn", method.second_turn),
                        ("Differences from the paper", method.differences), ("Paper", method.paper)):
        if text:
            lines += ["", f"{title}: {text}"]
    return "\n".join(lines) + "\n"


def function_of(method: Method) -> Callable[..., Policy]:
    """Returns a function whose keyword arguments are the method's options."""

    def make(**options) -> Policy:
        return Policy(spec_of(method, options))

    make.__name__ = make.__qualname__ = method.name.replace("-", "_")
    make.__module__ = __name__
    make.__doc__ = _document(method)
    parameter = inspect.Parameter
    make.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter(keyword_of(option), parameter.KEYWORD_ONLY,
                   default=parameter.empty if option.default is None else option.default or None)
         for option in method.options + method.common], return_annotation="Policy")
    return make


def __getattr__(name: str) -> Callable[..., Policy]:
    if name.startswith("_"):
        raise AttributeError(name)
    if name not in _functions:
        method = next((known for known in methods().values() if known.name.replace("-", "_") == name), None)
        if method is None:
            raise AttributeError(f"no method {name!r}; there are {', '.join(methods())}")
        _functions[name] = function_of(method)
    return _functions[name]


def __dir__() -> List[str]:
    return sorted([*globals(), *(name.replace("-", "_") for name in methods())])
