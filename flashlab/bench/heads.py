"""``flashlab bench heads``: keys outside (a program a head) beside queries outside, over heads.

Both in this course's Triton, full attention, fp16. TFLOP/s = 4 B H N^2 D / time.
"""

from collections.abc import Callable, Iterator

import torch

from flashlab.bench import table, timing
from flashlab.bench.forward import flops
from flashlab.worked import flash1

N, D = 4096, 64
HEADS = (1, 4, 16, 64, 128, 256)


def cell(ours: Callable, heads: int) -> dict:
    """One number of heads, of one sequence."""
    q, k, v = (torch.randn(1, heads, N, D, device="cuda", dtype=torch.float16) for _ in range(3))
    times = timing.interleaved_ms(
        {"ours": lambda: ours(q, k, v), "FA1 order": lambda: flash1.flash1_forward(q, k, v)}
    )
    work = flops(1, heads, N, D, False)
    return table.row(f"{heads:3d} heads", work, "TFLOP/s", times, B=1, H=heads, N=N, D=D)


def rows(mine: bool = False) -> Iterator[dict]:
    """One row a number of heads."""
    ours = table.answer("flash2_forward", mine)
    for heads in HEADS:
        yield cell(ours, heads)


def main(slug: str, mine: bool = False, out: str | None = None) -> int:
    """Print one line a number of heads; 1 without a GPU."""
    return table.main(slug, rows(mine), mine, out)
