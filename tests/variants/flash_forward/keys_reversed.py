"""Correct in another style: the last tile of keys first."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64
BLOCK_N = 64


@triton.jit
def tile(ptr, stride_row, stride_col, rows, cols, N, D):
    mask = (rows < N)[:, None] & (cols < D)[None, :]
    return tl.load(ptr + rows[:, None] * stride_row + cols[None, :] * stride_col, mask, 0.0)


@triton.jit
def kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    qb, qh, qm, qd, kb, kh, kn, kd, vb, vh, vn, vd, ob, oh, om, od, lb, lh, lm,
    H, N_q, N_k, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    b = (tl.program_id(0) // H).to(tl.int64)
    h = (tl.program_id(0) % H).to(tl.int64)
    offs_m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    q = tile(q_ptr + b * qb + h * qh, qm, qd, offs_m, offs_d, N_q, D)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for j in range(tl.cdiv(N_k, BLOCK_N) - 1, -1, -1):
        offs_n = j * BLOCK_N + tl.arange(0, BLOCK_N)
        k = tile(k_ptr + b * kb + h * kh, kn, kd, offs_n, offs_d, N_k, D)
        v = tile(v_ptr + b * vb + h * vh, vn, vd, offs_n, offs_d, N_k, D)
        s = sm_scale * tl.dot(q, tl.trans(k), input_precision="ieee")
        last = offs_m + (N_k - N_q) if CAUSAL else tl.zeros_like(offs_m) + (N_k - 1)
        s = tl.where(offs_n[None, :] <= tl.minimum(last, N_k - 1)[:, None], s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        m_ref = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp(m_i - m_ref)
        p = tl.exp(s - m_ref[:, None])
        l_i = alpha * l_i + tl.sum(p, 1)
        acc = alpha[:, None] * acc + tl.dot(p.to(v.dtype), v, input_precision="ieee")
        m_i = m_new
    l_i = tl.where(l_i == 0.0, 1.0, l_i)
    mask_m = offs_m < N_q
    o_ptrs = o_ptr + b * ob + h * oh + offs_m[:, None] * om + offs_d[None, :] * od
    tl.store(o_ptrs, acc / l_i[:, None], mask=mask_m[:, None] & (offs_d < D)[None, :])
    tl.store(lse_ptr + b * lb + h * lh + offs_m * lm, m_i + tl.log(l_i), mask=mask_m)


def flash_forward(q, k, v, *, causal=False, sm_scale=None):
    B, H, N_q, D = q.shape
    N_k = k.shape[2]
    o = torch.zeros_like(q)
    lse = torch.full((B, H, N_q), float("-inf"), dtype=torch.float32, device=q.device)
    if min(B, H, N_q, N_k) > 0:
        kernel[(B * H, triton.cdiv(N_q, BLOCK_M))](
            q, k, v, o, lse,
            *q.stride(), *k.stride(), *v.stride(), *o.stride(), *lse.stride(),
            H, N_q, N_k, D**-0.5 if sm_scale is None else sm_scale,
            D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=max(16, triton.next_power_of_2(D)),
            CAUSAL=causal,
        )  # fmt: skip
    return o, lse
