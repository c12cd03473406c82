#!/usr/bin/env python3
"""Draws docs/pictures/context.svg from docs/measured/context.json, or prints its numbers as a Markdown table.

    python3 tools/chart_context.py svg docs/measured/context.json > docs/pictures/context.svg
    python3 tools/chart_context.py table docs/measured/context.json

tools/context.py measures the numbers. The picture follows the reader's light or dark colour scheme.
"""
import json
import math
import sys

from chart import style

WIDTH, HEIGHT = 920, 366
TOP, BOTTOM = 56, 312  # of both panels
PANELS = [(66, 312), (526, 772)]  # left and right edge of each panel
LABEL_GAP = 16  # minimum distance of two labels' baselines
LIGHT = {"text": "#1f2328", "quiet": "#59636e", "grid": "#d1d9e0",
         "full": "#59636e", "snapkv": "#0969da", "rocketkv": "#bc4c00", "quest": "#1a7f37"}
DARK = {"text": "#f0f6fc", "quiet": "#9198a1", "grid": "#3d444d",
        "full": "#b7bdc8", "snapkv": "#58a6ff", "rocketkv": "#f0883e", "quest": "#56d364"}


STYLE = style(LIGHT, DARK, ("full", "snapkv", "rocketkv", "quest"))


def bytes_as_text(count):
    for unit, size in (("GiB", 2**30), ("MiB", 2**20)):
        if count >= size:
            return f"{count / size:.1f}".removesuffix(".0") + f" {unit}" if count < 10 * size else f"{count / size:.0f} {unit}"
    return f"{count / 1024:.0f} KiB"


def seconds_as_text(seconds):
    return f"{seconds * 1e3:.0f} ms"


def series(measured, member):
    """{policy: [(tokens, value), ...]} in the order of the file."""
    lines = {}
    for context in measured["contexts"]:
        for row in context["policies"]:
            lines.setdefault(row["kv"], []).append((context["tokens"], row[member]))
    return lines


def spread(wanted):
    """Moves label positions apart, keeping their order, so that none overlap."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    placed = [wanted[i] for i in order]
    for _ in range(200):
        for a in range(len(placed) - 1):
            overlap = LABEL_GAP - (placed[a + 1] - placed[a])
            if overlap > 0:
                placed[a] -= overlap / 2
                placed[a + 1] += overlap / 2
    result = [0.0] * len(wanted)
    for place, i in zip(placed, order):
        result[i] = place
    return result


def panel(edges, title, lines, horizontal, vertical, as_text):
    """Draws one panel. An axis (`horizontal`, `vertical`) is a pair: a function from a value to 0..1, and the values of
    its ticks."""
    left, right = edges

    def x(tokens):
        return left + horizontal[0](tokens) * (right - left)

    def y(value):
        return BOTTOM - vertical[0](value) * (BOTTOM - TOP)

    out = [f'<text class="title" x="{left}" y="{TOP - 30}">{title}</text>']
    for value in vertical[1]:
        out.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>')
        out.append(f'<text class="quiet" x="{left - 8}" y="{y(value) + 4:.1f}" text-anchor="end">{as_text(value)}</text>')
    for tokens in horizontal[1]:
        out.append(f'<line class="grid" x1="{x(tokens):.1f}" x2="{x(tokens):.1f}" y1="{BOTTOM}" y2="{BOTTOM + 5}"/>')
        name = f"{tokens // 1024}K" if tokens else "0"
        out.append(f'<text class="quiet" x="{x(tokens):.1f}" y="{BOTTOM + 22}" text-anchor="middle">{name}</text>')
    out.append(f'<text class="quiet" x="{(left + right) / 2:.1f}" y="{BOTTOM + 42}" text-anchor="middle">'
               'context length in tokens</text>')
    heights = spread([y(points[-1][1]) for points in lines.values()])
    for (policy, points), height in zip(lines.items(), heights):
        name = policy.split(":")[0]
        path = " ".join(f"{x(tokens):.1f},{y(value):.1f}" for tokens, value in points)
        out.append(f'<g class="{name}"><polyline class="line" points="{path}"/>')
        out += [f'<circle class="dot" cx="{x(tokens):.1f}" cy="{y(value):.1f}" r="2.5"/>' for tokens, value in points]
        out.append(f'<text class="label" x="{right + 10}" y="{height + 4:.1f}">{name}: '
                   f'{as_text(points[-1][1])}</text></g>')
    return out


def log_axis(low, high, step):
    """Returns an axis from 2^low to 2^high with a tick every `step` powers of two."""
    return (lambda value: (math.log2(value) - low) / (high - low)), [2**power for power in range(low, high + 1, step)]


def linear_axis(high, step):
    return (lambda value: value / high), [step * i for i in range(round(high / step) + 1)]


def svg(measured):
    memory = series(measured, "cache_bytes")
    seconds = series(measured, "seconds_per_token")
    longest = measured["contexts"][-1]["tokens"]
    shortest = measured["contexts"][0]["tokens"]
    slowest = max(value for points in seconds.values() for _, value in points)
    step = next(s for s in (0.05, 0.1, 0.2, 0.5, 1, 2, 5) if slowest <= 6 * s)
    most = max(value for points in memory.values() for _, value in points)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
           ' role="img">',
           '<title>Cache memory and time per generated token against context length: ' + ", ".join(memory) + '</title>',
           f'<style>{STYLE}</style>']
    out += panel(PANELS[0], "KV cache memory (both axes logarithmic)", memory,
                 log_axis(int(math.log2(shortest)), int(math.log2(longest)), 1),
                 log_axis(24, math.ceil(math.log2(most)), 2), bytes_as_text)
    out += panel(PANELS[1], "Time per generated token", seconds, linear_axis(longest, longest // 4),
                 linear_axis(math.ceil(slowest / step) * step, step), seconds_as_text)
    out.append('</svg>')
    return "\n".join(out) + "\n"


def table(measured):
    policies = [row["kv"] for row in measured["contexts"][0]["policies"]]
    out = ["| context |" + "".join(f" `{policy}` |" for policy in policies), "|---|" + "---|" * len(policies)]
    for context in measured["contexts"]:
        cells = [f'{seconds_as_text(row["seconds_per_token"])}, {bytes_as_text(row["cache_bytes"])}, '
                 f'{bytes_as_text(row["read_bytes_per_token"])}' for row in context["policies"]]
        out.append(f'| {context["tokens"]:,} | ' + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def main():
    makes = {"svg": svg, "table": table}
    if len(sys.argv) != 3 or sys.argv[1] not in makes:
        sys.exit(__doc__)
    with open(sys.argv[2], encoding="utf-8") as file:
        sys.stdout.write(makes[sys.argv[1]](json.load(file)))


if __name__ == "__main__":
    main()
