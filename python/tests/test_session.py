"""Sessions: results equal to the program's, counters, batches, closing, threads and callbacks."""
import gc
import json
import threading
import weakref

import numpy as np
import pytest
from conftest import TEXT

import kvcull
from kvcull import policy
from kvcull._library import ffi, lib

POLICIES = (None, "snapkv:budget=40", policy.streaming(budget=40), "morphkv:budget=40,window=8", "quest:budget=32,page=8")


@pytest.mark.parametrize("spec", POLICIES, ids=str)
def test_answer_is_the_programs(model, demo, program, spec):
    given = [] if spec is None else ["--kv", spec]
    said = program("run", "-m", demo, "-p", TEXT, "-n", 12, "--temp", 0, "-q", *given)
    with model.session(spec) as session:
        assert session.answer(TEXT, tokens=12, temperature=0).strip() == said.strip()


def test_sampled_answer_is_the_programs(model, demo, program):
    said = program("run", "-m", demo, "-p", TEXT, "-n", 12, "--temp", 1.5, "--seed", 9, "-q")
    assert model.session().answer(TEXT, tokens=12, temperature=1.5, seed=9).strip() == said.strip()


def test_logits_are_the_programs(model, demo, program):
    said = json.loads(program("logits", "-m", demo, "--tokens", ",".join(map(str, model.tokenize(TEXT))), "--json", "-q"))
    hash_ = ffi.gc(lib.kvc_hash_open(), lib.kvc_hash_close)
    rows = []

    def add(row, logits):
        rows.append(row)
        assert logits.shape == (model.info.vocab,)
        lib.kvc_hash_add(hash_, ffi.from_buffer("float[]", logits), len(logits))

    last = model.session(cache_type="f32").prompt(TEXT, rows=add)  # as in the command
    assert rows == list(range(len(model.tokenize(TEXT)))) and last.dtype == np.float32
    assert f"{lib.kvc_hash_value(hash_):016x}" == said["hash"]


@pytest.mark.parametrize("types, key, value", [("q4h", 18, 18), ("k=q8_0,v=q4h", 34, 18), ("f16", 64, 64)])
def test_types_of_keys_and_values(model, demo, program, types, key, value):
    """The heads of the demo have 32 channels."""
    said = program("run", "-m", demo, "-p", TEXT, "-n", 12, "--temp", 0, "-q", "--kv-type", types)
    session = model.session(cache_type=types)
    assert session.answer(TEXT, tokens=12, temperature=0).strip() == said.strip()
    assert session.stats().entry_bytes == key + value


@pytest.mark.parametrize("types", ["q9", "k=f16", "k=f16,v=q5_0", ""])
def test_unknown_types_are_refused(model, types):
    with pytest.raises(kvcull.KvcullError, match="does not exist"):
        model.session(cache_type=types)
    with pytest.raises(kvcull.KvcullError, match="single channels of keys"):
        model.session("quest:budget=32", cache_type="q4h")


def test_logits_are_not_copied(model):
    session = model.session()
    logits = session.prompt(TEXT)
    assert session.logits is logits and logits.base is None
    step = session.decode(int(logits.argmax()))
    assert np.shares_memory(session.logits, step) and not np.shares_memory(step, logits)


def test_arrays_outlive_what_made_them(demo):
    """Callbacks receive copies: the library overwrites its own array with the next row, and closing frees it."""
    rows, outputs, seen = [], [], []
    with kvcull.Model(demo, threads=1) as model:
        session = model.session()
        last = session.prompt(TEXT, rows=lambda row, logits: (rows.append(logits), seen.append(logits.copy())))
        assert rows[-1].flags.owndata and np.array_equal(rows[-1], last)
        session.watch(lambda layer, output: (outputs.append(output), seen.append(output.copy())))
        session.decode(5)
    assert len(rows) > 20 and len(outputs) == 4
    assert all(np.array_equal(kept, then) for kept, then in zip(rows + outputs, seen))


def test_generation(model):
    session = model.session(policy.snapkv(budget=40))
    answer = session.generate(TEXT, tokens=3, temperature=0, ignore_end=True)
    pieces = list(answer)
    assert [piece.token for piece in pieces] == answer.tokens and answer.reason == "length"
    assert "".join(piece.text for piece in pieces) == answer.text and "48 21" in answer.text
    assert all(piece.logits.argmax() == piece.token for piece in pieces)
    held = session.stats().tokens
    session.generate("question :", tokens=0).finish()
    assert session.stats().tokens == held + 1 + len(model.tokenize("question :", bos=False))
    for wrong in ({"sampler": kvcull.Sampler(model.info.vocab), "temperature": 1}, {"tokens": -1}, {"tokens": "5"},
                  {"stop": b"21"}, {"stop": [5]}, {"temprature": 0}):
        with pytest.raises(kvcull.UsageError, match=next(iter(wrong))):
            session.generate("question :", **wrong)
    assert session.stats().tokens == held + 1 + len(model.tokenize("question :", bos=False))


def test_penalties(model):
    plain = model.session().generate(TEXT, tokens=40, temperature=0, ignore_end=True)
    plain.finish()
    answer = model.session().generate(TEXT, tokens=40, temperature=0, ignore_end=True, frequency_penalty=2,
                                      presence_penalty=2)
    counts, tokens = np.zeros(model.info.vocab), []
    for piece in answer:
        token = int(np.argmax(piece.logits - counts * 2 - (counts > 0) * 2))
        counts[token] += 1
        tokens.append(token)
    assert answer.tokens == tokens != plain.tokens
    with pytest.raises(kvcull.UsageError, match="presence-penalty"):
        kvcull.Sampler(model.info.vocab, presence_penalty=2.5)


@pytest.mark.parametrize("stop, text", [("21", " 48 "), ("8 2", " 4"), (["nosuch", "48 21"], " ")])
def test_stop_text(model, stop, text):
    answer = model.session().generate(TEXT, tokens=8, temperature=0, stop=stop)
    assert answer.finish().strip() == text.strip() and answer.reason == "stop text"


def test_every_part_of_an_answer_as_its_stop_text(model):
    answer = model.session().generate(TEXT, tokens=12, temperature=0, ignore_end=True).finish()
    stops = {answer[i:i + n] for n in range(2, 6) for i in range(len(answer) - n + 1)}
    assert len(stops) > 30
    for stop in sorted(stops):
        pieces = model.session().generate(TEXT, tokens=12, temperature=0, ignore_end=True, stop=stop)
        assert "".join(piece.text for piece in pieces) == answer[:answer.index(stop)], stop
        assert pieces.reason == "stop text"


def test_a_stop_text_that_only_begins(model):
    answer = model.session().generate(TEXT, tokens=2, temperature=0, stop=["21 nosuch"], ignore_end=True)
    assert answer.finish().split() == ["48", "21"] and answer.reason == "length"


def test_an_answer_is_over_with_the_next_prompt(model):
    session = model.session()
    answer = session.generate(TEXT, tokens=8, temperature=0)
    next(answer)
    session.prompt("question :")
    with pytest.raises(RuntimeError, match="another prompt"):
        next(answer)


def test_batches_change_no_bit(model):
    alone, together = [[model.session(spec) for spec in POLICIES] for _ in range(2)]
    first = np.stack([session.prompt(TEXT) for session in alone])
    assert np.array_equal(kvcull.prompt_many(together, TEXT), first)
    tokens = first.argmax(1)
    for _step in range(3):
        steps = np.stack([session.decode(int(token)) for session, token in zip(alone, tokens)])
        assert np.array_equal(kvcull.decode(together, tokens), steps)
        tokens = steps.argmax(1)
    assert [one.stats().cache_bytes for one in alone] == [one.stats().cache_bytes for one in together]
    with pytest.raises(kvcull.UsageError, match="tokens for"):
        kvcull.decode(together, [1])
    with pytest.raises(kvcull.UsageError, match="no sessions"):
        kvcull.decode([], [])


def test_a_fork_continues_alone(model):
    """Both sessions continue bit-identically to a session that was never forked, also in the middle of an answer."""
    session, same = model.session("snapkv:budget=40,window=8"), model.session("snapkv:budget=40,window=8")
    for one in (session, same):
        one.prompt(TEXT)
        one.decode(7)
    with session.fork() as copy:
        assert np.array_equal(copy.logits, session.logits) and copy.stats().tokens == session.stats().tokens
        copy.prompt([5, 9, 11])
        assert np.array_equal(session.decode(8), same.decode(8))
        assert copy.stats().tokens == session.stats().tokens + 2
    answer = session.generate(tokens=2, ignore_end=True, temperature=0)
    next(answer)
    assert np.array_equal(session.fork().prompt([3]), session.prompt([3]))  # the answer's last token comes first in both
    with pytest.raises(kvcull.UsageError):
        copy.fork()


def test_what_it_holds(model):
    session = model.session(policy.quest(budget=32, page=8), record_reads=True)
    session.prompt(TEXT)
    session.decode(5)
    count = len(model.tokenize(TEXT)) + 1
    assert session.heads(0) == model.info.kv_heads
    assert session.positions(0, 1).tolist() == list(range(count))
    read = session.reads(0, 1)
    assert 0 < len(read) < count and set(read) <= set(range(count))
    stats = session.stats()
    assert stats.tokens == count and stats.decode_steps == 1 and stats.entries == count * 4 * 2
    assert 0 < stats.select_bytes < stats.read_bytes and stats.outgrown is False
    long = model.session()
    long.prompt(np.full(1500, 7))
    assert len(long.positions(3, 0)) == 1500
    for bad in (lambda: session.positions(4, 0), lambda: session.positions(0, 2), lambda: session.reads(-1, 0)):
        with pytest.raises(kvcull.UsageError):
            bad()


def test_memory_comes_back(model):
    engine = model.engine
    before = engine.memory().now["cache"]
    session = model.session(memory_limit=1 << 30)
    session.prompt(TEXT)
    assert engine.memory().now["cache"] > before
    session.close()
    session.close()
    with pytest.raises(kvcull.UsageError, match="closed"):
        session.stats()
    limited = model.session(memory_limit=1000)
    with pytest.raises(kvcull.ResourceError):
        limited.prompt(TEXT)


def test_closing_goes_from_the_inside_out(demo):
    model = kvcull.Model(demo, threads=1)
    session = model.session()
    session.prompt("lantern")
    model.engine.close()
    for use in (session.stats, lambda: model.tokenize("lantern"), lambda: session.decode(1)):
        with pytest.raises(kvcull.UsageError, match="closed"):
            use()


def test_circles_are_collected(demo):
    model = kvcull.Model(demo, threads=1)
    model.sessions = [model.session(), model.session()]
    engine = weakref.ref(model.engine)
    model.sessions[0].prompt("lantern")
    del model
    gc.collect()
    assert engine() is None


def test_threads_wait_for_each_other(model):
    expected = model.session().answer(TEXT, tokens=6, temperature=0)
    answers, failures = [], []

    def talk():
        try:
            for _turn in range(3):
                answers.append(model.session("snapkv:budget=60").answer(TEXT, tokens=6, temperature=0))
        except Exception as failure:  # pylint: disable=broad-except
            failures.append(failure)

    threads = [threading.Thread(target=talk) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(answers) == 12 and len(set(answers)) == 1 and expected.split()[0] in answers[0]


def test_what_callbacks_raise(model):
    class Special(Exception):
        pass

    def refuse(*_arguments):
        raise Special("no")

    for name in ("rows", "progress"):
        with pytest.raises(Special):
            model.session().prompt(TEXT, **{name: refuse})
    session = model.session()
    with pytest.raises(kvcull.UsageError, match="must not use the engine"):
        session.prompt(TEXT, rows=lambda row, logits: session.stats())
    session = model.session()
    session.prompt(TEXT)
    session.watch(refuse)
    with pytest.raises(Special):
        session.decode(1)
    shapes = []
    session.watch(lambda layer, output: shapes.append((layer, output.shape)))
    session.decode(1)
    session.watch(None)
    session.decode(1)
    assert shapes == [(layer, (model.info.heads, model.info.head_size)) for layer in range(model.info.layers)]


def test_progress(model):
    seen = []
    model.session().prompt(TEXT, progress=lambda done, total: seen.append((done, total)))
    assert seen and seen[-1][0] == seen[-1][1]


def test_wrong_tokens(model):
    session = model.session()
    for tokens in ([], [1 << 40], [[1, 2]], [-1], [model.info.vocab], [0.5]):
        with pytest.raises(kvcull.UsageError):
            session.prompt(tokens)
    with pytest.raises(kvcull.UsageError, match="no prompt yet"):
        session.logits
