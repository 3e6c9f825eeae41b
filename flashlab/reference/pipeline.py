"""Contract and reference of a schedule on one SM: generators for ``flashlab.pipeline``.

Floor: core.
"""

from collections.abc import Mapping
from typing import Any

from flashlab.pipeline import Machine, simulate


def producer(sm, n_tiles, stages):
    """The program of the warp that loads: tiles of K and V from memory into slots.

    A generator that yields one operation of ``sm`` after another: ``yield sm.wait(...)``. There
    are ``stages`` slots for tiles of K, and as many for V; they are used in a ring.

    Args:
        sm: the SM. Barriers: ``sm.k_full[slot]``, ``sm.k_empty[slot]``, ``sm.v_full[slot]`` and
            ``sm.v_empty[slot]``. Operations: ``sm.wait(barrier, phase)`` goes on when the phase
            of that parity (0 or 1) is complete; of a new barrier, parity 1 counts as complete
            and parity 0 does not. ``sm.arrive(barrier)`` goes on at once. ``sm.load_k(tile,
            slot)`` and ``sm.load_v(tile, slot)`` start a TMA load, go on at once, and arrive at
            the slot's ``full`` barrier when the tile is there. An ``empty`` barrier completes a
            phase when every consumer has arrived.
        n_tiles: tiles of keys; 0 or more.
        stages: slots; 1 or more; may exceed n_tiles.

    Returns:
        program: the generator.
    """
    for tile in range(n_tiles):
        for empty, load in ((sm.k_empty, sm.load_k), (sm.v_empty, sm.load_v)):
            yield sm.wait(empty[tile % stages], tile // stages % 2 ^ 1)
            yield load(tile, tile % stages)


def consumer(sm, w, n_tiles, stages):
    """The program of a warpgroup that computes the attention of its own 64 query rows.

    A generator like ``producer``. Every tile needs Q K, softmax, P V, and before its P V, unless
    it is the first, a rescale of the accumulator by what its softmax found.

    Args:
        sm: the SM, with ``sm.consumers`` warpgroups. Besides the above: ``sm.turn[w]``, a barrier
            for each warpgroup that one arrival completes. ``sm.qk(tile, slot)`` and ``sm.pv(tile,
            slot)`` start a product on the tensor cores that reads a slot, and go on at once;
            products of a warpgroup run in order. ``sm.wait_products(n)`` goes on when at most n
            of them still run. ``sm.softmax(tile)`` turns the scores into P, and
            ``sm.rescale(tile)`` multiplies the accumulator; both go on when they are done.
            The registers hold the scores of one tile and P of one tile; softmax may write P
            while an earlier P V still runs.
        w: number of this warpgroup, from 0.
        n_tiles: tiles of keys; 0 or more.
        stages: slots, as for the producer.

    Returns:
        program: the generator. Speed is graded: the P V of a tile should run under the softmax of
            the next one, and warpgroups take turns, 0 first, in starting their products.
    """
    for tile in range(-1, n_tiles):
        new = tile + 1
        yield sm.wait(sm.turn[w], (new + (w == 0)) % 2)
        if new < n_tiles:
            yield sm.wait(sm.k_full[new % stages], new // stages % 2)
            yield sm.qk(new, new % stages)
        if tile >= 0:
            yield sm.wait(sm.v_full[tile % stages], tile // stages % 2)
            yield sm.pv(tile, tile % stages)
        if new < n_tiles:
            yield sm.wait_products(min(new, 1))
        yield sm.arrive(sm.turn[(w + 1) % sm.consumers])
        if new < n_tiles:
            yield sm.arrive(sm.k_empty[new % stages])
            yield sm.softmax(new)
        yield sm.wait_products(0)
        if tile >= 0:
            yield sm.arrive(sm.v_empty[tile % stages])
        if new < n_tiles:
            yield sm.rescale(new)


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
    return {f"warpgroup {w}": list(tiles) for w, tiles in enumerate(timeline.tiles)}
