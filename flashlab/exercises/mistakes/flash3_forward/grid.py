"""Mistakes of the grid and of what was given: step 5 and the rest. Floor: course."""

from flashlab.exercise import Mistake

_TILE = "tile = gl.num_programs(0) + ticket"
_RESET = "ticket == n_tiles - 1"
_FREE = "    mbarrier.wait(next_empty.index(0), (t & 1) ^ 1)\n"
_STORED = (
    "    next_buf.store(gl.full([1], tile, gl.int32, gl.BlockedLayout([1], [32], [1], [0])))\n"
)
_ARRIVED = "    mbarrier.arrive(next_full.index(0), count=1)\n"
_TOLD = "    mbarrier.arrive(next_full.index(0), count=1)\n    return tile"

GRID = (
    Mistake(
        "ticket-is-the-tile",
        _TILE,
        "tile = ticket + 1",
        "three-blocks",
        "race",
        "The next tile is made of the ticket alone: the first tiles, one a program, were given "
        "out by program id.",
    ),
    Mistake(
        "counter-never-reset",
        _RESET,
        "ticket == n_tiles",
        "more-tiles-than-programs",
        "race",
        "The counter is not reset by the last ticket, n_tiles - 1: the next launch skips tiles.",
        "hopper",
    ),
    Mistake(
        "next-phase-of-the-reader",
        _FREE,
        _FREE.replace("(t & 1) ^ 1", "t & 1"),
        "one-block",
        "timeout",
        "The producer waits at next_empty for the tile that it has not told yet: the phase of the "
        "tile before is (t & 1) ^ 1.",
    ),
    Mistake(
        "next-phase-constant",
        _FREE,
        _FREE.replace("(t & 1) ^ 1", "1"),
        "more-tiles-than-programs",
        "timeout",
        "The producer always waits at next_empty for parity 1: right for the first tile alone.",
    ),
    Mistake(
        "told-before-it-is-there",
        _STORED + _ARRIVED,
        _ARRIVED + _STORED,
        "one-block",
        "race",
        "The producer arrives at next_full before it has stored the tile's number.",
    ),
    Mistake(
        "next-not-waited-for",
        _FREE,
        "",
        "more-tiles-than-programs",
        "timeout",
        "The next tile's number overwrites one that a consumer has not read: wait at next_empty.",
    ),
    Mistake(
        "consumers-not-told",
        _TOLD,
        "    return tile",
        "one-block",
        "timeout",
        "Nobody arrives at next_full: the consumers never learn of the next tile.",
    ),
    Mistake(
        "lse-in-base-2",
        "lse = (m_log2 + gl.log2(l_i)) * LN2",
        "lse = m_log2 + gl.log2(l_i)",
        "one-block",
        "wrong",
        "lse is in base 2: times ln 2 it is in nats.",
    ),
    Mistake(
        "no-fence",
        "        fence_async_shared()  # TMA sees what registers stored\n",
        "",
        "one-block",
        "race",
        "TMA stores what registers wrote without fence_async_shared() between.",
    ),
    Mistake(
        "q-not-waited-for",
        "        mbarrier.wait(q_full.index(W), t & 1)\n",
        "",
        "one-block",
        "race",
        "The first product starts before q has landed: nobody waits at q_full.",
    ),
    Mistake(
        "q-phase-constant",
        "mbarrier.wait(q_full.index(W), t & 1)",
        "mbarrier.wait(q_full.index(W), 0)",
        "more-tiles-than-programs",
        "race",
        "At q_full a consumer always waits for phase 0: right for a program's first tile alone.",
    ),
    Mistake(
        "keys-of-the-first-batch",
        "load_block(k_desc, k_ring, i, b, h // group, start, STAGES)",
        "load_block(k_desc, k_ring, i, 0, h // group, start, STAGES)",
        "ragged-queries",
        "wrong",
        "The keys of the first batch serve all: their first coordinate is b.",
    ),
    Mistake(
        "values-of-the-query-head",
        "load_block(v_desc, v_ring, i, b, h // group, start, STAGES)",
        "load_block(v_desc, v_ring, i, b, h, start, STAGES)",
        "grouped-heads",
        "wrong",
        "v is loaded from head h: it has only as many heads as k, so h // group.",
    ),
    Mistake(
        "key-head-by-remainder",
        "load_block(k_desc, k_ring, i, b, h // group, start, STAGES)",
        "load_block(k_desc, k_ring, i, b, h % group, start, STAGES)",
        "three-blocks",
        "wrong",
        "The key head is the remainder h % group: neighbours share one, h // group.",
    ),
    Mistake(
        "mask-off-by-one",
        "[None, :] < sees[:, None]",
        "[None, :] < sees[:, None] - 1",
        "ragged-keys",
        "wrong",
        "A query does not see its last key.",
    ),
    Mistake(
        "too-many-slots",
        "(3, 3, 160, 128) if many else (2, 2, 240, 168)",
        "(3, 3, 160, 128) if many else (2, 3, 240, 168)",
        "one-block",
        "compile",
        "Three slots of K and V do not fit beside q and o at D 128: 227 KB is all a block gets.",
    ),
)
