"""Correct in another style: one kernel asks each flag of the mask; exp; every load is masked."""

import torch
import triton
import triton.language as tl


@triton.jit
def fwd_kernel(
    q_ptr, k_ptr, v_ptr, mask_ptr, o_ptr, lse_ptr,
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_th, stride_tm, stride_tn,
    stride_ob, stride_oh, stride_om, stride_od,
    H, N_q, N_k, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    block, bh = tl.program_id(0), tl.program_id(1).to(tl.int64)
    b, h = bh // H, bh % H
    offs_m = block * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)[None, :]
    in_q = (offs_m < N_q)[:, None] & (offs_d < D)
    q_at = q_ptr + b * stride_qb + h * stride_qh + offs_m[:, None] * stride_qm
    q = tl.load(q_at + offs_d * stride_qd, mask=in_q, other=0.0)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for tile in range(tl.cdiv(N_k, BLOCK_N)):
        flag = tl.load(mask_ptr + h * stride_th + block * stride_tm + tile * stride_tn)
        if flag:
            offs_n = tile * BLOCK_N + tl.arange(0, BLOCK_N)
            in_k = (offs_n < N_k)[:, None] & (offs_d < D)
            k_at = k_ptr + b * stride_kb + h * stride_kh + offs_n[:, None] * stride_kn
            v_at = v_ptr + b * stride_vb + h * stride_vh + offs_n[:, None] * stride_vn
            k = tl.load(k_at + offs_d * stride_kd, mask=in_k, other=0.0)
            v = tl.load(v_at + offs_d * stride_vd, mask=in_k, other=0.0)
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * sm_scale
            s = tl.where((offs_n < N_k)[None, :], s, float("-inf"))
            m_new = tl.maximum(m_i, tl.max(s, 1))
            alpha = tl.exp(m_i - m_new)
            p = tl.exp(s - m_new[:, None])
            l_i = l_i * alpha + tl.sum(p, 1)
            acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")
            m_i = m_new
    l_safe = tl.where(l_i == 0.0, 1.0, l_i)
    o_at = o_ptr + b * stride_ob + h * stride_oh + offs_m[:, None] * stride_om
    tl.store(o_at + offs_d * stride_od, acc / l_safe[:, None], mask=in_q)
    tl.store(lse_ptr + bh * N_q + offs_m, m_i + tl.log(l_safe), mask=offs_m < N_q)


def block_sparse_forward(q, k, v, block_mask, *, block_m, block_n, sm_scale=None):
    B, H, N_q, D = q.shape
    N_k = k.shape[2]
    o = torch.zeros_like(q)
    lse = torch.full([B, H, N_q], float("-inf"), dtype=torch.float32, device=q.device)
    if o.numel() and N_k:
        mask = block_mask.expand(H, *block_mask.shape[1:])
        sm_scale = D**-0.5 if sm_scale is None else sm_scale
        fwd_kernel[(triton.cdiv(N_q, block_m), B * H)](
            q, k, v, mask, o, lse,
            *q.stride(), *k.stride(), *v.stride(), *mask.stride(), *o.stride(),
            H, N_q, N_k, sm_scale, D=D, BLOCK_M=block_m, BLOCK_N=block_n,
            BLOCK_D=max(16, triton.next_power_of_2(D)),
        )  # fmt: skip
    return o, lse
