"""FP8 numbers and a scale for every block of rows: the largest first, then the rounding."""

import torch
import triton
import triton.language as tl

BLOCK_M = 64  # rows of a tile, a power of two; read at every call
MOST = tl.constexpr(448.0)  # the largest e4m3 number
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def quantize_fp8_kernel(
    x_ptr,  # [B, H, N, D]
    x8_ptr,  # [B, H, N, D], e4m3
    scale_ptr,  # [B, H, blocks], fp32
    stride_xb, stride_xh, stride_xm, stride_xd,
    stride_yb, stride_yh, stride_ym, stride_yd,  # of x8
    stride_sb, stride_sh, stride_sn,
    H, N, blocks, block_rows,
    D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_D: tl.constexpr,  # D up to a power of two: a tile's size has to be one
):  # fmt: skip
    # Given: which block is mine; int64: an offset may pass 2**31
    pid = tl.program_id(0)
    n, head = pid % blocks, (pid // blocks).to(tl.int64)
    b, h = head // H, head % H
    start = n * block_rows
    end = tl.minimum(start + block_rows, N)  # behind my last row
    x_head = x_ptr + b * stride_xb + h * stride_xh
    x8_head = x8_ptr + b * stride_yb + h * stride_yh

    # 1. The largest of my block
    ### BEGIN SOLUTION 1: define kept (tile at start) and amax, the largest |x| of all my tiles
    kept = load_tile(x_head, start, end, stride_xm, stride_xd, D, BLOCK_M, BLOCK_D)
    amax = tl.max(tl.max(tl.abs(kept), 1), 0)
    for at in range(start + BLOCK_M, end, BLOCK_M):
        tile = load_tile(x_head, at, end, stride_xm, stride_xd, D, BLOCK_M, BLOCK_D)
        amax = tl.maximum(amax, tl.max(tl.max(tl.abs(tile), 1), 0))
    ### END SOLUTION

    # 2. Its scale
    ### BEGIN SOLUTION 2: define scale, which maps amax to MOST; 1 for a block of zeros
    scale = tl.where(amax == 0.0, 1.0, amax / MOST)
    ### END SOLUTION

    # Given: store the scale of this block, once
    tl.store(scale_ptr + b * stride_sb + h * stride_sh + n * stride_sn, scale)

    # 3. Round
    ### BEGIN SOLUTION 3: store_tile every tile over scale; kept is here, load the others again
    store_tile(x8_head, kept / scale, start, end, stride_ym, stride_yd, D, BLOCK_M, BLOCK_D)
    for at in range(start + BLOCK_M, end, BLOCK_M):
        tile = load_tile(x_head, at, end, stride_xm, stride_xd, D, BLOCK_M, BLOCK_D)
        store_tile(x8_head, tile / scale, at, end, stride_ym, stride_yd, D, BLOCK_M, BLOCK_D)
    ### END SOLUTION


@triton.jit
def load_tile(
    x_head, at, end, stride_xm, stride_xd,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # Given: rows at to at + BLOCK_M - 1 in fp32, 0 from end on
    rows, offs_d = at + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D)
    ptrs = x_head + rows.to(tl.int64)[:, None] * stride_xm + offs_d[None, :] * stride_xd
    mask = (rows < end)[:, None] & (offs_d < D)[None, :]
    return tl.load(ptrs, mask=mask, other=0.0).to(tl.float32)  # [BLOCK_M, BLOCK_D]


@triton.jit
def store_tile(
    x8_head, x, at, end, stride_ym, stride_yd,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    # 4. One tile
    ### BEGIN SOLUTION 4: round x [BLOCK_M, BLOCK_D] to e4m3; store its rows at to end - 1
    rows, offs_d = at + tl.arange(0, BLOCK_M), tl.arange(0, BLOCK_D)
    ptrs = x8_head + rows.to(tl.int64)[:, None] * stride_ym + offs_d[None, :] * stride_yd
    mask = (rows < end)[:, None] & (offs_d < D)[None, :]
    tl.store(ptrs, x.to(tl.float8e4nv), mask=mask)
    ### END SOLUTION


def check_inputs(x, block_rows):
    """Raise a ValueError that says which of x and block_rows does not fit, and what came."""
    if not isinstance(x, torch.Tensor) or x.dim() != 4 or x.shape[3] < 1:
        came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
        raise ValueError(f"x must be a tensor [B, H, N, D] with D >= 1, not {came}")
    if x.dtype not in DTYPES:
        raise ValueError(f"x must have a dtype of {DTYPES}, not {x.dtype}: cast it")
    if not isinstance(block_rows, int) or block_rows < 1:
        raise ValueError(f"block_rows must be a positive integer, not {block_rows!r}: try 64")
    if x.shape[3] > 256:
        raise ValueError(f"x must have D <= 256 to fit on chip, not {list(x.shape)}")


def quantize_fp8(x: torch.Tensor, *, block_rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    check_inputs(x, block_rows)
    B, H, N, D = x.shape
    blocks = triton.cdiv(N, block_rows)
    x8 = torch.empty([B, H, N, D], dtype=torch.float8_e4m3fn, device=x.device)
    scale = torch.empty([B, H, blocks], dtype=torch.float32, device=x.device)
    if x.numel() == 0:  # nothing to launch for
        return x8, scale
    BLOCK_D = triton.next_power_of_2(D)
    quantize_fp8_kernel[(B * H * blocks,)](
        x, x8, scale,
        *x.stride(), *x8.stride(), *scale.stride(),
        H, N, blocks, block_rows,
        D=D, BLOCK_M=BLOCK_M, BLOCK_D=BLOCK_D,
        num_warps=min(max(BLOCK_M * BLOCK_D // 1024, 1), 8),  # 32 numbers a thread
    )  # fmt: skip
    return x8, scale
