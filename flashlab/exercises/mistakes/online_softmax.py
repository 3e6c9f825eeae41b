"""What learners write instead of ``solutions/online_softmax.py``. Floor: course."""

from flashlab.exercise import Mistake

_MAX = "m_new = tl.maximum(m_i, tl.max(x, 1))"
_SAFE = 'm_safe = tl.where(m_new == float("-inf"), 0.0, m_new)'
_ALPHA = "alpha = tl.exp(m_i - m_safe)"
_SUM = "l_i = alpha * l_i + tl.sum(tl.exp(x - m_safe[:, None]), 1)"
_LOAD_1 = 'x = tl.load(x_ptrs, mask=mask, other=float("-inf")).to(tl.float32)  # first read'
_LOAD_2 = 'x = tl.load(x_ptrs, mask=mask, other=float("-inf")).to(tl.float32)  # second read'
_LSE = "lse = m_i + tl.log(tl.where(l_i == 0.0, 1.0, l_i))"
_STORE_LSE = "tl.store(lse_ptr + offs_m, lse, mask=mask_m)"
_P = 'p = tl.exp(x - tl.where(lse == float("-inf"), 0.0, lse)[:, None])'
_STORE_P = "tl.store(p_ptrs, p, mask=mask)"

_LOADS = (
    Mistake(
        "loaded-without-other",
        _LOAD_1,
        "x = tl.load(x_ptrs, mask=mask).to(tl.float32)",
        "ragged-columns",
        "uninitialised",
        "x is loaded with a mask but without other=: the lanes that are off hold garbage.",
    ),
    Mistake(
        "padded-with-zero",
        _LOAD_1,
        "x = tl.load(x_ptrs, mask=mask, other=0.0).to(tl.float32)",
        "ragged-columns",
        "wrong",
        "Lanes beyond the row are loaded as 0 and take part in the softmax: load -inf.",
    ),
    Mistake(
        "padded-with-a-large-number",
        _LOAD_1,
        "x = tl.load(x_ptrs, mask=mask, other=-10000.0).to(tl.float32)",
        "very-negative",
        "wrong",
        "Lanes beyond the row get a large negative number instead of -inf: scores can be lower.",
    ),
    Mistake(
        "first-read-unmasked",
        _LOAD_1,
        "x = tl.load(x_ptrs).to(tl.float32)",
        "ragged-columns",
        "oob",
        "The first pass loads x without a mask: the last tile reads past the end of the row.",
    ),
    Mistake(
        "second-read-unmasked",
        _LOAD_2,
        "x = tl.load(x_ptrs).to(tl.float32)",
        "ragged-columns",
        "oob",
        "The second pass loads x without a mask: the last tile reads past the end of the row.",
    ),
)

_STATE = (
    Mistake(
        "maximum-starts-at-zero",
        'm_i = tl.full([BLOCK_M], float("-inf"), tl.float32)',
        "m_i = tl.zeros([BLOCK_M], tl.float32)",
        "ragged-columns",
        "wrong",
        "The running maximum starts at 0: a row of negative scores never gets its own, and its "
        "sum underflows.",
    ),
    Mistake(
        "no-maximum",
        _MAX,
        "m_new = tl.zeros([BLOCK_M], tl.float32)",
        "large-scores",
        "wrong",
        "No maximum is subtracted: exp overflows for scores beyond 88.",
    ),
    Mistake(
        "tile-maximum",
        _MAX,
        "m_new = tl.max(x, 1)",
        "falling-scores",
        "wrong",
        "m_new is the maximum of this tile alone, not the running one.",
    ),
    Mistake(
        "maximum-of-the-tile",
        _MAX,
        "m_new = tl.maximum(m_i, tl.max(x))",
        "rows-apart",
        "wrong",
        "One maximum is taken for the whole tile: rows far below it underflow to 0.",
    ),
    Mistake(
        "maximum-over-rows",
        _MAX,
        "m_new = tl.maximum(m_i, tl.max(x, 0))",
        "two-tiles",
        "compile",
        "The maximum is taken over axis 0, the rows, instead of axis 1, the columns.",
    ),
    Mistake(
        "hidden-row-maximum-unguarded",
        _SAFE,
        "m_safe = m_new",
        "hidden-start",
        "nan",
        "A row that has seen only -inf computes -inf - -inf, which is NaN: subtract 0 there.",
    ),
)

_UPDATE = (
    Mistake(
        "sum-not-rescaled",
        _SUM,
        "l_i = l_i + tl.sum(tl.exp(x - m_safe[:, None]), 1)",
        "two-tiles",
        "wrong",
        "The sum of earlier tiles is not rescaled when the maximum grows: alpha is missing, or "
        "always 1.",
    ),
    Mistake(
        "sum-overwritten",
        _SUM,
        "l_i = tl.sum(tl.exp(x - m_safe[:, None]), 1)",
        "two-tiles",
        "wrong",
        "The sum of earlier tiles is thrown away: l_i is that of this tile alone.",
    ),
    Mistake(
        "rescaled-after-adding",
        _SUM,
        "l_i = alpha * (l_i + tl.sum(tl.exp(x - m_safe[:, None]), 1))",
        "one-tile",
        "wrong",
        "The sum is rescaled after the new tile is added: the new terms shrink too.",
    ),
    Mistake(
        "alpha-inverted",
        _ALPHA,
        "alpha = tl.exp(m_safe - m_i)",
        "one-tile",
        "nan",
        "alpha is upside down: exp(m_new - m_i) grows what should shrink.",
    ),
    Mistake(
        "terms-at-the-old-maximum",
        _SUM,
        "l_i = alpha * l_i + tl.sum(tl.exp(x - m_i[:, None]), 1)",
        "one-tile",
        "wrong",
        "The new terms subtract the old maximum m_i, not m_new.",
    ),
    Mistake(
        "maximum-not-kept",
        "        m_i = m_new\n",
        "",
        "one-tile",
        "wrong",
        "m_i is never updated: every tile is treated as the first one.",
    ),
    Mistake(
        "exp2-for-exp",
        _SUM,
        "l_i = alpha * l_i + tl.sum(tl.exp2(x - m_safe[:, None]), 1)",
        "one-tile",
        "wrong",
        "exp2 is used for exp without a factor of log2(e): the sum is too large.",
    ),
    Mistake(
        "first-tile-only",
        "for start_n in range(0, C, BLOCK_N):\n        offs_n = start_n + tl.arange(0, BLOCK_N)"
        ".to(tl.int64)  # [BLOCK_N], this tile",
        "for start_n in range(0, BLOCK_N, BLOCK_N):\n        offs_n = start_n + tl.arange(0, "
        "BLOCK_N).to(tl.int64)",
        "two-tiles",
        "wrong",
        "Only the first tile of the row enters the maximum and the sum.",
    ),
)

_FINISH = (
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
        "lse-not-stored",
        f"    {_STORE_LSE}",
        "    pass",
        "one-tile",
        "uninitialised",
        "lse is computed but never stored.",
    ),
    Mistake(
        "lse-unmasked",
        _STORE_LSE,
        "tl.store(lse_ptr + offs_m, lse)",
        "ragged-rows",
        "oob",
        "lse is stored without a mask: the last program writes past the last row.",
    ),
    Mistake(
        "hidden-row-lse-unguarded",
        _P,
        "p = tl.exp(x - lse[:, None])",
        "hidden-start",
        "nan",
        "A row of only -inf has lse -inf, and -inf - -inf is NaN: subtract 0 there.",
    ),
    Mistake(
        "only-the-maximum-subtracted",
        _P,
        'p = tl.exp(x - tl.where(m_i == float("-inf"), 0.0, m_i)[:, None])',
        "one-tile",
        "wrong",
        "p is exp(x - m): it is never divided by the sum l.",
    ),
    Mistake(
        "p-unmasked",
        _STORE_P,
        "tl.store(p_ptrs, p)",
        "ragged-rows",
        "oob",
        "p is stored without a mask: lanes beyond the row belong to the next one.",
    ),
    Mistake(
        "p-in-fp16",
        _STORE_P,
        "tl.store(p_ptrs, p.to(tl.float16), mask=mask)",
        "fp32",
        "wrong",
        "p passes through fp16 whatever the dtype of x is.",
    ),
)

_GIVEN = (
    Mistake(
        "row-stride-taken-for-columns",
        "x_ptrs = x_rows + offs_n[None, :] * stride_xn  # [BLOCK_M, BLOCK_N]",
        "x_ptrs = x_rows + offs_n[None, :]",
        "transposed",
        "wrong",
        "The columns of x are taken as neighbours in memory: use stride_xn.",
    ),
    Mistake(
        "grid-rounds-down",
        "triton.cdiv(R, BLOCK_M)",
        "max(R // BLOCK_M, 1)",
        "ragged-rows",
        "uninitialised",
        "The grid rounds R / BLOCK_M down: nobody owns the last, partly filled block.",
    ),
)

MISTAKES = _LOADS + _STATE + _UPDATE + _FINISH + _GIVEN
