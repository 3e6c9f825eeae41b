"""``flashlab bench block_sparse_forward``: a seeded pattern beside the same kernel run dense.

The rate counts the FLOPs of all blocks, zero ones too: a pattern that is skipped well beats the
card's peak. The lists of blocks are built inside the time, at every call.
"""

from collections.abc import Callable, Iterator

import torch

from flashlab.bench import peers, table, timing
from flashlab.bench.forward import flops

B, H, N, D, BLOCK = 2, 16, 8192, 128, 128
SHARES = (1.0, 0.5, 0.1)  # of blocks that are not zero


def pattern(share: float, seed: int = 0) -> torch.Tensor:
    """[H, N/BLOCK, N/BLOCK] bool on the GPU: in each row the same number of blocks, seeded."""
    blocks = N // BLOCK
    order = torch.rand(H, blocks, blocks, generator=torch.Generator().manual_seed(seed)).argsort(
        -1
    )
    return (order < round(share * blocks)).cuda()


def cell(ours: Callable, share: float) -> dict:
    """One share of blocks; ``ours dense`` is ours with a mask of ones, in the same run."""
    q, k, v = (torch.randn(B, H, N, D, device="cuda", dtype=torch.float16) for _ in range(3))
    dense, mask = table.answer("flash2_forward"), pattern(share)
    ones = torch.ones_like(mask)
    sizes = {"block_m": BLOCK, "block_n": BLOCK}
    times = timing.interleaved_ms(
        {
            "ours": lambda: ours(q, k, v, mask, **sizes),
            "ours dense": lambda: ours(q, k, v, ones, **sizes),
            "flash2_forward": lambda: dense(q, k, v),
            "flex": peers.flex(q, k, v, lambda b, h, i, j: mask[h, i // BLOCK, j // BLOCK]),
        }
    )
    work = flops(B, H, N, D, False)
    return table.row(f"{share:4.0%} of blocks", work, "TFLOP/s", times, share=share)


def rows(mine: bool) -> Iterator[dict]:
    """One row a share of blocks."""
    ours = table.answer("block_sparse_forward", mine)
    for share in SHARES:
        yield cell(ours, share)


def main(slug: str, mine: bool = False, out: str | None = None) -> int:
    """Print one line a share of blocks; 1 without a GPU."""
    return table.main(slug, rows(mine), mine, out)
