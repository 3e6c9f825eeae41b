"""What learners write instead of ``solutions/flash3_forward.py``. Floor: course."""

from flashlab.exercise import Mistake

_WAIT_K = "    mbarrier.wait(k_full.index(stage), phase)\n    s = start_qk"
_DONE = "    s = warpgroup_mma_wait(0, deps=(s,))\n"
_BACK = "    mbarrier.arrive(k_empty.index(stage), count=1)\n    return s"
_EMPTY = "mbarrier.wait(empty.index(stage), phase ^ 1)"
_EXPECT = "    mbarrier.expect(full.index(stage), desc.block_type.nbytes)\n"
_LOAD = "tma_load(desc, [b, h, start, 0], full.index(stage), bufs.index(stage))"
_ROW = "    row += W * ROWS\n"
_MINE = "mine = gl.maximum(row + ROWS - 1 + reach, 0) // BLOCK_N + 1"
_RESCALE = "    acc = times(acc, alpha)\n    mbarrier.wait(v_full.index(stage), phase)\n"
_PV = "    acc = start_pv(p, v_bufs.index(stage), acc, D)\n    mbarrier.wait(k_full"
_BOTH = "    s, acc = warpgroup_mma_wait(0, deps=(s, acc))  # once for both: no gap between them\n"
_V_BACK = "    mbarrier.arrive(v_empty.index(stage), count=1)\n    return s, m_log2"
_K_BACK = "    mbarrier.arrive(k_empty.index(next_stage), count=1)\n"
_TILE = "tile = gl.num_programs(0) + ticket"
_RESET = "ticket == n_tiles - 1"
_FREE = "    mbarrier.wait(next_empty.index(0), (t & 1) ^ 1)\n"
_TOLD = "    mbarrier.arrive(next_full.index(0), count=1)\n    return tile"

RING = (
    Mistake(
        "k-not-waited-for",
        _WAIT_K,
        "    s = start_qk",
        "one-block",
        "race",
        "q k^T starts before K has landed: nobody waits at k_full.",
    ),
    Mistake(
        "k-other-phase",
        _WAIT_K,
        _WAIT_K.replace("phase)", "phase ^ 1)"),
        "one-block",
        "race",
        "At k_full the reader waits for phase ^ 1, which passes at once in the first round: wait "
        "for phase.",
    ),
    Mistake(
        "k-phase-constant",
        _WAIT_K,
        _WAIT_K.replace("phase)", "0)"),
        "more-tiles-than-programs",
        "race",
        "At k_full the reader always waits for phase 0: right in the first round of a slot alone.",
    ),
    Mistake(
        "scores-not-waited-for",
        _DONE,
        "",
        "one-block",
        "race",
        "s is used before its product is done: warpgroup_mma_wait is missing in step 1.",
    ),
    Mistake(
        "k-never-handed-back",
        _BACK,
        "    return s",
        "three-blocks",
        "timeout",
        "The first block's slot of K is never handed back: the producer waits for ever.",
    ),
    Mistake(
        "k-handed-back-early",
        _DONE + _BACK,
        "    mbarrier.arrive(k_empty.index(stage), count=1)\n" + _DONE + "    return s",
        "three-blocks",
        "race",
        "K's slot is handed back while q k^T still reads it: wait for the product first.",
    ),
    Mistake(
        "empty-not-waited-for",
        _EMPTY,
        "pass",
        "three-blocks",
        "race",
        "The producer fills a slot without waiting until it is empty.",
    ),
    Mistake(
        "empty-phase-of-the-reader",
        _EMPTY,
        "mbarrier.wait(empty.index(stage), phase)",
        "one-block",
        "timeout",
        "The producer waits at empty for phase, which nobody ends before it has filled the slot: "
        "wait for phase ^ 1.",
    ),
    Mistake(
        "no-bytes-expected",
        _EXPECT,
        "",
        "one-block",
        "timeout",
        "mbarrier.expect is missing: TMA's bytes come, but the phase needs an arrival too.",
    ),
    Mistake(
        "half-the-bytes",
        _EXPECT,
        _EXPECT.replace("nbytes)", "nbytes // 2)"),
        "one-block",
        "timeout",
        "full expects fewer bytes than TMA brings: expect desc.block_type.nbytes.",
    ),
    Mistake(
        "bytes-by-elements",
        _EXPECT,
        _EXPECT.replace("desc.block_type.nbytes", "2 * desc.block_type.nbytes"),
        "one-block",
        "timeout",
        "full expects more bytes than TMA brings: it waits for the rest for ever.",
    ),
    Mistake(
        "always-block-zero",
        _LOAD,
        _LOAD.replace("start", "0"),
        "three-blocks",
        "wrong",
        "Every block is loaded from row 0: the coordinate is start.",
    ),
    Mistake(
        "coordinate-in-blocks",
        _LOAD,
        _LOAD.replace("start", "start // BLOCK_N"),
        "three-blocks",
        "wrong",
        "TMA's coordinate counts rows, not blocks.",
    ),
    Mistake(
        "one-slot-used",
        _LOAD,
        _LOAD.replace("bufs.index(stage)", "bufs.index(0)"),
        "three-blocks",
        "race",
        "Every block is copied to slot 0, whatever the barrier's slot.",
    ),
)

CONSUMERS = (
    Mistake(
        "same-rows-for-all",
        _ROW,
        "",
        "one-block",
        "uninitialised",
        "Both consumers store the same rows: the second one's are W * 64 further down.",
    ),
    Mistake(
        "rows-by-sixteen",
        _ROW,
        "    row += W * 16\n",
        "one-block",
        "uninitialised",
        "A consumer's rows start W * 16 further down, inside those of the one before: 64 each.",
    ),
    Mistake(
        "one-block-too-few",
        _MINE,
        _MINE.replace(" + 1", ""),
        "causal-square",
        "timeout",
        "The block of the diagonal itself is handed back too: + 1 is missing.",
    ),
    Mistake(
        "reach-forgotten",
        _MINE,
        _MINE.replace(" + reach", ""),
        "causal-few-queries",
        "wrong",
        "The number of blocks that a warpgroup sees leaves out reach: right for N_q = N_k alone.",
    ),
    Mistake(
        "skipped-not-handed-back",
        "            mbarrier.arrive(v_empty.index(stage), count=1)\n            i += 1\n",
        "            i += 1\n",
        "causal-three-consumers",
        "timeout",
        "A skipped block of V is not handed back: the producer waits for this consumer for ever.",
    ),
    Mistake(
        "skipped-not-counted",
        "            i += 1\n        n_blocks",
        "        n_blocks",
        "causal-three-consumers",
        "race",
        "Skipped blocks are not counted in i: this consumer looks into the wrong slots.",
    ),
    Mistake(
        "blocks-not-reduced",
        "        n_blocks = gl.minimum(n_blocks, mine)\n",
        "",
        "causal-three-consumers",
        "timeout",
        "n_blocks still counts the blocks that were handed back.",
    ),
)

OVERLAP = (
    Mistake(
        "acc-not-rescaled",
        _RESCALE + _PV,
        _RESCALE.split("\n", 1)[1] + _PV,
        "seven-blocks",
        "wrong",
        "acc is not multiplied by alpha in step 4: early blocks weigh too much.",
    ),
    Mistake(
        "v-not-waited-for",
        _RESCALE + _PV,
        _RESCALE.split("\n", 1)[0] + "\n" + _PV,
        "three-blocks",
        "race",
        "P V starts before V has landed: nobody waits at v_full.",
    ),
    Mistake(
        "v-of-the-next-block",
        _PV,
        _PV.replace("v_bufs.index(stage)", "v_bufs.index(next_stage)"),
        "three-blocks",
        "race",
        "p is multiplied with the next block's V: v lies in slot stage, only k in next_stage.",
    ),
    Mistake(
        "acc-overwritten",
        _PV,
        _PV.replace("acc, D)", "times(acc, 0.0 * alpha), D)"),
        "three-blocks",
        "wrong",
        "acc starts from zero at every block: only the last two blocks count.",
    ),
    Mistake(
        "waits-for-one-product",
        _BOTH,
        _BOTH.replace("wait(0,", "wait(1,"),
        "three-blocks",
        "race",
        "Only P V is waited for: warpgroup_mma_wait(1) leaves the newest product, s, under way.",
    ),
    Mistake(
        "v-handed-back-early",
        _BOTH + _K_BACK + _V_BACK,
        "    mbarrier.arrive(v_empty.index(stage), count=1)\n"
        + _BOTH + _K_BACK + "    return s, m_log2",
        "seven-blocks",
        "race",
        "V's slot is handed back while P V still reads it.",
    ),
    Mistake(
        "v-never-handed-back",
        _V_BACK,
        "    return s, m_log2",
        "seven-blocks",
        "timeout",
        "V's slot is not handed back in step 4: the producer waits for ever.",
    ),
    Mistake(
        "k-back-by-the-old-slot",
        _K_BACK,
        _K_BACK.replace("next_stage", "stage"),
        "three-blocks",
        "timeout",
        "K of the next block lies in next_stage; its slot is handed back as stage.",
    ),
    Mistake(
        "weights-at-the-old-maximum",
        "p = gl.exp2(s * scale - m_new[:, None])",
        "p = gl.exp2(s * scale - m_log2[:, None])",
        "one-block",
        "nan",
        "p subtracts the old maximum m_log2, not m_new.",
    ),
)  # fmt: skip

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

MISTAKES = (*RING, *CONSUMERS, *OVERLAP, *GRID)
