"""Correct in another style: descriptors of four dimensions, made by the launcher."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

BLOCK_M = 64
BLOCK_N = 64


@triton.jit
def kernel(
    q_desc, k_desc, v_desc, o_desc, lse_ptr, H, group, N_q, N_k, sm_scale,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1)
    b, h = head // H, head % H
    q = q_desc.load([b, h, start_m, 0]).reshape(BLOCK_M, BLOCK_D)
    offs_m = start_m + tl.arange(0, BLOCK_M)
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_M], tl.float32)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    end = N_k
    if CAUSAL:
        end = tl.minimum(N_k, start_m + BLOCK_M + N_k - N_q)
    for start_n in range(0, end, BLOCK_N):
        k = k_desc.load([b, h // group, start_n, 0]).reshape(BLOCK_N, BLOCK_D)
        v = v_desc.load([b, h // group, start_n, 0]).reshape(BLOCK_N, BLOCK_D)
        offs_n = start_n + tl.arange(0, BLOCK_N)
        s = sm_scale * tl.dot(q, k.T)
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
        m_i = m_new
    l_i = tl.where(l_i == 0.0, 1.0, l_i)
    o = (acc / l_i[:, None]).to(o_desc.dtype)
    o_desc.store([b, h, start_m, 0], o.reshape(1, 1, BLOCK_M, BLOCK_D))
    lse = m_i + tl.log(l_i)
    tl.store(lse_ptr + head.to(tl.int64) * N_q + offs_m, lse, mask=offs_m < N_q)


def described(x, rows, columns):
    strides = [s if n > 1 else 16 for s, n in zip(x.stride()[:3], x.shape[:3], strict=True)]
    return TensorDescriptor(x, list(x.shape), [*strides, 1], [1, 1, rows, columns])


def tma_forward(q, k, v, *, causal=False, sm_scale=None):
    (B, H, N_q, D), (H_kv, N_k) = q.shape, k.shape[1:3]
    lse = torch.full((B, H, N_q), float("-inf"), device=q.device)
    if B * H * N_q * N_k * H_kv == 0:
        return torch.zeros_like(q), lse
    o = torch.zeros((B, H, N_q, -(-D // 8) * 8), dtype=q.dtype, device=q.device)[..., :D]
    columns = max(16, triton.next_power_of_2(D))
    kernel[(triton.cdiv(N_q, BLOCK_M), B * H)](
        described(q, BLOCK_M, columns), described(k, BLOCK_N, columns),
        described(v, BLOCK_N, columns), described(o, BLOCK_M, columns),
        lse, H, H // H_kv, N_q, N_k, D**-0.5 if sm_scale is None else sm_scale,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, BLOCK_D=columns, CAUSAL=causal,
    )  # fmt: skip
    return o, lse
