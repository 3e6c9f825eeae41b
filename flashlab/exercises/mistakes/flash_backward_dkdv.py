"""What learners write instead of ``solutions/flash_backward_dkdv.py``. Floor: course."""

from flashlab.exercise import Mistake

_S = 's = sm_scale * tl.dot(q, tl.trans(k), input_precision="ieee")'
_P = "p = tl.where(visible, tl.exp(s - lse[:, None]), 0.0)"
_CAUSAL = "visible & (offs_n[None, :] <= offs_m[:, None] + N_k - N_q)"
_DO = "do = tl.load(do_ptrs, mask=mask_q, other=0.0)"
_P_T = "p_t = tl.trans(p.to(do.dtype))"
_DV = 'dv = tl.dot(p_t, do, dv, input_precision="ieee")'
_DP = 'dp = tl.dot(do, tl.trans(v), input_precision="ieee")'
_DS = "ds = p * (dp - delta[:, None])"
_DS_T = "ds_t = tl.trans(ds.to(q.dtype))"
_DK = 'dk = tl.dot(ds_t, q, dk, input_precision="ieee")'
_SCALE = "    dk *= sm_scale  # once, not in every tile\n"
_LOOP = "for start_m in range(0, N_q, BLOCK_M):"

WEIGHTS = (
    Mistake(
        "scores-not-scaled",
        _S,
        's = tl.dot(q, tl.trans(k), input_precision="ieee")',
        "one-tile",
        "nan",
        "P is recomputed without the scale: s needs sm_scale, as in the forward pass.",
    ),
    Mistake(
        "lse-taken-as-base-2",
        _P,
        "p = tl.where(visible, tl.exp2(s - lse[:, None]), 0.0)",
        "one-tile",
        "wrong",
        "exp2 is used for exp, but s and lse are in nats: P is too flat.",
    ),
    Mistake(
        "lse-forgotten",
        _P,
        "p = tl.where(visible, tl.exp(s), 0.0)",
        "one-tile",
        "wrong",
        "lse is not subtracted: exp(s) is not divided by the sum of its row.",
    ),
    Mistake(
        "softmax-of-the-tile",
        _P,
        "p = tl.where(visible, tl.exp(s - tl.max(s, 1)[:, None]), 0.0)\n"
        "        p = p / tl.maximum(tl.sum(p, 1), 1e-30)[:, None]",
        "two-tiles",
        "wrong",
        "P is a softmax over the keys of this tile alone: only lse knows the whole row.",
    ),
    Mistake(
        "divided-by-lse",
        _P,
        "p = tl.where(visible, tl.exp(s) / tl.exp(lse)[:, None], 0.0)",
        "large-scores",
        "nan",
        "exp(s) / exp(lse) overflows for large scores: subtract before exp.",
    ),
    Mistake(
        "empty-row-is-nan",
        _P,
        'p = tl.exp(tl.where(visible, s, float("-inf")) - lse[:, None])',
        "causal-many-queries",
        "nan",
        "A row that sees no key computes exp(-inf - -inf), which is NaN: set hidden weights to 0 "
        "after exp.",
    ),
    Mistake(
        "causal-ignored",
        "if CAUSAL:",
        "if False:",
        "causal-square",
        "wrong",
        "causal has no effect: the backward pass hides no key.",
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
        "causal-reversed",
        _CAUSAL,
        "visible & (offs_n[None, :] >= offs_m[:, None] + N_k - N_q)",
        "causal-square",
        "wrong",
        "The causal mask is reversed: only keys of the future are kept.",
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
        "causal-top-left",
        _CAUSAL,
        "visible & (offs_n[None, :] <= offs_m[:, None])",
        "causal-few-queries",
        "wrong",
        "The diagonal starts in the top left corner, but that of the forward pass ends in the "
        "bottom right one.",
    ),
    Mistake(
        "query-mask-one-too-many",
        "mask_m = offs_m < N_q",
        "mask_m = offs_m <= N_q",
        "ragged-queries",
        "oob",
        "The query mask uses <= where < is meant: query N_q does not exist.",
    ),
)

SUMS = (
    Mistake(
        "dv-from-ds",
        _DV,
        'dv = tl.dot(tl.trans((p * tl.dot(do, tl.trans(v), input_precision="ieee"))'
        '.to(do.dtype)), do, dv, input_precision="ieee")',
        "one-tile",
        "wrong",
        "dv is summed from p * dp: it needs p alone, dv = p^T do.",
    ),
    Mistake(
        "dv-scaled",
        _SCALE,
        "    dk *= sm_scale\n    dv *= sm_scale\n",
        "one-tile",
        "wrong",
        "dv is multiplied by sm_scale: the scale touches scores only, dk and dq.",
    ),
    Mistake(
        "dv-overwritten",
        _DV,
        'dv = tl.dot(p_t, do, input_precision="ieee")',
        "two-tiles",
        "wrong",
        "dv is overwritten by every tile: only the last tile of queries is left.",
    ),
    Mistake(
        "p-not-transposed",
        _P_T,
        "p_t = p.to(do.dtype)",
        "one-tile",
        "compile",
        "p is not transposed: dv sums over queries, so the dot needs [BLOCK_N, BLOCK_M] first.",
    ),
    Mistake(
        "p-in-fp16",
        f"{_P_T}  # [BLOCK_N, BLOCK_M]\n        {_DV}",
        "p_t = tl.trans(p.to(tl.float16))\n"
        '        dv = tl.dot(p_t, do.to(tl.float16), dv, input_precision="ieee")',
        "fp32",
        "wrong",
        "p and do are cast to fp16 whatever their dtype is.",
    ),
    Mistake(
        "do-without-other",
        _DO,
        "do = tl.load(do_ptrs, mask=mask_q)",
        "ragged-queries",
        "uninitialised",
        "do is loaded with a mask but without other=: the lanes that are off hold garbage, and "
        "0 times garbage may be NaN.",
    ),
    Mistake(
        "delta-forgotten",
        _DS,
        "ds = p * dp",
        "one-tile",
        "wrong",
        "delta is not subtracted: ds = p * (dp - delta).",
    ),
    Mistake(
        "delta-added",
        _DS,
        "ds = p * (dp + delta[:, None])",
        "one-tile",
        "wrong",
        "delta is added: it has to be subtracted from dp.",
    ),
    Mistake(
        "delta-outside-the-product",
        _DS,
        "ds = p * dp - delta[:, None]",
        "one-tile",
        "wrong",
        "delta is subtracted after the product with p: ds = p * (dp - delta).",
    ),
    Mistake(
        "weight-forgotten",
        _DS,
        "ds = dp - delta[:, None]",
        "one-tile",
        "wrong",
        "ds lacks the factor p.",
    ),
    Mistake(
        "derivative-of-a-sigmoid",
        _DS,
        "ds = p * (1 - p) * dp",
        "one-tile",
        "wrong",
        "ds = p * (1 - p) * dp holds for one weight alone: in a softmax every score moves every "
        "weight of the row.",
    ),
    Mistake(
        "v-not-transposed",
        _DP,
        'dp = tl.dot(do, v, input_precision="ieee")',
        "one-tile",
        "compile",
        "v is not transposed: dp = do v^T is [BLOCK_M, BLOCK_N].",
    ),
    Mistake(
        "dk-from-p",
        _DS_T,
        "ds_t = tl.trans(p.to(q.dtype))",
        "one-tile",
        "wrong",
        "dk is summed from p: it needs ds, dk = ds^T q.",
    ),
    Mistake(
        "dk-not-scaled",
        _SCALE,
        "",
        "one-tile",
        "wrong",
        "dk is never multiplied by sm_scale.",
    ),
    Mistake(
        "dk-scaled-twice",
        _SCALE,
        "    dk *= sm_scale * sm_scale\n",
        "one-tile",
        "wrong",
        "dk is scaled twice.",
    ),
    Mistake(
        "dk-scaled-in-every-tile",
        _DK,
        'dk = tl.dot(ds_t, q, dk * sm_scale, input_precision="ieee")',
        "two-tiles",
        "wrong",
        "The running sum dk is scaled in every tile: what was summed first shrinks again and "
        "again.",
    ),
    Mistake(
        "dk-overwritten",
        _DK,
        'dk = tl.dot(ds_t, q, input_precision="ieee")',
        "two-tiles",
        "wrong",
        "dk is overwritten by every tile: only the last tile of queries is left.",
    ),
    Mistake(
        "dk-with-do",
        _DK,
        'dk = tl.dot(ds_t, do, dk, input_precision="ieee")',
        "one-tile",
        "wrong",
        "dk is ds^T do: the right side has to be q.",
    ),
    Mistake(
        "ds-not-cast",
        _DS_T,
        "ds_t = tl.trans(ds)",
        "one-tile",
        "compile",
        "ds is float32 and q is not: cast ds to q.dtype before the dot.",
    ),
    Mistake(
        "stores-swapped",
        "    tl.store(dk_ptrs, dk, mask=mask_kv)",
        "    tl.store(dk_ptrs, dv, mask=mask_kv)\n    dv = dk",
        "one-tile",
        "wrong",
        "dk and dv are swapped: each is stored where the other belongs.",
    ),
)

GIVEN = (
    Mistake(
        "last-query-tile-dropped",
        _LOOP,
        "for start_m in range(0, N_q // BLOCK_M * BLOCK_M, BLOCK_M):",
        "ragged-queries",
        "wrong",
        "The loop drops the last tile of queries when it is not full.",
    ),
    Mistake(
        "causal-loop-starts-late",
        _LOOP,
        "for start_m in range(start_n // BLOCK_M * BLOCK_M + BLOCK_M if CAUSAL else 0, N_q, "
        "BLOCK_M):",
        "causal-square",
        "wrong",
        "The causal loop starts one tile late: the tile on the diagonal is never visited.",
    ),
    Mistake(
        "do-taken-as-contiguous",
        "do_head = do_ptr + b * stride_dob + h * stride_doh + offs_d * stride_dod",
        "do_head = do_ptr + (b * H + h) * N_q * D + offs_d",
        "sum-backward",
        "oob",
        "do is taken as contiguous: the gradient of o.sum() is one number with strides 0.",
    ),
    Mistake(
        "grid-over-queries",
        "triton.cdiv(N_k, block_n) * B * H",
        "triton.cdiv(N_q, block_m) * B * H",
        "given-scale",
        "uninitialised",
        "The grid counts blocks of queries: here every program owns a block of keys.",
    ),
)

MISTAKES = WEIGHTS + SUMS + GIVEN
