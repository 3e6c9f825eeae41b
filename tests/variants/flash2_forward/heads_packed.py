"""Correct in another style: the query heads of a key head lie in one tile, so they share loads."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64
BLOCK_N = 64


@triton.jit
def kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    qb, qh, qm, qd, kb, kh, kn, kd, vb, vh, vn, vd, ob, oh, om, od, lb, lh, lm,
    H_kv, group, N_q, N_k, scale_log2,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    start = tl.program_id(0) * BLOCK_M
    b, h_kv = (tl.program_id(1) // H_kv).to(tl.int64), (tl.program_id(1) % H_kv).to(tl.int64)
    packed = start + tl.arange(0, BLOCK_M)  # query major: row i of all heads, then row i + 1
    inside = packed < N_q * group
    offs_m, h = packed // group, h_kv * group + packed % group
    offs_d = tl.arange(0, BLOCK_D)
    mask_q = inside[:, None] & (offs_d < D)[None, :]
    at = b * qb + h[:, None] * qh + offs_m[:, None] * qm + offs_d[None, :] * qd
    q = tl.load(q_ptr + at, mask=mask_q, other=0.0)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    end = N_k
    if CAUSAL:
        last = tl.minimum((start + BLOCK_M - 1) // group, N_q - 1)
        end = last + 1 + N_k - N_q
    for start_n in range(0, end, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        mask_kv = (offs_n < N_k)[:, None] & (offs_d < D)[None, :]
        k_at = b * kb + h_kv * kh + offs_n[:, None] * kn + offs_d[None, :] * kd
        k = tl.load(k_ptr + k_at, mask=mask_kv, other=0.0)
        v_at = b * vb + h_kv * vh + offs_n[:, None] * vn + offs_d[None, :] * vd
        v = tl.load(v_ptr + v_at, mask=mask_kv, other=0.0)
        s = scale_log2 * tl.dot(q, tl.trans(k), input_precision="ieee")
        seen = (offs_n < N_k)[None, :]
        if CAUSAL:
            seen = seen & (offs_n[None, :] <= offs_m[:, None] + N_k - N_q)
        s = tl.where(seen, s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        m_ref = tl.where(m_new == float("-inf"), 0.0, m_new)
        p = tl.exp2(s - m_ref[:, None])
        alpha = tl.exp2(m_i - m_ref)
        l_i = alpha * l_i + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, alpha[:, None] * acc, input_precision="ieee")
        m_i = m_new
    l_i = tl.where(l_i == 0.0, 1.0, l_i)
    at = b * ob + h[:, None] * oh + offs_m[:, None] * om + offs_d[None, :] * od
    tl.store(o_ptr + at, acc / l_i[:, None], mask=mask_q)
    lse = (m_i + tl.log2(l_i)) / 1.4426950408889634
    tl.store(lse_ptr + b * lb + h * lh + offs_m * lm, lse, mask=inside)


def flash2_forward(q, k, v, *, causal=False, sm_scale=None):
    B, H, N_q, D = q.shape
    H_kv, N_k = k.shape[1:3]
    o = torch.zeros_like(q)
    lse = torch.full((B, H, N_q), float("-inf"), device=q.device)
    if B * H * N_q * N_k * H_kv:
        scale, group = D**-0.5 if sm_scale is None else sm_scale, H // H_kv
        kernel[(triton.cdiv(N_q * group, BLOCK_M), B * H_kv)](
            q, k, v, o, lse,
            *q.stride(), *k.stride(), *v.stride(), *o.stride(), *lse.stride(),
            H_kv, group, N_q, N_k, scale * 1.4426950408889634,
            D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=max(16, triton.next_power_of_2(D)),
            CAUSAL=causal,
        )  # fmt: skip
    return o, lse
