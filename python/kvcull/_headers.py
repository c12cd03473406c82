"""The public headers as declarations that cffi reads, and the numbers and texts of their macros.

Nothing is listed here: whatever the headers declare is there, and a test compares it with what a compiler makes of
the same headers.
"""
import re
from pathlib import Path

#: The public headers, below the folder that the compiler is told of, in the order in which they include each other.
NAMES = ("kvcull.h", "kvcull/chat.h", "kvcull/policy.h", "kvcull/saved.h", "kvcull/check.h")

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_CPLUSPLUS = re.compile(r"^#ifdef __cplusplus\n.*?^#endif[^\n]*\n", re.S | re.M)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*\n", re.M)
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")
_INLINE = re.compile(r"static\s+inline\s[^{;]*\{[^{}]*\}")
_MACRO = re.compile(r"^#define (KVC_\w+)\s+(\S+)[ \t]*$", re.M)


def read(folder):
    """The text of all public headers in a folder, one after another."""
    return "\n".join((Path(folder) / name).read_text(encoding="utf-8") for name in NAMES)


def declarations(text):
    """What the headers declare: types, functions and enumerators, without comments, directives and inline functions, and
    with the numbers of macros that stand for lengths of arrays."""
    numbers = macros(text)
    for pattern in (_COMMENT, _CPLUSPLUS, _DIRECTIVE, _ATTRIBUTE, _INLINE):
        text = pattern.sub("\n" if pattern is _DIRECTIVE else " ", text)
    text = re.sub(r"\[(KVC_\w+)\]", lambda match: f"[{numbers.get(match[1], match[1])}]", text)
    return re.sub(r"\n\s*\n+", "\n", text).strip() + "\n"


def macros(text):
    """The macros that stand for a whole number or a text: {"KVC_VERSION": "0.1.0", ...}."""
    found = {}
    for name, value in _MACRO.findall(_COMMENT.sub(" ", text)):
        if value.startswith('"') and value.endswith('"') and len(value) >= 2:
            found[name] = value[1:-1]
        elif re.fullmatch(r"[0-9]+", value):
            found[name] = int(value)
    return found
