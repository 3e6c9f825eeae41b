"""Which calls fail: what tells their sizes or tiles from those that pass. Floor: course."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from flashlab.grader.bank import Run

Sizes = Mapping[str, Any]


def _odd(length: str, tile: str) -> Callable[[Sizes, Mapping[str, int]], bool]:
    return lambda s, t: s[length] % t[tile] != 0


CONDITIONS: tuple[tuple[str, Callable[[Sizes, Mapping[str, int]], bool]], ...] = (
    (
        "Only calls with rows that see no key fail (causal, more queries than keys).",
        lambda s, t: s["causal"] and s["N_q"] > s["N_k"],
    ),
    (
        "Only causal calls whose numbers of queries and keys differ fail.",
        lambda s, t: s["causal"] and s["N_q"] != s["N_k"],
    ),
    (
        "Only causal calls with BLOCK_M different from BLOCK_N fail: look at the loop's bounds.",
        lambda s, t: s["causal"] and t["BLOCK_M"] != t["BLOCK_N"],
    ),
    ("Only causal calls fail.", lambda s, t: bool(s["causal"])),
    ("Only calls that are not causal fail.", lambda s, t: not s["causal"]),
    (
        "It is right whenever BLOCK_M equals BLOCK_N, and wrong where they differ.",
        lambda s, t: t["BLOCK_M"] != t["BLOCK_N"],
    ),
    (
        "Only calls whose number of keys is not a multiple of BLOCK_N fail.",
        _odd("N_k", "BLOCK_N"),
    ),
    (
        "Only calls whose number of queries is not a multiple of BLOCK_M fail.",
        _odd("N_q", "BLOCK_M"),
    ),
    ("Only lengths that are not a multiple of BLOCK fail.", _odd("N", "BLOCK")),
    ("Only calls with several query heads per key head fail.", lambda s, t: s["H_kv"] < s["H"]),
    ("Only calls with more than one batch or head fail.", lambda s, t: s["B"] * s["H"] > 1),
    (
        "Only calls with more than one tile of keys fail: one tile alone is right.",
        lambda s, t: s["N_k"] > t["BLOCK_N"],
    ),
    (
        "Only calls with more than one tile of queries fail.",
        lambda s, t: s["N_q"] > t["BLOCK_M"],
    ),
    ("Only calls whose K is not a multiple of BLOCK_K fail.", _odd("K", "BLOCK_K")),
    ("Only calls whose M is not a multiple of BLOCK_M fail.", _odd("M", "BLOCK_M")),
    ("Only calls whose N is not a multiple of BLOCK_N fail.", _odd("N", "BLOCK_N")),
    ("Only rows whose length C is not a multiple of BLOCK_N fail.", _odd("C", "BLOCK_N")),
    ("Only numbers of rows R that are not a multiple of BLOCK_M fail.", _odd("R", "BLOCK_M")),
    (
        "Only calls with more than one tile along K fail: a single tl.dot is right.",
        lambda s, t: s["K"] > t["BLOCK_K"],
    ),
    (
        "Only rows longer than one tile of BLOCK_N fail: one tile alone is right.",
        lambda s, t: s["C"] > t["BLOCK_N"],
    ),
    (
        "Only calls with more than one tile of c fail: look at what each program takes.",
        lambda s, t: s["M"] > t["BLOCK_M"] or s["N"] > t["BLOCK_N"],
    ),
    ("Only calls with more than one tile of rows fail.", lambda s, t: s["R"] > t["BLOCK_M"]),
    (
        "Only rows whose length C is not a power of two fail.",
        lambda s, t: s["C"] & (s["C"] - 1) != 0,
    ),
    ("Only lengths of more than one BLOCK fail.", lambda s, t: s["N"] > t["BLOCK"]),
    (
        "Only calls whose D is not a power of two fail.",
        lambda s, t: s["D"] & (s["D"] - 1) != 0,
    ),
    (
        "Only calls whose numbers of queries and keys differ fail.",
        lambda s, t: s["N_q"] != s["N_k"],
    ),
    (
        "Only tensors that are not contiguous fail: look at the strides.",
        lambda s, t: s.get("layout", "contiguous") != "contiguous",
    ),
)


def condition(runs: Sequence[Run]) -> list[str]:
    """The property of sizes or tiles that all failing runs have and no passing run has."""
    failing = [r for r in runs if r.failed]
    passing = [r for r in runs if r.result.status == "pass"]
    if not failing or not passing:
        return []
    for sentence, test in CONDITIONS:
        if all(_holds(test, r) for r in failing) and not any(_holds(test, r) for r in passing):
            return [sentence]
    return []


def _holds(test: Callable[[Sizes, Mapping[str, int]], bool], run: Run) -> bool:
    """The test on a run; sizes that were left out count as 1 head, not causal."""
    sizes = {"B": 1, "H": 1, "causal": False} | dict(run.result.sizes)
    sizes.setdefault("H_kv", sizes["H"])
    try:
        return bool(test(sizes, run.tiles))
    except (KeyError, TypeError, ZeroDivisionError):
        return False
