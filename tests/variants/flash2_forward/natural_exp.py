"""Correct in another style: exp in nats, every tile masked, a grid of three."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64
BLOCK_N = 32


@triton.jit
def kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    qb, qh, qm, qd, kb, kh, kn, kd, vb, vh, vn, vd, ob, oh, om, od, lb, lh, lm,
    group, N_q, N_k, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    b, h = tl.program_id(2).to(tl.int64), tl.program_id(1).to(tl.int64)
    start_m = tl.program_id(0) * BLOCK_M
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    mask_q = (offs_m < N_q)[:, None] & (offs_d < D)[None, :]
    at = b * qb + h * qh + offs_m[:, None] * qm + offs_d[None, :] * qd
    q = tl.load(q_ptr + at, mask=mask_q, other=0.0)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    tiles = tl.cdiv(N_k, BLOCK_N)
    if CAUSAL:
        tiles = tl.minimum(tiles, tl.cdiv(start_m + BLOCK_M + N_k - N_q, BLOCK_N))
    for tile in range(tiles):
        offs_n = tile * BLOCK_N + tl.arange(0, BLOCK_N)
        mask_kv = (offs_n < N_k)[:, None] & (offs_d < D)[None, :]
        k_at = b * kb + h // group * kh + offs_n[:, None] * kn + offs_d[None, :] * kd
        k = tl.load(k_ptr + k_at, mask=mask_kv, other=0.0)
        s = sm_scale * tl.dot(q, k.T, input_precision="ieee")
        seen = (offs_n < N_k)[None, :]
        if CAUSAL:
            seen = seen & (offs_m[:, None] - offs_n[None, :] >= N_q - N_k)
        s = tl.where(seen, s, float("-inf"))
        m_new = tl.maximum(m_i, s.max(1))
        p = tl.where(seen, tl.exp(s - m_new[:, None]), 0.0)
        alpha = tl.where(m_i == float("-inf"), 0.0, tl.exp(m_i - m_new))
        l_i = alpha * l_i + p.sum(1)
        v_at = b * vb + h // group * vh + offs_n[:, None] * vn + offs_d[None, :] * vd
        v = tl.load(v_ptr + v_at, mask=mask_kv, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m_i = m_new
    some = l_i > 0.0
    l_i = tl.where(some, l_i, 1.0)
    at = b * ob + h * oh + offs_m[:, None] * om + offs_d[None, :] * od
    tl.store(o_ptr + at, acc / l_i[:, None], mask=mask_q)
    lse = tl.where(some, m_i + tl.log(l_i), float("-inf"))
    tl.store(lse_ptr + b * lb + h * lh + offs_m * lm, lse, mask=offs_m < N_q)


def flash2_forward(q, k, v, *, causal=False, sm_scale=None):
    B, H, N_q, D = q.shape
    N_k = k.shape[2]
    if 0 in (B, H, N_q, N_k, k.shape[1]):
        return torch.zeros_like(q), q.new_full((B, H, N_q), float("-inf"), dtype=torch.float32)
    o, lse = torch.empty_like(q), torch.empty((B, H, N_q), device=q.device)
    kernel[(triton.cdiv(N_q, BLOCK_M), H, B)](
        q, k, v, o, lse,
        *q.stride(), *k.stride(), *v.stride(), *o.stride(), *lse.stride(),
        H // k.shape[1], N_q, N_k, D**-0.5 if sm_scale is None else sm_scale,
        D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=max(16, triton.next_power_of_2(D)),
        CAUSAL=causal,
    )  # fmt: skip
    return o, lse
