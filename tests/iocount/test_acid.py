"""Bytes and FLOPs of eight kernels, derived by hand, equal the tally to the byte."""

import pytest
import torch

from flashlab.iocount import count_io
from tests.iocount import kernels

H, D = 2, 32


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def tensors(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float16) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape).to(dtype) for shape in shapes]


def attention(q, k, v, keep=None):
    s = (q.double() @ k.double().mT) * q.shape[-1] ** -0.5
    if keep is not None:
        s = s.masked_fill(~keep, float("-inf"))
    return s.softmax(-1) @ v.double(), s.logsumexp(-1)


def step_flops(bm: int, bn: int) -> dict[str, int]:
    """One tile step of the forward pass; the products' additions belong to them."""
    elementwise = 2 * bm * bn + bm * D + 4 * bm  # scale, s - m | acc*alpha | max, m - m, l*a + sum
    reduce = 2 * bm * (bn - 1)  # row max, row sum
    return {"matmul": 4 * bm * bn * D, "exp": bm * bn + bm, "other": elementwise + reduce}


def total(steps: int, per_step: dict[str, int], programs: int, last: int) -> dict[str, int]:
    """``last``: other FLOPs of a program outside its loop."""
    out = {kind: steps * n for kind, n in per_step.items()}
    out["other"] += programs * last
    return out


def moved(tally, **expected: tuple[int, int]) -> None:
    """Argument -> (loaded, stored) bytes, and nothing else."""
    got = {n: (row["load"], row["store"] + row["atomic"]) for n, row in tally.traffic.items()}
    assert got == expected


@pytest.mark.parametrize("n_q,n_k,bm,bn", [(64, 96, 32, 32), (37, 45, 16, 32), (50, 7, 32, 16)])
def test_flash_forward_ragged(n_q, n_k, bm, bn):
    q, k, v = tensors((H, n_q, D), (H, n_k, D), (H, n_k, D))
    with count_io(outputs=["o_ptr", "lse_ptr"]) as tally:
        o, lse = kernels.flash(q, k, v, bm, bn)
    want, want_lse = attention(q, k, v)
    torch.testing.assert_close(o.double(), want, atol=2e-3, rtol=0)
    torch.testing.assert_close(lse.double(), want_lse, atol=1e-5, rtol=0)
    programs = H * cdiv(n_q, bm)
    moved(
        tally,
        q_ptr=(2 * H * n_q * D, 0),
        k_ptr=(2 * programs * n_k * D, 0),
        v_ptr=(2 * programs * n_k * D, 0),
        o_ptr=(0, 2 * H * n_q * D),
        lse_ptr=(0, 4 * H * n_q),
    )
    steps = programs * cdiv(n_k, bn)
    assert tally.flops == total(steps, step_flops(bm, bn), programs, bm * D + 2 * bm)
    assert tally.unique_bytes["k_ptr"]["load"] == 2 * H * n_k * D
    asked = tally.traffic["k_ptr"]["asked_load"]
    assert asked == 2 * programs * cdiv(n_k, bn) * bn * D
    assert (tally.heat("k_ptr") == cdiv(n_q, bm)).all() and tally.heat("k_ptr").shape == k.shape
    assert (tally.heat("o_ptr", "store") == 1).all() and tally.unwritten == {}


@pytest.mark.parametrize("n,bm,bn", [(64, 16, 32), (61, 32, 16)])
def test_flash_forward_causal(n, bm, bn):
    q, k, v = tensors(*[(H, n, D)] * 3)
    with count_io(outputs=["o_ptr", "lse_ptr"]) as tally:
        o, _ = kernels.flash(q, k, v, bm, bn, causal=True)
    want, _ = attention(q, k, v, torch.ones(n, n, dtype=torch.bool).tril())
    torch.testing.assert_close(o.double(), want, atol=4e-3, rtol=0)
    ends = [min(n, (i + 1) * bm) for i in range(cdiv(n, bm))]
    keys = H * sum(min(n, cdiv(end, bn) * bn) for end in ends)
    steps = H * sum(cdiv(end, bn) for end in ends)
    moved(
        tally,
        q_ptr=(2 * H * n * D, 0),
        k_ptr=(2 * keys * D, 0),
        v_ptr=(2 * keys * D, 0),
        o_ptr=(0, 2 * H * n * D),
        lse_ptr=(0, 4 * H * n),
    )
    assert tally.flops == total(steps, step_flops(bm, bn), H * len(ends), bm * D + 2 * bm)


def test_grouped_query_attention():
    n, bm, bn, group = 40, 16, 16, 3
    q, k, v = tensors((2 * group, n, D), (2, n, D), (2, n, D), dtype=torch.bfloat16)
    with count_io() as tally:
        o, _ = kernels.flash(q, k, v, bm, bn)
    want, _ = attention(q, k.repeat_interleave(group, 0), v.repeat_interleave(group, 0))
    torch.testing.assert_close(o.double(), want, atol=2e-2, rtol=0)
    programs = 2 * group * cdiv(n, bm)
    assert tally.load_bytes("k_ptr") == tally.load_bytes("v_ptr") == 2 * programs * n * D
    assert tally.unique_bytes["k_ptr"]["load"] == 2 * 2 * n * D
    assert (tally.heat("k_ptr") == group * cdiv(n, bm)).all()
    steps = programs * cdiv(n, bn)
    assert tally.flops == total(steps, step_flops(bm, bn), programs, bm * D + 2 * bm)


@pytest.mark.parametrize("n,bm,bn", [(48, 16, 32), (45, 32, 16)])
def test_backward_with_atomics(n, bm, bn):
    q, k, v, do = tensors(*[(H, n, D)] * 4)
    leaves = [t.double().requires_grad_() for t in (q, k, v)]
    o, lse = attention(*leaves)
    o.backward(do.double())
    delta = (o * do.double()).sum(-1).float().detach()
    with count_io(outputs=["dk_ptr", "dv_ptr"]) as tally:
        got = kernels.backward(q, k, v, do, lse.detach().float(), delta, bm, bn)
    for a, leaf in zip(got, leaves, strict=True):
        torch.testing.assert_close(a.double(), leaf.grad, atol=1e-2, rtol=0)
    programs = H * cdiv(n, bn)
    once, every = 2 * H * n * D, 2 * programs * n * D
    moved(
        tally,
        q_ptr=(every, 0),
        k_ptr=(once, 0),
        v_ptr=(once, 0),
        do_ptr=(every, 0),
        lse_ptr=(4 * programs * n, 0),
        delta_ptr=(4 * programs * n, 0),
        dq_ptr=(0, 4 * programs * n * D),
        dk_ptr=(0, once),
        dv_ptr=(0, once),
    )
    assert tally.atomic_bytes("dq_ptr") == 4 * programs * n * D == tally.atomic_bytes()
    steps = programs * cdiv(n, bm)
    tile = bm * bn  # scale, s - lse | dp - delta, times p, times scale
    assert tally.flops == {
        "matmul": steps * 10 * tile * D,
        "exp": steps * tile,
        "other": steps * 5 * tile,
    }


@pytest.mark.parametrize("n,splits,bn", [(64, 2, 16), (90, 4, 16)])
def test_split_kv_in_two_launches(n, splits, bn):
    q, k, v = tensors((H, 1, D), (H, n, D), (H, n, D))
    with count_io(outputs=["part_ptr", "part_lse_ptr", "o_ptr"]) as tally:
        o = kernels.split_kv(q, k, v, splits, bn)
    torch.testing.assert_close(o.double(), attention(q, k, v)[0], atol=2e-3, rtol=0)
    parts = H * splits
    moved(
        tally,
        q_ptr=(2 * parts * D, 0),
        k_ptr=(2 * H * n * D, 0),
        v_ptr=(2 * H * n * D, 0),
        part_ptr=(4 * parts * D, 4 * parts * D),
        part_lse_ptr=(4 * parts, 4 * parts),
        o_ptr=(0, 2 * H * D),
    )
    chunk = cdiv(n, splits)
    lengths = [min(chunk, n - i * chunk) for i in range(splits)]
    steps = H * sum(cdiv(length, bn) for length in lengths)
    flops = total(steps, step_flops(16, bn), parts, 16 * D + 2 * 16)
    flops["exp"] += parts  # the weights
    flops["other"] += H * (splits + splits - 1 + splits - 1)  # lse - max; max; sum of weights
    flops["other"] += H * (splits * D + (splits - 1) * D + D)  # weigh, add up, divide
    assert tally.flops == flops
    assert [x.kernel for x in tally.launches] == ["split_kernel", "combine_kernel"]


def test_persistent_loop():
    m, n, k, block, programs = 70, 50, 40, (32, 16, 16), 3
    a, b = tensors((m, k), (k, n))
    with count_io(outputs=["c_ptr"]) as tally:
        c = kernels.persistent(a, b, block, programs)
    torch.testing.assert_close(c.double(), a.double() @ b.double(), atol=2e-2, rtol=0)
    rows, columns = cdiv(m, block[0]), cdiv(n, block[1])
    moved(
        tally,
        a_ptr=(2 * m * k * columns, 0),
        b_ptr=(2 * k * n * rows, 0),
        c_ptr=(0, 2 * m * n),
    )
    products = rows * columns * cdiv(k, block[2])
    assert tally.flops == {"matmul": products * 2 * 32 * 16 * 16, "exp": 0, "other": 0}
    loops = {len(step.loops) for step in tally.per_step}
    assert loops == {1, 2}  # stores in the outer loop, loads in the inner one
    inner = [step for step in tally.per_step if len(step.loops) == 2]
    assert len(inner) == products
    assert [s.loops[1][1] for s in inner if s.program == (0, 0, 0)][:4] == [0, 1, 2, 0]


def test_descriptors():
    n_q, n_k, bm, bn = 50, 40, 16, 32
    q, k, v = tensors((n_q, D), (n_k, D), (n_k, D))
    with count_io(outputs=["o_ptr"]) as tally:
        o = kernels.descriptors(q, k, v, bm, bn)
    torch.testing.assert_close(o.double(), attention(q, k, v)[0], atol=2e-3, rtol=0)
    programs = cdiv(n_q, bm)
    moved(
        tally,
        q_desc=(2 * n_q * D, 0),
        k_ptr=(2 * programs * n_k * D, 0),
        v_ptr=(2 * programs * n_k * D, 0),
        o_ptr=(0, 2 * n_q * D),
    )
    steps = programs * cdiv(n_k, bn)
    assert tally.flops == total(steps, step_flops(bm, bn), programs, bm * D)


def test_nested_jit():
    n, bm, bn = 40, 16, 32
    q, k, v = tensors(*[(H, n, D)] * 3)
    with count_io(outputs=["o_ptr"]) as tally:
        o = kernels.nested(q, k, v, bm, bn)
    torch.testing.assert_close(o.double(), attention(q, k, v)[0], atol=2e-3, rtol=0)
    programs = H * cdiv(n, bm)
    moved(
        tally,
        q_ptr=(2 * H * n * D, 0),
        k_ptr=(2 * programs * n * D, 0),
        v_ptr=(2 * programs * n * D, 0),
        o_ptr=(0, 2 * H * n * D),
    )
    steps = programs * cdiv(n, bn)
    assert tally.flops == total(steps, step_flops(bm, bn), programs, bm * D)
    first = next(step for step in tally.per_step if step.loops)
    assert first.load == {"k_ptr": 2 * bn * D, "v_ptr": 2 * bn * D}
    assert first.flops["matmul"] == 4 * bm * bn * D


def test_block_sparse():
    n, bm, bn = 60, 16, 32
    mask = torch.tensor([[1, 0], [1, 1], [0, 1], [0, 1]], dtype=torch.bool)
    q, k, v = tensors(*[(H, n, D)] * 3)
    with count_io(outputs=["o_ptr"]) as tally:
        o = kernels.block_sparse(q, k, v, mask, bm, bn)
    keep = mask.repeat_interleave(bm, 0)[:n].repeat_interleave(bn, 1)[:, :n]
    torch.testing.assert_close(o.double(), attention(q, k, v, keep)[0], atol=2e-3, rtol=0)
    keys = H * sum(min(bn, n - j * bn) for i in range(4) for j in range(2) if mask[i, j])
    moved(
        tally,
        q_ptr=(2 * H * n * D, 0),
        k_ptr=(2 * keys * D, 0),
        v_ptr=(2 * keys * D, 0),
        mask_ptr=(H * mask.numel(), 0),
        o_ptr=(0, 2 * H * n * D),
    )
    steps = H * int(mask.sum())
    assert tally.flops == total(steps, step_flops(bm, bn), H * 4, bm * D)


def test_peak_tiles_of_the_forward_pass():
    """q, acc, v, p before it is rounded, and m, l, alpha; less is alive while k meets q."""
    bm = bn = d = 64
    q, k, v = tensors(*[(1, 64, d)] * 3)
    with count_io(sram_bytes=48 * 1024) as tally:
        kernels.flash(q, k, v, bm, bn)
    tile = bm * d
    assert tally.peak_tile_bytes == 2 * tile + 4 * tile + 2 * tile + 4 * tile + 3 * 4 * bm
