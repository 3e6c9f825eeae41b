"""Mistakes of blocks in the backward pass: step 5, what forward keeps. Floor: course."""

from flashlab.exercise import Mistake

_KEEP = "ctx.save_for_backward(q, k, v, o, lse, kv)"
_NEXT_BACKWARD = (
    "            if step + 1 < world:\n                travelling = pass_on(kv, group, -1)\n"
)
_IN_BACKWARD = (
    "            rows, keys = visible((rank + step) % world, rank, n, causal, zigzag)\n"
    "            mine ="
)

KEPT = (
    Mistake(
        "own-block-kept",
        _KEEP,
        _KEEP.replace("lse, kv)", "lse, torch.stack((k, v)))"),
        "two-ranks",
        "wrong",
        "My own block is kept for the backward pass: round 1 there needs the last one that "
        "arrived, of rank + 1.",
    ),
    Mistake(
        "kept-block-passed-on-first",
        "            kv = arrived(travelling)\n" + _NEXT_BACKWARD,
        "            kv = arrived(pass_on(arrived(travelling), group, -1))\n"
        "            travelling = kv, []\n",
        "two-ranks",
        "wrong",
        "In the backward pass the kept block is sent on before anything is computed with it, so "
        "round 1 sees the block of rank + 2.",
    ),
    Mistake(
        "blocks-to-the-right-backward",
        _NEXT_BACKWARD,
        _NEXT_BACKWARD.replace(", -1)", ")"),
        "four-ranks",
        "wrong",
        "In the backward pass blocks are sent to the right, as in the forward pass: each of them "
        "comes back to where it was last seen, and others never come.",
    ),
    Mistake(
        "kept-block-again",
        "            kv = arrived(travelling)\n" + _NEXT_BACKWARD,
        "            arrived(travelling)\n" + _NEXT_BACKWARD,
        "four-ranks",
        "wrong",
        "In the backward pass every round computes with the kept block: what arrived is waited "
        "for, but not used.",
    ),
    Mistake(
        "passed-on-once-more-backward",
        _NEXT_BACKWARD,
        "            travelling = pass_on(kv, group, -1)\n",
        "two-ranks",
        "race",
        "The last round of the backward pass passes its block on too, and nobody waits for that "
        "message.",
    ),
    Mistake(
        "owner-from-the-left-backward",
        _IN_BACKWARD,
        _IN_BACKWARD.replace("rank + step)", "rank - step)"),
        "four-ranks-causal",
        "wrong",
        "In the backward pass the owner is taken as rank - t, but there blocks come from the "
        "right: it is rank + t.",
    ),
    Mistake(
        "owner-one-further-backward",
        _IN_BACKWARD,
        _IN_BACKWARD.replace("rank + step)", "rank + step + 1)"),
        "two-ranks-causal",
        "wrong",
        "The owner is counted one round too far in the backward pass: the block that forward kept "
        "is that of rank + 1, and it is round 1's.",
    ),
    Mistake(
        "mask-by-local-index-backward",
        "*mine, causal=False",
        "*mine, causal=causal",
        "two-ranks-causal",
        "wrong",
        "In the backward pass the causal mask is applied to another rank's block by local row "
        "numbers.",
    ),
)
