#!/usr/bin/env python3
"""Converts published statistics of a model's queries to the file that kvcull's methods read.

    tools/query_stats.py --for expected model.safetensors -o OUT    # kvpress's ExpectedAttentionStats
    tools/query_stats.py --for qfilter model.safetensors -o OUT     # the filters of Q-Filters' authors

Both kinds are on Hugging Face as a folder with the file model.safetensors. Needs only Python's own library. The format of
OUT is in docs/reference/files.md; `kvcull collect` writes such a file for a model without published statistics.
"""
import argparse
import array
import json
import struct
import sys


def tensors(path):
    """Returns {name: (shape, numbers)} of the float tensors of a safetensors file."""
    with open(path, "rb") as file:
        head = file.read(8)
        size = struct.unpack("<Q", head)[0] if len(head) == 8 else 0
        if not 2 <= size <= 100 << 20:
            raise ValueError("is not a safetensors file")
        table, data = json.loads(file.read(size)), file.read()
    found = {}
    for name, about in table.items():
        if name == "__metadata__" or about["dtype"] not in ("F32", "F16", "BF16"):
            continue
        raw = data[slice(*about["data_offsets"])]
        if about["dtype"] == "F32":
            numbers = array.array("f", raw)
        elif about["dtype"] == "F16":
            numbers = [x for x, in struct.iter_unpack("<e", raw)]
        else:
            numbers = array.array("f", b"".join(b"\0\0" + raw[i:i + 2] for i in range(0, len(raw), 2)))
        found[name] = about["shape"], numbers
    return found


def take(found, name, dimensions):
    """Returns the shape and the numbers of a tensor, after checking its number of dimensions and its size."""
    if name not in found:
        raise ValueError(f"has no float tensor {name}")
    shape, numbers = found[name]
    size = 1
    for length in shape:
        size *= length
    if len(shape) != dimensions or size != len(numbers):
        raise ValueError(f"{name}: has shape {shape} and {len(numbers)} numbers, must have {dimensions} dimensions")
    return shape, numbers


def write(file, numbers):
    print(*(f"{x:.9g}" for x in numbers), file=file)


def convert(found, method, rotary, name, file):
    tensor = "q_filters" if method == "qfilter" else "query_mean"
    (layers, heads, d), mean = take(found, tensor, 3)
    if method == "expected":
        shape, covariance = take(found, "query_cov", 4)
        if shape != [layers, heads, d, d]:
            raise ValueError(f"query_cov: has shape {shape}, must have {[layers, heads, d, d]}")
    rotary = d if rotary is None else rotary
    if not 0 <= rotary <= d or rotary % 2:
        raise ValueError(f"--rotary {rotary}: must be even and from 0 to {d}")
    title = "filters" if method == "qfilter" else "covariances"
    print(f"kvcull query {title} 1\nmodel {name}\ntokens 1\nshape {layers} {heads} {d}", file=file)
    for row in range(layers * heads):
        if row % heads == 0:
            print(f"layer {row // heads} rotary {rotary}", file=file)
        numbers = list(mean[row * d:(row + 1) * d])
        if method == "qfilter":  # the authors keep keys whose product with the stored vector is low
            numbers = [-x for x in numbers]
        else:
            for b in range(d):
                at = (row * d + b) * d
                numbers.extend(covariance[at:at + b + 1])
        write(file, numbers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="a file in the safetensors format")
    parser.add_argument("--for", dest="method", required=True, choices=["expected", "qfilter"], help="the method")
    parser.add_argument("-o", "--out", required=True, help="the file to write")
    parser.add_argument("--rotary", type=int, help="channels of a head that the model rotates (default: all)")
    options = parser.parse_args()
    try:
        found = tensors(options.file)
        with open(options.out, "w", encoding="ascii") as file:
            convert(found, options.method, options.rotary, options.file.encode("ascii", "replace").decode(), file)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        sys.exit(f"query_stats.py: {options.file}: {error}")


if __name__ == "__main__":
    main()
