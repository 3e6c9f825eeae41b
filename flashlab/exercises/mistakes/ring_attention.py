"""What learners write instead of ``solutions/ring_attention.py``. Floor: course."""

from flashlab.exercise import Mistake

_WEIGHT = (
    "    weight = torch.sigmoid(lse_part - lse)[..., None]  "
    "# exp(lse_part) / (exp(lse) + exp(lse_part))\n"
)
_SUM = (
    "    o.copy_((1 - weight) * o + weight * o_part)  "
    "# in fp32, as the weight is; rounded here alone\n"
)
_LSE = "    lse.copy_(torch.logaddexp(lse, lse_part))\n"
_SEND = "    send = dist.P2POp(dist.isend, block, group=group, group_peer=(rank + 1) % world)\n"
_RECEIVE = (
    "    receive = dist.P2POp(dist.irecv, arriving, group=group, group_peer=(rank - 1) % world)\n"
)
_IN_FORWARD = (
    "            rows, keys = visible((rank - step) % world, rank, n, causal, zigzag)\n"
    "            k_part, v_part"
)
_IN_BACKWARD = (
    "            rows, keys = visible((rank - step) % world, rank, n, causal, zigzag)\n"
    "            mine ="
)
_ROUNDS_FORWARD = "        for step in range(1, world):\n            # 4."
_ROUNDS_BACKWARD = "        for step in range(1, world):\n            # 5."
_SEND_ON = "            gradients = pass_on(dkv.to(q.dtype) if home else dkv, group)\n"
_NEXT_FORWARD = (
    "            if step + 1 < world:\n"
    "                travelling = pass_on(kv, group)  # while I compute with it\n"
)
_ATTEND = "part = attend(q[:, :, rows], k_part, v_part, causal=False, sm_scale=sm_scale)"

_RING = (
    Mistake(
        "wrong-way",
        _SEND + _RECEIVE,
        _SEND.replace("rank + 1", "rank - 1") + _RECEIVE.replace("rank - 1", "rank + 1"),
        "four-ranks-causal",
        "wrong",
        "Blocks are sent to the left neighbour and taken from the right one, so in round t the "
        "block here is that of rank + t, not of rank - t.",
    ),
    Mistake(
        "both-right",
        _RECEIVE,
        _RECEIVE.replace("rank - 1", "rank + 1"),
        "four-ranks",
        "timeout",
        "A rank sends to its right neighbour and waits for a message from the same neighbour, "
        "which sends its own to the next: receive from rank - 1.",
    ),
    Mistake(
        "no-wrap",
        _SEND,
        _SEND.replace("(rank + 1) % world", "rank + 1"),
        "two-ranks",
        "crash",
        "The last rank sends to rank world, which does not exist: its neighbour is rank 0.",
    ),
    Mistake(
        "rank-of-the-world",
        _SEND + _RECEIVE,
        (_SEND + _RECEIVE).replace("group_peer", "peer"),
        "part-of-a-world",
        "crash",
        "peer counts ranks of the whole world, group_peer those of the group: where the group is "
        "a part of the world they differ.",
    ),
    Mistake(
        "nobody-waits",
        "    for request in requests:\n        request.wait()\n",
        "",
        "two-ranks",
        "race",
        "Nobody waits for the requests, so a block is used before it has arrived.",
    ),
    Mistake(
        "one-round-short",
        _ROUNDS_FORWARD,
        _ROUNDS_FORWARD.replace("world)", "world - 1)"),
        "two-ranks",
        "race",
        "The forward loop ends one round early: the block of the right neighbour, which comes "
        "last, is never seen.",
    ),
    Mistake(
        "block-not-taken",
        "            kv = arrived(travelling)\n" + _NEXT_FORWARD,
        "            arrived(travelling)\n" + _NEXT_FORWARD,
        "two-ranks",
        "wrong",
        "kv stays my own block: what arrived is waited for, but not used.",
    ),
    Mistake(
        "passed-on-once-more",
        _NEXT_FORWARD,
        "            travelling = pass_on(kv, group)\n",
        "two-ranks",
        "race",
        "The last round passes its block on too, and nobody waits for that message.",
    ),
    Mistake(
        "next-from-the-start",
        _NEXT_FORWARD,
        _NEXT_FORWARD.replace("pass_on(kv,", "pass_on(torch.stack((k, v)),"),
        "four-ranks",
        "wrong",
        "Every round sends my own block again, so the right neighbour sees it world - 1 times and "
        "the others never.",
    ),
)

_VISIBLE = (
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
        "owner-from-the-right-backward",
        _IN_BACKWARD,
        _IN_BACKWARD.replace("rank - step)", "rank + step)"),
        "four-ranks-causal",
        "wrong",
        "In the backward pass the owner is taken as rank + t, but blocks come from the left: it "
        "is rank - t.",
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
        "mask-by-local-index-backward",
        "*mine, causal=False",
        "*mine, causal=causal",
        "two-ranks-causal",
        "wrong",
        "In the backward pass the causal mask is applied to another rank's block by local row "
        "numbers.",
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
)

_MERGE = (
    Mistake(
        "parts-averaged",
        _WEIGHT,
        "    weight = torch.full_like(lse, 0.5)[..., None]\n",
        "two-ranks",
        "wrong",
        "Parts are averaged as if their keys weighed the same: weigh them by their lse.",
    ),
    Mistake(
        "weights-swapped",
        _WEIGHT,
        "    weight = torch.sigmoid(lse - lse_part)[..., None]\n",
        "two-ranks",
        "wrong",
        "The two weights are exchanged: the new part gets that of the old one.",
    ),
    Mistake(
        "weights-overflow",
        _WEIGHT,
        "    weight = (lse_part.exp() / (lse.exp() + lse_part.exp()))[..., None]\n",
        "large-scores",
        "nan",
        "exp of an lse overflows: only differences of two lse may go into exp.",
    ),
    Mistake(
        "parts-added",
        _SUM,
        "    o.add_(o_part)\n",
        "two-ranks",
        "wrong",
        "Parts are added without weights: each is normalised over its own keys alone.",
    ),
    Mistake(
        "o-rebound",
        _SUM,
        "    o = (1 - weight) * o + weight * o_part\n",
        "two-ranks",
        "wrong",
        "merge makes a new o and lets go of it: it has to be changed in place.",
    ),
    Mistake(
        "lse-rebound",
        _LSE,
        "    lse = torch.logaddexp(lse, lse_part)\n",
        "two-ranks",
        "wrong",
        "merge makes a new lse and lets go of it: it has to be changed in place.",
    ),
    Mistake(
        "lse-first",
        _WEIGHT + _SUM + _LSE,
        _LSE + _WEIGHT + _SUM,
        "two-ranks",
        "wrong",
        "lse is updated before the weights are made from the old one.",
    ),
    Mistake(
        "lse-added",
        _LSE,
        "    lse.add_(lse_part)\n",
        "two-ranks",
        "wrong",
        "The two lse are added: their exponentials add, so it is logaddexp.",
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

_BACKWARD = (
    Mistake(
        "no-last-turn",
        _SEND_ON,
        "            if not home:\n    " + _SEND_ON,
        "two-ranks",
        "timeout",
        "The last turn is missing: in the last round too dkv has to be passed on, since the next "
        "rank is then its owner.",
    ),
    Mistake(
        "gradients-stay",
        "dkv = arrived(gradients)  # of this",
        "arrived(gradients)  # of this",
        "two-ranks",
        "wrong",
        "dkv stays with the rank: what arrives, the sum of the ranks before, is not used, so "
        "gradients of different blocks are added.",
    ),
    Mistake(
        "gradients-replaced",
        "dkv[:, :, :, keys] += torch.stack(dkv_part)",
        "dkv[:, :, :, keys] = torch.stack(dkv_part)",
        "two-ranks",
        "wrong",
        "The sum of the ranks before me is replaced by my share of dk and dv: add to it.",
    ),
    Mistake(
        "dq-replaced",
        "dq[:, :, rows] += dq_part",
        "dq[:, :, rows] = dq_part",
        "two-ranks",
        "wrong",
        "dq of this round replaces that of the rounds before: shares add.",
    ),
    Mistake(
        "dk-is-dv",
        "torch.stack(dkv_part)",
        "torch.stack(dkv_part[::-1])",
        "two-ranks",
        "wrong",
        "The shares of dk and dv are exchanged where they are added.",
    ),
    Mistake(
        "backward-one-round-short",
        _ROUNDS_BACKWARD,
        _ROUNDS_BACKWARD.replace("world)", "world - 1)"),
        "two-ranks",
        "race",
        "The backward loop ends one round early: the last block gets no gradient from me, and dk "
        "and dv end with the wrong rank.",
    ),
)

MISTAKES = _RING + _VISIBLE + _MERGE + _BACKWARD
