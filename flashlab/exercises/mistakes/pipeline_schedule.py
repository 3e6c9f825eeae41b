"""What learners write instead of ``solutions/pipeline_schedule.py``. Floor: course.

Of two that go wrong alike, the one with a line of its own stands before the one that lacks a line:
so the text tells them apart.
"""

from flashlab.exercise import Mistake

_SLOT = "    slot = tile % stages\n"
_PHASE = "    phase = tile // stages & 1  #"
_K_EMPTY = "        yield sm.wait(sm.k_empty[slot], phase ^ 1)  #"
_V_EMPTY = "        yield sm.wait(sm.v_empty[slot], phase ^ 1)\n"
_LOAD_K = "        yield sm.load_k(tile, slot)\n"
_LOAD_V = "        yield sm.load_v(tile, slot)\n"
_TURN = "        yield sm.wait(sm.turn[w], tile & 1 ^ (w == 0))  #"
_K_FULL = "            yield sm.wait(sm.k_full[slot], phase)\n"
_QK = "            yield sm.qk(tile, slot)\n"
_V_FULL = "            yield sm.wait(sm.v_full[last_slot], last_phase)\n"
_SCORES = "            yield sm.wait_products(1 if tile > 0 else 0)  # P V may still run\n"
_PASS_TURN = "        yield sm.arrive(sm.turn[(w + 1) % sm.consumers])\n"
_LATE_TURN = "    " + _PASS_TURN
_BUT_LAST = "        if tile < n_tiles:\n"
_K_BACK = "            yield sm.arrive(sm.k_empty[slot])\n"
_SOFTMAX = "            yield sm.softmax(tile)  # while the tensor cores multiply with V\n"
_ALL = "        yield sm.wait_products(0)\n"
_V_BACK = "            yield sm.arrive(sm.v_empty[last_slot])\n"
_RESCALE = "            yield sm.rescale(tile)\n"

PRODUCER = (
    Mistake(
        "one-slot-for-all",
        _SLOT,
        "    slot = 0\n",
        "one-round",
        "race",
        "Every tile goes into slot 0, over the one before: tiles go round the ring of slots.",
    ),
    Mistake(
        "slot-and-round-swapped",
        _SLOT + _PHASE,
        "    slot = tile // stages\n    phase = tile % stages & 1  #",
        "one-slot",
        "oob",
        "Slot and round are swapped: the remainder is the slot, the quotient counts the rounds.",
    ),
    Mistake(
        "two-slots-always",
        _SLOT + _PHASE,
        "    slot = tile % 2\n    phase = tile // 2 & 1  #",
        "one-slot",
        "oob",
        "There are taken to be two slots: there are as many as stages says.",
    ),
    Mistake(
        "phase-by-tile",
        _PHASE,
        "    phase = tile & 1  #",
        "one-round",
        "uninitialised",
        "The phase changes with every tile: it changes once round the ring.",
    ),
    Mistake(
        "phase-without-parity",
        _PHASE,
        "    phase = tile // stages  #",
        "many-rounds",
        "contract",
        "The phase is the number of the round: a barrier knows its parity only, & 1.",
    ),
    Mistake(
        "phase-always-zero",
        _PHASE,
        "    phase = 0  #",
        "second-round",
        "race",
        "The phase is 0 in every round: its parity changes once round the ring.",
    ),
    Mistake(
        "phase-starts-at-one",
        _PHASE,
        "    phase = tile // stages & 1 ^ 1  #",
        "one-tile",
        "uninitialised",
        "The first round has phase 1: a new barrier is in phase 0.",
    ),
    Mistake(
        "empty-always-parity-one",
        _K_EMPTY,
        "        yield sm.wait(sm.k_empty[slot], 1)  #",
        "second-round",
        "race",
        "The producer waits at k_empty for parity 1 in every round: that passes in the first "
        "round, and in the second before anybody has given K back.",
    ),
    Mistake(
        "no-wait-for-empty-k",
        _K_EMPTY,
        "        #",
        "second-round",
        "race",
        "The producer loads K without waiting until its slot is empty.",
    ),
    Mistake(
        "no-wait-for-empty-v",
        _V_EMPTY,
        "",
        "second-round",
        "race",
        "The producer loads V without waiting for v_empty: that K's slot is empty says nothing "
        "about V's.",
    ),
    Mistake(
        "empty-waits-for-the-phase-itself",
        _K_EMPTY,
        "        yield sm.wait(sm.k_empty[slot], phase)  #",
        "one-tile",
        "timeout",
        "The producer waits at k_empty for the parity of its own round: in the first round nobody "
        "can have given anything back, so it needs the other parity.",
    ),
    Mistake(
        "load-before-the-wait",
        _V_EMPTY + _LOAD_V,
        _LOAD_V + _V_EMPTY,
        "second-round",
        "race",
        "V is loaded before the wait for its slot, not after it.",
    ),
    Mistake(
        "v-never-loaded",
        _LOAD_V,
        "",
        "one-tile",
        "timeout",
        "V is never loaded, so the consumers wait for it for ever.",
    ),
    Mistake(
        "load-not-yielded",
        _LOAD_K,
        "        sm.load_k(tile, slot)\n",
        "one-tile",
        "contract",
        "The load of K is not yielded: an operation that is only made does nothing.",
    ),
)
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
TURNS = (
    Mistake(
        "everybody-waits-first",
        _TURN,
        "        yield sm.wait(sm.turn[w], tile & 1)  #",
        "one-tile",
        "timeout",
        "Nobody has the first turn: all wait for somebody to pass it on.",
    ),
    Mistake(
        "turns-in-reversed-order",
        _TURN,
        "        yield sm.wait(sm.turn[w], tile & 1 ^ (w != 0))  #",
        "one-warpgroup",
        "timeout",
        "The order of turns is reversed: warpgroup 0 waits for the first turn, the others do not.",
    ),
    Mistake(
        "everybody-has-the-first-turn",
        _TURN,
        "        yield sm.wait(sm.turn[w], tile & 1 ^ 1)  #",
        "one-tile",
        "timeout",
        "Every warpgroup has the first turn: only the wait of warpgroup 0 may pass at once.",
    ),
    Mistake(
        "turn-passed-to-itself",
        _PASS_TURN,
        "        yield sm.arrive(sm.turn[w])\n",
        "one-tile",
        "timeout",
        "A warpgroup passes the turn to itself, so the next one never gets it.",
    ),
    Mistake(
        "turn-never-passed",
        _PASS_TURN,
        "",
        "one-tile",
        "timeout",
        "The turn is never passed on.",
    ),
    Mistake(
        "turn-kept-in-the-last-round",
        _PASS_TURN + _BUT_LAST,
        _BUT_LAST + _LATE_TURN,
        "one-tile",
        "timeout",
        "The turn is not passed on in the last round, which has no Q K but a P V.",
    ),
    Mistake(
        "turn-passed-at-the-end",
        _PASS_TURN + _BUT_LAST + _K_BACK + _SOFTMAX,
        _BUT_LAST + _K_BACK + _SOFTMAX + _PASS_TURN,
        "overlap",
        "timeout",
        "The turn is passed on after the softmax: the tensor cores idle meanwhile.",
    ),
    Mistake(
        "turn-passed-at-once",
        _SCORES + _PASS_TURN,
        _LATE_TURN + _SCORES + "        else:\n" + _LATE_TURN,
        "ping-pong",
        "timeout",
        "The turn is passed on as soon as the products are started: the next warpgroup's then "
        "run beside them, and both wait for their scores until the end.",
    ),
    Mistake(
        "no-turns",
        _TURN,
        "        mine = sm.turn[w]  #",
        "ping-pong",
        "timeout",
        "Warpgroups do not wait for their turn, so both compute their softmax at the same time.",
    ),
)
MISTAKES = PRODUCER + CONSUMER + TURNS
