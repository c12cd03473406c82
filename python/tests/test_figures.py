"""Figures of results: every mark has its number of samples and its interval, every line its name."""
import csv
import io
import re

import pytest

from kvcull.eval import Results, cells
from kvcull.eval.summary import method_of, normal, wilson

pytest.importorskip("matplotlib", reason="figures are drawn by matplotlib")
from kvcull.eval import figures, report  # noqa: E402

POLICIES = {"full": 1.0, "snapkv:budget=64": 0.25, "snapkv:budget=128": 0.5, "h2o:budget=64,window=8": 0.25}


def records(tasks=("niah", "vt"), lengths=(256, 512), samples=6):
    """Returns results in which policy and depth determine the score."""
    return [{"model": "m<b>", "weights": "w", "arithmetic": "int8 3", "cache_type": "f16", "prompt": "raw", "data": "d",
             "task": task, "length": length, "seed": 0, "sample": i, "kv": kv, "question": asked, "prompt_tokens": length,
             "answer": "", "score": float((i % 3) / 3 < part), "held_bytes": int(1000 * part * length),
             "full_bytes": 1000 * length, "read_bytes": int(9000 * part * length), "steps": 9, "prompt_us": 5,
             "answer_us": 9, **({"depth": (i % 3) / 2} if task == "niah" else {})}
            for task in tasks for length in lengths for kv, part in POLICIES.items() for asked in ("seen", "unseen")
            for i in range(samples)]


def results():
    made = Results()
    for one in records(("niah", "vt"), (256,)):
        made.add(one)
    made.add_run({"command": "python -m kvcull.eval run <x>", "version": "1", "commit": "abc", "model_hash": "sha256:12",
                  "machine": "Xeon", "date": "2026-01-02T03:04:05+00:00", "seed": 7})
    return made


def test_intervals():
    assert wilson(0.5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert wilson(0, 0) == (0, 1) and wilson(1, 5)[1] == 1
    assert normal([1, 2, 3]) == pytest.approx((2 - 1.1316, 2 + 1.1316), abs=1e-4) and normal([2]) == (2, 2)


def test_cells():
    found = {(one.task, one.length, one.kv, one.question): one for one in cells(records())}
    one = found["niah", 512, "snapkv:budget=64", "unseen"]
    assert len(found) == 32 and (one.n, one.ratio, one.held_bytes) == (6, 0.75, 128000)
    assert one.score == pytest.approx(1 / 3) and one.low < one.score < one.high
    assert method_of("h2o:budget=64,window=8+quest:budget=5") == "h2o:window=8+quest"


def test_turns_are_one_sample():
    some = [dict(one, turn=turn, score=turn - 1.0) for one in records(("vt",), (256,), 2) for turn in (1, 2)]
    assert all((one.n, one.score) == (2, 0.5) for one in cells(some))


def test_which_figures():
    names = [figure.name for figure in figures.figures(records())]
    assert names == ["ratio", "bytes", "reads", "lengths", "tasks", "depths-1"]
    assert [figure.name for figure in figures.figures(records(("vt",), (256,)))] == ["ratio", "bytes", "reads"]
    perplexity = [dict(one, unit="nats/token") for one in records(("perplexity",), (256,))]
    assert figures.figures(perplexity)[0].name == "ratio"


@pytest.mark.parametrize("name", ["ratio", "bytes", "reads", "lengths", "tasks"])
def test_names_and_numbers_are_drawn(name):
    """All texts of the matplotlib figure: names of lines, n of marks."""
    figure = next(one for one in figures.figures(records()) if one.name == name)
    plt = figures.pyplot()
    drawn = figure.draw(plt)
    for axes in (axes for axes in drawn.axes if axes.get_visible()):
        texts = [text.get_text() for text in axes.texts] + [axes.get_xlabel()]
        lines = POLICIES if name in ("lengths", "tasks") else {method_of(kv) for kv in POLICIES}
        assert set(lines) <= set(texts)
        assert any(re.search(r"n ?= ?(6|12)\b", text) for text in texts)
        assert axes.containers and all(len(made) == 3 for made in axes.containers)  # the marks and their intervals
    plt.close(drawn)


def test_different_n_at_marks():
    some = [one for one in records(("vt",), (256,)) if one["kv"] == "full" or one["sample"] < 4]
    plt = figures.pyplot()
    drawn = figures.figures(some)[0].draw(plt)
    texts = [text.get_text() for text in drawn.axes[0].texts]
    assert texts.count("n=4") == 3 and texts.count("n=6") == 1
    plt.close(drawn)


def test_labels_do_not_overlap():
    places = figures.spread([0.5, 0.51, 0.5, 0.9], 0.1)
    assert sorted(places)[1] - sorted(places)[0] >= 0.0999 and places[3] == 0.9
    assert places[0] < places[2] < places[1] and sum(places[:3]) == pytest.approx(1.51)


def test_files(tmp_path):
    report.write(results(), str(tmp_path / "report.html"), str(tmp_path / "figures"))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page and not re.search(r"https?://(?!www\.w3\.org)", re.sub(r"base64,[^\"]*", "", page))
    assert "m&lt;b&gt;" in page and "run &lt;x&gt;" in page and "sha256:12" in page and "<dd>7</dd>" in page
    svg = (tmp_path / "figures" / "ratio.svg").read_bytes()
    assert svg == figures.figures(results().records)[0].image("svg", report.foot_of(results()))  # the same each time
    assert (tmp_path / "figures" / "ratio.pdf").read_bytes().startswith(b"%PDF")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "figures" / "bytes.csv").read_text())))
    assert {row["task"] for row in rows} == {"all tasks", "niah", "vt"} and rows[0]["n"] == "12"
    latex = (tmp_path / "figures" / "ratio.tex").read_text()
    assert r"\toprule" in latex and r"held\_bytes" in latex and "commit" not in latex and "abc" in latex
    assert {path.name for path in tmp_path.iterdir()} == {"report.html", "figures"}


def test_a_folder_that_cannot_be_written(tmp_path):
    with pytest.raises(report.InputError, match="cannot be written"):
        report.write(results(), str(tmp_path / "none" / "report.html"), None)
