from collections.abc import Iterator
from typing import TypeAlias

import torch
import triton
import triton.language as tl

Tensor: TypeAlias = torch.Tensor
BLOCK: int = 64


@triton.jit
def scale_kernel(x_ptr, y_ptr, stride_x, N, a, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs * stride_x, mask=offs < N, other=0.0)
    tl.store(y_ptr + offs, a * x, mask=offs < N)


def _parts(n: int, size: int) -> Iterator[tuple[int, int]]:
    yield from ((start, min(size, n - start)) for start in range(0, n, size))


def vector_scale(x: Tensor, a: float) -> Tensor:
    y: Tensor = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    for start, n in _parts(x.numel(), 1 << 20):
        part, out = x[start : start + n], y.narrow(0, start, n)
        scale_kernel[(triton.cdiv(n, BLOCK),)](part, out, x.stride(0), n, a, BLOCK=BLOCK)
    return y
