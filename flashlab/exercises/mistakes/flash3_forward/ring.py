"""Mistakes of the ring of slots: step 1 and step 2. Floor: course."""

from flashlab.exercise import Mistake

_WAIT_K = "    mbarrier.wait(k_full.index(stage), phase)\n    s = start_qk"
_DONE = "    s = warpgroup_mma_wait(0, deps=(s,))\n"
_BACK = "    mbarrier.arrive(k_empty.index(stage), count=1)\n    return s"
_EMPTY = "mbarrier.wait(empty.index(stage), phase ^ 1)"
_EXPECT = "    mbarrier.expect(full.index(stage), desc.block_type.nbytes)\n"
_LOAD = "tma_load(desc, [b, h, start, 0], full.index(stage), bufs.index(stage))"

RING = (
    Mistake(
        "phase-by-block",
        "return i % STAGES, i // STAGES & 1",
        "return i % STAGES, i & 1",
        "three-blocks",
        "uninitialised",
        "The phase changes with every block: it changes once round the ring.",
    ),
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
        "batch-and-head-exchanged",
        _LOAD,
        _LOAD.replace("b, h", "h, b"),
        "three-blocks",
        "wrong",
        "Batch and head are exchanged: TMA's coordinates follow [B, H, N, D].",
    ),
    Mistake(
        "copy-signals-empty",
        _LOAD,
        _LOAD.replace("full.index(stage)", "empty.index(stage)"),
        "one-block",
        "timeout",
        "TMA signals empty, but the readers wait at full: that is where its bytes belong.",
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
