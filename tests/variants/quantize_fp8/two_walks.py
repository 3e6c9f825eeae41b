"""Keeps nothing on chip between two walks where the block is longer than a tile."""

import torch
import triton
import triton.language as tl

BLOCK_M = 32


@triton.jit
def tile_at(x_ptr, first, end, xm, xd, D: tl.constexpr, BLOCK_M: tl.constexpr, WIDE: tl.constexpr):
    rows, d = first + tl.arange(0, BLOCK_M), tl.arange(0, WIDE)
    mask = (rows < end)[:, None] & (d < D)[None, :]
    return rows.to(tl.int64)[:, None] * xm + d[None, :] * xd, mask


@triton.jit
def kernel(
    x_ptr, x8_ptr, scale_ptr,
    xb, xh, xm, xd, yb, yh, ym, yd,
    H, N, blocks, block_rows,
    D: tl.constexpr, BLOCK_M: tl.constexpr, WIDE: tl.constexpr, ONE: tl.constexpr,
):  # fmt: skip
    block, head = tl.program_id(0), tl.program_id(1).to(tl.int64)
    first = block * block_rows
    end = tl.minimum(first + block_rows, N)
    x_ptr += head // H * xb + head % H * xh
    x8_ptr += head // H * yb + head % H * yh
    if ONE:
        at, mask = tile_at(x_ptr, first, end, xm, xd, D, BLOCK_M, WIDE)
        x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
        amax = tl.max(tl.abs(x))
        inverse = tl.where(amax > 0, 448.0 / amax, 1.0)
        at, mask = tile_at(x8_ptr, first, end, ym, yd, D, BLOCK_M, WIDE)
        tl.store(x8_ptr + at, (x * inverse).to(tl.float8e4nv), mask=mask)
    else:
        most = tl.zeros([BLOCK_M, WIDE], tl.float32)
        for start in range(first, end, BLOCK_M):
            at, mask = tile_at(x_ptr, start, end, xm, xd, D, BLOCK_M, WIDE)
            x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
            most = tl.maximum(most, tl.abs(x))
        amax = tl.max(most)
        inverse = tl.where(amax > 0, 448.0 / amax, 1.0)
        for start in range(first, end, BLOCK_M):
            at, mask = tile_at(x_ptr, start, end, xm, xd, D, BLOCK_M, WIDE)
            x = tl.load(x_ptr + at, mask=mask, other=0.0).to(tl.float32)
            at, mask = tile_at(x8_ptr, start, end, ym, yd, D, BLOCK_M, WIDE)
            tl.store(x8_ptr + at, (x * inverse).to(tl.float8e4nv), mask=mask)
    tl.store(scale_ptr + head * blocks + block, tl.where(amax > 0, amax / 448.0, 1.0))


def quantize_fp8(x: torch.Tensor, *, block_rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    if not isinstance(x, torch.Tensor) or x.dim() != 4 or not 1 <= x.shape[3] <= 256:
        raise ValueError("x must be a tensor [B, H, N, D] with D from 1 to 256")
    if x.dtype not in (torch.float16, torch.bfloat16, torch.float32):
        raise ValueError(f"x must be half or float32, not {x.dtype}")
    if not isinstance(block_rows, int) or block_rows < 1:
        raise ValueError(f"block_rows must be a positive integer, not {block_rows!r}")
    B, H, N, D = x.shape
    blocks = triton.cdiv(N, block_rows)
    x8 = torch.empty([B, H, N, D], dtype=torch.float8_e4m3fn, device=x.device)
    scale = torch.empty([B, H, blocks], dtype=torch.float32, device=x.device)
    if x.numel():
        kernel[(blocks, B * H)](
            x, x8, scale, *x.stride(), *x8.stride(), H, N, blocks, block_rows,
            D=D, BLOCK_M=BLOCK_M, WIDE=triton.next_power_of_2(D), ONE=block_rows <= BLOCK_M,
        )  # fmt: skip
    return x8, scale
