"""The eight kernels whose bytes and FLOPs the acid tests derive by hand, and their launchers."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


def cdiv(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


@triton.jit
def flash_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    stride_qh, stride_qm, stride_kh, stride_kn, stride_oh, stride_om,
    N_q, N_k, group, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1).to(tl.int64)
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, D)
    mask_m = offs_m < N_q
    q_ptrs = q_ptr + head * stride_qh + offs_m[:, None] * stride_qm + offs_d[None, :]
    q = tl.load(q_ptrs, mask=mask_m[:, None], other=0.0)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    end = N_k
    if CAUSAL:
        end = tl.minimum(N_k, start_m + BLOCK_M)
    for start_n in range(0, end, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        mask_n = offs_n < N_k
        kv = (head // group) * stride_kh + offs_n[:, None] * stride_kn + offs_d[None, :]
        k = tl.load(k_ptr + kv, mask=mask_n[:, None], other=0.0)
        s = tl.dot(q, tl.trans(k)) * sm_scale
        keep = mask_n[None, :]
        if CAUSAL:
            keep = keep & (offs_m[:, None] >= offs_n[None, :])
        s = tl.where(keep, s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        alpha = tl.exp(m_i - m_new)
        p = tl.exp(s - m_new[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(v_ptr + kv, mask=mask_n[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        m_i = m_new
    acc = acc / l_i[:, None]
    o_ptrs = o_ptr + head * stride_oh + offs_m[:, None] * stride_om + offs_d[None, :]
    tl.store(o_ptrs, acc.to(o_ptr.dtype.element_ty), mask=mask_m[:, None])
    tl.store(lse_ptr + head * N_q + offs_m, m_i + tl.log(l_i), mask=mask_m)


def flash(q, k, v, BM, BN, causal=False):
    """Flash forward of q [H, N_q, D], k and v [H_kv, N_k, D] -> (o, lse)."""
    H, N_q, D = q.shape
    o, lse = torch.empty_like(q), torch.empty(H, N_q)
    flash_kernel[(cdiv(N_q, BM), H)](
        q, k, v, o, lse,
        q.stride(0), q.stride(1), k.stride(0), k.stride(1), o.stride(0), o.stride(1),
        N_q, k.shape[1], H // k.shape[0], D**-0.5, D=D, BLOCK_M=BM, BLOCK_N=BN, CAUSAL=causal,
    )  # fmt: skip
    return o, lse
