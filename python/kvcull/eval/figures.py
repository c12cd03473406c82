"""Figures of results, drawn by matplotlib: scores against compression ratio, bytes and length, and maps over depth.

Every mark has a number of samples and a 95 % interval, and every line has a name. Each figure is also available as a
table.
"""
from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from .summary import Cell, bytes_text, cells, method_of, wilson

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#3b8fc2", "#6a3d9a", "#b2182b", "#1b7837", "#555555")
STYLE = {"font.size": 8.5, "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 9.5,
         "axes.titleweight": "bold", "axes.grid": True, "grid.color": "#dddddd", "grid.linewidth": 0.6,
         "axes.axisbelow": True, "svg.hashsalt": "kvcull", "svg.fonttype": "path", "pdf.fonttype": 42}
ASKED = {"seen": "question seen", "unseen": "question unseen", "none": "no question"}


def pyplot():
    """Returns matplotlib's pyplot without a window. Raises ImportError with what to install."""
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install matplotlib") from error
    matplotlib.use("Agg")
    from matplotlib import pyplot as made
    return made


@dataclass
class Figure:
    """A figure and its numbers. name: name of its files. draw(plt): returns the matplotlib figure."""

    name: str
    title: str
    caption: str
    columns: Tuple[str, ...]
    rows: List[Tuple[Any, ...]]
    draw: Callable[[Any], Any]
    _images: Dict[Tuple[str, str], bytes] = field(default_factory=dict)

    def image(self, kind: str, foot: str = "") -> bytes:
        """Returns the figure as "svg" or "pdf", with a line about where it comes from below it."""
        if (kind, foot) in self._images:
            return self._images[kind, foot]
        plt = pyplot()
        with plt.rc_context(STYLE):
            figure = self.draw(plt)
            if foot:
                figure.text(0.01, 0.002, foot, fontsize=5.5, color="#777777", ha="left", va="bottom")
            stream = io.BytesIO()
            dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
            figure.savefig(stream, format=kind, metadata=dates)
            plt.close(figure)
        self._images[kind, foot] = stream.getvalue()
        return self._images[kind, foot]


def spread(places: Sequence[float], gap: float) -> List[float]:
    """Returns places at least `gap` apart: spreads those that are too close around their mean, in their order."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    groups: List[List[int]] = []
    centres: List[float] = []
    for i in order:
        groups.append([i])
        centres.append(places[i])
        while len(groups) > 1 and centres[-1] - centres[-2] < gap * (len(groups[-1]) + len(groups[-2])) / 2:
            joined = groups[-2] + groups[-1]
            groups[-2:], centres[-2:] = [joined], [sum(places[k] for k in joined) / len(joined)]
    made = list(places)
    for group, centre in zip(groups, centres):
        for rank, i in enumerate(group):
            made[i] = centre + gap * (rank - (len(group) - 1) / 2)
    return made


def _name_lines(axes, ends: Sequence[Tuple[str, Optional[float], float, str]], most: float = 0.062) -> None:
    """Writes names to the right of the axes. A thin line leads from each name to the last mark of its line or, if that
    is None, to the edge."""
    if not ends:
        return
    low, high = axes.get_ylim()
    left, right = axes.get_xlim()
    scale = axes.xaxis.get_transform()
    gap = min(most, 1.1 / len(ends))
    fractions = [(y - low) / (high - low) for _name, _x, y, _colour in ends]
    for (name, x, y, colour), place in zip(ends, spread(fractions, gap)):
        at = 1.0 if x is None else ((scale.transform(x) - scale.transform(left))
                                    / (scale.transform(right) - scale.transform(left)))
        axes.annotate(name, (at, (y - low) / (high - low)), (1.03, place), xycoords="axes fraction",
                      textcoords="axes fraction", color=colour, fontsize=7.5, va="center", annotation_clip=False,
                      arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.5, "alpha": 0.6, "shrinkA": 1,
                                  "shrinkB": 3})


def _colours(found: Sequence[Cell]) -> Dict[str, str]:
    names = [name for name in dict.fromkeys(method_of(one.kv) for one in found) if name != "full"]
    return {"full": "#222222", **{name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}}


def _marks(axes, xs: Sequence[float], marks: Sequence[Cell], each: bool, **style: Any) -> None:
    """Draws marks with faint intervals. each: every mark shows its number of samples."""
    errors = [[max(0.0, one.score - one.low) for one in marks], [max(0.0, one.high - one.score) for one in marks]]
    _line, caps, bars = axes.errorbar(xs, [one.score for one in marks], yerr=errors, ms=4, lw=1.4, elinewidth=0.8,
                                      capsize=2, zorder=3, **style)
    for part in (*caps, *bars):
        part.set_alpha(0.45)
    for x, one in zip(xs, marks) if each else ():
        axes.annotate(f"n={one.n}", (x, one.score), (3, 3), textcoords="offset points", fontsize=5.5,
                      color=style["color"]).set_in_layout(False)


def _note_n(found: Sequence[Cell]) -> str:
    """If all marks have the same number of samples, returns a text about it for the axis, because marks then need no
    numbers."""
    counts = {one.n for one in found}
    return f" (n = {counts.pop()} at every mark)" if len(counts) == 1 else ""


def _limits(axes, found: Sequence[Cell]) -> None:
    low, high = min(one.low for one in found), max(one.high for one in found)
    room = 0.05 * (high - low or 1)
    axes.set_ylim(low - room, high + room)


def _lines(axes, found: Sequence[Cell], place: Callable[[Cell], Optional[float]], colours: Mapping[str, str],
           label: str) -> None:
    """Draws a line for each method. The line of the method `full` goes from one side to the other."""
    ends: List[Tuple[str, Optional[float], float, str]] = []
    note = _note_n(found)
    _limits(axes, found)
    for name in dict.fromkeys(method_of(one.kv) for one in found):
        placed = ((place(one), one) for one in found if method_of(one.kv) == name)
        marks = sorted(((x, one) for x, one in placed if x is not None), key=lambda pair: pair[0])
        if not marks:
            continue
        colour, xs, ys = colours[name], [x for x, _one in marks], [one.score for _x, one in marks]
        if name == "full":
            axes.axhline(ys[0], color=colour, lw=0.9, ls=(0, (5, 3)), zorder=1)
        _marks(axes, xs, [one for _x, one in marks], not note, color=colour, marker="o")
        ends.append((name, None if name == "full" else xs[-1], ys[-1], colour))
    axes.margins(x=0.08)
    axes.autoscale(axis="x")
    axes.set_xlabel(label + note)
    _name_lines(axes, ends)


def _panels(plt, panels: Sequence[Tuple[str, Callable[[Any], None]]], across: int = 2, high: float = 2.9):
    """Returns a figure of panels with titles."""
    across = min(across, len(panels))
    down = -(-len(panels) // across)
    figure, grid = plt.subplots(down, across, figsize=(4.6 * across, high * down + 0.25), squeeze=False,
                                layout="constrained")
    bottom = 0.12 / (high * down + 0.25)  # leaves room for the text below
    figure.get_layout_engine().set(rect=(0, bottom, 1, 1 - bottom))
    for axes, (title, draw) in zip(grid.flat, panels):
        draw(axes)
        axes.set_title(title, loc="left")
    for axes in grid.flat[len(panels):]:
        axes.set_visible(False)
    return figure


COLUMNS = ("task", "length", "policy", "asked", "score", "low", "high", "n", "ratio", "held_bytes", "read_bytes")


def _rows(found: Sequence[Cell]) -> List[Tuple[Any, ...]]:
    return [(one.task, one.length, one.kv, one.question, round(one.score, 6), round(one.low, 6), round(one.high, 6),
             one.n, "" if one.ratio is None else round(one.ratio, 6), round(one.held_bytes), round(one.read_bytes))
            for one in found]


def _unit(found: Sequence[Cell]) -> str:
    return "score" if found[0].unit == "share" else found[0].unit


def _against(found: List[Cell], name: str, title: str, caption: str, label: str,
             place: Callable[[Cell], Optional[float]], logarithmic: bool) -> Figure:
    """Returns a figure of scores against one measure, with a panel for each task, length and question mode."""
    colours = _colours(found)
    keys = list(dict.fromkeys((one.task, one.length, one.question) for one in found))

    def panel(key):
        def draw(axes):
            some = [one for one in found if (one.task, one.length, one.question) == key]
            if logarithmic:
                axes.set_xscale("log", base=2)
                axes.xaxis.set_major_formatter(lambda value, _place: bytes_text(value))
            _lines(axes, some, place, colours, label)
            axes.set_ylabel(_unit(some))
        return f"{key[0]}, {key[1]} tokens, {ASKED.get(key[2], key[2])}", draw

    return Figure(name, title, caption, COLUMNS, _rows(found), lambda plt: _panels(plt, [panel(key) for key in keys]))


def _over_lengths(found: List[Cell]) -> Figure:
    colours = _colours(found)
    keys = list(dict.fromkeys((one.task, one.question) for one in found))

    def panel(key):
        def draw(axes):
            some = [one for one in found if (one.task, one.question) == key]
            axes.set_xscale("log", base=2)
            lengths = sorted({one.length for one in some})
            ends, note = [], _note_n(some)
            _limits(axes, some)
            policies = list(dict.fromkeys(one.kv for one in some))
            for number, kv in enumerate(policies):
                marks = sorted((one for one in some if one.kv == kv), key=lambda one: one.length)
                colour = colours[method_of(kv)]
                shade = 2 ** (0.12 * (number / max(1, len(policies) - 1) - 0.5))  # apart, so that intervals stay visible
                xs = [one.length * shade for one in marks]
                _marks(axes, xs, marks, not note, color=colour, marker="os^Dv"[number % 5])
                ends.append((kv, xs[-1], marks[-1].score, colour))
            axes.set_xticks(lengths, [str(length) for length in lengths])
            axes.minorticks_off()
            axes.margins(x=0.08)
            axes.autoscale(axis="x")
            _name_lines(axes, ends)
            axes.set_xlabel("tokens of prompt and answer" + note)
            axes.set_ylabel(_unit(some))
        return f"{key[0]}, {ASKED.get(key[1], key[1])}", draw

    return Figure("lengths", "Scores over lengths", "Means with 95 % intervals; n is the number of samples.", COLUMNS,
                  _rows(found), lambda plt: _panels(plt, [panel(key) for key in keys],
                                                    high=max(2.9, 0.17 * len({one.kv for one in found}))))


def _depth_map(records: Sequence[Mapping[str, Any]], task: str, number: int) -> Figure:
    """Returns the maps of one task. Each policy and question mode has a panel with the scores for each depth and
    length."""
    found: Dict[Tuple[str, str], Dict[Tuple[float, int], List[float]]] = {}
    for one in records:
        if one["task"] == task and one.get("depth") is not None:
            values = found.setdefault((one["kv"], one["question"]), {})
            values.setdefault((float(one["depth"]), one["length"]), []).append(float(one["score"]))
    depths = sorted({place[0] for values in found.values() for place in values})
    lengths = sorted({place[1] for values in found.values() for place in values})
    rows = [(task, length, kv, question, depth, *(round(one, 6) for one in (
        sum(scores) / len(scores), *wilson(sum(scores) / len(scores), len(scores)))), len(scores))
            for (kv, question), values in found.items() for (depth, length), scores in sorted(values.items())]

    def panel(key):
        def draw(axes):
            values = found[key]
            grid = [[sum(values[place]) / len(values[place]) if (place := (depth, length)) in values else float("nan")
                     for length in lengths] for depth in depths]
            axes.imshow(grid, vmin=0, vmax=1, cmap="cividis", aspect="auto", interpolation="nearest")
            axes.set_xticks(range(len(lengths)), [str(length) for length in lengths])
            axes.set_yticks(range(len(depths)), [f"{100 * depth:.0f} %" for depth in depths])
            axes.set_xlabel("tokens of prompt and answer")
            axes.set_ylabel("depth of the answer")
            axes.grid(False)
            for y, row in enumerate(grid):
                for x, score in enumerate(row):
                    if score == score:
                        scores = values[(depths[y], lengths[x])]
                        low, high = wilson(score, len(scores))
                        axes.text(x, y, f"{score:.2f}\n{low:.2f}-{high:.2f}, n={len(scores)}", ha="center", va="center",
                                  fontsize=5.5, color="black" if score > 0.55 else "white")
        return f"{key[0]}, {ASKED.get(key[1], key[1])}", draw

    return Figure(f"depths-{number}", f"{task}: scores by depth and length", "Each cell has the mean, its 95 % interval "
                  "and the number of samples.",
                  ("task", "length", "policy", "asked", "depth", "score", "low", "high", "n"), rows,
                  lambda plt: _panels(plt, [panel(key) for key in found], high=0.9 + 0.3 * len(depths)))


def _over_tasks(found: List[Cell]) -> Figure:
    """Returns a figure with the scores of all tasks as marks side by side, with a row for each task."""
    colours = _colours(found)
    keys = list(dict.fromkeys((one.length, one.question) for one in found))
    tasks = list(dict.fromkeys(one.task for one in found))
    policies = list(dict.fromkeys(one.kv for one in found))

    def panel(key):
        def draw(axes):
            ends = {}
            for number, kv in enumerate(policies):
                some = [one for one in found if (one.length, one.question) == key and one.kv == kv]
                shift = 0.7 * ((number + 0.5) / len(policies) - 0.5)
                for one in some:
                    y = tasks.index(one.task) + shift
                    axes.errorbar(one.score, y, xerr=[[max(0, one.score - one.low)], [max(0, one.high - one.score)]],
                                  color=colours[method_of(kv)], marker="os^Dv"[number % 5], ms=3.5, elinewidth=0.8,
                                  capsize=1.5)
                    axes.annotate(f"n={one.n}", (one.high, y), (3, 0), textcoords="offset points", fontsize=5,
                                  va="center", color=colours[method_of(kv)])
                    ends.setdefault(kv, (one.high, y))
            axes.set_yticks(range(len(tasks)), tasks)
            axes.set_ylim(len(tasks) - 0.5, -0.5)
            axes.set_xlabel("score")
            for kv, (x, y) in ends.items():
                axes.annotate(kv, (x, y), (20, 0), textcoords="offset points", fontsize=6, va="center",
                              color=colours[method_of(kv)], annotation_clip=False)
        return f"{key[0]} tokens, {ASKED.get(key[1], key[1])}", draw

    return Figure("tasks", "Scores by task", "Means with 95 % intervals; n is the number of samples.", COLUMNS,
                  _rows(found), lambda plt: _panels(plt, [panel(key) for key in keys],
                                                    high=0.8 + 0.16 * len(tasks) * max(2, len(policies))))


MOST_TASKS = 2  # with more tasks, panels show only their mean, and another figure shows each task


def figures(records: Sequence[Mapping[str, Any]]) -> List[Figure]:
    """Returns the figures that these results allow."""
    found, made = cells(records), []
    shares = [one for one in found if one.unit == "share"]
    tasks = list(dict.fromkeys(one.task for one in shares))
    shown = list(found) if len(tasks) <= MOST_TASKS else [one for one in found if one.unit != "share"]
    if len(tasks) > 1:
        shown = cells(records, all_tasks=True) + shown
    caption = "Means with 95 % intervals; n is the number of samples. The dashed line is the full cache."
    if any(one.ratio is not None for one in shown):
        made.append(_against(shown, "ratio", "Scores against compression ratio", caption + " The ratio is 1 - bytes held "
                             "/ bytes of the full cache, after the prompt.", "compression ratio", lambda one: one.ratio,
                             False))
    made.append(_against(shown, "bytes", "Scores against bytes held", caption, "bytes held after the prompt",
                         lambda one: one.held_bytes, True))
    if any(one.read_bytes for one in shown):
        made.append(_against(shown, "reads", "Scores against bytes read", caption, "cache bytes read per generated token",
                             lambda one: one.read_bytes or None, True))
    if len({one.length for one in shown}) > 1:
        made.append(_over_lengths(shown))
    if len(tasks) > 1:
        made.append(_over_tasks(shares))
    depths = dict.fromkeys(one["task"] for one in records if one.get("depth") is not None)
    made += [_depth_map(records, task, number + 1) for number, task in enumerate(depths)]
    return made


__all__ = ["Figure", "figures", "pyplot", "spread"]
