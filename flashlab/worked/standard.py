"""Standard attention as three Triton kernels: what FlashAttention is compared with (chapter 02).

Every step reads its inputs from memory and writes its output there, so s and p travel four times.
"""

import math

import torch
import triton
import triton.language as tl

BLOCK_M, BLOCK_N, BLOCK_K = 128, 128, 64


@triton.jit
def scores_kernel(
    q_ptr,
    k_ptr,
    s_ptr,  # contiguous [B * H, N_q, N_k]
    stride_qb, stride_qh, stride_qm, stride_qd,
    stride_kb, stride_kh, stride_kn, stride_kd,
    H, N_q, N_k,
    sm_scale,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """s = q k^T * sm_scale, one program a block of rows."""
    # 1. Which rows are mine
    start_m, bh = tl.program_id(0) * BLOCK_M, tl.program_id(1).to(tl.int64)
    b, h = bh // H, bh % H
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    mask_m, mask_d = offs_m < N_q, offs_d < D

    # 2. The queries stay on chip: BLOCK_M * D elements
    q_tile = b * stride_qb + h * stride_qh + offs_m.to(tl.int64)[:, None] * stride_qm
    q_at = q_ptr + q_tile + offs_d[None, :] * stride_qd
    q = tl.load(q_at, mask=mask_m[:, None] & mask_d[None, :], other=0.0)  # [BLOCK_M, BLOCK_D]

    # 3. Load keys, multiply, store: BLOCK_N * D and BLOCK_M * BLOCK_N elements. The loop lets the
    #    next keys arrive while a tile is stored: 1.9 TB/s of stores without it, on an H200
    for start_n in range(0, N_k, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        mask_n = offs_n < N_k
        k_tile = b * stride_kb + h * stride_kh + offs_n.to(tl.int64)[:, None] * stride_kn
        k_at = k_ptr + k_tile + offs_d[None, :] * stride_kd
        k = tl.load(k_at, mask=mask_n[:, None] & mask_d[None, :], other=0.0)  # [BLOCK_N, BLOCK_D]
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * sm_scale  # [BLOCK_M, BLOCK_N]
        s_at = s_ptr + (bh * N_q + offs_m[:, None]) * N_k + offs_n[None, :]
        tl.store(s_at, s.to(s_ptr.dtype.element_ty), mask=mask_m[:, None] & mask_n[None, :])


@triton.jit
def softmax_kernel(
    s_ptr, p_ptr,  # contiguous [B * H, N_q, N_k]
    N_q, N_k,
    CAUSAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """p = softmax(s) along a row, one program a row; masked keys get p = 0."""
    row = tl.program_id(0).to(tl.int64)
    offs = tl.arange(0, BLOCK)
    seen = offs < N_k
    if CAUSAL:  # the mask is applied after the load: the whole row moves
        seen = seen & (offs <= row % N_q + N_k - N_q)
    s = tl.load(s_ptr + row * N_k + offs, mask=offs < N_k, other=0.0).to(tl.float32)  # [BLOCK]
    s = tl.where(seen, s, -float("inf"))
    m = tl.max(s, 0)
    p = tl.exp(s - tl.where(m == -float("inf"), 0.0, m))
    l_sum = tl.sum(p, 0)
    p = p / tl.where(l_sum == 0.0, 1.0, l_sum)
    tl.store(p_ptr + row * N_k + offs, p.to(p_ptr.dtype.element_ty), mask=offs < N_k)


@triton.jit
def mix_kernel(
    p_ptr,  # contiguous [B * H, N_q, N_k]
    v_ptr,
    o_ptr,
    stride_vb, stride_vh, stride_vn, stride_vd,
    stride_ob, stride_oh, stride_om, stride_od,
    H, N_q, N_k,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """o = p v, one program a block of rows."""
    start_m, bh = tl.program_id(0) * BLOCK_M, tl.program_id(1).to(tl.int64)
    b, h = bh // H, bh % H
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, BLOCK_D)
    mask_m, mask_d = offs_m < N_q, offs_d < D
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for start_k in range(0, N_k, BLOCK_K):
        offs_k = start_k + tl.arange(0, BLOCK_K)
        mask_k = offs_k < N_k
        p_at = p_ptr + (bh * N_q + offs_m[:, None]) * N_k + offs_k[None, :]
        p = tl.load(p_at, mask=mask_m[:, None] & mask_k[None, :], other=0.0)  # [BLOCK_M, BLOCK_K]
        v_tile = b * stride_vb + h * stride_vh + offs_k.to(tl.int64)[:, None] * stride_vn
        v_at = v_ptr + v_tile + offs_d[None, :] * stride_vd
        v = tl.load(v_at, mask=mask_k[:, None] & mask_d[None, :], other=0.0)  # [BLOCK_K, BLOCK_D]
        acc += tl.dot(p, v, input_precision="ieee")
    o_tile = b * stride_ob + h * stride_oh + offs_m.to(tl.int64)[:, None] * stride_om
    o_at = o_ptr + o_tile + offs_d[None, :] * stride_od
    tl.store(o_at, acc.to(o_ptr.dtype.element_ty), mask=mask_m[:, None] & mask_d[None, :])


def standard_forward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    sm_scale: float | None = None,
) -> torch.Tensor:
    """Attention in three kernels, with s and p in memory.

    Args:
        q: [B, H, N_q, D]; k, v: [B, H, N_k, D]; any strides; fp16, bf16 or fp32.
        causal: Bottom-right aligned.
        sm_scale: None means 1/sqrt(D).

    Returns:
        o: [B, H, N_q, D], dtype of q; a row that sees no key is 0.
    """
    B, H, N_q, D = q.shape
    N_k = k.shape[2]
    o = torch.empty_like(q)
    s = torch.empty(B * H, N_q, N_k, dtype=q.dtype, device=q.device)
    p = torch.empty_like(s)
    if sm_scale is None:
        sm_scale = 1.0 / math.sqrt(D)
    block_d = max(16, triton.next_power_of_2(D))
    sizes = {"D": D, "BLOCK_D": block_d}
    row_blocks = triton.cdiv(N_q, BLOCK_M)
    scores_kernel[row_blocks, B * H](
        q, k, s, *q.stride(), *k.stride(), H, N_q, N_k, sm_scale,
        **sizes, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=8, num_stages=3,
    )  # fmt: skip
    block = max(16, triton.next_power_of_2(N_k))
    warps = min(max(block // 1024, 1), 16)
    softmax_kernel[(B * H * N_q,)](s, p, N_q, N_k, CAUSAL=causal, BLOCK=block, num_warps=warps)
    mix_kernel[row_blocks, B * H](
        p, v, o, *v.stride(), *o.stride(), H, N_q, N_k,
        **sizes, BLOCK_M=BLOCK_M, BLOCK_K=BLOCK_K, num_warps=8, num_stages=3,
    )  # fmt: skip
    return o
