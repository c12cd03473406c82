"""Models of the library transformers: a policy compresses their cache, and they can be opened as a `kvcull.Model`.

    from kvcull.hugging_face import press
    with press("snapkv:budget=512")(model):
        model.generate(**inputs)

A hook takes each layer's queries, keys and values. The library decides what stays, as in `kvcull.compress`; transformers
computes attention over it. The module also registers the pipeline "kvcull-text-generation".
"""
from __future__ import annotations

import contextlib
import inspect
import os
import re
import tempfile
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from transformers import AutoModelForCausalLM, DynamicCache, Pipeline
from transformers.cache_utils import DynamicLayer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.pipelines import PIPELINE_REGISTRY

from .engine import Engine
from .errors import UsageError
from .model import Model
from .policy import Policy
from .replay import Replay, _engine

NAME = "kvcull_press"  # name of this attention in transformers' list
ADDS_ROWS = ("dapq", "kvzip", "kvcompose")  # methods that use the queries of rows that they add to the prompt
MARK = "@@kvcull-question@@"  # divides a conversation into context and question


class CompressedLayer(DynamicLayer):
    """A layer of a DynamicCache that holds some entries of each head: keys, values [batch, lists, m, d].

    positions [batch, lists, m]: the columns of the batch from which the entries come; shorter lists are filled up with
    -1, which no query attends to. Lists are KV heads, or query heads if the policy has per=head. The length that
    transformers sees is that of the whole text, with the columns of padding on its left: pads [batch].
    """

    def __init__(self, keys: torch.Tensor, values: torch.Tensor, pads: np.ndarray):
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys, self.values, self.seen = keys, values, keys.shape[2]
        columns = np.arange(self.seen)
        self.positions = np.broadcast_to(np.where(columns < pads[:, None], -1, columns)[:, None], keys.shape[:3])

    def update(self, key_states, value_states, *args, **kwargs):
        times, rows = self.keys.shape[1] // key_states.shape[1], key_states.shape[2]
        self.keys = torch.cat([self.keys, key_states.repeat_interleave(times, 1)], dim=2)
        self.values = torch.cat([self.values, value_states.repeat_interleave(times, 1)], dim=2)
        new = np.broadcast_to(np.arange(self.seen, self.seen + rows), (*self.positions.shape[:2], rows))
        self.positions = np.concatenate([self.positions, new], axis=2)
        self.seen += rows
        return self.keys, self.values

    def get_seq_length(self) -> int:
        return self.seen

    def crop(self, tokens_to_remove: int) -> None:
        raise UsageError("crop: a compressed cache cannot be shortened")

    def keep(self, kept: Sequence[Sequence[np.ndarray]]) -> None:
        """Drops all entries but those at these positions, [batch][list]."""
        lists = len(kept[0])
        times = lists // self.positions.shape[1]
        if times > 1:  # from KV heads to query heads
            self.keys, self.values = self.keys.repeat_interleave(times, 1), self.values.repeat_interleave(times, 1)
            self.positions = self.positions.repeat(times, axis=1)
        most = max(len(positions) for sample in kept for positions in sample)
        index = np.zeros((len(kept), lists, most), np.int64)
        positions = np.full(index.shape, -1, np.int64)
        for b, sample in enumerate(kept):
            for h, wanted in enumerate(sample):
                places = np.nonzero(np.isin(self.positions[b, h], wanted))[0]
                index[b, h, :len(places)], positions[b, h, :len(wanted)] = places, wanted
        if most == self.positions.shape[2] and np.array_equal(positions, self.positions):
            return
        at = torch.from_numpy(index).to(self.keys.device)[..., None]
        self.keys = self.keys.gather(2, at.expand(*at.shape[:3], self.keys.shape[3]))
        self.values = self.values.gather(2, at.expand(*at.shape[:3], self.values.shape[3]))
        self.positions = positions

    def state(self) -> Tuple[Any, ...]:
        """Returns the contents, for `restore`."""
        return self.keys, self.values, self.positions, self.seen

    def restore(self, state: Tuple[Any, ...]) -> None:
        """Brings back earlier contents."""
        self.keys, self.values, self.positions, self.seen = state


class Running:
    """The work on one cache: a replay for each sample of the batch."""

    def __init__(self, press: "Press", modules: Sequence[Any], cache: DynamicCache):
        self.press, self.cache = press, cache
        self.pads = np.zeros(0, np.int64)  # [batch]: number of columns of padding on the left
        self.sinks = _sinks(modules)
        self.order = {module.layer_idx: place for place, module in enumerate(modules)}
        self.windows = [_window(module) for module in modules]
        self.replays: List[Replay] = []
        self.prompted = False  # the prompt has passed all layers

    def open(self, q: torch.Tensor, k: torch.Tensor, cap: float) -> None:
        """Opens the replays for a prompt."""
        self.close()
        self.pads = self.press.pads_of(q.shape[0], q.shape[2])
        self.replays = [Replay(len(self.order), q.shape[1], k.shape[1], k.shape[3], self.press.policy,
                               windows=self.windows, cap=cap, sinks=self.sinks, engine=self.press.engine,
                               **self.press.options) for _sample in range(q.shape[0])]

    def prompt(self, layer_idx: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cap: float) -> None:
        """Compresses a layer after its prompt; after the last layer also those whose budget depends on all layers."""
        place, last = self.order[layer_idx], len(self.order) - 1
        if k.shape[-1] != v.shape[-1]:
            raise UsageError("press: keys and values of different sizes cannot be compressed")
        if place == 0:
            self.open(q, k, cap)
        for replay, pad, *rows in zip(self.replays, self.pads, _host(q), _host(k), _host(v)):
            replay.prompt(place, *(row[pad:] for row in rows))
        made = CompressedLayer(k, v, self.pads)
        made.keep(self._kept(place))
        self.cache.layers[layer_idx] = made
        if place == last:
            for other, its_place in self.order.items():
                self.cache.layers[other].keep(self._kept(its_place))
            self.prompted = True
            if not self.press.acts_in_steps:
                self.close()

    def step(self, layer_idx: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Optional[List[List[np.ndarray]]]:
        """Gives a decode step to the library. Returns the positions that it read, [batch][list]; None: all."""
        place = self.order[layer_idx]
        for replay, *rows in zip(self.replays, _host(q), _host(k), _host(v)):
            replay.step(place, *(row[0] for row in rows))
        if not self.press.selects:
            return None
        return [[replay.reads(place, head) + pad for head in range(replay.lists(place))]
                for replay, pad in zip(self.replays, self.pads)]

    def evict(self, layer_idx: int) -> None:
        """Drops what the library dropped in the last step."""
        self.cache.layers[layer_idx].keep(self._kept(self.order[layer_idx]))

    def _kept(self, place: int) -> List[List[np.ndarray]]:
        """Returns the columns that the library holds, [batch][list]."""
        return [[replay.positions(place, head) + pad for head in range(replay.lists(place))]
                for replay, pad in zip(self.replays, self.pads)]

    def close(self) -> None:
        """Closes the replays."""
        for replay in self.replays:
            replay.close()
        self.replays = []


def _host(tensor: torch.Tensor) -> Iterator[np.ndarray]:
    """Returns each sample's rows, float32 [n, heads, d], of a tensor [batch, heads, n, d]."""
    return iter(np.ascontiguousarray(tensor.detach().float().cpu().numpy().transpose(0, 2, 1, 3)))


def _window(module: Any) -> int:
    """Returns the sliding window of a layer; 0: none."""
    types = getattr(module.config, "layer_types", None)
    slides = types is None or types[module.layer_idx] == "sliding_attention"
    return (getattr(module.config, "sliding_window", None) or 0) if slides else 0


def _sinks(modules: Sequence[Any]) -> Optional[np.ndarray]:
    """Returns the attention sinks of all layers, [layers, H]. None: the model has none."""
    found = [getattr(module, "sinks", None) for module in modules]
    if not any(isinstance(sinks, torch.Tensor) for sinks in found):
        return None
    if not all(isinstance(sinks, torch.Tensor) and sinks.ndim == 1 for sinks in found):
        raise UsageError("press: some layers have attention sinks and others have none; use hugging_face.open_model")
    return np.stack([sinks.detach().float().cpu().numpy() for sinks in found])


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, allowed: Optional[torch.Tensor], scaling: float,
            cap: float = 0.0, sinks: Optional[torch.Tensor] = None) -> torch.Tensor:
    """Returns attention [batch, n, H, d]. allowed: bool, broadcast to [batch, H, n, entries]; None: causal. cap: cap of
    the scores; 0: none. sinks [H]: scores without a value, which take a part of each row's probability."""
    times = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
    if allowed is not None and allowed.shape[1] > 1:
        allowed = allowed.repeat_interleave(q.shape[1] // allowed.shape[1], 1)
    if not cap and sinks is None:
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed, is_causal=allowed is None,
                                                               scale=scaling)
        return out.transpose(1, 2).contiguous()
    scores = torch.matmul(q, k.transpose(2, 3)).float() * scaling
    if cap:
        scores = torch.tanh(scores / cap) * cap
    if allowed is None:
        allowed = torch.ones(scores.shape[2:], dtype=torch.bool, device=q.device).tril()
    scores = scores.masked_fill(~allowed, float("-inf"))
    if sinks is not None:
        rest = sinks.float()[None, :, None, None].expand(*scores.shape[:3], 1)
        scores = torch.cat([scores, rest], dim=3)
    probability = torch.softmax(scores, dim=3)[..., :k.shape[2]].to(v.dtype)
    return torch.matmul(probability, v).transpose(1, 2).contiguous()


def _prompt_allows(rows: int, window: int, pads: np.ndarray, device: torch.device) -> Optional[torch.Tensor]:
    """Returns which columns each row of a prompt may attend to, [batch or 1, 1, rows, rows]. None: causal. Rows of
    padding, whose results nobody reads, attend to themselves."""
    if not window and not pads.any():
        return None
    row, column = np.arange(rows)[:, None], np.arange(rows)[None]
    allowed = ((column <= row) & (column > row - (window or rows)))[None]
    if pads.any():
        allowed = allowed & (column >= pads[:, None, None]) | (column == row)
    return torch.from_numpy(allowed).to(device)[:, None]


def _allowed(layer: CompressedLayer, rows: int, window: int, read: Optional[List[List[np.ndarray]]],
             device: torch.device) -> torch.Tensor:
    """Returns which entries each row may attend to: bool [batch, lists, rows, entries]."""
    now = np.arange(layer.seen - rows, layer.seen)[:, None]
    held = layer.positions[:, :, None, :]
    allowed = (held >= 0) & (held <= now)
    if window:
        allowed &= held > now - window
    if read is not None:
        lists = layer.positions.shape[1]
        for b, sample in enumerate(read):
            for h, positions in enumerate(sample):
                allowed[b, h * lists // len(sample)] &= np.isin(layer.positions[b, h * lists // len(sample)], positions)
    return torch.from_numpy(allowed).to(device)


def _attention(module, query, key, value, attention_mask, scaling=None, softcap=None, s_aux=None, **_options):
    """Computes attention in place of transformers while a press is active."""
    press: Press = module._kvcull_press
    running: Optional[Running] = module._kvcull_running
    scaling, cap = scaling if scaling is not None else query.shape[-1] ** -0.5, float(softcap or 0)
    if s_aux is not None and s_aux is not getattr(module, "sinks", None):
        raise UsageError(f"press: the attention sinks of {type(module).__name__} are not known; use hugging_face.open_model")
    window, rows = _window(module), query.shape[2]
    if running is None or rows == key.shape[2]:  # no cache, or a prompt
        allowed = _prompt_allows(rows, window, press.pads_of(query.shape[0], rows), query.device)
        out = _attend(query, key, value, allowed, scaling, cap, s_aux)
        if running is not None:
            running.prompt(module.layer_idx, query * (scaling * query.shape[-1] ** 0.5), key, value, cap)
        return out, None
    layer = running.cache.layers[module.layer_idx]
    if not isinstance(layer, CompressedLayer):
        raise UsageError("press: the cache has entries from before; the prompt must be read with the press on")
    read = None
    if not np.array_equal(press.pads_of(query.shape[0], layer.seen), running.pads):
        raise UsageError("press: the attention mask has other columns of padding than in the prompt")
    if press.acts_in_steps:
        if rows > 1:
            raise UsageError(f"press: {press.policy} acts at each step, so the model must get one token at a time after "
                             "the prompt")
        times = layer.keys.shape[1] // running.replays[0].kv_heads
        read = running.step(module.layer_idx, query * (scaling * query.shape[-1] ** 0.5), key[:, ::times, -1:],
                            value[:, ::times, -1:])
    out = _attend(query, key, value, _allowed(layer, rows, window, read, query.device), scaling, cap, s_aux)
    if press.acts_in_steps:
        running.evict(module.layer_idx)
    return out, None


ALL_ATTENTION_FUNCTIONS.register(NAME, _attention)


class Press:
    """A policy for models of transformers: `with press(model):` compresses every cache that is filled in its body.

    policy: a text, or from `kvcull.policy`. engine: the engine that computes the decisions; None: one on the CPU.
    options: see `kvcull.Replay`. Methods that act within the prompt (stages "chunk" and "propagate"), add rows to it,
    read hidden states or change keys or values are refused, because transformers computes the prompt; `open_model` runs
    them. Padding must be on the left.
    """

    def __init__(self, policy: Union[str, Policy], engine: Optional[Engine] = None, **options: Any):
        self.policy, self.options = str(policy), dict(options)
        self.engine = engine if engine is not None else _engine()
        stages = self.engine.stages(self.policy)
        within = [f"acts within the prompt (stage {stage})" for stage in stages if stage in ("chunk", "propagate")]
        within += [f"adds rows to the prompt ({name})" for name in ADDS_ROWS
                   if name in (part.partition(":")[0] for part in self.policy.split("+"))]
        within += [f"reads hidden states ({name})"
                   for name in re.findall(r"(?:^|[+=])(kvzap|fastkvzip)\b", self.policy)]
        within += [f"changes keys or values ({name})"
                   for name in re.findall(r"(?:^|\+)(cam|merging|think)\b", self.policy)]
        if within:
            raise UsageError(f"press: {self.policy} {within[0]}, which transformers computes; "
                             "kvcull.hugging_face.open_model(model, tokenizer) runs it")
        self._mask: Optional[np.ndarray] = None  # the mask of the current call of the model, [batch, columns]
        self.selects = "select" in stages
        self.acts_in_steps = self.selects or "decode" in stages
        if self.selects:
            self.options["record_reads"] = True

    def pads_of(self, batch: int, columns: int) -> np.ndarray:
        """Returns how many of the columns are padding on the left, [batch]."""
        if self._mask is None:
            return np.zeros(batch, np.int64)
        if self._mask.shape[0] != batch or self._mask.shape[1] < columns:
            raise UsageError(f"press: attention_mask {list(self._mask.shape)}: must be [{batch}, {columns}]")
        mask = self._mask[:, :columns]
        pads = np.where(mask.any(axis=1), mask.argmax(axis=1), columns)
        if not np.array_equal(mask, np.arange(columns) >= pads[:, None]):
            raise UsageError("press: padding must be on the left: tokenizer.padding_side = \"left\"")
        if (pads == columns).any():
            raise UsageError("press: a text of the batch has no tokens")
        return pads

    def _note_mask(self, mask: Any) -> None:
        """Notes the attention mask of a call of the model."""
        self._mask = None
        if mask is None:
            return
        if not isinstance(mask, torch.Tensor) or mask.ndim != 2:
            raise UsageError("press: attention_mask must be [batch, columns], of 0 and 1")
        self._mask = mask.detach().cpu().numpy() != 0

    @contextlib.contextmanager
    def __call__(self, model: Any) -> Iterator[Any]:
        modules = [module for module in model.modules()
                   if hasattr(module, "layer_idx") and hasattr(module, "num_key_value_groups")]
        if not modules:
            raise UsageError(f"press: {type(model).__name__} has no attention layers that transformers lets others compute")
        modules.sort(key=lambda module: module.layer_idx)
        configs = {id(module.config): (module.config, module.config._attn_implementation) for module in modules}
        runs: Dict[int, Running] = {}

        def before(module, _arguments, named):
            cache = named.get("cache", named.get("past_key_values"))
            module._kvcull_running = None
            if cache is None:
                return
            if not isinstance(cache, DynamicCache):
                raise UsageError(f"press: {type(cache).__name__} cannot be compressed; use a DynamicCache")
            if id(cache) not in runs or runs[id(cache)].cache is not cache:
                runs[id(cache)] = Running(self, modules, cache)
            module._kvcull_running = runs[id(cache)]

        def padding(_module, arguments, named):
            self._note_mask(named.get("attention_mask", arguments[1] if len(arguments) > 1 else None))

        hooks = [module.register_forward_pre_hook(before, with_kwargs=True) for module in modules]
        hooks.append(model.register_forward_pre_hook(padding, with_kwargs=True))
        try:
            for module in modules:
                module._kvcull_press = self
            for config, _before in configs.values():
                config._attn_implementation = NAME
            yield model
        finally:
            for config, implementation in configs.values():
                config._attn_implementation = implementation
            for hook in hooks:
                hook.remove()
            for module in modules:
                del module._kvcull_press
                module.__dict__.pop("_kvcull_running", None)
            for run in runs.values():
                run.close()


def press(policy: Union[str, Policy], engine: Optional[Engine] = None, **options: Any) -> Press:
    """Returns a `Press` for models of transformers."""
    return Press(policy, engine, **options)


class QuestionPipeline(Pipeline):
    """The pipeline "kvcull-text-generation": a context is read and compressed once, then each question is answered.

        pipe = pipeline("kvcull-text-generation", model=model, tokenizer=tokenizer)
        pipe(context, questions=["Who?", "When?"], press=press("knorm:budget=50%"))["answers"]

    With `question` the result has "answer". answer_prefix: the answer's first words. Answers are greedy.
    """

    def _sanitize_parameters(self, question=None, questions=None, answer_prefix="", press=None, max_new_tokens=50,
                             max_context_length=None, **unknown):
        if unknown:
            raise UsageError(f"pipeline: no option {', '.join(unknown)}")
        if question is not None and questions:
            raise UsageError("pipeline: only one of question and questions may be given")
        asked = [question] if question is not None else list(questions or [""])
        return ({"questions": asked, "prefix": answer_prefix, "longest": max_context_length},
                {"press": press, "most": max_new_tokens}, {"single": questions is None})

    def _ids(self, text: str) -> torch.Tensor:
        return self.tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]

    def preprocess(self, context, questions=(), prefix="", longest=None):
        """Returns the tokens of the context and of each question with the answer's opening."""
        rest = "\n"
        if getattr(self.tokenizer, "chat_template", None):
            text = self.tokenizer.apply_chat_template([{"role": "user", "content": context + MARK}], tokenize=False,
                                                      add_generation_prompt=True)
            context, _mark, rest = text.partition(MARK)
        else:
            context = (self.tokenizer.bos_token or "") + context
        ids = self._ids(context)
        return {"context": ids[:, :longest] if longest else ids,
                "questions": [self._ids(question + rest + prefix) for question in questions]}

    def _forward(self, model_inputs, press=None, most=50):
        with (press(self.model) if press is not None else contextlib.nullcontext()), torch.no_grad():
            return {"answers": self._answers(model_inputs["context"], model_inputs["questions"], press, most)}

    def _run(self, ids: torch.Tensor, cache: DynamicCache) -> torch.Tensor:
        """Returns the logits after these tokens. Newer versions of transformers name the argument "cache"."""
        names = inspect.signature(self.model.forward).parameters
        name = "cache" if "cache" in names else "past_key_values"
        return self.model(input_ids=ids.to(self.model.device), **{name: cache}).logits

    def _answers(self, context, questions, press, most) -> List[str]:
        once = press is not None and not press.acts_in_steps
        cache, states, answers = DynamicCache(), None, []
        for question in questions:
            if states is None:
                cache = DynamicCache()
                self._run(context, cache)
                states = [layer.state() for layer in cache.layers] if once else None
            else:
                for layer, state in zip(cache.layers, states):
                    layer.restore(state)
            answers.append(self._answer(question, cache, most, press is not None and press.acts_in_steps))
        return answers

    def _answer(self, question, cache, most, one_by_one) -> str:
        ends = self.model.generation_config.eos_token_id
        ends = {ends} if isinstance(ends, int) else set(ends or ())
        made: List[int] = []
        ids = question
        while len(made) < most:
            for part in (ids.split(1, dim=1) if one_by_one else [ids]):
                logits = self._run(part, cache)
            token = int(logits[0, -1].argmax())
            if token in ends:
                break
            made.append(token)
            ids = torch.tensor([[token]])
        return self.tokenizer.decode(made, skip_special_tokens=True)

    def postprocess(self, model_outputs, single=True):
        """Returns {"answer": text} for one question, {"answers": texts} for several."""
        answers = model_outputs["answers"]
        return {"answer": answers[0]} if single else {"answers": answers}


PIPELINE_REGISTRY.register_pipeline("kvcull-text-generation", pipeline_class=QuestionPipeline,
                                    pt_model=AutoModelForCausalLM)


def open_model(model: Any, tokenizer: Any = None, engine: Optional[Engine] = None, **options: Any) -> Model:
    """Opens a model of transformers that is in memory, with its tokenizer, as a `kvcull.Model`.

    The weights are written to a temporary folder, which is deleted as soon as the library has mapped its files. If the
    system has /dev/shm, the folder is in memory. engine, options: as in `kvcull.Model`.
    """
    shared = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="kvcull-", dir=shared) as folder:
        model.save_pretrained(folder)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
        return Model(folder, engine, **options)


__all__ = ["CompressedLayer", "Press", "QuestionPipeline", "open_model", "press"]
