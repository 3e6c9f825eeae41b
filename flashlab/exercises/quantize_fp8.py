"""Cases, budget and hints of ``quantize_fp8``. Floor: course."""

from collections.abc import Mapping

import torch

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises.fp8_inputs import block_inputs
from flashlab.exercises.mistakes.quantize_fp8 import MISTAKES
from flashlab.reference.honest_fp8 import honest_quantized


def honest(inputs: Inputs) -> list[dict[str, torch.Tensor]]:
    """Three honest answers: over the scale, times 1 / scale, times 448 / amax."""
    return honest_quantized(**inputs)


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """A block's first tile read once, the others twice; x8 a byte an element; a scale each."""
    B, H, N, D, block_rows = (sizes[name] for name in ("B", "H", "N", "D", "block_rows"))
    if not B * H * N:
        return {"x": (0, 0), "x8": (0, 0), "scale": (0, 0)}
    blocks = [min(block_rows, N - start) for start in range(0, N, block_rows)]
    read = sum(2 * rows - min(rows, tiles["BLOCK_M"]) for rows in blocks)
    return {
        "x": (B * H * read * D * itemsize, 0),
        "x8": (0, B * H * N * D),
        "scale": (0, B * H * len(blocks) * 4),
    }


def _sizes(B: int, H: int, N: int, D: int, block_rows: int, **rest) -> Sizes:
    return {"B": B, "H": H, "N": N, "D": D, "block_rows": block_rows, **rest}


CASES = (
    Case(
        "one-tile",
        "core",
        lambda t: _sizes(1, 1, t["BLOCK_M"], 32, t["BLOCK_M"]),
        "One block of one full tile: its largest number becomes 448.",
        pairs=(0, 1, 2),
    ),
    Case(
        "three-blocks",
        "core",
        lambda t: _sizes(1, 1, 3 * t["BLOCK_M"], 32, t["BLOCK_M"], values="rising"),
        "Three blocks of a tile each, every row larger than the one before: each has its scale.",
        pairs=(0, 1),
        own=True,
    ),
    Case(
        "long-block",
        "core",
        lambda t: _sizes(1, 1, 4 * t["BLOCK_M"], 16, 4 * t["BLOCK_M"], values="rising"),
        "One block of four tiles, the largest number in the last: one scale for all of them.",
        pairs=(0, 1, 2),
        own=True,
    ),
    Case(
        "heads",
        "core",
        lambda t: _sizes(2, 3, 2 * t["BLOCK_M"], 16, t["BLOCK_M"], values="outliers"),
        "2 x 3 heads of two blocks each: twelve scales, and some numbers stand out.",
        pairs=(0, 2),
    ),
    Case(
        "short-last-block",
        "ragged",
        lambda t: _sizes(1, 2, 2 * t["BLOCK_M"] + 5, 32, t["BLOCK_M"]),
        "The last block has five rows: the rows behind it do not exist.",
        pairs=(0, 1),
        own=True,
    ),
    Case(
        "block-below-a-tile",
        "ragged",
        lambda t: _sizes(1, 1, 3 * (t["BLOCK_M"] - 3), 16, t["BLOCK_M"] - 3, values="rising"),
        "A block is shorter than a tile: the rows behind it belong to the next block.",
        pairs=(0, 1),
    ),
    Case(
        "block-of-a-tile-and-a-bit",
        "ragged",
        lambda t: _sizes(1, 1, 2 * t["BLOCK_M"] + 6, 16, t["BLOCK_M"] + 3, values="rising"),
        "Blocks of a full tile and one of three rows.",
        pairs=(0, 2),
    ),
    Case(
        "one-row-a-block",
        "ragged",
        lambda t: _sizes(1, 1, 7, 16, 1, values="rising"),
        "Every row is a block: seven scales.",
    ),
    Case(
        "one-scale-a-head",
        "ragged",
        lambda t: _sizes(2, 2, 2 * t["BLOCK_M"] + 1, 16, 100 * t["BLOCK_M"]),
        "block_rows is far above N: one scale for a whole head.",
        pairs=(0, 1),
    ),
    Case(
        "odd-head-dim",
        "ragged",
        lambda t: _sizes(1, 2, t["BLOCK_M"] + 2, 40, t["BLOCK_M"]),
        "D is 40 in a tile of 64 columns: what lies to the right belongs to others.",
    ),
    Case(
        "zeros",
        "hostile",
        lambda t: _sizes(1, 2, 2 * t["BLOCK_M"], 16, t["BLOCK_M"], values="zeros"),
        "A block and a head hold only zeros: their scale is 1, and 0 / 0 is NaN.",
    ),
    Case(
        "fp8-already",
        "hostile",
        lambda t: _sizes(1, 1, 2 * t["BLOCK_M"], 32, t["BLOCK_M"], values="numbers"),
        "x holds e4m3 numbers, -448 the largest in magnitude: the scale is 1, x8 is exactly x.",
        dtype="float32",
    ),
    Case(
        "subnormal",
        "hostile",
        lambda t: _sizes(1, 1, t["BLOCK_M"], 32, t["BLOCK_M"] // 2, values="low"),
        "All numbers of a block but one become subnormal, with a step of 2^-9: 0 is not near "
        "enough.",
        dtype="float32",
    ),
    Case(
        "tiny",
        "hostile",
        lambda t: _sizes(1, 1, t["BLOCK_M"], 16, t["BLOCK_M"], values="tiny"),
        "All numbers are near 1e-30, far below what e4m3 or fp16 hold: only the scale makes them "
        "last, and no scale may be kept away from 0.",
        dtype="float32",
    ),
    Case(
        "permuted",
        "hostile",
        lambda t: _sizes(2, 3, t["BLOCK_M"] + 1, 16, t["BLOCK_M"], layout="permuted"),
        "x is [B, N, H, D] in memory, x8 need not be: each has strides of its own.",
    ),
    Case(
        "strided",
        "hostile",
        lambda t: _sizes(1, 2, t["BLOCK_M"], 16, t["BLOCK_M"], layout="strided"),
        "x is every second column of longer rows: what lies between belongs to others.",
    ),
    Case(
        "bf16",
        "hostile",
        lambda t: _sizes(1, 1, 2 * t["BLOCK_M"], 32, 2 * t["BLOCK_M"]),
        "bfloat16 in: it is not rounded twice on its way to e4m3.",
        dtype="bfloat16",
    ),
    Case(
        "no-rows",
        "hostile",
        lambda t: _sizes(1, 2, 0, 16, 32),
        "Heads without rows: no block, no scale, nothing to launch.",
        trivial="x8 has no elements, so every answer is right",
    ),
)

EXERCISE = Exercise(
    slug="quantize_fp8",
    chapter="09",
    title="FP8 numbers and their scales",
    kind="triton",
    reference="flashlab.reference.fp8:quantize_fp8",
    outputs=(Output("x8", "float8_e4m3fn"), Output("scale", "float32")),
    make_inputs=block_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "A block's scale maps its largest magnitude to 448, so all of the block has to be seen "
        "before its first number can be rounded. What is still on chip by then need not be read "
        "again: that is the first tile here.",
        "One program, one block: rows start to end - 1, a tile of BLOCK_M rows at a time. "
        "load_tile puts 0 where a row lies behind end, and 0 is no candidate for the largest "
        "magnitude. The largest of a tile is a maximum over both axes.",
        "A block of zeros has amax 0: divide by 1 there. x / scale lies between -448 and 448, and "
        ".to(tl.float8e4nv) rounds it to the nearest e4m3 number. Your rows end at end, not N: "
        "the row at end is the next program's.",
        "Step 1: kept = load_tile(x_head, start, end, ...), amax = tl.max(tl.max(tl.abs(kept), "
        "1), 0), then tl.maximum over range(start + BLOCK_M, end, BLOCK_M). Step 2: tl.where(amax "
        "== 0.0, 1.0, amax / MOST). Step 3: store_tile(x8_head, kept / scale, start, ...), then "
        "the same range again. Step 4: pointers and mask of load_tile with the strides of x8.",
    ),
    steps=("The largest of my block", "Its scale", "Round", "One tile"),
    budget=budget,
    tile_names=("BLOCK_M",),
    tile_pairs=((16,), (32,), (8,)),
    archs=(89, 90, 100, 120),
    minutes=30,
)
