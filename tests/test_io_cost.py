"""``io_cost`` and ``choose_blocks``: by hand, by closed form, and as kernels are counted."""

import inspect

import pytest
import torch

from flashlab import sources
from flashlab.iocount import bounds, count_io
from flashlab.loading import load_module
from flashlab.reference import cost
from flashlab.worked import flash1, standard

TILES = ((16, 16), (32, 16), (16, 32))


def solution(slug):
    return load_module(sources.solution_text(slug), f"<solution {slug}>")


def counted(kind, N, D, block_m, block_n, dtype, monkeypatch):
    """Bytes by tensor of one head, as the recorder counts them."""
    module = {"standard": standard, "flash1": flash1}.get(kind) or solution("flash_forward")
    monkeypatch.setattr(module, "BLOCK_M", block_m)
    monkeypatch.setattr(module, "BLOCK_N", block_n)
    forward = {"standard": "standard_forward", "flash1": "flash1_forward"}.get(kind)
    q, k, v = (torch.randn(1, 1, N, D).to(dtype) for _ in range(3))
    with count_io() as tally:
        getattr(module, forward or "flash_forward")(q, k, v)
    traffic = tally.traffic
    return {name.removesuffix("_ptr"): t["load"] + t["store"] for name, t in traffic.items()}


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32], ids=["fp16", "fp32"])
@pytest.mark.parametrize("tiles", TILES, ids=lambda t: f"{t[0]}x{t[1]}")
@pytest.mark.parametrize("kind", cost.KINDS)
def test_io_cost_is_what_the_recorder_counts(kind, tiles, dtype, monkeypatch):
    N, D = 53, 24
    found = counted(kind, N, D, *tiles, dtype, monkeypatch)
    sizes = {"block_m": tiles[0], "block_n": tiles[1], "dtype_bytes": dtype.itemsize}
    assert solution("io_cost").io_cost(N, D, **sizes, kind=kind) == found
    assert cost.io_cost(N, D, **sizes, kind=kind) == found


@pytest.mark.parametrize("N", [0, 1, 16, 100, 4096])
def test_io_cost_is_the_closed_form(N):
    answer = solution("io_cost").io_cost
    for block_m, block_n in ((1, 1), (16, 32), (128, 64), (8192, 8192)):
        sizes = {"block_m": block_m, "block_n": block_n, "dtype_bytes": 2}
        shape = (1, 1, N, N, 24)
        forms = {
            "standard": bounds.standard_forward_bytes(*shape, 2, block_m=block_m),
            "flash1": bounds.flash1_forward_bytes(*shape, block_m, block_n, 2),
            "flash2": bounds.flash_forward_bytes(*shape, block_m, block_n, 2),
        }
        for kind, form in forms.items():
            assert answer(N, 24, **sizes, kind=kind) == bounds.moved_bytes(form)


def test_one_block_of_standard_attention_is_attention_cost():
    """With all queries in one block every input is read once, as lab 01 counts it."""
    N, D = 64, 16
    steps = cost.attention_cost(1, 1, N, N, D, dtype_bytes=2)
    moved = cost.io_cost(N, D, block_m=N, block_n=16, dtype_bytes=2, kind="standard")
    assert sum(moved.values()) == sum(moved_bytes for _, moved_bytes in steps.values())


def test_io_cost_gives_the_figure_of_the_paper():
    """Dao et al. 2022, figure 2, middle: GB of q, k, v and o, read off the figure."""
    for block_n, figure in ((64, 6.577), (128, 3.355), (256, 1.745), (512, 0.940)):
        sizes = {"block_m": 64, "block_n": block_n, "dtype_bytes": 2}
        moved = cost.io_cost(1024, 64, **sizes, kind="flash1")
        assert 64 * 16 * sum(moved[name] for name in "qkvo") / 1e9 == pytest.approx(figure, 1e-3)


def test_choose_blocks_is_the_rule():
    answer = solution("choose_blocks").choose_blocks
    for M in (1, 3, 255, 256, 257, 98_304, 2**60 + 1):
        for D in (1, 24, 64, 256):
            block_n = next(n for n in (M // (4 * D), M // (4 * D) + 1) if n * 4 * D >= M)
            assert answer(M, D) == cost.choose_blocks(M, D) == (min(block_n, D), block_n)


SIZES = {"N": 8, "D": 4, "block_m": 2, "block_n": 2, "dtype_bytes": 2, "kind": "flash1"}
WRONG = [
    ("io_cost", SIZES | {"N": -1}, "N must be an integer of 0 or more, not -1"),
    ("io_cost", SIZES | {"N": 8.0}, "N must be"),
    ("io_cost", SIZES | {"D": 0}, "D must be a positive integer, not 0"),
    ("io_cost", SIZES | {"block_m": "2"}, "block_m must be a positive integer, not '2'"),
    ("io_cost", SIZES | {"block_n": True}, "block_n must be"),
    ("io_cost", SIZES | {"dtype_bytes": 0.5}, "dtype_bytes must be"),
    ("io_cost", SIZES | {"kind": "flash3"}, "kind must be one of .*, not 'flash3'"),
    ("choose_blocks", {"sram_elements": 0, "D": 4}, "sram_elements must be a positive integer"),
    ("choose_blocks", {"sram_elements": 98.5, "D": 4}, "sram_elements must be"),
    ("choose_blocks", {"sram_elements": 8, "D": -4}, "D must be a positive integer, not -4"),
]


@pytest.mark.parametrize(("slug", "call", "words"), WRONG, ids=[w[2][:20] for w in WRONG])
def test_a_wrong_size_is_named_alike(slug, call, words):
    said = set()
    for function in (getattr(cost, slug), getattr(solution(slug), slug)):
        with pytest.raises(ValueError, match=words) as caught:
            function(**call)
        said.add(str(caught.value))
    assert len(said) == 1


@pytest.mark.parametrize("slug", ["io_cost", "choose_blocks"])
def test_the_signature_is_the_contracts(slug):
    assert inspect.signature(getattr(solution(slug), slug)) == inspect.signature(
        getattr(cost, slug)
    )
