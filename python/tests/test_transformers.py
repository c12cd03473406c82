"""compress on tensors of a transformers model: keys and values from its cache, queries from its attention."""
import numpy as np
import pytest

import kvcull
from kvcull import policy

try:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.models.llama import modeling_llama
except ImportError as error:
    pytest.skip("no transformers with torch: %s" % error, allow_module_level=True)


@pytest.fixture
def layer(monkeypatch):
    """Returns keys and values [2, 2, 90, 16] and queries [2, 4, 90, 16] of a small model's last layer, after RoPE."""
    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2, vocab_size=200,
                                         num_attention_heads=4, num_key_value_heads=2)).eval()
    queries, rotate = [], modeling_llama.apply_rotary_pos_emb

    def watched(q, k, *arguments, **named):
        q, k = rotate(q, k, *arguments, **named)
        queries.append(q)
        return q, k

    monkeypatch.setattr(modeling_llama, "apply_rotary_pos_emb", watched)
    with torch.no_grad():
        cache = model(torch.randint(0, 200, (2, 90)), use_cache=True).past_key_values
    keys, values = list(cache)[-1][:2]
    assert keys.shape == (2, 2, 90, 16) and queries[-1].shape == (2, 4, 90, 16)
    return keys, values, queries[-1]


def test_keys_of_smallest_length(layer):
    keys, values, queries = layer
    kept = kvcull.compress(keys, values, queries, policy.knorm(budget=24))
    shortest = keys.norm(dim=-1).argsort(dim=-1)[..., :24].sort(dim=-1).values
    assert np.array_equal([[list(head) for head in sample] for sample in kept], shortest.numpy())
    assert torch.equal(torch.as_tensor(kept.take(keys))[1, 0], keys[1, 0, shortest[1, 0]])


@pytest.mark.parametrize("spec", ["snapkv:budget=24,window=8", "tova:budget=24", "expected:budget=24",
                                  "adakv:budget=24,window=8", "h2o:budget=24"])
def test_methods(layer, spec):
    kept = kvcull.compress(*layer, spec)
    alone = kvcull.compress(*[tensor.numpy() for tensor in layer], spec)
    assert [[list(head) for head in sample] for sample in kept] == [[list(head) for head in sample] for sample in alone]
    assert all(sum(len(head) for head in sample) == 48 for sample in kept)
