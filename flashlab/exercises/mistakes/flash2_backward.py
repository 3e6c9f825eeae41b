"""What learners write instead of ``solutions/flash2_backward.py``. Floor: course."""

from flashlab.exercise import Mistake

_H_FIRST = "h_first = h_kv * group  # query head h reads key head h // group"
_H_LAST = "h_last = h_first + group"
_FIRST = "first = tl.maximum(start_n - shift, 0) // BLOCK_M * BLOCK_M"
_FULL = "full = start_n + BLOCK_N - 1 - shift"
_LSE = "lse_log2 = lse * LOG2E  # [BLOCK_M]"
_P_T = "p_t = tl.exp2(s_t * scale_log2 - lse_log2[None, :])"
_MASK_T = "p_t = tl.where(offs_n[:, None] <= offs_m[None, :] + shift, p_t, 0.0)"
_IF_FULL = (
    "            if CAUSAL:\n"
    "                if start_m < full:  # only tiles on the diagonal; later queries see all my "
    "keys\n                    "
)
_DV = 'dv = tl.dot(p_t.to(do.dtype), do, dv, input_precision="ieee")'
_DS_T = "ds_t = p_t * (dp_t - delta[None, :])"
_DK = 'dk = tl.dot(ds_t.to(q.dtype), q, dk, input_precision="ieee")'
_P = "p = tl.exp2(s * scale_log2 - lse_log2[:, None])"
_WHERE = "if start_n + BLOCK_N > full:"
_VISIBLE = "visible = mask_n[None, :]"
_DIAGONAL = "visible & (offs_n[None, :] <= offs_m[:, None] + shift)"
_DS = "ds = p * (dp - delta[:, None])"
_DQ = 'dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")'

BOUNDS = (
    Mistake(
        "first-head-of-the-group",
        _H_LAST,
        "h_last = h_first + 1",
        "grouped-heads",
        "wrong",
        "Only the first query head of a group is summed: dk and dv belong to all of them.",
    ),
    Mistake(
        "group-from-the-wrong-head",
        _H_FIRST,
        "h_first = h_kv  # query head h reads key head h // group",
        "grouped-heads",
        "wrong",
        "The group of key head h_kv starts at query head h_kv: it starts at h_kv * group.",
    ),
    Mistake(
        "starts-one-tile-late",
        _FIRST,
        "first = tl.maximum(start_n - shift, 0) // BLOCK_M * BLOCK_M + BLOCK_M",
        "causal-square",
        "wrong",
        "The causal loop starts one tile late: the tile on the diagonal is never visited.",
    ),
    Mistake(
        "first-without-shift",
        _FIRST,
        "first = start_n // BLOCK_M * BLOCK_M",
        "causal-few-queries",
        "wrong",
        "first ignores the shift of the diagonal: with fewer queries than keys, queries that see "
        "this block are skipped.",
    ),
    Mistake(
        "first-rounded-up",
        _FIRST,
        "first = tl.cdiv(tl.maximum(start_n - shift, 0), BLOCK_M) * BLOCK_M",
        "causal-square",
        "wrong",
        "first is rounded up to a tile: round down, the first visible query lies inside its tile.",
    ),
    Mistake(
        "full-at-my-first-key",
        _FULL,
        "full = start_n - shift",
        "causal-square",
        "wrong",
        "full is where my first key becomes visible: all is seen only from the last key on, "
        "start_n + BLOCK_N - 1.",
    ),
    Mistake(
        "full-of-the-wrong-block",
        _FULL,
        "full = start_n + BLOCK_M - 1 - shift",
        "causal-square",
        "wrong",
        "full counts BLOCK_M keys: my block has BLOCK_N of them.",
    ),
    Mistake(
        "full-without-shift",
        _FULL,
        "full = start_n + BLOCK_N - 1",
        "causal-many-queries",
        "nan",
        "full ignores the shift of the diagonal: with more queries than keys it ends too early, "
        "and rows that see no key are not hidden.",
    ),
    Mistake(
        "causal-ignored",
        f"{_IF_FULL}{_MASK_T}\n",
        "",
        "causal-square",
        "wrong",
        "The pass over queries hides no key: tiles on the diagonal need the causal mask.",
    ),
)

QUERIES = (
    Mistake(
        "lse-in-nats",
        _LSE,
        "lse_log2 = lse  # [BLOCK_M]",
        "one-tile",
        "wrong",
        "The scores are in base 2 and lse in nats: multiply lse by log2(e) too.",
    ),
    Mistake(
        "exp-of-base-2",
        _P_T,
        "p_t = tl.exp(s_t * scale_log2 - lse_log2[None, :])",
        "one-tile",
        "wrong",
        "exp is taken of numbers in base 2: use exp2.",
    ),
    Mistake(
        "lse-along-keys",
        _P_T,
        "p_t = tl.exp2(s_t * scale_log2 - lse_log2[:, None])",
        "one-tile",
        "compile",
        "lse is one number a query, and queries are the columns of the transposed tile: "
        "lse_log2[None, :].",
    ),
    Mistake(
        "scores-not-scaled",
        _P_T,
        "p_t = tl.exp2(s_t * LOG2E - lse_log2[None, :])",
        "one-tile",
        "nan",
        "P is recomputed without sm_scale.",
    ),
    Mistake(
        "empty-row-is-nan",
        f"            {_P_T}  # [BLOCK_N, BLOCK_M]\n{_IF_FULL}{_MASK_T}\n",
        "            if CAUSAL:\n"
        "                s_t = tl.where(offs_n[:, None] <= offs_m[None, :] + shift, s_t, "
        'float("-inf"))\n'
        f"            {_P_T}\n",
        "causal-many-queries",
        "nan",
        "A row that sees no key computes exp2(-inf - -inf), which is NaN, and its NaN spreads "
        "through ds: set hidden weights to 0 after exp2.",
    ),
    Mistake(
        "mask-reversed",
        _MASK_T,
        "p_t = tl.where(offs_n[:, None] >= offs_m[None, :] + shift, p_t, 0.0)",
        "causal-square",
        "wrong",
        "The causal mask of the transposed tile is reversed.",
    ),
    Mistake(
        "mask-without-the-diagonal",
        _MASK_T,
        "p_t = tl.where(offs_n[:, None] < offs_m[None, :] + shift, p_t, 0.0)",
        "causal-square",
        "wrong",
        "The causal mask uses < where <= is meant: a query sees itself.",
    ),
    Mistake(
        "mask-top-left",
        _MASK_T,
        "p_t = tl.where(offs_n[:, None] <= offs_m[None, :], p_t, 0.0)",
        "causal-few-queries",
        "wrong",
        "The mask ignores the shift: the diagonal ends in the bottom right corner.",
    ),
    Mistake(
        "dv-overwritten",
        _DV,
        'dv = tl.dot(p_t.to(do.dtype), do, input_precision="ieee")',
        "two-tiles",
        "wrong",
        "dv is overwritten by every tile: only the last tile of queries is left.",
    ),
    Mistake(
        "dk-overwritten",
        _DK,
        'dk = tl.dot(ds_t.to(q.dtype), q, input_precision="ieee")',
        "two-tiles",
        "wrong",
        "dk is overwritten by every tile: only the last tile of queries is left.",
    ),
    Mistake(
        "dk-scaled-twice",
        _DS_T,
        "ds_t = p_t * (dp_t - delta[None, :]) * sm_scale",
        "one-tile",
        "wrong",
        "ds is scaled in the tile and dk once more at the end.",
    ),
    Mistake(
        "delta-forgotten",
        _DS_T,
        "ds_t = p_t * dp_t",
        "one-tile",
        "wrong",
        "delta is not subtracted in the pass over queries: ds = p * (dp - delta).",
    ),
    Mistake(
        "p-in-fp16",
        _DV,
        'dv = tl.dot(p_t.to(tl.float16), do.to(tl.float16), dv, input_precision="ieee")',
        "fp32",
        "wrong",
        "p and do are cast to fp16 whatever their dtype is.",
    ),
)

KEYS = (
    Mistake(
        "padding-keys-count",
        _VISIBLE,
        "visible = (offs_n >= 0)[None, :]",
        "ragged-keys",
        "nan",
        "Keys beyond the last one are not hidden in dq: their weight exp2(-lse) overflows, and "
        "infinity times 0 is NaN.",
    ),
    Mistake(
        "mask-starts-too-late",
        _WHERE,
        "if start_n >= full:",
        "ragged-keys",
        "nan",
        "The mask of dq starts with the first tile beyond full, but the tile that full lies in "
        "holds hidden keys already.",
    ),
    Mistake(
        "dq-mask-without-shift",
        _DIAGONAL,
        "visible & (offs_n[None, :] <= offs_m[:, None])",
        "causal-few-queries",
        "wrong",
        "The mask of dq ignores the shift: the diagonal ends in the bottom right corner.",
    ),
    Mistake(
        "dq-weights-in-nats",
        _P,
        "p = tl.exp(s * scale_log2 - lse_log2[:, None])",
        "one-tile",
        "wrong",
        "exp is taken of numbers in base 2 in dq: use exp2.",
    ),
    Mistake(
        "dq-delta-forgotten",
        _DS,
        "ds = p * dp",
        "one-tile",
        "wrong",
        "delta is not subtracted in dq: ds = p * (dp - delta).",
    ),
    Mistake(
        "dq-scaled-twice",
        _DS,
        "ds = p * (dp - delta[:, None]) * sm_scale",
        "one-tile",
        "wrong",
        "ds is scaled in the tile and dq once more at the end.",
    ),
    Mistake(
        "dq-overwritten",
        _DQ,
        'dq = tl.dot(ds.to(k.dtype), k, input_precision="ieee")',
        "two-tiles",
        "wrong",
        "dq is overwritten by every tile: only the last tile of keys is left.",
    ),
)

GIVEN = (
    Mistake(
        "key-head-by-remainder",
        "h_kv = h // (H // H_kv)",
        "h_kv = h % H_kv",
        "grouped-heads",
        "wrong",
        "Query head h reads key head h % H_kv: groups are neighbours, so it is h // (H / H_kv).",
    ),
    Mistake(
        "grid-over-query-heads",
        "triton.cdiv(N_k, kept) * B * H_kv",
        "triton.cdiv(N_k, kept) * B * H",
        "grouped-heads",
        "oob",
        "The grid of dk and dv counts query heads: a program owns keys, of B * H_kv heads.",
    ),
    Mistake(
        "returned-in-wrong-order",
        "    return dq, dk, dv\n",
        "    return dk, dv, dq\n",
        "one-tile",
        "contract",
        "The outputs are returned in the wrong order: (dq, dk, dv) is expected.",
    ),
)

MISTAKES = BOUNDS + QUERIES + KEYS + GIVEN
