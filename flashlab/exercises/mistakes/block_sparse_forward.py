"""What learners write instead of ``solutions/block_sparse_forward.py``. Floor: course."""

from flashlab.exercise import Mistake

_PLACE = "place = tl.cumsum(ones, 0) - ones"
_STORE = "tl.store(list_row + place, offs_t, mask=keep)"
_COUNT = "count = tl.sum(ones, 0)"
_START = "start_n = tile * BLOCK_N"
_NEXT = "tile = tl.load(list_row + (i + 1) * stride_tn, mask=i + 1 < count, other=0)"
_K = "k = load_tile(k_ptrs, mask_kv, TAIL or D < BLOCK_D)"
_V = "v = load_tile(v_ptrs, mask_kv, TAIL or D < BLOCK_D)"
_WHERE = 's = tl.where(mask_n[None, :], s, float("-inf"))'
_DOT = 's = tl.dot(q, tl.trans(k), input_precision="ieee")'
_P = "p = tl.exp2(scale_log2 * s - m_new[:, None])"
_SUM = "l_i = alpha * l_i + tl.sum(p, 1)"
_ACC = 'acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")'
_LSE = "lse = m_i * LN2 + tl.log(l_safe)"

LISTS = (
    Mistake(
        "place-counts-itself",
        _PLACE,
        "place = tl.cumsum(ones, 0)",
        "one-tile",
        "oob",
        "The running sum counts the tile itself: every number lands one place too far.",
    ),
    Mistake(
        "not-compacted",
        _STORE,
        "tl.store(list_row + offs_t, offs_t, mask=keep)",
        "holes",
        "uninitialised",
        "The numbers are stored where their tiles stand in the row: the list has holes.",
    ),
    Mistake(
        "flags-for-numbers",
        _STORE,
        "tl.store(list_row + place, ones, mask=keep)",
        "one-tile",
        "nan",
        "The list holds the flags, which are all 1, and not the numbers of the tiles.",
    ),
    Mistake(
        "list-of-dropped-tiles",
        "ones = keep.to(tl.int32)\n",
        "ones = 1 - keep.to(tl.int32)\n    keep = (ones > 0) & (offs_t < T_k)\n"
        "    ones = keep.to(tl.int32)\n",
        "one-tile",
        "wrong",
        "The list holds the tiles that the mask drops: True means that a tile is kept.",
    ),
    Mistake(
        "every-tile-counted",
        _COUNT,
        "count = T_k",
        "holes",
        "uninitialised",
        "count is the length of the mask's row, not the number of tiles that it keeps.",
    ),
    Mistake(
        "last-place-for-count",
        _COUNT,
        "count = tl.max(place, 0)",
        "one-tile",
        "wrong",
        "count is the last place in the list: with places from 0 on, that is one too few.",
    ),
    Mistake(
        "mask-ignored",
        "ones = keep.to(tl.int32)\n",
        "keep = offs_t < T_k\n    ones = keep.to(tl.int32)\n",
        "holes",
        "wrong",
        "The list holds every tile, whatever the mask says.",
    ),
    Mistake(
        "mask-columns-taken-as-contiguous",
        "offs_t.to(tl.int64) * stride_mn",
        "offs_t.to(tl.int64)",
        "permuted",
        "oob",
        "The columns of block_mask are taken as neighbours in memory: use stride_mn.",
    ),
    Mistake(
        "mask-rows-and-columns-swapped",
        "row % T_q * stride_mm\n    keep = tl.load(mask_row + offs_t.to(tl.int64) * stride_mn,",
        "row % T_q * stride_mn\n    keep = tl.load(mask_row + offs_t.to(tl.int64) * stride_mm,",
        "heads",
        "oob",
        "block_mask is read transposed: a row stands for a block of queries.",
    ),
    Mistake(
        "lists-of-head-0",
        "list_row = list_ptr + h * stride_th +",
        "list_row = list_ptr +",
        "heads",
        "uninitialised",
        "Every head walks the lists of head 0.",
    ),
    Mistake(
        "list-of-the-first-block",
        "my_block.to(tl.int64) * stride_tm",
        "my_block.to(tl.int64) * 0",
        "heads",
        "uninitialised",
        "Every block of queries walks the list of the first one.",
    ),
)

WALK = (
    Mistake(
        "loop-counter-for-tile",
        _START,
        "start_n = i * BLOCK_N",
        "holes",
        "wrong",
        "start_n follows the loop counter: the i-th kept tile is not the i-th tile.",
    ),
    Mistake(
        "tile-not-multiplied",
        _START,
        "start_n = tile",
        "holes",
        "wrong",
        "start_n is the number of the tile: it has to be multiplied by BLOCK_N.",
    ),
    Mistake(
        "tile-of-the-wrong-size",
        _START,
        "start_n = tile * BLOCK_M",
        "holes",
        "oob",
        "Tiles of keys are counted in BLOCK_M, the rows of a query block.",
    ),
    Mistake(
        "same-tile-again",
        _NEXT,
        "tile = tl.load(list_row + i * stride_tn, mask=i < count, other=0)",
        "holes",
        "wrong",
        "Entry i of the list is loaded where entry i + 1 is next: the first tile counts twice.",
    ),
    Mistake(
        "tile-never-moves",
        _NEXT,
        "tile = tile",
        "holes",
        "wrong",
        "The next number of the list is never loaded: the first tile is visited every time.",
    ),
    Mistake(
        "neighbour-for-next",
        _NEXT,
        "tile = tile + 1",
        "holes",
        "wrong",
        "The next tile is taken to be the neighbour, kept or not: it stands in the list.",
    ),
    Mistake(
        "list-read-past-its-end",
        _NEXT,
        "tile = tl.load(list_row + (i + 1) * stride_tn)",
        "one-tile",
        "oob",
        "The last round asks for one more entry, which the list does not have: mask that load.",
    ),
    Mistake(
        "whole-tiles-only",
        "whole + (count - whole) * TAIL",
        "whole",
        "ragged-keys",
        "wrong",
        "The last tile is dropped when it is not full.",
    ),
)

SCORES = (
    Mistake(
        "k-never-masked",
        _K,
        "k = load_tile(k_ptrs, mask_kv, False)",
        "ragged-keys",
        "oob",
        "k is loaded without a mask in the last tile too: it reads past the last key.",
    ),
    Mistake(
        "v-never-masked",
        _V,
        "v = load_tile(v_ptrs, mask_kv, False)",
        "ragged-keys",
        "oob",
        "v is loaded without a mask in the last tile too: it reads past the last key.",
    ),
    Mistake(
        "columns-never-masked",
        _K,
        "k = load_tile(k_ptrs, mask_kv, TAIL)",
        "odd-head-dim",
        "oob",
        "k is read beyond column D in whole tiles: those columns belong to the next row.",
    ),
    Mistake(
        "padding-keys-count",
        _WHERE,
        "s = s",
        "ragged-keys",
        "wrong",
        "Lanes beyond the last key keep the score 0 and take part in the softmax.",
    ),
    Mistake(
        "scale-missing",
        _DOT,
        f"{_DOT} / scale_log2",
        "one-tile",
        "wrong",
        "The scores are not scaled: scale_log2 is never used.",
    ),
    Mistake(
        "k-not-transposed",
        "tl.dot(q, tl.trans(k),",
        "tl.dot(q, k,",
        "one-tile",
        "compile",
        "k is not transposed: the dot needs [BLOCK_M, BLOCK_D] times [BLOCK_D, BLOCK_N].",
    ),
    Mistake(
        "natural-exp",
        _P,
        _P.replace("exp2", "exp"),
        "one-tile",
        "wrong",
        "exp is used on scores in base 2: take exp2.",
    ),
    Mistake(
        "exp2-of-natural-scores",
        "float(sm_scale)) * LOG2E",
        "float(sm_scale))",
        "one-tile",
        "wrong",
        "exp2 is used on natural scores: the factor log2(e) is missing.",
    ),
)

STATE = (
    Mistake(
        "sum-not-rescaled",
        _SUM,
        "l_i = l_i + tl.sum(p, 1)",
        "holes",
        "wrong",
        "l_i is not rescaled by alpha when the maximum rises.",
    ),
    Mistake(
        "output-not-rescaled",
        _ACC,
        'acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")',
        "holes",
        "wrong",
        "acc is not rescaled by alpha when the maximum rises: early keys weigh too much.",
    ),
    Mistake(
        "output-overwritten",
        _ACC,
        'acc = tl.dot(p.to(v.dtype), v, input_precision="ieee")',
        "holes",
        "wrong",
        "acc is overwritten by p @ v: only the last tile is left.",
    ),
    Mistake(
        "divided-in-the-loop",
        _ACC,
        f"{_ACC}\n            acc = acc / l_i[:, None]",
        "one-tile",
        "wrong",
        "acc is divided in the loop and once more at the end: here the division comes last.",
    ),
    Mistake(
        "p-not-cast",
        "tl.dot(p.to(v.dtype), v,",
        "tl.dot(p, v,",
        "one-tile",
        "compile",
        "p is float32 and v is not: cast p to v.dtype before the dot.",
    ),
    Mistake(
        "fp16-inside",
        "tl.dot(p.to(v.dtype), v,",
        "tl.dot(p.to(tl.float16), v.to(tl.float16),",
        "fp32",
        "wrong",
        "p or v passes through fp16 though the inputs are float32: cast p to v.dtype.",
    ),
)

FINISH = (
    Mistake(
        "empty-list-unguarded",
        "l_safe = tl.where(l_i == 0.0, 1.0, l_i)",
        "l_safe = l_i",
        "empty-rows",
        "nan",
        "A block of queries without any tile has l_i = 0, and 0 / 0 is NaN: divide by 1 there.",
    ),
    Mistake(
        "never-divided",
        "acc * (1.0 / l_safe)[:, None]",
        "acc",
        "one-tile",
        "wrong",
        "acc is never divided by l_i.",
    ),
    Mistake(
        "maximum-in-base-2",
        _LSE,
        "lse = m_i + tl.log(l_safe)",
        "one-tile",
        "wrong",
        "lse mixes bases: m_i is in base 2, multiply it by ln 2.",
    ),
    Mistake(
        "lse-base-2",
        _LSE,
        "lse = m_i + tl.log2(l_safe)",
        "one-tile",
        "wrong",
        "lse is in base 2: it has to be in nats, so multiply it by ln 2.",
    ),
    Mistake(
        "lse-without-maximum",
        _LSE,
        "lse = tl.log(l_safe)",
        "one-tile",
        "wrong",
        "lse is log l alone: the maximum m is missing.",
    ),
    Mistake(
        "o-unmasked",
        "tl.store(o_ptrs, acc * (1.0 / l_safe)[:, None], mask=mask_q)",
        "tl.store(o_ptrs, acc * (1.0 / l_safe)[:, None])",
        "ragged-queries",
        "oob",
        "o is stored without a mask: the last block writes past the last query.",
    ),
)

MISTAKES = LISTS + WALK + SCORES + STATE + FINISH
