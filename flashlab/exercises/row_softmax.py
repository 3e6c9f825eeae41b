"""Cases, budget and hints of ``row_softmax``. Floor: course."""

from collections.abc import Mapping

import torch

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises.mistakes.row_softmax import MISTAKES
from flashlab.exercises.softmax_inputs import honest_softmax, make_inputs


def honest(inputs: Inputs) -> list[dict[str, torch.Tensor]]:
    """Six honest answers: exp or exp2; divided, times 1/l, or from the log of the sum."""
    return [{"p": answer["p"]} for answer in honest_softmax(inputs)]


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """Every element of x read once, every element of p written once."""
    matrix = sizes["R"] * sizes["C"] * itemsize
    return {"x": (matrix, 0), "p": (0, matrix)}


CASES = (
    Case(
        "one-program",
        "core",
        lambda t: {"R": t["BLOCK_M"], "C": 32},
        "One program, every lane in use: each row of p must be positive and sum to 1.",
        pairs=(0, 1),
    ),
    Case(
        "three-programs",
        "core",
        lambda t: {"R": 3 * t["BLOCK_M"], "C": 64},
        "Three programs: each has to find its own BLOCK_M rows.",
        pairs=(0, 1, 2),
        own=True,
    ),
    Case(
        "large-scores",
        "core",
        lambda t: {"R": t["BLOCK_M"], "C": 32, "scores": "large"},
        "Scores beyond +-88, where exp overflows in fp32 unless the row's maximum is subtracted.",
    ),
    Case(
        "rows-apart",
        "core",
        lambda t: {"R": 2 * t["BLOCK_M"], "C": 32, "scores": "apart"},
        "Every row lies 200 below the one before: each row has a maximum of its own.",
    ),
    Case(
        "ragged-columns",
        "ragged",
        lambda t: {"R": 2 * t["BLOCK_M"], "C": 17, "scores": "negative"},
        "17 columns in a tile of 32, and all scores are near -120: a lane beyond the row that "
        "counts as score 0 outweighs every real one.",
        own=True,
    ),
    Case(
        "ragged-rows",
        "ragged",
        lambda t: {"R": 2 * t["BLOCK_M"] + 1, "C": 16},
        "The last program has a single row: its other rows must not be read or written.",
        pairs=(0, 2),
        own=True,
    ),
    Case(
        "one-column",
        "ragged",
        lambda t: {"R": t["BLOCK_M"] + 1, "C": 1, "scores": "large"},
        "Rows of one element: its share is 1, whatever the score.",
    ),
    Case(
        "long-row",
        "ragged",
        lambda t: {"R": 1, "C": 1000},
        "One row of 1,000 columns in a tile of 1,024: the whole row is one tile.",
    ),
    Case(
        "very-negative",
        "hostile",
        lambda t: {"R": t["BLOCK_M"], "C": 21, "scores": "very-negative"},
        "All scores are near -100,000: no finite number is low enough to stand for 'not there'.",
        dtype="float32",
    ),
    Case(
        "hidden-rows",
        "hostile",
        lambda t: {"R": 2 * t["BLOCK_M"], "C": 24, "scores": "hidden"},
        "Every second row holds only -inf: p is 0 there, and NaN is not allowed.",
    ),
    Case(
        "holes",
        "hostile",
        lambda t: {"R": t["BLOCK_M"] + 2, "C": 40, "scores": "holes"},
        "A third of the scores is -inf: their share is 0, the others sum to 1.",
    ),
    Case(
        "transposed",
        "hostile",
        lambda t: {"R": t["BLOCK_M"] + 1, "C": 19, "layout": "transposed"},
        "x is a transposed view: neighbours of a row lie stride_xn apart, p is contiguous.",
    ),
    Case(
        "sliced",
        "hostile",
        lambda t: {"R": t["BLOCK_M"] + 1, "C": 12, "layout": "sliced"},
        "x is every second column of longer rows: what lies between belongs to others.",
    ),
    Case(
        "expanded",
        "hostile",
        lambda t: {"R": t["BLOCK_M"] + 1, "C": 16, "layout": "expanded"},
        "x repeats one row (its row stride is 0); p has rows of its own.",
    ),
    Case(
        "fp32",
        "hostile",
        lambda t: {"R": t["BLOCK_M"], "C": 64},
        "float32 in, float32 out: nothing may pass through a shorter dtype.",
        dtype="float32",
    ),
    Case(
        "bf16",
        "hostile",
        lambda t: {"R": t["BLOCK_M"], "C": 33},
        "bfloat16 in, bfloat16 out; exponentials and sums stay fp32.",
        dtype="bfloat16",
    ),
    Case(
        "no-columns",
        "hostile",
        lambda t: {"R": 3, "C": 0},
        "Rows without elements: p is empty, and nothing is to be launched.",
        trivial="p has no elements, so every answer is right",
    ),
    Case(
        "no-rows",
        "hostile",
        lambda t: {"R": 0, "C": 5},
        "A matrix without rows: p is empty, and there is nothing to launch.",
        trivial="p has no elements, so every answer is right",
    ),
)

EXERCISE = Exercise(
    slug="row_softmax",
    chapter="02",
    title="Softmax of rows that fit on chip",
    kind="triton",
    reference="flashlab.reference.softmax:row_softmax",
    outputs=(Output("p"),),
    make_inputs=make_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "A program holds BLOCK_M whole rows. Softmax needs each row three times: for its largest "
        "score, for the sum, for the division. On chip that costs nothing: load once, then work "
        "on the tile x [BLOCK_M, BLOCK_N].",
        "A tile of addresses is a column of row offsets plus a row of column offsets: "
        "offs_m[:, None] * stride_xm + offs_n[None, :] * stride_xn. Rows are axis 0, columns axis "
        "1: tl.max(x, 1) gives one number for each row, and m_i[:, None] makes it a column again.",
        "A lane that is off must change neither the maximum nor the sum: load it as -inf, since "
        "exp(-inf) is 0. A row of only -inf has the maximum -inf, and -inf - -inf is NaN: "
        "subtract 0 there. Its sum is 0, and 0 / 0 is NaN: divide by 1 there.",
        "Step 2: x = tl.load(x_ptrs, mask=mask, other=float('-inf')).to(tl.float32), then "
        "tl.max(x, 1) and tl.where(m_i == float('-inf'), 0.0, m_i). Step 3: "
        "p = tl.exp(x - m_i[:, None]), l_i = tl.sum(p, 1), and "
        "tl.store(p_ptrs, p / l_i[:, None], mask=mask) once l_i is safe.",
    ),
    steps=("Point at the tile", "Load, maximum of each row", "Exponentials, sum, divide, store"),
    budget=budget,
    tile_names=("BLOCK_M",),
    tile_pairs=((4,), (1,), (2,)),
    minutes=25,
)
