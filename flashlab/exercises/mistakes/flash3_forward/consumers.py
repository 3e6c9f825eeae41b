"""Mistakes of what each consumer owns and sees: step 3. Floor: course."""

from flashlab.exercise import Mistake

_ROW = "    row += W * ROWS\n"
_MINE = "mine = gl.maximum(row + ROWS - 1 + reach, 0) // BLOCK_N + 1"

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
        "timeout",
        "Skipped blocks are not counted in i: this consumer looks into the wrong slots.",
    ),
    Mistake(
        "reduced-beyond-the-keys",
        "n_blocks = gl.minimum(n_blocks, mine)",
        "n_blocks = mine",
        "causal-three-consumers",
        "timeout",
        "n_blocks becomes what my rows would see: below the last query there are fewer blocks.",
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
