"""The learner's own attention matrix: with a one-hot V, o is P. Floor: course."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from flashlab.error_budget import as_fp64
from flashlab.exercise import Case, Exercise
from flashlab.grader.bank import Raw, Run
from flashlab.grader.wording import numbers
from flashlab.reference.honest import honest_attention

SIDES = (16, 24)  # queries and keys of the two calls: one tile of keys, then more than one
OFF = 0.02  # a weight or a row sum off by more is wrong


def ask(
    exercise: Exercise, runs: Sequence[Run], run_text: Callable[..., Raw], text: str
) -> tuple[list[list[float]], list[str]]:
    """The matrix P [query, key] that the learner's text makes, and what is wrong with it.

    Nothing where the exercise is not attention, the run fails, or P is right.
    """
    failing = next((r for r in runs if r.failed and _is_attention(r)), None)
    if failing is None:
        return [], []
    for side in SIDES:
        made = _call(exercise, failing, side)
        if made is None:
            return [], []
        case, inputs, expected = made
        raw = run_text(text, case, failing.tiles, inputs=inputs)
        if raw.status != "ran" or "o" not in raw.outputs:
            return [], []
        p = as_fp64(raw.outputs["o"])[0, 0, :, :side]
        sentences = describe(p, expected)
        if sentences:
            return p.tolist(), sentences
    return [], []


def describe(p: Tensor, expected: Tensor) -> list[str]:
    """One or two sentences on an attention matrix; none if it is right.

    Args:
        p: [N_q, N_k]; what came.
        expected: [N_q, N_k]; the right matrix, whose zeros are masked keys.
    """
    if torch.isnan(p).any():
        rows = torch.nonzero(torch.isnan(p).any(1)).flatten().tolist()
        return [f"Rows {numbers(rows)} of your attention matrix hold NaN."]
    wrong = (p - expected).abs() > OFF
    if not wrong.any():
        return []
    found = _sums(p, expected)
    leak = torch.nonzero((expected == 0) & (p.abs() > OFF))
    unseen = torch.nonzero((p.abs() < 1e-6).all(0) & (expected > OFF).any(0)).flatten().tolist()
    if len(leak):
        i, j = leak[0].tolist()
        found.append(f"Query {i} gives weight {p[i, j]:.2f} to key {j}, which it must not see.")
    elif unseen:
        word = "key" if len(unseen) == 1 else "keys"
        found.append(f"No query gives any weight to {word} {numbers(unseen)}.")
    if not found:
        i, j = torch.nonzero(wrong)[0].tolist()
        found.append(
            f"Query {i} gives key {j} the weight {p[i, j]:.3f}; it should be {expected[i, j]:.3f}."
        )
    return found


def _sums(p: Tensor, expected: Tensor) -> list[str]:
    sums, right = p.sum(1), expected.sum(1)
    rows = torch.nonzero((sums - right).abs() > OFF).flatten()
    if not len(rows):
        return []
    low, high = float(sums[rows].min()), float(sums[rows].max())
    span = f"{low:.2f}" if high - low < 0.005 else f"{low:.2f} to {high:.2f}"
    word = "Row" if len(rows) == 1 else "Rows"
    verb = "sums" if len(rows) == 1 else "sum"
    return [f"{word} {numbers(rows.tolist())} of your attention matrix {verb} to {span}, not 1."]


def _is_attention(run: Run) -> bool:
    names = set("qkv")
    return names <= set(run.inputs) and run.inputs["q"].dim() == 4 and "o" in run.reference


def _least_head_dim(exercise: Exercise, run: Run) -> int:
    """The smallest D of the exercise's cases: some take none below 64."""
    return min(case.sizes(run.tiles).get("D", 16) for case in exercise.cases)


def _call(exercise: Exercise, run: Run, side: int) -> tuple[Case, dict[str, Any], Tensor] | None:
    """A case of one head whose V is one-hot, its inputs, and its right attention matrix."""
    D = max(16 if side <= 16 else 32, _least_head_dim(exercise, run))
    sizes = {"B": 1, "H": 1, "N_q": side, "N_k": side, "D": D}
    if "H_kv" in run.result.sizes:
        sizes["H_kv"] = 1
    if run.result.sizes.get("causal"):
        sizes["causal"] = True
    case = replace(run.case, name="one-hot-v", sizes=lambda tiles: sizes, dtype="float16")
    generator = torch.Generator().manual_seed(case.seed)
    try:
        inputs = dict(exercise.make_inputs(sizes, torch.float16, generator))
    except (KeyError, TypeError, ValueError):
        return None
    inputs["v"] = torch.eye(side, sizes["D"], dtype=torch.float16)[None, None]
    exact = {n: inputs[n].double() for n in "qkv"}
    plain = {n: inputs[n] for n in ("causal", "sm_scale") if n in inputs}
    expected = honest_attention(**exact, **plain)[0]["o"][0, 0, :, :side]
    return case, inputs, expected
