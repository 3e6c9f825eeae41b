# A kernel whose loop never ends. Status: timeout
import torch
import triton
import triton.language as tl


@triton.jit
def stuck_kernel(y_ptr, N):
    i = 0
    while i < N:
        tl.store(y_ptr + i, 0.0)


def vector_scale(x, a):
    y = torch.empty(x.numel(), dtype=x.dtype)
    stuck_kernel[(1,)](y, x.numel())
    return y
