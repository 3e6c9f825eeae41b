"""Other lengths where several belong together: lists, pages, shares, ranks. Floor: front.

Each stays in its tile and keeps whether the tile is full, how many pages it fills and whether the
last page is full, and which of two lengths is the longer.
"""

import random
from collections.abc import Mapping
from typing import Any

FIXED = ("rest", "spare", "late", "shared")  # sizes that were chosen for one length


def drawn(
    sizes: Mapping[str, Any], tiles: Mapping[str, int], chooser: random.Random
) -> dict[str, Any]:
    """The sizes to change; empty where a case has to stay as it is."""
    if any(name in sizes for name in FIXED):
        return {}
    if "world" in sizes:
        rounds = 2 * sizes["world"]  # a zigzag gives two parts to each rank
        return {"N": sizes["N"] + rounds * chooser.randrange(0, 3)}
    if "shape" in sizes:
        rows = sizes["shape"][-2:-1] if len(sizes["shape"]) == 2 else []
        new = [_other(n, tiles["BLOCK_M"], 1, chooser) for n in rows]
        return {"shape": [*new, *sizes["shape"][len(new) :]]}
    if type(sizes.get("N_q")) is list:
        return _sequences(sizes, tiles, chooser)
    found: dict[str, Any] = {}
    block, page, most = tiles["BLOCK_N"], sizes.get("page", 1), sizes.get("N")
    if page == 1 and "page" in sizes:
        return {}
    if type(most) is int and most % block and "lengths" not in sizes:
        found["N"] = _other(most, block, 1, chooser)
    if "lengths" in sizes:
        limit = most if most is not None else 1 << 30
        new = [_other(n, block, page, chooser) for n in sizes["lengths"]]
        same = zip(sizes["lengths"], new, strict=True)
        found["lengths"] = [old if old == limit or n > limit else n for old, n in same]
    return found


def _sequences(
    sizes: Mapping[str, Any], tiles: Mapping[str, int], chooser: random.Random
) -> dict[str, list[int]]:
    """Lengths of packed sequences; under a causal mask their differences are the point."""
    if sizes.get("causal"):
        return {}
    queries, keys = list(sizes["N_q"]), list(sizes["N_k"])
    small = min(tiles["BLOCK_M"], tiles["BLOCK_N"])  # the other is a multiple of it
    for i, (q, k) in enumerate(zip(queries, keys, strict=True)):
        new_q = _other(q, small if q == k else tiles["BLOCK_M"], 1, chooser)
        new_k = new_q if q == k else _other(k, tiles["BLOCK_N"], 1, chooser)
        if (q < k) == (new_q < new_k) and (q > k) == (new_q > new_k):
            if bool(k % tiles["BLOCK_N"]) == bool(new_k % tiles["BLOCK_N"]):
                queries[i], keys[i] = new_q, new_k
    return {"N_q": queries, "N_k": keys}


def _other(length: int, block: int, page: int, chooser: random.Random) -> int:
    """Another length of the same class; 0, 1, full tiles, and one row more or fewer stay."""
    if length < 2 or length % block in (0, 1, block - 1):
        return length
    start = length // block * block
    in_tile = range(max(start + 1, 2), start + block)
    if page == 1:
        return chooser.choice(in_tile)
    same = [n for n in in_tile if (n - 1) // page == (length - 1) // page]
    return chooser.choice([n for n in same if bool(n % page) == bool(length % page)])
