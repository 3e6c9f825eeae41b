import warnings
from typing import NamedTuple

import torch
import triton
import triton.language as tl

BLOCK = 64


class Launch(NamedTuple):
    grid: tuple[int, ...]
    block: int = 64


@triton.jit
def scale_kernel(x_ptr, y_ptr, stride_x, N, a, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs * stride_x, mask=offs < N, other=0.0)
    tl.store(y_ptr + offs, a * x, mask=offs < N)


def vector_scale(x, a):
    if not isinstance(x, torch.Tensor) or type(x) is not torch.Tensor:
        raise TypeError(f"x is a {type(x)}, not a tensor")
    if x.dim() != 1:
        warnings.warn("x has more than one axis", stacklevel=2)
    assert hasattr(tl, "load"), "no tl.load"
    y = torch.empty_like(x, memory_format=torch.contiguous_format)
    launch = Launch(grid=(triton.cdiv(x.numel(), BLOCK),))
    try:
        if x.numel():
            scale_kernel[launch.grid](x, y, x.stride(0), x.numel(), a, BLOCK=launch.block)
    except RuntimeError as error:
        raise RuntimeError("the launch failed") from error
    finally:
        del launch
    return y
