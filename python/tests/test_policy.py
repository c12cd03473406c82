"""Policies with keyword arguments, and their help texts, made from the library's tables."""
import inspect
import json

import pytest

import kvcull
from kvcull import policy


def test_every_method_is_a_function(program):
    said = json.loads(program("info", "methods", "--json"))
    assert list(policy.methods()) == [method["name"] for method in said["methods"]]
    for row in said["methods"]:
        method, function = policy.methods()[row["name"]], getattr(policy, row["name"].replace("-", "_"))
        assert [option.name for option in method.options] == [option["name"] for option in row["options"]]
        assert (", ".join(method.stages) or "none") == row["stages"]
        for option in method.options:
            assert f"{option.name}: {option.help}" in function.__doc__
        assert method.idea in function.__doc__ and function.__name__ in dir(policy)
        assert len(inspect.signature(function).parameters) == len(method.options) + len(method.common)


def test_texts():
    assert str(policy.full()) == "full"
    assert str(policy.snapkv(budget=64, window=16)) == "snapkv:budget=64,window=16"
    assert str(policy.snapkv(budget=0.1)) == "snapkv:budget=10%"
    assert str(policy.snapkv(budget="12%", layers=[0, 2])) == "snapkv:budget=12%,layers=0/2"
    assert str(policy.snapkv_decode(budget=8, window=None)) == "snapkv-decode:budget=8"
    both = policy.snapkv(budget=64) + policy.quest(budget=32)
    assert str(both) == "snapkv:budget=64+quest:budget=32" and str(both + "full") == f"{both}+full"
    assert policy.full() == policy.full() and hash(both) == hash(policy.Policy(str(both)))
    assert repr(policy.full()) == "Policy('full')"
    assert str(policy.duo(heads="a,b")).endswith('heads="a,b"') if "heads" in inspect.signature(policy.duo).parameters \
        else True


def test_what_is_refused():
    for wrong in (lambda: policy.snapkv(), lambda: policy.snapkv(budget=64, nosuch=1)):
        with pytest.raises(TypeError, match="snapkv: "):
            wrong()
    for value in (1.5, -0.5, True, float("nan"), 'a"b'):
        with pytest.raises(kvcull.UsageError):
            policy.snapkv(budget=value)
    with pytest.raises(AttributeError, match="no method 'snapkw'"):
        policy.snapkw
    with pytest.raises(TypeError):
        policy.full() + 1


def test_the_library_checks_values(model):
    with pytest.raises(kvcull.UsageError, match="window"):
        model.engine.check(policy.snapkv(budget=64, window=0))
    with pytest.raises(kvcull.UsageError, match="snapkv"):
        model.session(policy.snapkv(budget=64) + policy.snapkv(budget=32))
