import torch
import triton
import triton.language as tl

BLOCK = 64


@triton.jit
def scale_kernel(x_ptr, y_ptr, stride_x, N, a, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs * stride_x, mask=offs < N, other=0.0)
    tl.store(y_ptr + offs, a * x, mask=offs < N)


def _scaled(x, a):
    y = torch.empty(x.numel(), dtype=x.dtype, device=x.device)
    if x.numel():
        grid = (triton.cdiv(x.numel(), BLOCK),)
        scale_kernel[grid](x, y, x.stride(0), x.numel(), a, BLOCK=BLOCK)
    return y


class _Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, a):
        ctx.a = a
        return _scaled(x, a)

    @staticmethod
    def backward(ctx, grad):
        return _scaled(grad, ctx.a), None


def vector_scale(x, a):
    return _Scale.apply(x, a)
