# Changes its input. Status: contract
import torch
import triton
import triton.language as tl


@triton.jit
def both_kernel(x_ptr, y_ptr, stride_x, N, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs * stride_x, 0.0, mask=offs < N)
    tl.store(y_ptr + offs, 0.0, mask=offs < N)


def vector_scale(x, a):
    y = torch.empty(x.numel(), dtype=x.dtype)
    both_kernel[(triton.cdiv(x.numel(), 16),)](x, y, x.stride(0), x.numel(), BLOCK=16)
    return y
