"""entry_types.py - shared by tools/entry_distance.py and tools/equal_bytes.py: the bytes that a key and a value take
with each --kv-type, computed from the table in core/base/entry_types.h.
"""
import functools
import os
import re

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "core", "base", "entry_types.h")
ROW = r"row\(a, \w+, +(\w+), +(\d+), +(\d+), (\d+), [01]\)"  # name, bytes of scales, bits, bytes of high bits
GROUP = 32


@functools.cache
def table():
    with open(HEADER, encoding="utf-8") as file:
        return {name: (int(scales), int(bits), int(high)) for name, scales, bits, high in re.findall(ROW, file.read())}


def split(kind):
    """Returns the type of keys and the type of values: for "k=q8_0,v=q4h" q8_0 and q4h, for "q4h" q4h twice."""
    parts = dict(part.split("=") for part in kind.split(",")) if "=" in kind else {"k": kind, "v": kind}
    return parts["k"], parts["v"]


def known(kind):
    try:
        return all(name in table() for name in split(kind))
    except (KeyError, ValueError):
        return False


def row_bytes(name, size):
    """Returns the bytes of a key or a value of `size` channels."""
    scales, bits, high = table()[name]
    if not scales:
        return size * bits // 8
    groups = [min(GROUP, size - at) for at in range(0, size, GROUP)]
    return sum(scales + high + (n if bits == 8 else min(n, 16)) for n in groups)


def entry_bytes(kind, size):
    """Returns the bytes of a key and its value."""
    return sum(row_bytes(name, size) for name in split(kind))


def bits_per_element(kind, size):
    """Returns the bits per channel, including scales: the mean over keys and values."""
    return 8 * entry_bytes(kind, size) / (2 * size)
