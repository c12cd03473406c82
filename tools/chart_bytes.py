#!/usr/bin/env python3
"""Draws docs/pictures/bytes.svg from docs/measured/bytes.json, or prints its numbers as Markdown tables.

    python3 tools/chart_bytes.py svg docs/measured/bytes.json > docs/pictures/bytes.svg
    python3 tools/chart_bytes.py table docs/measured/bytes.json

tools/equal_bytes.py measures the numbers. The picture shows the first model of the file. It follows the reader's light
or dark colour scheme.
"""
import json
import math
import sys

from chart import style

WIDTH, LEFT, GAP, PANEL_WIDTH = 920, 74, 30, 112
TOP, PANEL_HEIGHT, ROW_HEIGHT = 92, 120, 176
LIGHT = {"text": "#1f2328", "quiet": "#59636e", "grid": "#d1d9e0",
         "f16": "#59636e", "q8_0": "#0969da", "k8v4": "#bc4c00", "q4h": "#1a7f37"}
DARK = {"text": "#f0f6fc", "quiet": "#9198a1", "grid": "#3d444d",
        "f16": "#b7bdc8", "q8_0": "#58a6ff", "k8v4": "#f0883e", "q4h": "#56d364"}
CLASSES = {"f16": "f16", "q8_0": "q8_0", "k=q8_0,v=q4h": "k8v4", "q4h": "q4h"}
ASKED = [("seen", "question seen"), ("unseen", "question unseen")]


STYLE = style(LIGHT, DARK, CLASSES.values())


def series(cells, method, member):
    """{type: [(KiB, score), ...]} in the order of the file."""
    lines = {}
    for cell in cells:
        if cell["method"] == method:
            lines.setdefault(cell["type"], []).append((cell["kib"], cell[member]))
    return lines


def panel(left, top, kib, lines, first, last):
    """Draws one panel: the scores of one method in one question mode. first: the panel has score labels at its left;
    last: it has size labels below it."""
    low, high = math.log2(min(kib)), math.log2(max(kib))

    def x(value):
        return left + (math.log2(value) - low) / max(high - low, 1) * PANEL_WIDTH

    def y(score):
        return top + (1 - score) * PANEL_HEIGHT

    out = []
    for score in (0, 0.5, 1):
        out.append(f'<line class="grid" x1="{left}" x2="{left + PANEL_WIDTH}" y1="{y(score):.1f}" y2="{y(score):.1f}"/>')
        if first:
            out.append(f'<text class="quiet" x="{left - 8}" y="{y(score) + 4:.1f}" text-anchor="end">{score:.1f}</text>')
    for value in kib if last else []:
        out.append(f'<text class="quiet" x="{x(value):.1f}" y="{top + PANEL_HEIGHT + 18}" text-anchor="middle">{value}'
                   '</text>')
    for kind, points in lines.items():
        path = " ".join(f"{x(value):.1f},{y(score):.1f}" for value, score in points)
        out.append(f'<g class="{CLASSES[kind]}"><polyline class="line" points="{path}"/>')
        out += [f'<circle class="dot" cx="{x(value):.1f}" cy="{y(score):.1f}" r="2.5"/>' for value, score in points]
        out.append('</g>')
    return out


def svg(measured):
    model = measured["models"][0]
    methods, kib = model["methods"], model["kib"]
    height = TOP + len(ASKED) * ROW_HEIGHT + 6
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
           'role="img">', '<title>Share of facts found against the bytes of a list, for each type of entries</title>',
           f'<style>{STYLE}</style>',
           '<text class="title" x="20" y="26">Share of facts found against KiB of cache per layer and KV head</text>']
    for i, (kind, name) in enumerate(CLASSES.items()):
        x = 20 + i * 130
        out.append(f'<g class="{name}"><line class="line" x1="{x}" x2="{x + 22}" y1="48" y2="48"/>'
                   f'<text class="label" x="{x + 28}" y="52">{kind}</text></g>')
    for row, (member, words) in enumerate(ASKED):
        top = TOP + row * ROW_HEIGHT
        out.append(f'<text class="quiet" x="18" y="{top + PANEL_HEIGHT / 2}" text-anchor="middle" '
                   f'transform="rotate(-90 18 {top + PANEL_HEIGHT / 2})">{words}</text>')
        for column, method in enumerate(methods):
            left = LEFT + column * (PANEL_WIDTH + GAP)
            if row == 0:
                out.append(f'<text class="label" x="{left + PANEL_WIDTH / 2}" y="{top - 10}" text-anchor="middle">'
                           f'{method}</text>')
            out += panel(left, top, kib, series(model["cells"], method, member), column == 0, True)
    return "\n".join(out + ["</svg>"]) + "\n"


def table(measured):
    out = []
    for model in measured["models"]:
        kinds = list(dict.fromkeys(cell["type"] for cell in model["cells"]))
        out += [f'## {model["model"]}', '', f'    $ {model["command"]}', '',
                f'{model["questions"]} questions in a cell, {model["date"]}. Each cell is `seen`, `unseen` (entries).',
                '', "| method | KiB of a list |" + "".join(f" `{kind}` |" for kind in kinds),
                "|---" * (2 + len(kinds)) + "|"]
        for method in model["methods"]:
            for kib in model["kib"]:
                found = {cell["type"]: cell for cell in model["cells"] if (cell["method"], cell["kib"]) == (method, kib)}
                if found:
                    cells = [f'{found[kind]["seen"]:.2f}, {found[kind]["unseen"]:.2f} ({found[kind]["entries"]})'
                             if kind in found else "" for kind in kinds]
                    out.append(f"| `{method}` | {kib} | " + " | ".join(cells) + " |")
        out.append("")
    return "\n".join(out).rstrip("\n") + "\n"


def main():
    makes = {"svg": svg, "table": table}
    if len(sys.argv) != 3 or sys.argv[1] not in makes:
        sys.exit(__doc__)
    with open(sys.argv[2], encoding="utf-8") as file:
        sys.stdout.write(makes[sys.argv[1]](json.load(file)))


if __name__ == "__main__":
    main()
