"""A method written in Python keeps the same entries as the same method in C (examples/policy.c)."""
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
        options = (Option("how", "choice", "first", choices=("first", "last"), help="which entries to keep"),)
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
            stage.keep_indices(range(stage.entries - 5, stage.entries))
            seen["stage"], seen["scores"] = stage, scores

    with kvcull.Model(demo, threads=1) as model:
        model.engine.register(Looks)
        session = model.session("looks:how=last")
        session.prompt(model.tokenize(TEXT)[:12])
        assert session.positions(0, 0).tolist() == [7, 8, 9, 10, 11]
    assert (seen["norm"] < 0).all() and len(seen["apart"]) == 12 and abs(seen["heads"].sum() - 4) < 1e-3
    assert seen["pooled"].tolist() == [*range(1, 12), 11]
    for use in (lambda: seen["stage"].layer, lambda: seen["scores"][0], lambda: seen["stage"].text("how")):
        with pytest.raises(kvcull.UsageError, match="only during"):
            use()


def raised(demo, act, options=(), spec="acts"):
    """Returns the error text of a method whose prompt function runs act(stage)."""

    class Acts(HostMethod):
        name = "acts"
        queries = 4

        def prompt(self, stage):
            act(stage)

    Acts.options = options
    with kvcull.Model(demo, threads=1) as model:
        model.engine.register(Acts)
        with pytest.raises(kvcull.UsageError) as told:
            model.session(spec).prompt(model.tokenize(TEXT)[:12])
    return str(told.value)


ALL_KINDS = (Option("whole", "integer", "1", 0, 9), Option("real", "number", "1", 0, 9), Option("share", "budget", "5"),
             Option("one", "choice", "a", choices=("a", "b")), Option("words", "text", "x"))


@pytest.mark.parametrize("reader, right", [("integer", {"whole", "skip_layers"}), ("number", {"real"}),
                                           ("budget", {"share"}), ("text", {"one", "words", "layers", "stages"})])
def test_options_of_another_kind_are_refused(demo, reader, right):
    """In C, options of another kind read as 0."""
    told = []

    def act(stage):
        for name in ("whole", "real", "share", "one", "words", "skip_layers", "layers", "stages", "nosuch"):
            try:
                getattr(stage, reader)(name)
                told.append(name)
            except kvcull.UsageError as refused:
                assert ("does not exist" if name == "nosuch" else "it is of kind") in str(refused)
        raise kvcull.UsageError("seen")

    assert raised(demo, act, ALL_KINDS) == "seen" and set(told) == right


@pytest.mark.parametrize("positions, said", [
    ([[1, 3], [5, 2]], "position 2 after 5, of head 1"), ([[3, 3], [1]], "position 3 after 3, of head 0"),
    ([[1.5], [1]], "whole numbers"), ([[[1]], [1]], "whole numbers"), ([[1], [1 << 40]], "from -2147483648"),
    ([[1]], "1 lists"),
])
def test_wrong_positions_are_refused(demo, positions, said):
    assert said in raised(demo, lambda stage: stage.keep_positions(positions))


@pytest.mark.parametrize("indices, said", [([3, 1], "ascend"), ([-1], "from 0"), ([0.5], "whole numbers"), ([99], "index 99")])
def test_wrong_indices_are_refused(demo, indices, said):
    assert said in raised(demo, lambda stage: stage.keep_indices(indices))


@pytest.mark.parametrize("use", [
    lambda stage, scores: stage.keep(scores, top=3), lambda stage, scores: stage.pool(scores, 3),
    lambda stage, scores: scores[0], lambda stage, scores: stage.keep("scores", top=3),
])
def test_scores_of_an_earlier_stage_are_refused(demo, use):
    made = []

    def act(stage):
        made.append(stage.scores())
        for head in range(stage.kv_heads):
            made[-1][head] = np.zeros(stage.entries)
        if len(made) > 1:
            use(stage, made[0])

    told = raised(demo, act)
    assert ("another stage" in told or "only during" in told) and len(made) == 2


def test_scores_of_another_shape_are_refused(demo):
    assert "per query head" in raised(demo, lambda stage: stage.keep(stage.head_mass(4), top=3))
    for values in (np.zeros(3), np.zeros(99), np.zeros((1, 12)), 0.0):
        def act(stage, values=values):
            stage.scores()[0] = values
        assert "one for each entry" in raised(demo, act)


@pytest.mark.parametrize("wrong, said", [
    ({"queries": "8"}, "queries"), ({"queries": -1}, "queries"), ({"queries": 1.5}, "queries"),
    ({"summary": "a\0b"}, "NUL"), ({"name": "a\0b"}, "NUL"),
    ({"options": (Option("a", "whole"),)}, "kind"), ({"options": (Option("a", "choice", "x", choices="x|y"),)}, "choices"),
    ({"options": (Option("a", "integer", "5", 9, 3),)}, "range"), ({"options": (Option("a\0", "text", "x"),)}, "NUL"),
    ({"options": (Option("a", "text", "x\0"),)}, "NUL"), ({"options": (Option("a", "text", "x", help="\0"),)}, "NUL"),
])
def test_what_no_method_may_be(model, wrong, said):
    method = type("Wrong", (HostMethod,), {"name": "wrong", "prompt": lambda self, stage: None, **wrong})
    with pytest.raises(kvcull.UsageError, match=said):
        model.engine.register(method)


def test_a_method_checks_its_options(demo):
    class Even(HostMethod):
        name = "evens"
        options = (Option("whole", "integer", "2", 0, 9),)
        values = []

        def check(self, values):
            self.values.append(values)
            if values.integer("whole") % 2:
                raise kvcull.UsageError("whole: must be even")

        def prompt(self, stage):
            stage.keep(tail=4)

    with kvcull.Model(demo, threads=1) as model:
        model.engine.register(Even)
        model.engine.check(Even.policy(whole=4))
        with pytest.raises(kvcull.UsageError, match="even"):
            model.session(Even.policy(whole=3))
        with pytest.raises(kvcull.UsageError, match="only during"):
            Even.values[0].integer("whole")


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
