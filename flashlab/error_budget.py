"""How far off an honest kernel may be: the error budget of every output. Floor: core.

The budget is what honest low-precision answers lose, times four, plus two roundings of the
largest element. lse, whose error does not depend on the inputs' dtype, has a limit of its own.

Tried with ``scripts/false_failures.py``: of 3,000 random correct runs of compiled kernels on an
H200 none failed (2026-11-30, torch 2.11, Triton 3.6). The largest error was 0.90 of its limit (o
of fp32 without TF32), 0.54 with TF32, 0.46 in fp16 and 0.29 in bf16 (lse).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

EPS32 = torch.finfo(torch.float32).eps
EPS_TF32 = 2.0**-11
HONEST = 4.0  # times the worst honest error
ROUNDINGS = 2.0  # times eps * largest element
PRECISION = 8.0  # up to this many limits it is "precision", not "wrong"
GRADIENTS = ("dq", "dk", "dv")
BAND = (0.5, 1.5)  # of the smallest and largest honest relative RMSE


@dataclass(frozen=True)
class Limit:
    """What one output may be off by.

    Args:
        limit: Largest allowed error; 0 compares exactly. In a band: of the relative RMSE.
        element: Largest error of one element that the map of tiles counts as right.
        soft: Errors above ``limit`` and up to this are "precision".
        least: Smallest allowed relative RMSE of a band; None where there is no band.
        exact: In a band: what an element has to be, NaN where it may be another one.
    """

    limit: float
    element: float
    soft: float
    least: float | None = None
    exact: Tensor | None = None


def limits(
    reference: Mapping[str, Any],
    honest: Sequence[Mapping[str, Any]],
    inputs: Mapping[str, Any],
    dtype: torch.dtype,
    tf32: bool = False,
) -> dict[str, Limit]:
    """The error budget of every output of one call.

    Args:
        reference: fp64 reference by output name.
        honest: Honest low-precision answers by output name, in the output's dtype; empty: exact
            comparison. An answer may add ``"<output>:floor"``, a smallest limit,
            ``"<output>:times"``, a factor in place of 4 where answers hardly differ, or
            ``"<output>:band"``, which asks for an error between 0.5 and 1.5 times those of the
            answers (FP8); beside that ``"<output>:exact"``, numbers that have to come, or NaN.
        inputs: The call's arguments; ``q k v sm_scale`` (or ``x``) give the largest score.
        dtype: dtype of the inputs.
        tf32: The run was allowed to multiply fp32 in TF32.
    """
    if not honest:
        return {name: Limit(0.0, 0.0, 0.0) for name in reference}
    widened = EPS_TF32 / EPS32 if tf32 and dtype == torch.float32 else 1.0
    made = {}
    for name, ref in reference.items():
        ref, answers = as_fp64(ref), [as_fp64(a[name]) for a in honest]
        if any(f"{name}:band" in a for a in honest):
            exact = [a[f"{name}:exact"] for a in honest if f"{name}:exact" in a]
            made[name] = _band(answers, ref, *exact)
            continue
        base = max(max_error(a, ref) for a in answers)
        eps = _eps(honest[0][name])
        times = min(float(a.get(f"{name}:times", HONEST)) for a in honest)
        budget = widened * (times * base + ROUNDINGS * eps * _largest(ref))
        least = max(float(a.get(f"{name}:floor", 0.0)) for a in honest)
        limit = max(_by_scores(name, ref, budget, inputs, widened), least)
        made[name] = Limit(limit, limit, max(PRECISION * limit, budget))
    return made


def score_bound(inputs: Mapping[str, Any]) -> float | None:
    """Largest finite ``|q . k| * sm_scale`` over all pairs of a head; for softmax, of ``x``.

    None where the inputs hold no such tensors.
    """
    q, k = inputs.get("q"), inputs.get("k")
    if isinstance(q, Tensor) and isinstance(k, Tensor) and q.dim() == k.dim() == 4:
        scale = inputs.get("sm_scale")
        scale = q.shape[-1] ** -0.5 if scale is None else abs(float(scale))
        group = max(1, q.shape[1] // max(1, k.shape[1]))
        k = as_fp64(k).repeat_interleave(group, dim=1)
        return scale * _largest(as_fp64(q) @ k.transpose(-1, -2))
    return _largest(inputs["x"]) if "x" in inputs else None


def as_fp64(value: Any) -> Tensor:
    """A detached CPU copy in fp64 of a tensor, an array or a number."""
    tensor = value.detach() if isinstance(value, Tensor) else torch.as_tensor(value)
    return tensor.to("cpu", torch.float64)


def max_error(a: Tensor, b: Tensor) -> float:
    """Largest difference where both are finite."""
    both = torch.isfinite(a) & torch.isfinite(b)
    return float((a - b)[both].abs().max()) if bool(both.any()) else 0.0


def relative_rmse(a: Tensor, b: Tensor) -> float:
    """Root mean square of ``a - b`` over that of ``b``; 0 for empty tensors."""
    return float((a - b).norm() / b.norm().clamp_min(1e-300)) if b.numel() else 0.0


def _by_scores(
    name: str, ref: Tensor, budget: float, inputs: Mapping[str, Any], widened: float
) -> float:
    """The limit where it depends on the largest score: lse, o and the gradients.

    exp of a score near x is off by eps * x, so peaky scores cost more than honest answers show.
    A score is a sum of D products. Added up one by one, as a kernel may, it is off by sqrt(D)
    roundings more than in the honest answers, whose matrix product adds in blocks.
    """
    if name not in ("o", "lse", *GRADIENTS) or (score := score_bound(inputs)) is None:
        return budget
    drift = math.sqrt(inputs["q"].shape[-1]) if "q" in inputs else 0.0
    if name == "lse":
        return 4 * EPS32 * (widened * (6 + score) + drift / 4 * score)
    if "q" not in inputs:
        return budget
    units = widened * (1 + score) + drift / 4 * score
    return max(budget, 2 * EPS32 * units * _magnitude(name, ref, inputs))


def _magnitude(name: str, ref: Tensor, inputs: Mapping[str, Any]) -> float:
    """Size of the terms that add up to an output before they cancel."""
    if name == "o":
        return _largest(inputs.get("v"))
    if name == "dv":
        q, k = inputs["q"], inputs["k"]
        queries = q.shape[1] * q.shape[2] / max(1, k.shape[1])  # that may look at one key
        return max(_largest(ref), math.sqrt(queries) * _largest(inputs.get("do")))
    scale = inputs.get("sm_scale")
    scale = inputs["q"].shape[-1] ** -0.5 if scale is None else abs(float(scale))
    dp = score_bound({"q": inputs.get("do"), "k": inputs.get("v"), "sm_scale": scale}) or 0.0
    return max(_largest(ref), dp * _largest(inputs["k" if name == "dq" else "q"]))


def _band(answers: Sequence[Tensor], ref: Tensor, exact: Tensor | None = None) -> Limit:
    rmse = [relative_rmse(a, ref) for a in answers]
    high = BAND[1] * max(rmse)
    element = BAND[1] * max(max_error(a, ref) for a in answers)
    return Limit(high, element, PRECISION * high, BAND[0] * min(rmse), exact)


def _largest(value: Any) -> float:
    """Largest finite magnitude; 0 for nothing."""
    if value is None:
        return 0.0
    tensor = as_fp64(value)
    return max_error(tensor, torch.zeros_like(tensor))


def _eps(answer: Any) -> float:
    dtype = getattr(answer, "dtype", None)
    floating = isinstance(dtype, torch.dtype) and dtype.is_floating_point
    return torch.finfo(dtype).eps if floating else 0.0
