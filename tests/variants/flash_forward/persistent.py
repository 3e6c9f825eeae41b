"""Correct in another style: a few programs share all tiles, the last one apart; TF32 allowed."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64
BLOCK_N = 32
PROGRAMS = 6


@triton.jit
def step(q, k, v, m_i, l_i, acc, offs_m, offs_n, N_q, N_k, sm_scale, CAUSAL: tl.constexpr):
    s = sm_scale * tl.dot(q, tl.trans(k))
    visible = (offs_n < N_k)[None, :]
    if CAUSAL:
        visible = visible & (offs_n[None, :] <= offs_m[:, None] + N_k - N_q)
    s = tl.where(visible, s, float("-inf"))
    m_new = tl.maximum(m_i, tl.max(s, 1))
    m_ref = tl.where(m_new == float("-inf"), 0.0, m_new)
    alpha = tl.exp(m_i - m_ref)
    p = tl.exp(s - m_ref[:, None])
    l_i = alpha * l_i + tl.sum(p, 1)
    acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
    return m_new, l_i, acc


@triton.jit
def kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    qb, qh, qm, qd, kb, kh, kn, kd, vb, vh, vn, vd, ob, oh, om, od, lb, lh, lm,
    B, H, N_q, N_k, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(N_q, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    mask_d = (offs_d < D)[None, :]
    for work in range(tl.program_id(0), blocks * B * H, tl.num_programs(0)):
        offs_m = work % blocks * BLOCK_M + tl.arange(0, BLOCK_M)
        h = (work // blocks % H).to(tl.int64)
        b = (work // blocks // H).to(tl.int64)
        mask_q = (offs_m < N_q)[:, None] & mask_d
        q_at = b * qb + h * qh + offs_m[:, None] * qm + offs_d[None, :] * qd
        q = tl.load(q_ptr + q_at, mask=mask_q, other=0.0)
        m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
        l_i = tl.zeros([BLOCK_M], tl.float32)
        acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
        full = N_k // BLOCK_N * BLOCK_N
        for start_n in range(0, full, BLOCK_N):
            offs_n = start_n + tl.arange(0, BLOCK_N)
            k_at = b * kb + h * kh + offs_n[:, None] * kn + offs_d[None, :] * kd
            k = tl.load(k_ptr + k_at, mask=mask_d, other=0.0)
            v_at = b * vb + h * vh + offs_n[:, None] * vn + offs_d[None, :] * vd
            v = tl.load(v_ptr + v_at, mask=mask_d, other=0.0)
            m_i, l_i, acc = step(
                q, k, v, m_i, l_i, acc, offs_m, offs_n, N_q, N_k, sm_scale, CAUSAL
            )
        if full < N_k:
            offs_n = full + tl.arange(0, BLOCK_N)
            mask_kv = (offs_n < N_k)[:, None] & mask_d
            k_at = b * kb + h * kh + offs_n[:, None] * kn + offs_d[None, :] * kd
            k = tl.load(k_ptr + k_at, mask=mask_kv, other=0.0)
            v_at = b * vb + h * vh + offs_n[:, None] * vn + offs_d[None, :] * vd
            v = tl.load(v_ptr + v_at, mask=mask_kv, other=0.0)
            m_i, l_i, acc = step(
                q, k, v, m_i, l_i, acc, offs_m, offs_n, N_q, N_k, sm_scale, CAUSAL
            )
        l_i = tl.where(l_i == 0.0, 1.0, l_i)
        o_at = b * ob + h * oh + offs_m[:, None] * om + offs_d[None, :] * od
        tl.store(o_ptr + o_at, acc / l_i[:, None], mask=mask_q)
        lse_at = b * lb + h * lh + offs_m * lm
        tl.store(lse_ptr + lse_at, m_i + tl.log(l_i), mask=offs_m < N_q)


def flash_forward(q, k, v, *, causal=False, sm_scale=None):
    B, H, N_q, D = q.shape
    N_k = k.shape[2]
    o = torch.zeros_like(q)
    lse = torch.full((B, H, N_q), float("-inf"), device=q.device)
    tiles = triton.cdiv(N_q, BLOCK_M) * B * H
    if tiles and N_k:
        kernel[(min(PROGRAMS, tiles),)](
            q, k, v, o, lse,
            *q.stride(), *k.stride(), *v.stride(), *o.stride(), *lse.stride(),
            B, H, N_q, N_k, D**-0.5 if sm_scale is None else sm_scale,
            D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=max(16, triton.next_power_of_2(D)),
            CAUSAL=causal,
        )  # fmt: skip
    return o, lse
