"""Backward passes: standard, and recomputation in three kernels. Floor: core."""

from flashlab.iocount.bounds.forward import flash_forward_bytes
from flashlab.iocount.bounds.traffic import STATISTIC, Traffic, merge, queries_met


def standard_backward_bytes(B: int, H: int, N_q: int, N_k: int, D: int, itemsize: int) -> Traffic:
    """Five steps over stored p, each input counted once.

    dv = p^T do; dp = do v^T; ds = p * (dp - delta); dq = ds k; dk = ds^T q, with dp and ds in
    memory: seven passes over an N_q x N_k matrix. Source: FlashAttention, Algorithm 3.
    """
    heads = B * H if N_q * N_k else 0
    queries, keys = heads * N_q * D * itemsize, heads * N_k * D * itemsize
    matrix = heads * N_q * N_k * itemsize
    return {
        "p": (2 * matrix, 0),
        "dp": (matrix, matrix),
        "ds": (2 * matrix, matrix),
        "do": (2 * queries, 0),
        "q": (queries, 0),
        "k": (keys, 0),
        "v": (keys, 0),
        "dq": (0, queries),
        "dk": (0, keys),
        "dv": (0, keys),
    }


def backward_delta_bytes(B: int, H: int, N_q: int, D: int, itemsize: int) -> Traffic:
    """delta = rowsum(do * o): one pass over both."""
    queries = B * H * N_q * D * itemsize
    return {"o": (queries, 0), "do": (queries, 0), "delta": (0, B * H * N_q * STATISTIC)}


def backward_dkdv_bytes(
    B: int,
    H: int,
    N_q: int,
    N_k: int,
    D: int,
    block_m: int,
    block_n: int,
    itemsize: int,
    causal_skip: bool = False,
    H_kv: int | None = None,
) -> Traffic:
    """A program per key block of a key head meets the queries of all its query heads.

    k, v, dk and dv move once; q, do, lse and delta once per key block (only from the first query
    that sees it with ``causal_skip``). Source: FlashAttention-2, Algorithm 2.
    """
    heads = B * H if N_q * N_k else 0
    met = heads * queries_met(N_q, N_k, block_m, block_n, causal_skip)
    keys = heads // H * (H if H_kv is None else H_kv) * N_k * D * itemsize if heads else 0
    return {
        "q": (met * D * itemsize, 0),
        "k": (keys, 0),
        "v": (keys, 0),
        "do": (met * D * itemsize, 0),
        "lse": (met * STATISTIC, 0),
        "delta": (met * STATISTIC, 0),
        "dk": (0, keys),
        "dv": (0, keys),
    }


def backward_dq_bytes(
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
    """A program per query block meets the keys again and writes dq once."""
    forward = flash_forward_bytes(B, H, N_q, N_k, D, block_m, block_n, itemsize, causal_skip)
    queries, rows = forward["q"][0], forward["lse"][1]
    return {
        "q": (queries, 0),
        "k": forward["k"],
        "v": forward["v"],
        "do": (queries, 0),
        "lse": (rows, 0),
        "delta": (rows, 0),
        "dq": (0, queries),
    }


def backward_bytes(
    B: int,
    H: int,
    N_q: int,
    N_k: int,
    D: int,
    block_m: int,
    block_n: int,
    itemsize: int,
    causal_skip: bool = False,
    H_kv: int | None = None,
) -> Traffic:
    """The whole backward in three kernels: delta, dk and dv, dq; tiles alike in both passes."""
    tiles = (block_m, block_n, itemsize, causal_skip)
    return merge(
        backward_delta_bytes(B, H, N_q, D, itemsize),
        backward_dkdv_bytes(B, H, N_q, N_k, D, *tiles, H_kv),
        backward_dq_bytes(B, H, N_q, N_k, D, *tiles),
    )
