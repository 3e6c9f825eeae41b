"""What learners write instead of ``solutions/tma_forward.py``. Floor: course."""

from flashlab.exercise import Mistake
from flashlab.exercises.mistakes.flash2_forward import MISTAKES as WITH_POINTERS

_SHAPE = "shape=[N, D],  # what"
_STRIDES = "strides=[stride_n, 1]"
_BOX = "block_shape=[ROWS, BLOCK_D],"
_K = "k = k_head.load([start_n, 0])"
_S = 's = tl.dot(q, tl.trans(k), input_precision="ieee")'
_IF = "if CAUSAL or RAGGED:"
_V = "v = v_head.load([start_n, 0])"
_O = "o = acc * (1.0 / l_safe)[:, None]"
_STORE = "o_head.store([start_m, 0], o)"
_HIDE = 's = tl.where(visible, s, float("-inf"))'

BOXES = (
    Mistake(
        "shape-of-the-box",
        _SHAPE,
        "shape=[ROWS, BLOCK_D],  # what",
        "two-tiles",
        "uninitialised",
        "The descriptor's shape is that of a box: it has to be the head's, N rows of D.",
    ),
    Mistake(
        "columns-of-the-box",
        _SHAPE,
        "shape=[N, BLOCK_D],  # what",
        "odd-head-dim",
        "oob",
        "The descriptor has BLOCK_D columns, but a row ends after D.",
    ),
    Mistake(
        "rows-rounded-up",
        _SHAPE,
        "shape=[tl.cdiv(N, ROWS) * ROWS, D],  # what",
        "ragged-keys",
        "oob",
        "The descriptor's rows are rounded up to whole boxes: the head ends after N rows.",
    ),
    Mistake(
        "one-row-short",
        _SHAPE,
        "shape=[N - 1, D],  # what",
        "one-tile",
        "uninitialised",
        "The descriptor ends one row early: its shape counts rows, it is not the last one.",
    ),
    Mistake(
        "all-rows-there-are",
        _SHAPE,
        "shape=[2**30, D],  # what",
        "ragged-keys",
        "oob",
        "The descriptor never ends: rows beyond N belong to the next head.",
    ),
    Mistake(
        "rows-side-by-side",
        _STRIDES,
        "strides=[D, 1]",
        "one-tile",
        "oob",
        "The rows are taken to lie D apart: use the stride that the tensor has.",
    ),
    Mistake(
        "rows-of-the-box-apart",
        _STRIDES,
        "strides=[BLOCK_D, 1]",
        "one-tile",
        "oob",
        "The rows are taken to lie BLOCK_D apart: use the stride that the tensor has.",
    ),
    Mistake(
        "columns-first",
        f"{_SHAPE} lies outside is not read (zeros come) and not written\n        {_STRIDES}",
        f"shape=[D, N],  # what\n        {_STRIDES.replace('stride_n, 1', '1, stride_n')}",
        "one-tile",
        "compile",
        "D comes first in the descriptor: the last dimension has to be the one with stride 1.",
    ),
    Mistake(
        "box-of-d-columns",
        _BOX,
        "block_shape=[ROWS, D],",
        "odd-head-dim",
        "compile",
        "The box has D columns: its sizes have to be powers of two, so it is BLOCK_D wide.",
    ),
    Mistake(
        "nan-outside",
        _BOX,
        f"{_BOX} padding_option='nan',",
        "ragged-keys",
        "nan",
        "The descriptor brings NaN for rows beyond the last: 0 * NaN is NaN, so let zeros come.",
    ),
    Mistake(
        "keys-end-with-the-queries",
        "k_ptr + b * stride_kb + h_kv * stride_kh, N_k, D",
        "k_ptr + b * stride_kb + h_kv * stride_kh, N_q, D",
        "one-tile",
        "wrong",
        "The keys are described as N_q rows: there are N_k of them.",
    ),
    Mistake(
        "values-by-the-steps-of-keys",
        "D, stride_vn, BLOCK_N",
        "D, stride_kn, BLOCK_N",
        "shared",
        "nan",
        "The rows of v are taken to lie stride_kn apart: v has steps of its own.",
    ),
    Mistake(
        "output-between-steps",
        "    o = torch.empty([B, H, N_q, triton.cdiv(D, step) * step], dtype=q.dtype, "
        "device=q.device)\n    o = o[..., :D]\n",
        "    o = torch.empty([B, H, N_q, D], dtype=q.dtype, device=q.device)\n",
        "columns-inside-rows",
        "crash",
        "Rows of o are D elements long: a descriptor needs whole steps of 16 bytes.",
    ),
)

COORDINATES = (
    Mistake(
        "number-of-the-tile",
        _K,
        "k = k_head.load([start_n // BLOCK_N, 0])",
        "two-tiles",
        "wrong",
        "Keys are named by the number of their tile: coordinates count rows, not boxes.",
    ),
    Mistake(
        "first-tile-for-ever",
        _K,
        "k = k_head.load([0, 0])",
        "two-tiles",
        "wrong",
        "Every round scores the first tile of keys: its row is start_n.",
    ),
    Mistake(
        "keys-where-my-queries-are",
        _K,
        "k = k_head.load([start_m, 0])",
        "two-tiles",
        "wrong",
        "Keys are loaded from start_m, the row of my queries: the tile starts at start_n.",
    ),
    Mistake(
        "last-tile-moved-back",
        _K,
        "k = k_head.load([tl.maximum(tl.minimum(start_n, N_k - BLOCK_N), 0), 0])",
        "ragged-keys",
        "wrong",
        "The last tile of keys starts earlier so that it is full, but its columns still count as "
        "keys from start_n on.",
    ),
    Mistake(
        "coordinates-exchanged",
        _K,
        "k = k_head.load([0, start_n])",
        "two-tiles",
        "wrong",
        "The coordinates are exchanged: the row comes first, then the column.",
    ),
    Mistake(
        "values-scored",
        _K,
        "k = v_head.load([start_n, 0])",
        "one-tile",
        "wrong",
        "The scores are taken of the values: k comes from k_head.",
    ),
    Mistake(
        "keys-added",
        _V,
        "v = k_head.load([start_n, 0])",
        "one-tile",
        "wrong",
        "The keys are added to acc: v comes from v_head.",
    ),
    Mistake(
        "values-of-the-first-tile",
        _V,
        "v = v_head.load([0, 0])",
        "two-tiles",
        "wrong",
        "Every round adds the first tile of values: its row is start_n.",
    ),
    Mistake(
        "key-tile-not-transposed",
        _S,
        's = tl.dot(q, k, input_precision="ieee")',
        "one-tile",
        "compile",
        "k is [BLOCK_N, BLOCK_D] as loaded: the product needs it transposed.",
    ),
    Mistake(
        "stored-by-number",
        _STORE,
        "o_head.store([start_m // BLOCK_M, 0], o)",
        "two-tiles",
        "race",
        "o is stored at the number of the block: coordinates count rows, so it is start_m.",
    ),
    Mistake(
        "stored-at-the-start",
        _STORE,
        "o_head.store([0, 0], o)",
        "two-tiles",
        "race",
        "Every program stores o at row 0: mine are from start_m on.",
    ),
    Mistake(
        "stored-over-q",
        _STORE,
        "q_head.store([start_m, 0], o)",
        "one-tile",
        "uninitialised",
        "o is stored through q_head, over the queries.",
    ),
    Mistake(
        "sums-stored",
        _STORE,
        "o_head.store([start_m, 0], acc)",
        "one-tile",
        "wrong",
        "acc is stored undivided: store o.",
    ),
)

HIDDEN = (
    Mistake(
        "zeros-score",
        _IF,
        "if CAUSAL:",
        "ragged-keys",
        "wrong",
        "Rows of zeros beyond the last key take part in the softmax: a load hides nothing, also "
        "without a causal mask.",
    ),
    Mistake(
        "causal-only-if-ragged",
        _IF,
        "if RAGGED:",
        "causal-square",
        "wrong",
        "Keys are hidden only where the last tile is not full: a causal mask hides some too.",
    ),
    Mistake(
        "last-tile-alone",
        "if start_n + BLOCK_N > full:",
        "if start_n + BLOCK_N > N_k:",
        "causal-square",
        "wrong",
        "Keys are hidden in the last tile alone: under a causal mask hidden ones start at full.",
    ),
    Mistake(
        "tile-with-one-hidden-key",
        "if start_n + BLOCK_N > full:",
        "if start_n + BLOCK_N > full + 1:",
        "causal-one-hidden",
        "wrong",
        "A tile that reaches one key beyond full is not masked: its first query must not see it.",
    ),
    Mistake(
        "one-key-beyond-the-last",
        "visible = (offs_n < N_k)[None, :]",
        "visible = (offs_n <= N_k)[None, :]",
        "ragged-keys",
        "wrong",
        "Key N_k counts, a row of zeros: the last key is N_k - 1.",
    ),
    Mistake(
        "columns-of-the-tile",
        "offs_n = start_n + keys",
        "offs_n = keys",
        "ragged-keys",
        "wrong",
        "Keys to hide are counted from the start of the tile: its first one is start_n.",
    ),
    Mistake(
        "hidden-by-a-large-number",
        _HIDE,
        "s = tl.where(visible, s, -10000.0)",
        "causal-many-queries",
        "wrong",
        "Hidden scores are -10000, not -inf: a query that sees no key then weighs all alike.",
    ),
    Mistake(
        "key-head-by-remainder",
        "h_kv = h // (H // H_kv)",
        "h_kv = h % H_kv",
        "grouped-heads",
        "wrong",
        "Query head h reads key head h % H_kv: neighbours share a key head, so it is h // (H / "
        "H_kv).",
    ),
)

TAKEN_OVER = (
    "sum-not-rescaled output-not-rescaled rescaled-after-adding output-overwritten p-not-cast "
    "fp16-inside never-divided multiplied-by-the-sum empty-row-maximum-unguarded "
    "empty-row-sum-unguarded lse-in-base-2 stops-before-the-diagonal end-without-shift "
    "scores-in-fp16 scale-rounded-into-q mask-starts-one-tile-late padding-keys-count "
    "hidden-by-zero causal-without-the-diagonal causal-reversed causal-top-left "
    "values-of-the-query-head grid-rounds-down outputs-swapped lse-not-returned "
    "sign-of-the-scale-lost zero-taken-for-no-scale"
).split()

MISTAKES = (
    *BOXES,
    *COORDINATES,
    *HIDDEN,
    *(m for m in WITH_POINTERS if m.slug in TAKEN_OVER),
)
