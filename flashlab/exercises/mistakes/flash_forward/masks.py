"""Mistakes in what ``flash_forward`` reads, hides and stores. Floor: course."""

from flashlab.exercise import Mistake

_WHERE = 's = tl.where(visible, s, float("-inf"))'
_CAUSAL = "visible & (offs_n[None, :] <= offs_m[:, None] + N_k - N_q)"
_LOOP = "for start_n in range(0, N_k, BLOCK_N):"
_LSE = "lse = m_i + tl.log(tl.where(l_i == 0.0, 1.0, l_i))"
_STORE_O = "tl.store(o_ptrs, acc, mask=mask_q)"
_STORE_LSE = "tl.store(lse_ptrs, lse, mask=mask_m)"

MASKS = (
    Mistake(
        "padding-keys-count",
        "visible = mask_n[None, :]",
        "visible = (offs_n >= 0)[None, :]",
        "ragged-keys",
        "wrong",
        "Lanes beyond the last key keep the score 0 and take part in the softmax.",
    ),
    Mistake(
        "hidden-by-zero",
        _WHERE,
        "s = tl.where(visible, s, 0.0)",
        "ragged-keys",
        "wrong",
        "Hidden keys get the score 0, which is a weight of exp(0 - m), instead of -inf.",
    ),
    Mistake(
        "scaled-after-the-mask",
        _WHERE,
        's = tl.where(visible, s / sm_scale, float("-inf")) * sm_scale',
        "negative-scale",
        "nan",
        "Scores are scaled after the mask: a negative sm_scale turns the -inf of hidden keys "
        "into +inf.",
    ),
    Mistake(
        "hidden-by-a-large-number",
        _WHERE,
        "s = tl.where(visible, s, -10000.0)",
        "causal-many-queries",
        "wrong",
        "Hidden keys get a large negative number instead of -inf: a row that sees no key "
        "averages all of them.",
    ),
    Mistake(
        "hidden-after-the-sum",
        "        l_new = alpha * l_i + tl.sum(p, 1)\n",
        "        l_new = alpha * l_i + tl.sum(tl.exp(sm_scale * tl.dot(q, tl.trans(k), "
        'input_precision="ieee") - m_safe[:, None]), 1)\n',
        "ragged-keys",
        "wrong",
        "Keys are hidden in p but not in the sum l: mask the scores before exp.",
    ),
    Mistake(
        "key-mask-one-too-many",
        "mask_n = offs_n < N_k",
        "mask_n = offs_n <= N_k",
        "ragged-keys",
        "oob",
        "The key mask uses <= where < is meant: key N_k does not exist.",
    ),
    Mistake(
        "key-mask-from-queries",
        "mask_n = offs_n < N_k",
        "mask_n = offs_n < N_q",
        "one-tile",
        "wrong",
        "The key mask compares with N_q, the number of queries.",
    ),
    Mistake(
        "k-unmasked",
        "k = tl.load(k_ptrs, mask=mask_kv, other=0.0)",
        "k = tl.load(k_ptrs)",
        "ragged-keys",
        "oob",
        "k is loaded without a mask: the last tile reads past the last key.",
    ),
    Mistake(
        "v-unmasked",
        "v = tl.load(v_ptrs, mask=mask_kv, other=0.0)",
        "v = tl.load(v_ptrs)",
        "ragged-keys",
        "oob",
        "v is loaded without a mask: the last tile reads past the last key.",
    ),
    Mistake(
        "v-without-other",
        "v = tl.load(v_ptrs, mask=mask_kv, other=0.0)",
        "v = tl.load(v_ptrs, mask=mask_kv)",
        "ragged-keys",
        "uninitialised",
        "v is loaded with a mask but without other=: the lanes that are off hold garbage, and "
        "0 times garbage may be NaN.",
    ),
    Mistake(
        "columns-of-k-and-v-unmasked",
        "mask_kv = mask_n[:, None] & mask_d[None, :]",
        "mask_kv = mask_n[:, None]",
        "odd-head-dim",
        "oob",
        "k and v are read beyond column D: those columns belong to the next row.",
    ),
    Mistake(
        "q-unmasked",
        "q = tl.load(q_ptrs, mask=mask_q, other=0.0)",
        "q = tl.load(q_ptrs)",
        "ragged-queries",
        "oob",
        "q is loaded without a mask: the last block reads past the last query.",
    ),
    Mistake(
        "o-unmasked",
        _STORE_O,
        "tl.store(o_ptrs, acc)",
        "ragged-queries",
        "oob",
        "o is stored without a mask: the last block writes past the last query.",
    ),
    Mistake(
        "lse-unmasked",
        _STORE_LSE,
        "tl.store(lse_ptrs, lse)",
        "ragged-queries",
        "oob",
        "lse is stored without a mask: the last block writes past the last query.",
    ),
    Mistake(
        "causal-ignored",
        "if CAUSAL:",
        "if False:",
        "causal-square",
        "wrong",
        "causal has no effect: every query sees every key.",
    ),
    Mistake(
        "causal-always",
        "if CAUSAL:",
        "if True:",
        "one-tile",
        "wrong",
        "The causal mask is applied even when causal is False.",
    ),
    Mistake(
        "causal-without-the-diagonal",
        _CAUSAL,
        "visible & (offs_n[None, :] < offs_m[:, None] + N_k - N_q)",
        "causal-square",
        "wrong",
        "The causal mask uses < where <= is meant: a query sees itself.",
    ),
    Mistake(
        "causal-reversed",
        _CAUSAL,
        "visible & (offs_n[None, :] >= offs_m[:, None] + N_k - N_q)",
        "causal-square",
        "wrong",
        "The causal mask is reversed: queries see the future, not the past.",
    ),
    Mistake(
        "causal-top-left",
        _CAUSAL,
        "visible & (offs_n[None, :] <= offs_m[:, None])",
        "causal-few-queries",
        "wrong",
        "The diagonal starts in the top left corner: with N_q != N_k it has to end in the bottom "
        "right one.",
    ),
    Mistake(
        "causal-shift-reversed",
        "offs_m[:, None] + N_k - N_q)",
        "offs_m[:, None] + N_q - N_k)",
        "causal-few-queries",
        "wrong",
        "The diagonal is shifted the wrong way: N_q - N_k instead of N_k - N_q.",
    ),
    Mistake(
        "causal-stops-before-the-diagonal",
        _LOOP,
        "for start_n in range(0, tl.minimum(N_k, start_m) if CAUSAL else N_k, BLOCK_N):",
        "causal-square",
        "wrong",
        "The causal loop stops one block early: the tile on the diagonal is never visited.",
    ),
    Mistake(
        "causal-bound-of-the-wrong-block",
        _LOOP,
        "for start_n in range(0, tl.minimum(N_k, start_m + BLOCK_N) if CAUSAL else N_k, BLOCK_N):",
        "causal-square",
        "wrong",
        "The causal loop ends at start_m + BLOCK_N where the block of queries ends at "
        "start_m + BLOCK_M + N_k - N_q.",
    ),
)
