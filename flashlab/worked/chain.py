"""The steps between attention's two products, one kernel each, and the same steps fused into one.

Softmax of whole rows of scores with what surrounds it: scale, causal mask, dropout (chapter 02).
"""

import torch
import triton
import triton.language as tl

STEPS = ("scale", "mask", "softmax", "dropout")
TILE = 8192  # elements of a program's tile: whole rows, as many as that gives


@triton.jit
def scale_kernel(x_ptr, y_ptr, R, C, factor, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """y = x * factor for ROWS rows."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    at = rows[:, None] * C + columns[None, :]
    here = (rows < R)[:, None] & (columns < C)[None, :]
    x = tl.load(x_ptr + at, mask=here, other=0.0)  # [ROWS, BLOCK]
    tl.store(y_ptr + at, (x * factor).to(y_ptr.dtype.element_ty), mask=here)


@triton.jit
def mask_kernel(x_ptr, y_ptr, R, C, N_q, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """y = x where a query sees the key, -inf elsewhere (causal, bottom-right aligned)."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    at = rows[:, None] * C + columns[None, :]
    here = (rows < R)[:, None] & (columns < C)[None, :]
    x = tl.load(x_ptr + at, mask=here, other=0.0)  # [ROWS, BLOCK]
    seen = columns[None, :] <= (rows % N_q)[:, None] + C - N_q
    tl.store(y_ptr + at, tl.where(seen, x, -float("inf")), mask=here)


@triton.jit
def softmax_of_rows(x):
    """Softmax of each row of a tile; a row of -inf alone becomes 0."""
    m = tl.max(x, 1)
    p = tl.exp(x - tl.where(m == -float("inf"), 0.0, m)[:, None])
    total = tl.sum(p, 1)
    return p / tl.where(total == 0.0, 1.0, total)[:, None]


@triton.jit
def softmax_kernel(x_ptr, y_ptr, R, C, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """y = softmax(x) of each row."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    at = rows[:, None] * C + columns[None, :]
    here = (rows < R)[:, None] & (columns < C)[None, :]
    x = tl.load(x_ptr + at, mask=here, other=-float("inf")).to(tl.float32)  # [ROWS, BLOCK]
    p = softmax_of_rows(x)
    tl.store(y_ptr + at, p.to(y_ptr.dtype.element_ty), mask=here)


@triton.jit
def dropout_kernel(x_ptr, y_ptr, R, C, p, seed, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """y = x / (1 - p) where a random number is at least p, 0 elsewhere."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    at = rows[:, None] * C + columns[None, :]
    here = (rows < R)[:, None] & (columns < C)[None, :]
    x = tl.load(x_ptr + at, mask=here, other=0.0).to(tl.float32)  # [ROWS, BLOCK]
    y = tl.where(tl.rand(seed, at) >= p, x / (1.0 - p), 0.0)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=here)


@triton.jit
def fused_kernel(
    x_ptr, y_ptr, R, C, N_q, factor, p, seed,
    SCALE: tl.constexpr, MASK: tl.constexpr, DROPOUT: tl.constexpr,
    ROWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The chosen steps and softmax on rows that stay on chip between them."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, BLOCK)
    at = rows[:, None] * C + columns[None, :]
    here = (rows < R)[:, None] & (columns < C)[None, :]

    # The only load
    x = tl.load(x_ptr + at, mask=here, other=-float("inf")).to(tl.float32)  # [ROWS, BLOCK]
    if SCALE:
        x = x * factor
    if MASK:
        x = tl.where(columns[None, :] <= (rows % N_q)[:, None] + C - N_q, x, -float("inf"))
    y = softmax_of_rows(x)
    if DROPOUT:
        y = tl.where(tl.rand(seed, at) >= p, y / (1.0 - p), 0.0)

    # The only store
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=here)


def _launch(x: torch.Tensor) -> tuple[tuple[int], dict]:
    """Grid and tile sizes for a contiguous x of shape [..., N_q, C]."""
    block = max(16, triton.next_power_of_2(x.shape[-1]))
    rows = max(1, TILE // block)
    grid = (triton.cdiv(x.numel() // x.shape[-1], rows),)
    return grid, {"ROWS": rows, "BLOCK": block, "num_warps": 8}


def step(name: str, x: torch.Tensor, factor: float = 1.0, p: float = 0.1, seed: int = 0):
    """One step of ``STEPS`` as a kernel of its own: x [..., N_q, N_k] in, the same shape out."""
    y = torch.empty_like(x)
    grid, tiles = _launch(x)
    C, N_q = x.shape[-1], x.shape[-2]
    R = x.numel() // C
    if name == "scale":
        scale_kernel[grid](x, y, R, C, factor, **tiles)
    elif name == "mask":
        mask_kernel[grid](x, y, R, C, N_q, **tiles)
    elif name == "softmax":
        softmax_kernel[grid](x, y, R, C, **tiles)
    elif name == "dropout":
        dropout_kernel[grid](x, y, R, C, p, seed, **tiles)
    else:
        raise ValueError(f"a step is one of {', '.join(STEPS)}, not {name!r}")
    return y


def apart(
    s: torch.Tensor, steps=STEPS, factor: float = 1.0, p: float = 0.1, seed: int = 0
) -> torch.Tensor:
    """The steps one after the other, each a kernel that reads and writes a matrix like s.

    Args:
        s: [..., N_q, N_k] scores, contiguous; a row is at most ``TILE`` long.
        steps: Of ``STEPS``, in that order, softmax among them.
        factor: Of the scaling.
        p: Share that dropout drops.
        seed: Of dropout's random numbers.
    """
    for name in steps:
        s = step(name, s, factor, p, seed)
    return s


def fused(
    s: torch.Tensor, steps=STEPS, factor: float = 1.0, p: float = 0.1, seed: int = 0
) -> torch.Tensor:
    """The same in one kernel; arguments as for ``apart``."""
    y = torch.empty_like(s)
    grid, tiles = _launch(s)
    C, N_q = s.shape[-1], s.shape[-2]
    fused_kernel[grid](
        s, y, s.numel() // C, C, N_q, factor, p, seed,
        SCALE="scale" in steps, MASK="mask" in steps, DROPOUT="dropout" in steps, **tiles,
    )  # fmt: skip
    return y
