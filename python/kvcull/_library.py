"""The loaded library: `ffi` and `lib` (cffi in ABI mode), the headers' macros, and helpers for texts and errors.

An installed package contains `_interface.py`, which setup.py generates from the headers of the library that it found.
The source tree has no such file; there the headers are read when the package is imported.
"""
import os
from typing import Any, List

import cffi
import numpy as np

from . import _find, _headers
from .errors import KvcullError, of_status

ffi = cffi.FFI()


def _interface():
    """Returns (the declarations, the macros, files to try as the library)."""
    try:
        from . import _interface as made
    except ImportError:
        made = None
    if made is None:
        found = _find.find()
        if found is None:
            raise ImportError("libkvcull is not found; set KVCULL_LIBRARY to its file, or build it with ./dev build")
        text = _headers.read(found.include)
        return _headers.declarations(text), _headers.macros(text), [str(found.library)]
    beside = os.path.join(os.path.dirname(__file__), made.LIBRARY)  # an absolute LIBRARY is left unchanged
    if os.environ.get("KVCULL_LIBRARY"):
        return made.DECLARATIONS, made.MACROS, [os.environ["KVCULL_LIBRARY"]]
    return made.DECLARATIONS, made.MACROS, [beside, *_find.FILES[::-1]]


def _load(files):
    errors = []
    for file in files:
        try:
            return ffi.dlopen(file)
        except OSError as error:
            errors.append(str(error))
    raise ImportError(f"libkvcull cannot be loaded ({'; '.join(errors)}); set KVCULL_LIBRARY to its file")


_declared, macros, _files = _interface()
ffi.cdef(_declared + "void free(void *);")  # the library allocates some texts with malloc
lib = _load(_files)

#: The version of the library, and the version of its arithmetic. If two libraries have the same arithmetic version,
#: their results are bit-identical.
VERSION = macros["KVC_VERSION"]
ARITHMETIC_VERSION = macros["KVC_ARITHMETIC_VERSION"]

if ffi.string(lib.kvc_version()).decode() != VERSION:
    raise ImportError(f"libkvcull is of version {ffi.string(lib.kvc_version()).decode()}, this package of {VERSION}; "
                      "install the package again, or set KVCULL_LIBRARY to the other library's file")


def text_of(pointer) -> str:
    """Returns a C string as str; "" for NULL."""
    return ffi.string(pointer).decode("utf-8", "replace") if pointer else ""


def c_text(text, what: str) -> bytes:
    """Encodes a text for the library. Raises UsageError if it contains a NUL character, because C would end the text
    there."""
    raw = text if isinstance(text, bytes) else str(text).encode("utf-8", "surrogateescape")
    if b"\0" in raw:
        raise of_status(lib.KVC_USAGE, f"{what} {raw[:60].decode('utf-8', 'replace')!r}: must have no NUL character")
    return raw


def c_string(text, what: str):
    """Returns the encoded text as a NUL-terminated char array; NULL for None."""
    return ffi.NULL if text is None else ffi.new("char[]", c_text(text, what))


def path_bytes(path) -> bytes:
    """Encodes a path for the library."""
    return c_text(os.fsencode(path), "path")


def ready(function, arguments) -> List[Any]:
    """Converts the arguments of a call to pointers and to numbers in the range of their types, so that the call itself
    raises nothing."""
    return [argument if isinstance(argument, (ffi.CData, bytes)) else ffi.new(ffi.getctype(kind, "*"), argument)[0]
            for kind, argument in zip(ffi.typeof(function).args, arguments)]


def allocated(kind: str):
    """Returns a place where the library stores a pointer to memory that it allocates for its caller. That memory is
    freed together with this place."""
    return ffi.gc(ffi.new(f"{kind} **"), lambda place: lib.free(place[0]))


def whole_numbers(values, kind, what: str) -> np.ndarray:
    """Returns integers as an array [count] of an integer type. Raises UsageError for other values and numbers out of
    range."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise of_status(lib.KVC_USAGE, f"{what}: must be a list of whole numbers")
    bounds = np.iinfo(kind)
    if array.size and (array.min() < bounds.min or array.max() > bounds.max):
        raise of_status(lib.KVC_USAGE, f"{what}: must be from {bounds.min} to {bounds.max}")
    return np.ascontiguousarray(array, kind)


def raise_for(status: int, error) -> None:
    """Raises the exception for a status other than KVC_OK, with the text of a struct kvc_error *."""
    if status != lib.KVC_OK:
        raise of_status(status, text_of(error.text) or f"status {status}")


def choice(prefix: str, name: str, what: str) -> int:
    """Returns the enumerator PREFIX_NAME for a name in lower case."""
    try:
        return getattr(lib, prefix + str(name).upper())
    except AttributeError:
        raise of_status(lib.KVC_USAGE, f"{what}: {name!r} does not exist") from None


def weight_type(name: str) -> int:
    """Returns the enumerator of a type of weights: "f32", "f16", "q8_0", ..."""
    type_ = ffi.new("enum kvc_type *")
    if not lib.kvc_type_from_name(c_text(name, "type"), type_):
        raise of_status(lib.KVC_USAGE, f"type {name!r} does not exist for weights")
    return type_[0]


def cache_type(name: str):
    """Returns the struct kvc_entry_types for the text: "f16", "q4h", "k=q8_0,v=q4h", ..."""
    types = ffi.new("struct kvc_entry_types *")
    if not lib.kvc_entry_types_from_name(c_text(name, "cache_type"), types):
        raise of_status(lib.KVC_USAGE, f"cache_type {name!r} does not exist; keys and values are f32, f16, bf16, q8_0, "
                        "q4_0, q4_1, iq4_nl, q4h, q5h or q6h, or given as in \"k=q8_0,v=q4h\"")
    return types[0]


def record(kind, struct, **given):
    """Fills a dataclass from a struct's fields of the same names. Texts become str; `given` overrides fields."""
    values = dict(given)
    for name in kind.__dataclass_fields__:
        if name not in values:
            value = getattr(struct, name)
            values[name] = text_of(value) if isinstance(value, ffi.CData) else value
    return kind(**values)


__all__ = ["ARITHMETIC_VERSION", "KvcullError", "VERSION", "allocated", "c_string", "c_text", "cache_type", "choice", "ffi",
           "lib", "macros", "path_bytes", "raise_for", "ready", "record", "text_of", "weight_type", "whole_numbers"]
