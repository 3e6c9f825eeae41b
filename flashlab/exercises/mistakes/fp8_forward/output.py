"""Mistakes of the end, and of what was given. Floor: course."""

from flashlab.exercise import Mistake

_L_SAFE = "l_safe = tl.where(l_i == 0.0, 1.0, l_i)"
_O = "o = acc * (1.0 / l_safe)[:, None]"
_LSE = "lse = (m_log2 + tl.log2(l_safe) - P_SHIFT) / LOG2E"

FINISH = (
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
        "shift-in-nats",
        _LSE,
        "lse = (m_log2 + tl.log2(l_safe)) / LOG2E - P_SHIFT",
        "one-tile",
        "wrong",
        "P_SHIFT is subtracted from nats: it counts in base 2, subtract it before the division.",
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

GIVEN = (
    Mistake(
        "mask-top-left",
        "visible = visible & (offs_n[None, :] <= offs_m[:, None] + shift)",
        "visible = visible & (offs_n[None, :] <= offs_m[:, None])",
        "causal-more-keys",
        "wrong",
        "The causal mask is aligned at the first key: with N_k != N_q it is aligned at the last.",
    ),
    Mistake(
        "causal-without-the-diagonal",
        "visible = visible & (offs_n[None, :] <= offs_m[:, None] + shift)",
        "visible = visible & (offs_n[None, :] < offs_m[:, None] + shift)",
        "causal-square",
        "wrong",
        "The causal mask hides the diagonal: query i sees key i too.",
    ),
    Mistake(
        "tile-across-scales",
        "BLOCK_N=BLOCK_N if one_scale else 32",
        "BLOCK_N=BLOCK_N",
        "short-blocks",
        "wrong",
        "A tile of keys reaches into the next block of scales and takes one scale for both.",
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
