"""What a type checker sees: the options of every method, and the types of results."""
import os
import subprocess
import sys

import pytest
from conftest import SOURCE

import kvcull

RIGHT = '''
import numpy as np
import kvcull
from kvcull import policy
model = kvcull.Model("data/demo", threads=1)
session = model.session(policy.snapkv(budget=0.1, window=16, per="head") + policy.quest(budget=64))
session.prompt(np.array([1, 2]))
model.detokenize(np.array([1, 2]))
kvcull.decode([session], np.array([3]))
kvcull.compress(np.zeros((1, 2, 9, 16)), np.zeros((1, 2, 9, 16)), None, policy.knorm(budget=4, layers=np.array([0])))
with session.fork() as copy:
    reveal_type(copy.answer(tokens=3))
reveal_type(session.decode(3))
reveal_type(policy.knorm(budget=3))
'''
WRONG = {"policy.snapkv(budget=8, windw=4)": 'Unexpected keyword argument "windw"',
         "policy.snapkv(window=4)": 'Missing named argument "budget"',
         "policy.snapkv(budget=8, per='heads')": 'Argument "per"',
         "policy.snapkv(budget=8, window='x')": 'Argument "window"',
         "policy.snapkw(budget=8)": 'no attribute "snapkw"',
         "model.session(3)": "Argument 1"}


def test_the_stub_is_that_of_the_tables(program):
    done = subprocess.run([sys.executable, SOURCE / "tools" / "policy_types.py"], input=program("info", "methods", "--json"),
                          capture_output=True, text=True, check=True)
    stub = (SOURCE / "python" / "kvcull" / "policy.pyi").read_text()
    assert stub == done.stdout, "make it again: make -C build pages"


@pytest.fixture(scope="module", name="found")
def what_mypy_finds(tmp_path_factory):
    """Returns the lines that mypy prints about both texts. Uses one run, because each run first reads numpy's types."""
    pytest.importorskip("mypy", reason="no mypy")
    folder = tmp_path_factory.mktemp("mypy")
    wrong = "\n".join(WRONG)
    (folder / "right.py").write_text(RIGHT)
    (folder / "wrong.py").write_text("import kvcull\nfrom kvcull import policy\nmodel = kvcull.Model('data/demo')\n"
                                     f"{wrong}\n")
    (folder / "mypy.ini").write_text("[mypy-torch.*,transformers.*,matplotlib.*]\nfollow_imports = skip\n")
    environment = {**os.environ, "MYPYPATH": str(SOURCE / "python")}
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", os.devnull,
                           "right.py", "wrong.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


def test_right_calls(found):
    lines = [line for line in found if line.startswith("right.py")]
    text = "\n".join(lines)
    assert lines and "error:" not in text, text
    assert 'note: Revealed type is "str"' in text.replace("builtins.str", "str") and "ndarray" in text
    assert "kvcull.policy.Policy" in text


def test_wrong_calls(found):
    for line, message in enumerate(WRONG.values(), 4):
        assert any(f"wrong.py:{line}: error:" in one and message in one for one in found), (message, found)


def test_arrays_as_lists_of_options():
    import numpy as np
    assert str(kvcull.policy.knorm(budget=4, layers=np.array([0, 2]))) == "knorm:budget=4,layers=0/2"
