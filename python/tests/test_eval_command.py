"""python -m kvcull.eval as a user runs it, and the task of docs/how-to/evaluate.md, run from that very text."""
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time

import benchmark_files
import pytest
from conftest import SOURCE, TEXT

GUIDE = (SOURCE / "docs" / "how-to" / "evaluate.md").read_text(encoding="utf-8")


@pytest.fixture(name="run")
def command(tmp_path):
    """Runs the command in an empty folder, and returns its output. `status` is the status that it must have."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE / "python")}

    def runs(*arguments, status=0):
        done = subprocess.run([sys.executable, "-m", "kvcull.eval", *map(str, arguments)], cwd=tmp_path, env=environment,
                              capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        assert done.returncode == status, done.stdout + done.stderr
        return done.stdout if status == 0 else done.stderr

    return runs


def block(kind):
    """Returns the code block of this kind from the guide's section on writing a task."""
    section = GUIDE[GUIDE.index("## Write a task"):]
    return re.search(rf"^```{kind}\n(.*?)^```$", section, re.S | re.M).group(1)


def test_the_guides_task(run, tmp_path, demo):
    pytest.importorskip("matplotlib", reason="the report's figures need matplotlib")
    task = block("python")
    assert len(task.splitlines()) <= 20
    (tmp_path / "harbour.py").write_text(task)
    (tmp_path / "harbour.jsonl").write_text(block("json"))
    words = [word if word != "data/demo" else str(demo) for word in shlex.split(block("sh"))]
    assert words[:4] == ["python", "-m", "kvcull.eval", "run"]
    rows = [line.split() for line in run(*words[3:]).splitlines()]
    found = {(row[0], row[1]): float(row[2]) for row in rows if row and row[0].startswith(("full", "streaming"))}
    assert found["full", "seen"] == found["full", "unseen"] == 1
    assert found["streaming:budget=12", "seen"] < 1
    page = (tmp_path / "harbour.html").read_text()
    assert "data:image/svg+xml;base64," in page and not re.search(r"""(src|href)=["']?(https?:|//)""", page)


MANY = """
from kvcull.eval import Sample, Task

class Many(Task):
    name, tokens, template = "many", 2, False

    def samples(self, data, length):
        for number in range(400):
            yield Sample(f"the magic number for lantern {number} . " * 400, "question : the magic number for lantern", ["a"])
"""


def test_ctrl_c_and_resume(run, tmp_path, demo):
    (tmp_path / "many.py").write_text(MANY)
    out = tmp_path / "out.jsonl"
    common = ["run", "many.py", "-m", demo, "--kv", "full", "--length", "1200", "--threads", "1", "--question", "seen",
              "--out", out]
    begun = subprocess.Popen([sys.executable, "-m", "kvcull.eval", *map(str, common)], cwd=tmp_path, text=True,
                             env={**os.environ, "PYTHONPATH": str(SOURCE / "python")}, stderr=subprocess.PIPE)
    while begun.poll() is None and not (out.exists() and '"sample"' in out.read_text()):
        time.sleep(0.02)
    begun.send_signal(signal.SIGINT)
    assert "interrupted; --resume continues" in begun.communicate(timeout=60)[1] and begun.returncode == 130

    def done():
        return [json.loads(line)["sample"] for line in out.read_text().splitlines() if '"sample"' in line]

    first = done()
    assert first == list(range(len(first))) and len(first) < 400
    run(*common, "--resume", "--samples", len(first) + 1)
    assert done() == [*first, len(first)]


def test_a_reader_that_ends(tmp_path):
    listing = subprocess.Popen([sys.executable, "-m", "kvcull.eval", "list"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env={**os.environ, "PYTHONPATH": str(SOURCE / "python")})
    listing.stdout.close()
    assert listing.stderr.read() == b"" and listing.wait(60) == 1


def test_merge_and_figures(run, tmp_path, demo):
    pytest.importorskip("matplotlib", reason="figures need matplotlib")
    files = benchmark_files.write(tmp_path / "files")
    common = ["run", "longbench/trec", "longbench/lcc", "-m", demo, "--data", f"longbench={files}/longbench", "--kv", "full",
              "--kv", "knorm:budget=64", "--length", "600", "--threads", "1", "-q"]
    whole = run(*common, "--out", "whole.jsonl")
    run(*common, "--out", "one.jsonl", "--shard", "1/2")
    run(*common, "--out", "two.jsonl", "--shard", "2/2")
    assert "all tasks of 600 tokens" in whole and "Prompts: " in whole
    assert "--resume continues" in run(*common, "--out", "whole.jsonl", status=2)
    again = run(*common, "--out", "whole.jsonl", "--resume")
    assert "Prompts" not in again and json.loads((tmp_path / "whole.jsonl").read_text().splitlines()[0])["run"]["version"]

    def scores(text):
        return [row.split()[:5] for row in text.splitlines()]

    merged = run("report", "one.jsonl", "two.jsonl", "--out", "report.html", "--figures", "figures")
    assert sorted(scores(merged)) == sorted(scores(run("report", "whole.jsonl")))
    made = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {f"{name}.{kind}" for name in ("ratio", "bytes", "tasks") for kind in ("svg", "pdf", "csv", "tex")} <= made
    page = (tmp_path / "report.html").read_text()
    for text in ("Hash of the model", "sha256:", "--shard 1/2", "Arithmetic", "Machine", "Seed"):
        assert text in page


def test_ranks_divide_the_samples(run, tmp_path, demo, monkeypatch):
    files = benchmark_files.write(tmp_path / "files")
    for rank in "01":
        monkeypatch.setenv("OMPI_COMM_WORLD_RANK", rank)
        monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
        common = ["run", "longbench/lcc", "-m", demo, "--data", f"{files}/longbench", "--kv", "full", "--length", "500",
                  "--ranks", "data", "--out", "out.jsonl", "-q"]
        environment = {**os.environ, "PYTHONPATH": str(SOURCE / "python")}
        subprocess.run([sys.executable, "-m", "kvcull.eval", *map(str, common)], cwd=tmp_path, env=environment, check=True,
                       capture_output=True)
    samples = [{json.loads(line)["sample"] for line in (tmp_path / f"out.jsonl.{i}of2").read_text().splitlines()[1:]}
               for i in (1, 2)]
    assert samples == [{0}, {1}]


def test_list(run, tmp_path):
    files = benchmark_files.write(tmp_path / "files")
    (files / "longbench" / "data" / "lcc.jsonl").unlink()
    text = run("list", "--data", f"longbench={files}/longbench")
    assert re.search(r"^longbench/hotpotqa .*\n.*: there$", text, re.M)
    assert re.search(r"^longbench/lcc .*\n.*: missing$", text, re.M)


@pytest.mark.parametrize("arguments, message", [
    (["nothing"], "no such task"), (["none.py"], "no such Python file"), (["longbench/lcc", "--kv", "nosuch"], "nosuch"),
    (["longbench/lcc", "--shard", "3/2"], "must be I/N"), (["longbench/lcc", "--resume"], "needs --out"),
    (["longbench/lcc", "--ranks", "data"], "mpirun"), (["longbench/lcc", "--length", "12"], "from 64"),
    (["longbench/lcc", "--length", "abc"], "abc: must be numbers"), (["longbench/lcc", "--samples=-1"], "-1: must be a number")])
def test_wrong_arguments(run, demo, arguments, message):
    assert message in run("run", *arguments, "-m", demo, "--kv", "full", status=2)


def test_missing_files(run, demo):
    assert "does not contain" in run("run", "longbench/lcc", "-m", demo, "--kv", "full", "--raw", status=1)


def test_the_program_reads_results_of_python(run, tmp_path, demo, program):
    files = benchmark_files.write(tmp_path / "files")
    table = run("run", "longbench/lcc", "-m", demo, "--data", f"{files}/longbench", "--kv", "full", "--length", "500", "--out",
                "out.jsonl", "-q")
    held = re.search(r"^full +seen .*?(\S+ KiB)", table, re.M).group(1)
    merged = program("eval", "merge", tmp_path / "out.jsonl")
    assert "longbench/lcc of 500 tokens" in merged and re.search(rf"^full .* 2 +{held}", merged, re.M)


def test_the_programs_results(run, tmp_path, demo, program):
    """The report reads what `kvcull eval` wrote."""
    (tmp_path / "text.txt").write_text(TEXT)
    program("eval", "niah", "-m", demo, "--raw", "--kv", "full", "--kv", "knorm:budget=64", "--length", "256", "--samples", "2",
            "--out", tmp_path / "out.jsonl", "-q")
    assert re.search(r"^knorm:budget=64 +unseen .* 2 ", run("report", "out.jsonl"), re.M)
