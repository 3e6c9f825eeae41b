"""Cases, budget and hints of ``flash_dropout`` and its backward pass. Floor: course."""

from collections.abc import Mapping
from dataclasses import replace
from math import ceil

import torch

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises import attention_inputs, backward_inputs
from flashlab.exercises.backward_cases import cases as backward_cases
from flashlab.exercises.flash_forward import CASES as FORWARD
from flashlab.exercises.mistakes.flash_dropout import MISTAKES
from flashlab.iocount.bounds import backward_dkdv_bytes, flash_forward_bytes
from flashlab.reference import dropout
from flashlab.reference.honest import honest_attention, honest_attention_backward

BACKWARD = "flash_dropout_backward"
ONCE = ("p-zero", "long-seed", "p-nine-tenths", "permuted")  # tell nothing new of tile sizes


def make_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict:
    """Those of attention, p and seed; with ``backward`` set o, lse and do too.

    ``sizes`` is what ``attention_inputs`` and ``backward_inputs`` take and holds p and seed.
    """
    inputs = attention_inputs.make_inputs(sizes, dtype, generator)
    inputs |= {"p": sizes["p"], "seed": sizes["seed"]}
    if not sizes.get("backward"):
        return inputs
    exact = {n: x.double() if isinstance(x, torch.Tensor) else x for n, x in inputs.items()}
    o, lse = dropout.flash_dropout(**exact)
    do = backward_inputs.gradient(sizes, dtype, generator)
    return inputs | {"o": o.to(dtype), "lse": lse.float(), "do": do}


def honest(inputs: Inputs) -> list[dict[str, torch.Tensor]]:
    """Six honest answers: the scale on S, q or k; exp or exp2; the same weights dropped."""
    given = dict(inputs)
    p, seed, o = given.pop("p"), given.pop("seed"), given.pop("o", None)
    given["factors"] = dropout.factors(given["q"], given["k"], p, seed)
    if o is None:
        return honest_attention(**given)
    return honest_attention_backward(**given, delta=(given["do"].float() * o.float()).sum(3))


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """That of flash_forward, or of the two passes of the backward, which read o once more.

    Dropout moves nothing: the bits are drawn again.
    """
    shape = [sizes[n] for n in ("B", "H", "N_q", "N_k", "D")]
    block_m, block_n = tiles["BLOCK_M"], tiles["BLOCK_N"]
    forward = flash_forward_bytes(*shape, block_m, block_n, itemsize)
    if not sizes.get("backward"):
        return forward
    B, H, N_q, N_k, D = shape
    if B * H * N_q * N_k == 0:
        return dict.fromkeys(("q", "k", "v", "o", "lse", "do", "dq", "dk", "dv"), (0, 0))
    queries, rows = B * H * N_q * D * itemsize, B * H * N_q * 4
    over_keys = queries * ceil(N_k / block_n)
    keys = backward_dkdv_bytes(*shape, block_m, block_n, itemsize)
    met = rows * ceil(N_k / block_n)
    return {
        "q": (queries + over_keys, 0),
        "k": (forward["k"][0] + keys["k"][0], 0),
        "v": (forward["v"][0] + keys["v"][0], 0),
        "o": (queries, 0),
        "do": (queries + over_keys, 0),
        "lse": (rows + met, 0),
        "dq": (0, queries),
        "dk": keys["dk"],
        "dv": keys["dv"],
        "scratch": (met, rows),  # delta
    }


_FORWARD = {case.name: case for case in FORWARD}
_BACKWARD = {case.name: case for case in backward_cases()}


def _forward(name: str, why: str = "", as_name: str = "", own: bool = False, **sizes) -> Case:
    """A case of flash_forward with dropout."""
    return _with(_FORWARD[name], as_name or name, why, own, "", sizes)


def _backward(name: str, own: bool = False, **sizes) -> Case:
    """A case of the backward exercises with dropout."""
    more = {"backward": True} | sizes
    return _with(_BACKWARD[name], f"backward-{name}", "", own, BACKWARD, more)


def _with(case: Case, name: str, why: str, own: bool, function: str, more: Sizes) -> Case:
    more = {"p": 0.4, "seed": 7} | more
    once = {"pairs": case.pairs[:1]} if name in ONCE else {}
    return replace(
        case,
        name=name,
        why=why or case.why,
        own=own,
        function=function,
        sizes=lambda t: dict(case.sizes(t)) | more,
        **once,
    )


CASES = (
    _forward(
        "one-tile",
        "One tile: which weights are dropped depends on seed and position alone, and the kept "
        "ones grow by 1 / (1 - p).",
    ),
    _forward(
        "two-tiles",
        "Two tiles each way, 2 batches of 3 heads: every weight has a number of its own, from 0 "
        "to B * H * N_q * N_k - 1.",
        own=True,
    ),
    _forward("one-tile", "p is 0: nothing is dropped, nothing is scaled.", "p-zero", p=0.0),
    _forward("one-tile", "The seed needs more than 32 bits.", "long-seed", seed=2**40 + 3),
    _forward("two-tiles", "Nine of ten weights are dropped.", "p-nine-tenths", p=0.9),
    _forward("rising-scores"),
    _backward("one-tile"),
    _backward("two-tiles", own=True),
    _backward("given-scale"),
    _forward(
        "ragged-keys",
        "N_k is no multiple of the tile: the numbers of the weights run over N_k keys, not over "
        "whole tiles, and all scores are near -120.",
        own=True,
    ),
    _forward("odd-head-dim"),
    _backward("ragged-keys"),
    _backward("ragged-queries"),
    _forward("causal-many-queries"),
    _backward("causal-few-queries"),
    _backward("causal-many-queries"),
    _forward("permuted"),
    _forward("fp32"),
    _forward("no-keys"),
    _backward("sum-backward"),
    _backward("permuted"),
    _backward("expanded"),
    _backward("fp32"),
    _backward("bf16"),
    _backward("no-queries"),
)

EXERCISE = Exercise(
    slug="flash_dropout",
    chapter="06",
    title="Dropout whose bits are drawn twice",
    kind="triton",
    reference="flashlab.reference.dropout:flash_dropout",
    functions=("flash_dropout", BACKWARD),
    outputs=(
        Output("o"),
        Output("lse", "float32"),
        Output("dq", of=BACKWARD),
        Output("dk", of=BACKWARD),
        Output("dv", of=BACKWARD),
    ),
    make_inputs=make_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "Dropout multiplies every weight by a factor: 0, or 1 / (1 - p). A mask of N_q x N_k bits "
        "need not be stored: tl.rand gives the same number for the same seed and offset, so the "
        "backward pass draws it again.",
        "Weight (i, j) of head b * H + h has the number (head * N_q + i) * N_k + j. It must not "
        "depend on the tiles: forward and backward may use different ones. Count in int64.",
        "lse and l_i know nothing of dropout: the softmax is taken first, its weights are dropped "
        "after. In the backward pass there are two P: exp(s - lse), which ds uses, and the "
        "dropped and grown one that multiplied v, which dv uses.",
        "Step 1: u = tl.rand(seed, (head * N_q + rows)[:, None] * N_k + offs_n[None, :]). Step 4: "
        "dp = tl.where(keep, dp / (1.0 - p_drop), 0.0), then ds = p * (dp - delta[:, None]) as "
        "ever: delta = rowsum(do * o) holds the dropout already, since o does. Step 5: dv from "
        "tl.where(keep, p / (1.0 - p_drop), 0.0).",
    ),
    steps=(
        "Random bits of a tile",
        "Sum, drop, accumulate",
        "Divide and make up for what was dropped",
        "dS and dQ of this tile",
        "dV and dK of this tile",
    ),
    budget=budget,
    tile_names=("BLOCK_M", "BLOCK_N"),
    tile_pairs=((16, 16), (32, 16), (16, 32)),
    archs=(80, 89, 90, 100),  # three kernels: one target of each generation, the smallest memory
    minutes=45,
)
