#!/usr/bin/env python3
"""Makes python/kvcull/policy.pyi from the program's tables. Type checkers read every method's options from that file.

    kvcull info methods --json | python3 tools/policy_types.py >python/kvcull/policy.pyi

`make pages` does this. Like the methods' pages, the file is tracked: editors read it in a checkout, and when a package
for another kind of machine is built, the program cannot run to make it. python/tests/test_types.py fails if the file is
old.
"""
import json
import keyword
import sys

HEAD = '''"""Types of the methods' options. Made by tools/policy_types.py from the library's tables; do not edit."""
from typing import Any, Callable, Dict, List, Literal, Optional, Sequence, Tuple, Union

import numpy as np

KINDS: Tuple[str, ...]
STAGES: Tuple[str, ...]

Numbers = Union[int, str, Sequence[int], "np.ndarray[Any, Any]"]

class Option:
    name: str
    kind: str
    default: Optional[str]
    minimum: float
    maximum: float
    choices: Tuple[str, ...]
    help: str
    def __init__(self, name: str, kind: str, default: Optional[str] = ..., minimum: float = ..., maximum: float = ...,
                 choices: Tuple[str, ...] = ..., help: str = ...) -> None: ...
    @property
    def takes(self) -> str: ...

class Method:
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
    common: Tuple[Option, ...]

class Policy:
    spec: str
    def __init__(self, spec: str) -> None: ...
    def __add__(self, other: Union["Policy", str]) -> "Policy": ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...

def stage_names(bits: int) -> List[str]: ...
def option_rows(table: Any) -> Tuple[Option, ...]: ...
def methods() -> Dict[str, Method]: ...
def keyword_of(option: Option) -> str: ...
def spec_of(method: Method, given: Dict[str, Any]) -> str: ...
def function_of(method: Method) -> Callable[..., Policy]: ...
'''


def type_of(option: dict) -> str:
    """Returns the type of an option's values."""
    kind = option["kind"]
    if kind == "choice":
        return f"Literal[{', '.join(repr(one) for one in option['choices'].split('|'))}]"
    if kind == "budget":
        one = "Union[int, float, str]"
        return f"Union[int, float, str, Sequence[{one}]]" if option["name"] == "budget" else one
    if kind == "text":
        return "Numbers"
    plain = "int" if kind == "integer" else "float"
    return f"Union[{plain}, Sequence[{plain}]]" if "/" in (option["default"] or "") else plain


def main() -> None:
    """Prints the file."""
    tables = json.load(sys.stdin)
    print(HEAD)
    for method in tables["methods"]:
        lines = [f"def {method['name'].replace('-', '_')}("]
        options = method["options"] + (tables["common_options"] if method["stages"] != "none" else [])
        if options:
            lines.append("    *,")
        for option in options:
            name, required = option["name"], option["default"] is None
            kind = type_of(option) if required else f"Optional[{type_of(option)}]"
            lines.append(f"    {name}{'_' if keyword.iskeyword(name) else ''}: {kind}{'' if required else ' = ...'},")
        print("\n".join(lines) + "\n) -> Policy: ...")


if __name__ == "__main__":
    main()
