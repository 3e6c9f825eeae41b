"""Mistakes in the weights and the running state of ``flash2_forward``. Floor: course."""

from flashlab.exercise import Mistake

_SCALE = "scale_log2 = scale * LOG2E  # the factor"
_M_NEW = "m_new = tl.maximum(m_log2, scale_log2 * tl.max(s, 1))"
_M_SAFE = 'm_safe = tl.where(m_new == float("-inf"), 0.0, m_new)'
_ALPHA = "alpha = tl.exp2(m_log2 - m_safe)"
_P = "p = tl.exp2(scale_log2 * s - m_safe[:, None])"
_L = "l_i = alpha * l_i + tl.sum(p, 1)"
_ACC = 'acc = tl.dot(p.to(v.dtype), v, alpha[:, None] * acc, input_precision="ieee")'

WEIGHTS = (
    Mistake(
        "exp2-without-log2e",
        _SCALE,
        "scale_log2 = scale  # the factor",
        "one-tile",
        "wrong",
        "exp2 is used for exp without a factor of log2(e): the softmax is too flat.",
    ),
    Mistake(
        "exp-of-base-2",
        f"        {_ALPHA}\n        {_P}",
        "        alpha = tl.exp(m_log2 - m_safe)\n"
        "        p = tl.exp(scale_log2 * s - m_safe[:, None])",
        "one-tile",
        "wrong",
        "exp is taken of scores in base 2, which hold the factor log2(e) already: use exp2.",
    ),
    Mistake(
        "alpha-by-exp",
        _ALPHA,
        "alpha = tl.exp(m_log2 - m_safe)",
        "two-tiles",
        "wrong",
        "alpha is taken by exp, but the maxima are in base 2: earlier tiles shrink too much.",
    ),
    Mistake(
        "scale-missing",
        _SCALE,
        "scale_log2 = 1.0 * LOG2E  # the factor",
        "one-tile",
        "wrong",
        "The scores are not scaled: the factor scale is never used.",
    ),
    Mistake(
        "scale-twice",
        _SCALE,
        "scale_log2 = scale * scale * LOG2E  # the factor",
        "one-tile",
        "wrong",
        "The scores are scaled twice.",
    ),
    Mistake(
        "log2e-divides",
        _SCALE,
        "scale_log2 = scale / LOG2E  # the factor",
        "one-tile",
        "wrong",
        "The scale is divided by log2(e): multiply, since exp(x) is exp2(x * log2(e)).",
    ),
    Mistake(
        "maximum-scaled-twice",
        _P,
        "p = tl.exp2(scale_log2 * (s - m_safe[:, None]))",
        "one-tile",
        "wrong",
        "The maximum is scaled twice: m_new is in base 2 already, s is not.",
    ),
    Mistake(
        "maximum-not-scaled",
        _M_NEW,
        "m_new = tl.maximum(m_log2, tl.max(s, 1))",
        "large-scores",
        "wrong",
        "The maximum is taken of s, not of the scaled scores: it lies far above them, and the "
        "weights underflow.",
    ),
    Mistake(
        "no-maximum",
        _M_NEW,
        "m_new = tl.zeros([BLOCK_M], tl.float32)",
        "large-scores",
        "nan",
        "No maximum is subtracted: exp2 overflows for scores beyond 127 in base 2.",
    ),
    Mistake(
        "tile-maximum",
        _M_NEW,
        "m_new = scale_log2 * tl.max(s, 1)",
        "falling-scores",
        "nan",
        "m_new is the maximum of this tile alone, not the running one.",
    ),
    Mistake(
        "maximum-over-queries",
        "tl.max(s, 1)",
        "tl.max(s, 0)",
        "one-tile",
        "compile",
        "The maximum is taken over axis 0, the queries, instead of axis 1, the keys.",
    ),
    Mistake(
        "weights-at-the-old-maximum",
        _P,
        "p = tl.exp2(scale_log2 * s - m_log2[:, None])",
        "one-tile",
        "nan",
        "p subtracts the old maximum m_log2, not m_new.",
    ),
    Mistake(
        "alpha-inverted",
        _ALPHA,
        "alpha = tl.exp2(m_safe - m_log2)",
        "one-tile",
        "nan",
        "alpha is upside down: exp2(m_new - m_log2) grows what should shrink.",
    ),
    Mistake(
        "empty-row-maximum-unguarded",
        _M_SAFE,
        "m_safe = m_new",
        "causal-many-queries",
        "nan",
        "A row that has seen no key computes -inf - -inf, which is NaN: subtract 0 there.",
    ),
    Mistake(
        "sum-not-rescaled",
        _L,
        "l_i = l_i + tl.sum(p, 1)",
        "two-tiles",
        "wrong",
        "The sum l of earlier tiles is not rescaled by alpha.",
    ),
    Mistake(
        "sum-overwritten",
        _L,
        "l_i = tl.sum(p, 1)",
        "two-tiles",
        "wrong",
        "The sum l of earlier tiles is thrown away: l_i is that of the last tile alone.",
    ),
    Mistake(
        "sum-over-queries",
        _L,
        "l_i = alpha * l_i + tl.sum(p, 0)",
        "one-tile",
        "compile",
        "p is summed over axis 0, the queries, instead of axis 1, the keys.",
    ),
    Mistake(
        "output-not-rescaled",
        _ACC,
        'acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")',
        "two-tiles",
        "wrong",
        "acc is not rescaled by alpha when the maximum rises: early keys weigh too much.",
    ),
    Mistake(
        "rescaled-after-adding",
        _ACC,
        'acc = alpha[:, None] * tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")',
        "one-tile",
        "wrong",
        "acc is rescaled after p @ v is added: the new tile shrinks too.",
    ),
    Mistake(
        "output-overwritten",
        _ACC,
        'acc = tl.dot(p.to(v.dtype), v, input_precision="ieee")',
        "two-tiles",
        "wrong",
        "acc is overwritten by p @ v: only the last tile is left.",
    ),
    Mistake(
        "divided-in-the-loop",
        f"        {_ACC}\n",
        f"        {_ACC}\n        acc = acc / tl.where(l_i == 0.0, 1.0, l_i)[:, None]\n",
        "one-tile",
        "wrong",
        "acc is divided by l in the loop and once more after it: divide at the end alone.",
    ),
    Mistake(
        "division-not-undone",
        f"        {_ACC}\n",
        "        l_old = (l_i - tl.sum(p, 1))  # alpha times the sum before\n"
        "        acc = tl.where(l_old > 0.0, l_old, 0.0)[:, None] * acc\n"
        '        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")\n',
        "two-tiles",
        "wrong",
        "acc is multiplied by the old sum l as in chapter 04, but it was never divided by it.",
    ),
    Mistake(
        "weights-divided-by-the-sum",
        _ACC,
        "acc = tl.dot((p / tl.where(l_i == 0.0, 1.0, l_i)[:, None]).to(v.dtype), v, "
        'alpha[:, None] * acc, input_precision="ieee")',
        "one-tile",
        "wrong",
        "p is divided by l before p @ v, and acc once more at the end: divide at the end alone.",
    ),
    Mistake(
        "maximum-not-kept",
        "        m_log2 = m_new\n",
        "",
        "one-tile",
        "wrong",
        "m_log2 is never updated: every tile is treated as the first one.",
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
)
