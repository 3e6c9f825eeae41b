"""What learners write instead of ``solutions/fp8_forward.py``. Floor: course."""

from flashlab.exercise import Mistake

_DOT = "s = tl.dot(q8, tl.trans(k8))  # e4m3 times e4m3, summed in fp32"
_SCALED = "s = s * (q_scale * (k_scale * sm_scale * LOG2E))[:, None]"
_M_NEW = "m_new = tl.maximum(m_log2, tl.max(s, 1))"
_M_SAFE = 'm_safe = tl.where(m_new == float("-inf"), 0.0, m_new)'
_ALPHA = "alpha = tl.exp2(m_log2 - m_safe)"
_P = "p = tl.exp2(s - (m_safe - P_SHIFT)[:, None])"
_L = "l_i = alpha * l_i + tl.sum(p, 1)"
_PV = "pv = tl.dot(p.to(v8.dtype), v8)"
_ACC = "acc = alpha[:, None] * acc + v_scale * pv"
_M = "m_log2 = m_new"
_L_SAFE = "l_safe = tl.where(l_i == 0.0, 1.0, l_i)"
_O = "o = acc * (1.0 / l_safe)[:, None]"
_LSE = "lse = (m_log2 + tl.log2(l_safe) - P_SHIFT) / LOG2E"

_SCORES = (
    Mistake(
        "no-scale-of-q",
        _SCALED,
        "s = s * (k_scale * sm_scale * LOG2E)",
        "one-tile",
        "wrong",
        "The scale of q8 is never multiplied in.",
    ),
    Mistake(
        "no-scale-of-k",
        _SCALED,
        "s = s * (q_scale * (sm_scale * LOG2E))[:, None]",
        "one-tile",
        "wrong",
        "The scale of k8 is never multiplied in.",
    ),
    Mistake(
        "no-scale-of-either",
        _SCALED,
        "s = s * (sm_scale * LOG2E)",
        "one-tile",
        "wrong",
        "The scores are products of FP8 numbers: the scales of q8 and k8 are both missing.",
    ),
    Mistake(
        "scales-divide",
        _SCALED,
        "s = s * (sm_scale * LOG2E) / (q_scale * k_scale)[:, None]",
        "one-tile",
        "wrong",
        "The scores are divided by the scales: x is x8 times its scale.",
    ),
    Mistake(
        "scale-of-q-along-keys",
        _SCALED,
        "s = s * (tl.max(q_scale, 0) * (k_scale * sm_scale * LOG2E))",
        "scales-apart",
        "wrong",
        "One scale of q8 is taken for all rows of a tile: each row has that of its block.",
    ),
    Mistake(
        "no-sm-scale",
        _SCALED,
        "s = s * (q_scale * (k_scale * LOG2E))[:, None]",
        "one-tile",
        "wrong",
        "sm_scale is never multiplied in.",
    ),
    Mistake(
        "exp2-without-log2e",
        _SCALED,
        "s = s * (q_scale * (k_scale * sm_scale))[:, None]",
        "one-tile",
        "wrong",
        "exp2 is used for exp without a factor of log2(e): the softmax is too flat.",
    ),
    Mistake(
        "first-scale-of-k",
        "k_scale = tl.load(k_scales + start_n // block_rows * stride_ksn)",
        "k_scale = tl.load(k_scales + 0 * start_n)",
        "scales-apart",
        "wrong",
        "The scale of the first block of k8 is taken for all of them.",
    ),
    Mistake(
        "scale-by-tile",
        "k_scale = tl.load(k_scales + start_n // block_rows * stride_ksn)",
        "k_scale = tl.load(k_scales + start_n // BLOCK_N * stride_ksn)",
        "four-tiles",
        "oob",
        "Scales of k8 are counted by tiles: a block has block_rows rows, not BLOCK_N.",
    ),
    Mistake(
        "k-not-transposed",
        _DOT,
        "s = tl.dot(q8, tl.reshape(k8, [BLOCK_D, BLOCK_N]))",
        "one-tile",
        "wrong",
        "k8 is reshaped instead of transposed: its numbers end in other places.",
    ),
)

_WEIGHTS = (
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

_PRODUCT = (
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

_FINISH = (
    Mistake(
        "never-divided",
        _O,
        "o = acc",
        "one-tile",
        "wrong",
        "acc is never divided by l_i.",
    ),
    Mistake(
        "shift-taken-out-twice",
        _O,
        "o = acc * (1.0 / l_safe)[:, None] * 2.0**-8",
        "one-tile",
        "wrong",
        "o is divided by 2^8 once more: the factor is in acc and in l_i, and goes by itself.",
    ),
    Mistake(
        "lse-with-the-shift",
        _LSE,
        "lse = (m_log2 + tl.log2(l_safe)) / LOG2E",
        "one-tile",
        "wrong",
        "lse still holds the factor 2^8 of the weights: subtract P_SHIFT from log2(l).",
    ),
    Mistake(
        "lse-in-base-2",
        _LSE,
        "lse = m_log2 + tl.log2(l_safe) - P_SHIFT",
        "one-tile",
        "wrong",
        "lse is in base 2: divide by log2(e) to get nats.",
    ),
    Mistake(
        "no-key-unguarded",
        _L_SAFE,
        "l_safe = l_i",
        "causal-no-key",
        "nan",
        "A row without a key divides 0 by 0, which is NaN: divide by 1 there.",
    ),
)

_GIVEN = (
    Mistake(
        "mask-top-left",
        "visible = visible & (offs_n[None, :] <= offs_m[:, None] + shift)",
        "visible = visible & (offs_n[None, :] <= offs_m[:, None])",
        "causal-more-keys",
        "wrong",
        "The causal mask is aligned at the first key: with N_k != N_q it is aligned at the last.",
    ),
    Mistake(
        "heads-interleaved",
        "h_kv = h // (H // H_kv)",
        "h_kv = h % H_kv",
        "grouped-heads",
        "wrong",
        "Query head h reads key head h % H_kv: neighbours share one, h // (H / H_kv).",
    ),
    Mistake(
        "scales-of-the-query-head",
        "k_scales = k_scale_ptr + b * stride_ksb + h_kv * stride_ksh",
        "k_scales = k_scale_ptr + b * stride_ksb + h * stride_ksh",
        "grouped-heads",
        "oob",
        "Scales of k8 are read for the query head: k8 has H_kv heads.",
    ),
)

MISTAKES = _SCORES + _WEIGHTS + _PRODUCT + _FINISH + _GIVEN
