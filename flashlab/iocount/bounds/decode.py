"""Decode: one query row against a cache. Floor: core."""

from collections.abc import Sequence

from flashlab.iocount.bounds.traffic import STATISTIC, Traffic


def split_kv_bytes(
    B: int,
    H: int,
    H_kv: int,
    N: int | Sequence[int],
    D: int,
    num_splits: int,
    itemsize: int,
    packed: bool = True,
) -> Traffic:
    """Decode with one query row: the cache cut in ``num_splits``, then partial results combined.

    Every split reads q and stores an fp32 partial o and lse, which the combining kernel reads
    once. Block sizes change nothing.

    Args:
        N: Cached keys of all batches, or one number a batch, which each program then reads
            (int32, ``cache_seqlens``).
        packed: A program serves all query heads of a key head, so k and v move once; else each
            query head reads them.
    """
    lengths = [N] * B if isinstance(N, int) else list(N)
    readers = H_kv if packed else H
    keys = sum(lengths) * readers * D * itemsize
    partial, rows = num_splits * B * H * D * STATISTIC, num_splits * B * H * STATISTIC
    traffic = {
        "q": (num_splits * B * H * D * itemsize, 0),
        "k": (keys, 0),
        "v": (keys, 0),
        "o_partial": (partial, partial),
        "lse_partial": (rows, rows),
        "o": (0, B * H * D * itemsize),
        "lse": (0, B * H * STATISTIC),
    }
    if not isinstance(N, int):
        traffic["cache_seqlens"] = (4 * B * readers * num_splits, 0)
    return traffic
