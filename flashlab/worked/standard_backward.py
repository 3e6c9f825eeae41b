"""The backward pass of standard attention in five kernels, with p, dp and ds in memory.

What recomputation is compared with (chapter 06): seven passes over an N_q x N_k matrix.
"""

import math

import torch
import triton
import triton.language as tl

from flashlab.worked import standard
from flashlab.worked.standard import mix_kernel, scores_kernel, softmax_kernel


@triton.jit
def softmax_backward_kernel(
    p_ptr, dp_ptr, ds_ptr,  # contiguous [B * H, N_q, N_k]
    N_k,
    sm_scale,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """ds = sm_scale * p * (dp - sum(p * dp)) along a row, one program a row."""
    row = tl.program_id(0).to(tl.int64) * N_k
    offs = tl.arange(0, BLOCK)
    p = tl.load(p_ptr + row + offs, mask=offs < N_k, other=0.0).to(tl.float32)  # [BLOCK]
    dp = tl.load(dp_ptr + row + offs, mask=offs < N_k, other=0.0).to(tl.float32)  # [BLOCK]
    ds = sm_scale * p * (dp - tl.sum(p * dp, 0))
    tl.store(ds_ptr + row + offs, ds.to(ds_ptr.dtype.element_ty), mask=offs < N_k)


@triton.jit
def mix_transposed_kernel(
    p_ptr,  # contiguous [B * H, N_q, N_k]
    x_ptr,  # [B, H, N_q, D]
    y_ptr,  # [B, H, N_k, D]
    stride_xb, stride_xh, stride_xm, stride_xd,
    stride_yb, stride_yh, stride_yn, stride_yd,
    H, N_q, N_k,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """y = p^T x, one program a block of keys."""
    start_n, bh = tl.program_id(0) * BLOCK_N, tl.program_id(1).to(tl.int64)
    b, h = bh // H, bh % H
    offs_n = start_n + tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, BLOCK_D)
    mask_n, mask_d = offs_n < N_k, offs_d < D
    acc = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    for start_k in range(0, N_q, BLOCK_K):
        offs_k = start_k + tl.arange(0, BLOCK_K)
        mask_k = offs_k < N_q
        p_at = p_ptr + (bh * N_q + offs_k[:, None]) * N_k + offs_n[None, :]
        p = tl.load(p_at, mask=mask_k[:, None] & mask_n[None, :], other=0.0)  # [BLOCK_K, BLOCK_N]
        x_tile = b * stride_xb + h * stride_xh + offs_k.to(tl.int64)[:, None] * stride_xm
        x_at = x_ptr + x_tile + offs_d[None, :] * stride_xd
        x = tl.load(x_at, mask=mask_k[:, None] & mask_d[None, :], other=0.0)  # [BLOCK_K, BLOCK_D]
        acc += tl.dot(tl.trans(p), x, input_precision="ieee")
    y_tile = b * stride_yb + h * stride_yh + offs_n.to(tl.int64)[:, None] * stride_yn
    y_at = y_ptr + y_tile + offs_d[None, :] * stride_yd
    tl.store(y_at, acc.to(y_ptr.dtype.element_ty), mask=mask_n[:, None] & mask_d[None, :])


def standard_weights(
    q: torch.Tensor, k: torch.Tensor, *, causal: bool = False, sm_scale: float | None = None
) -> torch.Tensor:
    """p [B * H, N_q, N_k], dtype of q: what a standard forward pass keeps for the backward one."""
    (B, H, N_q, D), N_k = q.shape, k.shape[2]
    s = torch.empty(B * H, N_q, N_k, dtype=q.dtype, device=q.device)
    p = torch.empty_like(s)
    scale = 1.0 / math.sqrt(D) if sm_scale is None else sm_scale
    _scores(q, k, s, scale)
    block = max(16, triton.next_power_of_2(N_k))
    softmax_kernel[(B * H * N_q,)](
        s, p, N_q, N_k, CAUSAL=causal, BLOCK=block, num_warps=_warps(block)
    )
    return p


def standard_backward(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    p: torch.Tensor,
    do: torch.Tensor,
    *,
    sm_scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients from stored weights, one kernel a step.

    Args:
        q, do: [B, H, N_q, D]; k, v: [B, H, N_k, D]; any strides; fp16, bf16 or fp32.
        p: [B * H, N_q, N_k]; what ``standard_weights`` gave; 0 where a key is masked.
        sm_scale: None means 1/sqrt(D).

    Returns:
        dq, dk, dv: like q, k and v.

    Source: Dao et al., 2022, Algorithm 3 (arXiv:2205.14135).
    """
    (B, H, N_q, D), N_k = q.shape, k.shape[2]
    dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
    dp, ds = torch.empty_like(p), torch.empty_like(p)
    scale = 1.0 / math.sqrt(D) if sm_scale is None else sm_scale
    block = max(16, triton.next_power_of_2(N_k))
    _mix_transposed(p, do, dv)
    _scores(do, v, dp, 1.0)
    softmax_backward_kernel[(B * H * N_q,)](
        p, dp, ds, N_k, scale, BLOCK=block, num_warps=_warps(block)
    )
    mix_kernel[triton.cdiv(N_q, standard.BLOCK_M), B * H](
        ds, k, dq, *k.stride(), *dq.stride(), H, N_q, N_k,
        D=D, BLOCK_D=_wide(D), BLOCK_M=standard.BLOCK_M, BLOCK_K=standard.BLOCK_K,
        num_warps=8, num_stages=3,
    )  # fmt: skip
    _mix_transposed(ds, q, dk)
    return dq, dk, dv


def _scores(x: torch.Tensor, y: torch.Tensor, s: torch.Tensor, scale: float) -> None:
    """s = x y^T * scale."""
    (B, H, N_q, D), N_k = x.shape, y.shape[2]
    scores_kernel[triton.cdiv(N_q, standard.BLOCK_M), B * H](
        x, y, s, *x.stride(), *y.stride(), H, N_q, N_k, scale,
        D=D, BLOCK_D=_wide(D), BLOCK_M=standard.BLOCK_M, BLOCK_N=standard.BLOCK_N,
        num_warps=8, num_stages=3,
    )  # fmt: skip


def _mix_transposed(p: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> None:
    """y = p^T x."""
    (B, H, N_q, D), N_k = x.shape, y.shape[2]
    mix_transposed_kernel[triton.cdiv(N_k, standard.BLOCK_N), B * H](
        p, x, y, *x.stride(), *y.stride(), H, N_q, N_k,
        D=D, BLOCK_D=_wide(D), BLOCK_N=standard.BLOCK_N, BLOCK_K=standard.BLOCK_K,
        num_warps=8, num_stages=3,
    )  # fmt: skip


def _wide(D: int) -> int:
    return max(16, triton.next_power_of_2(D))


def _warps(block: int) -> int:
    return min(max(block // 1024, 1), 16)
