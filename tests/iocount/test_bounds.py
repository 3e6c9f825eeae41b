"""Closed forms equal the tally to the byte, give the papers' numbers and scale as proved."""

import math

import pytest
import torch

from flashlab import sources
from flashlab.iocount import bounds, count_io
from flashlab.loading import load_module
from flashlab.worked import flash1, standard
from tests.iocount import bounds_kernels, decode_kernels

# B, H, N_q, N_k, D, block_m, block_n: exact tiles, ragged both ways, one key, D that is no power
SHAPES = [
    (1, 1, 32, 32, 16, 16, 16),
    (2, 2, 37, 53, 16, 16, 32),
    (1, 3, 33, 16, 24, 32, 16),
    (2, 1, 5, 70, 32, 16, 32),
    (1, 2, 70, 5, 16, 32, 16),
    (1, 1, 1, 1, 8, 16, 16),
]
ids = ["-".join(map(str, s)) for s in SHAPES]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=ids)
causals = pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])


def attention(q, k, v, causal=False, kept=None):
    """o and lse in fp64, heads grouped; ``kept`` masks keys."""
    group = q.shape[1] // k.shape[1]
    q, k, v = q.double(), *(x.double().repeat_interleave(group, 1) for x in (k, v))
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        seen = torch.ones(s.shape[-2:], dtype=torch.bool).tril(s.shape[-1] - s.shape[-2])
        s = s.masked_fill(~seen, -math.inf)
    if kept is not None:
        s = s.masked_fill(~kept, -math.inf)
    return torch.softmax(s, -1).nan_to_num(0.0) @ v, torch.logsumexp(s, -1)


def inputs(B, H, N_q, N_k, D, H_kv=None, dtype=torch.float16):
    g = torch.Generator().manual_seed(0)
    kv = [B, H_kv or H, N_k, D]
    return [torch.randn(*size, generator=g).to(dtype) for size in ([B, H, N_q, D], kv, kv)]


def moved(tally):
    """What the tally counted, by argument name without its suffix."""
    rows = {name.removesuffix("_ptr"): row for name, row in tally.traffic.items()}
    return {name: (row["load"], row["store"]) for name, row in rows.items()}


def close(got, want, atol=4e-3):
    torch.testing.assert_close(got.double(), want, atol=atol, rtol=4e-3)


# ------------------------------------------------------------------ equal to the byte


@shapes
def test_standard(shape, monkeypatch):
    *sizes, block_m, block_n = shape
    for name, size in (("BLOCK_M", block_m), ("BLOCK_N", block_n), ("BLOCK_K", block_n)):
        monkeypatch.setattr(standard, name, size)
    q, k, v = inputs(*sizes)
    with count_io() as tally:
        o = standard.standard_forward(q, k, v)
    close(o, attention(q, k, v)[0])
    form = bounds.standard_forward_bytes(*sizes, 2, block_m=block_m)
    assert moved(tally) == form


@shapes
def test_flash1(shape, monkeypatch):
    *sizes, block_m, block_n = shape
    monkeypatch.setattr(flash1, "BLOCK_M", block_m)
    monkeypatch.setattr(flash1, "BLOCK_N", block_n)
    q, k, v = inputs(*sizes, dtype=torch.float32)
    with count_io() as tally:
        o, *_ = flash1.flash1_forward(q, k, v)
    close(o, attention(q, k, v)[0])
    assert moved(tally) == bounds.flash1_forward_bytes(*sizes, block_m, block_n, 4)


@shapes
@causals
def test_flash_forward_of_the_course_visits_every_tile(shape, causal):
    *sizes, block_m, block_n = shape
    module = load_module(sources.solution_text("flash_forward"), "flash_forward.py")
    module.BLOCK_M, module.BLOCK_N = block_m, block_n
    q, k, v = inputs(*sizes)
    with count_io() as tally:
        module.flash_forward(q, k, v, causal=causal)
    assert moved(tally) == bounds.flash_forward_bytes(*sizes, block_m, block_n, 2)


@shapes
@causals
@pytest.mark.parametrize("group", [1, 2], ids=["mha", "gqa"])
def test_flash2_skips_causal_tiles_and_backward(shape, causal, group):
    B, H, N_q, N_k, D, block_m, block_n = shape
    H, H_kv = H * group, H
    q, k, v = inputs(B, H, N_q, N_k, D, H_kv)
    with count_io() as tally:
        o, lse = bounds_kernels.flash2(q, k, v, block_m, block_n, causal)
    want, want_lse = attention(q, k, v, causal)
    close(o, want)
    close(lse, want_lse)
    sizes = (B, H, N_q, N_k, D, block_m, block_n, 2, causal)
    assert moved(tally) == bounds.flash_forward_bytes(*sizes)

    do = torch.randn(o.shape, generator=torch.Generator().manual_seed(1)).half()
    with count_io() as tally:
        grads = bounds_kernels.backward(q, k, v, o, lse, do, block_m, block_n, causal)
    assert moved(tally) == bounds.backward_bytes(*sizes, H_kv)
    leaves = [x.double().requires_grad_() for x in (q, k, v)]
    for got, want in zip(
        grads, torch.autograd.grad(attention(*leaves, causal)[0], leaves, do.double()), strict=True
    ):
        close(got, want.nan_to_num(0.0), atol=2e-2)


@shapes
@pytest.mark.parametrize("shared", [True, False], ids=["one-mask", "mask-per-head"])
def test_block_sparse(shape, shared):
    B, H, N_q, N_k, D, block_m, block_n = shape
    tiles = (math.ceil(N_q / block_m), math.ceil(N_k / block_n))
    g = torch.Generator().manual_seed(3)
    block_mask = torch.rand(1 if shared else H, *tiles, generator=g) < 0.6
    q, k, v = inputs(B, H, N_q, N_k, D)
    with count_io() as tally:
        o, _ = bounds_kernels.sparse(q, k, v, block_mask.to(torch.int8), block_m, block_n)
    kept = block_mask.repeat_interleave(block_m, 1).repeat_interleave(block_n, 2)
    close(o, attention(q, k, v, kept=kept[:, :N_q, :N_k])[0])
    form = bounds.block_sparse_forward_bytes(B, H, N_q, N_k, D, block_m, block_n, 2, block_mask)
    counted = moved(tally)
    assert {name: counted.get(name, (0, 0)) for name in form} == form  # no tile kept: no k at all
    assert set(counted) <= set(form)


@pytest.mark.parametrize("packed", [True, False], ids=["packed", "unpacked"])
@pytest.mark.parametrize("ragged", [True, False], ids=["lengths", "full"])
@pytest.mark.parametrize("num_splits", [1, 3, 8])
def test_split_kv(packed, ragged, num_splits):
    B, H, H_kv, N, D = 2, 6, 2, 45, 24
    lengths = [45, 5]
    q, k, v = inputs(B, H, 1, N, D, H_kv)
    seqlens = torch.tensor(lengths, dtype=torch.int32) if ragged else None
    with count_io() as tally:
        o, lse = decode_kernels.split_kv(q, k, v, num_splits, seqlens, packed)
    cached = torch.arange(N)[None] < torch.tensor(lengths if ragged else [N, N])[:, None]
    want, want_lse = attention(q, k, v, kept=cached[:, None, None])
    close(o, want)
    close(lse, want_lse)
    form = bounds.split_kv_bytes(
        B, H, H_kv, lengths if ragged else N, D, num_splits, 2, packed=packed
    )
    assert moved(tally) == form


@pytest.mark.parametrize("sizes", [(0, 2, 8, 8), (1, 2, 0, 8), (1, 2, 8, 0)])
def test_nothing_to_do_moves_nothing(sizes):
    tiled = [bounds.flash_forward_bytes, bounds.flash1_forward_bytes, bounds.backward_dq_bytes]
    for form in (*tiled, bounds.backward_dkdv_bytes):
        assert bounds.total_bytes(form(*sizes, 16, 16, 16, 2)) == 0
    assert bounds.total_bytes(bounds.standard_forward_bytes(*sizes, 16, 2)) == 0
    assert bounds.total_bytes(bounds.standard_backward_bytes(*sizes, 16, 2)) == 0


# ------------------------------------------------------------------ the papers' numbers

# GPT-2 medium in figure 2 of FlashAttention
GPT2 = {"B": 64, "H": 16, "N_q": 1024, "N_k": 1024, "D": 64, "itemsize": 2}


@pytest.mark.parametrize(
    ("block_n", "gigabytes"), [(64, 6.577), (128, 3.355), (256, 1.745), (512, 0.940)]
)
def test_figure_2_middle_of_flash_attention(block_n, gigabytes):
    """The figure counts q, k, v and o alone: (3 ceil(N / block_n) + 1) passes over N D."""
    traffic = bounds.flash1_forward_bytes(**GPT2, block_m=64, block_n=block_n)
    counted = sum(sum(traffic[name]) for name in ("q", "k", "v", "o"))
    assert round(counted / 1e9, 3) == gigabytes
    assert counted == (3 * 1024 // block_n + 1) * 64 * 16 * 1024 * 64 * 2


def test_figure_2_left_of_flash_attention():
    """40.3 GB for standard attention, forward and backward, with mask and dropout.

    Plain attention passes 11 times over s-like matrices and 12 times over inputs; seven more
    passes are the mask, dropout and its own mask.
    """
    forward = bounds.standard_forward_bytes(**GPT2)
    backward = bounds.standard_backward_bytes(**GPT2)
    matrix = 64 * 16 * 1024**2 * 2
    rows = 64 * 16 * 1024 * 64 * 2
    plain = bounds.total_bytes(forward) + bounds.total_bytes(backward)
    assert plain == 11 * matrix + 12 * rows
    assert (plain + 7 * matrix) / 1e9 == pytest.approx(40.3, abs=0.05)


def test_l2_traffic_measured_on_an_h200():
    """The tile model predicts 2.21 GB where the flash kernel's counters read 2.49 GB."""
    traffic = bounds.flash_forward_bytes(4, 16, 4096, 4096, 64, 128, 128, 2)
    counted = bounds.total_bytes(traffic)
    assert round(counted / 1e9, 2) == 2.22  # 2.21 and the lse
    assert counted / 2.49e9 == pytest.approx(1, abs=0.15)


def test_flash_decoding_moves_the_cache_once():
    """67.1 MB of keys and values in each row of Flash-Decoding's table up to 1 x 64k."""
    for B, N in ((256, 256), (64, 1024), (8, 8192), (1, 65536)):
        traffic = bounds.split_kv_bytes(B, 16, 2, N, 128, 8, 2)
        assert round((traffic["k"][0] + traffic["v"][0]) / 1e6, 1) == 67.1


# ------------------------------------------------------------------ the theorems


def test_the_rule_for_block_sizes():
    assert bounds.fa1_blocks(48 * 1024, 64) == (64, 192)
    assert bounds.fa1_blocks(1000, 64) == (4, 4)  # ceil(3.9)


@pytest.mark.parametrize("sram", [4096, 16384, 65536])
def test_flash1_moves_a_constant_times_the_theorem(sram):
    """(3 T_c + 1) N D with T_c = 4 N D / M: 12 times N^2 D^2 / M, plus N D."""
    N, D = 8192, 64
    block_m, block_n = bounds.fa1_blocks(sram, D)
    traffic = bounds.flash1_forward_bytes(1, 1, N, N, D, block_m, block_n, 1)
    counted = sum(sum(traffic[name]) for name in "qkvo")
    assert counted == pytest.approx(12 * bounds.theta("flash", N, D, sram) + N * D)
    dense = bounds.total_bytes(bounds.standard_forward_bytes(1, 1, N, N, D, 1))
    assert dense == 4 * bounds.theta("standard", N, D, sram)


def test_theta_of_a_block_mask_and_of_an_unknown_kind():
    N, D, M = 1024, 64, 4096
    assert bounds.theta("block-sparse", N, D, M, 0.25) == N * D + 0.25 * bounds.theta(
        "flash", N, D, M
    )
    with pytest.raises(ValueError, match="kind must be one of standard, flash, block-sparse"):
        bounds.theta("linear", N, D, M)


def test_io_cost_follows_from_the_forms():
    """One head, loads and stores together: what the exercise io_cost asks for."""
    one = bounds.moved_bytes(bounds.flash1_forward_bytes(1, 1, 100, 100, 16, 16, 32, 2))
    assert one == {
        "q": 4 * 3200, "k": 3200, "v": 3200, "o": (3 + 4) * 3200,
        "m": (3 + 4) * 400, "l": (3 + 4) * 400,
    }  # fmt: skip
    assert bounds.moved_bytes(bounds.flash_forward_bytes(1, 1, 100, 100, 16, 16, 32, 2)) == {
        "q": 3200, "k": 7 * 3200, "v": 7 * 3200, "o": 3200, "lse": 400
    }  # fmt: skip
