"""``flashlab bench flash2_backward`` and ``flash3_backward``: the backward pass beside others.

TFLOP/s = 10 B H N^2 D / time (2.5 times the forward), halved under a causal mask.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import torch

from flashlab.bench import peers, table, timing
from flashlab.bench.forward import GRID, TOKENS, WIDTH, flops, name_of
from flashlab.worked import standard_backward as standard
from flashlab.worked.flash3_backward import flash3_backward

SHORT = [(64, False, 1024), (64, False, 4096)]  # what a chapter measures in passing


def cell(ours: Callable, D: int, causal: bool, N: int) -> dict:
    """One cell of the grid, measured."""
    B, H = max(TOKENS // N, 1), WIDTH // D
    q, k, v, do = (torch.randn(B, H, N, D, device="cuda", dtype=torch.float16) for _ in range(4))
    o, lse = table.answer("flash2_forward")(q, k, v, causal=causal)
    fns = {"ours": lambda: ours(q, k, v, o, lse, do, causal=causal)}
    for name, peer in (("sdpa flash", peers.flash_backward), ("cudnn", peers.cudnn_backward)):
        try:
            fns[name] = peer(q, k, v, do, causal)
        except RuntimeError as error:
            print(f"  {name}: not available here ({str(error).splitlines()[0][:90]})")
    if 3 * B * H * N * N * 2 < 0.5 * torch.cuda.mem_get_info()[0]:  # p, dp and ds in memory
        p = standard.standard_weights(q, k, causal=causal)
        fns["standard"] = lambda: standard.standard_backward(q, k, v, p, do)
    fns["flex forward"], fns["flex both"] = peers.flex_both(q, k, v, do, causal)
    times = timing.interleaved_ms(fns)
    times["flex"] = times.pop("flex both") - times.pop("flex forward")
    work = 2.5 * flops(B, H, N, D, causal)
    return table.row(name_of(D, causal, N), work, "TFLOP/s", times, B=B, H=H, N=N, D=D)


def rows(mine: bool = False, grid: Iterable[tuple[int, bool, int]] = GRID) -> Iterator[dict]:
    """One row a cell (D, causal, N) of the grid."""
    ours = table.answer("flash2_backward", mine)
    for size in grid:
        yield cell(ours, *size)


def hopper_cell(D: int, causal: bool, N: int) -> dict:
    """One cell of the Gluon kernel on Hopper: dq added by TMA, and in a pass of its own."""
    B, H = max(TOKENS // N, 1), WIDTH // D
    q, k, v, do = (torch.randn(B, H, N, D, device="cuda", dtype=torch.float16) for _ in range(4))
    o, lse = table.answer("flash2_forward")(q, k, v, causal=causal)
    call = partial(flash3_backward, q, k, v, o, lse, do, causal=causal)
    chapter_7 = partial(table.answer("flash2_backward"), q, k, v, o, lse, do, causal=causal)
    fns = {
        "ours": call,
        "deterministic": partial(call, deterministic=True),
        "flash2_backward": chapter_7,
        "sdpa flash": peers.flash_backward(q, k, v, do, causal),
        "cudnn": peers.cudnn_backward(q, k, v, do, causal),
    }
    work = 2.5 * flops(B, H, N, D, causal)
    times = timing.interleaved_ms(fns)
    return table.row(name_of(D, causal, N), work, "TFLOP/s", times, B=B, H=H, N=N, D=D)


def main(slug: str, mine: bool = False, out: str | None = None) -> int:
    """Print one line a cell; 1 without a GPU."""
    if slug == "flash3_backward":
        if mine:
            raise ValueError("--mine times an exercise's file; flash3_backward is no exercise")
        return table.main(slug, (hopper_cell(*size) for size in GRID), False, out)
    return table.main(slug, rows(mine), mine, out)
