"""Mistakes in the scores of ``flash_forward``. Floor: course."""

from flashlab.exercise import Mistake

_DOT_S = 's = sm_scale * tl.dot(q, tl.trans(k), input_precision="ieee")'

SCORES = (
    Mistake(
        "scale-missing",
        _DOT_S,
        's = tl.dot(q, tl.trans(k), input_precision="ieee")',
        "one-tile",
        "wrong",
        "The scores are not scaled: sm_scale is never used.",
    ),
    Mistake(
        "scale-twice",
        "s = sm_scale * tl.dot(",
        "s = sm_scale * sm_scale * tl.dot(",
        "one-tile",
        "wrong",
        "The scores are scaled twice.",
    ),
    Mistake(
        "scale-one-over-d",
        "D**-0.5 if sm_scale is None",
        "1 / D if sm_scale is None",
        "one-tile",
        "wrong",
        "The default scale is 1/D instead of 1/sqrt(D).",
    ),
    Mistake(
        "scale-divides",
        _DOT_S,
        's = tl.dot(q, tl.trans(k), input_precision="ieee") / sm_scale',
        "one-tile",
        "wrong",
        "The scores are divided by sm_scale, which is a factor already.",
    ),
    Mistake(
        "scale-argument-ignored",
        "D**-0.5 if sm_scale is None else float(sm_scale)",
        "D**-0.5",
        "given-scale",
        "wrong",
        "The argument sm_scale is ignored: 1/sqrt(D) is used always.",
    ),
    Mistake(
        "k-not-transposed",
        "tl.dot(q, tl.trans(k),",
        "tl.dot(q, k,",
        "one-tile",
        "compile",
        "k is not transposed: the dot needs [BLOCK_M, BLOCK_D] times [BLOCK_D, BLOCK_N].",
    ),
    Mistake(
        "scores-in-fp16",
        _DOT_S,
        's = (sm_scale * tl.dot(q, tl.trans(k), input_precision="ieee")).to(tl.float16)'
        ".to(tl.float32)",
        "one-tile",
        "precision",
        "The scores are rounded to fp16 before exp: keep everything between the dots in fp32.",
    ),
)
