"""A forked child has its parent's engines but not their threads. Using them raises an error and never hangs."""
import multiprocessing
import os
import subprocess
import sys

import numpy as np
import pytest

import kvcull
from kvcull import policy

if not hasattr(os, "register_at_fork"):
    pytest.skip("no fork here", allow_module_level=True)

SCRIPT = """
import gc, os, sys, threading
import numpy as np
import kvcull

model = kvcull.Model(sys.argv[1], threads=2)
session, sampler = model.session(), kvcull.Sampler(model.info.vocab)
replay = kvcull.Replay(1, 2, 2, 8)
session.prompt([5, 9])
busy = threading.Event()
holder = threading.Thread(target=lambda: session.prompt(np.full(3000, 7), progress=lambda done, total: busy.set()))
if sys.argv[2] == "busy":
    holder.start()
    busy.wait()
child = os.fork()
if child == 0:
    for use in (session.stats, lambda: session.decode(7), model.session, model.engine.memory, replay.kept,
                lambda: model.tokenize("a"), lambda: sampler.accept(5), lambda: kvcull.Model(sys.argv[1], model.engine)):
        try:
            use()
            sys.exit("a call in the child went through")
        except kvcull.UsageError as refused:
            assert "before this process was forked" in str(refused), refused
    session.close()
    del session, sampler, replay
    gc.collect()
    model.engine.close()
    del model
    gc.collect()
    with kvcull.Model(sys.argv[1], threads=2) as own:
        assert own.session().prompt([5, 9]).size
    keys = np.zeros((1, 1, 4, 8), np.float32)
    assert len(kvcull.compress(keys, keys, keys, "full")[0][0]) == 4
    sys.exit(0)  # which closes what is open
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) if hasattr(os, "waitstatus_to_exitcode") \\
    else os.WEXITSTATUS(os.waitpid(child, 0)[1])
if sys.argv[2] == "busy":
    holder.join()
assert session.decode(7).size
sys.exit(status)
"""


@pytest.mark.parametrize("when", ["free", "busy"])
def test_a_child_is_refused_and_ends(demo, when):
    """busy: another thread of the parent is in a call during the fork, so the gate stays locked in the child forever.
    """
    done = subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, demo, when], check=False,
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def _kept(seed):
    keys, values = np.random.default_rng(seed).standard_normal((2, 1, 2, 40, 8))
    return [list(map(int, head)) for head in kvcull.compress(keys, values, keys, policy.knorm(budget=9))[0]]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compress_in_worker_processes():
    """Each process opens its own engine for replays that are given none."""
    expected = [_kept(seed) for seed in range(4)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(_kept, range(4)).get(300) == expected
