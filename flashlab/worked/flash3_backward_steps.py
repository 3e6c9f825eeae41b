"""``flash3_backward`` as it grew: its first two steps, and itself with later steps taken back.

Steps 1 and 2 have files of their own. Of steps 3 to 5 the text is the last kernel's without the
lines of the steps behind them, so that all else is equal. Floor: core.
"""

import difflib
import functools
import textwrap
from collections.abc import Callable
from pathlib import Path

from flashlab.loading import load_module
from flashlab.worked.flash3_backward_in_order import backward_in_order
from flashlab.worked.flash3_backward_roles import backward_roles

WHOLE = Path(__file__).parent / "flash3_backward.py"


def _waited(line: str, name: str) -> tuple[str, str]:
    """A line that starts the product ``name``, and what it was when each was waited for."""
    return line, f"{line}\n{name} = warpgroup_mma_wait(0, deps=({name},))"


# Pairs: a line of the last kernel, and what stood there before the step
TOGETHER = (  # 4: products are waited for where they are used, not where they start
    _waited("started = start_scores(i, ctx, BLOCK_M, D, W)", "started"),
    _waited(
        "dp = warpgroup_mma(my_v, do.permute((1, 0)), zeros, use_acc=False, is_async=True)", "dp"
    ),
    _waited("dv = warpgroup_mma(gl.convert_layout(p, A_LAYOUT), do, dv, is_async=True)", "dv"),
    _waited("dq = warpgroup_mma(my_ds, my_half, dq, use_acc=False, is_async=True)", "dq"),
)
BROUGHT = (  # 5: the producer brings lse and delta to shared memory
    ("rows = ((b * H + h) * n_blocks + m) * BLOCK_M + gl.arange(0, BLOCK_M, layout=ROW)", ""),
    ("lse = gl.load(lse_ptr + rows)", ""),
    ("delta = gl.load(delta_ptr + rows)", ""),
    ("lse_bufs.index(slot).store(lse)  # in shared memory: in registers it would spill", ""),
    ("delta_bufs.index(slot).store(delta)", ""),
    ("mbarrier.arrive(rows_full.index(slot), count=1)", ""),
    ("mbarrier.wait(rows_full.index(slot), phase)", ""),
    ("lse = lse_bufs.index(slot).load(ROW)", ""),
    (
        "# 1. s^T = k q^T and dp^T = v do^T, [ROWS, BLOCK_M]; p^T while dp^T is under way",
        """\
        rows = ((b * H + h) * gl.cdiv(N_q, BLOCK_M) + m) * BLOCK_M
        rows += gl.arange(0, BLOCK_M, layout=ROW)
        lse = gl.load(ptrs[0] + rows)

        # 1. s^T = k q^T and dp^T = v do^T, [ROWS, BLOCK_M]; p^T while dp^T is under way""",
    ),
    ("delta = delta_bufs.index(slot).load(ROW)", "delta = gl.load(ptrs[1] + rows)"),
)
WHILE_ANOTHER_RUNS = (  # 6: dq is stored under a product: dk, or at D 64 the next tile's s
    (
        "AHEAD_AT = gl.constexpr(64)"
        "  # at this D s is a tile ahead: at 128 there are no registers for it",
        "AHEAD_AT = gl.constexpr(0)  # s is never a tile ahead",
    ),
    (
        "dv, dq = warpgroup_mma_wait(1, deps=(dv, dq))",
        "dk, dv, dq = warpgroup_mma_wait(0, deps=(dk, dv, dq))",
    ),
)
TAKEN_BACK = {
    "3 dq by TMA": WHILE_ANOTHER_RUNS + BROUGHT + TOGETHER,
    "4 products together": WHILE_ANOTHER_RUNS + BROUGHT,
    "5 lse and delta brought": WHILE_ANOTHER_RUNS,
    "6 dq under a product": (),
}
STEPS = ("1 one warpgroup", "2 roles", *TAKEN_BACK)


def text(step: str) -> str:
    """The file of a step from the third on.

    Raises:
        ValueError: a line to take back does not stand exactly once in the last kernel.
    """
    lines = WHOLE.read_text(encoding="utf-8").splitlines()
    for new, old in TAKEN_BACK[step]:
        found = [i for i, line in enumerate(lines) if line.strip() == new]
        if len(found) != 1:
            raise ValueError(
                f"a line {new!r} must stand once in {WHOLE.name}, not {len(found)} times"
            )
        (at,) = found
        indent = lines[at].removesuffix(new)
        lines[at : at + 1] = textwrap.indent(textwrap.dedent(old), indent).splitlines()
    return "\n".join(lines) + "\n"


def change(step: str) -> str:
    """What a step from the fourth on changes: lines that go (-) and that come (+)."""
    before = STEPS[STEPS.index(step) - 1]
    both = (text(name).splitlines() for name in (before, step))
    lines = list(difflib.unified_diff(*both, n=0, lineterm=""))[2:]
    return "\n".join("" if line.startswith("@@") else line for line in lines).strip("\n")


@functools.cache
def function(step: str) -> Callable:
    """(q, k, v, o, lse, do, *, causal, sm_scale) -> (dq, dk, dv), by a step of ``STEPS``."""
    if step == STEPS[0]:
        return backward_in_order
    if step == STEPS[1]:
        return backward_roles
    return load_module(text(step), f"<flash3_backward, step {step}>").flash3_backward
