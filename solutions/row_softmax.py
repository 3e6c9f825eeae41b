"""Softmax of every row: a program holds its rows on chip from the one load to the one store."""

import torch
import triton
import triton.language as tl

BLOCK_M = 1  # rows of a program, a power of two; read at every call
MAX_COLUMNS = 32768  # 32 numbers in each of 1,024 threads: a longer row does not fit on chip
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def row_softmax_kernel(
    x_ptr,  # [R, C]
    p_ptr,  # [R, C]
    stride_xm, stride_xn,  # elements from one row, one column of x to the next
    stride_pm, stride_pn,
    R, C,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,  # C up to a power of two: a tile's size has to be one
):  # fmt: skip
    # Given: which rows are mine. int64: an offset may pass 2**31
    start_m = tl.program_id(0).to(tl.int64) * BLOCK_M
    offs_m = start_m + tl.arange(0, BLOCK_M)  # [BLOCK_M], my rows
    offs_n = tl.arange(0, BLOCK_N).to(tl.int64)  # [BLOCK_N], all columns

    # 1. Point at the tile
    ### BEGIN SOLUTION 1: define mask (row and column exist), x_ptrs and p_ptrs [BLOCK_M, BLOCK_N]
    mask = (offs_m < R)[:, None] & (offs_n < C)[None, :]
    x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_n[None, :] * stride_xn
    p_ptrs = p_ptr + offs_m[:, None] * stride_pm + offs_n[None, :] * stride_pn
    ### END SOLUTION

    # 2. Load, maximum of each row
    ### BEGIN SOLUTION 2: load x in fp32, -inf where a lane is off; define x, m_i (finite)
    x = tl.load(x_ptrs, mask=mask, other=float("-inf")).to(tl.float32)  # one read each
    m_i = tl.max(x, 1)
    m_i = tl.where(m_i == float("-inf"), 0.0, m_i)  # only -inf in the row: -inf - -inf is NaN
    ### END SOLUTION

    # 3. Exponentials, sum, divide, store
    ### BEGIN SOLUTION 3: divide exp(x - m_i) by the sum of its row, never 0 / 0; store to p_ptrs
    p = tl.exp(x - m_i[:, None])  # [BLOCK_M, BLOCK_N]
    l_i = tl.sum(p, 1)  # [BLOCK_M]
    l_i = tl.where(l_i == 0.0, 1.0, l_i)  # only -inf in the row: p is 0
    tl.store(p_ptrs, p / l_i[:, None], mask=mask)  # one write each, rounded to the dtype of p
    ### END SOLUTION


def check_inputs(x):
    """Raise a ValueError that says what is wrong with x."""
    if not isinstance(x, torch.Tensor) or x.dim() != 2:
        came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
        raise ValueError(f"x must be a tensor [R, C], not {came}: reshape it")
    if x.dtype not in DTYPES:
        raise ValueError(f"x must have a dtype of {DTYPES}, not {x.dtype}: cast it")


def row_softmax(x: torch.Tensor) -> torch.Tensor:
    check_inputs(x)
    R, C = x.shape
    if C > MAX_COLUMNS:
        raise ValueError(f"x must have C <= {MAX_COLUMNS} to fit on chip, not {list(x.shape)}")
    p = torch.empty([R, C], dtype=x.dtype, device=x.device)
    if R * C == 0:  # nothing to launch for
        return p
    block_n = triton.next_power_of_2(C)
    row_softmax_kernel[(triton.cdiv(R, BLOCK_M),)](
        x, p,
        *x.stride(), *p.stride(),
        R, C,
        BLOCK_M=BLOCK_M, BLOCK_N=block_n,
        # 16 numbers a thread: two reads of 16 bytes in fp16, and warps enough to wait in turns
        num_warps=min(max(BLOCK_M * block_n // 512, 1), 32),
    )  # fmt: skip
    return p
