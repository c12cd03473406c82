#!/usr/bin/env python3
"""Makes tests/data/golden/types.txt: random blocks and edge cases of every block type that kvcull reads, with hashes of
the gguf package's values.

    python3 tests/golden/make_types_golden.py >tests/data/golden/types.txt

A line has a type, a block in hexadecimal, and a hash of its values: FNV-1a (64 bits) over little-endian float32,
with every NaN as 0x7fc00000. Needs numpy and gguf.
"""
import importlib.metadata

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

# type: offsets of its scales: F16 scales, and bytes that are powers of two (E8M0)
TYPES = {
    "q8_0": ((0,), ()), "q4_0": ((0,), ()), "q5_0": ((0,), ()), "q3_k": ((108,), ()), "q4_k": ((0, 2), ()),
    "q5_k": ((0, 2), ()), "q6_k": ((208,), ()), "q4_1": ((0, 2), ()), "q5_1": ((0, 2), ()), "iq4_nl": ((0,), ()),
    "mxfp4": ((), (0,)), "q2_k": ((80, 82), ()), "iq4_xs": ((0,), ()),
}
# zeros, smallest and largest denormals, 2^-14, ordinary values, the largest, infinities and a NaN, both signs
HALVES = (0x0000, 0x8000, 0x0001, 0x83ff, 0x0400, 0x1ca3, 0xa2d7, 0x3c00, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00)
POWERS = (0, 1, 2, 3, 100, 127, 128, 200, 251, 252, 253, 254, 255)
FILLS = (0x00, 0xff, 0x55, 0xaa, 0x7f, 0x80, 0x0f, 0xf0)
RANDOM = 12


def fnv(data):
    value = 0xcbf29ce484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return value


def put_half(block, at, bits):
    block[at] = bits & 255
    block[at + 1] = bits >> 8


def blocks_of(size, halves, powers, random):
    for i in range(RANDOM):  # ordinary scales
        block = random.integers(0, 256, size, dtype=np.uint8)
        for at in halves:
            put_half(block, at, int(random.integers(0, 65536)) & 0x83ff | int(random.integers(1, 20)) << 10)
        for at in powers:
            block[at] = random.integers(100, 150)
        yield block
    count = max(len(HALVES) if halves else 0, len(POWERS) if powers else 0)
    for i in range(count):  # each edge case of a scale, with random quants and with one repeated byte
        for fill in (None, FILLS[i % len(FILLS)]):
            block = random.integers(0, 256, size, dtype=np.uint8)
            if fill is not None:
                block[:] = fill
            for n, at in enumerate(halves):
                put_half(block, at, HALVES[(i + n * (5 if fill is None else 0)) % len(HALVES)])
            for at in powers:
                block[at] = POWERS[i % len(POWERS)]
            yield block


def main():
    print("# " + ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("gguf", "numpy")))
    for name, (halves, powers) in TYPES.items():
        kind = GGMLQuantizationType[name.upper()]
        elements, size = GGML_QUANT_SIZES[kind]
        random = np.random.default_rng(int.from_bytes(name.encode(), "little"))
        for block in blocks_of(size, halves, powers, random):
            with np.errstate(all="ignore"):
                values = np.ascontiguousarray(dequantize(block.reshape(1, size), kind), dtype=np.float32).reshape(elements)
            bits = values.view(np.uint32).copy()
            bits[np.isnan(values)] = 0x7fc00000
            print(name, block.tobytes().hex(), f"{fnv(bits.astype('<u4').tobytes()):016x}")


if __name__ == "__main__":
    main()
