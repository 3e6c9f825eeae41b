"""Correct in another style: one list of (tensor, how often, how wide), for all kinds."""


def io_cost(N, D, *, block_m, block_n, dtype_bytes, kind):
    row, square = D * dtype_bytes, N * dtype_bytes  # bytes of a row of q, and of s
    by_queries = (N + block_m - 1) // block_m
    by_keys = (N + block_n - 1) // block_n
    both = by_keys + max(0, by_keys - 1)  # out, and in again
    moves = {
        "standard": [("q", 1, row), ("k", by_queries, row), ("v", by_queries, row)]
        + [("o", 1, row), ("s", 2, square), ("p", 2, square)],
        "flash1": [("q", by_keys, row), ("k", 1, row), ("v", 1, row)]
        + [("o", both, row), ("m", both, 4), ("l", both, 4)],
        "flash2": [("q", 1, row), ("k", by_queries, row), ("v", by_queries, row)]
        + [("o", 1, row), ("lse", 1, 4)],
    }
    return {name: N * times * width for name, times, width in moves[kind]}
