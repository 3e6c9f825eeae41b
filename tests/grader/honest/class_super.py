import torch
import triton
import triton.language as tl

BLOCK = 64


@triton.jit
def scale_kernel(x_ptr, y_ptr, stride_x, N, a, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs * stride_x, mask=offs < N, other=0.0)
    tl.store(y_ptr + offs, a * x, mask=offs < N)


class Launcher:
    def __init__(self, block):
        self.block = block

    def grid(self, n):
        return (triton.cdiv(n, self.block),)


class Scale(Launcher):
    def __init__(self, block=64):
        super().__init__(block)
        self.calls = 0

    def __call__(self, x, a):
        self.calls += 1
        y = torch.empty(x.numel(), dtype=x.dtype, device=x.device)
        if x.numel():
            scale_kernel[self.grid(x.numel())](x, y, x.stride(0), x.numel(), a, BLOCK=self.block)
        return y


SCALE = Scale()


def vector_scale(x, a):
    return SCALE(x, a)
