"""What learners write instead of ``solutions/row_softmax.py``. Floor: course."""

from flashlab.exercise import Mistake

_MASK = "mask = (offs_m < R)[:, None] & (offs_n < C)[None, :]"
_X_PTRS = "x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_n[None, :] * stride_xn"
_P_PTRS = "p_ptrs = p_ptr + offs_m[:, None] * stride_pm + offs_n[None, :] * stride_pn"
_LOAD = 'x = tl.load(x_ptrs, mask=mask, other=float("-inf")).to(tl.float32)'
_MAX = "m_i = tl.max(x, 1)"
_MAX_GUARD = '    m_i = tl.where(m_i == float("-inf"), 0.0, m_i)'
_EXP = "p = tl.exp(x - m_i[:, None])  # [BLOCK_M, BLOCK_N]"
_SUM = "l_i = tl.sum(p, 1)  # [BLOCK_M]"
_SUM_GUARD = "    l_i = tl.where(l_i == 0.0, 1.0, l_i)"
_STORE = "tl.store(p_ptrs, p / l_i[:, None], mask=mask)"

_POINTERS = (
    Mistake(
        "rows-unmasked",
        _MASK,
        "mask = (offs_m >= 0)[:, None] & (offs_n < C)[None, :]",
        "ragged-rows",
        "oob",
        "The mask looks at the columns alone: the last program has rows that do not exist.",
    ),
    Mistake(
        "columns-unmasked",
        _MASK,
        "mask = (offs_m < R)[:, None] & (offs_n >= 0)[None, :]",
        "ragged-columns",
        "oob",
        "The mask looks at the rows alone: the columns from C on belong to the next row.",
    ),
    Mistake(
        "mask-one-too-many",
        "(offs_n < C)",
        "(offs_n <= C)",
        "ragged-columns",
        "oob",
        "The mask uses <= where < is meant: column C does not exist.",
    ),
    Mistake(
        "rows-and-columns-swapped",
        _X_PTRS,
        "x_ptrs = x_ptr + offs_m[:, None] * stride_xn + offs_n[None, :] * stride_xm",
        "one-program",
        "oob",
        "The strides are swapped: rows of x are stride_xm apart, columns stride_xn.",
    ),
    Mistake(
        "columns-taken-as-contiguous",
        _X_PTRS,
        "x_ptrs = x_ptr + offs_m[:, None] * stride_xm + offs_n[None, :]",
        "transposed",
        "wrong",
        "The columns of x are taken as neighbours in memory: use stride_xn.",
    ),
    Mistake(
        "rows-taken-as-contiguous",
        _X_PTRS,
        "x_ptrs = x_ptr + offs_m[:, None] * C + offs_n[None, :] * stride_xn",
        "sliced",
        "oob",
        "Rows of x are taken to be C elements apart: use stride_xm.",
    ),
    Mistake(
        "strides-of-x-for-p",
        _P_PTRS,
        "p_ptrs = p_ptr + offs_m[:, None] * stride_xm + offs_n[None, :] * stride_xn",
        "sliced",
        "oob",
        "p is addressed with the strides of x; it has its own.",
    ),
)

_MAXIMUM = (
    Mistake(
        "loaded-without-other",
        _LOAD,
        "x = tl.load(x_ptrs, mask=mask).to(tl.float32)",
        "ragged-columns",
        "uninitialised",
        "x is loaded with a mask but without other=: the lanes that are off hold garbage.",
    ),
    Mistake(
        "padded-with-zero",
        _LOAD,
        "x = tl.load(x_ptrs, mask=mask, other=0.0).to(tl.float32)",
        "ragged-columns",
        "wrong",
        "Lanes beyond the row are loaded as 0 and take part in the softmax: load -inf.",
    ),
    Mistake(
        "padded-with-a-large-number",
        _LOAD,
        "x = tl.load(x_ptrs, mask=mask, other=-10000.0).to(tl.float32)",
        "very-negative",
        "wrong",
        "Lanes beyond the row get a large negative number instead of -inf: scores can be lower.",
    ),
    Mistake(
        "no-maximum",
        _MAX,
        "m_i = tl.zeros([BLOCK_M], tl.float32)",
        "large-scores",
        "nan",
        "No maximum is subtracted: exp overflows for scores beyond 88.",
    ),
    Mistake(
        "maximum-of-magnitudes",
        _MAX,
        'm_i = tl.max(tl.where(x == float("-inf"), 0.0, tl.abs(x)), 1)',
        "ragged-columns",
        "wrong",
        "The maximum is taken over |x|: negative rows underflow to 0.",
    ),
    Mistake(
        "maximum-over-rows",
        _MAX,
        "m_i = tl.max(x, 0)",
        "one-program",
        "compile",
        "The maximum is taken over axis 0, the rows, instead of axis 1, the columns.",
    ),
    Mistake(
        "maximum-of-the-tile",
        _MAX,
        "m_i = tl.full([BLOCK_M], tl.max(x), tl.float32)",
        "rows-apart",
        "wrong",
        "One maximum is taken for the whole tile: rows far below it underflow to 0.",
    ),
    Mistake(
        "hidden-row-maximum-unguarded",
        _MAX_GUARD,
        "    m_i = m_i",
        "hidden-rows",
        "nan",
        "A row of only -inf computes -inf - -inf, which is NaN: subtract 0 there.",
    ),
)

_DIVISION = (
    Mistake(
        "exp-before-subtracting",
        _EXP,
        "p = tl.exp(x) - m_i[:, None]",
        "one-program",
        "wrong",
        "exp is taken before the maximum is subtracted.",
    ),
    Mistake(
        "exp2-for-exp",
        _EXP,
        "p = tl.exp2(x - m_i[:, None])",
        "one-program",
        "wrong",
        "exp2 is used for exp without a factor of log2(e): the softmax is too flat.",
    ),
    Mistake(
        "sum-over-rows",
        f"    {_SUM}\n{_SUM_GUARD}  # only -inf in the row: p is 0\n    {_STORE}",
        "    l_i = tl.sum(p, 0)\n    l_i = tl.where(l_i == 0.0, 1.0, l_i)\n"
        "    tl.store(p_ptrs, p / l_i[None, :], mask=mask)",
        "one-program",
        "wrong",
        "p is summed over axis 0: the columns sum to 1, not the rows.",
    ),
    Mistake(
        "sum-of-scores",
        _SUM,
        "l_i = tl.sum(tl.where(mask, x, 0.0), 1)",
        "one-program",
        "wrong",
        "The exponentials are divided by the sum of the scores, not of the exponentials.",
    ),
    Mistake(
        "never-divided",
        _STORE,
        "tl.store(p_ptrs, p, mask=mask)",
        "one-program",
        "wrong",
        "The exponentials are never divided by their sum: the largest p is 1 in every row.",
    ),
    Mistake(
        "hidden-row-sum-unguarded",
        _SUM_GUARD,
        "    l_i = l_i",
        "hidden-rows",
        "nan",
        "A row of only -inf divides 0 by 0, which is NaN: divide by 1 there.",
    ),
    Mistake(
        "store-unmasked",
        _STORE,
        "tl.store(p_ptrs, p / l_i[:, None])",
        "ragged-columns",
        "race",
        "p is stored without a mask: the columns from C on belong to the next row.",
    ),
    Mistake(
        "exponentials-in-fp16",
        _EXP,
        "p = tl.exp(x - m_i[:, None]).to(tl.float16).to(tl.float32)",
        "fp32",
        "wrong",
        "The exponentials pass through fp16: keep them in fp32 until the store.",
    ),
)

_GIVEN = (
    Mistake(
        "block-index-not-multiplied",
        "tl.program_id(0).to(tl.int64) * BLOCK_M",
        "tl.program_id(0).to(tl.int64)",
        "three-programs",
        "race",
        "start_m is the number of the block: it has to be multiplied by BLOCK_M.",
    ),
    Mistake(
        "grid-rounds-down",
        "triton.cdiv(R, BLOCK_M)",
        "max(R // BLOCK_M, 1)",
        "ragged-rows",
        "uninitialised",
        "The grid rounds R / BLOCK_M down: nobody owns the last, partly filled block.",
    ),
    Mistake(
        "row-cut-off",
        "block_n = triton.next_power_of_2(C)",
        "block_n = triton.next_power_of_2(C + 1) // 2",
        "ragged-columns",
        "uninitialised",
        "The tile is the power of two below C: the end of each row is left out.",
    ),
)

MISTAKES = _POINTERS + _MAXIMUM + _DIVISION + _GIVEN
