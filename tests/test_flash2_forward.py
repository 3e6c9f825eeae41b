"""The contract of ``flash2_forward``: grouped heads, edges, errors; its rule of tile sizes."""

import pytest
import torch

from flashlab import exercises, iocount, sources
from flashlab.exercises.attention_inputs import make_inputs
from flashlab.loading import load_module
from flashlab.reference import attention

SIZES = {"B": 2, "H": 6, "H_kv": 2, "N_q": 7, "N_k": 11, "D": 5}


def made(dtype=torch.float64, **sizes):
    return make_inputs(SIZES | sizes, dtype, torch.Generator().manual_seed(0))


def solution(**constants):
    module = load_module(sources.solution_text("flash2_forward"), "<solution flash2_forward>")
    vars(module).update(constants)
    return module


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("H_kv", [1, 2, 3, 6])
def test_the_reference_is_torch_with_grouped_heads(H_kv, causal):
    call = made(H_kv=H_kv)
    rows, keys = torch.arange(7)[:, None], torch.arange(11)[None, :]
    mask = keys <= rows + 4 if causal else None
    expected = torch.nn.functional.scaled_dot_product_attention(
        call["q"], call["k"], call["v"], attn_mask=mask, enable_gqa=True
    )
    o, lse = attention.flash2_forward(**call, causal=causal)
    torch.testing.assert_close(o, expected, rtol=0, atol=1e-14)
    wide = {n: call[n].repeat_interleave(6 // H_kv, 1) for n in "kv"}
    assert torch.equal(lse, attention.flash_forward(call["q"], **wide, causal=causal)[1])


@pytest.mark.parametrize(
    "empty", [{"N_k": 0}, {"N_q": 0}, {"B": 0}, {"H": 0}, {"H_kv": 0}], ids=str
)
def test_sizes_of_zero(empty):
    call = made(torch.float32, **empty)
    for module in (attention, solution()):
        o, lse = module.flash2_forward(**call)
        assert o.shape == call["q"].shape and not o.any()
        assert lse.shape == o.shape[:3] and (lse == -torch.inf).all()


def bad():
    t = {n: torch.zeros(2, 6 if n == "q" else 2, 4, 8) for n in "qkv"}
    yield "three dimensions", t | {"q": torch.zeros(6, 4, 8)}
    yield "a list", t | {"k": [[1.0]]}
    yield "no columns", {n: x[..., :0] for n, x in t.items()}
    yield "integers", {n: x.long() for n, x in t.items()}
    yield "mixed dtypes", t | {"v": t["v"].half()}
    yield "mixed devices", t | {"k": t["k"].to("meta")}
    yield "another D", t | {"k": torch.zeros(2, 2, 4, 9)}
    yield "another B", t | {"k": torch.zeros(1, 2, 4, 8)}
    yield "H_kv does not divide H", t | {n: torch.zeros(2, 4, 4, 8) for n in "kv"}
    yield "more key heads than heads", t | {n: torch.zeros(2, 12, 4, 8) for n in "kv"}
    yield "fewer value heads", t | {"v": torch.zeros(2, 1, 4, 8)}
    yield "more values than keys", t | {"v": torch.zeros(2, 2, 5, 8)}


@pytest.mark.parametrize("call", [pytest.param(c, id=n) for n, c in bad()])
def test_a_bad_call_gets_the_same_sentence_from_reference_and_solution(call):
    said = []
    for module in (attention, solution()):
        with pytest.raises(ValueError, match="must") as error:
            module.flash2_forward(**call)
        said.append(str(error.value))
    assert said[1] in (said[0], said[0].replace(", torch.float64", ""))


def test_what_a_kernel_cannot_take():
    with pytest.raises(ValueError, match="q must have a dtype of"):
        solution().flash2_forward(**made(torch.float64))
    with pytest.raises(ValueError, match=r"q must have D <= 256.*257"):
        solution().flash2_forward(**made(torch.float32, D=257))


def test_the_output_has_the_layout_of_q():
    call = made(torch.float16, layout="permuted", N_q=17, D=16)
    with iocount.count_io():
        o, lse = solution(BLOCK_M=16, BLOCK_N=16).flash2_forward(**call)
    assert o.stride() == call["q"].stride() and lse.is_contiguous()


@pytest.mark.parametrize("on_chip", [99 << 10, 163 << 10, 227 << 10])
@pytest.mark.parametrize("itemsize", [2, 4])
@pytest.mark.parametrize("BLOCK_D", [16, 32, 64, 128, 256])
@pytest.mark.parametrize("wished", [(16, 16), (32, 16), (16, 32), (64, 64), (128, 128)], ids=str)
def test_tiles_fit_on_chip_and_small_wishes_are_kept(wished, BLOCK_D, itemsize, on_chip):
    module = solution(BLOCK_M=wished[0], BLOCK_N=wished[1])
    block_m, block_n, num_warps, num_stages = module.choose_tiles(BLOCK_D, itemsize, on_chip)
    assert 16 <= block_m <= wished[0] and 16 <= block_n <= wished[1] and num_stages in (2, 3)
    assert (block_m + 2 * num_stages * block_n) * BLOCK_D * itemsize <= on_chip
    if max(wished) <= 32 and BLOCK_D * itemsize <= 512:
        assert (block_m, block_n) == wished
    assert num_warps in (4, 8)


@pytest.mark.parametrize("step", range(1, 6))
def test_each_step_is_checked_alone(step):
    """Another step's mistake is left out of the text in which a step is tried."""
    exercise, text = exercises.get("flash2_forward"), sources.solution_text("flash2_forward")
    chosen = {
        1: "exp2-without-log2e", 2: "output-not-rescaled", 3: "lse-in-base-2",
        4: "stops-before-the-diagonal", 5: "divided-by-the-key-heads",
    }  # fmt: skip
    mistakes = {m.slug: m for m in exercise.mistakes}
    wrong = text
    for slug in chosen.values():
        wrong = sources.mutant(wrong, mistakes[slug])
    own = mistakes[chosen[step]]
    alone = sources.transplant(text, wrong, step)
    assert own.new in alone and own.old not in alone
    for slug in set(chosen.values()) - {own.slug}:
        assert mistakes[slug].old in alone
