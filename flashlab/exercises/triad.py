"""Cases, budget and hints of ``triad``. Floor: course."""

from collections.abc import Mapping

import torch
from torch import Tensor

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises.mistakes.triad import MISTAKES

LAYOUTS = ("contiguous", "strided", "expanded")
VALUES = ("random", "cancelling")


def make_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict:
    """``{"x": [N], "y": [N], "a": float}``.

    ``sizes``: N; ``layout`` is contiguous (default), strided (x every second, y every third
    element) or expanded (y is one element, stride 0); ``values`` is random (default) or cancelling
    (x is -a * y, rounded: all that is left is what the rounding took); ``a`` (default 1.7).
    """
    N, a = sizes["N"], sizes.get("a", 1.7)
    layout, values = sizes.get("layout", "contiguous"), sizes.get("values", "random")
    for name, chosen, known in (("layout", layout, LAYOUTS), ("values", values, VALUES)):
        if chosen not in known:
            raise ValueError(f"{name} must be one of {known}, not {chosen!r}")
    y = torch.randn(1 if layout == "expanded" else N, generator=generator).to(dtype)
    x = torch.randn(N, generator=generator).to(dtype)
    if values == "cancelling":
        x = (-a * y.double()).to(dtype)
    if layout == "strided":
        x, y = _spread(x, 2), _spread(y, 3)
    return {"x": x, "y": y.expand(N), "a": a}


def _spread(x: Tensor, step: int) -> Tensor:
    """The same values, ``step`` elements apart."""
    wide = x.new_zeros(step * len(x) + 1)
    wide[1::step] = x
    return wide[1::step]


def honest(inputs: Inputs) -> list[dict[str, Tensor]]:
    """What a kernel may return: a * y rounded to fp32 before the sum, or fused into it."""
    x, y, a = inputs["x"], inputs["y"], torch.tensor(inputs["a"])
    fused = (x.double() + a.double() * y.double()).float()
    return [{"z": z.to(x.dtype)} for z in (x.float() + a * y.float(), fused)]


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """Every element of x and y read once, every element of z written once."""
    vector = sizes["N"] * itemsize
    return {"x": (vector, 0), "y": (vector, 0), "z": (0, vector)}


CASES = (
    Case(
        "one-block",
        "core",
        lambda t: {"N": t["BLOCK"]},
        "One program, every lane in use: z must be x + a * y.",
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
        "one-element",
        "ragged",
        lambda t: {"N": 1},
        "Vectors shorter than one block still need a program.",
    ),
    Case(
        "strided",
        "hostile",
        lambda t: {"N": 2 * t["BLOCK"] + 3, "layout": "strided"},
        "x is every second element of a longer vector, y every third: two strides, z contiguous.",
        own=True,
    ),
    Case(
        "expanded",
        "hostile",
        lambda t: {"N": t["BLOCK"] + 2, "layout": "expanded"},
        "y repeats one element (its stride is 0): its address must not move.",
    ),
    Case(
        "cancelling",
        "hostile",
        lambda t: {"N": 2 * t["BLOCK"], "values": "cancelling"},
        "x is -a * y, rounded to fp16: what is left can be seen in fp32 alone.",
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
        "Vectors without elements: z is empty, and there is nothing to launch.",
        trivial="z has no elements, so every answer is right",
    ),
)

EXERCISE = Exercise(
    slug="triad",
    chapter="01",
    title="A kernel at the speed of memory",
    kind="triton",
    reference="flashlab.reference.vector:triad",
    outputs=(Output("z"),),
    make_inputs=make_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "It is vector_scale with a second input. A program owns BLOCK neighbouring elements of "
        "all three vectors; x and y have strides of their own, z is contiguous.",
        "Every operation on fp16 tiles rounds to fp16. Turn both tiles into fp32 as you load "
        "them, with .to(tl.float32); the store rounds to the dtype of z by itself, once.",
        "The launcher starts triton.cdiv(N, BLOCK) programs: kernel[grid](arguments), where grid "
        "is a tuple. Start none where N is 0. Arguments come in the kernel's order, constexpr "
        "ones by name.",
        "Step 2: x = tl.load(x_ptr + offs * stride_x, mask=mask, other=0.0).to(tl.float32), y "
        "likewise, then the store. Step 3: triad_kernel[(triton.cdiv(N, BLOCK),)](x, y, z, "
        "x.stride(0), y.stride(0), N, float(a), BLOCK=BLOCK).",
    ),
    steps=("Which elements are mine", "Load, multiply, add, store", "Launch"),
    budget=budget,
    tile_names=("BLOCK",),
    tile_pairs=((16,), (32,), (64,)),
    minutes=20,
)
