"""Mistakes in the output and the log-sum-exp of ``flash_forward``. Floor: course."""

from flashlab.exercise import Mistake

_RESCALE = "acc *= (alpha * l_i)[:, None]  # undo the last division, at the new maximum"
_DIVIDE = "acc *= (1.0 / l_safe)[:, None]"
_DOT_O = 'acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")'
_LSE = "lse = m_i + tl.log(tl.where(l_i == 0.0, 1.0, l_i))"
_STORE_LSE = "tl.store(lse_ptrs, lse, mask=mask_m)"

OUTPUT = (
    Mistake(
        "output-not-rescaled",
        _RESCALE,
        "acc *= l_i[:, None]",
        "two-tiles",
        "wrong",
        "acc is not rescaled by alpha when the maximum rises: early keys weigh too much.",
    ),
    Mistake(
        "division-not-undone",
        _RESCALE,
        "acc *= alpha[:, None]",
        "two-tiles",
        "wrong",
        "acc was divided by l_i after the last tile: undo that before p @ v is added.",
    ),
    Mistake(
        "rescaled-after-adding",
        f"{_RESCALE}\n        {_DOT_O}",
        f"{_DOT_O}\n        acc *= (alpha * l_i)[:, None]",
        "one-tile",
        "wrong",
        "acc is rescaled after p @ v is added: the new tile shrinks too.",
    ),
    Mistake(
        "output-overwritten",
        _DOT_O,
        'acc = tl.dot(p.to(v.dtype), v, input_precision="ieee")',
        "two-tiles",
        "wrong",
        "acc is overwritten by p @ v: only the last tile is left.",
    ),
    Mistake(
        "never-divided",
        f"        {_DIVIDE}  # one division a row, not one an element\n",
        "",
        "one-tile",
        "wrong",
        "acc is never divided by l.",
    ),
    Mistake(
        "divided-by-the-old-sum",
        _DIVIDE,
        "acc *= (1.0 / tl.where(l_i == 0.0, 1.0, l_i))[:, None]",
        "one-tile",
        "wrong",
        "acc is divided by the old sum l_i, not by l_new.",
    ),
    Mistake(
        "p-not-cast",
        "tl.dot(p.to(v.dtype), v,",
        "tl.dot(p, v,",
        "one-tile",
        "compile",
        "p is float32 and v is not: cast p to v.dtype before the dot.",
    ),
    Mistake(
        "fp16-inside",
        "tl.dot(p.to(v.dtype), v,",
        "tl.dot(p.to(tl.float16), v.to(tl.float16),",
        "fp32",
        "wrong",
        "p or acc passes through fp16 though the inputs are float32: cast p to v.dtype and keep "
        "acc in fp32 until the store.",
    ),
    Mistake(
        "lse-without-maximum",
        _LSE,
        "lse = tl.log(tl.where(l_i == 0.0, 1.0, l_i))",
        "one-tile",
        "wrong",
        "lse is log l alone: the maximum m is missing.",
    ),
    Mistake(
        "lse-without-log",
        _LSE,
        "lse = m_i + l_i",
        "one-tile",
        "wrong",
        "lse is m + l: the logarithm is missing.",
    ),
    Mistake(
        "lse-base-2",
        _LSE,
        "lse = m_i + tl.log2(tl.where(l_i == 0.0, 1.0, l_i))",
        "one-tile",
        "wrong",
        "lse uses log2: it has to be in nats, a natural logarithm.",
    ),
    Mistake(
        "lse-is-maximum",
        _LSE,
        "lse = m_i",
        "one-tile",
        "wrong",
        "lse is the maximum m alone: log l is missing.",
    ),
    Mistake(
        "lse-not-stored",
        f"    {_STORE_LSE}",
        "    pass",
        "one-tile",
        "uninitialised",
        "lse is computed but never stored.",
    ),
    Mistake(
        "outputs-swapped",
        "    return o, lse\n",
        "    return lse, o\n",
        "one-tile",
        "contract",
        "The outputs are returned in the wrong order: (o, lse) is expected.",
    ),
    Mistake(
        "lse-not-returned",
        "    return o, lse\n",
        "    return o\n",
        "one-tile",
        "contract",
        "Only o is returned: (o, lse) is expected.",
    ),
)
