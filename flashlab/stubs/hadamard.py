"""Rotate rows by random signs and the Hadamard matrix: log2(D) rounds of sums and differences."""

import torch
import triton
import triton.language as tl

BLOCK_M = 16  # rows of a program, a power of two; read at every call
WIDEST = 1024  # columns of a row that fit on chip beside the others
DTYPES = (torch.float16, torch.bfloat16, torch.float32)


@triton.jit
def butterfly(y, BLOCK_M: tl.constexpr, D: tl.constexpr, HALF: tl.constexpr):
    # Given: columns j and j + HALF side by side as a and b, each [BLOCK_M, D / (2 HALF), HALF]
    y = tl.reshape(y, [BLOCK_M, D // (2 * HALF), 2, HALF])
    a, b = tl.split(tl.permute(y, [0, 1, 3, 2]))

    # 1. One round
    # Step 1: define first, second: what columns j and j + HALF become
    tl.static_assert(False, "Step 1 is not written yet")

    # Given: back where they came from
    pair = tl.join(first, second)  # [BLOCK_M, D / (2 HALF), HALF, 2]
    return tl.reshape(tl.permute(pair, [0, 1, 3, 2]), [BLOCK_M, D])


@triton.jit
def hadamard_kernel(
    x_ptr,  # [B, H, N, D]
    signs_ptr,  # [D]
    y_ptr,  # [B, H, N, D]
    stride_xb, stride_xh, stride_xm, stride_xd,
    stride_s,
    stride_yb, stride_yh, stride_ym, stride_yd,
    H, N,
    R,  # rows in all: B * H * N
    D: tl.constexpr,  # a power of two
    LOG_D: tl.constexpr,  # 2**LOG_D is D
    BLOCK_M: tl.constexpr,
):  # fmt: skip
    # Given: which rows are mine; int64: an offset may pass 2**31
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)  # [BLOCK_M]
    offs_d = tl.arange(0, D)
    mask = (rows < R)[:, None]
    b, h, n = rows // N // H, rows // N % H, rows % N
    x_row = x_ptr + b * stride_xb + h * stride_xh + n * stride_xm
    y_row = y_ptr + b * stride_yb + h * stride_yh + n * stride_ym
    x_ptrs = x_row[:, None] + offs_d[None, :] * stride_xd  # [BLOCK_M, D]
    y_ptrs = y_row[:, None] + offs_d[None, :] * stride_yd

    # 2. Load, random signs
    # Step 2: load x (0 where a row is missing) and signs; define y, x * signs in fp32
    tl.static_assert(False, "Step 2 is not written yet")

    # Given: the rounds: partners are 1, 2, 4, ... columns apart
    for step in tl.static_range(LOG_D):
        y = butterfly(y, BLOCK_M, D, 2**step)

    # 3. Scale and store
    # Step 3: scale y so that rows keep their length; store it to y_ptrs
    tl.static_assert(False, "Step 3 is not written yet")


def check_inputs(x, signs):
    """Raise a ValueError that says which of x and signs does not fit, and what came."""
    if not isinstance(x, torch.Tensor) or not 1 <= x.dim() <= 4:
        came = list(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__
        raise ValueError(f"x must be a tensor [..., D] of 1 to 4 dimensions, not {came}")
    if x.dtype not in DTYPES:
        raise ValueError(f"x must have a dtype of {DTYPES}, not {x.dtype}: cast it")
    D = x.shape[-1]
    if D & (D - 1) or not 1 <= D <= WIDEST:
        raise ValueError(f"x must have D a power of two up to {WIDEST}, not {list(x.shape)}")
    if not isinstance(signs, torch.Tensor) or list(signs.shape) != [D]:
        came = list(signs.shape) if isinstance(signs, torch.Tensor) else type(signs).__name__
        raise ValueError(f"signs must be a tensor [{D}], one sign a column of x, not {came}")
    if signs.dtype != x.dtype or signs.device != x.device:
        wanted, came = f"{x.dtype} on {x.device}", f"{signs.dtype} on {signs.device}"
        raise ValueError(f"signs must be {wanted} like x, not {came}: move or cast it")


def hadamard(x: torch.Tensor, signs: torch.Tensor) -> torch.Tensor:
    check_inputs(x, signs)
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if x.numel() == 0:  # nothing to launch for
        return y
    x4, y4 = (t[(None,) * (4 - t.dim())] for t in (x, y))  # views [B, H, N, D]
    B, H, N, D = x4.shape
    hadamard_kernel[(triton.cdiv(B * H * N, BLOCK_M),)](
        x4, signs, y4,
        *x4.stride(), signs.stride(0), *y4.stride(),
        H, N, B * H * N,
        D=D, LOG_D=D.bit_length() - 1, BLOCK_M=BLOCK_M,
        num_warps=min(max(BLOCK_M * D // 1024, 1), 8),  # 32 numbers a thread
    )  # fmt: skip
    return y
