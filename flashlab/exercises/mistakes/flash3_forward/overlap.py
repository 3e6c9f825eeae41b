"""Mistakes of products under way: step 4. Floor: course."""

from flashlab.exercise import Mistake

_NEXT_K = "    mbarrier.wait(k_full.index(next_stage), next_phase)\n"
_RESCALE = "    acc = times(acc, alpha)\n    mbarrier.wait(v_full.index(stage), phase)\n"
_PV = "    acc = start_pv(p, v_bufs.index(stage), acc, D)\n    mbarrier.wait(k_full"
_BOTH = "    s, acc = warpgroup_mma_wait(0, deps=(s, acc))  # once for both: no gap between them\n"
_V_BACK = "    mbarrier.arrive(v_empty.index(stage), count=1)\n    return s, m_log2"
_K_BACK = "    mbarrier.arrive(k_empty.index(next_stage), count=1)\n"

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
        "v-awaited-in-the-next-slot",
        _RESCALE + _PV,
        (_RESCALE + _PV).replace("index(stage), phase", "index(next_stage), next_phase"),
        "three-blocks",
        "race",
        "P V waits for the next block's V: that this one came before it is no promise of TMA's.",
    ),
    Mistake(
        "next-k-by-the-old-phase",
        _NEXT_K,
        _NEXT_K.replace("next_phase", "phase"),
        "three-blocks",
        "race",
        "K of the next block is awaited with this block's phase: with two slots it changes every "
        "second block, at next_phase.",
    ),
    Mistake(
        "rescaled-under-way",
        _RESCALE + _PV,
        _RESCALE.split("\n", 1)[1]
        + _PV.replace("\n", "\n    acc = times(acc, alpha)\n", 1),
        "three-blocks",
        "race",
        "acc is rescaled after P V was started: until warpgroup_mma_wait returns it, it is a "
        "product under way.",
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
        "k-counted-twice",
        _K_BACK,
        _K_BACK.replace("count=1", "count=2"),
        "seven-blocks",
        "timeout",
        "A consumer arrives twice at k_empty, for the other one too: each arrives for itself.",
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
