"""Cases and hints of ``pipeline_schedule``: programs for the model of an SM. Floor: course."""

import dataclasses
import functools
from typing import Any

import torch

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes
from flashlab.exercises.mistakes.pipeline_schedule import MISTAKES
from flashlab.pipeline import Machine, hopper, simulate
from flashlab.reference import pipeline

SLACK = 1.05  # of the reference's clocks, where speed is graded


def make_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict[str, Any]:
    """The fields of the machine, tiles, slots, and the clocks allowed; nothing is drawn."""
    sizes = dict(sizes)
    n_tiles, stages, timed = (sizes.pop(name) for name in ("n_tiles", "stages", "timed"))
    loads = sizes.pop("slow_loads")
    late = sizes.pop("late")
    machine = hopper.machine(**sizes)
    whole = {f.name: getattr(machine, f.name) for f in dataclasses.fields(Machine)}
    times = ("load", "qk", "pv", "exp", "before", "after", "rescale")
    whole |= {name: round(whole[name]) for name in times}
    whole |= {"load": whole["load"] * loads, "late": tuple(late)}
    limit = _limit(Machine(**whole), n_tiles, stages) if timed else None
    return {"machine": whole, "n_tiles": n_tiles, "stages": stages, "limit": limit}


@functools.cache
def _limit(machine: Machine, n_tiles: int, stages: int) -> int:
    best = simulate(pipeline.producer, pipeline.consumer, machine, n_tiles=n_tiles, stages=stages)
    return round(SLACK * best.cycles)


def honest(inputs: Inputs) -> list:
    """No honest answer is off: the comparison is exact."""
    return []


def _sizes(n_tiles: int, stages: int = 2, *, timed: bool = False, **changes: Any) -> Sizes:
    """Two warpgroups, D 128 and blocks of 128 keys, but for what is said."""
    sizes = {
        "n_tiles": n_tiles,
        "stages": stages,
        "consumers": 2,
        "D": 128,
        "block_n": 128,
        "arbitration": "one at a time",
        "slow_loads": 1,
        "late": (),
        "timed": timed,
    }
    return sizes | changes


CASES = (
    Case("one-tile", "core", lambda t: _sizes(1, 1), "One tile, one slot: nothing comes round."),
    Case(
        "one-round",
        "core",
        lambda t: _sizes(2, 2),
        "As many tiles as slots: every slot is filled once.",
    ),
    Case(
        "second-round",
        "core",
        lambda t: _sizes(3, 2),
        "Three tiles, two slots: the third tile must wait until slot 0 is empty.",
    ),
    Case(
        "many-rounds",
        "core",
        lambda t: _sizes(9, 3),
        "Nine tiles, three slots: phases go 0, 1, 0.",
    ),
    Case(
        "one-slot",
        "core",
        lambda t: _sizes(5, 1),
        "A single slot: loads and products must take strict turns.",
    ),
    Case("no-tiles", "ragged", lambda t: _sizes(0, 2), "No keys at all: both programs just end."),
    Case(
        "more-slots-than-tiles",
        "ragged",
        lambda t: _sizes(2, 4),
        "Two tiles, four slots: two slots are never used.",
    ),
    Case(
        "one-warpgroup",
        "ragged",
        lambda t: _sizes(4, 2, consumers=1),
        "A single warpgroup: its turn comes after its own.",
    ),
    Case(
        "three-warpgroups",
        "ragged",
        lambda t: _sizes(4, 2, consumers=3, D=64),
        "Three warpgroups, as kernels have them at D 64.",
    ),
    Case(
        "slow-loads",
        "hostile",
        lambda t: _sizes(6, 2, slow_loads=8),
        "Memory is eight times slower: consumers come to every barrier too early.",
    ),
    Case(
        "late-warpgroup",
        "hostile",
        lambda t: _sizes(6, 2, late=(0, 9000)),
        "Warpgroup 1 starts late: the slots stay full much longer than expected.",
    ),
    Case(
        "late-first-warpgroup",
        "hostile",
        lambda t: _sizes(6, 3, late=(9000, 0)),
        "Warpgroup 0, which has the first turn, starts late.",
    ),
    Case(
        "overlap",
        "hostile",
        lambda t: _sizes(24, 2, timed=True),
        "Speed: the product with V must run under the next tile's softmax.",
    ),
    Case(
        "ping-pong",
        "hostile",
        lambda t: _sizes(24, 2, timed=True, arbitration="interleaved"),
        "Speed where tensor cores work on products of both warpgroups side by side: without "
        "turns, both compute their softmax at the same time.",
    ),
    Case(
        "three-in-turn",
        "hostile",
        lambda t: _sizes(12, 2, timed=True, consumers=3, D=64, arbitration="interleaved"),
        "Speed of three warpgroups: one has the first turn, and the others wait for it.",
    ),
)

EXERCISE = Exercise(
    slug="pipeline_schedule",
    chapter="08",
    title="Producer, consumers and ping-pong on one SM",
    kind="python",
    reference="flashlab.reference.pipeline:pipeline_schedule",
    outputs=(Output("tiles"),),
    make_inputs=make_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "Follow one slot. The producer fills it, every consumer reads it and gives it back, the "
        "producer fills it again: full, empty, full, empty. Tile t is its filling number "
        "t // stages, and a barrier's phases are numbered alike, but you only see their parity.",
        "A new barrier is in phase 0. A wait for parity 0 blocks until that phase is complete; a "
        "wait for parity 1 passes at once, as if a phase before it were complete. So a consumer "
        "waits at full for the parity of the round, and the producer, whose first round needs no "
        "wait, waits at empty for the other parity.",
        "Per round a consumer starts Q K of tile t and then P V of tile t - 1. wait_products(1) "
        "comes back when only the second still runs: the scores are there. Pass the turn, give K "
        "back, take the softmax; P V runs underneath. Only after wait_products(0) may V go "
        "back.",
        "Turns: yield sm.wait(sm.turn[w], tile & 1 ^ (w == 0)) at the top, "
        "yield sm.arrive(sm.turn[(w + 1) % sm.consumers]) once the scores are there, in every "
        "round, also in the last one, which has no Q K.",
    ),
    steps=(
        "Slots are filled in a ring, round after round",
        "Load K and V, each as soon as its slot is empty",
        "Wait for this warpgroup's turn",
        "Start both products of the round",
        "When the scores are there, let the next warpgroup begin; when P V is, V goes back",
    ),
    minutes=50,
    functions=("producer", "consumer"),
    harness="flashlab.pipeline.graded:run",
)
