import torch
import triton
import triton.language as tl

BLOCK = 64


@triton.jit
def scale_kernel(x_ptr, y_ptr, stride_x, N, a, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs * stride_x, mask=offs < N, other=0.0)
    tl.store(y_ptr + offs, a * x, mask=offs < N)


def vector_scale(x, a):
    n = x.numel()
    workspace = torch.empty(n * x.element_size() + 64, dtype=torch.uint8, device=x.device)
    out = workspace[: n * x.element_size()].view(x.dtype)
    y = torch.empty(n, dtype=x.dtype, device=x.device)
    if n:
        grid = (triton.cdiv(n, BLOCK),)
        scale_kernel[grid](x, out, x.stride(0), n, a, BLOCK=BLOCK)
        scale_kernel[grid](out, y, 1, n, 1.0, BLOCK=BLOCK)
    return y
