"""Cases, budget and hints of ``online_softmax``. Floor: course."""

from collections.abc import Mapping

import torch

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises.mistakes.online_softmax import MISTAKES
from flashlab.exercises.softmax_inputs import honest_softmax, make_inputs


def honest(inputs: Inputs) -> list[dict[str, torch.Tensor]]:
    """Six honest answers: exp or exp2; p divided, times 1/l, or from lse."""
    return honest_softmax(inputs)


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """x read twice, since no row stays on chip; p and lse written once."""
    matrix = sizes["R"] * sizes["C"] * itemsize
    rows = 4 * sizes["R"] * bool(sizes["C"])  # without columns there is no launch
    return {"x": (2 * matrix, 0), "p": (0, matrix), "lse": (0, rows)}


CASES = (
    Case(
        "one-tile",
        "core",
        lambda t: {"R": t["BLOCK_M"], "C": t["BLOCK_N"]},
        "One tile holds the whole row: ordinary softmax, nothing to rescale yet.",
        pairs=(0, 1),
    ),
    Case(
        "two-tiles",
        "core",
        lambda t: {"R": 2 * t["BLOCK_M"], "C": 2 * t["BLOCK_N"]},
        "Two tiles a row: what the first one left must be brought to the second one's maximum.",
        pairs=(0, 1, 2),
        own=True,
    ),
    Case(
        "rising-scores",
        "core",
        lambda t: {"R": t["BLOCK_M"], "C": 3 * t["BLOCK_N"], "scores": "rising"},
        "Every tile raises the row maximum: the sum so far must shrink.",
        pairs=(0, 2),
    ),
    Case(
        "falling-scores",
        "core",
        lambda t: {"R": t["BLOCK_M"], "C": 3 * t["BLOCK_N"], "scores": "falling"},
        "Every tile lies 50 below the one before: the maximum of the first must be kept.",
    ),
    Case(
        "large-scores",
        "core",
        lambda t: {"R": t["BLOCK_M"], "C": 2 * t["BLOCK_N"], "scores": "large"},
        "Scores beyond +-88, where exp overflows in fp32 unless the maximum is subtracted.",
    ),
    Case(
        "rows-apart",
        "core",
        lambda t: {"R": t["BLOCK_M"], "C": 2 * t["BLOCK_N"], "scores": "apart"},
        "Every row lies 200 below the one before: each row has a maximum of its own.",
    ),
    Case(
        "ragged-columns",
        "ragged",
        lambda t: {"R": t["BLOCK_M"], "C": t["BLOCK_N"] + 5, "scores": "negative"},
        "The last tile has 5 columns, and all scores are near -120: a lane beyond the row that "
        "counts as score 0 outweighs every real one.",
        pairs=(0, 1),
        own=True,
    ),
    Case(
        "ragged-rows",
        "ragged",
        lambda t: {"R": t["BLOCK_M"] + 3, "C": t["BLOCK_N"] + 1},
        "The last program has 3 rows: its other rows must not be read or written.",
        pairs=(0, 1),
        own=True,
    ),
    Case(
        "short-row",
        "ragged",
        lambda t: {"R": 3, "C": 5},
        "Rows shorter than a tile.",
    ),
    Case(
        "one-column",
        "ragged",
        lambda t: {"R": 5, "C": 1, "scores": "large"},
        "Rows of one element: p is 1, lse is the score itself.",
    ),
    Case(
        "hidden-start",
        "hostile",
        lambda t: {"R": t["BLOCK_M"], "C": 4 * t["BLOCK_N"], "scores": "hidden"},
        "The first half of each row is -inf, and every second row all of it: a tile in which "
        "nothing counts comes first, and a row without any has p 0 and lse -inf.",
        pairs=(0, 2),
    ),
    Case(
        "holes",
        "hostile",
        lambda t: {"R": t["BLOCK_M"], "C": 2 * t["BLOCK_N"] + 7, "scores": "holes"},
        "A third of the scores is -inf: their share is 0, the others sum to 1.",
    ),
    Case(
        "very-negative",
        "hostile",
        lambda t: {"R": t["BLOCK_M"], "C": t["BLOCK_N"] + 9, "scores": "very-negative"},
        "All scores are near -100,000: no finite number is low enough to stand for 'not there'.",
        dtype="float32",
    ),
    Case(
        "transposed",
        "hostile",
        lambda t: {"R": t["BLOCK_M"] + 1, "C": t["BLOCK_N"] + 3, "layout": "transposed"},
        "x is a transposed view: neighbours of a row lie stride_xn apart, p is contiguous.",
    ),
    Case(
        "sliced",
        "hostile",
        lambda t: {"R": t["BLOCK_M"] + 1, "C": t["BLOCK_N"] + 2, "layout": "sliced"},
        "x is every second column of longer rows: what lies between belongs to others.",
    ),
    Case(
        "expanded",
        "hostile",
        lambda t: {"R": t["BLOCK_M"], "C": 2 * t["BLOCK_N"], "layout": "expanded"},
        "x repeats one row (its row stride is 0); p has rows of its own.",
    ),
    Case(
        "fp32",
        "hostile",
        lambda t: {"R": t["BLOCK_M"], "C": 2 * t["BLOCK_N"]},
        "float32 in, float32 out: nothing may pass through a shorter dtype.",
        dtype="float32",
    ),
    Case(
        "bf16",
        "hostile",
        lambda t: {"R": t["BLOCK_M"], "C": t["BLOCK_N"] + 1},
        "bfloat16 in, bfloat16 out; maximum, sum and lse stay fp32.",
        dtype="bfloat16",
    ),
    Case(
        "no-columns",
        "hostile",
        lambda t: {"R": 3, "C": 0},
        "Rows without elements: p is empty, lse is -inf, without a launch.",
        trivial="p has no elements, so every answer is right",
    ),
    Case(
        "no-rows",
        "hostile",
        lambda t: {"R": 0, "C": 5},
        "A matrix without rows: the outputs are empty, and nothing is to be launched.",
        trivial="p has no elements, so every answer is right",
    ),
)

EXERCISE = Exercise(
    slug="online_softmax",
    chapter="03",
    title="Softmax of rows longer than a tile",
    kind="triton",
    reference="flashlab.reference.softmax:online_softmax",
    outputs=(Output("p"), Output("lse", "float32")),
    make_inputs=make_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "You never see a whole row. After each tile two numbers a row say all that matters of the "
        "columns so far: the largest element m_i, and l_i, the sum of exp(x - m_i). Write down "
        "how both change when a tile with a larger maximum arrives.",
        "Every term of l_i carries exp(-m_i) and should carry exp(-m_new): multiply the old sum "
        "by alpha = exp(m_i - m_new), then add the new tile's terms, which use m_new at once. "
        "Only then does m_new become m_i.",
        "Lanes beyond the row are loaded as -inf, so that they count for nothing. While a row has "
        "seen only -inf, m_new is -inf and -inf - -inf is NaN: subtract m_safe, which is 0 there. "
        "A row of nothing else ends with l_i 0 and lse -inf: guard the subtraction in step 5 too.",
        "Step 3: l_i = tl.exp(m_i - m_safe) * l_i + tl.sum(tl.exp(x - m_safe[:, None]), 1), then "
        "m_i = m_new. Step 4: lse = m_i + tl.log(...), stored to lse_ptr + offs_m under mask_m. "
        "Step 5: p = tl.exp(x - lse[:, None]) where lse is finite.",
    ),
    steps=(
        "Running state",
        "Load the tile, new maximum",
        "Rescale, add",
        "Finish the statistics",
        "Second pass: normalise",
    ),
    budget=budget,
    tile_names=("BLOCK_M", "BLOCK_N"),
    tile_pairs=((16, 16), (4, 32), (8, 16)),
    minutes=35,
)
