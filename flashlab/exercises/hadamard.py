"""Cases, budget and hints of ``hadamard``. Floor: course."""

import math
from collections.abc import Mapping

import torch

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises.fp8_inputs import rotation_inputs
from flashlab.exercises.mistakes.hadamard import MISTAKES
from flashlab.reference.honest_fp8 import honest_hadamard


def honest(inputs: Inputs) -> list[dict[str, torch.Tensor]]:
    """Four honest answers: scaled before, after or in between; summed in another order."""
    return honest_hadamard(**inputs)


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """x read once, y written once, the signs read by every program."""
    *lead, D = sizes["shape"]
    rows = math.prod(lead)
    programs = -(-rows // tiles["BLOCK_M"])
    moved = rows * D * itemsize
    return {"x": (moved, 0), "signs": (programs * D * itemsize, 0), "y": (0, moved)}


def _shape(*shape: int, **rest) -> Sizes:
    return {"shape": list(shape), "D": shape[-1], **rest}


CASES = (
    Case(
        "one-program",
        "core",
        lambda t: _shape(t["BLOCK_M"], 32),
        "One program, every row there: five rounds of sums and differences over 32 columns.",
        pairs=(0, 1, 2),
    ),
    Case(
        "unit-vectors",
        "core",
        lambda t: _shape(t["BLOCK_M"], 16, values="unit"),
        "The rows of x are unit vectors: those of y are rows of H_16, divided by 4.",
    ),
    Case(
        "three-programs",
        "core",
        lambda t: _shape(3 * t["BLOCK_M"], 64),
        "Three programs: each has to find its own BLOCK_M rows.",
        pairs=(0, 1),
        own=True,
    ),
    Case(
        "heads",
        "core",
        lambda t: _shape(2, 3, t["BLOCK_M"] // 2, 16),
        "2 x 3 heads of rows: a program's rows may belong to two heads.",
        pairs=(0, 2),
        own=True,
    ),
    Case(
        "ragged-rows",
        "ragged",
        lambda t: _shape(2 * t["BLOCK_M"] + 1, 16),
        "The last program has a single row: its others must not be read or written.",
        pairs=(0, 1),
        own=True,
    ),
    Case(
        "one-row",
        "ragged",
        lambda t: _shape(64),
        "x is a vector: one row, six rounds.",
    ),
    Case(
        "one-column",
        "ragged",
        lambda t: _shape(2, t["BLOCK_M"] + 1, 1),
        "Rows of one number: H_1 is 1, only the sign is left, and there is no round.",
    ),
    Case(
        "two-columns",
        "ragged",
        lambda t: _shape(5, 2),
        "Rows of two numbers: one round, their sum and their difference over sqrt(2).",
    ),
    Case(
        "outliers",
        "hostile",
        lambda t: _shape(t["BLOCK_M"], 128, values="outliers"),
        "A few numbers are ten times as large as the others, what the rotation is for.",
        dtype="float32",
    ),
    Case(
        "large",
        "hostile",
        lambda t: _shape(t["BLOCK_M"], 128, values="large"),
        "Sums of 128 numbers near 3,000 pass 65,504, where fp16 ends: add in fp32.",
    ),
    Case(
        "permuted",
        "hostile",
        lambda t: _shape(2, 3, 7, 32, layout="permuted"),
        "x is [B, N, H, D] in memory: rows of one head lie stride_xm apart.",
    ),
    Case(
        "strided",
        "hostile",
        lambda t: _shape(t["BLOCK_M"] + 3, 16, layout="strided"),
        "x and signs are every second column of longer rows: what lies between belongs to others.",
    ),
    Case(
        "fp32",
        "hostile",
        lambda t: _shape(t["BLOCK_M"], 64),
        "float32 in, float32 out: nothing may pass through a shorter dtype.",
        dtype="float32",
    ),
    Case(
        "bf16",
        "hostile",
        lambda t: _shape(t["BLOCK_M"] + 1, 32),
        "bfloat16 in, bfloat16 out; the rounds stay fp32.",
        dtype="bfloat16",
    ),
    Case(
        "wide",
        "hostile",
        lambda t: _shape(3, 1024),
        "Rows of 1,024 columns, the most that a kernel takes: ten rounds.",
    ),
    Case(
        "no-rows",
        "hostile",
        lambda t: _shape(2, 0, 16),
        "No rows: y is empty, and nothing is to be launched.",
        trivial="y has no elements, so every answer is right",
    ),
)

EXERCISE = Exercise(
    slug="hadamard",
    chapter="09",
    title="A random rotation",
    kind="triton",
    reference="flashlab.reference.fp8:hadamard",
    outputs=(Output("y"),),
    make_inputs=rotation_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "H_2n holds H_n three times and -H_n once. So a row times H_2n is made of its halves' "
        "products with H_n: their sum, and their difference. Done for every size from 2 to D, "
        "that is log2(D) rounds of D sums or differences, not D products for each of D columns.",
        "In one round column j meets column j + HALF. `butterfly` gives you all first partners as "
        "a and all second partners as b. What they become is one line each, and it is the 2 x 2 "
        "matrix H_2 = [[1, 1], [1, -1]].",
        "The signs belong to the columns of x: load D of them, stride_s apart, and multiply "
        "before the first round. After the last one a row is sqrt(D) times as long as it was: "
        "divide.",
        "Step 1: a + b and a - b. Step 2: tl.load(x_ptrs, mask=mask, other=0.0).to(tl.float32) "
        "times tl.load(signs_ptr + offs_d * stride_s).to(tl.float32)[None, :]. Step 3: y * "
        "(D**-0.5), then tl.store(y_ptrs, y, mask=mask).",
    ),
    steps=("One round", "Load, random signs", "Scale and store"),
    budget=budget,
    tile_names=("BLOCK_M",),
    tile_pairs=((16,), (32,), (4,)),
    archs=(80, 86, 89, 90, 100, 120),
    minutes=20,
)
