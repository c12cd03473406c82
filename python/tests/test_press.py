"""Presses: a transformers model's cache holds what the engine keeps of the same tensors, and its answers follow."""
import numpy as np
import pytest

import kvcull
from kvcull import Replay, policy

torch = pytest.importorskip("torch", reason="no torch")
transformers = pytest.importorskip("transformers", reason="no transformers")
from transformers import (DynamicCache, Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig,  # noqa: E402
                          LlamaForCausalLM, MistralConfig, MistralForCausalLM)

from kvcull import hugging_face  # noqa: E402

SHAPE = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "vocab_size": 200, "num_attention_heads": 4,
         "num_key_value_heads": 2}


def made(kind=LlamaForCausalLM, config=LlamaConfig, **more):
    torch.manual_seed(0)
    return kind(config(**SHAPE, **more)).eval()


@pytest.fixture(scope="module", name="llama")
def llama_model():
    return made()


def ids(count, batch=1, seed=1):
    return torch.randint(3, 200, (batch, count), generator=torch.Generator().manual_seed(seed))


def recorded(monkeypatch):
    """Collects (layer, q, k, v) of every call of the attention, as transformers computed them."""
    calls, real = [], hugging_face._attention

    def attention(module, query, key, value, *arguments, **named):
        calls.append((module.layer_idx, query, key, value, named.get("scaling")))
        return real(module, query, key, value, *arguments, **named)

    monkeypatch.setitem(hugging_face.ALL_ATTENTION_FUNCTIONS, hugging_face.NAME, attention)
    return calls


def rows(tensor, sample):
    return np.ascontiguousarray(tensor[sample].float().numpy().transpose(1, 0, 2))


@pytest.mark.parametrize("spec", ["knorm:budget=24", "snapkv:budget=24,window=8", "pyramidkv:budget=24,window=8",
                                  "adakv:budget=24,window=8", "cake:budget=40,window=8", "tova:budget=24",
                                  "streaming:budget=24", "snapkv:budget=24,window=8,per=head", "expected:budget=24"])
def test_the_cache_holds_what_the_engine_keeps(llama, monkeypatch, spec):
    calls, cache = recorded(monkeypatch), DynamicCache()
    with torch.no_grad(), kvcull.press(spec)(llama):
        llama(ids(90, batch=2), past_key_values=cache)
    assert [call[0] for call in calls] == [0, 1, 2] and cache.get_seq_length() == 90
    for sample in range(2):
        with Replay(3, 4, 2, 16, spec) as replay:
            for layer, q, k, v, _scaling in calls:
                replay.prompt(layer, rows(q, sample), rows(k, sample), rows(v, sample))
            for layer, kept in enumerate(replay.kept()):
                held = cache.layers[layer]
                for head, positions in enumerate(kept):
                    assert np.array_equal(held.positions[sample, head][:len(positions)], positions)
                    source = calls[layer][2][sample, head * 2 // len(kept)]
                    assert torch.equal(held.keys[sample, head][:len(positions)], source[torch.from_numpy(positions).long()])
                assert [int((one >= 0).sum()) for one in held.positions[sample]] == list(map(len, kept))
                assert held.keys.shape[2] < 90


@pytest.mark.parametrize("spec", ["h2o:budget=24", "tova:budget=24", "morphkv:budget=24,window=8", "quest:budget=16,page=8",
                                  "snapkv:budget=24,window=8+quest:budget=16,page=8"])
def test_steps_are_the_engines(llama, monkeypatch, spec):
    """Decode methods: what stays after each step, and the attention's output, are those of a replay."""
    calls, outputs = recorded(monkeypatch), []
    cache, text = DynamicCache(), ids(70)
    hooks = [layer.self_attn.o_proj.register_forward_pre_hook(lambda _module, given: outputs.append(given[0]))
             for layer in llama.model.layers]
    with torch.no_grad(), kvcull.press(spec)(llama):
        llama(text[:, :60], past_key_values=cache)
        with Replay(3, 4, 2, 16, spec) as replay:
            for layer, q, k, v, _scaling in calls:
                replay.prompt(layer, rows(q, 0), rows(k, 0), rows(v, 0))
            for token in range(60, 70):
                calls.clear()
                outputs.clear()
                llama(text[:, token:token + 1], past_key_values=cache)
                for (layer, q, k, v, _scaling), out in zip(calls, outputs):
                    wanted = replay.step(layer, rows(q, 0)[0], rows(k, 0)[-1], rows(v, 0)[-1])
                    assert np.allclose(out.numpy().reshape(4, 16), wanted, atol=2e-6)
                for layer, kept in enumerate(replay.kept()):
                    held = [positions[positions >= 0] for positions in cache.layers[layer].positions[0]]
                    assert all(map(np.array_equal, held, kept))
    for hook in hooks:
        hook.remove()
    assert cache.get_seq_length() == 70


def test_the_method_full_changes_nothing(llama):
    text = ids(40)
    with torch.no_grad():
        plain = llama.generate(text, max_new_tokens=12, do_sample=False)
        with kvcull.press(policy.full())(llama):
            pressed = llama.generate(text, max_new_tokens=12, do_sample=False)
    assert torch.equal(plain, pressed) and llama.config._attn_implementation != hugging_face.NAME


@pytest.mark.parametrize("kind, config, more", [
    (MistralForCausalLM, MistralConfig, {"sliding_window": 16}),
    (Gemma3ForCausalLM, Gemma3TextConfig, {"sliding_window": 16, "head_dim": 16, "query_pre_attn_scalar": 64,
                                           "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})])
def test_windows_and_scales(kind, config, more):
    model, text = made(kind, config, **more), ids(50)
    with torch.no_grad():
        plain = model(text).logits
        with kvcull.press("full")(model):
            cache = DynamicCache(config=model.config)
            model(text[:, :40], past_key_values=cache)
            pressed = torch.cat([model(text[:, i:i + 1], past_key_values=cache).logits for i in range(40, 50)], dim=1)
    assert torch.allclose(plain[:, 40:], pressed, atol=1e-4)


def test_generation_with_a_press(llama):
    text = ids(60)
    with kvcull.press("knorm:budget=32")(llama):
        made_tokens = llama.generate(text, max_new_tokens=6, do_sample=False)
        again = llama.generate(text, max_new_tokens=6, do_sample=False)
    assert made_tokens.shape == (1, 66) and torch.equal(made_tokens, again)


def test_refusals(llama):
    with pytest.raises(kvcull.UsageError, match="stage chunk"):
        kvcull.press("take:budget=64")
    with pytest.raises(kvcull.UsageError, match="nosuch"):
        kvcull.press("nosuch:budget=64")
    with pytest.raises(kvcull.UsageError, match="no attention layers"):
        with kvcull.press("full")(torch.nn.Linear(2, 2)):
            pass
    with torch.no_grad(), kvcull.press("h2o:budget=24")(llama):
        cache = DynamicCache()
        llama(ids(40), past_key_values=cache)
        with pytest.raises(kvcull.UsageError, match="one token at a time"):
            llama(ids(3), past_key_values=cache)
        with pytest.raises(kvcull.UsageError, match="padding"):
            llama(ids(8), attention_mask=torch.tensor([[0] * 2 + [1] * 6]))
        with pytest.raises(kvcull.UsageError, match="cannot be shortened"):
            cache.layers[0].crop(-2)
    with torch.no_grad():
        filled = DynamicCache()
        llama(ids(10), past_key_values=filled)
        with kvcull.press("knorm:budget=8")(llama), pytest.raises(kvcull.UsageError, match="entries from before"):
            llama(ids(2), past_key_values=filled)


TEXT = ("the old sailor found the red kettle near the harbor . the magic number for lantern 48 21 . then the young baker "
        "lost the green carrot behind the church . the magic number for candle 13 07 . ")
ASKED = ["question : the magic number for lantern", "question : the magic number for candle"]


@pytest.fixture(scope="module", name="bundled")
def bundled_in_transformers(demo):
    return (transformers.AutoModelForCausalLM.from_pretrained(demo), transformers.AutoTokenizer.from_pretrained(demo))


@pytest.fixture(scope="module", name="pipe")
def pipeline(bundled):
    model, tokenizer = bundled
    return transformers.pipeline("kvcull-text-generation", model=model, tokenizer=tokenizer)


def test_the_pipeline(pipe):
    full = pipe(TEXT, questions=ASKED, press=kvcull.press("full"), max_new_tokens=2)
    assert [answer.strip() for answer in full["answers"]] == ["48 21", "13 07"]
    assert pipe(TEXT, questions=ASKED, max_new_tokens=2) == full  # without a press
    single = pipe(TEXT, question=ASKED[1], press=kvcull.press("full"), max_new_tokens=2)
    assert single == {"answer": full["answers"][1]}
    begun = pipe(TEXT, question=ASKED[0], answer_prefix=" 48", press=kvcull.press("full"), max_new_tokens=1)
    assert begun["answer"].strip() == "21"
    with pytest.raises(kvcull.UsageError, match="only one"):
        pipe(TEXT, question="x", questions=ASKED)


@pytest.mark.parametrize("spec", ["knorm:budget=20", "streaming:budget=50%", "h2o:budget=40"])
def test_the_pipelines_answers_do_not_depend_on_each_other(pipe, spec):
    """The context is compressed once, without the questions, so an answer is the same alone and after others."""
    both = pipe(TEXT, questions=ASKED, press=kvcull.press(spec), max_new_tokens=4)["answers"]
    alone = [pipe(TEXT, question=asked, press=kvcull.press(spec), max_new_tokens=4)["answer"] for asked in ASKED]
    assert both == alone


def test_the_pipeline_answers_as_the_engine(pipe, demo, model):
    """A policy decides the same as in the engine on the same model: the answers after a compressed context agree."""
    for spec in ("knorm:budget=30", "snapkv:budget=40,window=8"):
        pressed = pipe(TEXT, questions=ASKED, press=kvcull.press(spec), max_new_tokens=3)["answers"]
        for asked, answer in zip(ASKED, pressed):
            session = model.session(spec, cache_type="f32")
            session.prompt(model.tokenize(TEXT))
            for token in model.tokenize(asked + "\n", bos=False):
                session.decode(int(token))
            assert session.answer(tokens=3, temperature=0).strip() == answer.strip()


def test_a_model_in_memory(bundled, model):
    with hugging_face.open_model(*bundled, threads=1) as opened:
        assert opened.info.parameters == model.info.parameters
        assert np.array_equal(opened.tokenize(TEXT), model.tokenize(TEXT))
        assert np.array_equal(opened.session().prompt(TEXT), model.session().prompt(TEXT))
