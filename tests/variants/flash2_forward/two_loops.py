"""Correct in another style: one loop without masks, one with them, in a helper of two stages."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64
BLOCK_N = 64


@triton.jit
def attend(
    acc, l_i, m_i, q, k_ptrs, v_ptrs, kn, vn, offs_m, first, last, N_k, shift, scale_log2, mask_d,
    BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    keys = tl.arange(0, BLOCK_N)
    for start_n in tl.range(first, last, BLOCK_N):
        offs_n = start_n + keys
        inside = (offs_n < N_k)[None, :] & mask_d[:, None] if MASKED else mask_d[:, None]
        k_t = tl.load(k_ptrs + offs_n.to(tl.int64)[None, :] * kn, mask=inside, other=0.0)
        s = tl.dot(q, k_t, input_precision="ieee") * scale_log2
        if MASKED:
            seen = (offs_n < N_k)[None, :]
            if CAUSAL:
                seen &= offs_n[None, :] <= offs_m[:, None] + shift
            s = tl.where(seen, s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        m_ref = tl.where(m_new == float("-inf"), 0.0, m_new) if MASKED else m_new
        p = tl.exp2(s - m_ref[:, None])
        alpha = tl.exp2(m_i - m_ref)
        l_i = l_i * alpha + tl.sum(p, 1)
        inside = (offs_n < N_k)[:, None] & mask_d[None, :] if MASKED else mask_d[None, :]
        v = tl.load(v_ptrs + offs_n.to(tl.int64)[:, None] * vn, mask=inside, other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")
        m_i = m_new
    return acc, l_i, m_i


@triton.jit
def kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    qb, qh, qm, qd, kb, kh, kn, kd, vb, vh, vn, vd, ob, oh, om, od, lb, lh, lm,
    H, group, N_q, N_k, scale_log2,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BLOCK_M
    b, h = (tl.program_id(1) // H).to(tl.int64), (tl.program_id(1) % H).to(tl.int64)
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    mask_m, mask_d = offs_m < N_q, offs_d < D
    mask_q = mask_m[:, None] & mask_d[None, :]
    q_at = b * qb + h * qh + offs_m[:, None] * qm + offs_d[None, :] * qd
    q = tl.load(q_ptr + q_at, mask=mask_q, other=0.0)
    k_ptrs = k_ptr + b * kb + h // group * kh + offs_d[:, None] * kd
    v_ptrs = v_ptr + b * vb + h // group * vh + offs_d[None, :] * vd
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    shift = N_k - N_q
    full, end = N_k // BLOCK_N * BLOCK_N, N_k
    if CAUSAL:
        full = tl.maximum(0, tl.minimum(full, (start_m + 1 + shift) // BLOCK_N * BLOCK_N))
        end = tl.minimum(end, start_m + BLOCK_M + shift)
    acc, l_i, m_i = attend(
        acc, l_i, m_i, q, k_ptrs, v_ptrs, kn, vn, offs_m, 0, full, N_k, shift, scale_log2, mask_d,
        BLOCK_N, CAUSAL, False,
    )  # fmt: skip
    acc, l_i, m_i = attend(
        acc, l_i, m_i, q, k_ptrs, v_ptrs, kn, vn, offs_m, full, end, N_k, shift, scale_log2,
        mask_d, BLOCK_N, CAUSAL, True,
    )  # fmt: skip
    l_ref = tl.where(l_i > 0.0, l_i, 1.0)
    o_at = b * ob + h * oh + offs_m[:, None] * om + offs_d[None, :] * od
    tl.store(o_ptr + o_at, acc / l_ref[:, None], mask=mask_q)
    lse = (m_i + tl.log2(l_ref)) * 0.6931471805599453
    tl.store(lse_ptr + b * lb + h * lh + offs_m * lm, lse, mask=mask_m)


def flash2_forward(q, k, v, *, causal=False, sm_scale=None):
    B, H, N_q, D = q.shape
    H_kv, N_k = k.shape[1:3]
    o = torch.zeros_like(q)
    lse = torch.full((B, H, N_q), float("-inf"), device=q.device)
    if B * H * N_q * N_k * H_kv:
        scale = D**-0.5 if sm_scale is None else sm_scale
        kernel[(triton.cdiv(N_q, BLOCK_M), B * H)](
            q, k, v, o, lse,
            *q.stride(), *k.stride(), *v.stride(), *o.stride(), *lse.stride(),
            H, H // H_kv, N_q, N_k, scale * 1.4426950408889634,
            D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=max(16, triton.next_power_of_2(D)),
            CAUSAL=causal,
        )  # fmt: skip
    return o, lse
