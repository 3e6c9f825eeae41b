"""Cases, budget and hints of ``backward_delta``. Floor: course."""

from collections.abc import Mapping
from functools import partial

import torch

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises.backward_inputs import make_inputs
from flashlab.exercises.mistakes.backward_delta import MISTAKES
from flashlab.iocount.bounds import backward_delta_bytes


def honest(inputs: Inputs) -> list[dict[str, torch.Tensor]]:
    """The same sum in fp32 in three orders: at once, from the left, from the right."""
    product = inputs["o"].float() * inputs["do"].float()
    sums = (product.sum(3), product.cumsum(3)[..., -1], product.flip(3).cumsum(3)[..., -1])
    return [{"delta": delta} for delta in sums]


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """o and do read once, delta written once."""
    return backward_delta_bytes(*(sizes[n] for n in ("B", "H", "N_q", "D")), itemsize)


def _sizes(N_q: int, B: int = 1, H: int = 1, D: int = 16, **rest) -> Sizes:
    return {"B": B, "H": H, "N_q": N_q, "N_k": 8, "D": D, **rest}


CASES = (
    Case(
        "one-block",
        "core",
        lambda t: _sizes(t["BLOCK_M"], D=32),
        "One program, every lane in use: delta must be the sum of do * o over each row.",
    ),
    Case(
        "two-blocks",
        "core",
        lambda t: _sizes(2 * t["BLOCK_M"], B=2, H=3),
        "Two blocks of rows, 2 batches of 3 heads: every program must find its own rows.",
        pairs=(0, 1, 2),
        own=True,
    ),
    Case(
        "fp32",
        "core",
        lambda t: _sizes(t["BLOCK_M"]),
        "float32: neither the products nor the sum may pass through fp16.",
        dtype="float32",
    ),
    Case(
        "ragged-rows",
        "ragged",
        lambda t: _sizes(t["BLOCK_M"] + 5),
        "The last program has 5 rows: the others must not be read or written.",
        pairs=(0, 1),
        own=True,
    ),
    Case(
        "odd-head-dim",
        "ragged",
        lambda t: _sizes(t["BLOCK_M"] + 3, D=24),
        "D is 24 and BLOCK_D 32: the columns from D on belong to the next row.",
        own=True,
    ),
    Case(
        "one-row",
        "ragged",
        lambda t: _sizes(1, H=2, D=40),
        "One row a head, and D is 40.",
    ),
    Case(
        "sum-backward",
        "hostile",
        lambda t: _sizes(t["BLOCK_M"] + 2, H=2, gradient="expanded"),
        "do is what o.sum().backward() sends: one number, all strides 0; delta is the sum of o.",
    ),
    Case(
        "permuted",
        "hostile",
        lambda t: _sizes(t["BLOCK_M"] + 3, B=2, H=3, gradient="permuted"),
        "do is [B, N, H, D] in memory and o is not: each has strides of its own.",
        pairs=(0, 1),
    ),
    Case(
        "large-gradients",
        "hostile",
        lambda t: _sizes(t["BLOCK_M"], values="large", gradient="large"),
        "Products far beyond 65,504, the largest number of fp16.",
    ),
    Case(
        "bf16",
        "hostile",
        lambda t: _sizes(t["BLOCK_M"] + 1, H=2),
        "bfloat16 in, float32 out.",
        dtype="bfloat16",
    ),
    Case(
        "head-dim-80",
        "hostile",
        lambda t: _sizes(5, D=80),
        "D is 80 and BLOCK_D 128.",
    ),
    Case(
        "no-queries",
        "hostile",
        lambda t: _sizes(0, H=2),
        "N_q is 0: delta is empty, and a grid of no programs must not be launched.",
        trivial="delta has no elements, so every answer is right",
    ),
)

EXERCISE = Exercise(
    slug="backward_delta",
    chapter="06",
    title="The number a row that the backward pass needs",
    kind="triton",
    reference="flashlab.reference.backward:backward_delta",
    outputs=(Output("delta", "float32"),),
    make_inputs=partial(make_inputs, ("o", "do")),
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "One program owns BLOCK_M rows and the whole width D of o and do: the sum over a row "
        "never leaves the program, so nothing has to be kept between loads.",
        "The tile has BLOCK_D columns, a power of two, of which only D exist; the last block has "
        "rows that do not exist. A lane that is off must add 0 to its row: load it with other=0.",
        "A product of two fp16 numbers can be larger than fp16 holds: turn both tiles into fp32 "
        "with .to(tl.float32) before you multiply. tl.sum(x, 1) sums over the columns.",
        "Step 1: mask = (offs_m < N_q)[:, None] & (offs_d < D)[None, :] and two masked loads, "
        "each followed by .to(tl.float32). Step 2: delta = tl.sum(do * o, 1), stored to "
        "delta_ptrs under the mask of the rows.",
    ),
    steps=("Load my rows", "Multiply, sum, store"),
    budget=budget,
    tile_names=("BLOCK_M",),
    tile_pairs=((16,), (32,), (64,)),
    minutes=15,
)
