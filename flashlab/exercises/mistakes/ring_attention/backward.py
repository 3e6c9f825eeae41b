"""Mistakes of the gradients: step 5 and their way home. Floor: course."""

from flashlab.exercise import Mistake

_SEND_ON = "            gradients = pass_on(dkv, group, -1)  # the last one goes home\n"
_NO_GRADIENT = "(torch.zeros_like(kv, dtype=dq.dtype), [])"
_ROUNDS_BACKWARD = "        for step in range(1, world):\n            # 5."

BACKWARD = (
    Mistake(
        "no-last-turn",
        _SEND_ON,
        "            if step + 1 < world:\n    " + _SEND_ON,
        "two-ranks",
        "wrong",
        "The last turn is missing: in the last round too dkv has to be passed on, since the rank "
        "before me is then its owner.",
    ),
    Mistake(
        "gradients-to-the-right",
        _SEND_ON,
        _SEND_ON.replace(", -1)", ")"),
        "four-ranks",
        "wrong",
        "Gradients are sent to the right, but their blocks go to the left: gradients of different "
        "blocks are added.",
    ),
    Mistake(
        "gradients-replaced",
        "total[:, :, keys] += part",
        "total[:, :, keys] = part",
        "four-ranks",
        "wrong",
        "The sum of the ranks after me is replaced by my share of dk and dv: add to it.",
    ),
    Mistake(
        "dq-replaced",
        "dq[:, :, rows] += dq_part",
        "dq[:, :, rows] = dq_part",
        "four-ranks",
        "wrong",
        "dq of this round replaces that of the rounds before: shares add.",
    ),
    Mistake(
        "dq-not-added",
        "            dq[:, :, rows] += dq_part\n",
        "",
        "two-ranks",
        "wrong",
        "dq gets nothing from the blocks of other ranks: add each round's dq_part.",
    ),
    Mistake(
        "dk-is-dv",
        "zip(dkv, dkv_part, strict=True)",
        "zip(dkv, dkv_part[::-1], strict=True)",
        "two-ranks",
        "wrong",
        "The shares of dk and dv are exchanged where they are added.",
    ),
    Mistake(
        "own-gradient-sent-away",
        _NO_GRADIENT,
        "(torch.stack(attend_backward(q, k, v, o, lse, do, causal=causal, sm_scale=sm_scale)[1:])"
        ".to(dq.dtype), [])",
        "two-ranks",
        "wrong",
        "The gradient of my own block sets out with the block of rank + 1 and is added to that "
        "block's: it stays at home.",
    ),
    Mistake(
        "own-gradient-not-added",
        "share += others",
        "share.copy_(others)",
        "two-ranks",
        "wrong",
        "The gradients through my own block are not added to those that come home and to dq.",
    ),
    Mistake(
        "others-not-added",
        "            share += others  # rounded here alone\n",
        "            pass\n",
        "two-ranks",
        "wrong",
        "Only the gradients through my own block are returned: what other ranks found for it, and "
        "dq through their blocks, is not added.",
    ),
    Mistake(
        "backward-one-round-short",
        _ROUNDS_BACKWARD,
        _ROUNDS_BACKWARD.replace("world)", "world - 1)"),
        "two-ranks",
        "wrong",
        "The backward loop ends one round early: the block of the left neighbour gets no "
        "gradient from me, and what other ranks found does not come home.",
    ),
)
