"""Softmax of rows that are longer than a tile, in the two ways that chapter 03 starts from."""

import torch
import triton
import triton.language as tl

BLOCK_M, BLOCK_N = 16, 128


@triton.jit
def naive_softmax_kernel(
    x_ptr, p_ptr,  # contiguous [R, C]
    R, C,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """p = exp(x) / sum(exp(x)): two passes over the row, and it overflows."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    total = tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, C, BLOCK_N):  # pass 1: the sum
        columns = start + tl.arange(0, BLOCK_N)
        here = (rows < R)[:, None] & (columns < C)[None, :]
        at = rows[:, None] * C + columns[None, :]
        x = tl.load(x_ptr + at, mask=here, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(x), 1)
    for start in range(0, C, BLOCK_N):  # pass 2: the weights
        columns = start + tl.arange(0, BLOCK_N)
        here = (rows < R)[:, None] & (columns < C)[None, :]
        at = rows[:, None] * C + columns[None, :]
        x = tl.load(x_ptr + at, mask=here, other=-float("inf")).to(tl.float32)
        p = tl.exp(x) / total[:, None]
        tl.store(p_ptr + at, p.to(p_ptr.dtype.element_ty), mask=here)


@triton.jit
def safe_softmax_kernel(
    x_ptr, p_ptr,  # contiguous [R, C]
    R, C,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """p = exp(x - m) / sum(exp(x - m)), m the row's maximum: three passes over the row."""
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    m = tl.full([BLOCK_M], -float("inf"), tl.float32)
    for start in range(0, C, BLOCK_N):  # pass 1: the maximum
        columns = start + tl.arange(0, BLOCK_N)
        here = (rows < R)[:, None] & (columns < C)[None, :]
        at = rows[:, None] * C + columns[None, :]
        x = tl.load(x_ptr + at, mask=here, other=-float("inf")).to(tl.float32)
        m = tl.maximum(m, tl.max(x, 1))
    total = tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, C, BLOCK_N):  # pass 2: the sum
        columns = start + tl.arange(0, BLOCK_N)
        here = (rows < R)[:, None] & (columns < C)[None, :]
        at = rows[:, None] * C + columns[None, :]
        x = tl.load(x_ptr + at, mask=here, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(x - m[:, None]), 1)
    for start in range(0, C, BLOCK_N):  # pass 3: the weights
        columns = start + tl.arange(0, BLOCK_N)
        here = (rows < R)[:, None] & (columns < C)[None, :]
        at = rows[:, None] * C + columns[None, :]
        x = tl.load(x_ptr + at, mask=here, other=-float("inf")).to(tl.float32)
        p = tl.exp(x - m[:, None]) / total[:, None]
        tl.store(p_ptr + at, p.to(p_ptr.dtype.element_ty), mask=here)


def _run(kernel, x: torch.Tensor) -> torch.Tensor:
    p = torch.empty_like(x)
    R, C = x.shape
    kernel[(triton.cdiv(R, BLOCK_M),)](x, p, R, C, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=4)
    return p


def naive_softmax(x: torch.Tensor) -> torch.Tensor:
    """softmax(x) of a contiguous [R, C] without a maximum; NaN where exp(x) overflows."""
    return _run(naive_softmax_kernel, x)


def safe_softmax(x: torch.Tensor) -> torch.Tensor:
    """softmax(x) of a contiguous [R, C], each row's maximum subtracted; no row of -inf alone."""
    return _run(safe_softmax_kernel, x)
