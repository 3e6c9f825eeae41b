"""The one comparer: an error budget against an fp64 reference. Floor: core.

``error_budget`` says how far off an output may be; infinities must match exactly, and NaN always
fails unless the reference holds it. Where an output is wrong is said by ``errormap``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flashlab.error_budget import Limit, as_fp64, limits, max_error, relative_rmse
from flashlab.errormap import where_bad

__all__ = ["Finding", "Limit", "compare", "limits", "worst"]

SEVERITY = ("nan", "wrong", "precision", "pass")


@dataclass(frozen=True)
class Finding:
    """What the comparer says of one output.

    ``where`` holds the fields of ``report.Where``; None where the output passes.
    """

    output: str
    status: str
    error: float | None
    limit: float
    sentence: str
    where: dict[str, Any] | None = None


def compare(
    got: Mapping[str, Any],
    reference: Mapping[str, Any],
    limits: Mapping[str, Limit],
    tiles: Mapping[str, int] | None = None,
) -> list[Finding]:
    """One finding for each output of the reference, in its order.

    Args:
        got: Returned tensors, arrays or numbers by output name.
        reference: fp64 reference by output name.
        limits: What ``limits`` made.
        tiles: Tile sizes of the run; they shape the map of tiles.

    Raises:
        ValueError: an output is missing or has another shape.
    """
    findings = []
    for name, ref in reference.items():
        if name not in got:
            raise ValueError(
                f"expected an output {name!r}, got {sorted(got)}; return every output"
            )
        a, b = as_fp64(got[name]), as_fp64(ref)
        if a.shape != b.shape:
            raise ValueError(
                f"{name} should have shape {list(b.shape)}, not {list(a.shape)}; reshape it"
            )
        findings.append(_compare_one(name, a, b, limits[name], tiles))
    return findings


def worst(findings: Sequence[Finding]) -> Finding:
    """The finding that a report shows: the most severe one, the first of equals."""
    return min(findings, key=lambda f: SEVERITY.index(f.status))


def _compare_one(
    name: str, got: Tensor, ref: Tensor, limit: Limit, tiles: Mapping[str, int] | None
) -> Finding:
    nan = torch.isnan(got) != torch.isnan(ref)
    infinite = (torch.isinf(got) | torch.isinf(ref)) & (got != ref)
    units = _units(got, ref, limit.element)
    off = torch.zeros_like(nan)
    if limit.exact is not None:
        off = ~torch.isnan(limit.exact) & (got != limit.exact)
    units[nan | infinite | off] = torch.inf
    error = max_error(got, ref) if limit.least is None else relative_rmse(got, ref)
    status, sentence = _verdict(name, got, nan, infinite, error, limit)
    if status == "pass" and bool(off.any()):
        status = "precision"
        sentence = (
            f"{name} is not the nearest number in {int(off.sum())} of {off.numel()} elements"
        )
    where = None if status == "pass" else where_bad(name, got, ref, units, tiles)
    return Finding(name, status, None if bool(nan.any()) else error, limit.limit, sentence, where)


def _verdict(
    name: str, got: Tensor, nan: Tensor, infinite: Tensor, error: float, limit: Limit
) -> tuple[str, str]:
    if bool(nan.any()):
        if not bool(torch.isnan(got)[nan].any()):
            return "wrong", f"{name} is a number where NaN was expected"
        return "nan", f"{name} holds NaN in {int(nan.sum())} of {nan.numel()} elements"
    if bool(infinite.any()):
        kind = "is infinite" if bool(torch.isinf(got)[infinite].any()) else "is not infinite"
        return "wrong", f"{name} {kind} in {int(infinite.sum())} elements where it should not be"
    if limit.least is not None and error < limit.least:
        return "wrong", (
            f"{name} is too exact for FP8: its relative error is {error:.2g}, "
            f"honest FP8 makes at least {limit.least:.2g}"
        )
    if error <= limit.limit:
        return "pass", f"{name} is within its error limit"
    status = "precision" if error <= limit.soft else "wrong"
    if not limit.limit:
        return status, f"{name} is off by {error:.3g}, and must be exactly equal"
    times = f"{error / limit.limit:.3g} times the allowed {limit.limit:.2g}"
    return status, f"{name} is off by {error:.3g}, {times}"


def _units(got: Tensor, ref: Tensor, element: float) -> Tensor:
    """Error of each element over its limit; an exact comparison counts any error as infinite."""
    error = (got - ref).abs().nan_to_num(0.0, 0.0)
    return error / element if element else torch.where(error > 0, torch.inf, 0.0).double()
