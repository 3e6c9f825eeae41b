"""Forward passes: standard, FlashAttention-1, FlashAttention-2, block-sparse. Floor: core."""

from math import ceil
from typing import Any

from flashlab.iocount.bounds.traffic import STATISTIC, Traffic, keys_met


def standard_forward_bytes(
    B: int,
    H: int,
    N_q: int,
    N_k: int,
    D: int,
    itemsize: int,
    *,
    block_m: int | None = None,
) -> Traffic:
    """Three kernels: s = q k^T, p = softmax(s), o = p v, with s and p in memory.

    A program computes block_m rows of s, or of o; a row of s fits on chip. Without a block size
    every input counts once, as in Algorithm 0 of FlashAttention.
    """
    heads = B * H if N_q * N_k else 0
    per_k = 1 if block_m is None else ceil(N_q / block_m)
    queries, keys = heads * N_q * D * itemsize, heads * N_k * D * itemsize
    matrix = heads * N_q * N_k * itemsize
    return {
        "q": (queries, 0),
        "k": (keys * per_k, 0),
        "s": (matrix, matrix),
        "p": (matrix, matrix),
        "v": (keys * per_k, 0),
        "o": (0, queries),
    }


def flash1_forward_bytes(
    B: int, H: int, N_q: int, N_k: int, D: int, block_m: int, block_n: int, itemsize: int
) -> Traffic:
    """FlashAttention-1's order: keys outside, o, m and l read and written at every key block.

    k and v move once, q, o, m and l once per key block; nothing of o, m and l is read before the
    first one. block_m changes nothing. Source: FlashAttention, Algorithm 1.
    """
    heads, passes = B * H if N_q * N_k else 0, ceil(N_k / block_n)
    queries, keys = heads * N_q * D * itemsize, heads * N_k * D * itemsize
    rows = heads * N_q * STATISTIC
    return {
        "q": (queries * passes, 0),
        "k": (keys, 0),
        "v": (keys, 0),
        "o": (queries * max(0, passes - 1), queries * passes),
        "m": (rows * max(0, passes - 1), rows * passes),
        "l": (rows * max(0, passes - 1), rows * passes),
    }


def flash_forward_bytes(
    B: int,
    H: int,
    N_q: int,
    N_k: int,
    D: int,
    block_m: int,
    block_n: int,
    itemsize: int,
    causal_skip: bool = False,
) -> Traffic:
    """FlashAttention-2's order: a program per query block meets the keys tile by tile.

    q, o and lse move once, k and v once per query block (only its visible tiles with
    ``causal_skip``). With fewer key heads nothing changes: each query head reads its own way
    through them. Source: FlashAttention-2, Algorithm 1.
    """
    heads = B * H if N_q * N_k else 0
    queries = heads * N_q * D * itemsize
    keys = heads * keys_met(N_q, N_k, block_m, block_n, causal_skip) * D * itemsize
    return {
        "q": (queries, 0),
        "k": (keys, 0),
        "v": (keys, 0),
        "o": (0, queries),
        "lse": (0, heads * N_q * STATISTIC),
    }


def block_sparse_forward_bytes(
    B: int,
    H: int,
    N_q: int,
    N_k: int,
    D: int,
    block_m: int,
    block_n: int,
    itemsize: int,
    block_mask: Any,
    mask_itemsize: int = 1,
) -> Traffic:
    """``flash_forward_bytes`` over the tiles that ``block_mask`` keeps.

    Args:
        block_mask: [H or 1, ceil(N_q / block_m), ceil(N_k / block_n)] of truth values, nested
            lists or anything with ``tolist``. Each program reads its row of it.
        mask_itemsize: Bytes of one element of the mask in memory.

    Source: FlashAttention, Algorithm 5.
    """
    kept = block_mask.tolist() if hasattr(block_mask, "tolist") else block_mask
    width = [min(block_n, N_k - start) for start in range(0, N_k, block_n)]
    met = sum(
        sum(rows for rows, keep in zip(width, row, strict=True) if keep)
        for head in range(H)
        for row in kept[head if len(kept) > 1 else 0]
    )
    dense = flash_forward_bytes(B, H, N_q, N_k, D, block_m, block_n, itemsize)
    keys = B * met * D * itemsize if N_q else 0
    entries = B * H * ceil(N_q / block_m) * len(width) * mask_itemsize
    return {**dense, "k": (keys, 0), "v": (keys, 0), "block_mask": (entries, 0)}
