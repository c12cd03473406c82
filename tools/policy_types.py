#!/usr/bin/env python3
"""Makes python/kvcull/policy.pyi, from which type checkers know every method's options, from the library's tables.

    PYTHONPATH=python python3 tools/policy_types.py >python/kvcull/policy.pyi

python/tests/test_types.py fails if the file differs from what this prints.
"""
from kvcull.policy import Option, keyword_of, methods

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


def type_of(option: Option) -> str:
    """Returns the type of an option's values."""
    if option.kind == "choice":
        return f"Literal[{', '.join(repr(one) for one in option.choices)}]"
    if option.kind == "budget":
        return "Union[int, float, str]"
    if option.kind == "text":
        return "Numbers"
    plain = "int" if option.kind == "integer" else "float"
    return f"Union[{plain}, Sequence[{plain}]]" if option.default and "/" in option.default else plain


def main() -> None:
    """Prints the file."""
    print(HEAD)
    for method in methods().values():
        lines = [f"def {method.name.replace('-', '_')}("]
        options = method.options + method.common
        if options:
            lines.append("    *,")
        for option in options:
            required = option.default is None
            kind = type_of(option) if required else f"Optional[{type_of(option)}]"
            lines.append(f"    {keyword_of(option)}: {kind}{'' if required else ' = ...'},")
        print("\n".join(lines) + "\n) -> Policy: ...")


if __name__ == "__main__":
    main()
