"""FP8 copies of q, k and v for ``fp8_hopper``: each tensor is read once and written once.

One scale a head needs the largest element of the whole head before the first element can be
rounded. The head is shared out: each program keeps its rows in registers, tells the others the
largest of them, waits until all of its head have told, and rounds what it kept.
"""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

TILE = 128  # rows that a program keeps in registers
MOST = 448.0  # the largest e4m3 number
PROGRAMS = 132  # that surely run at once: one an SM of an H100 or H200


class Prepared(NamedTuple):
    """What ``prepare`` returns.

    Args:
        q8, k8: [B, H, N, D], [B, H_kv, N, D]; e4m3.
        v_t: [B, H_kv, D, N up to a multiple of 16]; e4m3; column c holds key ``key_of(c)``.
        q_scale, k_scale, v_scale: [B, H, 1], [B, H_kv, 1] twice; fp32; amax / 448 of a head.
    """

    q8: torch.Tensor
    k8: torch.Tensor
    v_t: torch.Tensor
    q_scale: torch.Tensor
    k_scale: torch.Tensor
    v_scale: torch.Tensor


@triton.jit
def key_of(c):
    """The key in column c of v_t: a thread holds columns 4t to 4t+3, keys 2t, 2t+1, 8+2t, 9+2t."""
    return c // 16 * 16 + c // 2 % 2 * 8 + c // 4 % 4 * 2 + c % 2


@triton.jit
def load_rows(x_ptr, rows, stride_xn, stride_xd, N, D: tl.constexpr):
    offs = rows.to(tl.int64)[:, None] * stride_xn + tl.arange(0, D)[None, :] * stride_xd
    return tl.load(x_ptr + offs, mask=(rows < N)[:, None], other=0.0)


@triton.jit
def store_rows(
    x, x8_ptr, start, inverse, N, N_out, D: tl.constexpr, TILE: tl.constexpr, VALUES: tl.constexpr
):
    x8 = (x.to(tl.float32) * inverse).to(tl.float8e4nv)  # [TILE, D]; at most 448 and a rounding
    here = start + tl.arange(0, TILE)
    d = tl.arange(0, D)
    if VALUES:  # N_out columns: keys beyond N are 0
        at = x8_ptr + d.to(tl.int64)[:, None] * N_out + here[None, :]
        tl.store(at, tl.trans(x8), mask=(here < N_out)[None, :])
    else:
        tl.store(
            x8_ptr + here.to(tl.int64)[:, None] * D + d[None, :], x8, mask=(here < N)[:, None]
        )


@triton.jit
def quantize_head_kernel(
    x_ptr,  # [B, H, N, D]
    x8_ptr,  # [B, H, N, D], or with VALUES [B, H, D, N_out]
    scale_ptr,  # [B * H]
    state_ptr,  # [1 + 2 * B * H], 0 at first: tickets; then of each head its amax, its parts done
    stride_xb, stride_xh, stride_xn, stride_xd,
    H, N, N_out, parts,
    rows_each,  # rows of a program, a multiple of TILE
    D: tl.constexpr, TILE: tl.constexpr, VALUES: tl.constexpr, MOST: tl.constexpr,
):  # fmt: skip
    # 1. Which rows are mine: by ticket, so that those I shall wait for have started before me
    ticket = tl.atomic_add(state_ptr, 1, sem="relaxed")
    head = (ticket // parts).to(tl.int64)
    start = ticket % parts * rows_each
    x_ptr += head // H * stride_xb + head % H * stride_xh
    x8_ptr += head * (N_out if VALUES else N) * D
    lanes = tl.arange(0, TILE)
    order = key_of(lanes) if VALUES else lanes
    # 2. Load my first tile and keep it; look at the others
    x = load_rows(
        x_ptr, start + order, stride_xn, stride_xd, N, D
    )  # [TILE, D], as it is: half the registers
    largest = tl.max(tl.max(tl.abs(x), 1), 0)
    for more in range(TILE, rows_each, TILE):
        tile = load_rows(x_ptr, start + more + order, stride_xn, stride_xd, N, D)
        largest = tl.maximum(largest, tl.max(tl.max(tl.abs(tile), 1), 0))
    # 3. Tell the others, wait for them. Bits of numbers above 0 order as the numbers do
    amax_ptr = state_ptr + 1 + 2 * head
    tl.atomic_max(amax_ptr, largest.to(tl.float32).to(tl.int32, bitcast=True), sem="relaxed")
    done = tl.atomic_add(amax_ptr + 1, 1, sem="acq_rel") + 1
    while done < parts:
        done = tl.atomic_add(amax_ptr + 1, 0, sem="acquire")
    amax = tl.atomic_max(amax_ptr, 0, sem="relaxed").to(tl.float32, bitcast=True)
    # 4. Scale, round, store
    scale = tl.where(amax == 0.0, 1.0, amax / MOST)
    tl.store(scale_ptr + head, scale)
    inverse = 1.0 / scale
    store_rows(x, x8_ptr, start, inverse, N, N_out, D, TILE, VALUES)
    for more in range(TILE, rows_each, TILE):
        tile = load_rows(x_ptr, start + more + order, stride_xn, stride_xd, N, D)
        store_rows(tile, x8_ptr, start + more, inverse, N, N_out, D, TILE, VALUES)


def quantize_heads(x: torch.Tensor, *, values: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """e4m3 numbers and one scale a head.

    Args:
        x: [B, H, N, D]; D a power of two; any strides.
        values: Lay out as ``fp8_hopper`` wants V: [B, H, D, N up to a multiple of 16].

    Returns:
        x8: e4m3, laid out so; scale: [B, H, 1], fp32: amax / 448, 1 for an all-zero head.
    """
    B, H, N, D = x.shape
    N_out = triton.cdiv(N, 16) * 16 if values else N
    shape = [B, H, D, N_out] if values else [B, H, N, D]
    x8 = torch.empty(shape, dtype=torch.float8_e4m3fn, device=x.device)
    scale = torch.empty(B, H, 1, dtype=torch.float32, device=x.device)
    rows_each = triton.cdiv(triton.cdiv(N, PROGRAMS), TILE) * TILE
    parts = triton.cdiv(N, rows_each)
    state = torch.zeros(1 + 2 * B * H, dtype=torch.int32, device=x.device)
    quantize_head_kernel[(B * H * parts,)](
        x, x8, scale, state, *x.stride(), H, N, N_out, parts, rows_each,
        D=D, TILE=TILE, VALUES=values, MOST=MOST, num_warps=8,
    )  # fmt: skip
    return x8, scale


def prepare(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Prepared:
    """FP8 copies of q [B, H, N, D] and k, v [B, H_kv, N, D] (rotate q and k before, if at all).

    Raises:
        ValueError: k's or v's shape does not fit q's, or a size is 0.
    """
    B, H, N, D = q.shape
    if list(k.shape) != [B, k.shape[1], N, D] or k.shape != v.shape or H % k.shape[1] or not N:
        wanted = f"[{B}, H_kv, {N}, {D}] with N > 0 and H_kv a divisor of {H}"
        raise ValueError(f"k and v must be {wanted}, not {list(k.shape)} and {list(v.shape)}")
    (q8, q_scale), (k8, k_scale) = quantize_heads(q), quantize_heads(k)
    v_t, v_scale = quantize_heads(v, values=True)
    return Prepared(q8, k8, v_t, q_scale, k_scale, v_scale)
