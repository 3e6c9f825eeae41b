"""``flashlab bench flash3_steps``: what the last steps of ``flash3_forward`` are worth.

Each version is the solution with the lines of a step taken back, so that all else is equal.
TFLOP/s = 4 B H N^2 D / time, halved under a causal mask; fp16.
"""

from collections.abc import Callable, Iterator

import torch
from torch.nn.attention import SDPBackend

from flashlab import sources
from flashlab.bench import peers, table, timing
from flashlab.bench.forward import GRID, TOKENS, WIDTH, flops, name_of
from flashlab.loading import load_module

SLUG = "flash3_forward"
GRID_LINE = "(min(sms, n_tiles),)", "(n_tiles,)"
PV = "acc = start_pv(p, v_bufs.index(stage), acc, D)\n    mbarrier.wait(k_full"
ALONE = PV.replace("\n", "\n    acc = warpgroup_mma_wait(0, deps=(acc,))\n")
STEPS: dict[str, tuple[tuple[str, str], ...]] = {
    "3 two consumers": (GRID_LINE, (PV, ALONE)),
    "4 overlap": (GRID_LINE,),
    "ours": (),  # step 5: the persistent grid
}


def version(edits: tuple[tuple[str, str], ...]) -> Callable:
    """The solution's function with each edit made; a text to edit stands there once."""
    text = sources.solution_text(SLUG)
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(
                f"{old!r} must stand once in the solution, not {text.count(old)} times"
            )
        text = text.replace(old, new)
    return vars(load_module(text, f"<{SLUG} {len(edits)}>"))[SLUG]


def cell(fns: dict[str, Callable], D: int, causal: bool, N: int) -> dict:
    """One cell of the grid, measured."""
    B, H = TOKENS // N, WIDTH // D
    q, k, v = (torch.randn(B, H, N, D, device="cuda", dtype=torch.float16) for _ in range(3))
    calls = {name: lambda f=f: f(q, k, v, causal=causal) for name, f in fns.items()}
    calls["cudnn"] = peers.sdpa(q, k, v, causal, SDPBackend.CUDNN_ATTENTION)
    times = timing.interleaved_ms(calls)
    work = flops(B, H, N, D, causal)
    return table.row(name_of(D, causal, N), work, "TFLOP/s", times, B=B, H=H, N=N, D=D)


def rows() -> Iterator[dict]:
    """One row a cell of the grid."""
    fns = {name: version(edits) for name, edits in STEPS.items()}
    for size in GRID:
        yield cell(fns, *size)


def main(slug: str, mine: bool = False, out: str | None = None) -> int:
    """Print one line a cell; 1 without a GPU."""
    if mine:
        raise ValueError("flash3_steps times the course's versions: leave --mine away")
    return table.main(slug, rows(), mine, out)
