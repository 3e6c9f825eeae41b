# A kernel that reads far outside its tensor. Status: oob
import torch
import triton
import triton.language as tl


@triton.jit
def far_kernel(x_ptr, y_ptr):
    tl.store(y_ptr, tl.load(x_ptr + (1 << 40)))


def vector_scale(x, a):
    y = torch.empty(x.numel(), dtype=x.dtype)
    far_kernel[(1,)](x, y)
    return y
