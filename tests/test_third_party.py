"""``flashlab.attention`` in a model class that this course did not write: Llama of transformers.

Random weights, a tiny configuration, no download; two query heads share a key head.
"""

import os

import pytest
import torch

import flashlab
from flashlab import routes

NAME = "course"  # as the configuration calls it


@pytest.fixture(scope="module")
def llama():
    """A function that makes the same tiny Llama with the attention of a given name."""
    os.environ["HF_HUB_OFFLINE"] = "1"  # read at import: nothing is fetched
    if "CI" not in os.environ:  # there its absence is a failure
        pytest.importorskip("transformers", reason="not run: `make test` installs transformers")
    from transformers import AttentionInterface, LlamaConfig, LlamaForCausalLM

    def attend(module, q, k, v, mask, scaling=None, dropout=0.0, **_):
        """The signature that transformers calls; its output is [B, N, H, D]."""
        o = flashlab.attention(
            q, k, v, mask, causal=module.is_causal, sm_scale=scaling, dropout_p=dropout
        )
        return o.transpose(1, 2).contiguous(), None

    AttentionInterface.register(NAME, attend)

    def make(attention):
        torch.manual_seed(0)
        config = LlamaConfig(
            vocab_size=61, hidden_size=64, intermediate_size=96, num_hidden_layers=2,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
            attn_implementation=attention,
        )  # fmt: skip
        return LlamaForCausalLM(config)

    return make


def close(got, wanted):
    torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-4)


def test_logits_and_gradients_are_those_of_sdpa(llama, monkeypatch):
    taken = []
    monkeypatch.setattr(routes.attend, "say_once", lambda plan: taken.append(plan.route))
    tokens = torch.randint(61, (2, 37), generator=torch.Generator().manual_seed(1))
    found = []
    for attention in (NAME, "sdpa"):
        model = llama(attention)
        out = model(tokens, labels=tokens)
        out.loss.backward()
        found.append((out.logits, {n: p.grad for n, p in model.named_parameters()}))
    (logits, grads), (wanted, wanted_grads) = found
    assert taken == ["training"] * 2, "one call a layer"
    close(logits, wanted)
    assert len(grads) > 10 and all(g is not None and g.any() for g in grads.values())
    for name, grad in grads.items():
        close(grad, wanted_grads[name])


def test_a_cached_token_takes_the_decode_route(llama, monkeypatch):
    taken = []
    monkeypatch.setattr(routes.attend, "say_once", lambda plan: taken.append(plan.route))
    tokens = torch.randint(61, (2, 9), generator=torch.Generator().manual_seed(2))
    found = []
    with torch.no_grad():
        for attention in (NAME, "sdpa"):
            model = llama(attention).eval()
            first = model(tokens[:, :-1], use_cache=True)
            after = model(tokens[:, -1:], cache=first.cache, use_cache=True)
            found.append(after.logits)
    assert taken == ["training"] * 2 + ["decode"] * 2
    close(*found)


def test_a_padding_mask_is_refused(llama):
    model, tokens = llama(NAME), torch.randint(61, (2, 9))
    padded = torch.ones(2, 1, 9, 9, dtype=torch.bool)
    padded[0, :, :, :3] = False
    with pytest.raises(ValueError, match="takes no mask"):
        model(tokens, attention_mask=padded)
