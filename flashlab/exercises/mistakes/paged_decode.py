"""What learners write instead of ``solutions/paged_decode.py``. Floor: course."""

from flashlab.exercise import Mistake

_MASK_N = "mask_n = offs_n < length\n"
_ENTRIES = "entries = table + (offs_n // PAGE) * stride_tp"
_PAGE = "page = tl.load(entries, mask=mask_n, other=0).to(tl.int64)"
_SLOT = "slot = (offs_n % PAGE).to(tl.int64)"
_K_PTRS = "k_ptrs = k_head + page[:, None] * stride_kp + slot[:, None] * stride_kn"
_V_PTRS = "v_ptrs = v_head + page[:, None] * stride_vp + slot[:, None] * stride_vn"
_V = "v = tl.load(v_ptrs, mask=mask_kv, other=0.0)"
_S = 's = sm_scale * tl.dot(q, tl.trans(k), input_precision="ieee")'
_HIDE = 's = tl.where(mask_n[None, :], s, float("-inf"))'
_MAX = "m_new = tl.maximum(m_i, tl.max(s, 1))"
_L = "l_i = alpha * l_i + tl.sum(p, 1)"
_ACC = 'acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")'
_L_SAFE = "l_safe = tl.where(l_i == 0.0, 1.0, l_i)"
_STORE_O = "tl.store(o_ptrs, acc / l_safe[:, None], mask=mask_q)"
_STORE_LSE = "tl.store(lse_ptrs, m_i + tl.log(l_safe), mask=mask_g)"

_PAGES = (
    Mistake(
        "table-ignored",
        _PAGE,
        "page = tl.where(mask_n, offs_n // PAGE, 0).to(tl.int64)",
        "four-pages",
        "nan",
        "The table is not read: page 0, 1, 2 of the pool are taken, whoever owns them.",
    ),
    Mistake(
        "entry-of-the-token",
        _ENTRIES,
        "entries = table + offs_n * stride_tp",
        "one-page",
        "oob",
        "The table is read at the number of the key: it has an entry a page, divide by PAGE.",
    ),
    Mistake(
        "entry-of-the-tile",
        _ENTRIES,
        "entries = table + start_n // PAGE * stride_tp + 0 * offs_n",
        "four-pages",
        "wrong",
        "One page is looked up for the whole tile: a tile may touch several pages.",
    ),
    Mistake(
        "slot-of-the-sequence",
        _SLOT,
        "slot = offs_n",
        "four-pages",
        "oob",
        "The slot is the number of the key in the sequence: within its page it is offs_n % PAGE.",
    ),
    Mistake(
        "page-times-slot-stride",
        _K_PTRS,
        "k_ptrs = k_head + page[:, None] * stride_kn + slot[:, None] * stride_kn",
        "one-page",
        "nan",
        "A page of k is taken to be one slot long: multiply the page by stride_kp.",
    ),
    Mistake(
        "page-numbers-tokens",
        _K_PTRS,
        "k_ptrs = k_head + (page[:, None] + slot[:, None]) * stride_kp",
        "one-page",
        "oob",
        "page and slot are added before the stride: slots of k are stride_kn apart, pages "
        "stride_kp.",
    ),
    Mistake(
        "values-by-the-strides-of-keys",
        _V_PTRS,
        "v_ptrs = v_head + page[:, None] * stride_kp + slot[:, None] * stride_kn",
        "permuted",
        "oob",
        "v is read with the strides of k: its pages may lie differently.",
    ),
    Mistake(
        "table-read-behind-the-last-key",
        _PAGE,
        "page = tl.load(entries).to(tl.int64)",
        "half-full-page",
        "oob",
        "The table is read without a mask: entries behind the last key are none of ours.",
    ),
    Mistake(
        "whole-last-page",
        _MASK_N,
        "mask_n = offs_n < tl.cdiv(length, PAGE) * PAGE\n",
        "half-full-page",
        "nan",
        "All slots of the last page count as keys: the ones behind length hold anything.",
    ),
)

_TILE = (
    Mistake(
        "hidden-scores-zero",
        _HIDE,
        "s = tl.where(mask_n[None, :], s, 0.0)",
        "half-full-page",
        "wrong",
        "Keys that do not exist get the score 0: it must be -inf, a weight of nothing.",
    ),
    Mistake(
        "empty-slots-of-values",
        _V,
        "v = tl.load(v_ptrs, mask=mask_d, other=0.0)",
        "half-full-page",
        "nan",
        "v is loaded without the mask of the keys: an empty slot may be NaN, and 0 * NaN is NaN.",
    ),
    Mistake(
        "scale-forgotten",
        _S,
        's = tl.dot(q, tl.trans(k), input_precision="ieee")',
        "one-page",
        "wrong",
        "The scores are not multiplied by sm_scale.",
    ),
    Mistake(
        "maximum-of-this-tile",
        _MAX,
        "m_new = tl.max(s, 1) + 0.0 * l_i",
        "falling-scores",
        "nan",
        "m_new is the largest score of this tile alone, not the largest so far.",
    ),
    Mistake(
        "sum-not-rescaled",
        _L,
        "l_i = l_i + tl.sum(p, 1)",
        "four-pages",
        "wrong",
        "The sum l_i is not rescaled by alpha when the maximum grows.",
    ),
    Mistake(
        "output-not-rescaled",
        _ACC,
        'acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")',
        "four-pages",
        "wrong",
        "acc is not rescaled by alpha when the maximum grows.",
    ),
)

_GIVEN = (
    Mistake(
        "zero-taken-for-no-scale",
        "D**-0.5 if sm_scale is None else float(sm_scale)",
        "float(sm_scale or D**-0.5)",
        "scale-zero",
        "wrong",
        "An sm_scale of 0 is replaced by the default: 0 is a scale, only None means 1/sqrt(D).",
    ),
)

_FINISH = (
    Mistake(
        "never-divided",
        _STORE_O,
        "tl.store(o_ptrs, acc + 0.0 * l_safe[:, None], mask=mask_q)",
        "one-page",
        "wrong",
        "acc is never divided by the sum of the weights.",
    ),
    Mistake(
        "empty-cache-divided-by-zero",
        _L_SAFE,
        "l_safe = l_i",
        "lengths",
        "nan",
        "An empty cache divides 0 by 0, which is NaN: divide by 1 there.",
    ),
    Mistake(
        "lse-without-maximum",
        _STORE_LSE,
        "tl.store(lse_ptrs, tl.log(l_safe) + 0.0 * l_i, mask=mask_g)",
        "one-page",
        "wrong",
        "lse is log l alone: the maximum m is missing.",
    ),
    Mistake(
        "lse-base-2",
        _STORE_LSE,
        "tl.store(lse_ptrs, m_i + tl.log2(l_safe), mask=mask_g)",
        "one-page",
        "wrong",
        "lse uses log2: it has to be in nats, as the maximum is.",
    ),
    Mistake(
        "idle-rows-stored",
        _STORE_O,
        "tl.store(o_ptrs, acc / l_safe[:, None], mask=mask_d)",
        "one-page",
        "oob",
        "Idle rows of the query tile are stored too: they are heads of another group, or none.",
    ),
)

MISTAKES = _PAGES + _TILE + _FINISH + _GIVEN
