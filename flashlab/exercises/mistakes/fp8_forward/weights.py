"""Mistakes of the weights and their product with V. Floor: course."""

from flashlab.exercise import Mistake

_M_NEW = "m_new = tl.maximum(m_log2, tl.max(s, 1))"
_M_SAFE = 'm_safe = tl.where(m_new == float("-inf"), 0.0, m_new)'
_ALPHA = "alpha = tl.exp2(m_log2 - m_safe)"
_P = "p = tl.exp2(s - (m_safe - P_SHIFT)[:, None])"
_L = "l_i = alpha * l_i + tl.sum(p, 1)"
_PV = "pv = tl.dot(p.to(v8.dtype), v8)"
_ACC = "acc = alpha[:, None] * acc + v_scale * pv"
_M = "m_log2 = m_new"

WEIGHTS = (
    Mistake(
        "no-maximum",
        _M_NEW,
        "m_new = tl.zeros([BLOCK_M], tl.float32)",
        "one-tile",
        "wrong",
        "No maximum is subtracted: p ends at 448 in e4m3, and exp overflows beyond 88.",
    ),
    Mistake(
        "maximum-of-the-tile",
        _M_NEW,
        "m_new = tl.max(s, 1)",
        "falling",
        "nan",
        "The maximum is that of the tile: keep the larger of it and m_log2.",
    ),
    Mistake(
        "hidden-rows-unguarded",
        _M_SAFE,
        "m_safe = m_new",
        "causal-no-key",
        "nan",
        "A row without a key computes -inf - -inf, which is NaN: subtract 0 there.",
    ),
    Mistake(
        "alpha-inverted",
        _ALPHA,
        "alpha = tl.exp2(tl.where(m_log2 == float('-inf'), 0.0, m_safe - m_log2))",
        "four-tiles",
        "wrong",
        "alpha is turned round: it is exp2(old maximum - new maximum), 1 at most.",
    ),
    Mistake(
        "alpha-by-exp",
        _ALPHA,
        "alpha = tl.exp(m_log2 - m_safe)",
        "four-tiles",
        "wrong",
        "alpha is exp of maxima in base 2: it is exp2, as p is.",
    ),
    Mistake(
        "alpha-shifted",
        _ALPHA,
        "alpha = tl.exp2(m_log2 - m_safe + P_SHIFT)",
        "four-tiles",
        "wrong",
        "alpha is shifted by P_SHIFT too: earlier tiles are in units of 2^8 already.",
    ),
    Mistake(
        "shifted-down",
        _P,
        "p = tl.exp2(s - (m_safe + P_SHIFT)[:, None])",
        "four-tiles",
        "wrong",
        "p is divided by 2^8 instead of multiplied: most weights fall below what e4m3 holds.",
    ),
    Mistake(
        "shift-in-lse-alone",
        _P,
        "p = tl.exp2(s - m_safe[:, None])",
        "one-tile",
        "wrong",
        "p is not multiplied by 2^8, but lse takes P_SHIFT out: both or neither.",
    ),
    Mistake(
        "shift-as-a-factor",
        _P,
        "p = tl.exp2(s - m_safe[:, None]) * P_SHIFT",
        "one-tile",
        "wrong",
        "p is multiplied by P_SHIFT itself, 8: it is an exponent, add it inside exp2.",
    ),
    Mistake(
        "shifted-beyond-448",
        _P,
        "p = tl.exp2(s - (m_safe - P_SHIFT - 3.0)[:, None])",
        "four-tiles",
        "wrong",
        "p is multiplied by 2^11: e4m3 ends at 448, and the largest weights are cut off there.",
    ),
    Mistake(
        "normalised-before-rounding",
        f"        {_L}\n        {_PV}  # [BLOCK_M, BLOCK_D], in units of v_scale\n        {_ACC}",
        "        l_new = alpha * l_i + tl.sum(p, 1)\n"
        "        safe = tl.where(l_new == 0.0, 1.0, l_new)\n"
        "        pv = tl.dot((p / safe[:, None]).to(v8.dtype), v8) * safe[:, None]\n"
        "        acc = alpha[:, None] * acc + v_scale * pv\n"
        "        l_i = l_new",
        "flat",
        "wrong",
        "p is divided by the sum before it is rounded: 2^-11 is 0 in e4m3. Divide at the end.",
    ),
)

PRODUCT = (
    Mistake(
        "bf16-weights",
        _PV,
        "pv = tl.dot(p.to(tl.bfloat16), v8.to(tl.bfloat16))",
        "four-tiles",
        "wrong",
        "The second product is in bf16, FP8 in name only: the error is smaller than FP8 can make "
        "it. Round p to e4m3.",
    ),
    Mistake(
        "fp16-weights",
        _PV,
        "pv = tl.dot(p.to(tl.float16), v8.to(tl.float16))",
        "four-tiles",
        "wrong",
        "The second product is in fp16, FP8 in name only: round p to e4m3.",
    ),
    Mistake(
        "e5m2-weights",
        _PV,
        "pv = tl.dot(p.to(tl.float8e5).to(tl.float16).to(v8.dtype), v8)",
        "four-tiles",
        "precision",
        "p passes through e5m2, which has two mantissa bits: the error doubles.",
    ),
    Mistake(
        "no-scale-of-v",
        _ACC,
        "acc = alpha[:, None] * acc + pv",
        "one-tile",
        "wrong",
        "The scale of v8 is never multiplied in.",
    ),
    Mistake(
        "scale-of-v-before-rounding",
        f"        {_PV}  # [BLOCK_M, BLOCK_D], in units of v_scale\n        {_ACC}",
        "        pv = tl.dot((p * v_scale).to(v8.dtype), v8)\n"
        "        acc = alpha[:, None] * acc + pv",
        "tiny-values",
        "wrong",
        "The scale of v8 is multiplied into p before p is rounded: there it falls below what e4m3 "
        "holds.",
    ),
    Mistake(
        "scale-of-v-twice",
        _ACC,
        "acc = alpha[:, None] * acc + v_scale * v_scale * pv",
        "one-tile",
        "wrong",
        "The scale of v8 is multiplied in twice.",
    ),
    Mistake(
        "scale-of-k-for-v",
        _ACC,
        "acc = alpha[:, None] * acc + k_scale * pv",
        "scales-apart",
        "wrong",
        "The second product gets the scale of k8: it multiplies v8.",
    ),
    Mistake(
        "scale-of-v-for-all",
        _ACC,
        "acc = (alpha[:, None] * acc + pv) * v_scale",
        "four-tiles",
        "wrong",
        "The scale of v8 multiplies what earlier tiles added too: it belongs to this product.",
    ),
    Mistake(
        "first-scale-of-v",
        "v_scale = tl.load(v_scales + start_n // block_rows * stride_vsn)",
        "v_scale = tl.load(v_scales + 0 * start_n)",
        "scales-apart",
        "wrong",
        "The scale of the first block of v8 is taken for all of them.",
    ),
    Mistake(
        "rescaled-after-adding",
        _ACC,
        "acc = alpha[:, None] * (acc + v_scale * pv)",
        "one-tile",
        "wrong",
        "alpha is multiplied in after this tile was added: only what was summed before shrinks.",
    ),
    Mistake(
        "sums-in-fp16",
        _ACC,
        "acc = (alpha[:, None] * acc + v_scale * pv).to(tl.float16).to(tl.float32)",
        "tiny-values",
        "wrong",
        "acc is rounded to fp16 on its way: it stays fp32, however small or large v is.",
    ),
    Mistake(
        "acc-not-rescaled",
        _ACC,
        "acc = acc + v_scale * pv",
        "four-tiles",
        "wrong",
        "acc is not multiplied by alpha: earlier tiles count too much.",
    ),
    Mistake(
        "sum-not-rescaled",
        _L,
        "l_i = l_i + tl.sum(p, 1)",
        "four-tiles",
        "wrong",
        "l_i is not multiplied by alpha: the sum is too large.",
    ),
    Mistake(
        "sum-of-rounded-weights",
        _L,
        "l_i = alpha * l_i + tl.sum(p.to(v8.dtype).to(tl.float32), 1)",
        "four-tiles",
        "wrong",
        "l_i adds up the weights after they are rounded: lse is off by what FP8 loses.",
    ),
    Mistake(
        "maximum-not-kept",
        f"        {_M}\n",
        "        m_log2 = m_log2 + 0.0 * m_new\n",
        "one-tile",
        "wrong",
        "m_log2 is never replaced by m_new.",
    ),
)
