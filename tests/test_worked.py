"""The kernels that chapters study: right on ragged, causal, strided and unequal lengths."""

import math

import pytest
import torch

from flashlab.iocount import bounds, count_io
from flashlab.worked import flash1, standard, vector_add

SHAPES = [(1, 2, 37, 37, 24), (2, 1, 5, 21, 16), (1, 1, 40, 20, 40), (1, 1, 1, 1, 64)]


def exact(q, k, v, causal):
    q, k, v = (x.double() for x in (q, k, v))
    s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    if causal:
        N_q, N_k = s.shape[-2:]
        s = s.masked_fill(torch.ones(N_q, N_k, dtype=torch.bool).triu(1 + N_k - N_q), -math.inf)
    lse = torch.logsumexp(s, -1)
    return torch.exp(s - lse.clamp_min(-1e300)[..., None]) @ v, lse


def inputs(B, H, N_q, N_k, D, dtype):
    generator = torch.Generator().manual_seed(N_q * 100 + N_k)
    q = torch.randn(B, N_q, H, D, generator=generator).to(dtype).transpose(1, 2)
    k, v = (torch.randn(B, H, N_k, D, generator=generator).to(dtype) for _ in range(2))
    return q, 3 * k, v


@pytest.mark.core
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("order", ["standard", "flash1"])
def test_forward_equals_fp64(order, shape, causal, monkeypatch):
    for module in (standard, flash1):
        monkeypatch.setattr(module, "BLOCK_M", 16)
        monkeypatch.setattr(module, "BLOCK_N", 32)
    q, k, v = inputs(*shape, torch.float16)
    with count_io():
        if order == "standard":
            o = standard.standard_forward(q, k, v, causal=causal)
        else:
            o, m, l_sum = flash1.flash1_forward(q, k, v, causal=causal)
    expected, lse = exact(q, k, v, causal)
    assert (o.double() - expected).abs().max() < 4e-3 * v.abs().max()
    if order == "flash1":
        empty = lse == -math.inf
        assert torch.equal(m == -math.inf, empty)
        got = m + l_sum.log()
        assert (got - lse)[~empty].abs().max() < 1e-5


@pytest.mark.core
def test_vector_add_counts_its_bytes():
    x, y = torch.randn(1000), torch.randn(1000)
    with count_io() as tally:
        z = vector_add.vector_add(x, y, block=64)
    assert torch.equal(z, x + y)
    assert (tally.load_bytes(), tally.store_bytes()) == (8000, 4000)


@pytest.mark.core
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
def test_bytes_equal_the_closed_forms(shape, monkeypatch):
    for module in (standard, flash1):
        monkeypatch.setattr(module, "BLOCK_M", 16)
        monkeypatch.setattr(module, "BLOCK_N", 32)
    q, k, v = inputs(*shape, torch.float16)
    with count_io() as tally:
        standard.standard_forward(q, k, v)
    moved = {name: tuple(row[k] for k in ("load", "store")) for name, row in tally.traffic.items()}
    closed = bounds.standard_forward_bytes(*shape, 2, block_m=16)  # rows of s: q is loaded once
    assert {name.removesuffix("_ptr"): both for name, both in moved.items()} == closed
    with count_io() as tally:
        flash1.flash1_forward(q, k, v)
    moved = {name: tuple(row[k] for k in ("load", "store")) for name, row in tally.traffic.items()}
    closed = bounds.flash1_forward_bytes(*shape, 16, 32, 2)
    assert {name.removesuffix("_ptr"): both for name, both in moved.items()} == closed
