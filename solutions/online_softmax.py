"""Softmax of rows of any length: a tile of columns at a time, with a running maximum and sum."""

import torch
import triton
import triton.language as tl

BLOCK_M = 4  # rows of a program, a power of two; read at every call
BLOCK_N = 1024  # columns of a tile, likewise; rows may be longer
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def online_softmax_kernel(
    x_ptr,  # [R, C]
    p_ptr,  # [R, C]
    lse_ptr,  # [R], fp32
    stride_xm, stride_xn,  # elements from one row, one column of x to the next
    stride_pm, stride_pn,
    R, C,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):  # fmt: skip
    # Given: which rows are mine. int64: an offset may pass 2**31
    start_m = tl.program_id(0).to(tl.int64) * BLOCK_M
    offs_m = start_m + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    mask_m = offs_m < R
    x_rows = x_ptr + offs_m[:, None] * stride_xm  # [BLOCK_M, 1]
    p_rows = p_ptr + offs_m[:, None] * stride_pm

    # 1. Running state
    ### BEGIN SOLUTION 1: start the state in fp32, of no columns yet: define m_i, l_i [BLOCK_M]
    m_i = tl.full([BLOCK_M], float("-inf"), tl.float32)  # largest element so far
    l_i = tl.zeros([BLOCK_M], tl.float32)  # sum of exp(x - m_i) so far
    ### END SOLUTION

    for start_n in range(0, C, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N).to(tl.int64)  # [BLOCK_N], this tile
        x_ptrs = x_rows + offs_n[None, :] * stride_xn  # [BLOCK_M, BLOCK_N]
        mask = mask_m[:, None] & (offs_n < C)[None, :]

        # 2. Load the tile, new maximum
        ### BEGIN SOLUTION 2: define x (fp32, -inf where a lane is off), m_new, m_safe (finite)
        x = tl.load(x_ptrs, mask=mask, other=float("-inf")).to(tl.float32)  # first read
        m_new = tl.maximum(m_i, tl.max(x, 1))
        m_safe = tl.where(m_new == float("-inf"), 0.0, m_new)  # nothing yet: -inf - -inf is NaN
        ### END SOLUTION

        # 3. Rescale, add
        ### BEGIN SOLUTION 3: bring l_i from m_i to the new maximum, add this tile; update l_i, m_i
        alpha = tl.exp(m_i - m_safe)  # exp(-m_new) in every term instead of exp(-m_i)
        l_i = alpha * l_i + tl.sum(tl.exp(x - m_safe[:, None]), 1)
        m_i = m_new
        ### END SOLUTION

    # 4. Finish the statistics
    ### BEGIN SOLUTION 4: define lse, the log-sum-exp in nats (-inf if all is -inf); store it
    lse = m_i + tl.log(tl.where(l_i == 0.0, 1.0, l_i))  # no element: -inf + 0
    tl.store(lse_ptr + offs_m, lse, mask=mask_m)  # once per row
    ### END SOLUTION

    for start_n in range(0, C, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N).to(tl.int64)
        x_ptrs = x_rows + offs_n[None, :] * stride_xn
        mask = mask_m[:, None] & (offs_n < C)[None, :]
        p_ptrs = p_rows + offs_n[None, :] * stride_pn

        # 5. Second pass: normalise
        ### BEGIN SOLUTION 5: load x again, store exp(x - lse) to p_ptrs; 0 where lse is -inf
        x = tl.load(x_ptrs, mask=mask, other=float("-inf")).to(tl.float32)  # second read
        p = tl.exp(x - tl.where(lse == float("-inf"), 0.0, lse)[:, None])  # already normalised
        tl.store(p_ptrs, p, mask=mask)  # one write each, rounded to the dtype of p
        ### END SOLUTION


def check_inputs(x):
    """Raise a ValueError that says what is wrong with x."""
    if not isinstance(x, torch.Tensor) or x.dim() != 2:
        came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
        raise ValueError(f"x must be a tensor [R, C], not {came}: reshape it")
    if x.dtype not in DTYPES:
        raise ValueError(f"x must have a dtype of {DTYPES}, not {x.dtype}: cast it")


def online_softmax(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    check_inputs(x)
    R, C = x.shape
    p = torch.empty([R, C], dtype=x.dtype, device=x.device)
    if R * C == 0:  # nothing to launch for
        return p, torch.full([R], float("-inf"), dtype=torch.float32, device=x.device)
    lse = torch.empty([R], dtype=torch.float32, device=x.device)
    online_softmax_kernel[(triton.cdiv(R, BLOCK_M),)](
        x, p, lse,
        *x.stride(), *p.stride(),
        R, C,
        BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
        num_warps=min(max(BLOCK_M * BLOCK_N // 512, 1), 32),  # 16 numbers a thread
    )  # fmt: skip
    return p, lse
