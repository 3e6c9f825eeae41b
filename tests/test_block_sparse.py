"""Block-sparse attention beyond its graded cases: reference, far offsets, bad input, tiles."""

import inspect
import itertools
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from flashlab import aot, exercises, sources
from flashlab.exercises import block_inputs
from flashlab.grader.formulas import wrong_formulas
from flashlab.iocount import bounds, count_io
from flashlab.loading import load_module
from flashlab.reference import attention, block_sparse

SLUG = "block_sparse_forward"


@pytest.fixture(scope="module")
def answer():
    return load_module(sources.solution_text(SLUG), f"<solution {SLUG}>").block_sparse_forward


def drawn(B, H, N_q, N_k, D, dtype=torch.float16):
    generator = torch.Generator().manual_seed(0)
    shapes = (B, H, N_q, D), (B, H, N_k, D), (B, H, N_k, D)
    return [torch.randn(*shape, generator=generator).to(dtype) for shape in shapes]


def flags(heads, T_q, T_k, share=0.5):
    generator = torch.Generator().manual_seed(1)
    return torch.rand(heads, T_q, T_k, generator=generator) < share


def test_the_reference_is_attention_over_the_kept_keys_row_by_row():
    q, k, v = drawn(2, 2, 37, 53, 8, torch.float64)
    mask = flags(2, 3, 2)
    mask[0, 1] = False
    o, lse = block_sparse.block_sparse_forward(q, k, v, mask, block_m=16, block_n=32)
    for b, h, i in itertools.product(range(2), range(2), range(37)):
        kept = [j for j in range(53) if mask[h, i // 16, j // 32]]
        row = [x[b : b + 1, h : h + 1] for x in (q[:, :, i : i + 1], k[:, :, kept], v[:, :, kept])]
        expected, expected_lse = attention.flash_forward(*row)
        torch.testing.assert_close(o[b, h, i], expected[0, 0, 0], rtol=0, atol=1e-14)
        torch.testing.assert_close(lse[b, h, i], expected_lse[0, 0, 0], rtol=0, atol=1e-13)


def test_a_mask_of_ones_is_dense_attention(answer):
    q, k, v = drawn(1, 2, 40, 70, 16)
    ones = torch.ones(1, 3, 3, dtype=torch.bool)
    with count_io():
        o, lse = answer(q, k, v, ones, block_m=16, block_n=32)
    exact, exact_lse = attention.flash_forward(*(x.double() for x in (q, k, v)))
    assert (o - exact).abs().max() < 2e-3
    assert (lse - exact_lse).abs().max() < 1e-5


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
def test_dropped_tiles_move_nothing(answer, share):
    q, k, v = drawn(1, 2, 100, 150, 16)
    mask = flags(2, 7, 5, share)
    with count_io() as tally:
        o, lse = answer(q, k, v, mask, block_m=16, block_n=32)
    moved = tally.by_tensor({"q": q, "k": k, "v": v, "o": o, "lse": lse})
    form = bounds.block_sparse_forward_bytes(1, 2, 100, 150, 16, 16, 32, 2, mask)
    assert {name: moved[name] for name in ("q", "k", "v", "o", "lse")} == {
        name: form[name] for name in ("q", "k", "v", "o", "lse")
    }
    kept_rows = sum(min(32, 150 - 32 * j) for _, _, j in mask.nonzero().tolist())
    assert moved["k"] == (kept_rows * 16 * 2, 0)
    products = 2 * 2 * 16 * 32 * 16 * int(mask.sum())  # FLOPs: two products a kept tile
    assert tally.flops["matmul"] == products


@pytest.mark.parametrize("name", ["q", "k", "v"])
@pytest.mark.parametrize("axis", [0, 1, 2], ids=["batch", "head", "row"])
def test_offsets_beyond_two_to_the_31(answer, name, axis):
    call = dict(zip("qkv", drawn(2, 2, 20, 40, 16), strict=True))
    x, mask = call[name], flags(2, 2, 3, 0.7)
    stride = list(x.stride())
    stride[axis] = 2**31 // (x.shape[axis] - 1) + 16
    last = sum((n - 1) * s for n, s in zip(x.shape, stride, strict=True))
    storage = torch.from_numpy(np.empty(last + 1, np.float16))  # torch.empty would be filled
    expected, expected_lse = block_sparse.block_sparse_forward(
        **call, block_mask=mask, block_m=16, block_n=16
    )
    call[name] = storage.as_strided(x.shape, stride).copy_(x)
    with count_io():
        o, lse = answer(**call, block_mask=mask, block_m=16, block_n=16)
    assert (o - expected).abs().max() < 2e-3
    torch.testing.assert_close(lse, expected_lse, rtol=0, atol=1e-5)


def test_the_recorder_sees_which_tile_is_missing(answer):
    """The outcome of a mask follows the mask of its own head and row, never its transpose."""
    q, k, v = drawn(1, 3, 48, 64, 16)
    mask = block_inputs.block_mask(
        {"pattern": "heads", "mask_heads": 3, "N_q": 48, "N_k": 64, "block_m": 16, "block_n": 16}
    )
    with count_io():
        o, _ = answer(q, k, v, mask, block_m=16, block_n=16)
        for h, i, j in itertools.product(range(3), range(3), range(4)):
            poisoned = v.clone()
            poisoned[0, h, 16 * j : 16 * j + 16] += 100.0
            other, _ = answer(q, k, poisoned, mask, block_m=16, block_n=16)
            changed = bool(
                (other[0, h, 16 * i : 16 * i + 16] - o[0, h, 16 * i : 16 * i + 16]).any()
            )
            assert changed == bool(mask[h, i, j]), (h, i, j)


Q, K, V = drawn(1, 2, 20, 40, 16)
ONES = torch.ones(2, 2, 3, dtype=torch.bool)
CALL = {"q": Q, "k": K, "v": V, "block_mask": ONES, "block_m": 16, "block_n": 16}
WRONG = {
    "q-of-rank-3": (CALL | {"q": Q[0]}, r"q must be a tensor \[B, H, N, D\].*not \[2, 20, 16\]"),
    "k-of-another-dtype": (CALL | {"k": K.float()}, "k must be torch.float16 on cpu like q"),
    "v-on-another-device": (CALL | {"v": V.to("meta")}, "v must be .* like q, not .* on meta"),
    "k-of-another-batch": (CALL | {"k": K[:, :1]}, r"k must have shape \[1, 2, 40, 16\] to fit"),
    "integers": (CALL | {"q": Q.int()}, "q must have a dtype of .*, not torch.int32"),
    "mask-a-list": (CALL | {"block_mask": ONES.tolist()}, "block_mask must be .* not list"),
    "mask-of-integers": (CALL | {"block_mask": ONES.int()}, "torch.bool, not torch.int32"),
    "mask-of-rank-2": (CALL | {"block_mask": ONES[0]}, r"\[2 or 1, 2, 3\].*not \[2, 3\]"),
    "mask-per-batch": (
        CALL | {"block_mask": ONES[None]},
        r"block_mask must have shape .*not \[1, ",
    ),
    "mask-transposed": (CALL | {"block_mask": ONES.mT}, r"not \[2, 3, 2\]"),
    "mask-of-3-heads": (
        CALL | {"block_mask": torch.ones(3, 2, 3, dtype=torch.bool)},
        r"block_mask must have shape \[2 or 1, 2, 3\], a flag a tile, not \[3, 2, 3\]",
    ),
    "mask-too-short": (CALL | {"block_mask": ONES[:, :, :2]}, r"not \[2, 2, 2\]"),
    "mask-elsewhere": (CALL | {"block_mask": ONES.to("meta")}, "block_mask must be on cpu like q"),
    "block-m-too-small": (CALL | {"block_m": 8}, "block_m must be a power of two from 16, not 8"),
    "block-n-no-power": (CALL | {"block_n": 48}, "block_n must be a power of two from 16, not 48"),
    "block-n-no-integer": (CALL | {"block_n": 16.0}, "block_n must be a power of two"),
}


@pytest.mark.parametrize("call", WRONG)
def test_bad_input_is_named_alike(answer, call):
    arguments, words = WRONG[call]
    said = set()
    for function in (answer, block_sparse.block_sparse_forward):
        with pytest.raises(ValueError, match=words) as caught:
            function(**arguments)
        said.add(str(caught.value).replace(", torch.float64", ""))  # the reference takes it too
    assert len(said) == 1


def test_what_does_not_fit_on_chip_is_refused(answer):
    q, k, v = drawn(1, 1, 20, 20, 16)
    ones = torch.ones(1, 1, 1, dtype=torch.bool)
    refused = "block_m=1024 and block_n=1024 do not fit on chip"
    with count_io(), pytest.raises(ValueError, match=refused):
        answer(q, k, v, ones, block_m=1024, block_n=1024)
    wide = [torch.zeros(1, 1, 20, 257).half() for _ in range(3)]
    with pytest.raises(ValueError, match=r"q must have D <= 256 .*not \[1, 1, 20, 257\]"):
        answer(*wide, ones, block_m=32, block_n=32)


def test_the_signature_is_the_contracts(answer):
    assert inspect.signature(answer) == inspect.signature(block_sparse.block_sparse_forward)


def test_an_unknown_pattern_or_layout_is_named():
    sizes = dict(exercises.get(SLUG).case("holes").sizes({"BLOCK_M": 16, "BLOCK_N": 16}))
    for wrong in ({"pattern": "stripes"}, {"mask_layout": "sparse"}):
        with pytest.raises(ValueError, match=next(iter(wrong.values()))):
            block_inputs.make_inputs(sizes | wrong, torch.float16, torch.Generator())


def test_the_second_net_knows_the_mask():
    q, k, v = drawn(1, 2, 20, 40, 16, torch.float64)
    mask = flags(1, 2, 3)
    call = {"q": q, "k": k, "v": v, "block_mask": mask, "block_m": 16, "block_n": 16}
    found = dict(wrong_formulas(call, {"BLOCK_M": 16, "BLOCK_N": 16}))
    dense, _ = attention.flash_forward(q, k, v)
    torch.testing.assert_close(found["as if block_mask were ignored"]["o"], dense)
    dropped = block_sparse.block_sparse_forward(q, k, v, ~mask, block_m=16, block_n=16)[0]
    torch.testing.assert_close(found["as if block_mask said which tiles to drop"]["o"], dropped)
    right = block_sparse.block_sparse_forward(**call)[1]
    base_2 = found["lse is in base 2: multiply it by ln 2"]["lse"]
    torch.testing.assert_close(base_2 * 0.6931471805599453, right)


def test_large_tiles_compile_and_fit_on_every_card():
    """128 x 128 at D 128, with the stages that each card has room for."""
    q = torch.empty(1, 2, 1024, 128, dtype=torch.float16)
    ones = torch.ones(2, 8, 8, dtype=torch.bool)
    text = sources.solution_text(SLUG)
    for arch, depth in ((80, 2), (89, 2), (90, 3)):
        module_text = text.replace(
            "num_stages=stages(q, BLOCK_D, block_m, block_n)", f"num_stages={depth}"
        )
        found = aot.inspect(
            module_text,
            "x.py",
            lambda m: m.block_sparse_forward(q, q, q, ones, block_m=128, block_n=128),
            archs=(arch,),
        )
        assert [c.kernel for c in found] == ["block_list_kernel", "block_sparse_fwd_kernel"]
        for compiled in found:
            assert compiled.ok, compiled.sentence
            assert compiled.spill_bytes <= (0 if arch == 90 else 512), (
                compiled
            )  # some 20 registers


def test_stages_fill_the_chip(answer, monkeypatch):
    module = load_module(sources.solution_text(SLUG), "<stages>")
    card = SimpleNamespace(is_cuda=True, device=0, element_size=lambda: 2)
    rooms = {}
    monkeypatch.setattr(
        torch.cuda,
        "get_device_properties",
        lambda device: SimpleNamespace(shared_memory_per_multiprocessor=rooms["kb"] << 10),
    )
    for kb, D, block, depth in (
        (228, 128, 128, 3),
        (164, 128, 128, 2),
        (100, 128, 128, 2),
        (100, 64, 64, 2),
        (100, 256, 64, 1),
        (228, 256, 64, 3),
    ):
        rooms["kb"] = kb
        assert module.stages(card, D, block, block) == depth, (kb, D, block)
