"""Traffic by tensor, and which rows the tiles of a head meet. Floor: core."""

from collections.abc import Mapping
from math import ceil

Traffic = dict[str, tuple[int, int]]
STATISTIC = 4  # bytes of an fp32 statistic


def total_bytes(traffic: Mapping[str, tuple[int, int]]) -> int:
    """Loaded and stored, all tensors together."""
    return sum(loaded + stored for loaded, stored in traffic.values())


def moved_bytes(traffic: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    """Loaded plus stored bytes by tensor."""
    return {name: loaded + stored for name, (loaded, stored) in traffic.items()}


def merge(*parts: Mapping[str, tuple[int, int]]) -> Traffic:
    """The traffic of several passes together."""
    out: Traffic = {}
    for part in parts:
        for name, (loaded, stored) in part.items():
            before = out.get(name, (0, 0))
            out[name] = (before[0] + loaded, before[1] + stored)
    return out


def keys_met(N_q: int, N_k: int, block_m: int, block_n: int, causal_skip: bool = False) -> int:
    """Key rows loaded by all query blocks of a head together.

    With ``causal_skip`` a query block stops after the tile that holds the last key its last row
    may see; without it, every block meets all N_k keys.
    """
    met = 0
    for start in range(0, N_q, block_m):
        last = min(start + block_m, N_q) - 1
        seen = max(0, last + 1 + N_k - N_q) if causal_skip else N_k
        met += min(N_k, ceil(seen / block_n) * block_n)
    return met


def queries_met(N_q: int, N_k: int, block_m: int, block_n: int, causal_skip: bool = False) -> int:
    """Query rows loaded by all key blocks of a head together.

    With ``causal_skip`` a key block starts at the tile that holds the first query which may see
    its first key; without it, every block meets all N_q queries.
    """
    met = 0
    for start in range(0, N_k, block_n):
        first = max(0, start - (N_k - N_q)) if causal_skip else 0
        met += N_q - first // block_m * block_m
    return met
