"""Inputs, cases, budget and hints of ``merge_partials``. Floor: course."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes, Tiles
from flashlab.exercises.mistakes.merge_partials import MISTAKES

SCORES = ("random", "peaky", "large", "negative", "rising", "empty-parts", "empty-rows")
LAYOUTS = ("contiguous", "permuted", "expanded")


def make_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict:
    """``{"o": [S, B, H, N, D], "lse": [S, B, H, N] fp32}``.

    ``sizes`` holds S B H N D and may hold
    ``scores``: random (default: lse spreads by 2); peaky (the last part lies 9 above the others);
    large, negative (near 200, -200: exp overflows, underflows in fp32); rising (each part 60 above
    the one before); empty-parts (a third of all lse is -inf, o is NaN there); empty-rows (so is
    every second row, in all parts);
    ``layout``: contiguous (default); permuted ([S, B, N, H, D] and [S, B, N, H] memory); expanded
    (one o for all parts, one lse for all batches: stride 0).
    """
    S, B, H, N, D = (sizes[name] for name in "SBHND")
    scores, layout = sizes.get("scores", "random"), sizes.get("layout", "contiguous")
    for name, chosen, known in (("scores", scores, SCORES), ("layout", layout, LAYOUTS)):
        if chosen not in known:
            raise ValueError(f"{name} must be one of {known}, not {chosen!r}")
    shared = layout == "expanded"
    o = torch.randn(1 if shared else S, B, H, N, D, generator=generator)
    lse = 2 * torch.randn(S, 1 if shared else B, H, N, generator=generator)
    part = torch.arange(S)[:, None, None, None]
    lse += {"large": 200.0, "negative": -200.0}.get(scores, 0.0)
    lse += {"peaky": 9.0 * (part == S - 1), "rising": 60.0 * part}.get(scores, 0.0 * part)
    if scores.startswith("empty"):
        empty = torch.rand(lse.shape, generator=generator) < 1 / 3
        if scores == "empty-rows":
            empty[..., ::2] = True
        lse[empty] = -torch.inf
        o[empty] = torch.nan
    if layout == "permuted":
        o = o.transpose(2, 3).contiguous().transpose(2, 3)
        lse = lse.transpose(2, 3).contiguous().transpose(2, 3)
    return {"o": o.to(dtype).expand(S, -1, -1, -1, -1), "lse": lse.expand(-1, B, -1, -1)}


def honest(inputs: Inputs) -> list[dict[str, Tensor]]:
    """Four honest answers: exp or exp2; all parts at once, or one after the other."""
    o, lse = inputs["o"], inputs["lse"]
    return [
        way(o.float().masked_fill((lse == -torch.inf)[..., None], 0.0), lse, base, o.dtype)
        for way in (_at_once, _one_by_one)
        for base in (math.e, 2.0)
    ]


def _at_once(o: Tensor, lse: Tensor, base: float, dtype: torch.dtype) -> dict[str, Tensor]:
    if not len(lse):
        return _one_by_one(o, lse, base, dtype)
    m = lse.amax(0)
    weights = _power(lse - m.masked_fill(m == -torch.inf, 0.0), base)
    return _finished(m, weights.sum(0), (weights[..., None] * o).sum(0), dtype)


def _one_by_one(o: Tensor, lse: Tensor, base: float, dtype: torch.dtype) -> dict[str, Tensor]:
    m, total, acc = torch.full(lse.shape[1:], -torch.inf), torch.zeros(lse.shape[1:]), 0 * o.sum(0)
    for part, score in zip(o, lse, strict=True):
        m_new = torch.maximum(m, score)
        safe = m_new.masked_fill(m_new == -torch.inf, 0.0)
        alpha, weight = _power(m - safe, base), _power(score - safe, base)
        m, total = m_new, alpha * total + weight
        acc = alpha[..., None] * acc + weight[..., None] * part
    return _finished(m, total, acc, dtype)


def _finished(m: Tensor, total: Tensor, acc: Tensor, dtype: torch.dtype) -> dict[str, Tensor]:
    safe = total.masked_fill(total == 0, 1.0)
    return {"o": (acc / safe[..., None]).to(dtype), "lse": m + torch.log(safe)}


def _power(x: Tensor, base: float) -> Tensor:
    return torch.exp(x) if base == math.e else torch.exp2(x / math.log(2))


def budget(sizes: Sizes, tiles: Tiles, itemsize: int) -> Mapping[str, tuple[int, int]]:
    """Every part's o and lse read once; the merged o and lse, of the same names, written once."""
    S, D, rows = sizes["S"], sizes["D"], sizes["B"] * sizes["H"] * sizes["N"]
    written = rows * bool(S)  # without parts there is no launch
    return {
        "o": (S * rows * D * itemsize, written * D * itemsize),
        "lse": (S * rows * 4, written * 4),
    }


def _sizes(S: int, N: int, B: int = 1, H: int = 1, D: int = 16, **rest) -> Sizes:
    return {"S": S, "B": B, "H": H, "N": N, "D": D, **rest}


CASES = (
    Case(
        "two-parts",
        "core",
        lambda t: _sizes(2, t["BLOCK_M"]),
        "Two parts, one block of rows: a weighted mean whose weights come from lse.",
        pairs=(0, 1, 2),
    ),
    Case(
        "four-parts",
        "core",
        lambda t: _sizes(4, 2 * t["BLOCK_M"], B=2, H=3),
        "Four parts, two blocks of rows, 2 batches of 3 heads: every program must find its own.",
        own=True,
    ),
    Case(
        "one-part",
        "core",
        lambda t: _sizes(1, t["BLOCK_M"]),
        "A single part: o and lse come back as they are.",
    ),
    Case(
        "peaky",
        "core",
        lambda t: _sizes(3, t["BLOCK_M"], scores="peaky"),
        "The last part lies 9 above the others and has nearly all the weight.",
    ),
    Case(
        "rising",
        "core",
        lambda t: _sizes(4, t["BLOCK_M"], scores="rising"),
        "Every part lies 60 above the one before: what was merged before must shrink to nothing.",
    ),
    Case(
        "large-lse",
        "core",
        lambda t: _sizes(2, t["BLOCK_M"], scores="large"),
        "lse near 200, where exp overflows in fp32 unless the maximum is subtracted.",
    ),
    Case(
        "negative-lse",
        "core",
        lambda t: _sizes(2, t["BLOCK_M"], scores="negative"),
        "lse near -200, where exp is 0 in fp32 unless the maximum is subtracted.",
    ),
    Case(
        "ragged-rows",
        "ragged",
        lambda t: _sizes(3, t["BLOCK_M"] + 5, H=2),
        "The last block has 5 rows: its other rows must not be read or written.",
        pairs=(0, 1),
        own=True,
    ),
    Case(
        "odd-head-dim",
        "ragged",
        lambda t: _sizes(2, t["BLOCK_M"] + 1, D=24),
        "D is 24 and BLOCK_D 32: the columns from D on belong to the next row.",
        own=True,
    ),
    Case(
        "one-row",
        "ragged",
        lambda t: _sizes(3, 1, B=2, D=40),
        "One row a head, as in decoding.",
    ),
    Case(
        "empty-parts",
        "hostile",
        lambda t: _sizes(5, t["BLOCK_M"] + 2, H=2, scores="empty-parts"),
        "A third of the parts saw no key: lse is -inf, and o holds NaN, which must not leak.",
        pairs=(0, 2),
    ),
    Case(
        "empty-rows",
        "hostile",
        lambda t: _sizes(3, t["BLOCK_M"], scores="empty-rows"),
        "In every second row all parts are empty: o is 0 there and lse -inf.",
    ),
    Case(
        "permuted",
        "hostile",
        lambda t: _sizes(2, 17, B=2, H=3, layout="permuted"),
        "o and lse have the heads inside the rows in memory: only the strides tell.",
    ),
    Case(
        "expanded",
        "hostile",
        lambda t: _sizes(3, 18, B=2, H=2, layout="expanded"),
        "The parts share one o, the batches share lse: both have a stride of 0.",
    ),
    Case(
        "fp32",
        "hostile",
        lambda t: _sizes(3, t["BLOCK_M"], D=32),
        "float32 in, float32 out: nothing may pass through a shorter dtype.",
        dtype="float32",
    ),
    Case(
        "bf16",
        "hostile",
        lambda t: _sizes(3, t["BLOCK_M"] + 1),
        "bfloat16 in, bfloat16 out; lse and the sums stay fp32.",
        dtype="bfloat16",
    ),
    Case(
        "no-parts",
        "hostile",
        lambda t: _sizes(0, 3, H=2),
        "S is 0: o is 0 and lse -inf, without a launch.",
        trivial="there is nothing to merge, so zeros are right",
    ),
    Case(
        "no-rows",
        "hostile",
        lambda t: _sizes(2, 0),
        "N is 0: the outputs are empty, and there is nothing to launch.",
        trivial="o has no elements, so every answer is right",
    ),
)

EXERCISE = Exercise(
    slug="merge_partials",
    chapter="03",
    title="Merge attention over parts of the keys",
    kind="triton",
    reference="flashlab.reference.merge:merge_partials",
    outputs=(Output("o"), Output("lse", "float32")),
    make_inputs=make_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "lse_s is the log of the sum of exponentials over the keys of part s. So exp(lse_s) is "
        "how much those keys weigh together, and o_s is their mean. The answer is the mean of the "
        "o_s with the weights exp(lse_s).",
        "exp(lse_s) itself may overflow. Do as in online_softmax: keep the largest lse so far in "
        "m_i, sum exp(lse_s - m_i) in l_i and exp(lse_s - m_i) * o_s in acc, and rescale both by "
        "alpha = exp(m_i - m_new) when a part raises the maximum.",
        "A part with lse -inf has the weight exp(-inf) = 0, but its o may be NaN, and 0 * NaN is "
        "NaN: replace o_s by 0 there with tl.where. While all parts were empty, m_new is -inf: "
        "subtract 0 instead.",
        "Step 4: l_i = alpha * l_i + w and acc = alpha[:, None] * acc + w[:, None] * o_s, then "
        "m_i = m_new. Step 5: divide acc by l_i, or by 1 where l_i is 0; lse is "
        "m_i + tl.log(l_i), with the same guard.",
    ),
    steps=(
        "Running state",
        "Load a part",
        "New maximum, weights",
        "Rescale, add",
        "Divide, store",
    ),
    budget=budget,
    tile_names=("BLOCK_M",),
    tile_pairs=((16,), (4,), (8,)),
    minutes=30,
)
