"""Mistakes of messages and of the forward rounds: steps 1 and 4. Floor: course."""

from flashlab.exercise import Mistake

_SEND = "    send = dist.P2POp(dist.isend, block, group=group, group_peer=(rank + way) % world)\n"
_RECEIVE = (
    "    receive = dist.P2POp("
    "dist.irecv, arriving, group=group, group_peer=(rank - way) % world)\n"
)
_ROUNDS_FORWARD = "        for step in range(1, world):\n            # 4."
_NEXT_FORWARD = (
    "            if step + 1 < world:\n"
    "                travelling = pass_on(kv, group)  # while I compute with it\n"
)

ROUNDS = (
    Mistake(
        "wrong-way",
        _SEND + _RECEIVE,
        _SEND.replace("rank + way", "rank - way") + _RECEIVE.replace("rank - way", "rank + way"),
        "four-ranks-causal",
        "wrong",
        "Blocks are sent to rank - way and taken from rank + way, so in round t of the forward "
        "pass the block here is that of rank + t, not of rank - t.",
    ),
    Mistake(
        "way-ignored",
        _SEND + _RECEIVE,
        (_SEND + _RECEIVE).replace("+ way", "+ 1").replace("- way", "- 1"),
        "four-ranks",
        "wrong",
        "In the backward pass everything still goes to the right: blocks and gradients go to the "
        "left there, so pass_on gets way -1 and has to use it.",
    ),
    Mistake(
        "both-right",
        _RECEIVE,
        _RECEIVE.replace("rank - way", "rank + way"),
        "four-ranks",
        "timeout",
        "A rank sends to a neighbour and waits for a message from the same neighbour, which sends "
        "its own to the next: receive from rank - way.",
    ),
    Mistake(
        "no-wrap",
        _SEND,
        _SEND.replace("(rank + way) % world", "rank + way"),
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
