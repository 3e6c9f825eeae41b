"""Mistakes of whose block it is and what causal hides: steps 2 and 4. Floor: course."""

from flashlab.exercise import Mistake

_IN_FORWARD = (
    "            rows, keys = visible((rank - step) % world, rank, n, causal, zigzag)\n"
    "            k_part, v_part"
)
_ATTEND = "part = attend(q[:, :, rows], k_part, v_part, causal=False, sm_scale=sm_scale)"

VISIBLE = (
    Mistake(
        "owner-one-further",
        _IN_FORWARD,
        _IN_FORWARD.replace("rank - step)", "rank - step - 1)"),
        "two-ranks-causal",
        "wrong",
        "The owner is counted one round too far in the forward pass: in round t the block of "
        "rank - t is here.",
    ),
    Mistake(
        "owner-from-the-right",
        _IN_FORWARD,
        _IN_FORWARD.replace("rank - step)", "rank + step)"),
        "four-ranks-causal",
        "wrong",
        "In the forward pass the owner is taken as rank + t, but blocks come from the left: it is "
        "rank - t.",
    ),
    Mistake(
        "mask-by-local-index",
        _ATTEND,
        _ATTEND.replace("causal=False", "causal=causal"),
        "two-ranks-causal",
        "wrong",
        "The causal mask is applied to another rank's block by local row numbers: only my own "
        "block has a diagonal.",
    ),
    Mistake(
        "nothing-hidden",
        "    elif causal and owner > rank:\n        rows = slice(0, 0)",
        "    elif causal and owner > rank:\n        rows = slice(0, n)",
        "two-ranks-causal",
        "wrong",
        "A block from a later rank is not hidden: queries look into the future.",
    ),
    Mistake(
        "past-hidden",
        "elif causal and owner > rank:",
        "elif causal and owner < rank:",
        "two-ranks-causal",
        "wrong",
        "The blocks of earlier ranks are hidden and those of later ranks seen: it is the other "
        "way round.",
    ),
    Mistake(
        "zigzag-as-in-order",
        "    if causal and zigzag and owner < rank:\n"
        "        keys = slice(0, n // 2)  # its late chunk comes after all of mine\n"
        "    elif causal and zigzag:\n"
        "        rows = slice(n // 2, n)  # my early chunk comes before all of its\n"
        "    elif causal and owner > rank:",
        "    if causal and owner > rank:",
        "two-ranks-zigzag",
        "wrong",
        "Zigzag is treated as if the ranks held the sequence in order: each holds an early and a "
        "late chunk.",
    ),
    Mistake(
        "late-half-of-keys",
        "keys = slice(0, n // 2)",
        "keys = slice(n // 2, n)",
        "two-ranks-zigzag",
        "wrong",
        "Of a block from a smaller rank the late half is seen, but it comes after all of my rows: "
        "the early half is the one.",
    ),
    Mistake(
        "early-half-of-rows",
        "rows = slice(n // 2, n)",
        "rows = slice(0, n // 2)",
        "two-ranks-zigzag",
        "wrong",
        "My early chunk looks at the block of a larger rank, which comes after it: my late chunk "
        "is the one that sees it.",
    ),
    Mistake(
        "sides-of-zigzag",
        "if causal and zigzag and owner < rank:",
        "if causal and zigzag and owner > rank:",
        "two-ranks-zigzag",
        "wrong",
        "The two cases of zigzag are exchanged: half of the keys where the owner is the smaller "
        "rank, half of the rows where it is the larger one.",
    ),
    Mistake(
        "scale-of-the-default",
        _ATTEND,
        _ATTEND.replace("sm_scale=sm_scale", "sm_scale=q.shape[3] ** -0.5"),
        "grouped-heads",
        "wrong",
        "Other ranks' blocks are scored with 1/sqrt(D) instead of the sm_scale that was given.",
    ),
)
