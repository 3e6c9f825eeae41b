"""A small flash forward of one head, compiled by the tests; read as text."""

import torch
import triton
import triton.language as tl

BLOCK_M, BLOCK_N, STAGES, WARPS = 64, 64, 2, 4


@triton.jit
def flash_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    o_ptr,
    bias_ptr,
    stride_m,
    stride_d,
    N,
    scale,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    D: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * stride_m + cols * stride_d, rows[:, None] < N, 0.0)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, D], tl.float32)
    for start in range(0, N, BLOCK_N):
        keys = start + tl.arange(0, BLOCK_N)
        where = keys[:, None] * stride_m + cols * stride_d
        k = tl.load(k_ptr + where, keys[:, None] < N, 0.0)
        v = tl.load(v_ptr + where, keys[:, None] < N, 0.0)
        s = tl.where(keys < N, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp(s - m_new[:, None])
        alpha = tl.exp(m_i - m_new)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_new
    if bias_ptr is not None:
        acc += tl.load(bias_ptr + cols)
    o = (acc / l_i[:, None]).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + rows[:, None] * stride_m + cols * stride_d, o, rows[:, None] < N)


def flash(q, bias=None, **options):
    o = torch.empty_like(q)
    N, D = q.shape
    options = {"num_warps": WARPS, "num_stages": STAGES, **options}
    flash_kernel[(triton.cdiv(N, BLOCK_M),)](
        q, q, q, o, bias, *q.stride(), N, D**-0.5, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, D=D, **options
    )
    return o
