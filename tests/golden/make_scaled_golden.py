#!/usr/bin/env python3
"""Makes tests/data/golden/scaled: a safetensors file with FP8 and MXFP4 tensors as in released folders, and hashes of
transformers' values for them.

    python3 tests/golden/make_scaled_golden.py tests/data/golden/scaled

values.txt has a line for each tensor: its name and a hash of its values. The hash is FNV-1a (64 bits) over
little-endian float32. Every NaN counts as 0x7fc00000, and -0 of MXFP4 as +0, because GGUF's blocks have +0. Needs
numpy, safetensors, torch and transformers.
"""
import importlib.metadata
import os
import sys

import numpy as np
import safetensors.torch
import torch
from transformers.integrations.finegrained_fp8 import Fp8Dequantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors


def fnv(values):
    bits = values.view(np.uint32).copy()
    bits[np.isnan(values)] = 0x7fc00000
    hash_ = 0xcbf29ce484222325
    for byte in np.ascontiguousarray(bits, dtype="<u4").tobytes():
        hash_ = (hash_ ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return hash_


def main(folder):
    random = np.random.default_rng(17)
    numbers = random.integers(0, 256, (128, 640), dtype=np.uint8)  # all of them, including the two NaNs
    scales = torch.tensor([[0.0123, -0.5, 1e-40, 0.0, 1e37]], dtype=torch.float32)
    fp8 = torch.from_numpy(numbers).view(torch.float8_e4m3fn)
    blocks = torch.from_numpy(random.integers(0, 256, (2, 16, 8, 16), dtype=np.uint8))
    powers = np.arange(256, dtype=np.uint8).reshape(2, 16, 8)
    powers[1, 15, 7] = 130  # 255 is refused
    powers = torch.from_numpy(powers)
    tensors = {"a.weight": fp8, "a.weight_scale_inv": scales, "b.weight": fp8[:8, :40].contiguous(),
               "b.weight_scale_inv": torch.tensor(0.75, dtype=torch.bfloat16), "c_blocks": blocks, "c_scales": powers}
    os.makedirs(folder, exist_ok=True)
    safetensors.torch.save_file(tensors, os.path.join(folder, "model.safetensors"))

    dequantize = Fp8Dequantize(None)._dequantize_one
    values = {"a.weight": dequantize(fp8, scales, torch.float32),
              "b.weight": dequantize(tensors["b.weight"], torch.tensor([[0.75]]), torch.float32),
              "c": convert_moe_packed_tensors(blocks, powers, dtype=torch.float32).transpose(1, 2) + 0.0}
    with open(os.path.join(folder, "values.txt"), "w") as file:
        names = ("numpy", "safetensors", "torch", "transformers")
        file.write("# " + ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names) + "\n")
        for name, value in values.items():
            file.write(f"{name} {fnv(value.contiguous().numpy().reshape(-1)):016x}\n")


if __name__ == "__main__":
    main(sys.argv[1])
