"""Which property the failing calls share, and what their numbers look like."""

import pytest
import torch

from flashlab import exercises
from flashlab.grader import bank, conditions, structure
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


def judged(name, slug, outputs, inputs, reference):
    case = exercises.get(slug).cases[0]
    result = CaseResult("c", "core", {}, {}, "wrong", output=name)
    return bank.Run(case, {}, result, bank.Raw("ran", outputs), reference, inputs)


def test_an_output_of_zeros_is_called_so():
    one = torch.ones(1, 1, 4, 4)
    run = judged("dq", "flash_backward_dq", {"dq": 0 * one}, {}, {"dq": one})
    assert structure.describe([run])[0].startswith("Every element of dq is 0 in case one-tile")
    right = judged("dq", "flash_backward_dq", {"dq": 2 * one}, {}, {"dq": one})
    assert "is 0" not in " ".join(structure.describe([right]))


@pytest.mark.parametrize("words", ["a @ b.T", "a.T @ b", "(a @ b).T"])
def test_a_swapped_matrix_is_named(words):
    a, b = torch.randn(2, 8, 8, generator=torch.Generator().manual_seed(0)).double()
    made = {"a @ b.T": a @ b.mT, "a.T @ b": a.mT @ b, "(a @ b).T": (a @ b).mT}[words]
    run = judged("c", "tiled_matmul", {"c": made}, {"a": a, "b": b}, {"c": a @ b})
    assert f"the numbers are {words}: " in structure.describe([run])[0]
