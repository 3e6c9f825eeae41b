"""Mistakes of the merge: step 3. Floor: course."""

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

MERGE = (
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
        "all-overflows",
        _WEIGHT + _SUM + _LSE,
        "    old, new = lse.exp(), lse_part.exp()\n"
        "    o.copy_((old[..., None] * o + new[..., None] * o_part) / (old + new)[..., None])\n"
        "    lse.copy_(torch.log(old + new))\n",
        "large-scores",
        "nan",
        "exp of an lse overflows: only differences of two lse may go into exp, for the weights "
        "(sigmoid) and for the new lse (logaddexp).",
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
)
