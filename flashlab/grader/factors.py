"""Names a constant factor between what came and what was expected. Floor: course."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from flashlab.error_budget import GRADIENTS, as_fp64
from flashlab.grader.bank import Run

STEADY = 0.02  # relative spread of a ratio that counts as one number
NAMED = 0.003  # relative distance of a ratio to the number that it is called
LARGE = 0.05  # elements below this part of the largest are too noisy for a ratio
ROWS = 3  # rows needed for "a factor of its own"


def factor(runs: Sequence[Run]) -> list[str]:
    """One sentence on the first wrong output whose ratio to the reference is steady."""
    for name in runs[0].reference:
        ratios = [_ratio(run, name) for run in runs]
        if all(r is not None and abs(r - 1) > STEADY for r in ratios):
            return [_sentence(name, ratios, runs)]
        found = _by_row(runs[0], name)
        if found:
            return [found]
    return []


def _ratio(run: Run, name: str) -> float | None:
    pair = _pair(run, name)
    return None if pair is None else _steady(*pair)


def _pair(run: Run, name: str) -> tuple[Tensor, Tensor] | None:
    if name not in run.raw.outputs:
        return None
    got, ref = as_fp64(run.raw.outputs[name]), as_fp64(run.reference[name])
    if got.shape != ref.shape or not torch.isfinite(got).all():
        return None
    return got, ref


def _steady(got: Tensor, ref: Tensor) -> float | None:
    """The one ratio of all large elements, or None if they have several."""
    ref = ref.nan_to_num(0.0, 0.0, 0.0)
    if ref.numel() == 0 or float(ref.abs().max()) == 0:
        return None
    large = ref.abs() > LARGE * ref.abs().max()
    ratios = got[large] / ref[large]
    middle = float(ratios.median())
    if middle == 0:
        return None
    spread = float((ratios - middle).abs().max()) / abs(middle)
    return middle if spread < STEADY else None


def _sentence(name: str, ratios: Sequence[float], runs: Sequence[Run]) -> str:
    names = [set(_names(r, run)) for r, run in zip(ratios, runs, strict=True)]
    common = set.intersection(*names)
    known = [n for n in _names(ratios[0], runs[0]) if n in common]
    said = f", which is {known[0]}" if known else ""
    return f"Every element of {name} is {ratios[0]:.4g} times what it should be{said}."


def _names(ratio: float, run: Run) -> list[str]:
    """The names of a ratio for this call's sizes, the most likely first."""
    sizes: Mapping[str, Any] = run.result.sizes
    q = run.inputs.get("q")
    D = q.shape[-1] if isinstance(q, Tensor) else sizes.get("D")
    H = sizes.get("H")
    table: list[tuple[str, float]] = [("-1: the sign", -1.0), ("2", 2.0), ("1/2", 0.5)]
    if D:
        table += [("sqrt(D)", D**0.5), ("1/sqrt(D)", D**-0.5), ("D", D), ("1/D", 1 / D)]
    table += [
        ("log2(e) = 1.4427: base 2 where base e is meant", 1 / math.log(2)),
        ("ln 2 = 0.6931: base e where base 2 is meant", math.log(2)),
    ]
    group = H // sizes["H_kv"] if H and sizes.get("H_kv") else 1
    if group > 1:
        table += [("the group size H / H_kv", group), ("1 / group size", 1 / group)]
    if sizes.get("N_k"):
        table += [("the number of keys", sizes["N_k"]), ("1 / number of keys", 1 / sizes["N_k"])]
    a = run.inputs.get("a")
    if isinstance(a, float | int) and a:
        table += [("a itself", a), ("1/a", 1 / a)]
    return [name for name, value in table if abs(ratio - value) < NAMED * abs(value)]


def _by_row(run: Run, name: str) -> str:
    """A sentence if each row of the first head has a factor of its own."""
    pair = _pair(run, name)
    if pair is None or pair[0].dim() < 2 or name == "lse":
        return ""
    got, ref = (t.reshape(-1, *t.shape[-2:])[0] for t in pair)
    ratios = [_steady(g, r) for g, r in zip(got, ref, strict=True)]
    off = [(i, r) for i, r in enumerate(ratios) if r is not None and abs(r - 1) > STEADY]
    if len(off) < ROWS or None in ratios:
        return ""
    shown = ", ".join(f"row {i}: {r:.3g}" for i, r in off[:3])
    look = "look at the weights exp(s - lse)" if name in GRADIENTS else "look at the row sums l"
    return f"Each row of {name} is off by a factor of its own ({shown}): {look}."
