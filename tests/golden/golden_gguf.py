"""Writes the GGUF files of tests/data/golden, for make_golden.py."""
import struct

import torch

import golden_gpt_oss as gpt_oss

GGUF_TYPE = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 30}


def gguf_string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(value):
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + gguf_string(value)
    assert isinstance(value, list) and all(isinstance(item, bool) for item in value)
    return struct.pack("<IIQ", 9, 7, len(value)) + bytes(value)


def write_gguf(path, keys, tensors):
    header = b"".join(gguf_string(key) + gguf_value(value) for key, value in keys.items())
    infos, data = b"", b""
    for name, tensor in tensors.items():
        blocks = isinstance(tensor, gpt_oss.Blocks)
        infos += gguf_string(name) + struct.pack("<I", len(tensor.shape))
        infos += struct.pack(f"<{len(tensor.shape)}Q", *reversed(tensor.shape))
        infos += struct.pack("<IQ", gpt_oss.MXFP4 if blocks else GGUF_TYPE[tensor.dtype], len(data))
        raw = tensor.gguf() if blocks else tensor.contiguous().view(torch.uint8).numpy().tobytes()
        data += raw + bytes(-len(raw) % 32)
    start = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + header + infos
    with open(path, "wb") as file:
        file.write(start + bytes(-len(start) % 32) + data)
