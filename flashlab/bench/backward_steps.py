"""``flashlab bench flash3_backward_steps``: what each step of ``flash3_backward`` is worth.

TFLOP/s = 10 B H N^2 D / time, halved under a causal mask; fp16.
"""

from collections.abc import Iterator
from functools import partial

import torch

from flashlab.bench import peers, table, timing
from flashlab.bench.forward import GRID, TOKENS, WIDTH, flops, name_of
from flashlab.worked import flash3_backward_steps as steps


def cell(D: int, causal: bool, N: int) -> dict:
    """One cell of the grid, measured; ours is the last step."""
    B, H = TOKENS // N, WIDTH // D
    q, k, v, do = (torch.randn(B, H, N, D, device="cuda", dtype=torch.float16) for _ in range(4))
    o, lse = table.answer("flash2_forward")(q, k, v, causal=causal)
    calls = {
        "ours" if name == steps.STEPS[-1] else name: partial(
            steps.function(name), q, k, v, o, lse, do, causal=causal
        )
        for name in steps.STEPS
    }
    calls["deterministic"] = partial(calls["ours"], deterministic=True)
    calls["cudnn"] = peers.cudnn_backward(q, k, v, do, causal)
    times = timing.interleaved_ms(calls)
    work = 2.5 * flops(B, H, N, D, causal)
    return table.row(name_of(D, causal, N), work, "TFLOP/s", times, B=B, H=H, N=N, D=D)


def rows() -> Iterator[dict]:
    """One row a cell of the grid, short sequences left out."""
    for size in GRID:
        if size[2] >= 4096:
            yield cell(*size)


def main(slug: str, mine: bool = False, out: str | None = None) -> int:
    """Print one line a cell; 1 without a GPU."""
    if mine:
        raise ValueError("flash3_backward_steps times the course's versions: leave --mine away")
    return table.main(slug, rows(), mine, out)
