"""Add two vectors: the first kernel that a reader sees (chapter 00)."""

import torch
import triton
import triton.language as tl


@triton.jit
def vector_add_kernel(x_ptr, y_ptr, z_ptr, N, BLOCK: tl.constexpr):
    """z[i] = x[i] + y[i] for the BLOCK elements of this program."""
    # 1. Which elements are mine
    pid = tl.program_id(0)
    offs = pid * BLOCK + tl.arange(0, BLOCK)  # [BLOCK]
    mask = offs < N  # the last block may reach past the end

    # 2. Load: BLOCK elements of each input
    x = tl.load(x_ptr + offs, mask=mask, other=0.0)
    y = tl.load(y_ptr + offs, mask=mask, other=0.0)

    # 3. Compute and store: BLOCK elements
    tl.store(z_ptr + offs, x + y, mask=mask)


def vector_add(x: torch.Tensor, y: torch.Tensor, block: int = 1024) -> torch.Tensor:
    """x + y for two contiguous vectors of the same length."""
    z = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), block),)  # one program a block
    vector_add_kernel[grid](x, y, z, x.numel(), BLOCK=block)
    return z
