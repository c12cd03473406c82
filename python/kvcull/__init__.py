"""kvcull: language models with a bounded key-value cache and bit-identical results on every backend.

    from kvcull import Model, policy

    model = Model("data/demo")
    session = model.session(policy.snapkv(budget=64))
    for piece in session.generate("the magic number for lantern", tokens=8, temperature=0):
        print(piece.text, end="")
    print(session.stats().cache_bytes, "of", session.stats().full_bytes, "bytes")

`policy` has a function for every method. `compress` applies a policy to tensors of another library. `HostMethod` is the
base class of methods written in Python. docs/how-to/python.md shows all of this.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import policy
from ._library import ARITHMETIC_VERSION, VERSION
from .engine import Backend, Engine, Memory, backends
from .errors import DiffersError, InputError, KvcullError, ResourceError, UsageError
from .generation import Generation, Piece
from .grammar import Grammar
from .host import HostMethod, Scores, Stage, Values
from .model import Estimate, Model, ModelInfo, chat_templates, convert, make_model, shapes
from .policy import Method, Option, Policy, methods
from .replay import Kept, Replay, Step, compress, replay
from .sampling import Sampler
from .session import Session, Stats, decode, prompt_many

if TYPE_CHECKING:
    from .hugging_face import Press

__version__ = VERSION


def press(policy: str | Policy, engine: Engine | None = None, **options: Any) -> Press:
    """Returns a press for models of transformers: `with press("snapkv:budget=512")(model):` compresses each cache that
    is filled in its body. Needs torch and transformers; see `kvcull.hugging_face.Press`."""
    from .hugging_face import Press as made
    return made(policy, engine, **options)


__all__ = [
    "ARITHMETIC_VERSION", "Backend", "DiffersError", "Engine", "Estimate", "Generation", "Grammar", "HostMethod",
    "InputError", "Kept", "KvcullError", "Memory", "Method", "Model", "ModelInfo", "Option", "Piece", "Policy",
    "Replay", "ResourceError", "Sampler", "Scores", "Session", "Stage", "Stats", "Step", "UsageError", "VERSION",
    "Values", "backends", "chat_templates", "compress", "convert", "decode", "make_model", "methods", "policy",
    "press", "prompt_many", "replay", "shapes",
]
