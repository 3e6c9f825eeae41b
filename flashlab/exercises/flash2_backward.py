"""Cases, budget and hints of ``flash2_backward``. Floor: course."""

from collections.abc import Mapping
from functools import partial

import torch

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises.backward_cases import cases
from flashlab.exercises.backward_inputs import make_inputs
from flashlab.exercises.mistakes.flash2_backward import MISTAKES
from flashlab.iocount.bounds import (
    backward_delta_bytes,
    backward_dkdv_bytes,
    backward_dq_bytes,
    merge,
)
from flashlab.reference.honest import honest_attention_backward


def honest(inputs: Inputs) -> list[dict[str, torch.Tensor]]:
    """Six honest answers: the scale on S, q or k; exp or exp2."""
    delta = (inputs["do"].float() * inputs["o"].float()).sum(3)
    return honest_attention_backward(**{n: x for n, x in inputs.items() if n != "o"}, delta=delta)


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """Three launches; a program keeps BLOCK_N rows, keys or queries, and BLOCK_M at a time pass.

    Under a causal mask only tiles on or below the diagonal are read. For D above 128 bytes a row
    the launcher shrinks both tiles: give it those that were launched.
    """
    B, H, N_q, N_k, D = (sizes[n] for n in ("B", "H", "N_q", "N_k", "D"))
    if B * H * N_q * N_k == 0:  # no launch
        return dict.fromkeys(("q", "k", "v", "o", "lse", "do", "dq", "dk", "dv"), (0, 0))
    passing, kept, causal = tiles["BLOCK_M"], tiles["BLOCK_N"], sizes.get("causal", False)
    shape = (B, H, N_q, N_k, D)
    traffic = merge(
        backward_delta_bytes(B, H, N_q, D, itemsize),
        backward_dkdv_bytes(*shape, passing, kept, itemsize, causal, sizes.get("H_kv")),
        backward_dq_bytes(*shape, kept, passing, itemsize, causal),
    )
    return traffic | {"scratch": traffic.pop("delta")}


GROUPED = (
    Case(
        "grouped-heads",
        "hostile",
        lambda t: {"B": 2, "H": 4, "H_kv": 2, "N_q": 20, "N_k": t["BLOCK_N"] + 3, "D": 16},
        "4 query heads share 2 key heads: dk and dv sum over the group, head h reads key head "
        "h // 2.",
        pairs=(0, 1),
    ),
    Case(
        "one-key-head",
        "hostile",
        lambda t: {"B": 1, "H": 3, "H_kv": 1, "N_q": 9, "N_k": 21, "D": 16, "causal": True},
        "3 query heads share one key head, causal with N_q != N_k.",
    ),
)

EXERCISE = Exercise(
    slug="flash2_backward",
    chapter="07",
    title="FlashAttention-2 backward",
    kind="triton",
    reference="flashlab.reference.backward:flash2_backward",
    outputs=(Output("dq"), Output("dk"), Output("dv")),
    make_inputs=partial(make_inputs, ("q", "k", "v", "o", "lse", "do")),
    honest=honest,
    cases=cases() + GROUPED,
    mistakes=MISTAKES,
    hints=(
        "This is chapter 06 in one call, with three changes: exp2 for exp, no work above the "
        "diagonal, and key heads that several query heads share. Take your kernels of lab 06 and "
        "change one thing at a time.",
        "exp(x) is exp2(x * log2(e)). Put that factor into the scale once and into lse once a "
        "row, not into every weight. The pass over queries works on transposed tiles, so that p_t "
        "and ds_t are the left sides of their dots as they are.",
        "Query i sees key j if j <= i + shift. My first key is start_n: which is the first query "
        "that sees it, and in which tile does it lie? My last key is start_n + BLOCK_N - 1: from "
        "which query on is nothing hidden? Query head h reads key head h // group.",
        "Step 2: first = tl.maximum(start_n - shift, 0) // BLOCK_M * BLOCK_M and full = start_n + "
        "BLOCK_N - 1 - shift. Step 3: p_t = tl.exp2(tl.dot(k, tl.trans(q), "
        "input_precision='ieee') * scale_log2 - (lse * LOG2E)[None, :]), then the mask, if "
        "start_m < full. Step 4: ds_t = p_t * (tl.dot(v, tl.trans(do), input_precision='ieee') - "
        "delta[None, :]).",
    ),
    steps=(
        "Heads that share my keys",
        "Queries that see my keys",
        "P transposed, in base 2",
        "dV, dS, dK of this tile",
        "dQ of this tile",
    ),
    budget=budget,
    tile_names=("BLOCK_M", "BLOCK_N"),
    tile_pairs=((16, 16), (32, 16), (16, 32)),
    minutes=75,
)
