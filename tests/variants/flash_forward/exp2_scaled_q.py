"""Correct in another style: base 2, the scale multiplied into q (kept in fp32) before the loop."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64
BLOCK_N = 64
LOG2E = 1.4426950408889634


@triton.jit
def kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    qb, qh, qm, qd, kb, kh, kn, kd, vb, vh, vn, vd, ob, oh, om, od, lb, lh, lm,
    H, N_q, N_k, scale_log2,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    b = (tl.program_id(1) // H).to(tl.int64)
    h = (tl.program_id(1) % H).to(tl.int64)
    offs_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    mask_m, mask_d = offs_m < N_q, offs_d < D
    mask_q = mask_m[:, None] & mask_d[None, :]
    at = offs_m[:, None] * qm + offs_d[None, :] * qd
    q = tl.load(q_ptr + b * qb + h * qh + at, mask=mask_q, other=0.0)
    q = q.to(tl.float32) * scale_log2
    m_log2 = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for start_n in range(0, N_k, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        mask_kv = (offs_n < N_k)[:, None] & mask_d[None, :]
        at = offs_n[:, None] * kn + offs_d[None, :] * kd
        k = tl.load(k_ptr + b * kb + h * kh + at, mask=mask_kv, other=0.0)
        s = tl.dot(q, tl.trans(k.to(tl.float32)), input_precision="ieee")
        visible = (offs_n < N_k)[None, :]
        if CAUSAL:
            visible &= offs_n[None, :] - N_k <= offs_m[:, None] - N_q
        s = tl.where(visible, s, float("-inf"))
        m_new = tl.maximum(m_log2, tl.max(s, 1))
        m_ref = tl.where(m_new > float("-inf"), m_new, 0.0)
        p = tl.exp2(s - m_ref[:, None])
        alpha = tl.exp2(m_log2 - m_ref)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        at = offs_n[:, None] * vn + offs_d[None, :] * vd
        v = tl.load(v_ptr + b * vb + h * vh + at, mask=mask_kv, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")
        m_log2 = m_new
    l_ref = tl.where(l_i > 0.0, l_i, 1.0)
    at = offs_m[:, None] * om + offs_d[None, :] * od
    tl.store(o_ptr + b * ob + h * oh + at, acc / l_ref[:, None], mask=mask_q)
    lse = (m_log2 + tl.log2(l_ref)) * 0.6931471805599453
    tl.store(lse_ptr + b * lb + h * lh + offs_m * lm, lse, mask=mask_m)


def flash_forward(q, k, v, *, causal=False, sm_scale=None):
    B, H, N_q, D = q.shape
    N_k = k.shape[2]
    if 0 in (B, H, N_q, N_k):
        return torch.zeros_like(q), q.new_full((B, H, N_q), float("-inf"), dtype=torch.float32)
    o = torch.empty_like(q)
    lse = torch.empty((B, H, N_q), dtype=torch.float32, device=q.device)
    scale = D**-0.5 if sm_scale is None else sm_scale
    kernel[(triton.cdiv(N_q, BLOCK_M), B * H)](
        q, k, v, o, lse,
        *q.stride(), *k.stride(), *v.stride(), *o.stride(), *lse.stride(),
        H, N_q, N_k, scale * LOG2E,
        D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=max(16, triton.next_power_of_2(D)),
        CAUSAL=causal,
    )  # fmt: skip
    return o, lse
