"""The smallest units of a tally, launches and steps, and how a step's counters are read.

Counters map (kind, argument, file, line) to bytes moved, ("masked", kind, argument, file, line)
to bytes that a mask held back, ("sectors", ...) to bytes of sectors, and a kind of operation to a
number.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Counters = Mapping[Any, int]
Program = tuple[int, int, int]
KINDS = ("load", "store", "atomic")
OTHER_FLOPS = ("elementwise", "divide", "reduce", "special")


@dataclass
class Launch:
    """One launch: the kernel's name and its grid."""

    kernel: str
    grid: Program


@dataclass
class Step:
    """One pass of a loop's body in one program, or what the program does outside loops.

    ``loops`` holds (source line, pass number) of the loops round it, outermost first; empty
    outside. ``load``, ``store`` and ``atomic`` map an argument to bytes moved; ``flops`` a kind
    to a number.
    """

    launch: int
    program: Program
    loops: tuple[tuple[int, int], ...]
    load: dict[str, int] = field(default_factory=dict)
    store: dict[str, int] = field(default_factory=dict)
    atomic: dict[str, int] = field(default_factory=dict)
    flops: dict[str, int] = field(default_factory=dict)


def flops_of(counters: Counters) -> dict[str, int]:
    """{"matmul", "exp", "other"} of the counters."""
    get = counters.get
    other = sum(get(kind, 0) for kind in OTHER_FLOPS)
    return {"matmul": get("matmul", 0), "exp": get("exp", 0), "other": other}


def spread(row: dict[str, dict[str, int]], counters: Counters) -> None:
    """Add the bytes moved to ``row``'s {argument: bytes}, by kind."""
    for key, n in counters.items():
        if type(key) is tuple and key[0] in KINDS:
            part = row[key[0]]
            part[key[1]] = part.get(key[1], 0) + n


def row_of(counters: Counters) -> dict[str, dict[str, int]]:
    """{"load", "store", "atomic": {argument: bytes}, "flops"} of the counters."""
    row: dict[str, dict[str, int]] = {kind: {} for kind in KINDS}
    spread(row, counters)
    return {**row, "flops": flops_of(counters)}
