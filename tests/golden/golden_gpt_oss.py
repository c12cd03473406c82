"""gpt-oss in tests/data/golden, for make_golden.py: MXFP4 experts and tensor names."""
import math

import torch

# The values of MXFP4's four-bit codes.
NUMBERS = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)
MXFP4 = 39  # GGUF's number for the type


class Blocks:
    """Stacks of MXFP4 matrices: codes [E, outputs, inputs], scales [E, outputs, inputs / 32]."""

    def __init__(self, codes, scales):
        self.codes, self.scales = codes.to(torch.uint8), scales.to(torch.uint8)
        self.shape = tuple(codes.shape)

    @classmethod
    def random(cls, shape, least, most, generator):
        codes = torch.randint(0, 16, shape, generator=generator)
        scales = torch.randint(least, most + 1, (*shape[:2], shape[2] // 32), generator=generator)
        return cls(codes, scales)

    def values(self):
        powers = torch.pow(2.0, self.scales.double() - 127).repeat_interleave(32, -1)
        return NUMBERS[self.codes.long()] * powers

    def rows(self, first, step):
        return Blocks(self.codes[:, first::step], self.scales[:, first::step])

    def folder(self, name):
        """Folder format: two neighboring numbers in each byte, the first in the low bits."""
        pairs = self.codes[..., 0::2] | self.codes[..., 1::2] << 4
        return {name + "_blocks": pairs.reshape(*self.scales.shape, 16).contiguous(), name + "_scales": self.scales}

    def gguf(self):
        """GGUF format: blocks of a scale and 16 bytes; byte i has numbers i and i + 16."""
        codes = self.codes.reshape(*self.scales.shape, 32)
        bytes_ = codes[..., :16] | codes[..., 16:] << 4
        return torch.cat([self.scales[..., None], bytes_], -1).contiguous().numpy().tobytes()


def fused(name):
    return name.endswith(("mlp.experts.gate_up_proj", "mlp.experts.down_proj"))


def randomise(name, shape, generator):
    """Returns values for tensors that only gpt-oss has; None: default values. Some gates exceed the clamp."""
    value = torch.randn(shape, generator=generator, dtype=torch.float64)
    if name.endswith("self_attn.sinks"):
        return 2 * value
    if name.endswith("_bias"):
        return 0.5 * value
    if name.endswith("mlp.router.weight"):
        return value * (1.5 / math.sqrt(shape[1]))
    if name.endswith("mlp.experts.gate_up_proj"):
        return value * (3 / math.sqrt(shape[1]))
    if name.endswith("mlp.experts.down_proj"):
        return value / math.sqrt(shape[1])
    return None


def pack(full, generator):
    """Puts MXFP4 experts into a state dict. Returns their blocks by name."""
    blocks = {}
    for name in sorted(filter(fused, full)):
        experts, inputs, outputs = full[name].shape
        scales = (123, 125) if name.endswith("gate_up_proj") else (121, 123)
        blocks[name] = Blocks.random((experts, outputs, inputs), *scales, generator)
        full[name] = blocks[name].values().transpose(1, 2).float().contiguous()
    return blocks


def published(state, blocks):
    made = {}
    for name, tensor in state.items():
        made.update(blocks[name].folder(name) if name in blocks else {name: tensor})
    return made


def gguf_tensors(state, blocks):
    """Returns the layers' tensors as GGUF files have them, except those common to all families."""
    made = {}
    for name, tensor in state.items():
        prefix = name.split("mlp.")[0].split("self_attn.")[0].replace("model.layers.", "blk.")
        if name.endswith("self_attn.sinks"):
            made[prefix + "attn_sinks.weight"] = tensor.float()
        elif "mlp.router." in name:
            made[prefix + "ffn_gate_inp." + name.split(".")[-1]] = tensor.float() if tensor.dim() == 1 else tensor
        elif name.endswith("_bias"):
            kinds = ("gate", "up") if "gate_up" in name else ("down",)
            for i, kind in enumerate(kinds):
                made[prefix + f"ffn_{kind}_exps.bias"] = tensor[:, i::len(kinds)].float()
        elif fused(name):
            kinds = ("gate", "up") if "gate_up" in name else ("down",)
            for i, kind in enumerate(kinds):
                rows = tensor.transpose(1, 2)[:, i::len(kinds)]
                made[prefix + f"ffn_{kind}_exps.weight"] = blocks[name].rows(i, len(kinds)) if name in blocks else rows
    return made
