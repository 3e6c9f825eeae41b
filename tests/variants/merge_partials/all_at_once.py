"""Correct in another style: all lse of a row at once, then one weighted part after the other."""

import torch
import triton
import triton.language as tl

BLOCK_M = 8


@triton.jit
def kernel(
    o_ptr, lse_ptr, out_ptr, total_ptr,
    os, ob, oh, om, od, ls, lb, lh, lm, S, H, N,
    D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr, PARTS: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1).to(tl.int64)
    b, h = head // H, head % H
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)
    d, parts = tl.arange(0, BLOCK_D).to(tl.int64), tl.arange(0, PARTS).to(tl.int64)
    inside = rows < N
    lse = tl.load(
        lse_ptr + b * lb + h * lh + parts[:, None] * ls + rows[None, :] * lm,
        mask=(parts < S)[:, None] & inside[None, :],
        other=float("-inf"),
    )  # [PARTS, BLOCK_M]
    m = tl.max(lse, 0)
    m_safe = tl.where(m == float("-inf"), 0.0, m)
    l_sum = tl.sum(tl.exp(lse - m_safe[None, :]), 0)
    total = tl.where(l_sum > 0, m + tl.log(l_sum), float("-inf"))
    total_safe = tl.where(l_sum > 0, total, 0.0)
    acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    mask = inside[:, None] & (d < D)[None, :]
    for part in tl.static_range(PARTS):
        if part < S:
            mine = tl.sum(
                tl.where((parts == part)[:, None], tl.exp(lse - total_safe[None, :]), 0.0), 0
            )
            o_at = part * os + b * ob + h * oh + rows[:, None] * om + d[None, :] * od
            o = tl.load(o_ptr + o_at, mask=mask, other=0.0).to(tl.float32)
            acc += tl.where(mine[:, None] > 0, mine[:, None] * o, 0.0)
    tl.store(out_ptr + (head * N + rows[:, None]) * D + d[None, :], acc, mask=mask)
    tl.store(total_ptr + head * N + rows, total, mask=inside)


def merge_partials(o, lse):
    S, B, H, N, D = o.shape
    out = torch.zeros(B, H, N, D, dtype=o.dtype, device=o.device)
    total = torch.full((B, H, N), float("-inf"), device=o.device)
    if S and total.numel():
        kernel[(triton.cdiv(N, BLOCK_M), B * H)](
            o, lse, out, total, *o.stride(), *lse.stride(), S, H, N,
            D=D, BLOCK_M=BLOCK_M, BLOCK_D=triton.next_power_of_2(D),
            PARTS=triton.next_power_of_2(S),
        )  # fmt: skip
    return out, total
