"""Correct in another style: four programs walk over all blocks; no conversion is written out."""

import torch
import triton
import triton.language as tl

BLOCK = 256


@triton.jit
def kernel(x_ptr, y_ptr, z_ptr, sx, sy, N, a, BLOCK: tl.constexpr):
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, N, step):
        i = start + tl.arange(0, BLOCK).to(tl.int64)
        x = tl.load(x_ptr + i * sx, mask=i < N)
        y = tl.load(y_ptr + i * sy, mask=i < N)
        tl.store(z_ptr + i, a * y + x, mask=i < N)


def triad(x, y, a):
    z = torch.empty_like(x, memory_format=torch.contiguous_format)
    if z.numel():
        kernel[(4,)](x, y, z, x.stride(0), y.stride(0), z.numel(), a, BLOCK=BLOCK)
    return z
