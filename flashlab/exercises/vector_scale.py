"""Cases, budget and hints of ``vector_scale``. Floor: course."""

from collections.abc import Mapping

import torch

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises.mistakes.vector_scale import MISTAKES


def make_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict:
    """``{"x": [N], "a": float}``.

    ``sizes``: N; ``layout`` is contiguous (default), strided (every third element, from the third
    on) or expanded (one element, stride 0); ``a`` (default 1.7).
    """
    N, layout = sizes["N"], sizes.get("layout", "contiguous")
    if layout == "expanded":
        x = torch.randn(1, generator=generator).to(dtype).expand(N)
    elif layout == "strided":
        x = torch.randn(3 * N + 2, generator=generator).to(dtype)[2::3][:N]
    elif layout == "contiguous":
        x = torch.randn(N, generator=generator).to(dtype)
    else:
        raise ValueError(f"layout must be contiguous, strided or expanded, not {layout!r}")
    return {"x": x, "a": sizes.get("a", 1.7)}


def honest(inputs: Inputs) -> list[dict[str, torch.Tensor]]:
    """What a kernel may return: the factor in fp32, or rounded to the dtype of x first."""
    x, a = inputs["x"], torch.tensor(inputs["a"])
    return [{"y": (x.float() * factor).to(x.dtype)} for factor in (a, a.to(x.dtype).float())]


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """Every element of x read once, every element of y written once."""
    return {"x": (sizes["N"] * itemsize, 0), "y": (0, sizes["N"] * itemsize)}


CASES = (
    Case(
        "one-block",
        "core",
        lambda t: {"N": t["BLOCK"]},
        "One program, every lane in use: y must be a * x.",
    ),
    Case(
        "three-blocks",
        "core",
        lambda t: {"N": 3 * t["BLOCK"]},
        "Three programs: each has to find its own BLOCK elements from its program id.",
        pairs=(0, 1, 2),
        own=True,
    ),
    Case(
        "ragged-tail",
        "ragged",
        lambda t: {"N": 2 * t["BLOCK"] + 5},
        "Only 5 lanes of the last program have an element: the mask must switch off the others.",
        own=True,
    ),
    Case(
        "one-over",
        "ragged",
        lambda t: {"N": t["BLOCK"] + 1},
        "The last program owns one single element, which is easily dropped or overrun.",
    ),
    Case(
        "one-element",
        "ragged",
        lambda t: {"N": 1},
        "A vector shorter than one block still needs a program.",
    ),
    Case(
        "strided",
        "hostile",
        lambda t: {"N": 2 * t["BLOCK"] + 3, "layout": "strided"},
        "x is every third element of a longer vector: x_i lies at i * stride_x, y is contiguous.",
        own=True,
    ),
    Case(
        "expanded",
        "hostile",
        lambda t: {"N": t["BLOCK"] + 2, "layout": "expanded"},
        "x repeats one element (its stride is 0): the address must not move, y's must.",
    ),
    Case(
        "fp32",
        "hostile",
        lambda t: {"N": 2 * t["BLOCK"]},
        "float32 in, float32 out: nothing may pass through a shorter dtype.",
        dtype="float32",
    ),
    Case(
        "bf16",
        "hostile",
        lambda t: {"N": t["BLOCK"] + 7},
        "bfloat16 in, bfloat16 out.",
        dtype="bfloat16",
    ),
    Case(
        "empty",
        "hostile",
        lambda t: {"N": 0},
        "A vector without elements: y is empty, and a grid of no programs must not be launched.",
        trivial="y has no elements, so every answer is right",
    ),
)

EXERCISE = Exercise(
    slug="vector_scale",
    chapter="00",
    title="Your first kernel: scale a vector",
    kind="triton",
    reference="flashlab.reference.vector:vector_scale",
    outputs=(Output("y"),),
    make_inputs=make_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "Think of one program as owner of one block of BLOCK neighbouring elements. What does it "
        "need to know to find them? Its number, and the size of a block.",
        "tl.program_id(0) is the number, tl.arange(0, BLOCK) are the lanes 0 to BLOCK - 1. Lanes "
        "whose index is N or more own nothing: compare the indices with N to get a mask, and give "
        "it to every load and store.",
        "Step 1: pid = tl.program_id(0).to(tl.int64), offs = pid * BLOCK + tl.arange(0, BLOCK), "
        "mask = offs < N. In step 2 the address of x_i is x_ptr + offs * stride_x; y is "
        "contiguous: y_i is at y_ptr + offs.",
        "Step 2: x = tl.load(<address of x>, mask=mask, other=0.0), then "
        "tl.store(<address of y>, a * x, mask=mask).",
    ),
    steps=("Which elements are mine", "Load, scale, store"),
    budget=budget,
    tile_names=("BLOCK",),
    tile_pairs=((16,), (32,), (64,)),
    minutes=25,
)
