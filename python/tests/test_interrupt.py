"""KeyboardInterrupt before any bytecode of the package leaves no engine locked, no session open and no answer wrong.

A trace function raises it before one bytecode after another, because signals cannot be timed so precisely.
"""
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import kvcull
from kvcull import HostMethod, Option, _handles

PACKAGE = str(Path(kvcull.__file__).parent)
#: Functions without side effects: an interrupt inside them is equivalent to one at their call.
READING = {"over", "pointer", "check", "here", "inside", "<listcomp>", "ready", "record", "whole_numbers", "c_text"}
PROMPT = [5, 9]


def traced(work, seen):
    """Runs the work and calls seen(frame) before every bytecode of the package. Exceptions of `seen` are raised there.
    """

    def bytecode(frame, event, _argument):
        if event == "opcode":
            seen(frame)
        return bytecode

    def called(frame, _event, _argument):
        if frame.f_code.co_name in READING or not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return bytecode

    before = sys.gettrace()
    sys.settrace(called)
    try:
        work()
    finally:
        sys.settrace(before)


def place(frame):
    """Returns a bytecode and the call path that leads to it."""
    names = [frame.f_lasti]
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return tuple(names)


def everywhere(begin, work, check):
    """Asserts check(begin()'s result) after every work(it) that is interrupted. Interrupts before each bytecode on each
    call path, at its first and its last occurrence. Returns the number of interrupts."""
    places, made = [], begin()
    traced(lambda: work(made), lambda frame: places.append(place(frame)))
    check(made)
    first = {at: number for number, at in reversed(list(enumerate(places)))}
    last = {at: number for number, at in enumerate(places)}
    numbers = sorted({*first.values(), *last.values()})
    for number in numbers:
        left = [number]

        def interrupt(_frame, left=left):
            left[0] -= 1
            if left[0] == -1:
                raise KeyboardInterrupt

        made = begin()
        with contextlib.suppress(KeyboardInterrupt):
            traced(lambda made=made, interrupt=interrupt: work(made), interrupt)
        check(made)
    return len(numbers)


def free(engine):
    """Returns whether a thread without interrupts can use the engine."""
    seen = []
    thread = threading.Thread(target=lambda: seen.append(engine.memory()), daemon=True)
    thread.start()
    thread.join(60)
    return bool(seen)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    """Exceptions that interrupt finalizers are ignored here. Sessions of an earlier test that only a cycle of an exception
    and its frames refers to are closed."""
    gc.collect()
    monkeypatch.setattr(sys, "unraisablehook", lambda _told: None)


@pytest.fixture(scope="module", name="own")
def own_model(demo):
    with kvcull.Model(demo, threads=1) as model:
        yield model


def settled(own):
    """Checks that the engine is free and holds nothing for sessions that nothing refers to."""
    assert free(own.engine)
    own.session().close()  # closes objects left over by an interrupt
    assert own.engine.memory().now["cache"] == 0


def test_calls_of_an_engine(own):
    def work(engine):
        engine.memory()
        engine.check("full")

    def check(engine):
        assert free(engine)

    assert everywhere(lambda: own.engine, work, check) > 100


def test_opening_and_closing(own):
    before = len(_handles._entries)

    def work(_nothing):
        with own.session("knorm:budget=8") as session:
            session.prompt(PROMPT)
        kvcull.Sampler(own.info.vocab).accept(5)

    def check(_nothing):
        settled(own)
        assert len(_handles._entries) == before

    assert everywhere(lambda: None, work, check) > 100


def test_opening_an_engine():
    before = len(_handles._entries)

    def work(_nothing):
        kvcull.Engine("ref", threads=1).close()

    def check(_nothing):
        kvcull.Engine("ref", threads=1).close()
        assert len(_handles._entries) == before

    assert everywhere(lambda: None, work, check) > 100


def logits_after(own, tokens):
    """Returns the logits after these tokens, of which the first two are a prompt."""
    session = own.session()
    logits = session.prompt(tokens[:2])
    for token in tokens[2:]:
        logits = session.decode(token)
    return logits


def test_a_session_goes_on_or_refuses(own):
    """If the library has computed a step, the session has its logits, wherever the interrupt occurred."""
    tokens = [*PROMPT, 7, 8]
    expected = {count: logits_after(own, tokens[:count]) for count in (2, 3, 4)}
    seen = set()

    def work(session):
        session.prompt(tokens[:2])
        session.decode(tokens[2])

    def check(session):
        assert free(own.engine)
        count = session.stats().tokens
        seen.add(count)
        if count:
            assert np.array_equal(session.logits, expected[count])
            assert np.array_equal([session.decode(token) for token in tokens[count:]][-1], expected[4])
            return
        try:
            session.prompt(tokens[:2])
        except kvcull.UsageError as refused:
            assert "close it" in str(refused)
            seen.add("refused")

    assert everywhere(own.session, work, check) > 200
    assert seen == {0, 2, 3, "refused"}


def test_forks(own):
    tokens = [*PROMPT, 7]
    expected = logits_after(own, tokens)

    def begin():
        session = own.session()
        session.prompt(tokens[:2])
        return session

    def check(session):
        assert free(own.engine)
        assert np.array_equal(session.decode(tokens[2]), expected)
        session.close()
        settled(own)

    assert everywhere(begin, lambda session: session.fork().close(), check) > 50


def test_prompts_of_several(own):
    tokens = [*PROMPT, 7]
    expected = logits_after(own, tokens)

    def check(sessions):
        assert free(own.engine)
        for session in sessions:
            try:
                if not session.stats().tokens:
                    session.prompt(tokens[:2])
                assert np.array_equal(session.decode(tokens[2]), expected)
            except kvcull.UsageError as refused:
                assert "close it" in str(refused)

    assert everywhere(lambda: [own.session(), own.session("knorm:budget=9")],
                      lambda sessions: kvcull.prompt_many(sessions, tokens[:2]), check) > 100


def test_an_answer_ends_where_it_stands(own):
    """After an interrupt the session holds exactly the tokens of the answer."""
    def answer_to(session, count):
        session.prompt(PROMPT)
        return session.generate(None, tokens=count, temperature=0, ignore_end=True)

    expected = []
    for count in range(3):
        session = own.session()
        text = answer_to(session, count).finish()
        expected.append(session.decode(3))
    reasons = set()

    def begin():
        session = own.session()
        return session, answer_to(session, 2)

    def check(made):
        session, answer = made
        assert free(own.engine)
        reasons.add(answer.reason)
        if answer.reason is not None:
            assert not list(answer)
        assert np.array_equal(session.decode(3), expected[len(answer.tokens)]) and text.startswith(answer.text)

    assert everywhere(begin, lambda made: made[1].finish(), check) > 300
    assert reasons == {None, "interrupted", "length"}


def test_a_method_of_ones_own(demo):
    stages = []

    class Tail(HostMethod):
        name = "tail"
        options = (Option("budget", "budget", minimum=1, help="entries"),)
        queries = 1

        def prompt(self, stage):
            stages.append(stage)
            scores = stage.window_mass(1)
            scores[0] = scores[0]
            stage.keep_positions([stage.positions(head)[-stage.budget():] for head in range(stage.kv_heads)])

    with kvcull.Model(demo, threads=1) as own:
        own.engine.register(Tail)

        def check(session):
            assert free(own.engine)
            for stage in stages:
                with pytest.raises(kvcull.UsageError, match="only during"):
                    stage.layer
            stages.clear()
            if session.stats().tokens:
                assert session.positions(0, 0).tolist() == [1]

        assert everywhere(lambda: own.session(Tail.policy(budget=1, layers="0")), lambda session: session.prompt(PROMPT), check) > 500


def test_functions_that_are_called(own):
    """The library never holds the address of a freed callback."""
    calls = []

    def work(session):
        session.watch(lambda layer, output: calls.append(output))
        session.watch(None)
        session.watch(lambda layer, output: calls.append(layer))

    def begin():
        session = own.session()
        session.prompt(PROMPT)
        return session

    def check(session):
        session.decode(7)
        assert free(own.engine)

    assert everywhere(begin, work, check) > 100 and calls


def test_replays():
    rows = np.random.default_rng(0).standard_normal((1, 4, 8)).astype(np.float32)

    def work(_nothing):
        with kvcull.Replay(1, 4, 4, 8, "full", engine=engine) as run:
            run.prompt(0, rows, rows, rows)
            run.kept()

    def check(_nothing):
        assert free(engine)
        kvcull.Replay(1, 4, 4, 8, engine=engine).close()
        assert len(_handles._entries) == before

    with kvcull.Engine("ref", threads=1) as engine:
        before = len(_handles._entries)
        assert everywhere(lambda: None, work, check) > 300


def test_a_long_prompt_ends_before_it_is_read(own):
    """A signal during the library's computation is raised between two parts of a layer."""
    asked, session = threading.Event(), own.session()

    def send():
        asked.wait()
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        session.prompt(np.full(8000, 7), progress=lambda done, total: asked.set())
    thread.join()
    assert session.stats().tokens == 0
    with pytest.raises(kvcull.UsageError, match="close it"):
        session.decode(7)
    session.close()
    settled(own)


ONE_PART = """
import sys, threading, time
import numpy as np
import kvcull

model = kvcull.Model(sys.argv[1], threads=1)
tokens = np.full(20000, 7)  # each layer computes them as one part, which takes a second or longer
session, begun = model.session(chunk=len(tokens)), time.monotonic()
print("ready", flush=True)
try:
    session.prompt(tokens)
except KeyboardInterrupt:
    print("interrupted")
try:
    session.prompt(tokens)
except kvcull.UsageError as refused:
    print("close it" in str(refused))
session.close()
print(len(model.session().prompt(tokens[:3])) == model.info.vocab, time.monotonic() - begun)
"""


def test_a_signal_from_outside_ends_one_long_part(demo):
    run = subprocess.Popen([sys.executable, "-c", ONE_PART, demo], stdout=subprocess.PIPE, text=True,
                           env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert run.stdout.readline() == "ready\n"
    with contextlib.suppress(subprocess.TimeoutExpired):
        run.wait(0.3)
    run.send_signal(signal.SIGINT)
    out, _nothing = run.communicate(timeout=120)
    assert run.returncode == 0, out
    lines = out.split()
    assert lines[:3] == ["interrupted", "True", "True"]
    print(f"the process ended {float(lines[3]):.2f} s after it began, with a signal after 0.3 s")
