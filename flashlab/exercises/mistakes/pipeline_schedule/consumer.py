"""Mistakes of a consumer's products and of what it gives back. Floor: course.

Of two that go wrong alike, the one with a line of its own stands before the one that lacks a line:
so the text tells them apart.
"""

from flashlab.exercise import Mistake

_K_FULL = "            yield sm.wait(sm.k_full[slot], phase)\n"
_QK = "            yield sm.qk(tile, slot)\n"
_V_FULL = "            yield sm.wait(sm.v_full[last_slot], last_phase)\n"
_SCORES = "            yield sm.wait_products(1 if tile > 0 else 0)  # P V may still run\n"
_PASS_TURN = "        yield sm.arrive(sm.turn[(w + 1) % sm.consumers])\n"
_BUT_LAST = "        if tile < n_tiles:\n"
_K_BACK = "            yield sm.arrive(sm.k_empty[slot])\n"
_SOFTMAX = "            yield sm.softmax(tile)  # while the tensor cores multiply with V\n"
_ALL = "        yield sm.wait_products(0)\n"
_V_BACK = "            yield sm.arrive(sm.v_empty[last_slot])\n"
_RESCALE = "            yield sm.rescale(tile)\n"
_IF_V = "        if tile > 0:\n"
_PV = "            yield sm.pv(tile - 1, last_slot)\n"

CONSUMER = (
    Mistake(
        "full-waits-for-the-other-phase",
        _K_FULL,
        "            yield sm.wait(sm.k_full[slot], phase ^ 1)\n",
        "one-tile",
        "uninitialised",
        "The consumer waits at k_full for the other parity, which is complete before K is there.",
    ),
    Mistake(
        "no-wait-for-full-k",
        _K_FULL,
        "",
        "one-tile",
        "uninitialised",
        "Q K starts without waiting until the tile of K is there.",
    ),
    Mistake(
        "no-wait-for-full-v",
        _V_FULL,
        "",
        "one-tile",
        "uninitialised",
        "P V starts without waiting until the tile of V is there: it came by luck, if at all.",
    ),
    Mistake(
        "v-of-the-new-tile",
        _V_FULL,
        "            yield sm.wait(sm.v_full[slot], phase)\n",
        "one-tile",
        "timeout",
        "P V waits for the V of the new tile: it reads the one before it.",
    ),
    Mistake(
        "products-swapped",
        _BUT_LAST + _K_FULL + _QK + _IF_V + _V_FULL + _PV,
        _IF_V + _V_FULL + _PV + _BUT_LAST + _K_FULL + _QK,
        "one-round",
        "race",
        "P V is started before Q K: wait_products(1) then says that P V is done, not the scores.",
    ),
    Mistake(
        "arrive-before-use",
        _QK,
        "            yield sm.arrive(sm.k_empty[slot])\n" + _QK,
        "one-tile",
        "race",
        "K is given back before the product that reads it has even started.",
    ),
    Mistake(
        "k-back-before-the-product-is-done",
        _SCORES + _PASS_TURN + _BUT_LAST + _K_BACK,
        _K_BACK + _SCORES + _PASS_TURN + _BUT_LAST,
        "one-tile",
        "race",
        "K is given back right after Q K was started: it is still being read until "
        "wait_products says that it is done.",
    ),
    Mistake(
        "k-never-given-back",
        _K_BACK,
        "",
        "second-round",
        "timeout",
        "K is never given back, so the producer waits for its slot for ever.",
    ),
    Mistake(
        "v-never-given-back",
        _V_BACK,
        "            pass\n",
        "second-round",
        "timeout",
        "V is never given back, so the producer waits for its slot for ever.",
    ),
    Mistake(
        "one-warpgroup-gives-back",
        _V_BACK,
        "            if w == 0:\n                yield sm.arrive(sm.v_empty[last_slot])\n",
        "second-round",
        "timeout",
        "Only warpgroup 0 gives V back: the barrier counts an arrival of every warpgroup.",
    ),
    Mistake(
        "v-back-before-the-product-is-done",
        _ALL + "        if tile > 0:\n" + _V_BACK,
        "        if tile > 0:\n" + _V_BACK + _ALL,
        "one-tile",
        "race",
        "V is given back before wait_products(0): P V may still read it.",
    ),
    Mistake(
        "softmax-before-the-scores",
        _SCORES,
        "            pass\n",
        "one-tile",
        "race",
        "Nothing waits for Q K before its K is given back and its scores are used.",
    ),
    Mistake(
        "rescale-before-the-product-is-done",
        _SOFTMAX,
        _SOFTMAX + _RESCALE,
        "one-round",
        "race",
        "The accumulator is rescaled while P V still adds to it.",
    ),
    Mistake(
        "never-rescaled",
        _RESCALE,
        "            pass\n",
        "one-round",
        "wrong",
        "The accumulator is never rescaled: a tile with a larger maximum needs it.",
    ),
    Mistake(
        "all-products-awaited",
        _SCORES,
        "            yield sm.wait_products(0)\n",
        "overlap",
        "timeout",
        "The softmax waits for P V too: wait_products(1) lets that run underneath.",
    ),
)
