"""FP8 attention in Gluon: compiles for sm_90 anywhere; on Hopper equal to fp64 as FP8 can be."""

from pathlib import Path

import pytest
import torch

from flashlab import aot
from flashlab.error_budget import relative_rmse
from flashlab.iocount import count_io
from flashlab.reference.attention import flash2_forward
from flashlab.worked import fp8_prepare
from flashlab.worked.fp8_hopper import fp8_hopper
from flashlab.worked.fp8_prepare import Prepared, prepare

WORKED = Path(fp8_prepare.__file__).parent
E4M3 = torch.float8_e4m3fn


def column_keys(N_out: int) -> torch.Tensor:
    """The key in each column of v_t, spelled out for one group of 16."""
    group = torch.tensor([0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15])
    return (torch.arange(0, N_out, 16)[:, None] + group).flatten()


def rows_of(v_t: torch.Tensor, N: int) -> torch.Tensor:
    """v_t [B, H, D, N_out] back as [B, H, N, D]."""
    keys = column_keys(v_t.shape[3])
    v = torch.zeros(v_t.transpose(2, 3).shape)
    v[:, :, keys] = v_t.float().cpu().transpose(2, 3)
    return v[:, :, :N]


def blank(B: int, H: int, H_kv: int, N: int, D: int) -> Prepared:
    q8, k8 = torch.zeros(B, H, N, D, dtype=E4M3), torch.zeros(B, H_kv, N, D, dtype=E4M3)
    v_t = torch.zeros(B, H_kv, D, (N + 15) // 16 * 16, dtype=E4M3)
    return Prepared(q8, k8, v_t, torch.ones(B, H, 1), *(torch.ones(B, H_kv, 1) for _ in range(2)))


@pytest.mark.core
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
def test_compiles_for_hopper_without_one(causal):
    path = WORKED / "fp8_hopper.py"
    x = blank(1, 2, 1, 1024, 128)
    call = lambda module: module.fp8_hopper(x, causal=causal)  # noqa: E731
    [row] = aot.inspect(path.read_text(), str(path), call, (90,))
    assert row.ok, row.sentence
    assert row.counts["wgmma"] and row.counts["tma"] and row.counts["setmaxnreg"]
    assert row.spill_bytes == 0 and not row.notes


@pytest.mark.core
@pytest.mark.parametrize("N", [1, 16, 100, 128])
def test_a_head_is_rounded_with_one_scale(N):
    """One program a head, which the interpreter can run; more of them wait for each other."""
    generator = torch.Generator().manual_seed(N)
    x = torch.randn(2, N, 3, 32, generator=generator).half().transpose(1, 2)
    x[1, 2] = 0
    with count_io(races=False) as tally:
        made = prepare(x, x, x)
    wanted = x.float().abs().amax((2, 3), keepdim=True) / 448
    wanted[1, 2] = 1
    for scale in (made.q_scale, made.k_scale, made.v_scale):
        assert torch.allclose(scale, wanted[..., 0], rtol=3e-7)
    rounded = (x.float() * (1 / made.q_scale[..., None])).to(E4M3).float()
    assert torch.equal(made.q8.float(), rounded) and torch.equal(made.k8.float(), rounded)
    assert torch.equal(rows_of(made.v_t, N), rounded)
    assert not made.v_t.float()[..., column_keys(made.v_t.shape[3]) >= N].any()
    assert tally.load_bytes("q_ptr") == x.numel() * 2  # read once
    assert tally.store_bytes("q8_ptr") == x.numel()
    assert tally.store_bytes("v_t_ptr") == made.v_t.numel()


@pytest.mark.core
def test_key_heads_are_fewer_and_each_has_its_scale():
    q, k, v = torch.randn(2, 4, 20, 32), torch.randn(2, 2, 20, 32), torch.randn(2, 1, 20, 32)
    v = v.expand(2, 2, 20, 32)
    with count_io(races=False):
        made = prepare(q, k, v)
    for x, scale in ((q, made.q_scale), (k, made.k_scale), (v, made.v_scale)):
        assert torch.allclose(scale, x.abs().amax((2, 3))[..., None] / 448, rtol=3e-7)
    assert torch.equal(made.k8.float(), (k * (1 / made.k_scale[..., None])).to(E4M3).float())
    assert torch.equal(rows_of(made.v_t, 20), (v * (1 / made.v_scale[..., None])).to(E4M3).float())


def test_what_it_cannot_take_is_said():
    with pytest.raises(ValueError, match="D 64 or 128"):
        fp8_hopper(blank(1, 1, 1, 64, 32))
    with pytest.raises(ValueError, match="above 0"):
        fp8_hopper(blank(1, 1, 1, 64, 64), sm_scale=-1.0)
    q, k = torch.zeros(1, 3, 8, 64), torch.zeros(1, 2, 8, 64)
    with pytest.raises(ValueError, match="divisor of 3"):
        prepare(q, k, k)


@pytest.mark.hopper
@pytest.mark.parametrize("causal", [False, True], ids=["full", "causal"])
@pytest.mark.parametrize(
    "B, H, H_kv, N, D",
    [
        (1, 1, 1, 1, 64),
        (2, 2, 2, 200, 64),
        (2, 4, 2, 1000, 128),
        (1, 2, 1, 4104, 128),
        (1, 1, 1, 17000, 64),
    ],
    ids=str,
)
def test_equals_fp64_as_far_as_fp8_does(B, H, H_kv, N, D, causal):
    generator = torch.Generator("cuda").manual_seed(N)

    def draw(heads):
        x = torch.randn(B, N, heads, D, generator=generator, device="cuda", dtype=torch.float16)
        return x.transpose(1, 2)

    q, k, v = draw(H), draw(H_kv), draw(H_kv)
    x = prepare(q, k, v)
    for made, plain in ((x.q8, q), (x.k8, k)):
        scale = plain.float().abs().amax((2, 3), keepdim=True) / 448
        assert torch.equal(made.float(), (plain.float() * (1 / scale)).to(E4M3).float())
    out = [torch.full_like(q, torch.nan, dtype=torch.bfloat16).contiguous()]
    out.append(torch.full([B, H, N], torch.nan, device="cuda"))
    o, lse = fp8_hopper(x, causal=causal, out=tuple(out))
    exact, exact_lse = flash2_forward(
        (x.q8.double() * x.q_scale[..., None]),
        (x.k8.double() * x.k_scale[..., None]),
        rows_of(x.v_t, N).double().cuda() * x.v_scale[..., None],
        causal=causal,
    )
    error = relative_rmse(o.cpu().double(), exact.cpu())
    assert (lse - exact_lse).abs().max() < 5e-3
    assert error < 0.05
    if N >= 200:  # less than that would not be P in FP8
        assert error > 0.01
    again, lse_again = fp8_hopper(x, causal=causal)
    assert torch.equal(o, again) and torch.equal(lse, lse_again)
