"""One case in this very process, so that breakpoint() and print work. Nothing protects it here."""

from collections.abc import Mapping
from typing import Any

from flashlab import iocount, numerics
from flashlab.exercise import Exercise
from flashlab.grader import trials
from flashlab.grader.worker import called
from flashlab.loading import load_module


def debug(
    exercise: Exercise,
    text: str,
    filename: str,
    case: str | None = None,
    tiles: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Run one case as the grader would, and compare.

    Args:
        exercise: What ``text`` answers.
        text, filename: The answer, and how tracebacks call its file.
        case: Name of a case; None is the first one.
        tiles: Tile sizes; None are the first ones of the case.

    Returns:
        ``{"inputs", "outputs", "reference", "findings", "tally"}``; outputs by name where the
        answer returned as many tensors as the contract says, else what it returned.

    Raises:
        KeyError: unknown case; and whatever the answer raises.
    """
    chosen = exercise.case(case) if case else exercise.cases[0]
    trial = trials.trial(exercise, chosen, tiles or exercise.tiles(chosen.pairs[0]))
    module = load_module(text, filename)
    if exercise.tiles_as == "constants":
        for name, size in trial.tiles.items():
            setattr(module, name, size)
    arguments = trial.arguments | {n: trials.padded(t) for n, t in trial.sent.items()}
    with iocount.count_io() as tally:
        function = called(module, exercise.called(chosen), exercise.harness)
        returned = function(**arguments)
    items = returned if isinstance(returned, tuple) else (returned,)
    names = [output.name for output in exercise.returns(chosen)]
    outputs = dict(zip(names, items, strict=False)) if len(items) == len(names) else {}
    findings = []
    if outputs and exercise.kind != "python":
        findings = numerics.compare(outputs, trial.reference, trial.limits, trial.tiles)
    return {
        "inputs": arguments,
        "outputs": outputs or returned,
        "reference": trial.reference,
        "findings": findings,
        "tally": tally,
    }
