"""What separates FlashAttention-1's order, chapter 04's kernel and chapter 07's, counted."""

import math

import pytest
import torch

from flashlab import count_io, sources
from flashlab.loading import load_module
from flashlab.worked import flash1

N, D, BLOCK = 96, 16, 16


def counted(slug, causal=False, tiles=(BLOCK, BLOCK), N_q=N, N_k=N):
    module = load_module(sources.solution_text(slug), f"<solution {slug}>")
    module.BLOCK_M, module.BLOCK_N = tiles
    q, k, v = (torch.randn(1, 1, n, D).half() for n in (N_q, N_k, N_k))
    with count_io() as tally:
        getattr(module, slug)(q, k, v, causal=causal)
    return tally


def loop(tally):
    [row] = tally.per_loop.values()
    return row


def on_or_below_the_diagonal(N_q, N_k, block_m, block_n):
    """Tiles in which some query sees some key."""
    return sum(
        start_n <= min(start_m + block_m, N_q) - 1 + N_k - N_q
        for start_m in range(0, N_q, block_m)
        for start_n in range(0, N_k, block_n)
    )


def test_programs_and_statistics_of_each_order():
    q, k, v = (torch.randn(1, 1, N, D).half() for _ in range(3))
    with count_io() as first:
        flash1.flash1_forward(q, k, v)
    assert math.prod(first.launches[0].grid) == 1
    passes = math.ceil(N / flash1.BLOCK_N)
    assert {first.store_bytes(a) for a in ("m_ptr", "l_ptr")} == {4 * N * passes}
    for slug in ("flash_forward", "flash2_forward"):
        tally = counted(slug)
        assert math.prod(tally.launches[0].grid) == N // BLOCK
        assert tally.store_bytes("lse_ptr") == 4 * N and tally.load_bytes("lse_ptr") == 0


def test_divisions_leave_the_loop_and_exponentials_stay():
    before, after = loop(counted("flash_forward")), loop(counted("flash2_forward"))
    tiles = (N // BLOCK) ** 2
    assert before["passes"] == after["passes"] == tiles
    assert before["exp"] == after["exp"] == tiles * (BLOCK * BLOCK + BLOCK)
    assert before["divide"] == tiles * BLOCK and "divide" not in after
    assert counted("flash2_forward").operations["divide"] == N + N  # o and lse, once a row
    saved = before["elementwise"] - after["elementwise"]
    assert saved == tiles * (BLOCK * D - 1)  # acc * (1 / l) went, scale * log2(e) came


@pytest.mark.parametrize("tiles", [(16, 16), (32, 16), (16, 32)], ids=str)
@pytest.mark.parametrize(("N_q", "N_k"), [(96, 96), (70, 70), (5, 70), (70, 37), (33, 96)])
def test_exactly_the_tiles_on_or_below_the_diagonal_are_visited(N_q, N_k, tiles):
    tally = counted("flash2_forward", True, tiles, N_q, N_k)
    assert loop(tally)["passes"] == on_or_below_the_diagonal(N_q, N_k, *tiles)
    all_of_them = math.ceil(N_q / tiles[0]) * math.ceil(N_k / tiles[1])
    assert loop(counted("flash_forward", True, tiles, N_q, N_k))["passes"] == all_of_them


def test_scores_are_compared_with_the_mask_on_the_diagonal_alone():
    tiles = N // BLOCK
    row = loop(counted("flash2_forward", True))
    compared = row["compare"] - row["passes"] * 2 * BLOCK  # the guard of rows without a key
    assert compared == tiles * BLOCK * BLOCK
    assert loop(counted("flash2_forward"))["compare"] == tiles**2 * 2 * BLOCK


def test_the_report_says_so():
    text = counted("flash2_forward", True).report()
    assert "programs: 6" in text and "21 passes in all" in text and "divide 0" in text
