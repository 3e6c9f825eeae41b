"""Correct in another style: one program a head walks over all query blocks, with a while loop."""

import torch
import triton
import triton.language as tl

BLOCK_M = 32
BLOCK_N = 64


@triton.jit
def kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    qb, qh, qm, qd, kb, kh, kn, kd, vb, vh, vn, vd, ob, oh, om, od, lb, lh, lm,
    N_q, N_k, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    h, b = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    q_ptr += b * qb + h * qh
    k_ptr += b * kb + h * kh
    v_ptr += b * vb + h * vh
    o_ptr += b * ob + h * oh
    lse_ptr += b * lb + h * lh
    offs_d = tl.arange(0, BLOCK_D)
    mask_d = (offs_d < D)[None, :]
    start_m = 0
    while start_m < N_q:
        offs_m = start_m + tl.arange(0, BLOCK_M)
        mask_m = offs_m < N_q
        q_at = offs_m[:, None] * qm + offs_d[None, :] * qd
        q = tl.load(q_ptr + q_at, mask=mask_m[:, None] & mask_d, other=0.0)
        m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
        l_i = tl.zeros([BLOCK_M], tl.float32)
        acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
        start_n = 0
        while start_n < N_k:
            offs_n = start_n + tl.arange(0, BLOCK_N)
            mask_n = (offs_n < N_k)[:, None] & mask_d
            k = tl.load(k_ptr + offs_n[:, None] * kn + offs_d[None, :] * kd, mask_n, other=0.0)
            v = tl.load(v_ptr + offs_n[:, None] * vn + offs_d[None, :] * vd, mask_n, other=0.0)
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * sm_scale
            s += tl.where(offs_n < N_k, 0.0, float("-inf"))[None, :]
            if CAUSAL:
                future = offs_n[None, :] > offs_m[:, None] + (N_k - N_q)
                s += tl.where(future, float("-inf"), 0.0)
            m_new = tl.maximum(m_i, tl.max(s, 1))
            empty = m_new == float("-inf")
            p = tl.where(empty[:, None], 0.0, tl.exp(s - tl.where(empty, 0.0, m_new)[:, None]))
            alpha = tl.where(empty, 1.0, tl.exp(m_i - tl.where(empty, 0.0, m_new)))
            l_i = l_i * alpha + tl.sum(p, 1)
            acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
            m_i = m_new
            start_n += BLOCK_N
        l_i = tl.maximum(l_i, 1e-37)
        lse = tl.where(m_i == float("-inf"), float("-inf"), m_i + tl.log(l_i))
        o_at = offs_m[:, None] * om + offs_d[None, :] * od
        tl.store(o_ptr + o_at, acc / l_i[:, None], mask=mask_m[:, None] & mask_d)
        tl.store(lse_ptr + offs_m * lm, lse, mask=mask_m)
        start_m += BLOCK_M


def flash_forward(q, k, v, *, causal=False, sm_scale=None):
    B, H, N_q, D = q.shape
    N_k = k.shape[2]
    o = torch.zeros_like(q)
    lse = torch.full((B, H, N_q), float("-inf"), device=q.device)
    if B and H and N_q and N_k:
        kernel[(H, B)](
            q, k, v, o, lse,
            *q.stride(), *k.stride(), *v.stride(), *o.stride(), *lse.stride(),
            N_q, N_k, D**-0.5 if sm_scale is None else sm_scale,
            D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=max(16, triton.next_power_of_2(D)),
            CAUSAL=causal,
        )  # fmt: skip
    return o, lse
