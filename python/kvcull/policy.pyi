"""Types of the methods' options. Made by tools/policy_types.py from the library's tables; do not edit."""
from typing import Any, Callable, Dict, List, Literal, Optional, Sequence, Tuple, Union

import numpy as np

KINDS: Tuple[str, ...]
STAGES: Tuple[str, ...]

Numbers = Union[int, str, Sequence[int], "np.ndarray[Any, Any]"]

class Option:
    name: str
    kind: str
    default: Optional[str]
    minimum: float
    maximum: float
    choices: Tuple[str, ...]
    help: str
    def __init__(self, name: str, kind: str, default: Optional[str] = ..., minimum: float = ..., maximum: float = ...,
                 choices: Tuple[str, ...] = ..., help: str = ...) -> None: ...
    @property
    def takes(self) -> str: ...

class Method:
    name: str
    summary: str
    paper: str
    idea: str
    formula: str
    memory: str
    traffic: str
    differences: str
    second_turn: str
    stages: Tuple[str, ...]
    options: Tuple[Option, ...]
    common: Tuple[Option, ...]

class Policy:
    spec: str
    def __init__(self, spec: str) -> None: ...
    def __add__(self, other: Union["Policy", str]) -> "Policy": ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object) -> bool: ...

def stage_names(bits: int) -> List[str]: ...
def option_rows(table: Any) -> Tuple[Option, ...]: ...
def methods() -> Dict[str, Method]: ...
def keyword_of(option: Option) -> str: ...
def spec_of(method: Method, given: Dict[str, Any]) -> str: ...
def function_of(method: Method) -> Callable[..., Policy]: ...

def full(
) -> Policy: ...
def window(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def streaming(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    sinks: Optional[int] = ...,
    positions: Optional[Literal['original', 'cache']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def random(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    recent: Optional[int] = ...,
    seed: Optional[int] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def knorm(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    recent: Optional[int] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def keydiff(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    recent: Optional[int] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def qfilter(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    file: Numbers,
    recent: Optional[int] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def dms(
    *,
    threshold: Optional[float] = ...,
    window: Optional[int] = ...,
    scorer: Optional[Literal['qfilter', 'knorm', 'kvzap']] = ...,
    file: Optional[Numbers] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def kvzap(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    file: Numbers,
    recent: Optional[int] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def fastkvzip(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    file: Numbers,
    per: Optional[Literal['model', 'layer', 'head']] = ...,
    sinks: Optional[int] = ...,
    window: Optional[int] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def block(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    chunk: Optional[int] = ...,
    scorer: Optional[Literal['keydiff', 'knorm', 'random']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def h2o(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    recent: Optional[Numbers] = ...,
    prompt: Optional[Literal['evict', 'keep']] = ...,
    per: Optional[Literal['group', 'head']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def scissorhands(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    history: Optional[int] = ...,
    recent: Optional[Numbers] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def keyformer(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    recent: Optional[Numbers] = ...,
    tau_init: Optional[float] = ...,
    tau_end: Optional[float] = ...,
    steps: Optional[int] = ...,
    seed: Optional[int] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def snapkv(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    window: Optional[int] = ...,
    kernel: Optional[int] = ...,
    pooling: Optional[Literal['max', 'avg']] = ...,
    per: Optional[Literal['group', 'head']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def snapkv_decode(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    window: Optional[int] = ...,
    every: Optional[int] = ...,
    kernel: Optional[int] = ...,
    pooling: Optional[Literal['max', 'avg']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def rkv(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    window: Optional[int] = ...,
    every: Optional[int] = ...,
    kernel: Optional[int] = ...,
    pooling: Optional[Literal['max', 'avg']] = ...,
    lambda_: Optional[float] = ...,
    threshold: Optional[float] = ...,
    scores: Optional[Literal['weights', 'logits']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def triattention(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    stats: Numbers,
    every: Optional[int] = ...,
    recent: Optional[int] = ...,
    future: Optional[int] = ...,
    heads: Optional[Literal['max', 'mean']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def expected(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    sinks: Optional[int] = ...,
    future: Optional[int] = ...,
    covariance: Optional[Literal['on', 'off']] = ...,
    values: Optional[Literal['on', 'off']] = ...,
    epsilon: Optional[float] = ...,
    stats: Optional[Numbers] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def cap(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    sinks: Optional[int] = ...,
    future: Optional[int] = ...,
    tau: Optional[float] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def chunkkv(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    window: Optional[int] = ...,
    chunk: Optional[int] = ...,
    scorer: Optional[Literal['snapkv', 'knorm', 'keydiff', 'random']] = ...,
    per: Optional[Literal['group', 'layer']] = ...,
    gate: Optional[int] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def criticalkv(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    window: Optional[int] = ...,
    scorer: Optional[Literal['snapkv', 'expected', 'knorm', 'keydiff', 'random']] = ...,
    first: Optional[float] = ...,
    epsilon: Optional[float] = ...,
    kernel: Optional[int] = ...,
    pooling: Optional[Literal['max', 'avg']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def cam(
    *,
    span: Optional[int] = ...,
    prompt: Optional[Literal['keep', 'merge']] = ...,
    seed: Optional[int] = ...,
) -> Policy: ...
def merging(
    *,
    threshold: Optional[float] = ...,
) -> Policy: ...
def think(
    *,
    ratio: Optional[float] = ...,
    channels: Optional[int] = ...,
    window: Optional[int] = ...,
    recent: Optional[int] = ...,
) -> Policy: ...
def compactor(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    sinks: Optional[int] = ...,
    recent: Optional[int] = ...,
    chunk: Optional[int] = ...,
    blend: Optional[float] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def leverage(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    sinks: Optional[int] = ...,
    recent: Optional[int] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def noncausal(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    sinks: Optional[int] = ...,
    recent: Optional[int] = ...,
    chunk: Optional[int] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def cur(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    sinks: Optional[int] = ...,
    chunk: Optional[int] = ...,
    by: Optional[Literal['product', 'mean', 'keys', 'values']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def pyramidkv(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    window: Optional[int] = ...,
    kernel: Optional[int] = ...,
    pooling: Optional[Literal['max', 'avg']] = ...,
    per: Optional[Literal['group', 'head']] = ...,
    beta: Optional[int] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def adakv(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    window: Optional[int] = ...,
    kernel: Optional[int] = ...,
    pooling: Optional[Literal['max', 'avg']] = ...,
    floor: Optional[float] = ...,
    per: Optional[Literal['group', 'head']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def cake(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    window: Optional[int] = ...,
    kernel: Optional[int] = ...,
    pooling: Optional[Literal['max', 'avg']] = ...,
    gamma: Optional[float] = ...,
    tau1: Optional[float] = ...,
    tau2: Optional[float] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def lagkv(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    sinks: Optional[int] = ...,
    lag: Optional[int] = ...,
    scoring: Optional[Literal['within', 'across']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def fastkv(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    window: Optional[int] = ...,
    kernel: Optional[int] = ...,
    pooling: Optional[Literal['max', 'avg']] = ...,
    tsp_layer: Optional[int] = ...,
    tsp: Optional[int] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def finch(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    window: Optional[int] = ...,
    normalize: Optional[Literal['on', 'off']] = ...,
    chunk: Optional[int] = ...,
    positions: Optional[Literal['original', 'cache']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def simlayerkv(
    *,
    sinks: Optional[int] = ...,
    recent: Optional[int] = ...,
    window: Optional[int] = ...,
    threshold: Optional[float] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def lacache(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    span: Optional[int] = ...,
    overlap: Optional[int] = ...,
    sinks: Optional[int] = ...,
    positions: Optional[Literal['original', 'cache']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def duo(
    *,
    file: Numbers,
    sinks: Optional[int] = ...,
    recent: Optional[int] = ...,
    threshold: Optional[float] = ...,
    sparsity: Optional[float] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def morphkv(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    window: Optional[int] = ...,
    fusion: Optional[Literal['sum', 'max']] = ...,
    every: Optional[int] = ...,
    scores: Optional[Literal['weights', 'logits']] = ...,
    per: Optional[Literal['group', 'head']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def dapq(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    pseudo: Optional[int] = ...,
    content: Optional[Literal['ends', 'tail', 'middle', 'random', 'file', 'draft']] = ...,
    head: Optional[int] = ...,
    file: Optional[Numbers] = ...,
    skip: Optional[int] = ...,
    offset: Optional[int] = ...,
    kernel: Optional[int] = ...,
    pooling: Optional[Literal['max', 'avg']] = ...,
    seed: Optional[int] = ...,
    per: Optional[Literal['group', 'head']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def kvzip(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    floor: Optional[float] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def kvcompose(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    least: Optional[int] = ...,
    mean: Optional[Literal['on', 'off']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def take(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    warmup_budget: Optional[Union[int, float, str]] = ...,
    warmup_layers: Optional[int] = ...,
    chunk: Optional[int] = ...,
    probe: Optional[int] = ...,
    alpha: Optional[float] = ...,
    kernel: Optional[int] = ...,
    pooling: Optional[Literal['max', 'avg']] = ...,
    probe_pos: Optional[Literal['chunk', 'end']] = ...,
    probe_sees: Optional[Literal['chunk', 'probes']] = ...,
    probe_from: Optional[Literal['prompt', 'chunk']] = ...,
    average: Optional[Literal['rotated', 'unrotated']] = ...,
    first: Optional[Literal['whole', 'share']] = ...,
    question: Optional[Literal['score', 'keep']] = ...,
    per: Optional[Literal['group', 'head']] = ...,
    positions: Optional[Literal['original', 'cache']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def tova(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    per: Optional[Literal['layer', 'group']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def quest(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    page: Optional[Numbers] = ...,
    p: Optional[float] = ...,
    per: Optional[Literal['group', 'head']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def sparq(
    *,
    budget: Optional[Union[int, float, str, Sequence[Union[int, float, str]]]] = ...,
    dims: Optional[int] = ...,
    topk: Optional[int] = ...,
    local: Optional[int] = ...,
    mean_value: Optional[Literal['on', 'off']] = ...,
    keys: Optional[Literal['twice', 'once']] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def hsa(
    *,
    budget: Optional[Union[int, float, str, Sequence[Union[int, float, str]]]] = ...,
    ratio: Optional[float] = ...,
    page: Optional[int] = ...,
    dims: Optional[int] = ...,
    topk: Optional[int] = ...,
    p: Optional[float] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def rocketkv(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    window: Optional[int] = ...,
    kernel: Optional[int] = ...,
    pooling: Optional[Literal['max', 'avg']] = ...,
    split: Optional[Numbers] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def rocketkv_mt(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    window: Optional[int] = ...,
    kernel: Optional[int] = ...,
    pooling: Optional[Literal['max', 'avg']] = ...,
    split: Optional[Numbers] = ...,
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
def topk(
    *,
    budget: Union[int, float, str, Sequence[Union[int, float, str]]],
    skip_layers: Optional[int] = ...,
    layers: Optional[Numbers] = ...,
    stages: Optional[Literal['both', 'prompt', 'decode']] = ...,
) -> Policy: ...
