"""What an exercise is, as frozen data: cases, IO budget, mistakes, hints. Floor: core.

A call's inputs are torch tensors and plain scalars by argument name. Tile sizes are plain
dictionaries such as ``{"BLOCK_M": 16, "BLOCK_N": 32}``; sizes are dictionaries such as
``{"B": 1, "H": 2, "N_q": 37, "N_k": 37, "D": 16, "causal": True}``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Sizes = Mapping[str, Any]
Tiles = Mapping[str, int]
Inputs = Mapping[str, Any]
Outputs = Mapping[str, torch.Tensor]

GROUPS = ("core", "ragged", "causal", "hostile")
STATUSES = (
    "pass",
    "unfilled",
    "contract",
    "forbidden",
    "compile",
    "oob",
    "race",
    "uninitialised",
    "nan",
    "wrong",
    "precision",
    "timeout",
    "oom",
    "crash",
    "grader_error",
)


@dataclass(frozen=True)
class Output:
    """One returned tensor.

    Args:
        name: Its name in reports.
        dtype: torch dtype name; ``"input"``: that of the first tensor argument.
        of: The function that returns it; empty is the exercise's first.
    """

    name: str
    dtype: str = "input"
    of: str = ""


@dataclass(frozen=True)
class Case:
    """One graded call; ``sizes`` makes its sizes from the tile sizes it runs at.

    Args:
        name: Test id; spells the idea, such as ``"one-tile"`` or ``"ragged-keys"``.
        group: One of ``GROUPS``; shown and scored in that order.
        sizes: Tile sizes -> sizes that ``Exercise.make_inputs`` understands.
        why: One sentence, shown when the case fails.
        dtype: torch dtype name of the inputs.
        seed: Seed of the inputs.
        pairs: Indices into ``Exercise.tile_pairs`` at which the case runs.
        own: Repeat at the learner's own tile sizes too.
        trivial: Why a trivial answer (zeros, mean of V, V[0]) is right here; else empty.
        function: Which of the exercise's functions is called; empty is the first.
    """

    name: str
    group: str
    sizes: Callable[[Tiles], Sizes]
    why: str
    dtype: str = "float16"
    seed: int = 0
    pairs: tuple[int, ...] = (0,)
    own: bool = False
    trivial: str = ""
    function: str = ""

    def __post_init__(self) -> None:
        if self.group not in GROUPS:
            raise ValueError(
                f"case {self.name}: group must be one of {GROUPS}, not {self.group!r}"
            )


@dataclass(frozen=True)
class Mistake:
    """One edit of the solution that a learner might have written.

    Args:
        slug: Its id, such as ``"no-rescale"``.
        old: Text that stands exactly once in the solution.
        new: What replaces it.
        breaks: Name of a case that must fail, of the first group in which any fails.
        expect: Status which that failure gets (one of ``STATUSES``).
        says: The fault in a learner's words: one sentence.
        tier: Lowest tier that can see it.
    """

    slug: str
    old: str
    new: str
    breaks: str
    expect: str
    says: str
    tier: str = "cpu"


@dataclass(frozen=True)
class Exercise:
    """Everything the course knows of one exercise apart from its contract, reference and solution.

    Args:
        slug: Its name; the solution is ``solutions/<slug>.py``.
        chapter: Two digits of chapter and lab.
        title: A few words.
        kind: ``"triton"``, ``"torch"``, ``"python"`` or ``"gluon"``.
        reference: ``"module:function"`` of contract and reference, which returns every output.
        outputs: What each function returns, in order.
        make_inputs: ``(sizes, dtype, generator) -> {argument: tensor or scalar}``; tensors may be
            any strided view (the grader keeps shape, strides and offset and pads with NaN).
        honest: ``(inputs) -> list of {output: tensor}``: honest low-precision answers, whose worst
            error sets the budget of the comparer. Empty list: exact comparison.
        cases, mistakes, hints: In the order in which they are shown.
        steps: One short heading per hole of the solution, in order.
        budget: ``(sizes, tiles, itemsize) -> {tensor: (loaded_bytes, stored_bytes)}``, equal to
            the solution's tally; None where nothing is counted.
        tile_names, tile_pairs: Names and the fixed values that cases run at.
        tiles_as: ``"constants"`` (module constants of the learner's file) or ``"arguments"``
            (keyword arguments of the call, lower case).
        archs: Compute capabilities that the kernels must compile for.
        compiled: Cases whose launches are compiled; empty: the first good run of each function.
        needs: Kinds of instructions (``aot.Compiled.counts``) that what is compiled for sm_90 and
            later must hold: in Gluon each kernel, else one of them.
        shuns: Kinds that no compiled kernel may hold.
        minutes: How long a learner should plan for.
        functions: What is called, all in one file; the slug alone if left out. The reference's
            module has one of each name.
        harness: ``"module:function"`` that runs the answer's functions where a call alone does
            not: ``(module of the answer, **inputs)``; the contract's function answers for it.
        ranks: A case starts several processes that talk to one another over loopback
            (torch.distributed): only then a sandbox has to allow both.
    """

    slug: str
    chapter: str
    title: str
    kind: str
    reference: str
    outputs: tuple[Output, ...]
    make_inputs: Callable[[Sizes, torch.dtype, torch.Generator], Inputs]
    honest: Callable[[Inputs], Sequence[Outputs]]
    cases: tuple[Case, ...]
    mistakes: tuple[Mistake, ...]
    hints: tuple[str, ...]
    steps: tuple[str, ...]
    budget: Callable[[Sizes, Tiles, int], Mapping[str, tuple[int, int]]] | None = None
    tile_names: tuple[str, ...] = ()
    tile_pairs: tuple[tuple[int, ...], ...] = ((),)
    tiles_as: str = "constants"
    archs: tuple[int, ...] = (80, 86, 89, 90, 100, 120)
    compiled: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    shuns: tuple[str, ...] = ()
    minutes: int = 20
    functions: tuple[str, ...] = field(default=())
    harness: str = ""
    ranks: bool = False

    def __post_init__(self) -> None:
        if not self.functions:
            object.__setattr__(self, "functions", (self.slug,))

    def tiles(self, pair: int) -> dict[str, int]:
        """The tile sizes of fixed pair ``pair``, by name."""
        return dict(zip(self.tile_names, self.tile_pairs[pair], strict=True))

    def called(self, case: Case) -> str:
        """The function that ``case`` calls."""
        return case.function or self.functions[0]

    def returns(self, case: Case) -> tuple[Output, ...]:
        """What the function that ``case`` calls returns, in order."""
        return tuple(o for o in self.outputs if (o.of or self.functions[0]) == self.called(case))

    def case(self, name: str) -> Case:
        """The case called ``name``; KeyError names the ones there are."""
        for case in self.cases:
            if case.name == name:
                return case
        known = ", ".join(c.name for c in self.cases)
        raise KeyError(f"{self.slug} has no case {name!r}; it has {known}")

    def points(self, compiled: bool = True) -> dict[str, int]:
        """Points a part: 45 core, 25 other groups, 20 IO, 10 resources, rescaled to 100 in all.

        Without a compiler (``compiled`` False) nothing is known of resources: no part.
        """
        parts = {"core": 45}
        if any(c.group != "core" for c in self.cases):
            parts["edges"] = 25
        if self.budget is not None:
            parts["io"] = 20
        if compiled and self.kind in ("triton", "gluon"):
            parts["resources"] = 10
        total = sum(parts.values())
        scaled = {k: round(100 * v / total) for k, v in parts.items()}
        scaled["core"] += 100 - sum(scaled.values())
        return scaled
