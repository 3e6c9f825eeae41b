"""References of FP8: against definitions and other formulas; the error band of FP8 weights."""

import pytest
import torch

from flashlab import numerics
from flashlab.error_budget import relative_rmse
from flashlab.exercises.fp8_inputs import block_inputs, fp8_inputs, outliers
from flashlab.reference import fp8
from flashlab.reference.attention import flash2_forward
from flashlab.reference.honest_fp8 import banded, honest_fp8, honest_hadamard, honest_quantized

SIZES = {"B": 1, "H": 2, "H_kv": 1, "N_q": 40, "N_k": 96, "D": 32, "block_rows": 32}


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_hadamard_matrix_by_its_definition():
    h = fp8.hadamard_matrix(8)
    bits = torch.arange(8)
    odd = torch.tensor([[bin(int(i & j)).count("1") % 2 for j in bits] for i in bits])
    assert torch.equal(h, 1.0 - 2.0 * odd)
    assert torch.equal(h @ h, 8 * torch.eye(8, dtype=torch.float64)) and torch.equal(h, h.T)


@pytest.mark.parametrize("D", [1, 2, 64, 1024])
def test_the_rotation_keeps_lengths_and_products(D):
    q, k = (torch.randn(3, 5, D, generator=generator(s), dtype=torch.float64) for s in (1, 2))
    signs = torch.randint(0, 2, (D,), generator=generator()).double() * 2 - 1
    a, b = fp8.hadamard(q, signs), fp8.hadamard(k, signs)
    torch.testing.assert_close(a @ b.mT, q @ k.mT, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(a.norm(dim=-1), q.norm(dim=-1), rtol=1e-12, atol=1e-12)
    answers = honest_hadamard(q.float(), signs.float())
    assert max(float((x["y"] - a).abs().max()) for x in answers) < 1e-4


def test_quantized_blocks():
    x = torch.randn(2, 3, 70, 24, generator=generator())
    x[0, 1, 32:64] = 0
    x8, scale = fp8.quantize_fp8(x, block_rows=32)
    assert x8.dtype == fp8.E4M3 and list(scale.shape) == [2, 3, 3]
    assert float(scale[0, 1, 1]) == 1
    assert float(scale[1, 2, 2]) == float(x[1, 2, 64:].abs().max() / 448)
    back = x8.float() * fp8.per_row(scale, 32, 70)
    assert relative_rmse(back, x) < 0.03
    assert float((x8.float().abs().amax((2, 3))).min()) == 448
    exact, _ = fp8.quantize_fp8(x.double(), block_rows=32)
    assert relative_rmse(x8.double(), exact) > 0.02  # fp64 is not rounded
    for answer in honest_quantized(x, 32):
        assert torch.allclose(answer["scale"], scale, rtol=3e-7)
        assert float((answer["x8"].float() != x8.float()).float().mean()) < 0.01


def test_fp8_numbers_pass_unchanged():
    made = block_inputs(
        {"B": 1, "H": 1, "N": 8, "D": 16, "block_rows": 4, "values": "numbers"},
        torch.float32,
        generator(),
    )
    x8, scale = fp8.quantize_fp8(**made)
    assert torch.equal(x8.float(), made["x"]) and bool((scale == 1).all())


@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_fp8_attention_is_attention_of_what_the_numbers_mean(causal):
    made = fp8_inputs(SIZES | {"causal": causal, "blocks": "apart"}, fp8.E4M3, generator())
    wide = {n: t.double() if isinstance(t, torch.Tensor) else t for n, t in made.items()}
    o, lse = fp8.fp8_forward(**wide)
    q, k, v = (
        x8 * scale.repeat_interleave(32, 2)[:, :, : x8.shape[2], None]
        for x8, scale in ((wide[f"{n}8"], wide[f"{n}_scale"]) for n in "qkv")
    )
    expected, expected_lse = flash2_forward(q, k, v, causal=causal)
    torch.testing.assert_close(o, expected)
    torch.testing.assert_close(lse, expected_lse)
    low, _ = fp8.fp8_forward(**made)
    assert low.dtype == torch.bfloat16 and relative_rmse(low.double(), o) < 3e-3


def emulated(made: dict, round_p) -> torch.Tensor:
    """o with P through ``round_p``, everything else in fp32."""
    q, k, v = (
        made[f"{n}8"].float() * fp8.per_row(made[f"{n}_scale"], 32, made[f"{n}8"].shape[2])
        for n in "qkv"
    )
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.mT * q.shape[3] ** -0.5
    p = torch.exp(s - s.amax(3, keepdim=True))
    return round_p(p) @ v / p.sum(3, keepdim=True)


@pytest.mark.parametrize(
    "name, round_p, status",
    [
        ("as it is", lambda p: p.to(fp8.E4M3).float(), "pass"),
        ("shifted", lambda p: (p * 256).to(fp8.E4M3).float() / 256, "pass"),
        ("not at all", lambda p: p, "wrong"),
        ("bf16", lambda p: p.bfloat16().float(), "wrong"),
        ("fp16", lambda p: p.half().float(), "wrong"),
        ("e5m2", lambda p: p.to(torch.float8_e5m2).float(), "precision"),
        ("cut off", lambda p: (p * 4096).clamp(max=448) / 4096, "wrong"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
@pytest.mark.parametrize("seed", range(3))
def test_the_band_asks_for_fp8_weights(name, round_p, status, seed):
    made = fp8_inputs(SIZES, fp8.E4M3, generator(seed))
    wide = {n: t.double() if isinstance(t, torch.Tensor) else t for n, t in made.items()}
    o, lse = fp8.fp8_forward(**wide)
    limits = numerics.limits({"o": o, "lse": lse}, honest_fp8(**made), made, fp8.E4M3)
    got = {"o": emulated(made, round_p).bfloat16(), "lse": lse.float()}
    found = numerics.compare(got, {"o": o, "lse": lse}, limits)[0]
    assert found.status == status, found.sentence
    if status == "wrong" and name != "cut off":
        assert "too exact for FP8" in found.sentence


def test_the_band_stands_only_where_it_means_something():
    v = torch.randn(1, 1, 96, 32, generator=generator())
    flat, peaked = torch.full((1, 1, 4, 96), 1 / 96), torch.eye(96)[None, None, :4]
    assert banded(v, flat) and not banded(v[:, :, :63], flat[..., :63])
    assert not banded(v + 8, flat) and not banded(v, peaked)
    assert not banded(v, torch.zeros_like(flat))  # no query sees a key


def test_outliers_are_there():
    x = outliers(torch.zeros(64, 1000), generator())
    assert 20 < int((x != 0).sum()) < 120 and 5 < float(x[x != 0].std()) < 15


def bad_calls():
    x = torch.randn(1, 1, 8, 32)
    signs = torch.ones(32)
    yield "power of two", lambda: fp8.hadamard(x[..., :24], signs[:24])
    yield "one sign a column", lambda: fp8.hadamard(x, signs[:16])
    yield "like x", lambda: fp8.hadamard(x, signs.half())
    yield "1 to 4 dimensions", lambda: fp8.hadamard(x[None], signs)
    yield "positive integer", lambda: fp8.quantize_fp8(x, block_rows=0)
    yield "cast it", lambda: fp8.quantize_fp8(x.int(), block_rows=8)
    x8, scale = fp8.quantize_fp8(x, block_rows=8)
    full = (x8, x8, x8, scale, scale, scale)
    yield "quantize it", lambda: fp8.fp8_forward(x, *full[1:], block_rows=8)
    yield "multiple of 32 or >= 8", lambda: fp8.fp8_forward(*full, block_rows=4)
    yield "a scale a block", lambda: fp8.fp8_forward(*full[:5], scale[..., :0], block_rows=8)
    yield "must be float32", lambda: fp8.fp8_forward(*full[:5], scale.half(), block_rows=8)
    yield "like k8", lambda: fp8.fp8_forward(x8, x8, x8[:, :, :4], *full[3:], block_rows=8)


@pytest.mark.parametrize("said, call", list(bad_calls()), ids=[said for said, _ in bad_calls()])
def test_what_does_not_fit_is_said(said, call):
    with pytest.raises(ValueError, match=said):
        call()


@pytest.mark.parametrize(
    ("dtype", "size"),
    [(torch.float16, 1.0), (torch.bfloat16, 3e4), (torch.float32, 30.0), (torch.float32, 1e-30)],
    ids=str,
)
def test_every_honest_rounding_goes_to_the_nearest_number(dtype, size):
    """Over the scale, or times its inverse: fp32 decides all but what lies beside a tie."""
    x = (size * torch.randn(2, 3, 300, 64, generator=generator())).to(dtype)
    answers = honest_quantized(x, 100)
    exact = answers[0]["x8:exact"]
    decided = ~exact.isnan()
    assert decided.double().mean() > 0.95
    for answer in answers:
        assert torch.equal(answer["x8"].double()[decided], exact[decided])
    twice = (x.double() / fp8.per_row(answers[0]["scale"], 100, 300)).bfloat16().to(fp8.E4M3)
    assert (twice.double() != exact)[decided].any()
