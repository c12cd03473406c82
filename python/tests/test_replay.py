"""Replays keep the same entries as `kvcull replay`, for every method. compress is a replay of one layer."""
import json
import re

import numpy as np
import pytest

import kvcull
from kvcull.replay import queries_read
from kvcull import _library, policy

LAYERS, HEADS, KV_HEADS, SIZE, ROWS, PROMPT = 4, 4, 2, 16, 70, 64


def write_tensors(path, tensors):
    """Writes a safetensors file of float32 arrays."""
    header, at = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(map(np.ndarray.tobytes, tensors.values())))


def drawn(layers, rows, seed=5):
    """Returns random q [L, T, H, d], k and v [L, T, H_kv, d]."""
    draw = np.random.default_rng(seed)
    return [draw.standard_normal((layers, rows, heads, SIZE)).astype(np.float32)
            for heads in (HEADS, KV_HEADS, KV_HEADS)]


def dump(path, q, k, v):
    write_tensors(path, {f"layers.{l}.{name}": array[l] for l in range(len(q))
                         for name, array in (("q", q), ("k", k), ("v", v))})


def trial(name):
    """Returns a policy for the method, with the options that the library's own checks use."""
    row = next(row for i in range(99) if (row := _row(i)) and _library.text_of(row.name) == name)
    options = [text for text in [_library.text_of(row.trial)] if text]
    for option in policy.methods()[name].options:
        if option.name == "budget" and "budget=" not in "".join(options):
            options.insert(0, "budget=40")
        elif option.kind == "text" and option.default is None:  # a file, or a word that replaces one
            options.append(f"{option.name}={option.choices[0]}")
    return name + (":" + ",".join(options) if options else "")


def _row(i):
    with kvcull.Engine("ref", threads=1) as engine:
        return _library.lib.kvc_policy(engine._handle.pointer, i)


@pytest.fixture(scope="module", name="dumps")
def dumps_of(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dumps")
    dump(folder / "all.safetensors", *drawn(LAYERS, ROWS))
    dump(folder / "one.safetensors", *drawn(1, PROMPT, 6))
    return folder


def plain(steps):
    return [{"at": step.at, **({"read": lists(step.read)} if step.read else {}), "kept": lists(step.kept)}
            for step in steps]


def lists(kept):
    return [[positions.tolist() for positions in heads] for heads in kept]


def same(ours, theirs):
    """Asserts that both give the same result or the same error."""
    results = []
    for run in (ours, theirs):
        try:
            results.append(run())
        except (kvcull.KvcullError, RuntimeError) as error:
            results.append(re.sub("^kvcull replay: (--kv [^ ]*: )?", "", str(error)))
    assert results[0] == results[1]
    return results[0]


@pytest.mark.parametrize("name", list(policy.methods()))
def test_replay_is_the_programs(name, dumps, program):
    spec = trial(name)
    result = same(
        lambda: plain(kvcull.replay(*drawn(LAYERS, ROWS), spec, PROMPT)),
        lambda: [step for step in json.loads(program("replay", "--kv", spec, "--prompt", PROMPT, "--in",
                                                     dumps / "all.safetensors", "-q"))["steps"]
                 if step["at"] != "chunk"])
    assert isinstance(result, list) or name in ("dapq", "kvzip", "kvcompose", "take", "kvzap", "fastkvzip"), result


@pytest.mark.parametrize("name", list(policy.methods()))
def test_compress_is_the_programs(name, dumps, program):
    spec = trial(name)
    q, k, v = (array[0].transpose(1, 0, 2)[None] for array in drawn(1, PROMPT, 6))
    same(lambda: lists(kvcull.compress(k, v, q, spec))[0],
         lambda: json.loads(program("replay", "--kv", spec, "--in", dumps / "one.safetensors", "-q"))
         ["steps"][-1]["kept"][0])


def tensors(batch=2, n=50):
    draw = np.random.default_rng(3)
    return [draw.standard_normal((batch, heads, n, SIZE)).astype(np.float32) for heads in (KV_HEADS, KV_HEADS, HEADS)]


def test_compress_of_a_batch():
    keys, values, queries = tensors()
    kept = kvcull.compress(keys, values, queries, policy.snapkv(budget=20, window=8))
    assert [[len(positions) for positions in heads] for heads in kept] == [[20, 20], [20, 20]]
    alone = kvcull.compress(keys[1:], values[1:], queries[1:], "snapkv:budget=20,window=8")
    assert lists(alone) == lists(kept[1:])
    assert kept.mask(50).sum() == 80 and kept.mask(50)[1, 0, kept[1][0]].all()
    assert np.array_equal(kept.take(keys)[1, 0], keys[1, 0, kept[1][0]])


def test_compress_of_several_layers():
    some = [tensors(), tensors(n=50)]
    keys, values, queries = map(list, zip(*some))
    kept = kvcull.compress(keys, values, queries, policy.pyramidkv(budget=20, window=4))
    assert len(kept) == 2 and [len(kept[0][0][0]), len(kept[1][0][0])] != [20, 20]
    with pytest.raises(kvcull.UsageError, match="equally many"):
        ragged = kvcull.compress(keys[0], values[0], queries[0], policy.adakv(budget=20, window=4))
        ragged.take(keys[0])


def test_compress_with_rows_of_a_method(dumps, tmp_path, program):
    q, k, v = drawn(1, PROMPT, 6)
    extra = np.random.default_rng(8)
    pseudo = [extra.standard_normal((8, heads, SIZE)).astype(np.float32) for heads in (HEADS, KV_HEADS)]
    spec = trial("dapq")
    write_tensors(tmp_path / "more.safetensors", {
        "layers.0.q": q[0], "layers.0.k": k[0], "layers.0.v": v[0], "layers.0.pseudo_q": pseudo[0],
        "layers.0.pseudo_k": pseudo[1]})
    rows = [array[0].transpose(1, 0, 2)[None] for array in (k, v, q)]
    same(lambda: lists(kvcull.compress(*rows, spec, pseudo=[one.transpose(1, 0, 2)[None] for one in pseudo]))[0],
         lambda: json.loads(program("replay", "--kv", spec, "--in", tmp_path / "more.safetensors", "-q"))
         ["steps"][-1]["kept"][0])


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    arrays = tensors()
    ours = [torch.from_numpy(array).to(torch.bfloat16) for array in arrays]
    kept = kvcull.compress(*ours, policy.snapkv(budget=20, window=8))
    assert lists(kept) == lists(kvcull.compress(*[tensor.float().numpy() for tensor in ours],
                                                "snapkv:budget=20,window=8"))
    taken = kept.take(ours[0])
    assert taken.dtype == torch.bfloat16 and torch.equal(taken[1, 0], ours[0][1, 0, kept[1][0].tolist()])


def test_attention_is_attention():
    q, k, v = drawn(1, 12)
    with kvcull.Replay(1, HEADS, KV_HEADS, SIZE) as run:
        out = run.prompt(0, q[0, :11], k[0, :11], v[0, :11])
        step = run.step(0, q[0, 11], k[0, 11], v[0, 11])
        assert run.stats().tokens == 12 and lists(run.kept()) == [[list(range(12))] * KV_HEADS]
    for head in range(HEADS):
        group = head // (HEADS // KV_HEADS)
        for row, got in ((10, out[10]), (11, step)):
            logits = k[0, : row + 1, group] @ q[0, row, head] / np.sqrt(SIZE)
            weights = np.exp(logits - logits.max())
            assert np.allclose(got[head], weights @ v[0, : row + 1, group] / weights.sum(), atol=1e-5)


def test_chunks_are_told():
    q, k, v = drawn(1, 64)
    chunks = []
    with kvcull.Replay(1, HEADS, KV_HEADS, SIZE, policy.full()) as run:
        run.on_chunk(chunks.append)
        run.prompt(0, q[0], k[0], v[0])
    assert not chunks  # full does not process prompts in chunks


def test_what_is_refused():
    q, k, v = drawn(1, 8)
    for wrong in (lambda: kvcull.replay(q[0], k, v, "full"), lambda: kvcull.replay(q, k, v, "full", 9),
                  lambda: kvcull.Replay(1, 3, 2, 16), lambda: kvcull.Replay(1, 4, 2, 16, windows=[1, 2]),
                  lambda: kvcull.Replay(1, 4, 2, 16).prompt(1, q[0], k[0], v[0]),
                  lambda: kvcull.Replay(1, 4, 2, 16).prompt(0, q[0], k[0][:3], v[0]),
                  lambda: kvcull.Replay(1, 4, 2, 16).prompt(0, k[0], k[0], v[0]),
                  lambda: kvcull.compress(k, v, q[:, :3], "full"), lambda: kvcull.compress([], [], [], "full"),
                  lambda: kvcull.compress(k[0], v[0], q[0], "full")):
        with pytest.raises(kvcull.UsageError):
            wrong()


# ---- queries that a policy does not look at ----

#: Options that methods need beside their budget, with which all of them run on 700 rows.
NEEDED = {"qfilter": "budget=300,file=drawn", "dms": "file=drawn", "sparq": "budget=300", "hsa": "budget=300", "cake": "budget=300",
          "fastkv": "budget=300", "rocketkv-mt": "budget=300"}
#: Methods that need a file, rows that a model computes, several layers, a longer prompt, or another method.
ELSEWHERE = {"triattention", "duo", "dapq", "kvzip", "kvcompose", "lacache", "simlayerkv", "merging", "cam", "think",
             "kvzap", "fastkvzip"}


def test_which_queries_methods_look_at():
    """The table QUERIES is correct: changes of earlier queries than those in the table do not change what is kept."""
    draw = np.random.default_rng(4)
    keys, values = draw.standard_normal((2, 1, 2, 700, 16))
    first, second = draw.standard_normal((2, 1, 4, 700, 16))
    for name, method in kvcull.policy.methods().items():
        if name in ELSEWHERE:
            continue
        options = NEEDED.get(name) or ",".join(f"{one.name}=300" for one in method.options if one.default is None)
        spec = name + (":" + options if options else "")
        wanted, read = kvcull.compress(keys, values, first, spec), queries_read(spec)

        def same(kept, wanted=wanted):
            return all(map(np.array_equal, kept[0], wanted[0]))

        if read is None:
            assert not same(kvcull.compress(keys, values, second, spec)), name
            continue
        mixed = second.copy()
        if read:
            mixed[:, :, -read:] = first[:, :, -read:]
            assert not same(kvcull.compress(keys, values, second, spec)), name
            assert same(kvcull.compress(keys, values, first[:, :, -read:], spec)), name
            with pytest.raises(kvcull.UsageError, match=f"the last {read}"):
                kvcull.compress(keys, values, first[:, :, -read + 1:] if read > 1 else first[:, :, :0], spec)
        else:
            assert same(kvcull.compress(keys, values, None, spec)), name
        assert same(kvcull.compress(keys, values, mixed, spec)), name


def test_policies_without_queries():
    keys, values = np.random.default_rng(5).standard_normal((2, 1, 2, 90, 16))
    assert queries_read("snapkv:budget=40,window=8+quest:budget=8") == 8
    assert queries_read("chunkkv:budget=40,scorer=knorm") is None and queries_read("snapkv:budget=40") == 32
    assert len(kvcull.compress(keys, values, None, "knorm:budget=20+quest:budget=8")[0][1]) == 20
    with pytest.raises(kvcull.UsageError, match="looks at the last 32; they must be given"):
        kvcull.compress(keys, values, None, "snapkv:budget=40")
    with pytest.raises(kvcull.UsageError, match="looks at all"):
        kvcull.compress(keys, values, None, "h2o:budget=40")


def test_arrays_of_layers():
    draw = np.random.default_rng(6)
    keys, values = draw.standard_normal((2, 3, 1, 2, 90, 16))
    queries = draw.standard_normal((3, 1, 4, 90, 16))
    kept = kvcull.compress(keys, values, queries, "pyramidkv:budget=40,window=8")
    listed = kvcull.compress(list(keys), list(values), list(queries), "pyramidkv:budget=40,window=8")
    assert len(kept) == 3 and all(map(np.array_equal, kept[2][0], listed[2][0]))
