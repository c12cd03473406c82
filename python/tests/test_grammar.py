"""Grammars: the results of comparing texts with them, answers that match them, and closing."""
import gc
import json
import re

import pytest
from conftest import TEXT

import kvcull
from kvcull import Grammar, Sampler

RIVER = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 5}, "km": {"type": "integer",
         "minimum": 0, "maximum": 9999}, "sea": {"enum": ["Ä", None]}}, "required": ["name", "km", "sea"],
         "additionalProperties": False}


@pytest.mark.parametrize("grammar, whole, begun, wrong", [
    (dict(regex="é+|ab{2}"), ["é", "éé", "abb"], ["", "a", "ab", b"\xc3", "é".encode() + b"\xc3"], ["b", "abbb", b"\xff"]),
    (dict(schema=RIVER), ['{"name":"Oder","km":840,"sea":null}', '{"name": "", "km": 0, "sea": "Ä"}'],
     ["", "{", '{"name":"Oder","km":84', b'{"name":"\xc3'], ["[", "{}", '{"name":"Danube', '{"name":"Oder","km":840}']),
    (dict(schema=json.dumps({"const": None})), ["null"], ["nu"], ["0"]),
    (dict(gbnf='root ::= "yes" | "no" [!?]*'), ["yes", "no", "no!?"], ["y", "n"], ["yes!", "maybe"]),
])
def test_check(grammar, whole, begun, wrong):
    made = Grammar(**grammar)
    for texts, said in ((whole, "whole"), (begun, "begun"), (wrong, "wrong")):
        assert [made.check(text) for text in texts] == [said] * len(texts)


@pytest.mark.parametrize("given, message", [
    ({}, "one of regex"), ({"regex": "a", "gbnf": "root ::= \"a\""}, "one of regex"), ({"regex": "[a"}, "byte 2"),
    ({"regex": "a\0"}, "NUL"), ({"schema": {"type": "strin"}}, "#/type"), ({"schema": "{"}, "schema"),
    ({"schema": {"const": float("nan")}}, "JSON"), ({"schema": {"const": {1, 2}}}, "JSON"), ({"gbnf": "root ::= b"}, "b"),
    ({"regex": 5}, "5: must be a text"),
])
def test_wrong_grammars(given, message):
    with pytest.raises(kvcull.UsageError, match=re.escape(message)):
        Grammar(**given)


@pytest.mark.parametrize("sampling", [{"temperature": 0}, {"seed": 3}, {"seed": 4, "temperature": 3, "top_k": 0}], ids=str)
def test_answers_match(model, bytes_model, sampling):
    for pattern in (r"( the| old){1,3} merchant", r" [a-z]+ [0-9]{2}", r" (48|then) .*"):
        answer = model.session().generate(TEXT, tokens=20, regex=pattern, ignore_end=True, **sampling)
        assert re.fullmatch(pattern, answer.finish()) or answer.reason == "length"
        assert answer.reason in ("end of turn", "length") and answer.tokens
    for form in ({"json_schema": RIVER}, {"json_schema": json.dumps(RIVER)}, {"grammar": Grammar(schema=RIVER)}):
        answer = bytes_model.session().generate("Oder", tokens=400, **form, **sampling)
        answer.finish()
        if answer.reason == "end of turn":
            value = json.loads(answer.text)
            assert list(value) == ["name", "km", "sea"] and len(value["name"]) <= 5 and 0 <= value["km"] <= 9999
        else:
            assert Grammar(schema=RIVER).check(answer.text) == "begun" and answer.reason == "length"
    said = model.session().answer(TEXT, grammar='root ::= " the " ("old" | "red")', **sampling)
    assert said in (" the old", " the red")


def test_some_answers_are_complete(bytes_model):
    reasons = []
    for seed in range(6):
        answer = bytes_model.session().generate("Oder", tokens=400, json_schema=RIVER, seed=seed)
        answer.finish()
        reasons.append(answer.reason)
    assert reasons.count("end of turn") >= 3, reasons


def test_how_an_answer_ends(model):
    stuck = model.session().generate(TEXT, tokens=20, regex=" [a-z]+ [0-9]{3}")
    stuck.finish()
    assert stuck.reason == "grammar" and len(stuck.tokens) == 2
    assert model.session().generate(TEXT, regex="@").finish() == ""
    first = model.session().generate(TEXT, regex="[a-z]+", first=True)
    assert re.fullmatch("[a-z]+", first.finish()) and first.reason == "end of turn"
    plain = model.session().answer(TEXT, tokens=4, seed=2)
    assert plain == model.session().answer(TEXT, tokens=4, seed=2, regex="(?s).*")


def test_a_sampler_serves_several_turns(model):
    sampler = Sampler(model.info.vocab, grammar=Grammar(regex=" [a-z]+"), model=model, seed=1)
    assert sampler.has_grammar and not sampler.whole
    session = model.session()
    for _turn in range(3):
        assert re.fullmatch(" [a-z]+", session.answer(TEXT, sampler=sampler, tokens=5)) and sampler.whole
    free = Sampler(model.info.vocab)
    assert free.whole and not free.has_grammar
    free.begin()


@pytest.mark.parametrize("given", [
    {"regex": "a", "json_schema": {}}, {"regex": "a", "grammar": Grammar(regex="a")}, {"regex": "["},
    {"grammar": 5}, {"json_schema": 5}, {"regex": 5}])
def test_wrong_use(model, given):
    session = model.session()
    with pytest.raises(kvcull.UsageError):
        session.generate(TEXT, **given)
    with pytest.raises(kvcull.UsageError, match="sampler"):
        session.generate(TEXT, regex="a", sampler=Sampler(model.info.vocab))
    assert session.stats().tokens == 0


def test_a_sampler_is_for_its_model(model, bytes_model):
    grammar = Grammar(regex="a")
    with pytest.raises(kvcull.UsageError, match="model"):
        Sampler(model.info.vocab, grammar=grammar)
    with pytest.raises(kvcull.UsageError, match="vocab|tokens"):
        Sampler(5, grammar=grammar, model=model)
    with pytest.raises(kvcull.UsageError, match="another model"):
        bytes_model.session().generate("a", sampler=Sampler(model.info.vocab, grammar=grammar, model=model))


def test_closing(demo):
    with kvcull.Model(demo, threads=1) as model:
        logits = model.session().prompt(TEXT)
        grammar = Grammar(regex=" [a-z]+")
        one, other = [Sampler(model.info.vocab, grammar=grammar, model=model) for _ in range(2)]
        del grammar
        gc.collect()
        assert one.sample(logits) >= 0
        one.close()
        assert other.sample(logits) >= 0
        closed = Grammar(regex="a")
        third = Sampler(model.info.vocab, grammar=closed, model=model)
        closed.close()
        for call in (lambda: third.sample(logits), lambda: closed.check("a"), third.begin,
                     lambda: Sampler(model.info.vocab, grammar=closed, model=model)):
            with pytest.raises(kvcull.UsageError, match="closed"):
                call()
    with pytest.raises(kvcull.UsageError, match="closed"):
        other.sample(logits)
