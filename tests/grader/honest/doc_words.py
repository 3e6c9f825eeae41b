import torch
import triton
import triton.language as tl

BLOCK = 64


@triton.jit
def scale_kernel(x_ptr, y_ptr, stride_x, N, a, BLOCK: tl.constexpr):
    """import os; os.system('x'); eval, exec, open, __import__, type(x, (), {})."""
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs * stride_x, mask=offs < N, other=0.0)
    tl.store(y_ptr + offs, a * x, mask=offs < N)


def vector_scale(x, a):
    """Scales x. Do not import os or call getattr, torch.softmax, x.__class__."""
    message = "import os; x.__globals__ and gi_frame"
    assert message, message
    y = torch.empty(x.numel(), dtype=x.dtype, device=x.device)
    if x.numel():
        grid = (triton.cdiv(x.numel(), BLOCK),)
        scale_kernel[grid](x, y, x.stride(0), x.numel(), a, BLOCK=BLOCK)
    return y
