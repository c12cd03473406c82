"""Runs the Python code in README.md and docs/how-to/python.md, and the example that prints a table."""
import contextlib
import io
import os
import re
import subprocess
import sys

import pytest
from conftest import SOURCE


@pytest.mark.parametrize("document", ["README.md", "docs/how-to/python.md"])
def test_code_of_documents_runs(document, monkeypatch):
    """All blocks of a document share their names. A comment "# TEXT" after print(...) is the expected output."""
    monkeypatch.chdir(SOURCE)
    blocks = re.findall(r"^```python\n(.*?)^```$", (SOURCE / document).read_text(encoding="utf-8"), re.S | re.M)
    assert blocks
    names = {"__name__": "document"}
    for block in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(block, document, "exec"), names)  # pylint: disable=exec-used
        for expected in re.findall(r"^print\(.*\) +# (.*)$", block, re.M):
            assert expected in printed.getvalue(), block


def test_the_example(tmp_path):
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    done = subprocess.run([sys.executable, SOURCE / "python" / "examples" / "compare_methods.py", "--texts", "1",
                           "--sentences", "6", "--budgets", "48", "--plot", tmp_path / "plot.png", SOURCE / "data" / "demo"],
                          env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r"(full|snapkv|streaming)\b", line)]
    assert len(rows) >= 3 and all(0 <= float(row[2]) <= 1 for row in rows)
    assert (tmp_path / "plot.png").exists() or "no matplotlib" in done.stdout
