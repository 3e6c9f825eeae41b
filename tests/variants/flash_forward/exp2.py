"""Correct in another style: base 2 with the scale on the scores, the lse kept while walking."""

import torch
import triton
import triton.language as tl

BLOCK_M = 128
BLOCK_N = 32


@triton.jit
def kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    qb, qh, qm, qd, kb, kh, kn, kd, vb, vh, vn, vd, ob, oh, om, od, lb, lh, lm,
    H, N_q, N_k, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    LOG2E: tl.constexpr = 1.4426950408889634
    b, h = (tl.program_id(1) // H).to(tl.int64), (tl.program_id(1) % H).to(tl.int64)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    mask_q = (offs_m < N_q)[:, None] & (offs_d < D)[None, :]
    q_at = b * qb + h * qh + offs_m[:, None] * qm + offs_d[None, :] * qd
    q = tl.load(q_ptr + q_at, mask=mask_q, other=0.0)
    lse_log2 = tl.full([BLOCK_M], float("-inf"), tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)  # normalised by lse_log2
    for start_n in range(0, N_k, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        mask_kv = (offs_n < N_k)[:, None] & (offs_d < D)[None, :]
        k_at = b * kb + h * kh + offs_n[:, None] * kn + offs_d[None, :] * kd
        k = tl.load(k_ptr + k_at, mask=mask_kv, other=0.0)
        v_at = b * vb + h * vh + offs_n[:, None] * vn + offs_d[None, :] * vd
        v = tl.load(v_ptr + v_at, mask=mask_kv, other=0.0)
        s = (sm_scale * LOG2E) * tl.dot(q, tl.trans(k), input_precision="ieee")
        visible = (offs_n < N_k)[None, :]
        if CAUSAL:
            visible = visible & (offs_n[None, :] <= offs_m[:, None] + N_k - N_q)
        s = tl.where(visible, s, float("-inf"))
        top = tl.maximum(lse_log2, tl.max(s, 1))
        top = tl.where(top == float("-inf"), 0.0, top)
        p = tl.exp2(s - top[:, None])
        old = tl.exp2(lse_log2 - top)
        total = old + tl.sum(p, 1)
        share = tl.where(total == 0.0, 0.0, 1.0 / tl.where(total == 0.0, 1.0, total))
        acc = acc * (old * share)[:, None]
        acc += tl.dot(p.to(v.dtype), v, input_precision="ieee") * share[:, None]
        lse_log2 = tl.where(total == 0.0, float("-inf"), top - tl.log2(share))
    o_at = b * ob + h * oh + offs_m[:, None] * om + offs_d[None, :] * od
    tl.store(o_ptr + o_at, acc, mask=mask_q)
    lse_at = b * lb + h * lh + offs_m * lm
    tl.store(lse_ptr + lse_at, lse_log2 / LOG2E, mask=offs_m < N_q)


def flash_forward(q, k, v, *, causal=False, sm_scale=None):
    B, H, N_q, D = q.shape
    N_k = k.shape[2]
    o = torch.zeros_like(q)
    lse = torch.full((B, H, N_q), float("-inf"), device=q.device)
    if B * H * N_q * N_k:
        kernel[(triton.cdiv(N_q, BLOCK_M), B * H)](
            q, k, v, o, lse,
            *q.stride(), *k.stride(), *v.stride(), *o.stride(), *lse.stride(),
            H, N_q, N_k, D**-0.5 if sm_scale is None else sm_scale,
            D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=max(16, triton.next_power_of_2(D)),
            CAUSAL=causal,
        )  # fmt: skip
    return o, lse
