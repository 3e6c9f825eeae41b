"""Correct in another style: keys in the rows of the score tile, so sums run down its columns."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64
BLOCK_N = 64


@triton.jit
def kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    qb, qh, qm, qd, kb, kh, kn, kd, vb, vh, vn, vd, ob, oh, om, od, lb, lh, lm,
    H, N_q, N_k, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    b, h = (tl.program_id(1) // H).to(tl.int64), (tl.program_id(1) % H).to(tl.int64)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    mask_qt = (offs_d < D)[:, None] & (offs_m < N_q)[None, :]
    at = b * qb + h * qh + offs_d[:, None] * qd + offs_m[None, :] * qm
    qt = tl.load(q_ptr + at, mask=mask_qt, other=0.0)  # [BLOCK_D, BLOCK_M]
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc_t = tl.zeros([BLOCK_D, BLOCK_M], tl.float32)
    for start_n in range(0, N_k, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        mask_k = (offs_n < N_k)[:, None] & (offs_d < D)[None, :]
        at = b * kb + h * kh + offs_n[:, None] * kn + offs_d[None, :] * kd
        k = tl.load(k_ptr + at, mask=mask_k, other=0.0)  # [BLOCK_N, BLOCK_D]
        mask_vt = (offs_d < D)[:, None] & (offs_n < N_k)[None, :]
        at = b * vb + h * vh + offs_d[:, None] * vd + offs_n[None, :] * vn
        vt = tl.load(v_ptr + at, mask=mask_vt, other=0.0)  # [BLOCK_D, BLOCK_N]
        st = sm_scale * tl.dot(k, qt, input_precision="ieee")  # [BLOCK_N, BLOCK_M]
        hidden = (offs_n >= N_k)[:, None]
        if CAUSAL:
            hidden = hidden | (offs_n[:, None] > offs_m[None, :] + N_k - N_q)
        st = tl.where(hidden, float("-inf"), st)
        m_new = tl.maximum(m_i, tl.max(st, 0))
        m_ref = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp(m_i - m_ref)
        pt = tl.exp(st - m_ref[None, :])
        l_i = alpha * l_i + tl.sum(pt, 0)
        acc_t = tl.dot(vt, pt.to(vt.dtype), acc_t * alpha[None, :], input_precision="ieee")
        m_i = m_new
    l_i = tl.where(l_i == 0.0, 1.0, l_i)
    at = b * ob + h * oh + offs_d[:, None] * od + offs_m[None, :] * om
    tl.store(o_ptr + at, acc_t / l_i[None, :], mask=mask_qt)
    tl.store(lse_ptr + b * lb + h * lh + offs_m * lm, m_i + tl.log(l_i), mask=offs_m < N_q)


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
