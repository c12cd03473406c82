#!/usr/bin/env python3
"""Compares kvcull with the published code of its methods' authors, on random tensors.

    tools/compare_authors.py --kvcull build/kvcull --checkouts DIR [--only NAME,..] [--rounds N]

DIR has clones of the authors' repositories, with the names in the table below; missing clones are skipped. Needs torch,
transformers, numpy and safetensors. A case is one file of random queries, keys and values. The authors' code chooses
entries from it in float32, and so does `kvcull replay`. The positions kept or read are compared as sets, head by head.
The result counts the entries that differ. Where the authors' code differs from docs/reference/methods.md, the case is
set up so that both agree, and the result names the excluded difference.
"""
import argparse
import contextlib
import importlib.util
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import types
from unittest import mock

import torch
from safetensors.torch import save_file

REPOSITORIES = {
    "lacache": ("GATECH-EIC+LaCache", "https://github.com/GATECH-EIC/LaCache"),
    "fastkv": ("dongwonjo+FastKV", "https://github.com/dongwonjo/FastKV"),
    "cake": ("antgroup+cakekv", "https://github.com/antgroup/cakekv"),
    "adakv": ("FFY0+AdaKV", "https://github.com/FFY0/AdaKV"),
    "morphkv": ("ghadiaravi13+MorphKV", "https://github.com/ghadiaravi13/MorphKV"),
    "sparq": ("graphcore-research+llm-inference-research",
              "https://github.com/graphcore-research/llm-inference-research"),
    "rocketkv": ("NVlabs+RocketKV", "https://github.com/NVlabs/RocketKV"),
    "quest": ("mit-han-lab+Quest", "https://github.com/mit-han-lab/Quest"),
    "rkv": ("Zefan-Cai+R-KV", "https://github.com/Zefan-Cai/R-KV"),
    "triattention": ("WeianMao+triattention", "https://github.com/WeianMao/triattention"),
}


class Stubs:
    """Replaces modules that a file imports but this comparison never calls."""

    def __init__(self, names):
        self.names = names

    def __enter__(self):
        self.kept = {name: sys.modules.get(name) for name in self.names}
        for name in self.names:
            sys.modules[name] = mock.MagicMock(name=name)

    def __exit__(self, *error):
        for name, module in self.kept.items():
            if module is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = module


def load(path, stubs=(), only=None):
    """Loads a module from a file. only: keeps only these top-level functions and classes."""
    name = "authors_" + "".join(c if c.isalnum() else "_" for c in path)
    with Stubs(stubs):
        if only is None:
            spec = importlib.util.spec_from_file_location(name, path)
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            return module
        import ast
        source = open(path, encoding="utf-8").read()
        tree = ast.parse(source)
        tree.body = [node for node in tree.body if getattr(node, "name", None) in only]
        module = sys.modules[name] = types.ModuleType(name)
        module.__dict__.update(torch=torch, nn=torch.nn, F=torch.nn.functional, math=math, List=list, Tensor=torch.Tensor,
                               **{n: getattr(__import__("typing"), n) for n in ("Optional", "Tuple", "Union", "Any")})
        import typing
        module.__dict__["List"] = typing.List
        import __future__
        import dataclasses
        module.dataclass = dataclasses.dataclass
        module.cast = typing.cast
        code = compile(tree, path, "exec", flags=__future__.annotations.compiler_flag)  # annotations may be undefined
        exec(code, module.__dict__)  # the authors' own lines, unchanged
        return module


class Case:
    """Random tensors of L layers; q [L, T, H, d], k and v [L, T, H_kv, d]."""

    def __init__(self, seed, layers, heads, kv_heads, d, rows, prompt):
        generator = torch.Generator().manual_seed(seed)
        draw = lambda h: torch.randn(layers, rows, h, d, generator=generator)
        self.q, self.k, self.v = draw(heads), draw(kv_heads), draw(kv_heads)
        self.layers, self.heads, self.kv_heads, self.d, self.rows, self.prompt = layers, heads, kv_heads, d, rows, prompt
        self.group = heads // kv_heads
        self.more = {}  # further tensors of the dump

    def replay(self, kvcull, spec):
        """Returns the JSON of kvcull replay, and the attention outputs [L, T - N, H, d]."""
        with tempfile.TemporaryDirectory() as folder:
            dump, kept, out = (os.path.join(folder, name) for name in ("dump.safetensors", "kept.json", "out.safetensors"))
            save_file({f"layers.{l}.{n}": t[l].contiguous() for n, t in (("q", self.q), ("k", self.k), ("v", self.v))
                       for l in range(self.layers)} | self.more, dump)
            command = [kvcull, "replay", "-q", "--kv", spec, "--prompt", str(self.prompt), "--in", dump, "--out", kept]
            if self.rows > self.prompt:
                command += ["--attn", out]
            subprocess.run(command, check=True)
            outputs = None
            if self.rows > self.prompt:
                from safetensors.torch import load_file
                tensors = load_file(out)
                outputs = [tensors[f"layers.{l}.out"].clone() for l in range(self.layers)]
            return json.load(open(kept)), outputs

    def prefix(self, l, rows=None):
        """Returns q and k [1, heads, N, d] of a layer's prompt, and its positions as values [1, H_kv, N, d]."""
        rows = torch.arange(self.prompt) if rows is None else rows
        q, k = self.q[l, rows].transpose(0, 1)[None], self.k[l, rows].transpose(0, 1)[None]
        v = rows.float()[None, None, :, None].expand(1, self.kv_heads, len(rows), self.d).contiguous()
        return q, k, v


def differing(ours, theirs):
    return len(set(ours) ^ set(theirs))


class Result:
    def __init__(self):
        self.lists = self.entries = self.differing = 0
        self.worst = 0.0
        self.note = ""

    def add(self, ours, theirs):
        self.lists += 1
        self.entries += len(theirs)
        self.differing += differing(ours, theirs)

    def error(self, ours, theirs):
        self.worst = max(self.worst, float((ours - theirs).norm() / theirs.norm()))


def lacache(folder, kvcull, seed, result):
    module = load(os.path.join(folder, "LongBench/lacache/kv_cache.py"))
    for layers, budget, sinks, span, overlap in ((12, 100, 8, 4, 0), (16, 150, 16, 5, 2), (8, 90, 4, 3, 0)):
        case = Case(seed, layers, 1, 1, 8, 420, 260)
        ours, _ = case.replay(kvcull, f"lacache:budget={budget},sinks={sinks},span={span},overlap={overlap}")
        policy = module.LaCache(budget, sinks, span, overlap)
        held = [[torch.arange(case.prompt).float()[None, None, :, None]] * 2 for _ in range(layers)]
        for step in ours["steps"]:
            if step["at"] != "prompt":
                held = [[torch.cat([t, torch.full((1, 1, 1, 1), float(step["at"]))], 2) for t in pair] for pair in held]
            held = policy(held)
            for l in range(layers):
                result.add(step["kept"][l][0], held[l][0].flatten().int().tolist())
    result.note = "prompt and 160 decode steps, three ladders"


def fastkv(folder, kvcull, seed, result):
    module = load(os.path.join(folder, "baselines/fastkv/utils.py"))
    case = Case(seed, 4, 8, 2, 32, 300, 300)
    budget, tsp, tsp_layer = 60, 150, 1
    ours, _ = case.replay(kvcull, f"fastkv:budget={budget},tsp={tsp},tsp_layer={tsp_layer}")
    rows = torch.arange(case.prompt)
    for l in range(case.layers):
        cluster = module.FastKVCluster(8, budget, 7, "avgpool", tsp_layer=l == tsp_layer, tsp_length=tsp)
        q, k, v = case.prefix(l, rows)
        _, values, chosen = cluster.update_kv(k, q, v, None, case.group, l)
        for h in range(case.kv_heads):
            result.add(ours["steps"][0]["kept"][l][h], values[0, h, :, 0].int().tolist())
        if chosen is not None:
            rows = rows[chosen[0]]
    result.note = "rows that pruning keeps are compared through the layers above"


def cake(folder, kvcull, seed, result):
    utils = load(os.path.join(folder, "cake/utils.py"))
    with mock.patch.dict(sys.modules, {"cake": mock.MagicMock(), "cake.utils": utils}):
        import transformers.cache_utils as cache_utils
        for name in ("HybridCache", "DynamicCache", "Cache"):
            if not hasattr(cache_utils, name):
                setattr(cache_utils, name, type(name, (), {}))
        module = load(os.path.join(folder, "cake/cake_cache.py"))
    case = Case(seed, 5, 8, 2, 32, 260, 260)
    case.k *= torch.tensor([0.3, 1.0, 1.6, 0.7, 1.2])[:, None, None, None]  # layers differ
    window, budget, gamma = 32, 70, 200.0
    ours, _ = case.replay(kvcull, f"cake:budget={budget}")

    class Held:
        pass
    held = Held()
    held.key_cache, held.value_cache, held.pref_scores, held.evict_scores = [], [], [], []
    held.layer_budget = [0] * case.layers
    prefill = module.CakeprefillKVCache(budget, window, num_heads=case.heads, num_layers=case.layers, use_cascading=True)
    for l in range(case.layers):
        q, k, v = case.prefix(l)
        s = q[:, :, -window:] @ k.repeat_interleave(case.group, 1).transpose(2, 3) / math.sqrt(case.d)
        s[..., -window:] += torch.full((window, window), float("-inf")).triu(1)
        a = s.softmax(-1)
        part = a[..., :-window]
        preference = (utils.calculate_entropy(part) * part.var(-2).sum()).item()
        score = part.mean(-2) + gamma * part.var(-2)
        score = torch.nn.functional.avg_pool1d(score, 5, 1, 2).view(1, case.kv_heads, case.group, -1).mean(2)
        held.key_cache.append(k)
        held.value_cache.append(v)
        held.pref_scores.append(preference)
        held.evict_scores.append(score)
        with contextlib.redirect_stdout(io.StringIO()):
            prefill(held, case.prompt)
    for l in range(case.layers):
        for h in range(case.kv_heads):
            result.add(ours["steps"][0]["kept"][l][h], held.value_cache[l][0, h, :, 0].int().tolist())
    result.note = "the formulas of their model file are restated, their budgets and evictions run"


def adakv(folder, kvcull, seed, result):
    path = os.path.join(folder, "adaptive_snapkv/monkeypatch/snapkv_utils.py")
    module = load(path, only=("repeat_kv", "AdaptiveSnapKVCluster"))
    case = Case(seed, 2, 8, 4, 32, 250, 250)
    case.q[:, -40:, :4] *= 2  # heads differ
    budget, floor = 82, 0.2
    for grouped in True, False:
        per = "group" if grouped else "head"
        ours, _ = case.replay(kvcull, f"adakv:budget={budget},floor={floor},pooling=avg,per={per}")
        for l in range(case.layers):
            cluster = module.AdaptiveSnapKVCluster(32, 7, "avgpool", budget, floor, 0, False, l, case.layers,
                                                   gqa_support=grouped, num_key_value_groups=case.group, gqa_func="mean")
            q, k, v = case.prefix(l)
            _, values = cluster.update_kv(k, q, v)
            at = 0
            for h, length in enumerate(cluster.head_lens.tolist()):
                result.add(ours["steps"][0]["kept"][l][h], values[at:at + length, 0].int().tolist())
                at += length
    result.note = ("average pooling (max makes ties, which they break at random), without their normalisation; per=group "
                   "and per=head")


def morphkv(folder, kvcull, seed, result):
    path = os.path.join(folder, "morphkv/models/patch_llama.py")
    module = load(path, only=("LlamaAttentionMorph",))
    mask = module.LlamaAttentionMorph.morphkv_mask
    for heads, kv_heads, fusion in ((4, 4, "sum"), (4, 4, "max"), (8, 2, "sum"), (8, 2, "max")):
        case = Case(seed, 1, heads, kv_heads, 32, 161, 160)
        budget, window = 60, 20
        ours, _ = case.replay(kvcull, f"morphkv:budget={budget},window={window},fusion={fusion},scores=logits")
        logits = case.q[0].transpose(0, 1) @ case.k[0].transpose(0, 1).repeat_interleave(case.group, 0).transpose(1, 2)
        logits = logits / math.sqrt(case.d)
        logits = logits.masked_fill(torch.ones(161, 161).triu(1).bool(), float("-inf"))[None]
        cache = mock.MagicMock()
        cache.attn_cache = [logits[:, :, -window - 1:-1]]
        me = types.SimpleNamespace(layer_idx=0, morph_type=f"{fusion}_fused", WIN_SIZE=window, MAX_CAPACITY=budget)
        mask(me, logits[:, :, -1:], cache, kv_heads, heads)
        kept = cache.cleanup.call_args[0][0]  # [1, H_kv, 1, 161]: 0 where kept
        for h in range(kv_heads):
            theirs = (kept[0, h, 0] == 0).nonzero().flatten().tolist()
            result.add(ours["steps"][0]["kept"][0][h], [p for p in theirs if p < case.prompt])
    result.note = "the first eviction, which they make in the first decode step; the step's own token is left out"


def sparq(folder, kvcull, seed, result):
    base = os.path.join(folder, "llminference/methods")
    sparse = load(os.path.join(base, "sparse_attention.py"), only=("causal_index", "score_to_mask"))
    module = load(os.path.join(base, "ann_attention.py"), only=("gather", "SparseQ"))
    for heads, kv_heads, mean in ((4, 4, "on"), (8, 2, "on"), (8, 2, "off")):
        case = Case(seed, 1, heads, kv_heads, 64, 121, 120)
        dims, top = 16, 24
        ours, outputs = case.replay(kvcull, f"sparq:dims={dims},topk={top},local=1,mean_value={mean}")
        score = module.SparseQ(types.SimpleNamespace(rank=dims))
        q = case.q[0, -1:].transpose(0, 1).reshape(1, kv_heads, case.group, 1, 64)
        k = case.k[0].transpose(0, 1)[None, :, None]
        v = case.v[0].transpose(0, 1)[None, :, None]
        scores = score(q, k).float()
        logmask = torch.zeros(1, kv_heads, case.group, 1, 121)
        local = sparse.causal_index(logmask)
        chosen = scores.masked_fill((0 <= local) & (local < 1), torch.finfo(scores.dtype).max)
        approximate = scores.softmax(-1)
        # The authors sum the scores of a group before top-k; docs/reference/methods.md sums their softmax. Both are
        # equal if G is 1.
        order = chosen.sum(2, keepdim=True) if case.group == 1 else approximate.masked_fill(
            (0 <= local) & (local < 1), 1e9).sum(2, keepdim=True)
        index = order.topk(top, -1).indices
        for h in range(kv_heads):
            result.add(ours["steps"][1]["read"][0][h], index[0, h, 0, 0].tolist())
        weights = (q / math.sqrt(64) @ module.gather(k, -2, index.squeeze(-2).unsqueeze(-1)).transpose(-1, -2)).softmax(-1)
        y = weights @ module.gather(v, -2, index.squeeze(-2).unsqueeze(-1))
        if mean == "on":
            alpha = module.gather(approximate, -1, index).sum(-1, keepdim=True)
            y = alpha * y + (1 - alpha) * v.mean(-2, keepdim=True)
        result.error(outputs[0][0], y.reshape(heads, 64))
    result.note = "group sums of probabilities (theirs: of scores, the same for G = 1)"


def rocketkv(folder, kvcull, seed, result):
    path = os.path.join(folder, "gpt-fast/rocket.py")
    module = load(path, only=("rocket_attn", "_gather"))
    module._scaled_softmax = lambda x, scale, dim: torch.softmax(x / scale, dim=dim)  # their function without its compiler decorator
    module.RocketArgs = object
    for heads, kv_heads, page, dims, top in ((4, 4, 3, 20, 18), (8, 2, 4, 9, 32), (8, 2, 2, 40, 64)):
        case = Case(seed, 1, heads, kv_heads, 64, 132, 131)
        ours, outputs = case.replay(kvcull, f"hsa:page={page},dims={dims},topk={top}")
        k = case.k[0].transpose(0, 1)  # [H_kv, n, d]
        pages = [k[:, i:i + page] for i in range(0, 132, page)]
        low, high = (torch.stack([f(p, 1) for p in pages], 1) for f in (torch.amin, torch.amax))
        options = types.SimpleNamespace(sort_stage_1_top_k=False, sort_stage_2_top_k=False)
        seen = []
        original = torch.topk
        def spy(*a, **b):
            found = original(*a, **b)
            seen.append(found.indices)
            return found
        with mock.patch.object(torch, "topk", spy):
            y = module.rocket_attn(case.q[0, -1:].transpose(0, 1)[None], torch.cat([low, high], -1)[None], k[None],
                                   case.v[0].transpose(0, 1)[None], torch.ones(1, 1, 1, 132, dtype=torch.bool), page, dims,
                                   top, options)
        for h in range(kv_heads):
            result.add(ours["steps"][1]["read"][0][h], seen[1][0, h].flatten().tolist())
        result.error(outputs[0][0], y[0, :, 0])
    result.note = "the second stage, whole pages (tokens of a page tie, and they break ties at random)"


def quest(folder, kvcull, seed, result):
    path = os.path.join(folder, "evaluation/quest_attention.py")
    module = load(path, only=("local_heavy_hitter_mask",))
    for page, pages, n in ((16, 4, 160), (8, 5, 131), (16, 3, 97)):
        case = Case(seed, 1, 4, 4, 32, n + 1, n)
        ours, _ = case.replay(kvcull, f"quest:budget={2 * page * pages},page={page}")
        q, k = case.q[0, -1:].transpose(0, 1), case.k[0].transpose(0, 1)  # [H, 1, d], [H, n+1, d]
        bound = torch.zeros(4, n + 1)
        for first in range(0, n + 1, page):
            part = k[:, first:first + page]
            best = torch.maximum(q * part.amax(1, keepdim=True), q * part.amin(1, keepdim=True)).sum(-1)
            bound[:, first:first + page] = best
        mask = module.local_heavy_hitter_mask(bound[None, :, None], page * pages, page)
        for h in range(4):
            result.add(ours["steps"][1]["read"][0][h], mask[0, h, 0].nonzero().flatten().tolist())
    result.note = "their choice of pages, with 3 at least; their bound restated; their budget is the part that is read"


def rkv(folder, kvcull, seed, result):
    similarity = load(os.path.join(folder, "rkv", "utils.py"))
    code = load(os.path.join(folder, "rkv", "compression", "r1_kv.py"), only=("R1KV",))
    code.cal_similarity, code.compute_attention_scores = similarity.cal_similarity, similarity.compute_attention_scores
    for heads, d, window, every in ((4, 32, 8, 20), (2, 64, 16, 16)):
        case = Case(seed, 2, heads, heads, d, 185, 120)
        case.k = case.k[:, torch.arange(185) % 45] + 0.5 * case.k  # repeated keys
        spec = f"rkv:budget=70,window={window},every={every},kernel=5,scores=logits,lambda=0.3"
        ours, _ = case.replay(kvcull, spec)
        method = code.R1KV(budget=70, window_size=window, kernel_size=5, mix_lambda=0.3)
        for l in range(case.layers):
            position = torch.arange(case.prompt).expand(heads, -1)
            for i, step in enumerate(ours["steps"]):
                if i > 0:
                    position = torch.cat([position, torch.full((heads, 1), step["at"])], 1)
                if i > 0 and i % every == 0:
                    k = torch.stack([case.k[l, position[h], h] for h in range(heads)])[None]
                    q = case.q[l, step["at"] + 1 - window:step["at"] + 1].transpose(0, 1)[None]
                    _, left = method.update_kv(k, q, position[None, ..., None].float().expand_as(k).contiguous())
                    position = left[0, ..., 0].long().sort(-1).values
                for h in range(heads):
                    result.add(step["kept"][l][h], position[h].tolist())
    result.note = "G = 1, scores=logits, 65 decode steps; what is kept goes back into its order, over which votes are pooled"


class PlainRotary:
    """The rotary embedding of a model's keys, with the interface that the authors' code uses."""

    def __init__(self, d):
        self.inv_freq = 10000.0 ** (-torch.arange(0, d, 2).double() / d)

    def __call__(self, base, positions):
        angle = (positions[0].double()[:, None] * self.inv_freq).repeat(1, 2)
        return angle.cos()[None], angle.sin()[None]


def write_statistics(path, mean, lengths):
    """Writes statistics as kvcull collect does: mean [L, H, d], lengths [L, H, d / 2]."""
    layers, heads, d = mean.shape
    with open(path, "w", encoding="ascii") as file:
        file.write(f"kvcull query statistics 1\nmodel drawn\ntokens 1\nshape {layers} {heads} {d}\n")
        for l in range(layers):
            file.write(f"layer {l} rotary {d}\n")
            for h in range(heads):
                file.write(" ".join(f"{float(x):.9g}" for x in (*mean[l, h], *lengths[l, h])) + "\n")


def triattention(folder, kvcull, seed, result):
    utils = load(os.path.join(folder, "triattention/methods/pruning_utils.py"), only=(
        "rotate_half", "invert_rope", "to_complex_pairs", "build_geometric_offsets", "HeadFrequencyStats",
        "compute_frequency_statistics_from_means", "score_keys_for_round"))
    code = load(os.path.join(folder, "triattention/methods/triattention.py"), only=("TriAttention",))
    for name in ("invert_rope", "compute_frequency_statistics_from_means", "score_keys_for_round"):
        setattr(code, name, getattr(utils, name))
    for heads, kv_heads, d, future, how in ((4, 4, 32, 65536, "max"), (8, 2, 64, 65536, "max"), (6, 2, 32, 500, "mean")):
        layers, prompt, every, budget, half = 2, 150, 30, 60, d // 2
        case = Case(seed, layers, heads, kv_heads, d, prompt + every, prompt)
        generator = torch.Generator().manual_seed(seed + 1)
        mean = torch.randn(layers, heads, d, generator=generator)
        centre = torch.complex(mean[..., :half], mean[..., half:])
        lengths = centre.abs() + torch.rand(layers, heads, half, generator=generator)
        rotary, offsets = PlainRotary(d), utils.build_geometric_offsets(future, "cpu")
        now = prompt + every
        # A replay rotates no keys, so the centers are rotated here, as the method's page says.
        turned = centre * torch.exp(1j * (now + offsets.double())[:, None] * rotary.inv_freq).mean(0)
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "statistics")
            write_statistics(path, torch.cat([turned.real, turned.imag], -1), turned.abs() + lengths - centre.abs())
            ours, _ = case.replay(
                kvcull, f"triattention:budget={budget},every={every},heads={how},future={future},stats=\"{path}\"")
        method = object.__new__(code.TriAttention)
        method.config = types.SimpleNamespace(device="cpu", dtype=torch.float64, layer_perhead_aggregation=how)
        method.sampled_heads = [(l, h) for l in range(layers) for h in range(heads)]
        method.head_stats = {(l, h): utils.HeadFrequencyStats(centre[l, h].to(torch.complex128), lengths[l, h].double())
                             for l, h in method.sampled_heads}
        method.rotary, method.rope_style, method.attention_scale, method.head_dim = rotary, "half", 1.0, d
        method.omega, method.offsets, method.freq_scale_sq = rotary.inv_freq, offsets.double(), torch.ones(half)
        method.num_attention_heads, method.num_key_value_heads = heads, kv_heads
        method.num_key_value_groups, method.cache_positions_per_layer_perhead = heads // kv_heads, None
        method.absolute_position, method.normalize_scores, method.generator = now, True, None
        method.score_aggregation, method.disable_mlr, method.disable_trig = "mean", False, False
        held = torch.arange(now)
        entries = tuple((case.k[l].double().transpose(0, 1)[None], None) for l in range(layers))
        kept = method._select_per_layer_perhead_independent(entries, budget, 0, held)
        for l in range(layers):
            for h in range(kv_heads):
                result.add(ours["steps"][-1]["kept"][l][h], kept[l, h].tolist())
    result.note = "per_layer_perhead_pruning, one eviction with the whole prompt to choose from; the script turns the centres"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kvcull", default="build/kvcull")
    parser.add_argument("--checkouts", required=True)
    parser.add_argument("--only", default=",".join(REPOSITORIES))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    failed = False
    print(f"{'method':<13}{'commit':<10}{'lists':>7}{'entries':>9}{'differ':>8}{'output':>9}  what was compared")
    for name in options.only.split(","):
        folder = os.path.join(options.checkouts, REPOSITORIES[name][0])
        if not os.path.isdir(folder):
            print(f"{name:<13}skipped: no clone of {REPOSITORIES[name][1]} at {folder}")
            continue
        commit = subprocess.run(["git", "-C", folder, "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                                check=True).stdout.strip()
        result = Result()
        for seed in range(options.rounds):
            globals()[name](folder, options.kvcull, 1000 + seed, result)
        failed |= result.differing > 0
        output = f"{result.worst:.1e}" if result.worst else "-"
        print(f"{name:<13}{commit:<10}{result.lists:>7}{result.entries:>9}{result.differing:>8}{output:>9}  {result.note}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
