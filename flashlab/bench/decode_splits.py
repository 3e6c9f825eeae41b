"""``flashlab bench decode_splits``: the course's split_kv_decode over the number of shares.

The rate is bytes of K and V / time, as in ``bench.decode``.
"""

from collections.abc import Iterator

import torch

from flashlab.bench import table, timing
from flashlab.bench.decode import D

CELLS = ((1, 8, 65536), (1, 32, 65536))  # B, H, N
SPLITS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def rows(mine: bool) -> Iterator[dict]:
    """One row a number of shares; all numbers of a size take turns."""
    ours = table.answer("split_kv_decode", mine)
    for B, H, N in CELLS:
        k, v = (torch.randn(B, H, N, D, device="cuda", dtype=torch.float16) for _ in range(2))
        q = torch.randn(B, H, 1, D, device="cuda", dtype=torch.float16)
        times = timing.interleaved_ms(
            {s: lambda s=s, at=(q, k, v): ours(*at, num_splits=s) for s in SPLITS}
        )
        for s in SPLITS:
            name = f"B {B} H {H:2d} N {N}, {s:3d} splits"
            at = {"B": B, "H": H, "N": N, "D": D, "num_splits": s}
            yield table.row(name, k.nbytes + v.nbytes, "TB/s", {"ours": times[s]}, **at)


def main(slug: str, mine: bool = False, out: str | None = None) -> int:
    """Print one line a number of shares; 1 without a GPU."""
    return table.main(slug, rows(mine), mine, out)
