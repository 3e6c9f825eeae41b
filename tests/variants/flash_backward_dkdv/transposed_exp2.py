"""Correct in another style: transposed tiles, base 2, hidden scores before exp2, tiles skipped."""

import torch
import triton
import triton.language as tl

BLOCK_M = 32
BLOCK_N = 64


@triton.jit
def kernel(
    q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
    qb, qh, qm, qd, kb, kh, kn, kd, vb, vh, vn, vd, gb, gh, gm, gd, lb, lh, lm, tb, th, tm,
    H, N_q, N_k, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    start_n, head = tl.program_id(1) * BLOCK_N, tl.program_id(0).to(tl.int64)
    b, h = head // H, head % H
    n = start_n + tl.arange(0, BLOCK_N)
    d = tl.arange(0, BLOCK_D).to(tl.int64)
    keys = n.to(tl.int64)[:, None]
    here = (n < N_k)[:, None] & (d < D)[None, :]
    k = tl.load(k_ptr + b * kb + h * kh + keys * kn + d[None, :] * kd, mask=here, other=0.0)
    v = tl.load(v_ptr + b * vb + h * vh + keys * vn + d[None, :] * vd, mask=here, other=0.0)
    dk = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    dv = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    first = 0
    if CAUSAL:
        first = tl.maximum(start_n - (N_k - N_q), 0) // BLOCK_M * BLOCK_M
    for start_m in range(first, N_q, BLOCK_M):
        m = start_m + tl.arange(0, BLOCK_M)
        rows = m.to(tl.int64)
        there = (m < N_q)[:, None] & (d < D)[None, :]
        q_at = q_ptr + b * qb + h * qh + rows[:, None] * qm + d[None, :] * qd
        do_at = do_ptr + b * gb + h * gh + rows[:, None] * gm + d[None, :] * gd
        q = tl.load(q_at, mask=there, other=0.0)
        do = tl.load(do_at, mask=there, other=0.0)
        lse = tl.load(lse_ptr + b * lb + h * lh + rows * lm, mask=m < N_q, other=float("inf"))
        delta = tl.load(delta_ptr + b * tb + h * th + rows * tm, mask=m < N_q, other=0.0)
        s = tl.dot(k, tl.trans(q), input_precision="ieee") * (sm_scale * 1.4426950408889634)
        if CAUSAL:
            s = tl.where(n[:, None] <= m[None, :] + N_k - N_q, s, float("-inf"))
        safe = tl.where(lse == float("-inf"), 0.0, lse) * 1.4426950408889634
        p = tl.exp2(s - safe[None, :])
        dp = tl.dot(v, tl.trans(do), input_precision="ieee")
        dv += tl.dot(p.to(do.dtype), do, input_precision="ieee")
        dk += sm_scale * tl.dot((p * (dp - delta[None, :])).to(q.dtype), q, input_precision="ieee")
    at = (head * N_k + keys) * D + d[None, :]
    tl.store(dk_ptr + at, dk, mask=here)
    tl.store(dv_ptr + at, dv, mask=here)


def flash_backward_dkdv(q, k, v, do, lse, delta, *, causal=False, sm_scale=None):
    (B, H, N_q, D), N_k = q.shape, k.shape[2]
    make = torch.empty if N_q else torch.zeros
    dk, dv = (make(k.shape, dtype=k.dtype, device=k.device) for _ in range(2))
    if B * H * N_q * N_k:
        kernel[B * H, triton.cdiv(N_k, BLOCK_N)](
            q, k, v, do, lse, delta, dk, dv,
            *[n for x in (q, k, v, do, lse, delta) for n in x.stride()],
            H, N_q, N_k, D**-0.5 if sm_scale is None else sm_scale,
            D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=max(16, triton.next_power_of_2(D)),
            CAUSAL=causal,
        )  # fmt: skip
    return dk, dv
