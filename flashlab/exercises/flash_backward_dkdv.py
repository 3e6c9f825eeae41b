"""Cases, budget and hints of ``flash_backward_dkdv``. Floor: course."""

from collections.abc import Mapping
from functools import partial

import torch

from flashlab.exercise import Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises.backward_cases import cases
from flashlab.exercises.backward_inputs import make_inputs
from flashlab.exercises.mistakes.flash_backward_dkdv import MISTAKES
from flashlab.iocount.bounds import backward_dkdv_bytes
from flashlab.reference.honest import honest_attention_backward


def honest(inputs: Inputs) -> list[dict[str, torch.Tensor]]:
    """Six honest answers: the scale on S, q or k; exp or exp2."""
    return honest_attention_backward(**inputs)


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """k, v read and dk, dv written once; q, do, lse and delta read once by every key block."""
    shape = [sizes[n] for n in ("B", "H", "N_q", "N_k", "D")]
    return backward_dkdv_bytes(*shape, tiles["BLOCK_M"], tiles["BLOCK_N"], itemsize)


EXERCISE = Exercise(
    slug="flash_backward_dkdv",
    chapter="06",
    title="Backward pass: gradients of keys and values",
    kind="triton",
    reference="flashlab.reference.backward:flash_backward_dkdv",
    outputs=(Output("dk"), Output("dv")),
    make_inputs=partial(make_inputs, ("q", "k", "v", "do", "lse", "delta")),
    honest=honest,
    cases=cases(),
    mistakes=MISTAKES,
    hints=(
        "Read the formulas of the contract with the shapes beside them. Every sum over queries i "
        "becomes a dot product whose left side is a transposed tile: p and ds are "
        "[BLOCK_M, BLOCK_N], dv and dk are [BLOCK_N, BLOCK_D].",
        "P is not stored anywhere. s comes from q and k as in the forward pass, and exp(s - lse) "
        "is the weight already divided by its row's sum: no maximum and no sum is needed. A "
        "weight that the mask hides is 0.",
        "The gradient that reaches p is dp = do v^T. Softmax lets through only what differs from "
        "the weighted mean of its row, and that mean is delta: ds = p * (dp - delta). The scale "
        "of the scores comes back once, in dk.",
        "Step 1: p = tl.where(visible, tl.exp(s - lse[:, None]), 0.0). Step 2: dv = "
        "tl.dot(tl.trans(p.to(do.dtype)), do, dv, input_precision='ieee'). Step 3: ds = "
        "p * (tl.dot(do, tl.trans(v), input_precision='ieee') - delta[:, None]). Step 4 is step 2 "
        "with ds, q and dk. Step 5: dk *= sm_scale, then two masked stores.",
    ),
    steps=("P again", "dV", "dS", "dK", "Scale and store"),
    budget=budget,
    tile_names=("BLOCK_M", "BLOCK_N"),
    tile_pairs=((16, 16), (32, 16), (16, 32)),
    minutes=60,
)
