"""Writes the report: one HTML file without scripts and without links to other files, and each figure as SVG, PDF, CSV
and LaTeX."""
from __future__ import annotations

import base64
import csv
import html
import io
import os
import tempfile
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..errors import InputError
from .figures import Figure, figures, pyplot
from .results import Results, latest_run
from .summary import HEAD, cells, row_of

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 76rem; padding: 1rem; color: #222; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
figure { margin: 0; overflow-x: auto; } figure img { max-width: 100%; height: auto; }
figcaption { color: #555; font-size: .9rem; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
.table { overflow-x: auto; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; background: #f4f4f2; padding: .8rem 1rem;
     font-size: .85rem; overflow-wrap: anywhere; }
dt { font-weight: 600; } dd { margin: 0; }
@media print { h2 { break-after: avoid; } figure { break-inside: avoid; } }
"""

BOX = (("command", "Command"), ("version", "Version"), ("commit", "Commit"), ("model", "Model"),
       ("model_hash", "Hash of the model"), ("weights", "Weights"), ("arithmetic", "Arithmetic"),
       ("cache_type", "Type of entries"), ("prompt", "Prompt"), ("backend", "Backend"), ("machine", "Machine"),
       ("python", "Python"), ("date", "Date"), ("seed", "Seed"))


def needed() -> None:
    """Raises ImportError if a library of the report is missing."""
    pyplot()


def box_of(results: Results) -> List[Dict[str, str]]:
    """Returns the provenance boxes, one for each run, with the facts that all its results have in common."""
    first = results.records[0]
    common = {name: str(first[name]) for name in ("model", "weights", "arithmetic", "cache_type", "prompt", "seed")
              if name in first and all(one.get(name) == first[name] for one in results.records)}
    boxes = [{**common, **{name: str(value) for name, value in run.items() if value != ""}} for run in results.runs]
    return [{name: box[name] for name, _label in BOX if name in box} for box in boxes or [common]]


def foot_of(results: Results) -> str:
    """Returns the line below each figure."""
    run: Mapping[str, Any] = latest_run(results) or {}
    first = results.records[0]
    parts = [f"kvcull {run.get('version', '')} {run.get('commit', '')}".strip(), str(first.get("model", "")),
             str(run.get("model_hash", ""))[:19], f"arithmetic {first.get('arithmetic', '?')}", str(run.get("machine", "")),
             str(run.get("date", ""))[:10], f"seed {run.get('seed', first.get('seed', '?'))}"]
    return " · ".join(part for part in parts if part)


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    cells_of = lambda tag, row: "".join(f"<{tag}>{html.escape(str(one))}</{tag}>" for one in row)  # noqa: E731
    return ('<div class="table"><table><thead><tr>' + cells_of("th", head) + "</tr></thead><tbody>"
            + "".join(f"<tr>{cells_of('td', row)}</tr>" for row in rows) + "</tbody></table></div>")


def page(results: Results, made: Sequence[Figure]) -> str:
    """Returns the report as HTML."""
    foot, parts = foot_of(results), []
    for figure in made:
        picture = base64.b64encode(figure.image("svg", foot)).decode("ascii")
        parts.append(f'<h2 id="{figure.name}">{html.escape(figure.title)}</h2><figure><img alt="'
                     f'{html.escape(figure.title)}; the table below has its numbers" '
                     f'src="data:image/svg+xml;base64,{picture}"><figcaption>{html.escape(figure.caption)}</figcaption>'
                     f'</figure><details><summary>Numbers</summary>{_table(figure.columns, figure.rows)}</details>')
    boxes = "".join("<dl>" + "".join(f"<dt>{label}</dt><dd>{html.escape(box[name])}</dd>"
                                     for name, label in BOX if name in box) + "</dl>" for box in box_of(results))
    found = cells(results.records)
    leaders = _table(("task", "length", *HEAD), [(one.task, one.length, *row_of(one)) for one in found])
    model = html.escape(str(results.records[0].get("model", "")))
    return (f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width='
            f'device-width, initial-scale=1"><title>kvcull.eval: {model}</title><style>{STYLE}</style></head><body>'
            f"<h1>Policies on {model}</h1>{''.join(parts)}<h2>All results</h2>{leaders}<h2>Where they come from</h2>"
            f"{boxes}</body></html>\n")


def csv_text(figure: Figure) -> str:
    """Returns a figure's numbers as CSV."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(figure.columns)
    writer.writerows(figure.rows)
    return stream.getvalue()


_LATEX = {"&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
          "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"}


def latex_text(figure: Figure, foot: str) -> str:
    """Returns a figure's numbers as a LaTeX table, which needs the package booktabs."""
    def text(value: Any) -> str:
        shown = f"{value:.3f}" if isinstance(value, float) else str(value)
        return "".join(_LATEX.get(character, character) for character in shown)

    numbers = [all(isinstance(row[i], (int, float)) or row[i] == "" for row in figure.rows)
               for i in range(len(figure.columns))]
    lines = [f"% {foot}", r"\begin{tabular}{" + "".join("r" if one else "l" for one in numbers) + "}", r"\toprule",
             " & ".join(map(text, figure.columns)) + r" \\", r"\midrule",
             *(" & ".join(map(text, row)) + r" \\" for row in figure.rows), r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


def _put(path: Path, content: bytes) -> None:
    """Writes a file that appears only when it is complete."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def write(results: Results, html_file: Optional[str], folder: Optional[str]) -> None:
    """Writes the report, and each figure as SVG, PDF, CSV and LaTeX into a folder."""
    needed()
    made, foot = figures(results.records), foot_of(results)
    try:
        if html_file:
            _put(Path(html_file), page(results, made).encode("utf-8", "replace"))
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
        for figure in made if folder else ():
            base = Path(folder or ".") / figure.name
            _put(base.with_suffix(".svg"), figure.image("svg", foot))
            _put(base.with_suffix(".pdf"), figure.image("pdf", foot))
            _put(base.with_suffix(".csv"), csv_text(figure).encode("utf-8", "replace"))
            _put(base.with_suffix(".tex"), latex_text(figure, foot).encode("utf-8", "replace"))
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be written: {error.strerror}") from None


__all__ = ["box_of", "csv_text", "foot_of", "latex_text", "needed", "page", "write"]
