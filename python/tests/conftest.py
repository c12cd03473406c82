"""Shared by the tests: the paths of the source tree and the program, the bundled model, and a text with a question."""
import os
import subprocess
import sys
from pathlib import Path

import pytest

import kvcull

SOURCE = Path(os.environ.get("KVCULL_SOURCE", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("KVCULL_BUILD", SOURCE / "build"))
TEXT = (
    "the old sailor found the red kettle near the harbor . the magic number for lantern 48 21 . "
    "then the young baker lost the green carrot behind the church . the magic number for candle 13 07 . "
    "the quiet hunter sold the golden lemon beside the lake . question : the magic number for lantern"
)


@pytest.fixture(scope="session")
def program():
    """Runs the program and returns its output. An error becomes an exception with the program's message."""
    path = BUILD / "kvcull"
    if not path.exists():
        pytest.skip(f"no {path}")

    def run(*arguments):
        done = subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL)
        if done.returncode:
            raise RuntimeError(done.stderr.strip())
        return done.stdout

    return run


@pytest.fixture(scope="session")
def demo():
    """The bundled model's folder."""
    return SOURCE / "data" / "demo"


@pytest.fixture(scope="session")
def model(demo):
    """The bundled model, on one engine for all tests."""
    with kvcull.Model(demo, threads=1) as opened:
        yield opened


@pytest.fixture(scope="session")
def bytes_model(demo, tmp_path_factory):
    """A copy of the bundled model whose tokens are bytes: it can write any text."""
    folder = tmp_path_factory.mktemp("bytes") / "model"
    subprocess.run([sys.executable, SOURCE / "tests" / "serve" / "bytes_model.py", demo, folder], check=True)
    with kvcull.Model(folder, threads=1) as opened:
        yield opened
