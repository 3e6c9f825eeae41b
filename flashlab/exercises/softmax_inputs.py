"""Inputs and honest answers of the exercises on rows of scores. Floor: course."""

import math

import torch
from torch import Tensor

from flashlab.exercise import Inputs, Sizes

SCORES = tuple("random large negative very-negative rising falling apart holes hidden".split())
LAYOUTS = ("contiguous", "transposed", "sliced", "expanded")
LOG2E = 1 / math.log(2)


def make_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict:
    """``{"x": [R, C]}``.

    ``sizes`` holds R and C and may hold
    ``scores``: random (default); large (beyond +-88: exp overflows in fp32); negative (all near
    -120); very-negative (all near -100,000: not for fp16); rising, falling (in three stairs of
    2.5, of 50); apart (every row lies 200 below the one before); holes (a third of the elements
    is -inf); hidden (every second row is only -inf, and the first half of each other row);
    ``layout``: contiguous (default); transposed (columns outermost in memory); sliced (every
    second column of longer rows, from the third on); expanded (one row, stride 0).
    """
    R, C = sizes["R"], sizes["C"]
    scores, layout = sizes.get("scores", "random"), sizes.get("layout", "contiguous")
    for name, chosen, known in (("scores", scores, SCORES), ("layout", layout, LAYOUTS)):
        if chosen not in known:
            raise ValueError(f"{name} must be one of {known}, not {chosen!r}")
    rows = 1 if layout == "expanded" else R
    x = torch.randn(rows, C, generator=generator)
    _set_scores(x, scores, generator)
    return {"x": _laid_out(x.to(dtype), layout, R)}


def _set_scores(x: Tensor, scores: str, generator: torch.Generator) -> None:
    R, C = x.shape
    stairs = torch.arange(C) * 3 // max(1, C)  # 0, 1, 2
    if scores == "large":
        x.mul_(60.0)
    if scores in ("negative", "very-negative"):
        x.sub_(120.0 if scores == "negative" else 1e5)
    if scores in ("rising", "falling"):
        x.add_(2.5 * stairs if scores == "rising" else -50.0 * stairs)
    if scores == "apart":
        x.sub_(200.0 * torch.arange(R)[:, None])
    if scores == "holes":
        x[torch.rand(R, C, generator=generator) < 1 / 3] = -torch.inf
    if scores == "hidden":
        x[:, : C // 2] = -torch.inf
        x[::2] = -torch.inf


def _laid_out(x: Tensor, layout: str, R: int) -> Tensor:
    """The values of ``x`` as a view with other strides."""
    if layout == "transposed":
        return x.t().contiguous().t()
    if layout == "sliced":
        wide = x.new_zeros(x.shape[0], 2 * x.shape[1] + 2)
        wide[:, 2::2] = x
        return wide[:, 2::2]
    return x.expand(R, -1) if layout == "expanded" else x


def honest_softmax(inputs: Inputs) -> list[dict[str, Tensor]]:
    """Six honest answers ``p`` and ``lse``: exp or exp2; p by dividing, by 1/l, from lse."""
    x = inputs["x"].float()
    m = x.amax(1, keepdim=True) if x.shape[1] else x.new_full([x.shape[0], 1], -torch.inf)
    m_safe = m.masked_fill(m == -torch.inf, 0.0)
    answers = []
    for base in ("exp", "exp2"):
        e = torch.exp(x - m_safe) if base == "exp" else torch.exp2((x - m_safe) * LOG2E)
        sums = e.sum(1, keepdim=True)
        safe = sums.masked_fill(sums == 0, 1.0)
        lse = m + torch.log(safe) if base == "exp" else (m * LOG2E + torch.log2(safe)) / LOG2E
        shifted = x - lse.masked_fill(lse == -torch.inf, 0.0)
        last = torch.exp(shifted) if base == "exp" else torch.exp2(shifted * LOG2E)
        for p in (e / safe, e * (1 / safe), last):
            answers.append({"p": p.to(inputs["x"].dtype), "lse": lse[:, 0]})
    return answers
