#!/usr/bin/env python3
"""Compares kvcull with kvpress, a library of many methods published since 2024, on random tensors.

    pip install --no-deps --target DIR kvpress
    tools/compare_kvpress.py --kvcull build/kvcull --kvpress DIR [--only NAME,..] [--rounds N]

Needs torch, transformers, numpy and safetensors; kvpress's other dependencies are not used. As in compare_authors.py, a
case is one file of random queries, keys and values. A press (kvpress's name for a method) compresses it in float32, and
so does `kvcull replay`. The positions kept are compared as sets, head by head. The result names the settings that were
necessary for both to agree. torch leaves the order of equal scores open; here the lower position comes first.
compare_kvpress_model.py compares whole models, with rotation and output projections.
"""
import argparse
import contextlib
import glob
import importlib
import math
import os
import sys
import tempfile
import types
from unittest import mock

import torch

from compare_authors import Case, Result


def press(folder, file, name):
    """Returns a press class without kvpress's own __init__, which imports unused packages."""
    for package in ("kvpress", "kvpress.presses"):
        if package not in sys.modules:
            module = sys.modules[package] = types.ModuleType(package)
            module.__path__ = [os.path.join(folder, *package.split("."))]
    for missing in ("cachetools", "datasets", "fire"):
        if missing not in sys.modules:
            sys.modules[missing] = mock.MagicMock(name=missing)
    return getattr(importlib.import_module(f"kvpress.presses.{file}"), name)


def ratio(keep, n):
    """Returns the compression ratio for which kvpress's int(n * (1 - ratio)) equals `keep`."""
    return 1 - (keep + 0.5) / n


def stable_topk(scores, k, dim=-1, **ignored):
    """torch.topk, but of equal scores the lower index comes first."""
    values, indices = scores.sort(dim=dim, descending=True, stable=True)
    return torch.return_types.topk((values.narrow(dim, 0, k), indices.narrow(dim, 0, k)))


argsort = torch.Tensor.argsort


def later_first(scores, dim=-1, **ignored):
    """torch.argsort, but of equal scores the higher index comes first: it has the lower rank, and is evicted first."""
    return scores.shape[dim] - 1 - argsort(scores.flip(dim), dim=dim, stable=True)


@contextlib.contextmanager
def ordered():
    """Replaces the functions of torch that leave the order of equal scores open."""
    with mock.patch.object(torch, "topk", stable_topk), mock.patch.object(torch.Tensor, "topk", stable_topk), \
            mock.patch.object(torch.Tensor, "argsort", later_first):
        yield


def tie(case):
    """Repeats 50 entries several times. Equal entries then have equal scores, except for rounding; so a press computes
    in float64, and its scores are rounded to float32."""
    for start in range(50, case.prompt - 99, 100):
        case.k[:, start:start + 50], case.v[:, start:start + 50] = case.k[:, :50], case.v[:, :50]
    case.tied = True
    return case


class Held:
    """The entries that a press left in one layer: positions [1, H_kv, n]."""

    def __init__(self, case, l):
        self.case, self.l, self.type = case, l, torch.float64 if hasattr(case, "tied") else torch.float32
        self.position = torch.arange(case.prompt).expand(1, case.kv_heads, -1)
        hidden = case.heads * case.d
        config = types.SimpleNamespace(num_attention_heads=case.heads, num_key_value_heads=case.kv_heads,
                                       head_dim=case.d, hidden_size=hidden)
        still = lambda x, at: (torch.ones(1, at.shape[1], case.d), torch.zeros(1, at.shape[1], case.d))
        self.module = types.SimpleNamespace(config=config, head_dim=case.d, num_key_value_groups=case.group,
                                            rotary_emb=still, o_proj=types.SimpleNamespace(weight=torch.eye(hidden)))

    def append(self, row):
        self.position = torch.cat([self.position, torch.full((1, self.case.kv_heads, 1), row)], 2)

    def entries(self, tensor):
        """Returns keys or values [1, H_kv, n, d] of the entries held."""
        return torch.stack([tensor[self.l, self.position[0, h], h] for h in range(self.case.kv_heads)])[None].to(self.type)

    def attentions(self, rows):
        """Returns the causal attention [1, H, rows, n] of these rows to the entries held."""
        k = self.entries(self.case.k).repeat_interleave(self.case.group, 1)
        q = self.case.q[self.l, rows].transpose(0, 1)[None].to(self.type)
        hidden = self.position.repeat_interleave(self.case.group, 1)[:, :, None] > torch.tensor(rows)[:, None]
        return (q @ k.transpose(2, 3) / math.sqrt(self.case.d)).masked_fill(hidden, float("-inf")).softmax(-1)

    def compress(self, chosen, attentions=None):
        """Lets the press score the entries held and evict some. Positions are passed as values, so the result
        shows which entries remain; it is sorted, because presses order entries by score."""
        k, v = self.entries(self.case.k), self.entries(self.case.v)
        states = torch.arange(k.shape[2], dtype=torch.float32).view(1, -1, 1)  # row numbers, for queries_of
        scorer = chosen if hasattr(chosen, "score") else chosen.press
        still = torch.ones(1, k.shape[2], self.case.d), torch.zeros(1, k.shape[2], self.case.d)
        with ordered():
            scores = scorer.score(self.module, states, k, v, attentions, {"position_embeddings": still}).float()
        positions = self.position[..., None].float().expand_as(v).contiguous()
        with ordered(), mock.patch.object(type(scorer), "score", lambda *ignored: scores):
            _, left = chosen.compress(self.module, states, k, positions, None, {})
        self.position = left[..., 0].long().sort(-1).values

    def add_to(self, result, kept):
        for h in range(self.case.kv_heads):
            result.add(kept[self.l][h], self.position[0, h].tolist())


def compare(kvcull, case, spec, make, result):
    """Compares the prompt and the steps in which kvcull evicts. make(held) returns the press for the entries held."""
    ours, _ = case.replay(kvcull, spec)
    for l in range(case.layers):
        held = Held(case, l)
        for step in ours["steps"]:
            if step["at"] != "prompt":
                held.append(step["at"])
            held.compress(make(held))
            held.add_to(result, step["kept"])


def queries_of(held):
    """Replaces kvpress's projection: returns the queries of the rows whose numbers are in the hidden states."""
    return lambda module, states: held.case.q[held.l, states[0, :, 0].long()].transpose(0, 1)[None]


def philox(counter, seed):
    """Returns the first word of Philox4x32-10."""
    key, c = [seed & 0xFFFFFFFF, seed >> 32], list(counter)
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [b >> 32 ^ c[1] ^ key[0], b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ key[1], a & 0xFFFFFFFF]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c[0]


def random(folder, kvcull, seed, result):
    RandomPress = press(folder, "random_press", "RandomPress")

    def make(held):
        draws = [[philox((held.l, h, p, 1), seed) >> 8 for p in held.position[0, h].tolist()]
                 for h in range(held.case.kv_heads)]
        made = RandomPress(ratio(60, held.position.shape[2]))
        made.score = lambda *ignored: torch.tensor([draws], dtype=torch.float32)
        return made
    case = Case(seed, 2, 8, 2, 32, 206, 200)
    original = RandomPress.score
    compare(kvcull, case, f"random:budget=60,seed={seed}", make, result)
    assert RandomPress.score is original
    result.note = "their draws replaced by ours; the prompt and 6 decode steps"


def by_entry(folder, kvcull, seed, result, file, name, method):
    Press = press(folder, file, name)
    for heads, kv_heads, d, budget, rows, change in (
            (4, 4, 32, 60, 300, None), (8, 2, 64, 130, 300, None), (7, 1, 80, 1001, 3000, None), (7, 1, 80, 171, 700, tie)):
        case = Case(seed, 2, heads, kv_heads, d, rows + 20, rows)
        case.k += 0.5 * case.k[:, :1]  # a common direction, as in real keys
        if change:
            change(case)
        compare(kvcull, case, f"{method}:budget={budget}", lambda held: Press(ratio(budget, held.position.shape[2])),
                result)
    result.note = "the prompt and 20 decode steps, an eviction after each; up to 3,000 entries; ties"


def knorm(folder, kvcull, seed, result):
    by_entry(folder, kvcull, seed, result, "knorm_press", "KnormPress", "knorm")


def keydiff(folder, kvcull, seed, result):
    by_entry(folder, kvcull, seed, result, "keydiff_press", "KeyDiffPress", "keydiff")


def stats_file(title, rest, mean, folder=None):
    """Writes statistics of queries: mean [layers, heads, d], rest [layers, heads, any]. Returns the file's path."""
    layers, heads, d = mean.shape
    with tempfile.NamedTemporaryFile("w", suffix=".stats", dir=folder, delete=False) as file:
        print(f"kvcull query {title} 1\nmodel random\ntokens 1\nshape {layers} {heads} {d}", file=file)
        for l in range(layers):
            print(f"layer {l} rotary 0", file=file)
            for h in range(heads):
                print(*(f"{x:.9g}" for x in mean[l, h].tolist() + rest[l, h].tolist()), file=file)
    return file.name


def filters(case, seed):
    """Returns random filters [layers, H_kv, d] as kvcull has them, and their file. kvpress's have the other sign."""
    made = torch.randn(case.layers, case.kv_heads, case.d, generator=torch.Generator().manual_seed(seed))
    return made, stats_file("filters", made[..., :0], made)


def filter_press(folder, held, made, *arguments):
    chosen = press(folder, "qfilter_press", "QFilterPress")(*arguments)
    chosen.q_filters = -made
    held.module.layer_idx = held.l
    return chosen


def qfilter(folder, kvcull, seed, result):
    for heads, kv_heads, d, budget in ((4, 4, 32, 60), (8, 2, 64, 130), (7, 1, 80, 33)):
        case = Case(seed, 2, heads, kv_heads, d, 320, 300)
        made, path = filters(case, seed)
        compare(kvcull, case, f'qfilter:budget={budget},file="{path}"',
                lambda held: filter_press(folder, held, made, ratio(budget, held.position.shape[2])), result)
        os.remove(path)
    result.note = "random filters, the prompt and 20 decode steps, an eviction after each"


def dms(folder, kvcull, seed, result):
    DMSPress = press(folder, "dms_press", "DMSPress")
    KnormPress = press(folder, "knorm_press", "KnormPress")
    for heads, kv_heads, d, window in ((4, 4, 32, 40), (8, 2, 64, 1), (7, 1, 80, 299)):
        case = Case(seed, 2, heads, kv_heads, d, 300, 300)
        made, path = filters(case, seed)
        for threshold, options in (-math.sqrt(d), "scorer=knorm"), (0.5, f'file="{path}"'):
            ours, _ = case.replay(kvcull, f"dms:threshold={threshold},window={window},{options}")
            for l in range(case.layers):
                held = Held(case, l)
                scorer = filter_press(folder, held, made) if "file" in options else KnormPress()
                chosen, module = DMSPress(scorer, threshold, window), held.module
                module.layer_idx, module.masked_key_indices = l, None
                cache = types.SimpleNamespace(get_seq_length=lambda *ignored: 300)
                k, v = held.entries(case.k), held.entries(case.v)
                with mock.patch.object(sys.modules["kvpress.presses.dms_press"], "extract_keys_and_values",
                                       lambda *ignored: (k, v)):
                    chosen.forward_hook(module, [], {"hidden_states": torch.zeros(1, 300, 1), "past_key_values": cache,
                                                     "cache_position": torch.arange(300)}, [None, None])
                gone = torch.zeros(kv_heads, 300, dtype=torch.bool)
                if module.masked_key_indices is not None:
                    gone[module.masked_key_indices[1], module.masked_key_indices[2]] = True
                for h in range(kv_heads):
                    result.add(ours["steps"][0]["kept"][l][h], (~gone[h]).nonzero()[:, 0].tolist())
        os.remove(path)
    result.note = "by knorm and qfilter, the prompt only, as theirs"


def lagkv(folder, kvcull, seed, result):
    LagKVPress = press(folder, "lagkv_press", "LagKVPress")
    for rows, lag, sinks, each, change in ((300, 32, 4, 9, None), (411, 16, 0, 5, None), (529, 128, 7, 60, None),
                                           (700, 50, 0, 11, tie), (3000, 128, 4, 33, None)):
        case = Case(seed, 2, 7, 1, 80, rows, rows) if change or rows == 3000 else Case(seed, 2, 8, 2, 32, rows, rows)
        if change:
            change(case)
        parts = (rows - sinks) // lag
        fixed = rows - (parts - 1) * lag
        for scoring in "within", "across":
            budget = max(fixed + (parts - 1) * each + 1, sinks + 2 * lag)
            make = lambda held: LagKVPress(ratio(budget, rows), sinks, lag, cross_scoring=scoring == "across")
            compare(kvcull, case, f"lagkv:budget={budget},lag={lag},sinks={sinks},scoring={scoring}", make, result)
    result.note = "budgets that the partitions cannot share evenly; up to 3,000 entries; ties"


def snapkv(folder, kvcull, seed, result):
    SnapKVPress = press(folder, "snapkv_press", "SnapKVPress")
    for heads, kv_heads, d, rows, window, kernel, change in (
            (8, 2, 32, 250, 32, 7, None), (4, 4, 32, 250, 16, 5, None), (7, 1, 80, 3000, 32, 7, None),
            (7, 1, 80, 700, 32, 7, tie)):
        case, budget = Case(seed, 2, heads, kv_heads, d, rows, rows), rows // 3
        if change:
            change(case)
        ours, _ = case.replay(kvcull, f"snapkv:budget={budget},window={window},kernel={kernel},pooling=avg")
        for l in range(case.layers):
            held = Held(case, l)
            held.compress(SnapKVPress(ratio(budget, rows), window, kernel), held.attentions(range(rows - window, rows)))
            held.add_to(result, ours["steps"][0]["kept"])
    result.note = "average pooling; up to 3,000 entries; ties"


def snapkv_decode(folder, kvcull, seed, result):
    SnapKVPress = press(folder, "snapkv_press", "SnapKVPress")
    for heads, kv_heads, window, every in ((8, 2, 8, 20), (4, 4, 16, 16)):
        case = Case(seed, 2, heads, kv_heads, 32, 185, 120)
        spec = f"snapkv-decode:budget=70,window={window},every={every},kernel=5,pooling=avg"
        ours, _ = case.replay(kvcull, spec)
        for l in range(case.layers):
            held = Held(case, l)
            for i, step in enumerate(ours["steps"]):
                if i > 0:
                    held.append(step["at"])
                n = held.position.shape[2]
                if i > 0 and i % every == 0:
                    now = step["at"] + 1
                    held.compress(SnapKVPress(ratio(70, n), window, 5), held.attentions(range(now - window, now)))
                held.add_to(result, step["kept"])
    result.note = "average pooling, 65 decode steps; what is kept goes back into its order, over which votes are pooled"


def chunkkv(folder, kvcull, seed, result):
    ChunkKVPress = press(folder, "chunkkv_press", "ChunkKVPress")
    SnapKVPress = press(folder, "snapkv_press", "SnapKVPress")
    scorers = {"knorm": press(folder, "knorm_press", "KnormPress"),
               "keydiff": press(folder, "keydiff_press", "KeyDiffPress")}
    for rows, chunk, chunks in ((300, 10, 9), (320, 20, 5), (301, 7, 20)):
        case = Case(seed, 2, 4, 1, 32, rows, rows)
        case.k += 0.5 * case.k[:, :1]
        for name, Press in scorers.items():
            spec = f"chunkkv:budget={chunks * chunk},window=0,chunk={chunk},scorer={name}"
            compare(kvcull, case, spec, lambda held: ChunkKVPress(Press(ratio(chunks, rows // chunk)), chunk), result)
        window = 2 * chunk
        ours, _ = case.replay(kvcull, f"chunkkv:budget={chunks * chunk},window={window},chunk={chunk}")
        for l in range(case.layers):
            held = Held(case, l)
            chosen = ChunkKVPress(SnapKVPress(ratio(chunks, rows // chunk), window, 1), chunk)
            held.compress(chosen, held.attentions(range(rows - window, rows)))
            held.add_to(result, ours["steps"][0]["kept"])
    result.note = "one KV head (they add up the heads' scores), lengths and budgets of whole chunks"


def chunkkv_gated(folder, kvcull, seed, result):
    Gated = press(folder, "entropy_gated_chunkkv_press", "EntropyGatedChunkKVPress")
    scorers = {"knorm": press(folder, "knorm_press", "KnormPress"),
               "keydiff": press(folder, "keydiff_press", "KeyDiffPress")}
    for heads, kv_heads, rows, budget, chunk, gate in ((4, 1, 300, 90, 10, 4), (8, 2, 303, 61, 7, 1),
                                                       (14, 2, 641, 200, 20, 13), (4, 4, 96, 90, 10, 2)):
        case = Case(seed, 2, heads, kv_heads, 32, rows, rows)
        case.k += 0.5 * case.k[:, :1]
        for name, Press in scorers.items():
            if name == "knorm" or kv_heads == 1:
                spec = f"chunkkv:budget={budget},window=0,chunk={chunk},gate={gate},per=layer,scorer={name}"
                compare(kvcull, case, spec, lambda held: Gated(Press(ratio(budget, rows)), chunk, gate), result)
    result.note = "one choice per layer, partial chunks; by keydiff for one KV head only"


def expected_press(folder, held, **options):
    ExpectedAttentionPress = press(folder, "expected_attention_press", "ExpectedAttentionPress")
    module = sys.modules["kvpress.presses.expected_attention_press"]
    module.get_prerope_query_states = queries_of(held)
    return ExpectedAttentionPress(n_future_positions=3, **options)


def expected(folder, kvcull, seed, result):
    for heads, kv_heads, d, sinks, options in ((8, 2, 32, 4, {}), (4, 4, 16, 0, {"use_covariance": False}),
                                               (6, 2, 64, 7, {"use_vnorm": False}), (4, 1, 32, 4, {"epsilon": 0.01})):
        case = Case(seed, 2, heads, kv_heads, d, 300, 300)
        case.q += torch.randn(2, 1, heads, d, generator=torch.Generator().manual_seed(seed))  # a nonzero mean, as in real models
        spec = f"expected:budget=90,sinks={sinks}" + "".join(
            {"use_covariance": ",covariance=off", "use_vnorm": ",values=off"}.get(k, f",{k}={v}")
            for k, v in options.items())
        compare(kvcull, case, spec,
                lambda held: expected_press(folder, held, compression_ratio=ratio(90, 300), n_sink=sinks, **options),
                result)
    StatsPress = press(folder, "expected_attention_with_stats", "ExpectedAttentionStatsPress")
    for heads, kv_heads, d, covariance in ((8, 2, 32, True), (4, 4, 16, False)):
        case = Case(seed, 2, heads, kv_heads, d, 300, 300)
        draw = torch.Generator().manual_seed(seed)
        mean, root = torch.randn(2, heads, d, generator=draw), torch.randn(2, heads, d, d, generator=draw)
        products = root @ root.transpose(2, 3) / d
        below = torch.tril_indices(d, d)
        path = stats_file("covariances", products[..., below[0], below[1]], mean)

        def make(held):
            chosen = StatsPress(compression_ratio=ratio(90, 300), n_future_positions=3, use_covariance=covariance)
            chosen.mu, chosen.cov, held.module.layer_idx = mean, products, held.l
            return chosen
        compare(kvcull, case, f'expected:budget=90,stats="{path}",covariance={"on" if covariance else "off"}', make, result)
        os.remove(path)
    result.note = "queries that are not rotated, and stored statistics"


def criticalkv(folder, kvcull, seed, result):
    CriticalKVPress = press(folder, "criticalkv_press", "CriticalKVPress")
    SnapKVPress = press(folder, "snapkv_press", "SnapKVPress")
    scorers = {"knorm": press(folder, "knorm_press", "KnormPress"),
               "keydiff": press(folder, "keydiff_press", "KeyDiffPress")}
    for heads, kv_heads, first in ((8, 2, 0.5), (4, 4, 0.25)):
        case = Case(seed, 2, heads, kv_heads, 32, 300, 300)
        case.k += 0.5 * case.k[:, :1]
        for name, Press in scorers.items():
            compare(kvcull, case, f"criticalkv:budget=90,window=0,scorer={name},first={first}",
                    lambda held: CriticalKVPress(Press(ratio(90, 300)), first_stage_ratio=first), result)
        compare(kvcull, case, f"criticalkv:budget=90,window=0,scorer=expected,first={first}",
                lambda held: CriticalKVPress(expected_press(folder, held, compression_ratio=ratio(90, 300),
                                                            use_vnorm=False), first_stage_ratio=first), result)
        ours, _ = case.replay(kvcull, f"criticalkv:budget=90,window=16,kernel=5,pooling=avg,first={first}")
        for l in range(case.layers):
            held = Held(case, l)
            held.compress(CriticalKVPress(SnapKVPress(ratio(90, 300), 16, 5), first_stage_ratio=first),
                          held.attentions(range(300 - 16, 300)))
            held.add_to(result, ours["steps"][0]["kept"])
    result.note = "by snapkv, expected, knorm and keydiff, the identity as output projection"


def kvzip(folder, kvcull, seed, result):
    KVzipPress = press(folder, "kvzip_press", "KVzipPress")
    module_of = sys.modules["kvpress.presses.kvzip_press"]
    rows, budget = 150, 40
    for heads, kv_heads in ((8, 2), (4, 4)):
        case, again = (Case(seed + i, 2, heads, kv_heads, 32, rows, rows) for i in (0, 500))
        again.q *= torch.linspace(1, 2, kv_heads).repeat_interleave(case.group)[:, None]  # heads differ, and none becomes empty
        for l in range(case.layers):
            case.more |= {f"layers.{l}.pseudo_q": again.q[l].contiguous(),
                          f"layers.{l}.pseudo_k": again.k[l].contiguous()}
        ours, _ = case.replay(kvcull, f"kvzip:budget={budget}")
        pruned = kv_heads * (rows - budget)
        chosen = KVzipPress((pruned + 0.5) / (kv_heads * rows), layerwise=True, n_sink=0)
        chosen.context_length = chosen.end_idx = rows
        chosen.score_val = torch.zeros(case.layers, 1, kv_heads, rows)
        layers = []
        for l in range(case.layers):
            held, second = Held(case, l), Held(again, l)
            held.module.layer_idx, held.module.config._attn_implementation = l, "sdpa"
            module_of.get_prerope_query_states = queries_of(second)
            keys, values = (torch.cat([held.entries(a), held.entries(b)], 2)
                            for a, b in ((case.k, again.k), (case.v, case.v)))
            states = torch.arange(rows, dtype=torch.float32).view(1, -1, 1)
            still = torch.ones(1, rows, case.d), torch.zeros(1, rows, case.d)
            chosen.score_kvzip(held.module, states, keys, values, None, {"position_embeddings": still})
            layers.append(types.SimpleNamespace(self_attn=held.module))
        chosen.compress_post(types.SimpleNamespace(model=types.SimpleNamespace(layers=layers)))
        for l in range(case.layers):
            _, head, row = layers[l].self_attn.masked_key_indices
            for h in range(kv_heads):
                gone = set(row[head == h].tolist())
                result.add(ours["steps"][0]["kept"][l][h], [i for i in range(rows) if i not in gone])
    result.note = "one chunk, no instruction, no sinks by force, budgets within a layer, repeated rows at random"


def compactor(folder, kvcull, seed, result):
    CompactorPress = press(folder, "compactor_press", "CompactorPress")
    leverage, attention = (sys.modules[f"kvpress.presses.{name}_press"] for name in ("leverage", "non_causal_attention"))
    same = lambda *shape, **more: torch.eye(shape[-1]).expand(shape) * math.sqrt(shape[-1])
    for heads, kv_heads, d, chunk, chunks, sinks, recent, blend in (
            (8, 2, 32, 64, 5, 8, 4, None), (4, 4, 16, 256, 1, 0, 1, 0.35), (6, 2, 64, 100, 4, 3, 0, 1),
            (4, 1, 128, 128, 2, 8, 4, 0)):
        rows = sinks + chunk * chunks + recent
        budget = rows // 3
        case = Case(seed, 2, heads, kv_heads, d, rows, rows)
        case.k += torch.randn(2, 1, kv_heads, d, generator=torch.Generator().manual_seed(seed))  # a nonzero mean, as in real models
        spec = f"compactor:budget={budget},sinks={sinks},recent={recent},chunk={chunk}"

        def make(held):
            attention.get_prerope_query_states = queries_of(held)
            leverage.get_prerope_key_states = lambda module, states: held.case.k[
                held.l, states[0, :, 0].long()].transpose(0, 1)[None]
            return CompactorPress(ratio(budget, rows), sinks, recent, chunk, d,
                                  1 - budget / rows if blend is None else blend)
        with mock.patch.object(torch, "randn", same):
            compare(kvcull, case, spec + ("" if blend is None else f",blend={blend}"), make, result)
    result.note = "their random projection replaced by the identity; whole chunks; nothing is rotated"


def cap(folder, kvcull, seed, result):
    CapPress = press(folder, "cap_press", "CapPress")
    for heads, kv_heads, d, rows, sinks, tau in ((8, 2, 32, 300, 4, 5), (4, 4, 16, 700, 1, 2), (6, 2, 64, 300, 7, 0),
                                                 (7, 1, 80, 1200, 4, 20)):
        case, budget = Case(seed, 2, heads, kv_heads, d, rows, rows), rows // 3
        case.q += torch.randn(2, 1, heads, d, generator=torch.Generator().manual_seed(seed))  # a nonzero mean, as in real models

        def make(held):
            sys.modules["kvpress.presses.cap_press"].get_prerope_query_states = queries_of(held)
            return CapPress(ratio(budget, rows), tau, 3, sinks, 0)
        compare(kvcull, case, f"cap:budget={budget},sinks={sinks},tau={tau}", make, result)
    result.note = "epsilon=0; queries that are not rotated"


def block(folder, kvcull, seed, result):
    BlockPress = press(folder, "block_press", "BlockPress")
    scorers = {"knorm": press(folder, "knorm_press", "KnormPress"),
               "keydiff": press(folder, "keydiff_press", "KeyDiffPress")}
    for heads, kv_heads, rows, budget, chunk in ((4, 4, 300, 60, 20), (8, 2, 411, 128, 64), (14, 2, 150, 33, 1)):
        case = Case(seed, 2, heads, kv_heads, 32, rows, rows)
        case.k += 0.5 * case.k[:, :1]
        for name, Press in scorers.items():
            ours, _ = case.replay(kvcull, f"block:budget={budget},chunk={chunk},scorer={name}")
            for l in range(case.layers):
                held = Held(case, l)
                keys, states = held.entries(case.k), torch.zeros(1, rows, kv_heads)
                positions = held.position[..., None].float().expand_as(keys).contiguous()
                _, left = BlockPress(Press(ratio(budget, rows)), chunk).compress(held.module, states, keys, positions,
                                                                                None, {})
                held.position = left[..., 0].long().sort(-1).values
                held.add_to(result, ours["steps"][-1]["kept"])
    result.note = "budgets that are multiples of the chunk, keys that do not depend on evictions"


def first_like_others(KVComposePress):
    """Patches the press so that the first layer gets its own composite scores, as the other layers do."""
    composite = KVComposePress.compute_composite_scores

    def compute(chosen):
        composite(chosen)
        chosen.composite_scores_per_layer[0] = chosen.scores[0].sort(dim=-1, descending=True)[0].mean(0)
        chosen.composite_scores_per_layer[0, :chosen.keep_token_lower_bound] += 1e9
    return mock.patch.object(KVComposePress, "compute_composite_scores", compute)


def kvcompose(folder, kvcull, seed, result):
    KVComposePress = press(folder, "kvcompose_press", "KVComposePress")
    rows = 120
    for heads, kv_heads, budget, mean in ((8, 2, 40, True), (4, 4, 7, True), (7, 1, 60, True), (6, 3, 30, False)):
        case, again = (Case(seed + i, 3, heads, kv_heads, 32, rows, rows) for i in (0, 500))
        again.q *= torch.linspace(1, 2, 3)[:, None, None, None]  # layers differ
        for l in range(case.layers):
            case.more |= {f"layers.{l}.pseudo_q": again.q[l].contiguous(),
                          f"layers.{l}.pseudo_k": again.k[l].contiguous()}
        ours, _ = case.replay(kvcull, f"kvcompose:budget={budget},mean={'on' if mean else 'off'}")
        chosen = KVComposePress(compression_ratio=ratio(3 * budget, 3 * rows), add_mean_across_heads=mean,
                                keep_token_lower_bound=1)
        chosen.num_layers, chosen.num_att_heads, chosen.num_kv_heads, chosen.device = 3, heads, kv_heads, "cpu"
        chosen.num_kv_groups = case.group
        chosen.register_context_ids(torch.zeros(1, rows))
        for l in range(case.layers):
            keys = torch.cat([Held(case, l).entries(case.k), Held(again, l).entries(again.k)], 2)
            logits = again.q[l].transpose(0, 1)[None] @ keys.repeat_interleave(case.group, 1).transpose(2, 3)
            hidden = torch.ones(rows, 2 * rows, dtype=torch.bool).triu(rows + 1)
            weights = (logits / math.sqrt(case.d)).masked_fill(hidden, float("-inf")).softmax(-1)
            chosen.forward_hook(types.SimpleNamespace(layer_idx=l), [], {}, [None, weights])
        with first_like_others(KVComposePress):
            chosen.prepare_important_masks()
        for l in range(case.layers):
            for h in range(kv_heads):
                result.add(ours["steps"][0]["kept"][l][h],
                           chosen.important_mask_per_kv_head[l][h].nonzero()[:, 0].tolist())
    result.note = "structured, no values, the first layer like the others, repeated rows at random, a lower bound of 1"


def cur(folder, kvcull, seed, result):
    CURPress = press(folder, "cur_press", "CURPress")
    for heads, kv_heads, rows, budget, chunk in ((4, 4, 300, 60, 16), (8, 2, 411, 128, 16), (7, 1, 150, 33, 7)):
        case = Case(seed, 2, heads, kv_heads, 32, rows, rows)
        for by, kind in (("product", "kv_product"), ("mean", "kv_avg"), ("keys", "key"), ("values", "value")):
            ours, _ = case.replay(kvcull, f"cur:budget={budget},chunk={chunk},by={by}")
            made = CURPress(ratio(budget, rows), leverage_type=kind, local_window_size=chunk)
            for l in range(case.layers):
                held = Held(case, l)
                held.compress(made, None)
                held.add_to(result, ours["steps"][0]["kept"])
    result.note = "no random projection; chunks that are cut short, too"


def finch(folder, kvcull, seed, result):
    FinchPress = press(folder, "finch_press", "FinchPress")
    for heads, kv_heads, rows, budget, window, normalize in (
            (4, 4, 300, 60, 16, True), (8, 2, 411, 128, 32, True), (7, 1, 150, 33, 7, False)):
        case = Case(seed, 2, heads, kv_heads, 32, rows, rows)
        ours, _ = case.replay(kvcull, f"finch:budget={budget},window={window},normalize={'on' if normalize else 'off'}")
        made = FinchPress(ratio(budget, rows), normalize_scores=normalize, rerotate_keys=False)
        made.window_size = window
        for l in range(case.layers):
            held = Held(case, l)
            held.compress(made, held.attentions(range(rows - window, rows)))
            held.add_to(result, ours["steps"][0]["kept"])
    result.note = "one chunk, nothing is rotated"


def simlayerkv_press(folder, rows, threshold, recent, sinks):
    """Returns SimLayerKVPress for attention rows [1, H, window, n]. It has the window in the share of the last `recent`
    entries and in what a lazy layer keeps, as the paper's authors have; the original leaves it out of both."""
    SimLayerKVPress = press(folder, "simlayerkv_press", "SimLayerKVPress")
    SnapKVPress = press(folder, "snapkv_press", "SnapKVPress")

    class Whole(SimLayerKVPress):
        def is_lazy(self, *arguments):
            with mock.patch.object(SnapKVPress, "compute_window_attention", staticmethod(lambda *ignored: rows)), \
                    mock.patch.object(self, "n_recent", recent):
                return super().is_lazy(*arguments)
    return Whole(threshold, rows.shape[2], recent + rows.shape[2], sinks)


def simlayerkv(folder, kvcull, seed, result):
    for heads, kv_heads, d, rows, recent, window, sinks in (
            (4, 4, 32, 300, 64, 1, 4), (8, 2, 64, 411, 100, 16, 0), (7, 1, 80, 150, 33, 7, 1)):
        case, threshold = Case(seed, 8, heads, kv_heads, d, rows, rows), 0.97 * (sinks + recent) / rows
        ours, _ = case.replay(kvcull, f"simlayerkv:sinks={sinks},recent={recent},window={window},threshold={threshold}")
        for l in range(case.layers):
            held = Held(case, l)
            held.module.layer_idx = l
            chosen = simlayerkv_press(folder, held.attentions(range(rows - window, rows)), threshold, recent, sinks)
            left, _ = chosen.compress(held.module, None, held.position[..., None], held.position[..., None], None,
                                      {"position_embeddings": None})
            held.position = left[..., 0]
            held.add_to(result, ours["steps"][0]["kept"])
    result.note = "the window in the share and in what a lazy layer keeps"


def compare_step(case, l, kept, values, out, result, keys=None):
    """Compares the output [H, d] of the first decode step with attention over given values and given or kept keys, each
    [H_kv, n, d]."""
    for h in range(case.kv_heads):
        k = torch.cat([case.k[l, kept[h], h] if keys is None else keys[h], case.k[l, case.prompt, h][None]])
        v = torch.cat([values[h], case.v[l, case.prompt, h][None]])
        own = slice(h * case.group, (h + 1) * case.group)
        theirs = (case.q[l, case.prompt, own] @ k.T / math.sqrt(case.d)).softmax(-1) @ v
        result.lists += 1
        result.entries += len(kept[h])
        result.differing += not torch.allclose(out[own], theirs, rtol=1e-4, atol=1e-5)


def merging(folder, kvcull, seed, result):
    MergingPress = press(folder, "merging_press", "MergingPress")
    KnormPress = press(folder, "knorm_press", "KnormPress")
    for heads, kv_heads, d, budget, threshold in ((4, 4, 32, 60, 0), (8, 2, 64, 130, 0.2), (7, 1, 80, 20, 0.1)):
        case = Case(seed, 2, heads, kv_heads, d, 301, 300)
        case.k += 0.5 * case.k[:, :1]  # a common direction, as in real keys
        ours, outputs = case.replay(kvcull, f"knorm:budget={budget}+merging:threshold={threshold}")
        made = MergingPress(KnormPress(), threshold)
        for l in range(case.layers):
            kept = ours["steps"][0]["kept"][l]
            k, v = (tensor[l, :case.prompt].transpose(0, 1)[None] for tensor in (case.k, case.v))
            _, merged = made.merge(k, v, torch.tensor(kept)[None])
            compare_step(case, l, kept, [merged[0, h, kept[h]] for h in range(kv_heads)], outputs[l][0], result)
    result.note = "outputs of the first step, to 1e-4; knorm evicts, and its choice is taken from ours"


def cam(folder, kvcull, seed, result):
    CAMPress = press(folder, "cam_press", "CAMPress")
    KnormPress = press(folder, "knorm_press", "KnormPress")
    for heads, d, budget, span in ((1, 32, 60, 32), (4, 64, 130, 7), (7, 80, 200, 1)):
        case = Case(seed, 2, heads, 1, d, 301, 300)
        ours, outputs = case.replay(kvcull, f"knorm:budget={budget}+cam:prompt=merge,span={span},seed={seed}")
        for l in range(case.layers):
            kept = ours["steps"][0]["kept"][l][0]
            gone = [i for i in range(case.prompt) if i not in kept]
            draws = torch.tensor([(philox((l, 0, i, 2), seed) >> 8) / 2**24 for i in gone])
            held = Held(case, l)
            made = CAMPress(KnormPress(), 1, budget, 0, span)
            made.base_press.score = lambda *ignored: torch.tensor([[[float(i in kept) for i in range(case.prompt)]]])
            made.layer_step_counts[l] = len(gone)
            held.module.layer_idx = l
            attentions = held.attentions(list(range(case.prompt))).sum(2).mean(1, keepdim=True)
            made._running_attn_sum[l] = attentions
            with mock.patch.object(torch, "bernoulli", lambda p: (draws < p).float()):
                _, merged = made.compress(held.module, None, held.entries(case.k), held.entries(case.v).contiguous(),
                                          attentions, {})
            compare_step(case, l, [kept], [merged[0, 0]], outputs[l][0], result)
    result.note = "outputs of the first step, to 1e-4; one KV head, our choice of entries, their draws replaced by ours"


def think(folder, kvcull, seed, result):
    ThinKPress = press(folder, "think_press", "ThinKPress")
    for heads, kv_heads, d, channels, window, recent in ((4, 4, 64, 25, 32, 0), (8, 2, 128, 77, 32, 32), (7, 1, 80, 10, 8, 0)):
        case = Case(seed, 2, heads, kv_heads, d, 301, 300)
        ours, outputs = case.replay(kvcull, f"think:channels={channels},window={window},recent={recent}")
        for l in range(case.layers):
            held, queries = Held(case, l), case.q[l, case.prompt - window:case.prompt].transpose(0, 1)[None]
            with mock.patch.object(ThinKPress, "compute_window_queries", lambda *ignored: queries):
                keys, values = ThinKPress((channels + 0.5) / d, window).compress(
                    held.module, None, held.entries(case.k), held.entries(case.v), None,
                    {"hidden_states": None, "position_embeddings": None})
            end = case.prompt - recent
            keys[:, :, end:] = held.entries(case.k)[:, :, end:]
            compare_step(case, l, ours["steps"][0]["kept"][l], values[0], outputs[l][0], result, keys[0])
    result.note = "outputs of the first step, to 1e-4; the last 32 keys are made whole again in one of three cases"


PRESSES = ("random", "knorm", "keydiff", "lagkv", "snapkv", "snapkv-decode", "chunkkv", "chunkkv-gated", "expected",
           "qfilter", "dms", "criticalkv", "compactor", "kvzip", "block", "kvcompose", "merging", "cam", "cur", "finch",
           "cap", "think", "simlayerkv")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kvcull", default="build/kvcull")
    parser.add_argument("--kvpress", required=True, help="the folder into which pip installed kvpress")
    parser.add_argument("--only", default=",".join(PRESSES))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    found = glob.glob(os.path.join(options.kvpress, "kvpress-*.dist-info"))
    version = os.path.basename(found[0]).split("-")[1].removesuffix(".dist") if found else "of no known version"
    print(f"kvpress {version}")
    failed = False
    print(f"{'method':<16}{'lists':>7}{'entries':>9}{'differ':>8}  what was compared")
    for name in options.only.split(","):
        result = Result()
        for seed in range(options.rounds):
            globals()[name.replace("-", "_")](options.kvpress, options.kvcull, 1000 + seed, result)
        failed |= result.differing > 0
        print(f"{name:<16}{result.lists:>7}{result.entries:>9}{result.differing:>8}  {result.note}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
