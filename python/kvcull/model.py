"""Models: a GGUF file or a Hugging Face folder with its tokenizer, its chat template and its sessions."""
from __future__ import annotations

import json
import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _library
from ._handles import Closing, Handle
from ._library import allocated, c_string, c_text, ffi, lib, path_bytes, record, text_of, whole_numbers
from .engine import Engine

if TYPE_CHECKING:
    from .policy import Policy
    from .session import Session

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class ModelInfo:
    """The properties of a model. Sizes are in bytes. `layers` counts layers with attention, which have a cache."""

    path: str
    format: str
    architecture: str
    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    feed_forward: int
    vocab: int
    recurrent_layers: int
    recurrent_bytes: int
    trained_context: int
    original_context: int
    sliding_window: int
    windows: Optional[Tuple[int, ...]]
    experts: int
    experts_used: int
    expert_layers: int
    dense_feed: int
    parameters: int
    weight_bytes: int
    mapped_bytes: int
    packed_bytes: int
    resident_bytes: int
    active_parameters: int
    active_bytes: int
    weight_types: str
    math: str
    rope: str
    bos: int
    eos: int
    has_chat_template: bool


@dataclass(frozen=True)
class Estimate:
    """Bytes that a session would need, without scratch memory. If `exact` is true, the session will hold exactly these
    bytes; otherwise they are upper limits.

    entries: entries of the longest head after the prompt and the generated tokens. all_entries: entries of all lists
    together; lists: number of lists. cache_bytes, state_bytes: bytes at that time.
    peak_bytes: peak of cache and state, including the prompt. prompt_peak_bytes: peak during the prompt. hidden_bytes:
    the prompt's hidden states, which are counted separately. network_bytes: networks that the policy's methods load;
    all sessions of the model share them.
    """

    entries: int
    all_entries: int
    lists: int
    cache_bytes: int
    state_bytes: int
    peak_bytes: int
    prompt_peak_bytes: int
    hidden_bytes: int
    network_bytes: int
    exact: bool


def _json(value, what) -> Any:
    """Returns JSON as a C string. Texts are passed unchanged, other objects are encoded. NULL for None."""
    if value is None:
        return ffi.NULL
    return c_string(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), what)


def tokens_array(tokens) -> np.ndarray:
    """Returns token ids as int32 [count], C-contiguous."""
    return whole_numbers(tokens, np.int32, "tokens")


def _ids(tokens, count: int) -> np.ndarray:
    """Returns a copy of the library's array."""
    return np.frombuffer(ffi.buffer(tokens, 4 * count), np.int32).copy() if count else np.empty(0, np.int32)


class Model(Closing):
    """A model from a GGUF file or a Hugging Face folder. Its files stay mapped until it is closed.

    engine: an engine to share; None: the model opens its own with `options`, which are those of `Engine`.
    """

    def __init__(self, path: Path, engine: Optional[Engine] = None, **options):
        if engine is not None and options:
            raise _library.of_status(lib.KVC_USAGE, f"Model: {', '.join(options)}: must be given to the engine")
        self.engine = engine if engine is not None else Engine(**options)
        self._handle = Handle(self.engine._handle.gate, "kvc_model", self.engine._handle)
        self.engine._call(lib.kvc_model_open, self.engine._handle, path_bytes(path), self._handle.entry)
        info = self._handle.gate.call(lib.kvc_model_info, self._handle)
        windows = tuple(info.windows[0 : info.layers]) if info.windows else None
        self.info: ModelInfo = record(ModelInfo, info, windows=windows, math=MATHS[info.math])

    def __repr__(self):
        info = self.info
        return f"<kvcull.Model {info.path}: {info.architecture}, {info.parameters:,} parameters, {info.weight_types}>"

    # ---- text ----

    def tokenize(self, text: Union[str, bytes], bos: bool = True, special: bool = True) -> np.ndarray:
        """Returns the tokens of a text, int32 [count]. bos: adds the tokens that the model expects in front of a text.
        special: a control token such as "<|eot_id|>" in the text becomes one token."""
        if not isinstance(text, (str, bytes, bytearray)):
            raise _library.of_status(lib.KVC_USAGE, f"text: {type(text).__name__}: must be str or bytes")
        raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else bytes(text)
        flags = (lib.KVC_TOKENIZE_BOS if bos else 0) | (lib.KVC_TOKENIZE_SPECIAL if special else 0)
        tokens, count = allocated("int32_t"), ffi.new("size_t *")
        self.engine._call(lib.kvc_tokenize, self._handle, raw, len(raw), flags, tokens, count)
        return _ids(tokens[0], count[0])

    def detokenize(self, tokens: Union[Sequence[int], np.ndarray], special: bool = False) -> str:
        """Returns the text of tokens. special: includes control tokens. Invalid UTF-8 becomes U+FFFD."""
        ids, text, size = tokens_array(tokens), allocated("char"), ffi.new("size_t *")
        self.engine._call(lib.kvc_detokenize, self._handle, ffi.from_buffer("int32_t[]", ids), len(ids), special, text,
                          size)
        return ffi.buffer(text[0], size[0])[:].decode("utf-8", "replace")

    def token_bytes(self, token: int, first: bool = False) -> bytes:
        """Returns the bytes that a token adds to a text. They may be a part of a character. first: the token begins the
        text.
        """
        size = ffi.new("size_t *")
        capacity = 64
        while True:
            text = ffi.new("char[]", capacity)
            self.engine._call(lib.kvc_token_bytes, self._handle, token, first, text, capacity, size)
            if size[0] <= capacity:
                return ffi.buffer(text, size[0])[:]
            capacity = size[0]

    def ends_turn(self, token: int) -> bool:
        """Returns whether the model's files list this token as the end of a turn."""
        return bool(self._handle.gate.call(lib.kvc_token_ends_turn, self._handle, token))

    def chat_text(self, messages: Sequence[Mapping[str, Any]], *, template: Optional[str] = None, tools=None,
                  documents=None, variables: Optional[Mapping[str, Any]] = None, date: Optional[str] = None,
                  answer: bool = True, special_content: bool = False) -> str:
        """Renders a conversation with a chat template.

        messages: {"role": ..., "content": ...} and whatever else the template reads, such as "tool_calls". template:
        the name of a built-in template (`chat_templates`) or of one of the model's. None: the model's own template; if
        it has several, "tool_use" if there are tools, else "default". tools, documents: lists. variables: further
        variables of the template, such as {"enable_thinking": False}. date: the date given to the template, such as
        "2025-06-30". answer: appends the opening of the assistant's turn. special_content is used by `chat_tokens`.
        """
        options, _keep = self._chat_options(messages, template, tools, documents, variables, date, answer,
                                            special_content)
        text = allocated("char")
        self.engine._call(lib.kvc_chat_text_with, self._handle, options, ffi.NULL, 0, text)
        self._warn_unread(options)
        return text_of(text[0])

    def _chat_options(self, messages, template=None, tools=None, documents=None, variables=None, date=None, answer=True,
                      special_content=False):
        """Returns struct kvc_chat_options, and the objects that must live as long as it does."""
        options = ffi.new("struct kvc_chat_options *")
        lib.kvc_chat_defaults(options)
        keep = [_json(list(messages), "messages"), _json(tools, "tools"), _json(documents, "documents"),
                _json(variables, "variables")]
        keep += [c_string(template, "template"), c_string(date, "date")]
        options.earlier, options.tools, options.documents, options.variables = keep[:4]
        options.template_name, options.date, options.answer = keep[4], keep[5], answer
        options.special_content = special_content
        return options, keep

    def _warn_unread(self, options):
        """Warns about tools and documents that the template does not read."""
        for name in ("tools", "documents"):
            given = getattr(options, name)
            if not given or ffi.string(given) == b"[]":
                continue
            if not self._handle.gate.call(lib.kvc_chat_reads, self._handle, options, name.encode()):
                warnings.warn(f"the chat template reads no {name}, so the model does not see them", stacklevel=3)

    def chat_tokens(self, messages: Sequence[Mapping[str, Any]], **options) -> np.ndarray:
        """Returns the tokens of a conversation, int32 [count]: those of the text that `chat_text` renders with these
        options.

        Only the template produces control tokens. "<|im_end|>" in a message is plain text, so that no author of a
        message can end a turn. `tokenize(chat_text(...))` cannot distinguish the two. special_content: control tokens
        in messages, tools, documents and variables are control tokens, too.
        """
        made, _keep = self._chat_options(messages, **options)
        tokens, count = allocated("int32_t"), ffi.new("size_t *")
        self.engine._call(lib.kvc_chat_tokens, self._handle, made, ffi.NULL, 0, tokens, count)
        self._warn_unread(made)
        return _ids(tokens[0], count[0])

    # ---- sessions ----

    def session(self, policy: Union[str, "Policy", None] = None, **options: Any) -> "Session":
        """Returns a `kvcull.Session` of this model with these options. policy: a text, or from `kvcull.policy`."""
        from .session import Session
        return Session(self, policy, **options)

    def estimate(self, policy: Union[str, "Policy", None] = None, prompt: int = 0, generated: int = 0, cache_type: str = "f16") -> Estimate:
        """Estimates the bytes that a session with this policy would need for a prompt and for `generated` tokens."""
        info = self.info
        geometry = ffi.new("struct kvc_geometry *", [info.layers, info.heads, info.kv_heads, info.head_size])
        windows = ffi.new("uint32_t[]", info.windows) if info.windows else ffi.NULL
        estimate = ffi.new("struct kvc_estimate *")
        self.engine._call(lib.kvc_estimate_windows, self.engine._handle, c_text(policy or "full", "policy"), geometry,
                          windows, info.hidden, _library.cache_type(cache_type), prompt, generated, estimate)
        lib.kvc_estimate_recurrent(estimate, info.recurrent_bytes)
        networks = ffi.new("uint64_t *")
        self.engine._call(lib.kvc_estimate_networks, self._handle, c_text(policy or "full", "policy"), 0, info.layers,
                          info.kv_heads, networks)
        return record(Estimate, estimate, exact=estimate.kind == lib.KVC_EXPECTED_EXACT, network_bytes=networks[0])


MATHS: Dict[int, str] = {lib.KVC_MATH_FLOAT: "float", lib.KVC_MATH_FAST: "fast", lib.KVC_MATH_INT8: "int8",
                         lib.KVC_MATH_INT16: "int16"}


def _names(next_name) -> List[Tuple[str, str]]:
    name, summary, found = ffi.new("const char **"), ffi.new("const char **"), []
    while next_name(len(found), name, summary):
        found.append((_library.text_of(name[0]), _library.text_of(summary[0])))
    return found


def chat_templates() -> List[Tuple[str, str]]:
    """Returns the built-in chat templates: (name, the models that use it)."""
    return _names(lib.kvc_chat_template)


def shapes() -> List[Tuple[str, str]]:
    """Returns the geometries for `make_model`: (name, summary)."""
    return _names(lib.kvc_shape)


def make_model(shape: str, path: Path, type: str = "f16", seed: int = 0) -> str:
    """Writes a GGUF file with random weights. Returns a note if some matrices got another type, otherwise ""."""
    error = ffi.new("struct kvc_error *")
    _library.raise_for(lib.kvc_make_model(c_text(shape, "shape"), _library.weight_type(type), seed, path_bytes(path), error),
                       error)
    return _library.text_of(error.text)


def convert(source: Path, path: Path, type: str) -> str:
    """Writes a model in another type: as a GGUF file, or as a folder if path ends in "/". Returns a note if some
    matrices got another type, otherwise ""."""
    error = ffi.new("struct kvc_error *")
    _library.raise_for(lib.kvc_convert(path_bytes(source), path_bytes(path), _library.weight_type(type), error), error)
    return _library.text_of(error.text)
