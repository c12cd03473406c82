"""Converts the public headers to declarations for cffi, and extracts the values of their macros.

This file lists no names: it converts everything that the headers declare. A test compares the result with a compiler's
view of the same headers.
"""
import re
from pathlib import Path

#: The public headers, relative to the include folder, in the order in which they include each other.
NAMES = ("kvcull.h", "kvcull/chat.h", "kvcull/grammar.h", "kvcull/policy.h", "kvcull/saved.h", "kvcull/check.h")

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
_CPLUSPLUS = re.compile(r"^#ifdef __cplusplus\n.*?^#endif[^\n]*\n", re.S | re.M)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*\n", re.M)
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)")
_INLINE = re.compile(r"static\s+inline\s[^{;]*\{[^{}]*\}")
_MACRO = re.compile(r"^#define (KVC_\w+)\s+(\S+)[ \t]*$", re.M)


def read(folder):
    """Returns the text of all public headers in a folder, joined."""
    return "\n".join((Path(folder) / name).read_text(encoding="utf-8") for name in NAMES)


def declarations(text):
    """Returns the declarations of types, functions and enumerators, without comments, directives and inline functions.
    Macros that are array lengths are replaced by their numbers."""
    numbers = macros(text)
    for pattern in (_COMMENT, _CPLUSPLUS, _DIRECTIVE, _ATTRIBUTE, _INLINE):
        text = pattern.sub("\n" if pattern is _DIRECTIVE else " ", text)
    text = re.sub(r"\[(KVC_\w+)\]", lambda match: f"[{numbers.get(match[1], match[1])}]", text)
    return re.sub(r"\n\s*\n+", "\n", text).strip() + "\n"


def macros(text):
    """Returns the macros that are integers or texts: {"KVC_VERSION": "0.1.0", ...}."""
    found = {}
    for name, value in _MACRO.findall(_COMMENT.sub(" ", text)):
        if value.startswith('"') and value.endswith('"') and len(value) >= 2:
            found[name] = value[1:-1]
        elif re.fullmatch(r"[0-9]+", value):
            found[name] = int(value)
    return found
