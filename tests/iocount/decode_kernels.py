"""Split-KV decode, packed by key head or not; launched by test_bounds."""

import torch
import triton
import triton.language as tl


@triton.jit
def split_kernel(
    q_ptr, k_ptr, v_ptr, cache_seqlens_ptr, o_partial_ptr, lse_partial_ptr,
    H, H_kv, N, scale,
    ROWS: tl.constexpr, BLOCK_ROWS: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_N: tl.constexpr, SPLITS: tl.constexpr,
):  # fmt: skip
    """ROWS query heads of one key head against one part of its cache."""
    split, reader, b = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first_head = reader * ROWS
    kv_row = (b * H_kv + first_head // (H // H_kv)) * N
    length = N
    if cache_seqlens_ptr is not None:
        length = tl.load(cache_seqlens_ptr + b)
    part = tl.cdiv(length, SPLITS)
    rows, cols = tl.arange(0, BLOCK_ROWS), tl.arange(0, BLOCK_D)
    mask = (rows[:, None] < ROWS) & (cols[None, :] < D)
    at = (b * H + first_head + rows[:, None]) * D + cols[None, :]
    q = tl.load(q_ptr + at, mask=mask, other=0.0)
    m_i = tl.full([BLOCK_ROWS], float("-inf"), tl.float32)
    l_i = tl.zeros([BLOCK_ROWS], tl.float32)
    acc = tl.zeros([BLOCK_ROWS, BLOCK_D], tl.float32)
    stop = tl.minimum(length, (split + 1) * part)
    for start in range(split * part, stop, BLOCK_N):
        offs = start + tl.arange(0, BLOCK_N)
        k_mask = (offs[:, None] < stop) & (cols[None, :] < D)
        k_at = (kv_row + offs[:, None]) * D + cols[None, :]
        k = tl.load(k_ptr + k_at, mask=k_mask, other=0.0)
        v = tl.load(v_ptr + k_at, mask=k_mask, other=0.0)
        s = tl.where(offs[None, :] < stop, tl.dot(q, tl.trans(k)) * scale, float("-inf"))
        m_new = tl.maximum(m_i, tl.max(s, 1))
        p = tl.exp(s - m_new[:, None])
        alpha = tl.exp(m_i - m_new)
        acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None])
        l_i = l_i * alpha + tl.sum(p, 1)
        m_i = m_new
    l_safe = tl.where(l_i == 0.0, 1.0, l_i)
    part_row = (split * tl.num_programs(2) + b) * H + first_head + rows
    part_at = part_row[:, None] * D + cols[None, :]
    tl.store(o_partial_ptr + part_at, acc / l_safe[:, None], mask=mask)
    tl.store(lse_partial_ptr + part_row, m_i + tl.log(l_safe), mask=rows < ROWS)


@triton.jit
def combine_kernel(
    o_partial_ptr, lse_partial_ptr, o_ptr, lse_ptr, heads,
    SPLITS: tl.constexpr, BLOCK_S: tl.constexpr, D: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Merge the parts of one query row."""
    head = tl.program_id(0)
    splits, cols = tl.arange(0, BLOCK_S), tl.arange(0, BLOCK_D)
    real = splits < SPLITS
    lse = tl.load(lse_partial_ptr + splits * heads + head, mask=real, other=float("-inf"))
    at = (splits[:, None] * heads + head) * D + cols[None, :]
    o = tl.load(o_partial_ptr + at, mask=real[:, None] & (cols[None, :] < D), other=0.0)
    m = tl.max(lse, 0)
    w = tl.exp(lse - m)
    total = tl.sum(w, 0)
    merged = tl.sum(o * (w / total)[:, None], 0).to(o_ptr.dtype.element_ty)
    tl.store(o_ptr + head * D + cols, merged, mask=cols < D)
    tl.store(lse_ptr + head, m + tl.log(total))


def split_kv(q, k, v, num_splits, cache_seqlens=None, packed=True, block_n=16):
    """o and lse of q [B, H, 1, D] against k, v [B, H_kv, N, D]."""
    B, H, _, D = q.shape
    H_kv, N = k.shape[1:3]
    rows = H // H_kv if packed else 1
    o_partial, lse_partial = torch.empty(num_splits, B, H, D), torch.empty(num_splits, B, H)
    o, lse = torch.empty_like(q), torch.empty(B, H, 1)
    block_d = max(16, triton.next_power_of_2(D))
    split_kernel[num_splits, H // rows, B](
        q, k, v, cache_seqlens, o_partial, lse_partial, H, H_kv, N, D**-0.5,
        ROWS=rows, BLOCK_ROWS=max(16, triton.next_power_of_2(rows)), D=D, BLOCK_D=block_d,
        BLOCK_N=block_n, SPLITS=num_splits,
    )  # fmt: skip
    combine_kernel[(B * H,)](
        o_partial, lse_partial, o, lse, B * H,
        SPLITS=num_splits, BLOCK_S=triton.next_power_of_2(num_splits), D=D, BLOCK_D=block_d,
    )  # fmt: skip
    return o, lse
