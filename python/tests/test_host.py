"""A method written in Python keeps what the same method in C keeps (examples/policy.c)."""
import gc
import re
import subprocess
import weakref

import numpy as np
import pytest
from conftest import BUILD, TEXT

import kvcull
from kvcull import HostMethod, Option


class Fade(HostMethod):
    name = "fade"
    summary = "what the last queries attended to, fading with distance"
    options = (Option("budget", "budget", None, 9, help="entries kept per KV head after the prompt"),
               Option("halve", "number", "256", 1, 1e6, help="tokens over which a score halves"))
    queries = 8

    def prompt(self, stage):
        budget = stage.budget(least=9)
        if stage.entries <= budget:
            return
        window = min(stage.turn, 8)
        scores = stage.window_mass(window)
        for head in range(stage.kv_heads):
            age = stage.now - 1 - stage.positions(head)
            scores[head] = scores[head] * np.exp2(-age / stage.number("halve")).astype(np.float32)
        stage.keep(scores, tail=window, top=budget - window)


@pytest.fixture(scope="module", name="own")
def own_model(demo):
    with kvcull.Model(demo, threads=1) as model:
        model.engine.register(Fade)
        yield model


def test_it_keeps_what_c_keeps(own, demo):
    if not (BUILD / "examples" / "policy").exists():
        pytest.skip("the examples are not built")
    for spec in (Fade.policy(budget=24), Fade.policy(budget=30, halve=10)):
        said = subprocess.run([BUILD / "examples" / "policy", demo, TEXT, str(spec)], capture_output=True, text=True,
                              check=True).stdout
        session = own.session(spec)
        session.prompt(TEXT)
        assert session.positions(0, 0).tolist() == [int(n) for n in re.search("keeps .*: (.*)", said)[1].split()]


def test_it_is_a_method_like_any_other(own):
    assert str(Fade.policy(budget=24)) == "fade:budget=24" and own.engine.stages("fade:budget=24") == ["prompt"]
    both = own.session(Fade.policy(budget=24) + kvcull.policy.quest(budget=16, page=8))
    assert both.answer(TEXT, tokens=4, temperature=0)
    with pytest.raises(kvcull.UsageError, match="halve"):
        own.session("fade:budget=24,halve=0")
    with pytest.raises(kvcull.UsageError, match="registered already"):
        own.engine.register(Fade)
    with pytest.raises(TypeError, match="budget must be given"):
        Fade.policy()


def test_decode_and_positions(demo):
    class Even(HostMethod):
        """Keeps even positions and the newest."""

        name = "even"
        steps = []

        def prompt(self, stage):
            self._cut(stage)

        def decode(self, stage):
            self.steps.append((stage.layer, stage.step))
            self._cut(stage)

        def _cut(self, stage):
            held = [stage.positions(head) for head in range(stage.kv_heads)]
            stage.keep_positions([p[(p % 2 == 0) | (p == p[-1])] for p in held])

    with kvcull.Model(demo, threads=1) as model:
        model.engine.register(Even())
        session = model.session("even")
        session.prompt(model.tokenize(TEXT)[:20])
        for token in (5, 6, 7):
            session.decode(token)
        assert session.positions(1, 0).tolist() == [*range(0, 23, 2)]
        assert Even.steps == [(layer, step) for step in (1, 2, 3) for layer in range(4)]


def test_scores_of_every_kind(demo):
    seen = {}

    class Looks(HostMethod):
        name = "looks"
        options = (Option("how", "choice", "first", choices=("first", "last"), help="which ranks stay"),)
        queries = 4

        def prompt(self, stage):
            assert stage.text("how") == "last"
            seen["norm"] = stage.entry_scores("norm")[0]
            seen["apart"] = stage.entry_scores("apart")[0]
            seen["heads"] = stage.head_mass(4)[stage.heads - 1]
            scores = stage.scores()
            for head in range(stage.kv_heads):
                scores[head] = np.arange(stage.entries)
            stage.pool(scores, 3)
            seen["pooled"] = scores[0]
            stage.keep_ranks(range(stage.entries - 5, stage.entries))
            seen["stage"], seen["scores"] = stage, scores

    with kvcull.Model(demo, threads=1) as model:
        model.engine.register(Looks)
        session = model.session("looks:how=last")
        session.prompt(model.tokenize(TEXT)[:12])
        assert session.positions(0, 0).tolist() == [7, 8, 9, 10, 11]
    assert (seen["norm"] < 0).all() and len(seen["apart"]) == 12 and abs(seen["heads"].sum() - 4) < 1e-3
    assert seen["pooled"].tolist() == [*range(1, 12), 11]
    for use in (lambda: seen["stage"].layer, lambda: seen["scores"][0], lambda: seen["stage"].text("how")):
        with pytest.raises(kvcull.UsageError, match="alone"):
            use()


def test_what_it_raises_arrives(demo):
    class Special(Exception):
        pass

    class Fails(HostMethod):
        name = "fails"

        def prompt(self, stage):
            raise Special("100 %s of it")

    with kvcull.Model(demo, threads=1) as model:
        model.engine.register(Fails)
        with pytest.raises(Special, match="100 %s"):
            model.session("fails").prompt(TEXT)
        with pytest.raises(kvcull.UsageError, match="must be a HostMethod"):
            model.engine.register(HostMethod)


def test_an_engine_with_a_method_goes(demo):
    model = kvcull.Model(demo, threads=1)

    class Local(HostMethod):
        name = "local"

        def prompt(self, stage):
            stage.keep(tail=4)

    model.engine.register(Local)
    session = model.session("local")
    session.prompt(TEXT)
    assert len(session.positions(0, 0)) == 4
    engine = weakref.ref(model.engine)
    del model, session
    gc.collect()
    assert engine() is None
