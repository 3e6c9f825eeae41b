"""Correct but wasteful: a walk for the log-sum-exp, a second one for o, so k is read twice."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64
BLOCK_N = 64


@triton.jit
def scores(q, k_ptr, kn, kd, offs_m, offs_n, offs_d, N_q, N_k, sm_scale, D, CAUSAL: tl.constexpr):
    mask = (offs_n < N_k)[:, None] & (offs_d < D)[None, :]
    k = tl.load(k_ptr + offs_n[:, None] * kn + offs_d[None, :] * kd, mask=mask, other=0.0)
    s = sm_scale * tl.dot(q, tl.trans(k), input_precision="ieee")
    visible = (offs_n < N_k)[None, :]
    if CAUSAL:
        visible = visible & (offs_n[None, :] <= offs_m[:, None] + N_k - N_q)
    return tl.where(visible, s, float("-inf"))


@triton.jit
def kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    qb, qh, qm, qd, kb, kh, kn, kd, vb, vh, vn, vd, ob, oh, om, od, lb, lh, lm,
    N_q, N_k, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    h, b = tl.program_id(1).to(tl.int64), tl.program_id(2).to(tl.int64)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    mask_q = (offs_m < N_q)[:, None] & (offs_d < D)[None, :]
    at = b * qb + h * qh + offs_m[:, None] * qm + offs_d[None, :] * qd
    q = tl.load(q_ptr + at, mask=mask_q, other=0.0)
    k_ptr += b * kb + h * kh
    lse = tl.full([BLOCK_M], float("-inf"), tl.float32)
    for start_n in range(0, N_k, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        s = scores(q, k_ptr, kn, kd, offs_m, offs_n, offs_d, N_q, N_k, sm_scale, D, CAUSAL)
        high = tl.maximum(lse, tl.max(s, 1))
        ref = tl.where(high == float("-inf"), 0.0, high)
        total = tl.exp(lse - ref) + tl.sum(tl.exp(s - ref[:, None]), 1)
        lse = tl.where(high == float("-inf"), high, ref + tl.log(tl.maximum(total, 1e-37)))
    ref = tl.where(lse == float("-inf"), 0.0, lse)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for start_n in range(0, N_k, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        s = scores(q, k_ptr, kn, kd, offs_m, offs_n, offs_d, N_q, N_k, sm_scale, D, CAUSAL)
        p = tl.exp(s - ref[:, None])
        mask = (offs_n < N_k)[:, None] & (offs_d < D)[None, :]
        at = b * vb + h * vh + offs_n[:, None] * vn + offs_d[None, :] * vd
        v = tl.load(v_ptr + at, mask=mask, other=0.0)
        acc += tl.dot(p.to(v.dtype), v, input_precision="ieee")
    at = b * ob + h * oh + offs_m[:, None] * om + offs_d[None, :] * od
    tl.store(o_ptr + at, acc, mask=mask_q)
    tl.store(lse_ptr + b * lb + h * lh + offs_m * lm, lse, mask=offs_m < N_q)


def flash_forward(q, k, v, *, causal=False, sm_scale=None):
    B, H, N_q, D = q.shape
    N_k = k.shape[2]
    o = torch.zeros_like(q)
    lse = torch.full((B, H, N_q), float("-inf"), device=q.device)
    if B * H * N_q * N_k:
        kernel[(triton.cdiv(N_q, BLOCK_M), H, B)](
            q, k, v, o, lse,
            *q.stride(), *k.stride(), *v.stride(), *o.stride(), *lse.stride(),
            N_q, N_k, D**-0.5 if sm_scale is None else sm_scale,
            D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=max(16, triton.next_power_of_2(D)),
            CAUSAL=causal,
        )  # fmt: skip
    return o, lse
