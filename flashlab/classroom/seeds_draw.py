"""Hidden cases: an exercise's classes of cases, sizes and numbers drawn anew. Floor: front.

A drawn case keeps what its class is about: which lengths are equal, which is longer, whether the
last tile is full, and how a trivial answer must fail. What cannot keep that stays as it is.
"""

import dataclasses
import random
from collections.abc import Callable, Mapping
from typing import Any

from flashlab import numerics
from flashlab.classroom import seeds_lists
from flashlab.exercise import Case, Exercise, Sizes, Tiles
from flashlab.grader import trials
from flashlab.grader.trivial import trivial

LENGTHS = {  # length -> tile sizes that may cut it, the first one there counts
    "N": ("BLOCK", "BLOCK_N", "BLOCK_M"),
    "N_q": ("BLOCK_M",),
    "N_k": ("BLOCK_N",),
    "C": ("BLOCK_N",),
    "R": ("BLOCK_M",),
    "M": ("BLOCK_M",),
    "K": ("BLOCK_K",),
}
TOGETHER = ("lengths", "page", "num_splits", "rest", "spare", "world", "shape")  # see seeds_lists
TRIES = 4
CLEAR = 10.0  # times the limit by which trivial answers must fail


def hidden(exercise: Exercise, seeds: Mapping[str, int]) -> Exercise:
    """The exercise with every case drawn anew from its seed."""
    cases = tuple(_draw(exercise, case, seeds[case.name]) for case in exercise.cases)
    return dataclasses.replace(exercise, cases=cases)


def _draw(exercise: Exercise, case: Case, seed: int) -> Case:
    """The first draw that trivial answers fail clearly; the public sizes if none does."""
    chooser = random.Random(seed)
    for _ in range(TRIES):
        number = chooser.getrandbits(32)
        made = dataclasses.replace(case, seed=number, sizes=_Drawn(exercise, case.sizes, number))
        if _valid(exercise, made):
            return made
    return dataclasses.replace(case, seed=case.seed)


class _Drawn:
    """Sizes of a drawn case at given tile sizes: always the same for the same tiles."""

    def __init__(self, exercise: Exercise, sizes: Callable[[Tiles], Sizes], seed: int) -> None:
        self.exercise, self.sizes, self.seed = exercise, sizes, seed

    def __call__(self, tiles: Tiles) -> Sizes:
        sizes = dict(self.sizes(tiles))
        chooser = random.Random(f"{self.seed} {sorted(tiles.items())}")
        if self.exercise.kind == "python":
            change = PLAIN.get(self.exercise.slug, lambda sizes, chooser: {})
            return sizes | change(sizes, chooser)
        if type(sizes.get("N_q")) is list or any(name in sizes for name in TOGETHER):
            return sizes | seeds_lists.drawn(sizes, tiles, chooser)
        return sizes | _lengths(sizes, tiles, chooser)


def _lengths(sizes: Mapping[str, Any], tiles: Tiles, chooser: random.Random) -> dict[str, int]:
    """Other lengths with a part of a tile at the end, for those that have one.

    A last tile of one row, or of all but one, is the point of its case; so is the difference of
    two lengths under a causal mask. Those stay.
    """
    if sizes.get("causal") and sizes.get("N_q") != sizes.get("N_k"):
        return {}
    cut = {}
    for name, blocks in LENGTHS.items():
        block = next((tiles[b] for b in blocks if b in tiles), 0)
        length = sizes.get(name)
        if type(length) is int and block and length > block and 1 < length % block < block - 1:
            cut[name] = block
    for _ in range(TRIES):
        drawn: dict[int, int] = {}
        for name, block in cut.items():
            whole = sizes[name] // block * block
            drawn.setdefault(sizes[name], whole + chooser.randrange(1, block))
        new = {name: drawn[sizes[name]] for name in cut}
        if _same_class(dict(sizes), dict(sizes) | new, cut):
            return new
    return {}


def _same_class(old: dict[str, Any], new: dict[str, Any], cut: Mapping[str, int]) -> bool:
    """Whether lengths that were equal, or one the longer, still are, and no tile became full."""
    names = [n for n in LENGTHS if type(old.get(n)) is int]
    order = all(
        _sign(old[a] - old[b]) == _sign(new[a] - new[b]) for a in names for b in names if a < b
    )
    return order and all(new[name] % block for name, block in cut.items())


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _valid(exercise: Exercise, case: Case) -> bool:
    """Whether no trivial answer comes near to passing, at every pair of tile sizes."""
    if exercise.kind == "python" or case.trivial:
        return True
    first = exercise.returns(case)[0].name
    for pair in case.pairs:
        trial = trials.trial(exercise, case, exercise.tiles(pair))
        expected, limit = trial.reference[first], trial.limits[first].limit
        answers = trivial(trial.arguments, expected).values()
        if any(numerics.max_error(a, expected) < CLEAR * limit for a in answers):
            return False
    return True


def _attention_cost(sizes: Mapping[str, Any], chooser: random.Random) -> dict[str, int]:
    """Every size above 1 grows by up to an eighth, at most 7."""
    names = [n for n in ("B", "H", "N_q", "N_k", "D") if sizes[n] > 1]
    return {n: sizes[n] + chooser.randrange(0, min(7, sizes[n] // 8 + 1) + 1) for n in names}


def _io_cost(sizes: Mapping[str, Any], chooser: random.Random) -> dict[str, int]:
    """As many tokens beyond the last whole tile as before, and a few tiles more."""
    tile = max(sizes["block_m"], sizes["block_n"]) * min(sizes["block_m"], sizes["block_n"])
    longer = tile * chooser.randrange(0, 3) if sizes["N"] > sizes["block_m"] else 0
    return {"N": sizes["N"] + longer, "D": sizes["D"] + chooser.randrange(0, 4)}


def _choose_blocks(sizes: Mapping[str, Any], chooser: random.Random) -> dict[str, int]:
    """A chip with room for a few more rows; what is left over of a row stays."""
    if sizes["sram_elements"] < 4 * sizes["D"]:
        return {}
    return {"sram_elements": sizes["sram_elements"] + 4 * sizes["D"] * chooser.randrange(0, 4)}


def _pipeline_schedule(sizes: Mapping[str, Any], chooser: random.Random) -> dict[str, int]:
    """A few tiles more, where several rounds are meant."""
    several = sizes["n_tiles"] > max(3, sizes["stages"]) and not sizes["timed"]
    return {"n_tiles": sizes["n_tiles"] + chooser.randrange(0, 4)} if several else {}


PLAIN = {
    "attention_cost": _attention_cost,
    "io_cost": _io_cost,
    "choose_blocks": _choose_blocks,
    "pipeline_schedule": _pipeline_schedule,
}
