"""The gated delta nets (Qwen3.5, Qwen3-Next) of tests/data/golden, for make_golden.py."""
import math

import torch

FAMILIES = ("qwen3_5_text", "qwen3_next")


def randomise(name, shape, generator):
    """Returns values for tensors that only delta nets have, and for norms that multiply by 1 + w; None: default values."""
    value = torch.randn(shape, generator=generator, dtype=torch.float64)
    if name.endswith("linear_attn.norm.weight"):
        return 1 + 0.3 * value
    if "norm" in name and name.endswith(".weight"):
        return 0.3 * value
    if name.endswith("A_log"):  # time constants of about 2 to 60 tokens
        return -2 + value
    if name.endswith("dt_bias"):
        return -1 + 0.5 * value
    if name.endswith("conv1d.weight"):
        return 0.6 * value
    return None


def length_one(x):
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def parts(net, x):
    """Computes projections of x [rows, hidden]: q and k [rows, key heads, d_k], v and gates [rows, heads, d_v], betas,
    decays."""
    H, K, n, d = net.num_v_heads, net.num_k_heads, net.head_k_dim, net.head_v_dim
    rows = x.shape[0]
    if hasattr(net, "in_proj_qkv"):
        mixed = net.in_proj_qkv(x)
        return mixed, net.in_proj_z(x).view(rows, H, d), net.in_proj_b(x), net.in_proj_a(x)
    each = H // K
    qkvz = net.in_proj_qkvz(x).view(rows, K, 2 * n + 2 * each * d)
    q, k, v, z = qkvz.split([n, n, each * d, each * d], dim=2)
    beta, a = net.in_proj_ba(x).view(rows, K, 2 * each).split([each, each], dim=2)
    mixed = torch.cat([q.reshape(rows, -1), k.reshape(rows, -1), v.reshape(rows, -1)], 1)
    return mixed, z.reshape(rows, H, d), beta.reshape(rows, H), a.reshape(rows, H)


def double_net(self, hidden_states, *ignored, **also_ignored):
    """Computes the whole layer from its definition, token by token, in the precision of the weights."""
    x = hidden_states[0]
    H, K, n, d, rows = self.num_v_heads, self.num_k_heads, self.head_k_dim, self.head_v_dim, x.shape[0]
    mixed, gate, beta, a = parts(self, x)
    taps = self.conv1d.weight[:, 0]
    before = torch.cat([mixed.new_zeros(taps.shape[1] - 1, mixed.shape[1]), mixed])
    mixed = torch.stack([(before[i:i + taps.shape[1]] * taps.T).sum(0) for i in range(rows)])
    mixed = mixed * torch.sigmoid(mixed)
    q, k, v = mixed.split([K * n, K * n, H * d], dim=1)
    q, k, v = length_one(q.view(rows, K, n)) / math.sqrt(n), length_one(k.view(rows, K, n)), v.view(rows, H, d)
    decay = torch.exp(-torch.exp(self.A_log) * torch.log1p(torch.exp(a + self.dt_bias)))
    beta = torch.sigmoid(beta)
    memory, out = x.new_zeros(H, n, d), []
    for i in range(rows):
        for h in range(H):
            key, query = k[i, h // (H // K)], q[i, h // (H // K)]
            memory[h] *= decay[i, h]
            memory[h] += torch.outer(key, (v[i, h] - key @ memory[h]) * beta[i, h])
            out.append(query @ memory[h])
    out = torch.stack(out).view(rows, H, d)
    out = self.norm.weight * out * torch.rsqrt(out.pow(2).mean(-1, keepdim=True) + self.layer_norm_epsilon)
    return self.out_proj((out * gate * torch.sigmoid(gate)).reshape(1, rows, H * d))


def gguf_keys(kind, config):
    heads = config["linear_num_value_heads"]
    return {f"{kind}.ssm.conv_kernel": config["linear_conv_kernel_dim"],
            f"{kind}.ssm.state_size": config["linear_key_head_dim"],
            f"{kind}.ssm.group_count": config["linear_num_key_heads"], f"{kind}.ssm.time_step_rank": heads,
            f"{kind}.ssm.inner_size": heads * config["linear_value_head_dim"],
            f"{kind}.full_attention_interval": config["full_attention_interval"]}


def gguf_tensors(config, state):
    """Returns delta nets in the converters' order. Qwen3.5 has tiled value heads (head h has key head h % key heads).
    Qwen3-Next's folders group all projections by key head; GGUF has them in order, except betas and decays."""
    H, K, d = (config["linear_" + key] for key in ("num_value_heads", "num_key_heads", "value_head_dim"))
    keys = K * config["linear_key_head_dim"]
    each, n = H // K, config["linear_key_head_dim"]
    order = torch.arange(H)  # the folder's head for each head
    if config["model_type"] == "qwen3_5_text":
        order = order.view(K, each).T.reshape(-1)

    def tiled(tensor, size=1):
        return tensor.reshape(H, size, *tensor.shape[1:])[order].reshape(tensor.shape)

    made = {}
    for name, tensor in state.items():
        front, _, stem = name.partition(".linear_attn.")
        front = front.replace("model.layers.", "blk.")
        if not stem:
            continue
        if stem == "in_proj_qkv.weight":
            made[front + ".attn_qkv.weight"] = torch.cat([tensor[:2 * keys], tiled(tensor[2 * keys:], d)])
        elif stem == "in_proj_qkvz.weight":
            q, k, v, z = tensor.view(K, -1, tensor.shape[1]).split([n, n, each * d, each * d], dim=1)
            made[front + ".attn_qkv.weight"] = torch.cat([part.reshape(-1, tensor.shape[1]) for part in (q, k, v)])
            made[front + ".attn_gate.weight"] = z.reshape(H * d, -1).contiguous()
        elif stem == "in_proj_ba.weight":
            made[front + ".ssm_ba.weight"] = tensor
        elif stem == "conv1d.weight":
            flat = tensor[:, 0].float()
            made[front + ".ssm_conv1d.weight"] = torch.cat([flat[:2 * keys], tiled(flat[2 * keys:], d)])
        elif stem == "out_proj.weight":
            made[front + ".ssm_out.weight"] = tiled(tensor.T.contiguous(), d).T.contiguous()
        elif stem == "A_log":
            made[front + ".ssm_a"] = tiled((-torch.exp(tensor.double())).float())
        elif stem == "norm.weight":
            made[front + ".ssm_norm.weight"] = tensor.float()
        else:
            there, size = {"in_proj_z.weight": (".attn_gate.weight", d), "in_proj_a.weight": (".ssm_alpha.weight", 1),
                           "in_proj_b.weight": (".ssm_beta.weight", 1), "dt_bias": (".ssm_dt.bias", 1)}[stem]
            made[front + there] = tiled(tensor.float() if stem == "dt_bias" else tensor, size)
    return made


def without(config):
    yield "all rotates", dict(config, partial_rotary_factor=1.0)
