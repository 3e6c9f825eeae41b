"""Correct in another style: keys from the last tile to the first, base 2, scale on the sum."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64
BLOCK_N = 32


@triton.jit
def kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr,
    qb, qh, qm, qd, kb, kh, kn, kd, vb, vh, vn, vd, gb, gh, gm, gd, lb, lh, lm, tb, th, tm,
    H, N_q, N_k, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    b, h = head // H, head % H
    m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, BLOCK_D).to(tl.int64)[None, :]
    rows = m.to(tl.int64)
    there = (m < N_q)[:, None] & (d < D)
    q_at = q_ptr + b * qb + h * qh + rows[:, None] * qm + d * qd
    do_at = do_ptr + b * gb + h * gh + rows[:, None] * gm + d * gd
    q = tl.load(q_at, mask=there, other=0.0)
    do = tl.load(do_at, mask=there, other=0.0)
    lse = tl.load(lse_ptr + b * lb + h * lh + rows * lm, mask=m < N_q, other=0.0)
    delta = tl.load(delta_ptr + b * tb + h * th + rows * tm, mask=m < N_q, other=0.0)
    lse = tl.where(lse == float("-inf"), 0.0, lse) * 1.4426950408889634
    dq = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    tiles = tl.cdiv(N_k, BLOCK_N)
    for i in range(tiles):
        n = (tiles - 1 - i) * BLOCK_N + tl.arange(0, BLOCK_N)
        keys = n.to(tl.int64)[:, None]
        here = (n < N_k)[:, None] & (d < D)
        k = tl.load(k_ptr + b * kb + h * kh + keys * kn + d * kd, mask=here, other=0.0)
        v = tl.load(v_ptr + b * vb + h * vh + keys * vn + d * vd, mask=here, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * (sm_scale * 1.4426950408889634)
        seen = (n < N_k)[None, :]
        if CAUSAL:
            seen &= n[None, :] <= m[:, None] + N_k - N_q
        p = tl.exp2(tl.where(seen, s - lse[:, None], float("-inf")))
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")
        dq += tl.dot((p * (dp - delta[:, None])).to(k.dtype), k, input_precision="ieee")
    at = (head * N_q + rows[:, None]) * D + d
    tl.store(dq_ptr + at, (dq * sm_scale).to(dq_ptr.dtype.element_ty), mask=there)


def flash_backward_dq(q, k, v, do, lse, delta, *, causal=False, sm_scale=None):
    (B, H, N_q, D), N_k = q.shape, k.shape[2]
    dq = torch.zeros(q.shape, dtype=q.dtype, device=q.device)
    if B * H * N_q * N_k:
        kernel[triton.cdiv(N_q, BLOCK_M), B * H](
            q, k, v, do, lse, delta, dq,
            *[n for x in (q, k, v, do, lse, delta) for n in x.stride()],
            H, N_q, N_k, D**-0.5 if sm_scale is None else sm_scale,
            D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=max(16, triton.next_power_of_2(D)),
            CAUSAL=causal,
        )  # fmt: skip
    return dq
