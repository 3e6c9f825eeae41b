"""Correct in another style: tensor descriptors, one a head, instead of pointers and masks."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64
BLOCK_N = 64


@triton.jit
def kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr,
    qb, qh, qm, kb, kh, kn, vb, vh, vn, ob, oh, om,
    H, N_q, N_k, sm_scale,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1).to(tl.int64)
    b, h = head // H, head % H
    q_desc = tl.make_tensor_descriptor(
        q_ptr + b * qb + h * qh, [N_q, D], [qm, 1], [BLOCK_M, BLOCK_D]
    )
    k_desc = tl.make_tensor_descriptor(
        k_ptr + b * kb + h * kh, [N_k, D], [kn, 1], [BLOCK_N, BLOCK_D]
    )
    v_desc = tl.make_tensor_descriptor(
        v_ptr + b * vb + h * vh, [N_k, D], [vn, 1], [BLOCK_N, BLOCK_D]
    )
    o_desc = tl.make_tensor_descriptor(
        o_ptr + b * ob + h * oh, [N_q, D], [om, 1], [BLOCK_M, BLOCK_D]
    )
    q = q_desc.load([start_m, 0])
    offs_m = start_m + tl.arange(0, BLOCK_M)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for start_n in range(0, N_k, BLOCK_N):
        k = k_desc.load([start_n, 0])
        v = v_desc.load([start_n, 0])
        offs_n = start_n + tl.arange(0, BLOCK_N)
        s = sm_scale * tl.dot(q, tl.trans(k), input_precision="ieee")
        visible = (offs_n < N_k)[None, :]
        if CAUSAL:
            visible = visible & (offs_n[None, :] <= offs_m[:, None] + N_k - N_q)
        s = tl.where(visible, s, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        m_ref = tl.where(m_new == float("-inf"), 0.0, m_new)
        alpha = tl.exp(m_i - m_ref)
        p = tl.exp(s - m_ref[:, None])
        l_i = alpha * l_i + tl.sum(p, 1)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")
        m_i = m_new
    l_i = tl.where(l_i == 0.0, 1.0, l_i)
    o_desc.store([start_m, 0], (acc / l_i[:, None]).to(q.dtype))
    tl.store(lse_ptr + head * N_q + offs_m, m_i + tl.log(l_i), mask=offs_m < N_q)


def described(x):
    """x, or a copy where a descriptor cannot describe it: 16-byte steps, columns side by side."""
    sixteen = 16 // x.element_size()
    steps = [s for s, n in zip(x.stride()[:3], x.shape[:3], strict=True) if n > 1]
    fits = (
        x.stride(3) == 1 and x.data_ptr() % 16 == 0 and all(s and s % sixteen == 0 for s in steps)
    )
    return x if fits else x.clone(memory_format=torch.contiguous_format)


def flash_forward(q, k, v, *, causal=False, sm_scale=None):
    B, H, N_q, D = q.shape
    N_k = k.shape[2]
    o = torch.zeros((B, H, N_q, D), dtype=q.dtype, device=q.device)
    lse = torch.full((B, H, N_q), float("-inf"), device=q.device)
    if B * H * N_q * N_k == 0:
        return o, lse
    if q.is_cuda:
        triton.set_allocator(
            lambda size, align, stream: torch.empty(size, dtype=torch.int8, device=q.device)
        )
    q, k, v = described(q), described(k), described(v)
    kernel[(triton.cdiv(N_q, BLOCK_M), B * H)](
        q, k, v, o, lse,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *o.stride()[:3],
        H, N_q, N_k, D**-0.5 if sm_scale is None else sm_scale,
        D=D, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=max(16, triton.next_power_of_2(D)),
        CAUSAL=causal,
    )  # fmt: skip
    return o, lse
