"""Cases, budget and hints of ``flash_backward_dq``. Floor: course."""

from collections.abc import Mapping
from functools import partial

import torch

from flashlab.exercise import Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises.backward_cases import cases
from flashlab.exercises.backward_inputs import make_inputs
from flashlab.exercises.mistakes.flash_backward_dq import MISTAKES
from flashlab.iocount.bounds import backward_dq_bytes
from flashlab.reference.honest import honest_attention_backward


def honest(inputs: Inputs) -> list[dict[str, torch.Tensor]]:
    """Six honest answers: the scale on S, q or k; exp or exp2."""
    return honest_attention_backward(**inputs)


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """q, do, lse, delta read and dq written once; k and v read once by every query block."""
    shape = [sizes[n] for n in ("B", "H", "N_q", "N_k", "D")]
    return backward_dq_bytes(*shape, tiles["BLOCK_M"], tiles["BLOCK_N"], itemsize)


EXERCISE = Exercise(
    slug="flash_backward_dq",
    chapter="06",
    title="Backward pass: gradient of the queries",
    kind="triton",
    reference="flashlab.reference.backward:flash_backward_dq",
    outputs=(Output("dq"),),
    make_inputs=partial(make_inputs, ("q", "k", "v", "do", "lse", "delta")),
    honest=honest,
    cases=cases(),
    mistakes=MISTAKES,
    hints=(
        "The loop is that of the forward pass: one block of queries stays, tiles of keys pass by. "
        "P and dS are those of flash_backward_dkdv; only the last product differs.",
        "A key that does not exist has the score 0, so its weight is exp(0 - lse): enormous if "
        "lse is very negative. Its k and v are 0, but 0 times infinity is NaN. Hide it.",
        "dq_i sums ds_ij * k_j over the keys of a tile: ds [BLOCK_M, BLOCK_N] times k "
        "[BLOCK_N, BLOCK_D], nothing to transpose. The scale comes once, at the end.",
        "Step 1: p = tl.where(visible, tl.exp(s - lse[:, None]), 0.0) with visible from mask_n "
        "and, if CAUSAL, the diagonal. Step 2: ds = p * (tl.dot(do, tl.trans(v), "
        "input_precision='ieee') - delta[:, None]). Step 3: dq = tl.dot(ds.to(k.dtype), k, dq, "
        "input_precision='ieee'). Step 4: dq *= sm_scale, then one masked store.",
    ),
    steps=("P again", "dS", "dQ", "Scale and store"),
    budget=budget,
    tile_names=("BLOCK_M", "BLOCK_N"),
    tile_pairs=((16, 16), (32, 16), (16, 32)),
    minutes=30,
)
