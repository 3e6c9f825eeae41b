"""Runs an answer's programs for the grader: what happened as plain data, or what is wrong."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from flashlab.pipeline.errors import PipelineError
from flashlab.pipeline.machine import Machine
from flashlab.pipeline.simulate import simulate


def run(
    module: ModuleType,
    *,
    machine: Mapping[str, Any],
    n_tiles: int,
    stages: int,
    limit: int | None = None,
) -> dict[str, list[int]]:
    """Simulate ``module.producer`` and ``module.consumer``.

    Args:
        module: The answer.
        machine: The fields of ``Machine``.
        n_tiles, stages: As the programs get them.
        limit: Clocks that the run may take; None: any number.

    Returns:
        For every warpgroup the tiles that its output holds, in order.

    Raises:
        PipelineError: the schedule is not safe, does not end, or takes too long.
    """
    at = Machine(**machine)
    timeline = simulate(module.producer, module.consumer, at, n_tiles=n_tiles, stages=stages)
    if limit is not None and timeline.cycles > limit:
        raise PipelineError(
            "timeout",
            f"{n_tiles} tiles may take {limit:,} clocks and take "
            f"{100 * (timeline.cycles / limit - 1):.0f} % more: the tensor cores are busy "
            f"{100 * timeline.busy('tensor'):.0f} % of the time",
        )
    for w, tiles in enumerate(timeline.tiles):
        if missing := sorted(set(range(n_tiles)) - set(tiles)):
            raise PipelineError(
                "wrong",
                f"the output of warpgroup {w} lacks the values of tile {missing[0]}: it ends "
                f"after {len(tiles)} of {n_tiles} products with V",
            )
    return {f"tiles of warpgroup {w}": list(tiles) for w, tiles in enumerate(timeline.tiles)}
