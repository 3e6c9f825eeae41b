"""``flashlab bench flash3_steps``: what each step of ``flash3_forward`` is worth.

Step 1 is a kernel of its own; steps 2 to 4 are the solution with the lines of later steps taken
back, so that all else is equal. Beside them the published schedule, with turns and without, and
as the compiler leaves it.
TFLOP/s = 4 B H N^2 D / time, halved under a causal mask; fp16.
"""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch.nn.attention import SDPBackend

from flashlab import sources
from flashlab.bench import peers, table, timing
from flashlab.bench.forward import GRID, TOKENS, WIDTH, flops, name_of
from flashlab.loading import load_module
from flashlab.worked.flash3_one_warpgroup import flash3_one_warpgroup
from flashlab.worked.flash3_pingpong import flash3_pingpong

SLUG = "flash3_forward"
Edits = tuple[tuple[str, str], ...]
NO_COUNTER = ("(min(sms, n_tiles),)", "(n_tiles,)")
PV = "acc = start_pv(p, v_bufs.index(stage), acc, D)\n    mbarrier.wait(k_full"
ALONE = (PV, PV.replace("\n", "\n    acc = warpgroup_mma_wait(0, deps=(acc,))\n"))
ROLE = "(consumer, (ctx, {}, D, {}, STAGES, CAUSAL, MASKED, SHIFTED, NEGATIVE, UNSEEN)),\n"
TWO = ROLE.format(0, 2) + " " * 12 + ROLE.format(1, 2)
SETTINGS = "(3, 3, 160, 128) if many else (2, 2, 240, 168)"
ONE_CONSUMER = (
    (TWO + " " * 12 + "(producer, (ctx, 2,", ROLE.format(0, 1) + " " * 12 + "(producer, (ctx, 1,"),
    ("], [4, 1], [REGISTERS, 24])", "], [1], [24])"),
    ("if WARPGROUPS == 2:", "if WARPGROUPS == 1:"),
    (SETTINGS, "(1, 2, 240, 168)"),
)
ONE_SLOT = (*ONE_CONSUMER[:-1], (SETTINGS, "(1, 1, 232, 128)"))  # then two programs fit on an SM
EDITS: dict[str, Edits] = {
    "2 producer": (*ONE_CONSUMER, ALONE, NO_COUNTER),
    "2 producer, one slot": (*ONE_SLOT, ALONE, NO_COUNTER),
    "3 two consumers": (ALONE, NO_COUNTER),
    "4 overlap": (NO_COUNTER,),
    "ours": (),  # step 5: the persistent grid
}


def version(edits: Edits) -> Callable:
    """The solution's function with each edit made; a text to edit stands there once."""
    text = sources.solution_text(SLUG)
    for old, new in edits:
        if text.count(old) != 1:
            raise ValueError(
                f"{old!r} must stand once in the solution, not {text.count(old)} times"
            )
        text = text.replace(old, new)
    return vars(load_module(text, f"<{SLUG} {abs(hash(edits))}>"))[SLUG]


def versions() -> dict[str, Callable]:
    """All that are timed, by name."""
    return {
        "1 one warpgroup": flash3_one_warpgroup,
        **{name: version(edits) for name, edits in EDITS.items()},
        "published: turns, overlap": flash3_pingpong,
        "overlap, no turns": partial(flash3_pingpong, turns=False),
        "turns, wait moved": partial(flash3_pingpong, held=False),
    }


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
    fns = versions()
    for size in GRID:
        yield cell(fns, *size)


def main(slug: str, mine: bool = False, out: str | None = None) -> int:
    """Print one line a cell; 1 without a GPU."""
    if mine:
        raise ValueError("flash3_steps times the course's versions: leave --mine away")
    return table.main(slug, rows(), mine, out)
