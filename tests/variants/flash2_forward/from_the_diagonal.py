"""Correct in another style: tiles from right to left, scores transposed, scale kept with q."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64
BLOCK_N = 64


@triton.jit
def kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    qb, qh, qm, qd, kb, kh, kn, kd, vb, vh, vn, vd, ob, oh, om, od, lb, lh, lm,
    H, H_kv, N_q, N_k, scale_log2,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0).to(tl.int64)
    b, h = head // H, head % H
    h_kv = h * H_kv // H
    start_m = tl.program_id(1) * BLOCK_M
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    mask_q = (offs_d < D)[:, None] & (offs_m < N_q)[None, :]
    at = b * qb + h * qh + offs_d[:, None] * qd + offs_m[None, :] * qm
    q_t = tl.load(q_ptr + at, mask=mask_q, other=0.0).to(tl.float32) * scale_log2
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.full([BLOCK_M], 0.0, tl.float32)
    acc_t = tl.zeros([BLOCK_D, BLOCK_M], tl.float32)
    end = N_k
    if CAUSAL:
        end = tl.maximum(0, tl.minimum(N_k, start_m + BLOCK_M + N_k - N_q))
    tiles = tl.cdiv(end, BLOCK_N)
    for done in range(tiles):
        offs_n = (tiles - 1 - done) * BLOCK_N + tl.arange(0, BLOCK_N)
        mask_kv = (offs_n < N_k)[:, None] & (offs_d < D)[None, :]
        k_at = b * kb + h_kv * kh + offs_n[:, None] * kn + offs_d[None, :] * kd
        k = tl.load(k_ptr + k_at, mask=mask_kv, other=0.0)
        v_at = b * vb + h_kv * vh + offs_n[:, None] * vn + offs_d[None, :] * vd
        v = tl.load(v_ptr + v_at, mask=mask_kv, other=0.0)
        s_t = tl.dot(k.to(tl.float32), q_t, input_precision="ieee")
        seen = (offs_n < N_k)[:, None]
        if CAUSAL:
            seen = seen & (offs_n[:, None] <= offs_m[None, :] + (N_k - N_q))
        s_t = tl.where(seen, s_t, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s_t, 0))
        m_ref = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp2(m_i - m_ref)
        p_t = tl.exp2(s_t - m_ref[None, :])
        l_i = alpha * l_i + tl.sum(p_t, 0)
        acc_t = acc_t * alpha[None, :]
        acc_t = tl.dot(tl.trans(v), p_t.to(v.dtype), acc_t, input_precision="ieee")
        m_i = m_new
    l_i = tl.where(l_i == 0.0, 1.0, l_i)
    at = b * ob + h * oh + offs_d[:, None] * od + offs_m[None, :] * om
    tl.store(o_ptr + at, acc_t / l_i[None, :], mask=mask_q)
    lse = 0.6931471805599453 * (m_i + tl.log2(l_i))
    tl.store(lse_ptr + b * lb + h * lh + offs_m * lm, lse, mask=offs_m < N_q)


def flash2_forward(q, k, v, *, causal=False, sm_scale=None):
    B, H, N_q, D = q.shape
    H_kv, N_k = k.shape[1:3]
    o = torch.zeros_like(q)
    lse = torch.full((B, H, N_q), float("-inf"), device=q.device)
    if B * H * N_q * N_k * H_kv:
        scale = D**-0.5 if sm_scale is None else sm_scale
        kernel[(B * H, triton.cdiv(N_q, BLOCK_M))](
            q, k, v, o, lse,
            *q.stride(), *k.stride(), *v.stride(), *o.stride(), *lse.stride(),
            H, H_kv, N_q, N_k, scale * 1.4426950408889634,
            D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=max(16, triton.next_power_of_2(D)),
            CAUSAL=causal,
        )  # fmt: skip
    return o, lse
