"""Presses: a transformers model's cache holds the entries that the engine keeps of the same tensors, and the model
answers from these."""
import numpy as np
import pytest

import kvcull
from kvcull import Replay, policy

torch = pytest.importorskip("torch", reason="no torch")
transformers = pytest.importorskip("transformers", reason="no transformers")
from transformers import (DynamicCache, Gemma2Config, Gemma2ForCausalLM, Gemma3ForCausalLM,  # noqa: E402
                          Gemma3TextConfig, GptOssConfig, GptOssForCausalLM, LlamaConfig, LlamaForCausalLM,
                          MistralConfig, MistralForCausalLM)

from kvcull import hugging_face  # noqa: E402

torch.set_num_threads(1)  # the tensors are small; waiting threads would only compete with other tests

SHAPE = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3, "vocab_size": 200, "num_attention_heads": 4,
         "num_key_value_heads": 2}


def made(kind=LlamaForCausalLM, config=LlamaConfig, **more):
    torch.manual_seed(0)
    return kind(config(**{**SHAPE, **more})).eval()


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


LENGTHS = [70, 45, 90]


def padded(tokens):
    """Returns texts of different lengths as a batch with padding on the left: tokens, mask."""
    longest = max(map(len, tokens))
    made, mask = torch.zeros(len(tokens), longest, dtype=torch.long), torch.zeros(len(tokens), longest, dtype=torch.long)
    for row, here, some in zip(made, mask, tokens):
        row[longest - len(some):], here[longest - len(some):] = some, 1
    return made, mask


@pytest.mark.parametrize("spec", ["snapkv:budget=24,window=8", "knorm:budget=50%", "h2o:budget=24", "streaming:budget=20",
                                  "snapkv:budget=24,window=8+quest:budget=16,page=8"])
def test_padding_on_the_left(llama, monkeypatch, spec):
    """Each text of a batch keeps what it keeps alone, and its answer is the same."""
    texts = [ids(count, seed=count)[0] for count in LENGTHS]
    made, mask = padded(texts)
    calls, cache = recorded(monkeypatch), DynamicCache()
    with torch.no_grad(), kvcull.press(spec)(llama):
        llama(made, attention_mask=mask, past_key_values=cache)
        for sample, count in enumerate(LENGTHS):
            pad = made.shape[1] - count
            with Replay(3, 4, 2, 16, spec) as replay:
                for layer, q, k, v, _scaling in calls:
                    replay.prompt(layer, *(rows(one, sample)[pad:] for one in (q, k, v)))
                for layer, kept in enumerate(replay.kept()):
                    held = cache.layers[layer].positions[sample]
                    assert all(np.array_equal(one[one >= 0], positions + pad) for one, positions in zip(held, kept))
        together = llama.generate(made, attention_mask=mask, max_new_tokens=6, do_sample=False, pad_token_id=0)
        for sample, text in enumerate(texts):
            alone = llama.generate(text[None], max_new_tokens=6, do_sample=False, pad_token_id=0)
            assert torch.equal(together[sample, made.shape[1]:], alone[0, len(text):])


GEMMA2 = (Gemma2ForCausalLM, Gemma2Config, {"head_dim": 16, "query_pre_attn_scalar": 64, "sliding_window": 24,
                                            "attn_logit_softcapping": 2.0, "final_logit_softcapping": 5.0})
GPT_OSS = (GptOssForCausalLM, GptOssConfig, {"head_dim": 16, "sliding_window": 24, "num_local_experts": 4,
                                             "num_experts_per_tok": 2, "layer_types": ["sliding_attention", "full_attention",
                                                                                       "sliding_attention"]})


def special(kind, config, more):
    """Returns a model whose scores are large enough to be capped, and whose sinks matter."""
    model = made(kind, config, **more)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight.mul_(20)
            layer.self_attn.k_proj.weight.mul_(20)
            if hasattr(layer.self_attn, "sinks"):
                layer.self_attn.sinks.copy_(torch.randn(4) * 2)
    return model


def check_without_eviction(model, text):
    """Decodes the last ten tokens under a press that evicts nothing. The logits must be those of transformers."""
    first, end = text.shape[1] - 10, text.shape[1]
    with torch.no_grad():
        plain = model(text).logits
        with kvcull.press("full")(model):
            cache = DynamicCache(config=model.config)
            model(text[:, :first], past_key_values=cache)
            pressed = torch.cat([model(text[:, i:i + 1], past_key_values=cache).logits for i in range(first, end)], dim=1)
    assert torch.allclose(plain[:, first:], pressed, atol=1e-4)


@pytest.mark.parametrize("kind, config, more", [GEMMA2, GPT_OSS])
def test_caps_and_sinks(kind, config, more, monkeypatch):
    """Without eviction the logits are those of transformers. With it, the library sees the cap and the sinks."""
    model, text = special(kind, config, more), ids(60)
    sinks = hugging_face._sinks([layer.self_attn for layer in model.model.layers])
    cap = more.get("attn_logit_softcapping", 0)
    assert bool(cap) != (sinks is not None)
    model.set_attn_implementation("eager")
    check_without_eviction(model, text)
    calls, differ = recorded(monkeypatch), 0
    for spec in ("h2o:budget=20", "snapkv:budget=16,window=4", "tova:budget=14"):
        calls.clear()
        with torch.no_grad(), kvcull.press(spec)(model):
            cache = DynamicCache(config=model.config)
            model(text[:, :50], past_key_values=cache)
        held = [[one[one >= 0] for one in layer.positions[0]] for layer in cache.layers]
        windows = [hugging_face._window(layer.self_attn) for layer in model.model.layers]
        for options, same in (({"cap": cap, "sinks": sinks}, True), ({}, False)):
            with Replay(3, 4, 2, 16, spec, windows=windows, **options) as replay:
                for layer, q, k, v, scaling in calls:
                    replay.prompt(layer, rows(q, 0) * np.float32(scaling * 4), rows(k, 0), rows(v, 0))
                equal = all(map(np.array_equal, sum(replay.kept(), []), sum(held, [])))
            assert equal or not same
            differ += not equal
    assert differ, "the cap or the sinks changed no choice"


@pytest.mark.parametrize("kind, config, more", [GEMMA2, GPT_OSS])
def test_caps_and_sinks_of_the_engine(kind, config, more, bundled):
    """The engine computes the model on its own and keeps the same entries."""
    model, text = special(kind, config, {**more, "vocab_size": bundled[1].vocab_size}), ids(60)
    specs = ("h2o:budget=20", "snapkv:budget=16,window=4")
    with hugging_face.open_model(model, bundled[1], threads=1, math="float") as opened, torch.no_grad():
        for spec in specs:
            with kvcull.press(spec)(model):
                cache = DynamicCache(config=model.config)
                model(text, past_key_values=cache)
            session = opened.session(spec, cache_type="f32")
            session.prompt(text[0].numpy())
            for layer in range(3):
                for head in range(2):
                    held = cache.layers[layer].positions[0, head]
                    assert np.array_equal(session.positions(layer, head), held[held >= 0])


def test_every_method_is_pressed_or_refused(llama):
    """A refusal comes before anything is computed, as one line that says what to use instead."""
    needs = {"triattention": "stats=drawn,budget=64", "qfilter": "file=drawn,budget=64", "kvzap": "file=drawn,budget=64",
             "fastkvzip": "file=drawn,budget=64",
             "dms": "file=drawn", "duo": "file=every-other", "sparq": "budget=16",
             "hsa": "budget=16", "lagkv": "budget=280", "lacache": "budget=150,span=2"}
    refused, text = [], ids(300)
    for name, method in policy.methods().items():
        budget = any(option.name == "budget" for option in method.options)
        spec = f"{name}:{needs[name]}" if name in needs else f"{name}:budget=64" if budget else name
        try:
            press = kvcull.press(spec)
        except kvcull.UsageError as error:
            assert "open_model" in str(error) and "\n" not in str(error)
            refused.append(name)
            continue
        with torch.no_grad(), press(llama):
            cache = DynamicCache()
            llama(text, past_key_values=cache)
            llama(text[:, :1], past_key_values=cache)
        assert cache.get_seq_length() == 301
    assert refused == ["kvzap", "fastkvzip", "block", "cam", "merging", "think", "fastkv", "dapq", "kvzip", "kvcompose",
                       "take"]


@pytest.mark.parametrize("kind, config, more", [
    (MistralForCausalLM, MistralConfig, {"sliding_window": 16}),
    (Gemma3ForCausalLM, Gemma3TextConfig, {"sliding_window": 16, "head_dim": 16, "query_pre_attn_scalar": 64,
                                           "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]})])
def test_windows_and_scales(kind, config, more):
    model, text = made(kind, config, **more), ids(50)
    check_without_eviction(model, text)


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
        with pytest.raises(kvcull.UsageError, match="other columns of padding"):
            llama(ids(1), attention_mask=torch.tensor([[0] * 2 + [1] * 42]), past_key_values=cache)
        for mask in ([1] * 6 + [0] * 2, [0, 1, 1, 0, 1, 1, 1, 1]):
            with pytest.raises(kvcull.UsageError, match="on the left"):
                llama(ids(8), attention_mask=torch.tensor([mask]))
        with pytest.raises(kvcull.UsageError, match="no tokens"):
            llama(ids(8), attention_mask=torch.zeros(1, 8, dtype=torch.long))
        with pytest.raises(kvcull.UsageError, match="of 0 and 1"):
            llama(ids(8), attention_mask=torch.ones(1, 1, 8, 8, dtype=torch.bool))
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
    assert pipe(TEXT, questions=ASKED, max_new_tokens=2) == full  # no press is active
    single = pipe(TEXT, question=ASKED[1], press=kvcull.press("full"), max_new_tokens=2)
    assert single == {"answer": full["answers"][1]}
    begun = pipe(TEXT, question=ASKED[0], answer_prefix=" 48", press=kvcull.press("full"), max_new_tokens=1)
    assert begun["answer"].strip() == "21"
    with pytest.raises(kvcull.UsageError, match="only one"):
        pipe(TEXT, question="x", questions=ASKED)


def test_a_batch_in_a_pipeline_of_transformers(bundled, monkeypatch):
    model, tokenizer = bundled
    monkeypatch.setattr(tokenizer, "padding_side", "left")
    texts = [TEXT + ASKED[0], TEXT[:89] + ASKED[0]]
    plain = transformers.pipeline("text-generation", model=model, tokenizer=tokenizer)

    def answers(given, **options):
        return [made[0]["generated_text"][-8:] for made in plain(given, max_new_tokens=2, do_sample=False, **options)]

    with kvcull.press("snapkv:budget=24,window=8")(model):
        assert answers(texts, batch_size=2) == answers(texts) == ["ern48 21"] * 2


@pytest.mark.parametrize("spec", ["knorm:budget=20", "streaming:budget=50%", "h2o:budget=40"])
def test_the_pipelines_answers_do_not_depend_on_each_other(pipe, spec):
    """The context is compressed once, without the questions, so an answer is the same alone and after others."""
    both = pipe(TEXT, questions=ASKED, press=kvcull.press(spec), max_new_tokens=4)["answers"]
    alone = [pipe(TEXT, question=asked, press=kvcull.press(spec), max_new_tokens=4)["answer"] for asked in ASKED]
    assert both == alone


def test_the_pipeline_answers_as_the_engine(pipe, demo, model):
    """A policy keeps the same entries as in the engine on the same model: the answers after a compressed context
    agree."""
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
