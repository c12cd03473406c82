#!/usr/bin/env python3
"""Compares kvcull with kvpress on whole models, for methods that need more than one pass of the model.

    PYTHONPATH=python tools/compare_kvpress_steps.py --kvpress DIR [--model FOLDER] [--only NAME,..]

As compare_kvpress_model.py, with these methods:

* block: the model reads the prompt in chunks; after each chunk, every layer evicts.
* kvcompose: the model reads the prompt twice.
* merging, finch-cache: kvpress's own hook evicts after the prompt; then both sides read 8 more tokens.
* cam: nothing is evicted after the prompt, and one entry in each of 24 decode steps.

Where decode steps follow, the outputs of attention of each layer and query head are compared, too. `differ` then also
counts the outputs whose distance, divided by the length of kvpress's output, is above 1e-3; `worst` is the largest
distance. If rounding decides into which entry `merging` merges, such outputs of that layer and of later ones count as
`rounding`, and not in `worst`.
"""
import contextlib
import math
from unittest import mock

import torch
import transformers

import kvcull
from compare_kvpress import first_like_others, ordered, philox, press, ratio
from compare_kvpress_model import Layer, Method, counted, main


def forward(model, ids, cache, position):
    """Reads tokens whose first has this position. The cache may hold fewer entries than there are positions."""
    held = cache.get_seq_length()
    model.model(ids, past_key_values=cache, position_ids=torch.arange(position, position + ids.shape[1])[None],
                cache_position=torch.arange(held, held + ids.shape[1]))


@contextlib.contextmanager
def hooked(model, hook):
    """Calls hook(module, inputs, kwargs, output) after the attention of every layer."""
    hooks = [layer.self_attn.register_forward_hook(hook, with_kwargs=True) for layer in model.model.layers]
    try:
        yield
    finally:
        for handle in hooks:
            handle.remove()


class Lists(Method):
    """A method whose lists and scores, layer by layer, are in `kept`."""

    def __init__(self, name, spec, kept, note=""):
        super().__init__(name, spec, None, note)
        self.kept = kept

    def compare(self, model, ids):
        with kvcull.Session(model, self.spec, cache_type="f32") as session:
            session.prompt(ids[0].numpy())
            for l, (lists, scores) in self.kept.items():
                self.add(scores, [session.positions(l, h).tolist() for h in range(len(lists))], lists)
        return self


class Steps(Method):
    """A method with decode steps. `kept` has their lists after the prompt and after each step, or None where they were
    not noted; `outputs` has theirs [steps][layers] of [H, d]. From layer `unsure` on, rounding may change outputs."""

    def __init__(self, name, spec, kept, outputs, note, unsure=math.inf):
        super().__init__(name, spec, None, note)
        self.kept, self.outputs, self.unsure = kept, outputs, unsure

    def lists_equal(self, session, expected):
        for l, lists in enumerate(expected or ()):
            for h, kept in enumerate(lists):
                self.lists += 1
                self.entries += len(kept)
                self.differ += len(set(kept) ^ set(session.positions(l, h).tolist()))

    def compare(self, model, ids):
        made = []
        with kvcull.Session(model, self.spec, cache_type="f32") as session:
            session.prompt(ids[0, :-len(self.outputs)].numpy())
            self.lists_equal(session, self.kept[0])
            session.watch(lambda layer, output: made.append(torch.from_numpy(output)))
            for i, outputs in enumerate(self.outputs):
                made.clear()
                session.decode(int(ids[0, i - len(self.outputs)]))
                self.lists_equal(session, self.kept[i + 1])
                for l, (theirs, ours) in enumerate(zip(outputs, made)):
                    gap = (theirs - ours).norm(dim=1) / theirs.norm(dim=1)
                    if l < self.unsure:
                        self.worst = max(self.worst, float(gap.max()))
                        self.differ += int((gap > 1e-3).sum())
                    else:
                        self.rounding += int((gap > 1e-3).sum())
        return self


def decode(model, ids, cache, position, note=lambda: None):
    """Reads tokens one by one. Returns their outputs, and what `note` returns after each."""
    outputs, noted = [], []
    keep = lambda module, inputs: outputs[-1].append(inputs[0].view(-1, model.config.head_dim).clone())
    hooks = [layer.self_attn.o_proj.register_forward_pre_hook(keep) for layer in model.model.layers]
    for i in range(ids.shape[1]):
        outputs.append([])
        forward(model, ids[:, i:i + 1], cache, position + i)
        noted.append(note())
    for handle in hooks:
        handle.remove()
    return outputs, noted


def block(folder, theirs, ours, ids):
    """block: with kvpress's scorer after each chunk, and with its BlockPress."""
    KeyDiffPress = press(folder, "keydiff_press", "KeyDiffPress")
    n, made = ids.shape[1], []
    for chunk in 20, 37:
        budget = chunk * (n // 3 // chunk)
        spec = f"block:budget={budget},chunk={chunk},scorer=keydiff"
        method = Method("block", spec, None, "a model that reads in chunks; theirs goes on with what kvcull keeps")
        held = {}

        def evict(module, inputs, kwargs, output):
            entries, l = kwargs["past_key_values"].layers[module.layer_idx], module.layer_idx
            _, heads, count, size = entries.keys.shape
            new = torch.arange(start, min(start + chunk, n))
            lists = [torch.cat([old, new]) for old in held.get(l, [new[:0]] * heads)]
            kept = [torch.from_numpy(session.positions(l, h)) for h in range(heads)]
            if count > budget:
                layer = Layer(module, kwargs["hidden_states"], entries.keys, entries.values, None, kwargs)
                chosen = layer.heads(KeyDiffPress(ratio(budget, count)))
                scores = torch.zeros(heads, n)
                for h in range(heads):
                    scores[h, lists[h]] = layer.scores[0, h]
                method.add(scores, [one.tolist() for one in kept], [lists[h][chosen[h]].tolist() for h in range(heads)])
            index = torch.stack([torch.isin(lists[h], kept[h]).nonzero()[:, 0] for h in range(heads)])
            index = index[None, ..., None].expand(-1, -1, -1, size)
            entries.keys, entries.values = entries.keys.gather(2, index), entries.values.gather(2, index)
            held[l] = kept
        cache = transformers.DynamicCache()
        with kvcull.Session(ours, spec, cache_type="f32") as session, hooked(theirs, evict):
            for start in range(0, n, chunk):
                session.prompt(ids[0, start:start + chunk].numpy())
                forward(theirs, ids[:, start:start + chunk], cache, start)
        at_once = Lists("block", spec, {l: ([one.tolist() for one in kept], torch.zeros(len(kept), n))
                                        for l, kept in held.items()}).compare(ours, ids)
        assert at_once.differ == at_once.rounding == 0  # kvcull keeps the same entries if it reads the prompt at once
        made += [method, *block_press(folder, theirs, ours, ids, budget, chunk, spec)]
    return made


def block_press(folder, theirs, ours, ids, budget, chunk, spec):
    """Compares with BlockPress, for which the model reads the whole prompt before anything is evicted."""
    KeyDiffPress, BlockPress = (press(folder, file, name) for file, name in (
        ("keydiff_press", "KeyDiffPress"), ("block_press", "BlockPress")))
    n, kept = ids.shape[1], {}

    def note(module, inputs, kwargs, output):
        entries = kwargs["past_key_values"].layers[module.layer_idx]
        positions = torch.arange(n, dtype=torch.float32)[None, None, :, None].expand_as(entries.values).contiguous()
        states = torch.zeros(1, n, entries.keys.shape[1])
        chosen = BlockPress(KeyDiffPress(ratio(budget, n)), chunk)
        with ordered():
            _, left = chosen.compress(module, states, entries.keys, positions, None, kwargs)
        scores = KeyDiffPress().score(module, states, entries.keys, None, None, kwargs)[0]
        kept[module.layer_idx] = left[0, ..., 0].long().sort(-1).values.tolist(), scores
    with hooked(theirs, note):
        theirs.model(ids, past_key_values=transformers.DynamicCache())
    others = "BlockPress in the other layers, whose keys depend on what was evicted"
    return [Lists("block-first", spec, {0: kept.pop(0)}, "BlockPress in the first layer").compare(ours, ids),
            Lists("block-others", spec, kept, others).compare(ours, ids)]


def kvcompose(folder, model, ours, ids):
    KVComposePress = press(folder, "kvcompose_press", "KVComposePress")
    n, layers, made = ids.shape[1], model.config.num_hidden_layers, []
    for mean, budget in ((True, int(0.37 * n)), (False, n // 10)):
        chosen = KVComposePress(compression_ratio=ratio(layers * budget, layers * n), add_mean_across_heads=mean,
                                keep_token_lower_bound=1)
        kept = {}

        def keep(chosen, model):
            for l, lists in enumerate(chosen.important_mask_per_kv_head):
                kept[l] = [mask.nonzero()[:, 0].tolist() for mask in lists], chosen.scores[l].clone()
        with ordered(), first_like_others(KVComposePress), mock.patch.object(KVComposePress, "compress_cache", keep):
            with chosen(model):
                model.model(ids, past_key_values=transformers.DynamicCache())
        spec = f"kvcompose:budget={budget},mean={'on' if mean else 'off'}"
        note = "structured, no values, the first layer like the others, a lower bound of 1"
        made.append(Lists("kvcompose", spec, kept, note).compare(ours, ids))
    return made


def nearly_equal(keys, kept):
    """Returns whether an evicted key has two nearest kept keys whose cosines are within 1e-6. keys: [H_kv, n, d]"""
    cosines = torch.nn.functional.normalize(keys.double(), dim=-1) @ torch.nn.functional.normalize(
        keys.gather(1, kept[..., None].expand(-1, -1, keys.shape[2])).double(), dim=-1).transpose(1, 2)
    best = cosines.topk(2).values
    return bool((best[..., 0] - best[..., 1]).scatter(1, kept, 1).min() < 1e-6)


def merging(folder, model, ours, ids, steps=8):
    make = lambda file, name: press(folder, file + "_press", name)
    n, window, made = ids.shape[1] - steps, 32, []
    budget = int(0.37 * n)
    for scorer, spec, threshold in (
            (make("snapkv", "SnapKVPress")(ratio(budget, n), window, 7), f"snapkv:budget={budget},window={window},"
             "kernel=7,pooling=avg", 0),
            (make("keydiff", "KeyDiffPress")(ratio(budget, n)), f"keydiff:budget={budget},stages=prompt", 0.6)):
        class Noted(make("merging", "MergingPress")):
            def merge(self, keys, values, indices):
                if nearly_equal(keys[0], indices[0]):
                    unsure.append(len(kept))
                kept.append(indices[0].sort(-1).values.tolist())
                return super().merge(keys, values, indices)
        kept, unsure, cache = [], [], transformers.DynamicCache()
        with ordered(), Noted(scorer, threshold)(model):
            model.model(ids[:, :n], past_key_values=cache)
        outputs, noted = decode(model, ids[:, n:], cache, n)
        made.append(Steps("merging", f"{spec}+merging:threshold={threshold}", [kept] + noted, outputs,
                          "by snapkv and keydiff, threshold=0 and 0.6", *unsure[:1]).compare(ours, ids))
    return made


def finch(folder, model, ours, ids, steps=8):
    FinchPress, KeyRerotationPress, BasePress = (press(folder, file, name) for file, name in (
        ("finch_press", "FinchPress"), ("key_rerotation_press", "KeyRerotationPress"), ("base_press", "BasePress")))
    n, window, kept, rotate = ids.shape[1] - steps, 32, [], KeyRerotationPress.rerotate_keys
    budget, cache = int(0.37 * n), transformers.DynamicCache()

    class Counted(FinchPress):
        def score(self, module, hidden, keys, values, attentions, kwargs):
            return super().score(module, hidden, keys, values, counted(attentions), kwargs)

    def note(module, indices, keys):
        kept.append(indices[0].tolist())
        return rotate(module, indices, keys)
    chosen = Counted(ratio(budget, n))
    chosen.window_size = window
    with ordered(), mock.patch.object(KeyRerotationPress, "rerotate_keys", staticmethod(note)), \
            BasePress.__call__(chosen, model):
        model.model(ids[:, :n], past_key_values=cache)
    outputs, noted = decode(model, ids[:, n:], cache, budget)
    return [Steps("finch-cache", f"finch:budget={budget},window={window},positions=cache", [kept] + noted, outputs,
                  "keys rotated to their positions in the cache").compare(ours, ids)]


def cam(folder, model, ours, ids, steps=24):
    """cam, head by head, with a budget of the prompt's length."""
    make = lambda file, name: press(folder, file + "_press", name)
    n, heads, seed, made = ids.shape[1] - steps, model.config.num_key_value_heads, 7, []

    class Each(make("cam", "CAMPress")):
        """Each KV head evicts by its own scores; the sums begin with the prompt's queries, and the draws are ours."""

        def forward_hook(self, module, inputs, kwargs, output):
            result, sums = super().forward_hook(module, inputs, kwargs, output), self._running_attn_sum
            if module.layer_idx not in sums:
                sums[module.layer_idx] = self._aggregate_attention_per_kv_head(output[1], heads).sum(2)
            return result

        def compress(self, module, hidden, keys, values, attentions, kwargs):
            l, parts, left = module.layer_idx, [], []
            self.base_press.compression_ratio = ratio(n, n + 1)
            for h in range(heads):
                one = slice(h, h + 1)
                k, v, sums = keys[:, one], values[:, one].clone(), attentions[:, one]
                scores = self.base_press.score(module, hidden, k, v, None, kwargs)
                gone = held[l][h].pop(int(scores[0, 0].argmin()))
                draw = (philox((l, h, gone, 2), seed) >> 8) / 2**24
                self._running_attn_sum[l] = sums
                with mock.patch.object(torch, "bernoulli", lambda p: (draw < p).float()):
                    parts.append(super().compress(module, hidden, k, v, sums, kwargs))
                left.append(self._running_attn_sum[l])
            self._running_attn_sum[l] = torch.cat(left, 1)
            return tuple(torch.cat(tensors, 1) for tensors in zip(*parts))
    for scorer, name, span in ((make("keydiff", "KeyDiffPress")(), "keydiff", 32),
                               (make("streaming_llm", "StreamingLLMPress")(n_sink=4), "streaming", 7)):
        held, cache = [[list(range(n)) for _ in range(heads)] for _ in model.model.layers], transformers.DynamicCache()

        def note():
            return [[list(list_) for list_ in lists] for lists in held]
        kept = [note()]
        with Each(scorer, 1, n, 0, span)(model):
            model.model(ids[:, :n], past_key_values=cache)
            grow = lambda module, inputs: [list_.append(position[0]) for list_ in held[module.layer_idx]] and None
            position = [n]
            hooks = [layer.self_attn.register_forward_pre_hook(grow) for layer in model.model.layers]

            def step():
                position[0] += 1
                return note()
            outputs, noted = decode(model, ids[:, n:], cache, n, step)
            for handle in hooks:
                handle.remove()
        text = "by keydiff and streaming, head by head; their draws replaced by ours, the prompt's queries in the sums"
        spec = f"{name}:budget={n}+cam:span={span},seed={seed}"
        made.append(Steps("cam", spec, kept + noted, outputs, text).compare(ours, ids))
    return made


METHODS = {"block": block, "kvcompose": kvcompose, "merging": merging, "finch-cache": finch, "cam": cam}


def run(options, models, ids, only, parent):
    """Compares all methods for one prompt. models: those of transformers and of kvcull."""
    theirs, ours = models
    for layer in theirs.model.layers:
        layer.self_attn.rotary_emb = theirs.model.rotary_emb
    done = []
    for name, method in METHODS.items():
        if not only or name in only:
            with torch.no_grad():
                done += method(options.kvpress, theirs, ours, ids)
    return done


if __name__ == "__main__":
    main(__doc__, run)
