"""Summarizes results: means with 95 % intervals for every policy, task, length and question mode."""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

Z = 1.959963984540054  # 97.5 % quantile of the normal distribution


def wilson(share: float, count: int) -> Tuple[float, float]:
    """Returns Wilson's 95 % interval of a share of `count` samples."""
    if count <= 0:
        return 0.0, 1.0
    whole, middle = 1 + Z * Z / count, share + Z * Z / (2 * count)
    half = Z * math.sqrt(share * (1 - share) / count + Z * Z / (4 * count * count))
    return max(0.0, (middle - half) / whole), min(1.0, (middle + half) / whole)


def normal(values: Sequence[float]) -> Tuple[float, float]:
    """Returns the normal 95 % interval of a mean. With one value, both bounds are the mean."""
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, mean
    half = Z * math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
    return mean - half, mean + half


@dataclass(frozen=True)
class Cell:
    """The mean of some samples with one policy. low, high: its 95 % interval. ratio: the compression ratio, 1 - entries
    kept / entries of the method full, by bytes; None: unknown. held_bytes: cache and state after the prompt.
    read_bytes: bytes read per generated token. first_us: time to the first token. step_us: time per further token."""

    task: str
    length: int
    kv: str
    question: str
    score: float
    low: float
    high: float
    n: int
    unit: str
    held_bytes: float
    ratio: Optional[float]
    read_bytes: float
    first_us: float
    step_us: float


def by_sample(records: Iterable[Mapping[str, Any]]) -> List[List[Mapping[str, Any]]]:
    """Returns the results of each sample: the turns of a conversation count as one sample."""
    found: Dict[Tuple[Any, ...], List[Mapping[str, Any]]] = {}
    for record in records:
        found.setdefault((record["task"], record["length"], record.get("seed"), record["sample"]), []).append(record)
    return list(found.values())


def _mean(values: Iterable[Optional[float]]) -> Optional[float]:
    made = [value for value in values if value is not None]
    return sum(made) / len(made) if made else None


def cell(records: Sequence[Mapping[str, Any]], full: Mapping[Tuple[Any, ...], int], task: Optional[str] = None) -> Cell:
    """Returns the mean of the results of one policy and question mode. full: bytes of the method `full`, by
    `full_key`."""
    samples = by_sample(records)
    scores = [sum(float(one["score"]) for one in sample) / len(sample) for sample in samples]
    first, mean = records[0], sum(scores) / len(scores)
    unit = first.get("unit", "share")
    low, high = wilson(mean, len(scores)) if unit == "share" else normal(scores)
    ratios = []
    for one in records:
        whole = one.get("full_bytes") or full.get(full_key(one))
        ratios.append(max(0.0, 1 - one["held_bytes"] / whole) if whole else None)
    steps = sum(one.get("steps", 0) for one in records)
    return Cell(task or first["task"], first["length"], first["kv"], first["question"], mean, low, high, len(scores),
                unit, sum(one["held_bytes"] for one in records) / len(records), _mean(ratios),
                sum(one.get("read_bytes", 0) for one in records) / steps if steps else 0.0,
                sum(one.get("prompt_us", 0) for one in records) / len(records),
                sum(one.get("answer_us", 0) for one in records) / steps if steps else 0.0)


def full_key(record: Mapping[str, Any]) -> Tuple[Any, ...]:
    """Returns a key that results of the same prompt with different policies have in common."""
    return tuple(record.get(name) for name in ("task", "length", "seed", "sample", "question", "turn"))


def cells(records: Sequence[Mapping[str, Any]], all_tasks: bool = False) -> List[Cell]:
    """Returns a cell for every task, length, policy and question mode, in the order of the results. all_tasks: a cell
    has the samples of all tasks of a length together."""
    full = {full_key(one): one["held_bytes"] for one in records if one["kv"] == "full"}
    groups: Dict[Tuple[Any, ...], List[Mapping[str, Any]]] = {}
    for one in records:
        if all_tasks and one.get("unit", "share") != "share":
            continue
        name = "all tasks" if all_tasks else one["task"]
        groups.setdefault((name, one["length"], one["kv"], one["question"]), []).append(one)
    return [cell(group, full, key[0]) for key, group in groups.items()]


def method_of(kv: str) -> str:
    """Returns a policy without its budgets, so that policies of one method are points of one line."""
    parts = []
    for method in kv.split("+"):
        name, _colon, options = method.partition(":")
        kept = [option for option in options.split(",") if option and option.split("=")[0] not in ("budget", "ratio")]
        parts.append(name + (":" + ",".join(kept) if kept else ""))
    return "+".join(parts)


def bytes_text(count: float) -> str:
    """Returns the bytes as text, such as "3.2 MiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1024
    return ""


HEAD = ("policy", "asked", "score", "95 %", "n", "held", "ratio", "read/token", "first", "per token")


def row_of(one: Cell) -> Tuple[str, ...]:
    """Returns a cell as the texts of a table's row."""
    return (one.kv, one.question, f"{one.score:.3f}", f"{one.low:.2f}-{one.high:.2f}", str(one.n),
            bytes_text(one.held_bytes), "" if one.ratio is None else f"{one.ratio:.2f}", bytes_text(one.read_bytes),
            f"{one.first_us / 1e6:.2f} s", f"{one.step_us / 1e3:.1f} ms")


def tables(records: Sequence[Mapping[str, Any]]) -> str:
    """Returns a table for every task and length, and one of all tasks of a length if there are several."""
    found = cells(records)
    if len({one.task for one in found if one.unit == "share"}) > 1:
        found += cells(records, all_tasks=True)
    lines: List[str] = []
    for task, length in dict.fromkeys((one.task, one.length) for one in found):
        rows = [HEAD, *(row_of(one) for one in found if (one.task, one.length) == (task, length))]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
        lines += ["", f"{task} of {length} tokens"]
        lines += ["  ".join(text.ljust(width) if column < 2 else text.rjust(width)
                            for column, (text, width) in enumerate(zip(row, widths))).rstrip() for row in rows]
    return "\n".join(lines[1:])


__all__ = ["Cell", "HEAD", "bytes_text", "by_sample", "cell", "cells", "method_of", "normal", "row_of", "tables",
           "wilson"]
