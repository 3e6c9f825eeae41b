"""Which property of sizes and tiles the failing calls share."""

import pytest

from flashlab import exercises
from flashlab.grader import bank, conditions
from flashlab.grader.report import CaseResult


@pytest.mark.parametrize(
    ("good", "bad", "tiles", "words"),
    [
        ({"M": 16, "N": 16, "K": 32}, {"M": 16, "N": 16, "K": 24}, "MNK", "K is not a multiple"),
        ({"M": 16, "N": 16, "K": 16}, {"M": 20, "N": 16, "K": 16}, "MNK", "M is not a multiple"),
        ({"M": 16, "N": 16, "K": 16}, {"M": 16, "N": 20, "K": 16}, "MNK", "N is not a multiple"),
        ({"M": 16, "N": 16, "K": 16}, {"M": 16, "N": 16, "K": 32}, "MNK", "tile along K"),
        ({"M": 16, "N": 16, "K": 16}, {"M": 32, "N": 16, "K": 16}, "MNK", "one tile of c"),
        ({"R": 16, "C": 32}, {"R": 16, "C": 24}, "MN", "length C is not a multiple of BLOCK_N"),
        ({"R": 16, "C": 16}, {"R": 17, "C": 16}, "MN", "rows R that are not a multiple"),
        ({"R": 16, "C": 16}, {"R": 16, "C": 32}, "MN", "longer than one tile of BLOCK_N"),
        ({"R": 16, "C": 16}, {"R": 32, "C": 16}, "M", "more than one tile of rows"),
        ({"R": 16, "C": 16}, {"R": 16, "C": 20}, "M", "C is not a power of two"),
    ],
)
def test_conditions_know_the_sizes_of_every_exercise(good, bad, tiles, words):
    sides = {f"BLOCK_{name}": 16 for name in tiles}
    case = exercises.get("tiled_matmul").cases[0]
    runs = [
        bank.Run(case, sides, CaseResult("c", "core", sides, sizes, status), bank.Raw("ran"), {})
        for sizes, status in ((good, "pass"), (bad, "wrong"))
    ]
    [said] = conditions.condition(runs)
    assert words in said
