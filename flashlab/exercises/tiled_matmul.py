"""Inputs, cases, budget and hints of ``tiled_matmul``. Floor: course."""

from collections.abc import Mapping
from math import ceil

import torch
from torch import Tensor

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises.mistakes.tiled_matmul import MISTAKES

LAYOUTS = ("contiguous", "transposed", "sliced", "expanded")
VALUES = ("random", "cancelling")


def make_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict:
    """``{"a": [M, K], "b": [K, N]}``.

    ``sizes`` holds M N K and may hold
    ``layout``: contiguous (default); transposed (both, as views); sliced (a every second column, b
    every second row of larger matrices); expanded (a is one row, b one column: stride 0);
    ``values``: random (default); cancelling (the second half of the products takes away the first,
    which adds up to more than fp16 holds).
    """
    M, N, K = sizes["M"], sizes["N"], sizes["K"]
    layout, values = sizes.get("layout", "contiguous"), sizes.get("values", "random")
    for name, chosen, known in (("layout", layout, LAYOUTS), ("values", values, VALUES)):
        if chosen not in known:
            raise ValueError(f"{name} must be one of {known}, not {chosen!r}")
    expanded = layout == "expanded"
    a = torch.randn(1 if expanded else M, K, generator=generator)
    b = torch.randn(K, 1 if expanded else N, generator=generator)
    if values == "cancelling":
        noise, half = b.clone(), K // 2
        a, b = 60 * a.abs() + 60, 60 * b.abs() + 60
        a[:, half:], b[half:] = a[:, :half], noise[half:] - b[:half]
    a, b = a.to(dtype), b.to(dtype)
    if layout == "transposed":
        a, b = a.t().contiguous().t(), b.t().contiguous().t()
    if layout == "sliced":
        a, b = a.repeat_interleave(2, 1)[:, ::2], b.repeat_interleave(2, 0)[::2]
    return {"a": a.expand(M, K), "b": b.expand(K, N)}


def honest(inputs: Inputs) -> list[dict[str, Tensor]]:
    """Three honest answers: the sum over k in fp32, in one go, from the end, in steps of 16."""
    a, b = inputs["a"].float(), inputs["b"].float()
    by_steps = torch.zeros(a.shape[0], b.shape[1])
    for start in range(0, a.shape[1], 16):
        by_steps += a[:, start : start + 16] @ b[start : start + 16]
    return [{"c": c.to(inputs["a"].dtype)} for c in (a @ b, a.flip(1) @ b.flip(0), by_steps)]


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """a read once by every column of tiles of c, b by every row of them; c written once."""
    M, N, K = sizes["M"], sizes["N"], sizes["K"]
    if M * N * K == 0:  # no launch
        return dict.fromkeys(("a", "b", "c"), (0, 0))
    return {
        "a": (M * K * itemsize * ceil(N / tiles["BLOCK_N"]), 0),
        "b": (K * N * itemsize * ceil(M / tiles["BLOCK_M"]), 0),
        "c": (0, M * N * itemsize),
    }


def _sizes(t: Tiles, m: float, n: float, k: float, **rest) -> Sizes:
    """Sizes in tiles: a part of 0.3 tiles is ragged."""
    tiles = zip("MNK", (m, n, k), ("BLOCK_M", "BLOCK_N", "BLOCK_K"), strict=True)
    return {size: int(count * t[name]) for size, count, name in tiles} | rest


CASES = (
    Case(
        "one-tile",
        "core",
        lambda t: _sizes(t, 1, 1, 1),
        "One tile of c from one tile of a and one of b: a single tl.dot.",
        pairs=(1, 2),
    ),
    Case(
        "deep",
        "core",
        lambda t: _sizes(t, 1, 1, 3),
        "Three tiles along k: their products must be added up.",
        pairs=(0, 2),
    ),
    Case(
        "grid",
        "core",
        lambda t: _sizes(t, 2, 3, 2),
        "Two rows of three tiles of c: every program has to find its own.",
        pairs=(0, 1, 2),
        own=True,
    ),
    Case(
        "ragged-k",
        "ragged",
        lambda t: _sizes(t, 1, 1, 1.4),
        "The last step along k is not full: lanes beyond K must add nothing.",
        pairs=(0, 2),
        own=True,
    ),
    Case(
        "ragged-edges",
        "ragged",
        lambda t: _sizes(t, 1.3, 1.4, 2),
        "The last row and column of tiles are not full: what lies beyond belongs to others.",
        pairs=(0, 1),
        own=True,
    ),
    Case(
        "lower-group",
        "ragged",
        lambda t: _sizes(t, 9.2, 2, 1),
        "Ten row blocks in groups of eight: the last group is lower than the others.",
    ),
    Case(
        "one-element",
        "ragged",
        lambda t: {"M": 1, "N": 1, "K": 1},
        "Matrices of one element.",
    ),
    Case(
        "transposed",
        "hostile",
        lambda t: _sizes(t, 1.2, 1.2, 1.2, layout="transposed"),
        "a and b are transposed views: their columns are contiguous, not their rows.",
    ),
    Case(
        "sliced",
        "hostile",
        lambda t: _sizes(t, 1.2, 1.2, 1.2, layout="sliced"),
        "a is every second column, b every second row of larger matrices.",
    ),
    Case(
        "expanded",
        "hostile",
        lambda t: _sizes(t, 1, 1, 2, layout="expanded"),
        "a repeats one row, b one column: strides of 0.",
    ),
    Case(
        "cancelling",
        "hostile",
        lambda t: _sizes(t, 1, 1, 4, values="cancelling"),
        "The sum grows beyond 65,504 and comes back: in fp16 it would be infinite on its way.",
    ),
    Case(
        "fp32",
        "hostile",
        lambda t: _sizes(t, 1, 1, 2),
        "float32 in, float32 out: nothing may pass through a shorter dtype, TF32 neither.",
        dtype="float32",
    ),
    Case(
        "bf16",
        "hostile",
        lambda t: _sizes(t, 1.2, 1, 2),
        "bfloat16 in, bfloat16 out; the sum stays fp32.",
        dtype="bfloat16",
    ),
    Case(
        "no-k",
        "hostile",
        lambda t: {"M": 3, "N": 4, "K": 0},
        "K is 0: an empty sum is 0, without a launch.",
        trivial="a sum of no products is 0",
    ),
    Case(
        "no-rows",
        "hostile",
        lambda t: {"M": 0, "N": 4, "K": 5},
        "M is 0: c is empty, and there is nothing to launch.",
        trivial="c has no elements, so every answer is right",
    ),
)

EXERCISE = Exercise(
    slug="tiled_matmul",
    chapter="02",
    title="Matrix product in tiles",
    kind="triton",
    reference="flashlab.reference.matmul:tiled_matmul",
    outputs=(Output("c"),),
    make_inputs=make_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "A program owns one tile of c, rows offs_m and columns offs_n. It needs those rows of a "
        "and those columns of b whole, but never at once: it walks along k, a tile of each at a "
        "time, and adds every product to acc.",
        "The tile of c in row pid_m and column pid_n of tiles starts at pid_m * BLOCK_M and "
        "pid_n * BLOCK_N. acc is tl.zeros in fp32: sums in fp16 overflow and lose digits.",
        "Lanes beyond K must add nothing: mask them in a and in b, and load 0. Lanes beyond M or "
        "N must not be read or written: the masks of loads and store combine a column of rows, "
        "mask_m[:, None], with a row of columns, mask_n[None, :].",
        "Step 2: a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0), b "
        "likewise, acc = tl.dot(a, b, acc, input_precision='ieee'). Step 3: the address of c is "
        "c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn.",
    ),
    steps=("My rows and columns, accumulator", "Load two tiles, multiply, add", "Store"),
    budget=budget,
    tile_names=("BLOCK_M", "BLOCK_N", "BLOCK_K"),
    tile_pairs=((16, 16, 16), (32, 16, 16), (16, 32, 32)),
    minutes=45,
)
