import functools
from enum import IntEnum

import torch
import triton
import triton.language as tl


class Size(IntEnum):
    SMALL = 16
    LARGE = 64


BLOCK = 64


@triton.jit
def scale_kernel(x_ptr, y_ptr, stride_x, N, a, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs * stride_x, mask=offs < N, other=0.0)
    tl.store(y_ptr + offs, a * x, mask=offs < N)


def _launch(y, a, *, x, n):
    if n:
        scale_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](
            x, y, x.stride(0), n, a, BLOCK=int(Size.LARGE)
        )
    return y


def vector_scale(x, a):
    launch = functools.partial(_launch, x=x, n=x.numel())
    return launch(torch.empty_like(x, memory_format=torch.contiguous_format), a)
