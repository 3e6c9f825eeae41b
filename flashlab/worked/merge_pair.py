"""One part more of attention merged in place, in one kernel: what a ring does every round.

Beside lab 03's kernel, which merges any number of parts that lie in one tensor.
"""

import torch
import triton
import triton.language as tl

BLOCK_M = 16  # query rows of a program


@triton.jit
def merge_pair_kernel(
    o_ptr,  # [B, H, N, D], read and written
    lse_ptr,  # [B, H, N], fp32, read and written
    part_ptr,  # [B, H, N, D]
    lse_part_ptr,  # [B, H, N], fp32
    stride_ob, stride_oh, stride_om, stride_od,
    stride_lb, stride_lh, stride_lm,
    stride_pb, stride_ph, stride_pm, stride_pd,
    stride_sb, stride_sh, stride_sm,
    H, N,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_D: tl.constexpr,
):  # fmt: skip
    """o = (1 - w) * o + w * o_part with w = sigmoid(lse_part - lse); lse = logaddexp of both."""
    pid, blocks = tl.program_id(0), tl.cdiv(N, BLOCK_M)
    head = (pid // blocks).to(tl.int64)  # b * H + h; int64: an offset may pass 2**31
    b, h = head // H, head % H
    offs_m = pid % blocks * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)  # [BLOCK_M]
    offs_d = tl.arange(0, BLOCK_D)  # [BLOCK_D]
    mask_m = offs_m < N
    mask = mask_m[:, None] & (offs_d < D)[None, :]  # [BLOCK_M, BLOCK_D]
    lse_ptrs = lse_ptr + b * stride_lb + h * stride_lh + offs_m * stride_lm
    lse_part_ptrs = lse_part_ptr + b * stride_sb + h * stride_sh + offs_m * stride_sm
    o_ptrs = o_ptr + b * stride_ob + h * stride_oh
    o_ptrs += offs_m[:, None] * stride_om + offs_d[None, :] * stride_od
    part_ptrs = part_ptr + b * stride_pb + h * stride_ph
    part_ptrs += offs_m[:, None] * stride_pm + offs_d[None, :] * stride_pd

    lse = tl.load(lse_ptrs, mask=mask_m, other=0.0)  # [BLOCK_M]
    lse_part = tl.load(lse_part_ptrs, mask=mask_m, other=0.0)
    o = tl.load(o_ptrs, mask=mask, other=0.0).to(tl.float32)  # [BLOCK_M, BLOCK_D]
    part = tl.load(part_ptrs, mask=mask, other=0.0).to(tl.float32)

    top = tl.maximum(lse, lse_part)  # finite: a token sees itself
    mine, theirs = tl.exp(lse - top), tl.exp(lse_part - top)
    both = mine + theirs
    o = (mine / both)[:, None] * o + (theirs / both)[:, None] * part
    tl.store(o_ptrs, o.to(o_ptr.dtype.element_ty), mask=mask)
    tl.store(lse_ptrs, top + tl.log(both), mask=mask_m)


def merge_pair(
    o: torch.Tensor, lse: torch.Tensor, o_part: torch.Tensor, lse_part: torch.Tensor
) -> None:
    """Add attention over further keys to that over the keys so far.

    Args:
        o: [B, H, N, D]; over the keys so far; changed in place, any strides.
        lse: [B, H, N], fp32 and finite; likewise.
        o_part, lse_part: Of the same shapes; over the further keys.
    """
    B, H, N, D = o.shape
    if not o.numel():
        return
    merge_pair_kernel[(triton.cdiv(N, BLOCK_M) * B * H,)](
        o, lse, o_part, lse_part,
        *o.stride(), *lse.stride(), *o_part.stride(), *lse_part.stride(),
        H, N,
        D=D, BLOCK_M=BLOCK_M, BLOCK_D=triton.next_power_of_2(D),
        num_warps=4,
    )  # fmt: skip
