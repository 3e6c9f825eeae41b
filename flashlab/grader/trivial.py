"""How far answers that need no thought miss the limits of every case. Floor: course."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from flashlab import numerics
from flashlab.exercise import Exercise
from flashlab.grader import trials
from flashlab.reference.fp8 import per_row


def trivial_answers(exercise: Exercise) -> Iterator[tuple[str, str, float]]:
    """(case, answer, error over limit) of each case that must reject trivial answers."""
    if exercise.kind == "python":
        return
    for case in exercise.cases:
        if case.trivial:
            continue
        name = exercise.returns(case)[0].name
        for pair in case.pairs:
            trial = trials.trial(exercise, case, exercise.tiles(pair))
            expected, limit = trial.reference[name], trial.limits[name].limit
            for answer, value in trivial(trial.arguments, expected).items():
                error = numerics.max_error(value, expected)
                yield case.name, answer, error / limit if limit else float(error > 0) * 1e9


def trivial(arguments: Mapping[str, Any], first: torch.Tensor) -> dict[str, torch.Tensor]:
    """Answers for the first output: zeros, and for attention the mean of V and V[0]."""
    answers = {"zeros": torch.zeros_like(first)}
    v = arguments.get("v")
    if "v8" in arguments:  # FP8: what the numbers stand for
        v8, scale = arguments["v8"], arguments["v_scale"]
        v = v8.double() * per_row(scale.double(), arguments["block_rows"], v8.shape[2])
    if isinstance(v, torch.Tensor) and v.dim() == first.dim() == 4 and v.shape[2]:
        groups = first.shape[1] // v.shape[1]
        v = v.double().repeat_interleave(groups, 1)
        answers["mean of V"] = v.mean(2, keepdim=True).expand(first.shape)
        answers["V[0]"] = v[:, :, :1].expand(first.shape)
    return answers
