#!/usr/bin/env python3
"""Compares kvcull with kvpress on whole models, from the tokens to the positions kept.

    kvcull convert MODEL -o FOLDER/ --type f32
    kvcull collect -m FOLDER -f TEXT -o FILTERS --for qfilter
    PYTHONPATH=python tools/compare_kvpress_model.py --kvpress DIR [--model FOLDER [--filters FILTERS]] [--only NAME,..]

transformers and kvcull load the same folder and read the same tokens, both in float32. kvpress's presses (its methods)
run where its own hook would run them, with the hidden states, keys, rotation and output projection of that layer.
Without --model, the models have random weights: heads of 80 channels in groups of 7, and two others. The prompts are
--prompts parts of tests/real/prose.txt, with --tokens tokens, 260 at least. compare_kvpress_steps.py compares methods
that need more than one pass of the model.

Both sides round differently, so an entry at the border may be on different sides of it. Of the entries that differ,
`rounding` counts those whose score is within 1e-4 of the border, relative to the border or to the scores' median
deviation. `differ` counts the others. Equal scores are common, too, and torch.topk leaves their order open; here a
stable sort replaces it, which takes the lower position first.
"""
import argparse
import contextlib
import logging
import math
import os
import sys
import tempfile
from unittest import mock

import torch
import transformers

import fastkvzip_file
import kvcull
from compare_kvpress import ordered, press, ratio, simlayerkv_press, stats_file

TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "real", "prose.txt")


@contextlib.contextmanager
def not_eager(config):
    """Lets presses run that refuse eager attention, which only gives ObservedAttentionPress its probabilities."""
    config._attn_implementation = "sdpa"
    try:
        yield
    finally:
        config._attn_implementation = "eager"


class Layer:
    """What kvpress's hook gives to a press, for one layer and one prompt."""

    def __init__(self, module, hidden, keys, values, attentions, kwargs):
        self.module, self.hidden, self.keys, self.values = module, hidden, keys, values
        self.attentions, self.kwargs, self.n = attentions, kwargs, keys.shape[2]
        self.scores = None

    def heads(self, chosen, attentions=None):
        """Returns the positions that the press keeps, head by head: positions take the place of the values when it
        has computed its scores."""
        scorer = chosen if hasattr(chosen, "score") else chosen.press
        with ordered(), mock.patch.object(torch, "randn", identity):
            scores = scorer.score(self.module, self.hidden, self.keys, self.values, attentions, self.kwargs)
            self.scores = scores.clone()
            positions = torch.arange(self.n, dtype=torch.float32)[None, None, :, None].expand_as(self.values)
            self.module.masked_key_indices = None
            with mock.patch.object(type(scorer), "score", lambda *ignored: scores), \
                    not_eager(self.module.config):
                _, left = chosen.compress(self.module, self.hidden, self.keys, positions.contiguous(), None,
                                          self.kwargs)
        if self.module.masked_key_indices is None:
            return [sorted(head[:, 0].long().tolist()) for head in left[0]]
        return kept_of(self.module, self.keys.shape[1], self.n)

    def each(self, chosen):
        """As `heads`, one KV head after the other: for presses that add up the heads' scores."""
        scores = chosen.press.score(self.module, self.hidden, self.keys, self.values, None, self.kwargs)
        lists = []
        for head in range(self.keys.shape[1]):
            self.scores = scores[:, head:head + 1].clone()
            part = Layer(self.module, self.hidden, self.keys[:, head:head + 1], self.values[:, head:head + 1], None, {})
            with mock.patch.object(type(chosen.press), "score", lambda *ignored: scores[:, head:head + 1]):
                lists += part.heads(chosen)
        self.scores = scores
        return lists


def kept_of(module, heads, n):
    """Returns the positions that a press has not marked as evicted."""
    _, head, row = module.masked_key_indices or (None, torch.zeros(0), torch.zeros(0))
    gone = [set(row[head == h].tolist()) for h in range(heads)]
    module.masked_key_indices = None
    return [[i for i in range(n) if i not in gone[h]] for h in range(heads)]


def identity(*shape, **ignored):
    """The projection of LeverageScorePress for which leverage is that of the keys themselves."""
    return torch.eye(shape[-1]).expand(shape) * math.sqrt(shape[-1])


class Method:
    """One method with its options on both sides. keep(layer) returns the positions that kvpress keeps, head by head."""

    def __init__(self, name, spec, keep, note=""):
        self.name, self.spec, self.keep, self.note = name, spec, keep, note
        self.lists = self.entries = self.differ = self.rounding = 0
        self.worst = 0.0

    def add(self, scores, ours, theirs):
        """Compares the lists of one layer. scores: theirs [H_kv, n]."""
        shared = len({len(kept) for kept in theirs}) > 1  # heads share a budget, so the border is that of the layer
        borders = [min(float(scores[h, i]) for i in kept) for h, kept in enumerate(theirs)]
        for h, kept in enumerate(theirs):
            self.lists += 1
            self.entries += len(kept)
            border = min(borders) if shared else borders[h]
            spread = float((scores[h] - scores[h].median()).abs().median())
            for i in set(kept) ^ set(ours[h]):
                gap = abs(float(scores[h, i]) - border) / max(abs(border), spread)
                self.worst = max(self.worst, gap)
                self.differ += gap > 1e-4
                self.rounding += gap <= 1e-4


def methods(folder, n):
    """Returns the methods, for prompts of n tokens."""
    make = lambda file, name: press(folder, file + "_press", name)
    budget, window = int(0.37 * n), 32
    r = ratio(budget, n)
    snap = lambda **options: make("snapkv", "SnapKVPress")(r, window, 7, **options)
    scorer = {"knorm": make("knorm", "KnormPress"), "keydiff": make("keydiff", "KeyDiffPress")}
    expect = lambda **options: make("expected_attention", "ExpectedAttentionPress")(r, **options)
    plain = lambda chosen: lambda layer: layer.heads(chosen)
    snapkv = f"window={window},kernel=7,pooling=avg"
    all_methods = [Method(name, f"{name}:budget={budget}", plain(made(r))) for name, made in scorer.items()]
    all_methods += [
        Method("streaming", f"streaming:budget={budget}", plain(make("streaming_llm", "StreamingLLMPress")(r))),
        Method("snapkv", f"snapkv:budget={budget},{snapkv}", plain(snap())),
        Method("pyramidkv", f"pyramidkv:budget={budget + window},{snapkv},beta=3",
               pyramid(make, 1 - budget / n, window),
               "the window in addition to their budgets; beta=3, for which they do not fall back to equal budgets"),
        Method("adakv", f"adakv:budget={budget},{snapkv},floor=0", plain(make("adakv", "AdaKVPress")(snap(), 0)),
               "alpha_safeguard=0 and floor=0"),
        Method("tova", f"tova:budget={budget}", plain(make("tova", "TOVAPress")(r))),
        Method("h2o", f"h2o:budget={budget},recent=1", observed(make, r),
               "their sums not divided by the number of queries; the last entry kept"),
        Method("expected", f"expected:budget={budget}", plain(expect())),
        Method("expected", f"expected:budget={budget},covariance=off,values=off,future=64,sinks=7",
               plain(expect(n_future_positions=64, n_sink=7, use_covariance=False, use_vnorm=False))),
        Method("cap", f"cap:budget={budget}", plain(make("cap", "CapPress")(r, epsilon=0)), "epsilon=0"),
        Method("criticalkv", f"criticalkv:budget={budget},{snapkv}",
               plain(make("criticalkv", "CriticalKVPress")(snap()))),
        Method("criticalkv", f"criticalkv:budget={budget},scorer=expected,window=0,first=0.25",
               plain(make("criticalkv", "CriticalKVPress")(expect(use_vnorm=False), first_stage_ratio=0.25))),
    ]
    for lag, scoring in ((n // 8, "within"), (n // 16, "within"), (n // 16, "across")):
        all_methods.append(Method("lagkv", f"lagkv:budget={budget},lag={lag},scoring={scoring}",
                                  plain(make("lagkv", "LagKVPress")(r, 4, lag, scoring == "across"))))
    for name, per in (("knorm", "group"), ("keydiff", "group"), ("knorm", "layer")):
        all_methods.append(ChunkKV(budget, 7, name, per, make("chunkkv", "ChunkKVPress")(scorer[name](r), 7), n))
    gated = make("entropy_gated_chunkkv", "EntropyGatedChunkKVPress")(scorer["knorm"](r), 10, 4)
    spec = f"chunkkv:budget={budget},window=0,chunk=10,scorer=knorm,per=layer,gate=4"
    all_methods.append(Method("chunkkv-gate", spec, plain(gated)))
    return all_methods + compactor(make, r, n, budget) + cur(make, r, budget) + finch(make, n) + simlayerkv(folder, n)


def pyramid(make, r, window):
    PyramidKVPress = make("pyramidkv", "PyramidKVPress")

    class Wider(PyramidKVPress):
        def get_layer_budget(self, module, q_len):
            return super().get_layer_budget(module, q_len) + self.window_size
    return lambda layer: layer.heads(Wider(r, window, 7, 3))


def observed(make, r):
    ObservedAttentionPress = make("observed_attention", "ObservedAttentionPress")

    class Sums(ObservedAttentionPress):
        def score(self, *arguments):
            scores = super().score(*arguments)
            scores *= torch.arange(scores.shape[-1], 0, -1)
            scores[..., -1] = scores.max() + 1
            return scores
    return lambda layer: layer.heads(Sums(r), layer.attentions)


class Threshold(Method):
    """A method with a threshold, which is the border: dms and simlayerkv."""

    def __init__(self, name, spec, keep, threshold, note):
        super().__init__(name, spec, keep, note)
        self.threshold = threshold

    def add(self, scores, ours, theirs):
        self.lists += len(theirs)
        self.entries += sum(map(len, theirs))
        for h, kept in enumerate(theirs):
            for i in set(kept) ^ set(ours[h]):
                gap = abs(float(scores[h, i]) - self.threshold)
                self.worst = max(self.worst, gap)
                self.differ += gap > 1e-4
                self.rounding += gap <= 1e-4


class Gates(Method):
    """fastkvzip. Their lists and scores, layer by layer, are in `kept`; the lists of several layers share a border."""

    def __init__(self, spec, kept, shared):
        super().__init__("fastkvzip", spec, None, "random gates; of equal scores they evict the lower position")
        self.kept, self.shared = kept, shared

    def border(self, lists, scores):
        return min(float(scores[0, h, i]) for h, list_ in enumerate(lists) for i in list_)

    def add(self, scores, ours, theirs):
        border = min(self.border(*layer) for layer in self.kept) if self.shared else self.border(theirs, scores[None])
        for h, kept in enumerate(theirs):
            self.lists += 1
            self.entries += len(kept)
            for i in set(kept) ^ set(ours[h]):
                gap = abs(float(scores[h, i]) - border) / border
                self.worst = max(self.worst, gap)
                self.differ += gap > 1e-4
                self.rounding += gap <= 1e-4


class ChunkKV(Method):
    """chunkkv. Where their last, shorter chunk is among the chunks kept, they keep fewer entries; kvcull
    fills the budget with the first entries of one more chunk, which are left out here."""

    def __init__(self, budget, chunk, scorer, per, chosen, n):
        chunks = max(1, int(math.ceil(n / chunk) * (1 - chosen.compression_ratio)))
        super().__init__("chunkkv", f"chunkkv:budget={chunks * chunk},window=0,chunk={chunk},scorer={scorer},per={per}",
                         lambda layer: layer.heads(chosen) if per == "layer" else layer.each(chosen),
                         "head by head, and per=layer; a short last chunk is not made up for")
        self.chunk = chunk

    def add(self, scores, ours, theirs):
        same = [[i for i in kept if i // self.chunk in {j // self.chunk for j in theirs[h]}]
                if len(theirs[h]) < len(kept) else kept for h, kept in enumerate(ours)]
        super().add(scores, same, theirs)


def compactor(make, r, n, budget):
    """compactor, and its two parts by themselves."""
    CompactorPress, attention = make("compactor", "CompactorPress"), make("non_causal_attention", "NonCausalAttnPress")
    leverage = make("leverage", "LeverageScorePress")
    padded = attention.non_causal_chunked_attn

    def whole(q, k, size):
        """Their attention over the whole chunks, and over the last one with its own length, so that nothing is added to
        fill it up."""
        end = k.shape[-2] // size * size
        parts = [padded(q[..., a:b, :], k[..., a:b, :], b - a if a else size)
                 for a, b in ((0, end), (end, k.shape[-2])) if a < b]
        return torch.cat(parts, -1)

    def filled(chosen, chunked):
        def keep(layer):
            chosen.sketch_dimension = layer.module.head_dim
            with mock.patch.object(attention, "non_causal_chunked_attn", staticmethod(chunked)):
                return layer.heads(chosen)
        return keep
    spec = f"compactor:budget={budget}"
    blend = 1 - budget / n
    made = lambda chunk=256: CompactorPress(r, chunk_size=chunk, blending=blend)
    return [
        Method("compactor", spec, filled(made(), whole),
               "their projection replaced by the identity; the last chunk is not filled up"),
        Method("compactor", f"{spec},chunk=100", filled(made(100), whole)),
        Method("compactor-filled", spec, filled(made(), padded), "as before, but the last chunk is filled up"),
        Method("leverage", f"leverage:budget={budget},sinks=0,recent=0", filled(leverage(r), padded),
               "their projection replaced by the identity"),
        Method("noncausal", f"noncausal:budget={budget},sinks=0,recent=0", filled(attention(r), whole),
               "the last chunk is not filled up"),
    ]


def cur(make, r, budget):
    CURPress, made = make("cur", "CURPress"), []
    for by, kind in (("product", "kv_product"), ("mean", "kv_avg"), ("keys", "key"), ("values", "value")):
        for chunk in (16, 0) if by == "product" else (16,):
            chosen = CURPress(r, leverage_type=kind, use_local_approximation=chunk > 0)
            made.append(Method("cur", f"cur:budget={budget},chunk={chunk},by={by}",
                               lambda layer, one=chosen: layer.heads(one), "no random projection"))
    return made


class Chunks(Method):
    """finch with chunks. The window, which takes space from their last chunk, is left out, so that `older` entries are
    compared. Each chunk has its own border."""

    def __init__(self, spec, keep, older, chunk):
        super().__init__("finch-chunk", spec, keep, "the window left out, chunks whose shares are whole numbers")
        self.older, self.chunk = older, chunk

    def add(self, scores, ours, theirs):
        starts = range(0, self.older, self.chunk)
        for start in starts:
            part = lambda lists: [[i for i in kept if start <= i < start + self.chunk] for kept in lists]
            super().add(scores, part(ours), part(theirs))
        self.lists -= (len(starts) - 1) * len(theirs)


def counted(attentions):
    """Returns attentions [1, H, n, n] multiplied by (i + 1) / i for query i. FinchPress then multiplies by i, which is
    the number of entries without the query's own."""
    rows = torch.arange(attentions.shape[2])
    return attentions * ((rows + 1) / rows.clamp(min=1))[:, None]


def finch(make, n):
    FinchPress, budget, made = make("finch", "FinchPress"), int(0.37 * n), []

    def keep(window, attentions, *options):
        chosen = FinchPress(*options, rerotate_keys=False)
        chosen.window_size = window
        return lambda layer: layer.heads(chosen, attentions(layer.attentions))
    for name, normalize, attentions, note in (
            ("finch", "on", counted, "n_i with the query's own entry"), ("finch", "off", lambda rows: rows, ""),
            ("finch-theirs", "on", lambda rows: rows, "n_i without the query's own entry")):
        made.append(Method(name, f"finch:budget={budget},window=32,normalize={normalize}",
                           keep(32, attentions, ratio(budget, n), None, normalize == "on"), note))
    window = 20 + n % 4
    chunk = (n - window) // 4
    each = int(0.37 * chunk)
    made.append(Chunks(f"finch:budget={4 * each + window},window={window},chunk={chunk}",
                       keep(window, counted, ratio(each, chunk), chunk), 4 * chunk, chunk))
    return made


def simlayerkv(folder, n):
    sinks, recent, made = 4, 64, []

    def keep(threshold, window):
        def lists(layer):
            rows = layer.attentions[..., -window:, :]
            chosen = simlayerkv_press(folder, rows, threshold, recent, sinks)
            positions = torch.arange(n)[None, None, :, None].expand(*layer.keys.shape[:2], -1, 1)
            left, _ = chosen.compress(layer.module, layer.hidden, positions, positions, None, layer.kwargs)
            share = rows.mean((0, 1, 2))
            layer.scores = (share[:sinks].sum() + share[-recent:].sum()).expand(1, layer.keys.shape[1], n)
            return left[0, ..., 0].tolist()
        return lists
    for threshold, window in ((0.5, 1), (0.75, 16), (round((sinks + recent) / n, 6), 1)):
        made.append(Threshold("simlayerkv", f"simlayerkv:sinks={sinks},recent={recent},window={window},"
                              f"threshold={threshold}", keep(threshold, window), threshold,
                              "the window in the share and in what a lazy layer keeps"))
    return made


def qfilter(folder, config, n, parent, file):
    """Returns qfilter with the filters of `file` or, without, random ones."""
    shape = config.num_hidden_layers, config.num_key_value_heads, config.head_dim
    note = "filters of collect" if file else "random filters"
    if file:
        with open(file, encoding="utf-8") as lines:
            rows = [line.split() for line in list(lines)[4:] if not line.startswith("layer")]
        made = torch.tensor([list(map(float, row)) for row in rows]).view(shape)
    else:
        made = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        file = stats_file("filters", made[..., :0], made, parent)
    budget = int(0.37 * n)
    chosen = press(folder, "qfilter_press", "QFilterPress")(ratio(budget, n))
    chosen.q_filters = -made
    return [Method("qfilter", f"qfilter:budget={budget},file={file}", lambda layer: layer.heads(chosen), note)]


def kvzip(folder, model, ids, budget):
    """Returns what KVzipPress keeps and its scores, layer by layer, if the context is repeated without an
    instruction."""
    n, heads, layers = ids.shape[1], model.config.num_key_value_heads, model.model.layers
    pruned = (heads * (n - budget) + 0.5) / (heads * n)
    chosen = press(folder, "kvzip_press", "KVzipPress")(pruned, layerwise=True, n_sink=0)
    chosen.context_length = chosen.end_idx = n
    chosen.score_val = torch.zeros(len(layers), 1, heads, n)
    cache = transformers.DynamicCache()
    model.model(ids, past_key_values=cache)
    hooks = [layer.self_attn.register_forward_hook(chosen.forward_hook, with_kwargs=True) for layer in layers]
    model.model(ids, past_key_values=cache)
    for hook in hooks:
        hook.remove()
    with ordered(), not_eager(model.config):
        chosen.compress_post(model)
    return [(kept_of(layer.self_attn, heads, n), chosen.score_val[l]) for l, layer in enumerate(layers)]


def kvzap(folder, model, n, parent):
    """Returns kvzap, and dms with its scores, each with random networks of both forms. They are written to `parent`."""
    KVzapPress, DMSPress = press(folder, "kvzap_press", "KVzapPress"), press(folder, "dms_press", "DMSPress")
    KVzapModel, KVzapConfig = (press(folder, "kvzap_press", name) for name in ("KVzapModel", "KVzapConfig"))
    config, made, budget = model.config, [], int(0.37 * n)
    for inner in None, 48:
        file = os.path.join(parent, f"kvzap-{inner}")
        networks = KVzapModel(KVzapConfig(input_dim=config.hidden_size, output_dim=config.num_key_value_heads,
                                          hidden_dim=inner, n_modules=config.num_hidden_layers))
        with torch.no_grad():
            for weight in networks.parameters():
                weight.normal_(0, weight.shape[-1] ** -0.5)
        networks.save_pretrained(file)

        def chosen(keep, networks=networks):
            result = KVzapPress()
            result.kvzap_model, result.compression_ratio = networks, keep
            return result

        def evicted(layer, scorer=chosen(0)):
            """Returns what DMSPress does not mark as evicted."""
            kwargs = {**layer.kwargs, "hidden_states": layer.hidden, "cache_position": torch.arange(n)}
            layer.scores = scorer.score(layer.module, layer.hidden, None, None, None, kwargs)
            layer.module.masked_key_indices = None
            with mock.patch.object(sys.modules["kvpress.presses.dms_press"], "extract_keys_and_values",
                                   lambda *ignored: (layer.keys, layer.values)):
                DMSPress(scorer, 0.25, 100).forward_hook(layer.module, [], kwargs, [None, None])
            return kept_of(layer.module, layer.keys.shape[1], n)
        made += [Method("kvzap", f"kvzap:budget={budget},file={file}",
                        lambda layer, one=chosen(ratio(budget, n)): layer.heads(one), "random networks of both forms"),
                 Threshold("dms", f"dms:scorer=kvzap,threshold=0.25,window=100,file={file}", evicted, 0.25,
                           "the scores of kvzap")]
    return made


def fastkvzip(folder, model, ids, parent):
    """Returns fastkvzip with random gates, whose file is written to `parent`: for all layers together, and layer by
    layer."""
    FastKVzipGate, FastKVzipPress = (press(folder, "fastkvzip_press", name) for name in
                                     ("FastKVzipGate", "FastKVzipPress"))
    config, layers, n = model.config, model.model.layers, ids.shape[1]
    heads, budget, file = config.num_key_value_heads, int(0.37 * n), os.path.join(parent, "gates.pt")
    gates = [FastKVzipGate(l, config.hidden_size, heads, config.num_attention_heads // heads, torch.float32)
             for l in range(len(layers))]
    for parameter in (parameter for gate in gates for parameter in gate.parameters()):
        parameter.data.normal_(0, parameter.shape[-1] ** -0.5 if parameter.dim() == 2 else 1)
    torch.save({"module": [gate.state_dict() for gate in gates]}, file)
    fastkvzip_file.write(fastkvzip_file.read(file), file + ".safetensors")
    hidden = {}
    hooks = [layer.self_attn.register_forward_hook(
        lambda module, inputs, kwargs, output: hidden.update({module: kwargs["hidden_states"]}), with_kwargs=True)
        for layer in layers]
    model.model(ids)
    for hook in hooks:
        hook.remove()
    made = []
    for per, lists in (("model", len(layers) * heads), ("layer", heads)):
        chosen = FastKVzipPress((lists * (n - budget) + 0.5) / (lists * n), layerwise=per == "layer")
        chosen.gates, chosen.score_val = gates, [None] * len(layers)
        for layer in layers:
            chosen._score_fast(layer.self_attn, hidden[layer.self_attn])
        with ordered(), not_eager(config):
            chosen.compress_post(model)
        kept = [(kept_of(layer.self_attn, heads, n), chosen.score_val[l]) for l, layer in enumerate(layers)]
        made.append(Gates(f"fastkvzip:budget={budget},per={per},file={file}.safetensors", kept, per == "model"))
    return made


def run(options, models, ids, only, parent):
    """Compares all methods for one prompt. models: those of transformers and of kvcull."""
    (theirs, ours), folder = models, options.kvpress
    layers, n = theirs.model.layers, ids.shape[1]
    made = methods(folder, n) + kvzap(folder, theirs, n, parent)
    made += qfilter(folder, theirs.config, n, parent, options.filters)
    wanted = [m for m in made if not only or m.name in only]
    kept = {m: [] for m in wanted}

    def hook(module, inputs, kwargs, output):
        cache = kwargs["past_key_values"].layers[module.layer_idx]
        layer = Layer(module, kwargs["hidden_states"], cache.keys, cache.values, output[1], kwargs)
        for method in wanted:
            lists = method.keep(layer)
            kept[method].append((lists, layer.scores))
    hooks = [layer.self_attn.register_forward_hook(hook, with_kwargs=True) for layer in layers]
    for layer in layers:
        layer.self_attn.rotary_emb = theirs.model.rotary_emb
    with torch.no_grad():
        theirs.model(ids, past_key_values=transformers.DynamicCache())
        for h in hooks:
            h.remove()
        if not only or "kvzip" in only:
            budget = int(0.37 * n)
            wanted.append(Method("kvzip", f"kvzip:budget={budget}", None,
                                 "no instruction, no sinks by force, budgets within a layer"))
            kept[wanted[-1]] = kvzip(folder, theirs, ids, budget)
        if not only or "fastkvzip" in only:
            for method in fastkvzip(folder, theirs, ids, parent):
                wanted.append(method)
                kept[method] = method.kept
    for method in wanted:
        with kvcull.Session(ours, method.spec, cache_type="f32") as session:
            session.prompt(ids[0].numpy())
            for l, (lists, scores) in enumerate(kept[method]):
                method.add(scores[0], [session.positions(l, h).tolist() for h in range(len(lists))], lists)
    return wanted


def random_folder(parent, heads, kv_heads, d, seed):
    """Writes a model with random weights and a tokenizer of 256 bytes. Returns its folder."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    folder = os.path.join(parent, f"{heads}-{kv_heads}-{d}")
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=len(letters), hidden_size=heads * d, num_attention_heads=heads, num_key_value_heads=kv_heads,
        head_dim=d, intermediate_size=64, num_hidden_layers=3, max_position_embeddings=8192, initializer_range=0.03,
        bos_token_id=0, eos_token_id=1)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=letters[1]).save_pretrained(folder)
    return folder


def both(folder):
    """Opens a folder with transformers and with kvcull."""
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    return theirs.eval(), kvcull.Model(folder, math="float")


def main(about, run):
    """Compares all methods of `run` for all models and prompts. about: the tool's description."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--kvpress", required=True, help="the folder into which pip installed kvpress")
    parser.add_argument("--model", help="a Hugging Face folder; default: models with random weights")
    parser.add_argument("--filters", help="the model's filters, for qfilter; default: random filters")
    parser.add_argument("--only", default="")
    parser.add_argument("--prompts", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=701)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    done = []
    with tempfile.TemporaryDirectory() as parent:
        folders = [options.model] if options.model else [
            random_folder(parent, *shape, i) for i, shape in enumerate(((7, 1, 80), (14, 2, 80), (4, 4, 32)))]
        for folder in folders:
            models = both(folder)
            text = models[1].tokenize(open(TEXT, encoding="utf-8").read(), bos=False)
            for i in range(options.prompts):
                tokens = torch.from_numpy(text[i * options.tokens:][:options.tokens].copy()).long()
                done += run(options, models, tokens[None], set(filter(None, options.only.split(","))), parent)
    print(f"{'method':<20}{'lists':>7}{'entries':>9}{'differ':>8}{'rounding':>9}{'worst':>9}  what was compared")
    for name in dict.fromkeys(m.name for m in done):
        same = [m for m in done if m.name == name]
        total = lambda field: sum(getattr(m, field) for m in same)
        notes = "; ".join(dict.fromkeys(m.note for m in same if m.note))
        print(f"{name:<20}{total('lists'):>7}{total('entries'):>9}{total('differ'):>8}{total('rounding'):>9}"
              f"{max(m.worst for m in same):>9.1e}  {notes}", flush=True)
    sys.exit(1 if any(m.differ for m in done) else 0)


if __name__ == "__main__":
    main(__doc__, run)
