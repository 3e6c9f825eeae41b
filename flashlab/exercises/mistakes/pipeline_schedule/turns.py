"""Mistakes of warpgroups that take turns. Floor: course.

Of two that go wrong alike, the one with a line of its own stands before the one that lacks a line:
so the text tells them apart.
"""

from flashlab.exercise import Mistake

_TURN = "        yield sm.wait(sm.turn[w], tile & 1 ^ (w == 0))  #"
_SCORES = "            yield sm.wait_products(1 if tile > 0 else 0)  # P V may still run\n"
_PASS_TURN = "        yield sm.arrive(sm.turn[(w + 1) % sm.consumers])\n"
_LATE_TURN = "    " + _PASS_TURN
_BUT_LAST = "        if tile < n_tiles:\n"
_K_BACK = "            yield sm.arrive(sm.k_empty[slot])\n"
_SOFTMAX = "            yield sm.softmax(tile)  # while the tensor cores multiply with V\n"

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
        "two-have-the-first-turn",
        _TURN,
        "        yield sm.wait(sm.turn[w], tile & 1 ^ (w != 1))  #",
        "three-in-turn",
        "timeout",
        "All but warpgroup 1 have the first turn, so of three two work side by side: only the "
        "first wait of warpgroup 0 may pass at once.",
    ),
    Mistake(
        "next-of-two",
        _PASS_TURN,
        "        yield sm.arrive(sm.turn[1 - w])\n",
        "one-warpgroup",
        "oob",
        "There are taken to be two warpgroups: the next one is (w + 1) % sm.consumers.",
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
