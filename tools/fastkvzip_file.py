#!/usr/bin/env python3
"""Converts the gates that the authors of Fast KVzip publish to the file that fastkvzip reads.

    tools/fastkvzip_file.py q4_dim16_sink16.pt -o GATES.safetensors

The gates are on Hugging Face (Jang-Hyun/Fast-KVzip), as one Python pickle for each model. Needs torch, which reads only
tensors from the pickle and runs no code of it. docs/reference/files.md describes the output.
"""
import argparse
import json
import struct
import sys

import numpy
import torch

TYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
#: the tensors of a layer, and their numbers of dimensions in the output
TENSORS = {"q_proj.weight": 2, "q_proj.bias": 1, "k_proj.weight": 2, "q_norm.weight": 1, "k_norm.weight": 1, "k_base": 2,
           "b": 1}


def read(path):
    """Returns the tensors of each layer, as a list of dictionaries."""
    # The pickle also has numbers of the training, in arrays.
    known = [numpy.ndarray, numpy.dtype, numpy.dtypes.Float64DType, numpy.dtypes.Float32DType,
             numpy.array([0.0]).__reduce__()[0], numpy.float64(0).__reduce__()[0]]
    with torch.serialization.safe_globals(known):
        content = torch.load(path, map_location="cpu", weights_only=True)
    layers = content.get("module") if isinstance(content, dict) else None
    if not isinstance(layers, list) or not layers:
        raise ValueError("has no list 'module' of layers")
    return layers


def write(layers, path):
    """Writes a safetensors file."""
    header, parts, offset = {}, [], 0
    for l, layer in enumerate(layers):
        if set(layer) != set(TENSORS):
            raise ValueError(f"layer {l}: has the tensors {', '.join(sorted(layer))}; "
                             f"it must have {', '.join(sorted(TENSORS))}")
        for name, dimensions in TENSORS.items():
            tensor = layer[name].detach().contiguous()
            if tensor.dtype not in TYPES:
                raise ValueError(f"layer {l}: {name}: is of type {tensor.dtype}; it must be float32, float16 or bfloat16")
            tensor = tensor.reshape(-1, tensor.shape[-1]) if dimensions == 2 else tensor.reshape(-1)
            data = tensor.view(torch.uint8).numpy().tobytes()
            header[f"layers.{l}.{name}"] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape),
                                            "data_offsets": [offset, offset + len(data)]}
            parts.append(data)
            offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for part in parts:
            file.write(part)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gates", help="the pickle (.pt) of one model")
    parser.add_argument("-o", dest="out", required=True, help="the file to write")
    options = parser.parse_args()
    try:
        write(read(options.gates), options.out)
    except (OSError, ValueError, RuntimeError) as error:
        sys.exit(f"fastkvzip_file: {options.gates}: {str(error).splitlines()[0]}")
    except Exception as error:  # torch raises several kinds if the file is no pickle, or has code
        sys.exit(f"fastkvzip_file: {options.gates}: cannot be read as tensors ({type(error).__name__})")


if __name__ == "__main__":
    main()
