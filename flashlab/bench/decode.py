"""``flashlab bench split_kv_decode``: one query row a head, beside SDPA's backends.

The rate is bytes of K and V / time: a decode step is done when the cache has been read.
"""

from collections.abc import Callable, Iterator

import torch
from torch.nn.attention import SDPBackend

from flashlab.bench import peers, table, timing
from flashlab.routes import decode_splits

D = 128
CELLS = ((1, 32, 8192), (1, 32, 65536), (1, 8, 65536), (16, 32, 8192))  # B, H, N


def cell(ours: Callable, B: int, H: int, N: int) -> dict:
    """One cell of the table, measured."""
    k, v = (torch.randn(B, H, N, D, device="cuda", dtype=torch.float16) for _ in range(2))
    q = torch.randn(B, H, 1, D, device="cuda", dtype=torch.float16)
    parts = decode_splits(B, H, N, q.device)
    times = timing.interleaved_ms(
        {
            "ours": lambda: ours(q, k, v, num_splits=parts),
            "sdpa flash": peers.sdpa(q, k, v, False, SDPBackend.FLASH_ATTENTION),
            "cudnn": peers.sdpa(q, k, v, False, SDPBackend.CUDNN_ATTENTION),
            "efficient": peers.sdpa(q, k, v, False, SDPBackend.EFFICIENT_ATTENTION),
        }
    )
    name = f"B {B:2d} H {H:2d} N {N:5d} ({parts} splits)"
    return table.row(name, k.nbytes + v.nbytes, "TB/s", times, B=B, H=H, N=N, D=D)


def rows(mine: bool) -> Iterator[dict]:
    """One row a cell."""
    ours = table.answer("split_kv_decode", mine)
    for size in CELLS:
        yield cell(ours, *size)


def main(slug: str, mine: bool = False, out: str | None = None) -> int:
    """Print one line a cell; 1 without a GPU."""
    return table.main(slug, rows(mine), mine, out)
