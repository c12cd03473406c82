"""What is gpt-oss's own in tests/data/golden, for make_golden.py: MXFP4 experts, and names of tensors."""
import math

import torch

# The 16 numbers of MXFP4, by their four bits.
NUMBERS = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6, -0.0, -.5, -1, -1.5, -2, -3, -4, -6], dtype=torch.float64)
MXFP4 = 39  # GGUF's number of the type


class Blocks:
    """Stacks of matrices in MXFP4: codes [E, outputs, inputs], scales [E, outputs, inputs / 32]."""

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
        """Two numbers a byte, neighbours, the first one low."""
        pairs = self.codes[..., 0::2] | self.codes[..., 1::2] << 4
        return {name + "_blocks": pairs.reshape(*self.scales.shape, 16).contiguous(), name + "_scales": self.scales}

    def gguf(self):
        """Blocks of a scale and 16 bytes, byte i with numbers i and i + 16."""
        codes = self.codes.reshape(*self.scales.shape, 32)
        bytes_ = codes[..., :16] | codes[..., 16:] << 4
        return torch.cat([self.scales[..., None], bytes_], -1).contiguous().numpy().tobytes()


def fused(name):
    return name.endswith(("mlp.experts.gate_up_proj", "mlp.experts.down_proj"))


def randomise(name, shape, generator):
    """Values of what other families do not have; None: as theirs. Gates that the limit holds."""
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
    """Puts MXFP4 experts into a state; returns their blocks by name."""
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
    """Tensors of the layers as GGUF files have them; the rest is left to others."""
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
