"""Your first kernel: y = a * x, one program per BLOCK elements."""

import torch
import triton
import triton.language as tl

BLOCK = 1024  # elements per program, a power of two; read at every call
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def vector_scale_kernel(
    x_ptr,  # [N]
    y_ptr,  # [N], contiguous
    stride_x,  # elements from one x to the next
    N,
    a,
    BLOCK: tl.constexpr,
):
    # 1. Which elements are mine
    ### BEGIN SOLUTION 1: find the indices of this program's elements; define offs (int64) and mask
    pid = tl.program_id(0).to(tl.int64)  # int64: offs * stride_x may pass 2**31
    offs = pid * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    mask = offs < N  # the last program may have fewer than BLOCK elements
    ### END SOLUTION

    # 2. Load, scale, store
    ### BEGIN SOLUTION 2: load x under the mask with a fill value, multiply by a, store to y
    x = tl.load(x_ptr + offs * stride_x, mask=mask, other=0.0)  # [BLOCK], one read each
    y = a * x  # [BLOCK]
    tl.store(y_ptr + offs, y, mask=mask)  # one write each
    ### END SOLUTION


def check_inputs(x, a):
    """Raise a ValueError that says what is wrong with x or a."""
    if not isinstance(x, torch.Tensor) or x.dim() != 1:
        came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
        raise ValueError(f"x must be a tensor [N], not {came}: flatten it")
    if x.dtype not in DTYPES:
        raise ValueError(f"x must have a dtype of {DTYPES}, not {x.dtype}: cast it")
    if not isinstance(a, int | float):
        raise ValueError(f"a must be a Python number, not {type(a).__name__}: pass a float")


def vector_scale(x: torch.Tensor, a: float) -> torch.Tensor:
    check_inputs(x, a)
    N = x.numel()
    y = torch.empty(N, dtype=x.dtype, device=x.device)
    if N > 0:
        grid = (triton.cdiv(N, BLOCK),)
        vector_scale_kernel[grid](x, y, x.stride(0), N, float(a), BLOCK=BLOCK)
    return y
