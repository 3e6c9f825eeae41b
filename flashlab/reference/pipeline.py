"""Contract and reference of a schedule on one SM: generators for ``flashlab.pipeline``.

Floor: core.
"""

from collections.abc import Mapping
from typing import Any

from flashlab.pipeline import Machine, simulate
from flashlab.reference import schedules


def producer(sm, n_tiles, stages):
    """The program of the warp that loads: tiles of K and V from memory into slots.

    A generator that yields one operation of ``sm`` after another. There are ``stages`` slots for
    tiles of K, and as many for V.

    sm.wait(barrier, phase) = go on when the phase of that parity, 0 or 1, is complete;
                              of a new barrier, parity 1 counts as complete and parity 0 does not
    sm.arrive(barrier)      = one arrival; go on at once
    sm.load_k(tile, slot)   = start a TMA load of a tile of K, and go on at once
    sm.load_v(tile, slot)   = the same for V

    sm.k_full[slot],  sm.v_full[slot]  = a phase is complete when a load into the slot is there
    sm.k_empty[slot], sm.v_empty[slot] = a phase is complete when every consumer has arrived

    Args:
        sm: the SM, with the operations and barriers above.
        n_tiles: tiles of keys; 0 or more.
        stages: slots; 1 or more; may exceed n_tiles.

    Returns:
        program: the generator.

    Source: mbarriers and TMA as in NVIDIA's PTX ISA; producer and consumers as in Shah et al.
        2024 (FlashAttention-3), section 3.1 and Algorithm 1.
    """
    yield from schedules.producer(sm, n_tiles, stages)


def consumer(sm, w, n_tiles, stages):
    """The program of a warpgroup that computes the attention of its own 64 query rows.

    A generator like ``producer``. Every tile needs Q K, its softmax and P V, and before its P V,
    unless it is the first, a rescale of the accumulator by what its softmax found. The registers
    hold the scores of one tile and P of one tile; softmax may write P while an earlier P V runs.

    sm.qk(tile, slot)   = start the product of Q with a tile of K in a slot; go on at once
    sm.pv(tile, slot)   = start the product of P with a tile of V in a slot; go on at once
    sm.wait_products(n) = go on when at most n of this warpgroup's products still run;
                          they run in the order in which they were started
    sm.softmax(tile)    = scores to P; go on when that is done
    sm.rescale(tile)    = multiply the accumulator; go on when that is done
    sm.turn[w]          = a barrier for each warpgroup; one arrival completes a phase
    sm.consumers        = how many warpgroups there are

    Args:
        sm: the SM, with the operations and barriers above and those of the producer.
        w: number of this warpgroup, from 0.
        n_tiles: tiles of keys; 0 or more.
        stages: slots, as for the producer.

    Returns:
        program: the generator. Speed is graded: the P V of a tile should run under the softmax of
            the next one, and warpgroups take turns, 0 first, in starting their products.

    Source: Shah et al. 2024 (FlashAttention-3), sections 3.1 and 3.2, Algorithm 2.
    """
    yield from schedules.overlapped_in_turns(sm, w, n_tiles, stages)


def pipeline_schedule(
    machine: Mapping[str, Any], n_tiles: int, stages: int, limit: int | None = None
) -> dict[str, list[int]]:
    """The tiles that every warpgroup's output holds, by the reference's own programs.

    Args:
        machine: the fields of ``flashlab.pipeline.Machine``.
        n_tiles, stages: as above.
        limit: clocks that a run may take; not looked at.
    """
    timeline = simulate(producer, consumer, Machine(**machine), n_tiles=n_tiles, stages=stages)
    return {f"tiles of warpgroup {w}": list(tiles) for w, tiles in enumerate(timeline.tiles)}
