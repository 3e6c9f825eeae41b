"""A product with the matrix, whose entries come from the bits that row and column share."""

import torch
import triton
import triton.language as tl

BLOCK_M = 16


@triton.jit
def kernel(
    x_ptr, signs_ptr, y_ptr,
    xb, xh, xm, xd, ss, yb, yh, ym, yd,
    H, N, R,
    D: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    to = tl.program_id(1) * BLOCK_D + tl.arange(0, BLOCK_D)
    b, h, n = rows // N // H, rows // N % H, rows % N
    y = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    for start in range(0, D, BLOCK_D):
        d = start + tl.arange(0, BLOCK_D)
        mask = (rows < R)[:, None] & (d < D)[None, :]
        at = (b * xb + h * xh + n * xm)[:, None] + d[None, :] * xd
        signs = tl.load(signs_ptr + d * ss, mask=d < D, other=0.0).to(tl.float32)
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32) * signs[None, :]
        shared = d[:, None] & to[None, :]
        shared = shared ^ (shared >> 8)
        shared = shared ^ (shared >> 4)
        shared = shared ^ (shared >> 2)
        shared = (shared ^ (shared >> 1)) & 1
        y = tl.dot(x, 1.0 - 2.0 * shared.to(tl.float32), y, input_precision="ieee")
    out = (b * yb + h * yh + n * ym)[:, None] + to[None, :] * yd
    tl.store(y_ptr + out, y * (D**-0.5), mask=(rows < R)[:, None] & (to < D)[None, :])


def hadamard(x: torch.Tensor, signs: torch.Tensor) -> torch.Tensor:
    D = x.shape[-1] if isinstance(x, torch.Tensor) and x.dim() else 0
    if not isinstance(x, torch.Tensor) or not 1 <= x.dim() <= 4 or not x.dtype.is_floating_point:
        raise ValueError("x must be a floating-point tensor [..., D] of 1 to 4 dimensions")
    if D & (D - 1) or not 1 <= D <= 1024 or x.dtype == torch.float64:
        raise ValueError(f"x must have D a power of two up to 1,024, not {list(x.shape)}")
    if not isinstance(signs, torch.Tensor) or list(signs.shape) != [D] or signs.dtype != x.dtype:
        raise ValueError(f"signs must be {x.dtype} [{D}]")
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if not x.numel():
        return y
    a, c = (t.view(torch.Size([1] * (4 - t.dim())) + t.shape) for t in (x, y))
    B, H, N, _ = a.shape
    block = min(64, max(16, D))
    kernel[(triton.cdiv(B * H * N, BLOCK_M), triton.cdiv(D, block))](
        a, signs, c, *a.stride(), signs.stride(0), *c.stride(), H, N, B * H * N,
        D=D, BLOCK_D=block, BLOCK_M=BLOCK_M,
    )  # fmt: skip
    return y
