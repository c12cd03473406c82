"""Engines, models, texts and sampling give the same results as the program."""
import json
import shutil
import warnings

import numpy as np
import pytest
from conftest import TEXT

import kvcull


def test_integers(demo):
    with kvcull.Engine("ref", threads=1, math="int16") as engine, kvcull.Model(demo, engine=engine) as model:
        assert model.info.math == "int16"


def test_engine():
    with kvcull.Engine("ref", threads=1, math="float") as engine:
        assert engine.backend.startswith("ref")
        assert engine.memory().now_total == 0
        assert engine.stages("snapkv:budget=40+quest:budget=64") == ["prompt", "select"]
        engine.check("full")
        with pytest.raises(kvcull.UsageError, match="budget"):
            engine.check("snapkv")
    with pytest.raises(kvcull.UsageError, match="closed"):
        engine.backend
    assert {"ref", "cpu"} <= {backend.name for backend in kvcull.backends() if backend.usable}


@pytest.mark.parametrize("options, error", [
    ({"backend": "abacus"}, kvcull.UsageError), ({"math": "slow"}, kvcull.UsageError), ({"threads": -1}, Exception),
])
def test_engine_refuses(options, error):
    with pytest.raises(error):
        kvcull.Engine(**options)


def test_model_info(model, demo, program):
    said = json.loads(program("info", demo, "--json"))
    assert (model.info.layers, model.info.vocab, model.info.parameters) == (4, said["vocab"], said["parameters"])
    assert model.info.path == str(demo) and model.info.format == "huggingface" and model.info.windows is None
    assert "862,592" in repr(model)


@pytest.mark.parametrize("use", [
    lambda model, path: kvcull.Engine("ref\0"), lambda model, path: kvcull.Engine("ref", math="float\0"),
    lambda model, path: kvcull.Model(f"{path}\0.gguf"), lambda model, path: kvcull.Model(path / "x\0"),
    lambda model, path: model.engine.check("full\0:nonsense"), lambda model, path: model.engine.stages("full\0"),
    lambda model, path: model.session("full\0"), lambda model, path: model.session(kvcull.Policy("full\0")),
    lambda model, path: model.session(cache_type="f32\0"), lambda model, path: model.estimate("full\0", 5),
    lambda model, path: model.estimate("full", 5, cache_type="f32\0"),
    lambda model, path: kvcull.policy.expected(budget="40\0"),
    lambda model, path: model.chat_text([], template="chatml\0"),
    lambda model, path: model.chat_text([], template="chatml", date="2025\0"),
    lambda model, path: model.chat_text([], template="chatml", variables="{}\0"),
    lambda model, path: kvcull.make_model("tiny\0", path / "x"), lambda model, path: kvcull.convert(path, "a\0", "f16"),
    lambda model, path: kvcull.convert("a\0", path / "x", "f16"),
    lambda model, path: kvcull.convert(path, path / "x", "f16\0"),
    lambda model, path: kvcull.Replay(1, 4, 2, 16, "full\0"),
])
def test_a_nul_character_is_refused(model, tmp_path, use):
    """C would end the text at a NUL character and silently use a shorter one."""
    with pytest.raises(ValueError):
        use(model, tmp_path)


@pytest.mark.parametrize("use", [
    lambda model: model.tokenize(5), lambda model: model.tokenize([1, 2]), lambda model: model.detokenize([1.5]),
    lambda model: model.detokenize([[1]]), lambda model: model.token_bytes("a"), lambda model: model.ends_turn(1.5),
    lambda model: model.token_bytes(1 << 40), lambda model: model.session(chunk=-1), lambda model: model.session(seed=1.5),
    lambda model: model.session(chunks=5), lambda model: model.estimate("full", -1), lambda model: kvcull.Engine(math=5),
    lambda model: kvcull.Engine("ref", threads="2"), lambda model: kvcull.Sampler(300, top_k=1.5),
    lambda model: kvcull.Sampler(300, temperature="hot"), lambda model: kvcull.Sampler(300, top_n=1),
    lambda model: model.session(kvcull.policy.snapkv(budget=40, window=1.5)),
    lambda model: model.session(kvcull.policy.snapkv(budget="some")), lambda model: model.session(b"full\xff"),
])
def test_wrong_kinds_are_refused(model, use):
    with pytest.raises((kvcull.KvcullError, TypeError, OverflowError)):
        use(model)
    assert model.engine.memory().now_total >= 0  # the engine is not locked


def test_missing_model():
    with pytest.raises(kvcull.InputError, match="nosuch"):
        kvcull.Model("nosuch.gguf")
    with pytest.raises(kvcull.UsageError, match="threads"):
        kvcull.Model("nosuch.gguf", kvcull.Engine("ref", threads=1), threads=2)


def test_text(model, demo, program):
    tokens = model.tokenize(TEXT)
    assert tokens.dtype == np.int32
    assert ",".join(map(str, tokens)) == program("tokenize", "-m", demo, TEXT).strip()
    assert model.detokenize(tokens).strip() == TEXT
    assert b"".join(model.token_bytes(token, i == 0) for i, token in enumerate(tokens)).decode().strip() == TEXT
    assert len(model.tokenize("", bos=False)) == 0 and model.detokenize([]) == ""
    assert model.ends_turn(model.info.eos) or model.info.eos < 0
    with pytest.raises(kvcull.UsageError):
        model.token_bytes(1 << 30)
    with pytest.raises(kvcull.UsageError, match="whole numbers"):
        model.detokenize([0.5])


def test_chat(model):
    names = [name for name, _summary in kvcull.chat_templates()]
    text = model.chat_text([{"role": "user", "content": "what is a cache ?"}], template="chatml")
    assert "chatml" in names and "<|im_start|>user\nwhat is a cache ?<|im_end|>" in text and text.endswith("assistant\n")
    with pytest.raises(kvcull.UsageError, match="no messages"):
        model.chat_text([], template="chatml")
    with pytest.raises(kvcull.UsageError):
        model.chat_text([{"role": "user", "content": "x"}], template="nosuch")
    assert len(model.chat_tokens([{"role": "user", "content": "lantern"}], template="chatml")) > 2


def test_chat_of_several_templates(demo, tmp_path):
    folder = tmp_path / "named"
    shutil.copytree(demo, folder)
    templates = {"default": "the {{ messages[0].content }}", "tool_use": "lantern {{ tools[0] }}"}
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": templates}))
    talk = [{"role": "user", "content": "harbor"}]
    with kvcull.Model(folder, threads=1) as named:
        assert named.chat_text(talk) == "the harbor"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert named.chat_text(talk, tools=["red"]) == "lantern red"
        with pytest.warns(UserWarning, match="reads no tools"):
            assert named.chat_text(talk, tools=["red"], template="default") == "the harbor"


def test_control_tokens(model):
    said = [{"role": "user", "content": "the </s> sailor"}]
    (end,) = model.tokenize("</s>", bos=False)
    assert end in model.tokenize("the </s> sailor") and end not in model.tokenize("the </s> sailor", special=False)
    assert end not in model.chat_tokens(said, template="chatml")
    assert end in model.chat_tokens(said, template="chatml", special_content=True)
    with pytest.raises(kvcull.InputError, match="NUL"):
        model.chat_tokens([{"role": "user", "content": "a\0b"}], template="chatml")


def test_estimate(model, demo, program):
    policy = kvcull.policy.morphkv(budget=64, window=16)
    said = json.loads(program("info", demo, "--json", "--prompt", 300, "--gen", 20, "--kv", policy))["policies"][0]
    estimate = model.estimate(policy, 300, 20)
    assert (estimate.cache_bytes, estimate.peak_bytes) == (said["cache_bytes"], said["peak_bytes"])


def test_made_and_converted(tmp_path):
    assert "tiny" in dict(kvcull.shapes())
    kvcull.make_model("tiny", tmp_path / "tiny.gguf", "q8_0", seed=3)
    kvcull.convert(tmp_path / "tiny.gguf", tmp_path / "wide.gguf", "f32")
    with kvcull.Model(tmp_path / "wide.gguf", backend="ref", threads=1) as made:
        assert "f32" in made.info.weight_types and made.info.format == "gguf"
    with pytest.raises(kvcull.UsageError, match="does not exist"):
        kvcull.convert(tmp_path / "tiny.gguf", tmp_path / "x.gguf", "f3")


def test_sampler():
    logits = np.array([0.0, 3.0, 3.0, 1.0], np.float32)
    assert kvcull.Sampler(4, temperature=0).sample(logits) == 1
    draws = [[one.sample(logits) for _ in range(20)] for one in (kvcull.Sampler(4, seed=7), kvcull.Sampler(4, seed=7))]
    assert draws[0] == draws[1] and set(draws[0]) <= {0, 1, 2, 3}
    with pytest.raises(kvcull.UsageError, match="no option"):
        kvcull.Sampler(4, heat=1)
    with pytest.raises(kvcull.UsageError, match="must be"):
        kvcull.Sampler(4).sample(logits[:3])
    with pytest.raises(kvcull.UsageError, match="must be"):
        kvcull.Sampler(4).accept(4)
