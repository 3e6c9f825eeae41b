"""Schedules of attention on a Hopper SM as chapters and tables compare them.

Generators for ``flashlab.pipeline``, with the arguments of ``pipeline.producer`` and
``pipeline.consumer``, whose answers are ``producer`` and ``overlapped_in_turns``. Floor: core.
"""

from collections.abc import Generator

from flashlab.pipeline.sm import SM, Op

Program = Generator[Op, None, None]


def ring(tile: int, stages: int) -> tuple[int, int]:
    """Slot of a tile, and the parity of the phase in which that tile fills it."""
    return tile % stages, tile // stages & 1


def producer(sm: SM, n_tiles: int, stages: int) -> Program:
    """Loads tiles of K and V in turn, each as soon as its slot is free."""
    for tile in range(n_tiles):
        slot, phase = ring(tile, stages)
        yield sm.wait(sm.k_empty[slot], phase ^ 1)
        yield sm.load_k(tile, slot)
        yield sm.wait(sm.v_empty[slot], phase ^ 1)
        yield sm.load_v(tile, slot)


def one_after_the_other(sm: SM, w: int, n_tiles: int, stages: int) -> Program:
    """Score, softmax, product with V, tile by tile; nothing of one warpgroup overlaps."""
    yield from in_turns(sm, w, n_tiles, stages, turns=False)


def in_turns(sm: SM, w: int, n_tiles: int, stages: int, turns: bool = True) -> Program:
    """As ``one_after_the_other``; P V of a tile and Q K of the next form one turn (ping-pong)."""
    for tile in range(n_tiles + 1):
        slot, phase = ring(tile, stages)
        last, before = ring(tile - 1, stages)
        if turns:
            yield sm.wait(sm.turn[w], (tile & 1) ^ (w == 0))
        if tile:
            yield sm.wait(sm.v_full[last], before)
            yield sm.pv(tile - 1, last)
        if tile < n_tiles:
            yield sm.wait(sm.k_full[slot], phase)
            yield sm.qk(tile, slot)
        yield sm.wait_products(0)
        if turns:
            yield sm.arrive(sm.turn[(w + 1) % sm.consumers])
        if tile:
            yield sm.arrive(sm.v_empty[last])
        if tile < n_tiles:
            yield sm.arrive(sm.k_empty[slot])
            yield sm.softmax(tile)
            yield sm.rescale(tile)


def overlapped(sm: SM, w: int, n_tiles: int, stages: int, turns: bool = False) -> Program:
    """P V of a tile runs under the softmax of the next (FlashAttention-3, Algorithm 2)."""
    for tile in range(n_tiles + 1):
        slot, phase = ring(tile, stages)
        last, before = ring(tile - 1, stages)
        if turns:
            yield sm.wait(sm.turn[w], (tile & 1) ^ (w == 0))
        if tile < n_tiles:
            yield sm.wait(sm.k_full[slot], phase)
            yield sm.qk(tile, slot)
        if tile:
            yield sm.wait(sm.v_full[last], before)
            yield sm.pv(tile - 1, last)
        if tile < n_tiles:
            yield sm.wait_products(1 if tile else 0)
        if turns:
            yield sm.arrive(sm.turn[(w + 1) % sm.consumers])
        if tile < n_tiles:
            yield sm.arrive(sm.k_empty[slot])
            yield sm.softmax(tile)
        yield sm.wait_products(0)
        if tile:
            yield sm.arrive(sm.v_empty[last])
        if tile < n_tiles:
            yield sm.rescale(tile)


def overlapped_in_turns(sm: SM, w: int, n_tiles: int, stages: int) -> Program:
    """``overlapped`` with ping-pong: FlashAttention-3 as published."""
    yield from overlapped(sm, w, n_tiles, stages, turns=True)


def without_producer(sm: SM, w: int, n_tiles: int, stages: int) -> Program:
    """``overlapped`` without a producer: all meet after a tile, then warpgroup 0 loads."""
    if w == 0:
        for tile in range(min(stages, n_tiles)):
            yield sm.load_k(tile, tile)
            yield sm.load_v(tile, tile)
    for tile in range(n_tiles + 1):
        slot, phase = ring(tile, stages)
        last, before = ring(tile - 1, stages)
        if tile < n_tiles:
            yield sm.wait(sm.k_full[slot], phase)
            yield sm.qk(tile, slot)
        if tile:
            yield sm.wait(sm.v_full[last], before)
            yield sm.pv(tile - 1, last)
        if tile < n_tiles:
            yield sm.wait_products(1 if tile else 0)
            yield sm.softmax(tile)
        yield sm.wait_products(0)
        if tile < n_tiles:
            yield sm.rescale(tile)
        yield sm.arrive(sm.together)
        yield sm.wait(sm.together, tile & 1)
        if w == 0 and tile + stages < n_tiles:
            yield sm.load_k(tile + stages, slot)
        if w == 0 and 0 <= tile - 1 < n_tiles - stages:
            yield sm.load_v(tile - 1 + stages, last)
