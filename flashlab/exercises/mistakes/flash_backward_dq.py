"""What learners write instead of ``solutions/flash_backward_dq.py``. Floor: course."""

from flashlab.exercise import Mistake

_S = 's = sm_scale * tl.dot(q, tl.trans(k), input_precision="ieee")'
_P = "p = tl.where(visible, tl.exp(s - lse[:, None]), 0.0)"
_VISIBLE = "visible = mask_n[None, :]"
_CAUSAL = "visible & (offs_n[None, :] <= offs_m[:, None] + N_k - N_q)"
_DP = 'dp = tl.dot(do, tl.trans(v), input_precision="ieee")'
_DS = "ds = p * (dp - delta[:, None])"
_CAST = "ds = ds.to(k.dtype)"
_DQ = 'dq = tl.dot(ds, k, dq, input_precision="ieee")'
_SCALE = "    dq *= sm_scale  # once, not in every tile\n"
_LOOP = "for start_n in range(0, N_k, BLOCK_N):"

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
        "padding-keys-count",
        _VISIBLE,
        "visible = (offs_n >= 0)[None, :]",
        "ragged-keys",
        "nan",
        "Keys beyond the last one are not hidden: their weight exp(0 - lse) overflows, and "
        "infinity times 0 is NaN.",
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
        "key-mask-one-too-many",
        "mask_n = offs_n < N_k",
        "mask_n = offs_n <= N_k",
        "ragged-keys",
        "oob",
        "The key mask uses <= where < is meant: key N_k does not exist.",
    ),
)

SUMS = (
    Mistake(
        "delta-forgotten",
        _DS,
        "ds = p * dp",
        "one-tile",
        "wrong",
        "delta is not subtracted: ds = p * (dp - delta).",
    ),
    Mistake(
        "keys-for-values",
        "dp = tl.dot(do, tl.trans(v)",
        "dp = tl.dot(do, tl.trans(k)",
        "one-tile",
        "wrong",
        "dp is do times the keys: do_i looks at the values, dp_ij = do_i . v_j.",
    ),
    Mistake(
        "maximum-for-lse",
        "tl.exp(s - lse[:, None])",
        "tl.exp(s - tl.max(s, 1)[:, None])",
        "one-tile",
        "wrong",
        "The weights are exp(s - max(s)): subtract lse, which holds maximum and sum of the row.",
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
        "v-without-other",
        "v = tl.load(v_ptrs, mask=mask_kv, other=0.0)  # [BLOCK_N, BLOCK_D], once per program\n"
        "        dp",
        "v = tl.load(v_ptrs, mask=mask_kv)\n        dp",
        "ragged-keys",
        "uninitialised",
        "v is loaded with a mask but without other=: the lanes that are off hold garbage, and "
        "0 times garbage may be NaN.",
    ),
    Mistake(
        "dq-from-v",
        _DQ,
        'dq = tl.dot(ds, v, dq, input_precision="ieee")',
        "one-tile",
        "wrong",
        "dq is ds v: the right side has to be k.",
    ),
    Mistake(
        "dq-from-p",
        _CAST,
        "ds = p.to(k.dtype)",
        "one-tile",
        "wrong",
        "dq is summed from p: it needs ds.",
    ),
    Mistake(
        "dq-not-scaled",
        _SCALE,
        "",
        "one-tile",
        "wrong",
        "dq is never multiplied by sm_scale.",
    ),
    Mistake(
        "dq-scaled-twice",
        _SCALE,
        "    dq *= sm_scale * sm_scale\n",
        "one-tile",
        "wrong",
        "dq is scaled twice.",
    ),
    Mistake(
        "dq-scaled-in-every-tile",
        _DQ,
        'dq = tl.dot(ds, k, dq * sm_scale, input_precision="ieee")',
        "two-tiles",
        "wrong",
        "The running sum dq is scaled in every tile: what was summed first shrinks again and "
        "again.",
    ),
    Mistake(
        "dq-overwritten",
        _DQ,
        'dq = tl.dot(ds, k, input_precision="ieee")',
        "two-tiles",
        "wrong",
        "dq is overwritten by every tile: only the last tile of keys is left.",
    ),
    Mistake(
        "ds-not-cast",
        f"        {_CAST}  # cast: tensor cores take short types\n",
        "",
        "one-tile",
        "compile",
        "ds is float32 and k is not: cast ds to k.dtype before the dot.",
    ),
    Mistake(
        "ds-in-fp16",
        f"{_CAST}  # cast: tensor cores take short types\n        {_DQ}",
        "ds = ds.to(tl.float16)\n"
        '        dq = tl.dot(ds, k.to(tl.float16), dq, input_precision="ieee")',
        "fp32",
        "wrong",
        "ds and k are cast to fp16 whatever their dtype is.",
    ),
    Mistake(
        "dq-unmasked",
        "tl.store(dq_ptrs, dq, mask=mask_q)",
        "tl.store(dq_ptrs, dq)",
        "ragged-queries",
        "oob",
        "dq is stored without a mask: the last block writes past the last query.",
    ),
)

GIVEN = (
    Mistake(
        "last-key-tile-dropped",
        _LOOP,
        "for start_n in range(0, N_k // BLOCK_N * BLOCK_N, BLOCK_N):",
        "ragged-keys",
        "wrong",
        "The loop drops the last tile of keys when it is not full.",
    ),
    Mistake(
        "causal-loop-stops-early",
        _LOOP,
        "for start_n in range(0, tl.minimum(N_k, start_m) if CAUSAL else N_k, BLOCK_N):",
        "causal-square",
        "wrong",
        "The causal loop stops one tile early: the tile on the diagonal is never visited.",
    ),
    Mistake(
        "do-taken-as-contiguous",
        "do_ptrs = do_head + rows[:, None] * stride_dom + offs_d * stride_dod",
        "do_ptrs = do_ptr + ((b * H + h) * N_q + rows[:, None]) * D + offs_d",
        "sum-backward",
        "oob",
        "do is taken as contiguous: the gradient of o.sum() is one number with strides 0.",
    ),
    Mistake(
        "grid-over-keys",
        "triton.cdiv(N_q, block_m) * B * H",
        "triton.cdiv(N_k, block_n) * B * H",
        "given-scale",
        "oob",
        "The grid counts blocks of keys: here every program owns a block of queries.",
    ),
)

MISTAKES = WEIGHTS + SUMS + GIVEN
