"""The kernels that chapters study: right on ragged, causal, strided and unequal lengths."""

import math

import pytest
import torch

from flashlab.iocount import bounds, count_io
from flashlab.worked import (
    flash1,
    flash1_backward,
    merge_pair,
    standard,
    standard_backward,
    vector_add,
)

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


def gradients(q, k, v, do, causal):
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    return torch.autograd.grad(exact(*leaves, causal)[0], leaves, do.double())


@pytest.mark.core
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: "x".join(map(str, s)))
@pytest.mark.parametrize("order", ["standard", "flash1"])
def test_backward_equals_fp64(order, shape, causal, monkeypatch):
    for module in (standard, flash1, flash1_backward):
        monkeypatch.setattr(module, "BLOCK_M", 16)
        monkeypatch.setattr(module, "BLOCK_N", 32)
    q, k, v = inputs(*shape, torch.float32)
    do = torch.randn(q.shape, generator=torch.Generator().manual_seed(1))
    with count_io():
        if order == "standard":
            p = standard_backward.standard_weights(q, k, causal=causal)
            grads = standard_backward.standard_backward(q, k, v, p, do)
        else:
            o, m, l_sum = flash1.flash1_forward(q, k, v, causal=causal)
            grads = flash1_backward.flash1_backward(q, k, v, o, m, l_sum, do, causal=causal)
    for got, expected in zip(grads, gradients(q, k, v, do, causal), strict=True):
        assert (got - expected).abs().max() < 1e-4 * (1 + expected.abs().max())


@pytest.mark.core
def test_backward_traffic(monkeypatch):
    """The standard pass moves seven matrices; FlashAttention-1 moves dq once a key block."""
    N, D, tile = 64, 16, 16
    for module in (standard, flash1_backward):
        monkeypatch.setattr(module, "BLOCK_M", tile)
        monkeypatch.setattr(module, "BLOCK_N", tile)
    q, k, v, do = (torch.randn(1, 1, N, D).half() for _ in range(4))
    p = torch.rand(1, N, N).half()
    with count_io() as tally:
        standard_backward.standard_backward(q, k, v, p, do)
    whole = 2 * N * N
    assert tally.load_bytes("p_ptr") == 4 * whole  # p for dv and ds; ds for dq and dk
    assert tally.store_bytes("s_ptr") + tally.load_bytes("dp_ptr") == 2 * whole  # dp out and in
    assert tally.store_bytes("ds_ptr") == whole
    matrices = bounds.standard_backward_bytes(1, 1, N, N, D, 2)
    assert sum(sum(matrices[name]) for name in ("p", "dp", "ds")) == 7 * whole
    statistics = torch.rand(1, 1, N) + 1
    with count_io() as tally:
        flash1_backward.flash1_backward(q, k, v, q, statistics, statistics, do)
    passes, fp32 = N // tile, 4 * N * D
    assert tally.load_bytes("sum_ptr") == tally.store_bytes("sum_ptr") == (passes - 1) * fp32
    assert tally.load_bytes("q_ptr") == passes * 2 * N * D
    assert tally.load_bytes("k_ptr") == tally.store_bytes("dk_ptr") == 2 * N * D


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


@pytest.mark.core
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=str)
def test_a_part_merged_in_place_is_attention_over_all_keys(dtype):
    q, k, v = inputs(2, 2, 37, 50, 24, dtype)
    (o, lse), (part, lse_part) = (
        [x.to(t) for x, t in zip(exact(q, k[:, :, at], v[:, :, at], False), both, strict=True)]
        for at, both in ((slice(0, 20), (dtype, torch.float32)),
                         (slice(20, 50), (dtype, torch.float32)))
    )  # fmt: skip
    wanted, lse_wanted = exact(q, k, v, False)
    rows = slice(5, 37)  # views, as zigzag cuts them
    before = o[:, :, :5].clone()
    with count_io() as tally:
        merge_pair.merge_pair(*(x[:, :, rows] for x in (o, lse, part, lse_part)))
    limit = 2 * torch.finfo(dtype).eps * wanted.abs().max()
    assert (o[:, :, rows] - wanted[:, :, rows]).abs().max() <= limit
    torch.testing.assert_close(lse[:, :, rows].double(), lse_wanted[:, :, rows], atol=1e-5, rtol=0)
    assert torch.equal(o[:, :, :5], before)
    moved = part[:, :, rows].nbytes
    assert tally.load_bytes("o_ptr") == tally.load_bytes("part_ptr") == moved
    assert tally.store_bytes("o_ptr") == moved
    nothing = slice(0, 0)
    merge_pair.merge_pair(*(x[:, :, nothing] for x in (o, lse, part, lse_part)))
