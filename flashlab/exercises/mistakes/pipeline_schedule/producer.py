"""Mistakes of the ring of slots and of the producer. Floor: course.

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
_REST = " parity 1 of a new barrier is complete\n"

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
        "phase-by-a-bit",
        _PHASE,
        "    phase = (tile & stages) // stages  #",
        "many-rounds",
        "wrong",
        "The phase is a bit of the tile's number: that is the round's parity only where stages is "
        "a power of two.",
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
        "v-first",
        _K_EMPTY + _REST + _LOAD_K + _V_EMPTY + _LOAD_V,
        _V_EMPTY + _LOAD_V + _K_EMPTY + "\n" + _LOAD_K,
        "one-slot",
        "timeout",
        "V is loaded before K: its slot is empty only when P V of the tile before is done, which "
        "comes behind the next K.",
    ),
    Mistake(
        "both-slots-first",
        _LOAD_K + _V_EMPTY,
        _V_EMPTY + _LOAD_K,
        "one-slot",
        "timeout",
        "K waits for V's slot too: each is loaded as soon as its own slot is empty.",
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
