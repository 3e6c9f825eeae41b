"""What learners write instead of ``solutions/split_kv_decode.py``. Floor: course."""

from flashlab.exercise import Mistake

_H = "h = h_kv * GROUP + offs_g"
_MASK_G = "mask_g = offs_g < GROUP\n"
_TILES = "tiles = tl.cdiv(length, BLOCK_N)"
_SHARE = "share = tl.cdiv(tiles, num_splits) * BLOCK_N"
_FIRST = "first = split * share"
_LAST = "last = tl.minimum(first + share, length)"
_MASK_N = "mask_n = offs_n < last"
_V = "v = tl.load(v_tile + start * stride_vn, mask=mask_kv, other=0.0)"
_S = 's = sm_scale * tl.dot(q, tl.trans(k), input_precision="ieee")'
_HIDE = 's = tl.where(mask_n[None, :], s, float("-inf"))'
_MAX = "m_new = tl.maximum(m_i, tl.max(s, 1))"
_L = "l_i = alpha * l_i + tl.sum(p, 1)"
_ACC = 'acc = tl.dot(p.to(v.dtype), v, acc * alpha[:, None], input_precision="ieee")'
_L_SAFE = "l_safe = tl.where(l_i == 0.0, 1.0, l_i)"
_STORE_O = "tl.store(o_part_ptrs, acc / l_safe[:, None], mask=mask_q)"
_STORE_LSE = "tl.store(lse_part_ptrs, m_i + tl.log(l_safe), mask=mask_g)"
_M_SAFE = 'm_safe = tl.where(m_next == float("-inf"), 0.0, m_next)'
_M_NEXT = "m_next = tl.maximum(m_all, tl.max(lse_s, 0))"
_W = "w = tl.exp(lse_s - m_safe)"
_L_ALL = "l_all = shrink * l_all + tl.sum(w, 0)"
_O = "o = shrink * o + tl.sum(w[:, None] * o_s, 0)"

_SHARES = (
    Mistake(
        "share-rounded-down",
        _SHARE,
        "share = tiles // num_splits * BLOCK_N",
        "uneven-shares",
        "wrong",
        "The tiles are divided among the shares rounded down: the last tiles belong to nobody.",
    ),
    Mistake(
        "tiles-rounded-down",
        _TILES,
        "tiles = length // BLOCK_N",
        "ragged-keys",
        "wrong",
        "The number of tiles is rounded down: keys of the last, partly filled tile are forgotten.",
    ),
    Mistake(
        "share-of-keys-not-tiles",
        _SHARE,
        "share = tl.cdiv(tiles, num_splits)",
        "one-share",
        "wrong",
        "share counts tiles, but first and last count keys: multiply by BLOCK_N.",
    ),
    Mistake(
        "every-share-starts-at-zero",
        _FIRST,
        "first = 0 * share",
        "four-shares",
        "wrong",
        "Every share starts at key 0: all programs do the same keys.",
    ),
    Mistake(
        "share-runs-to-the-end",
        _LAST,
        "last = length",
        "four-shares",
        "wrong",
        "A share does not end where the next one begins: later keys are counted several times.",
    ),
    Mistake(
        "share-runs-past-the-cache",
        _LAST,
        "last = first + share",
        "ragged-keys",
        "oob",
        "The last share does not stop at the last key: it reads past the cache.",
    ),
    Mistake(
        "lengths-ignored",
        _LAST,
        "last = tl.minimum(first + share, N)",
        "lengths",
        "nan",
        "The share ends at N instead of the batch's own length: it reads keys that do not exist.",
    ),
    Mistake(
        "first-head-of-the-group-alone",
        _H,
        "h = h_kv * GROUP + 0 * offs_g",
        "grouped-heads",
        "wrong",
        "Every row of the query tile is the first head of the group: add offs_g.",
    ),
    Mistake(
        "heads-far-apart",
        _H,
        "h = h_kv + H_kv * offs_g",
        "grouped-heads",
        "wrong",
        "The heads of a group are taken H_kv apart; query head h reads key head h // GROUP, so "
        "they are neighbours.",
    ),
    Mistake(
        "idle-rows-not-masked",
        _MASK_G,
        "mask_g = offs_g < BLOCK_G\n",
        "one-share",
        "oob",
        "mask_g keeps the idle rows of the query tile: they are heads of another group, or none.",
    ),
)

_TILE = (
    Mistake(
        "values-unmasked",
        _V,
        "v = tl.load(v_tile + start * stride_vn, mask=mask_d, other=0.0)",
        "ragged-keys",
        "oob",
        "v is loaded without the mask of the keys: the last tile reads past the cache.",
    ),
    Mistake(
        "tail-scores-zero",
        _HIDE,
        "s = tl.where(mask_n[None, :], s, 0.0)",
        "ragged-keys",
        "wrong",
        "Keys that do not exist get the score 0: it must be -inf, a weight of nothing.",
    ),
    Mistake(
        "mask-one-key-too-many",
        _MASK_N,
        "mask_n = offs_n <= last",
        "ragged-keys",
        "oob",
        "The mask takes one key too many: < last, not <=.",
    ),
    Mistake(
        "scale-forgotten",
        _S,
        's = tl.dot(q, tl.trans(k), input_precision="ieee")',
        "one-share",
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
        "one-share",
        "wrong",
        "The sum l_i is not rescaled by alpha when the maximum grows.",
    ),
    Mistake(
        "output-not-rescaled",
        _ACC,
        'acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")',
        "one-share",
        "wrong",
        "acc is not rescaled by alpha when the maximum grows.",
    ),
)

_PARTS = (
    Mistake(
        "part-not-divided",
        _STORE_O,
        "tl.store(o_part_ptrs, acc + 0.0 * l_safe[:, None], mask=mask_q)",
        "one-share",
        "wrong",
        "A part is stored without its division by l_i, but merged as if it were a mean.",
    ),
    Mistake(
        "part-lse-without-maximum",
        _STORE_LSE,
        "tl.store(lse_part_ptrs, tl.log(l_safe) + 0.0 * l_i, mask=mask_g)",
        "one-share",
        "wrong",
        "The part's lse is log l alone: the maximum m is missing.",
    ),
    Mistake(
        "part-lse-base-2",
        _STORE_LSE,
        "tl.store(lse_part_ptrs, m_i + tl.log2(l_safe), mask=mask_g)",
        "one-share",
        "wrong",
        "The part's lse uses log2: it has to be in nats, as the maximum is.",
    ),
    Mistake(
        "empty-part-divided-by-zero",
        _L_SAFE,
        "l_safe = l_i",
        "more-shares-than-tiles",
        "nan",
        "A share without keys divides 0 by 0, which is NaN: divide by 1 there.",
    ),
)

_MERGE = (
    Mistake(
        "plain-mean-of-parts",
        _W,
        "w = tl.where(mask_s, 1.0, 0.0) + 0.0 * m_safe",
        "four-shares",
        "wrong",
        "Every part gets the same weight: o is the plain mean of the parts.",
    ),
    Mistake(
        "merge-without-maximum",
        _M_NEXT,
        "m_next = 0.0 * tl.sum(offs_s, 0)",
        "large-scores",
        "nan",
        "The merge subtracts no maximum: exp(lse) overflows beyond 88.",
    ),
    Mistake(
        "empty-row-unguarded",
        _M_SAFE,
        "m_safe = m_next",
        "lengths",
        "nan",
        "A row without any key computes -inf - -inf in the merge, which is NaN: subtract 0 there.",
    ),
    Mistake(
        "merge-counts-parts",
        _L_ALL,
        "l_all = shrink * l_all + tl.sum(tl.where(mask_s, 1.0, 0.0), 0)",
        "four-shares",
        "wrong",
        "The merge divides by the number of parts, not by the sum of their weights.",
    ),
    Mistake(
        "last-tile-of-parts-alone",
        _O,
        "o = tl.sum(w[:, None] * o_s, 0) + 0.0 * shrink",
        "many-shares",
        "wrong",
        "o is overwritten by each tile of parts: only the last tile is left.",
    ),
    Mistake(
        "merged-output-not-rescaled",
        _O,
        "o = o + tl.sum(w[:, None] * o_s, 0) + 0.0 * shrink",
        "many-full-shares",
        "wrong",
        "The merged o is not rescaled when a later tile of parts raises the largest lse.",
    ),
    Mistake(
        "merged-sum-not-rescaled",
        _L_ALL,
        "l_all = l_all + tl.sum(w, 0) + 0.0 * shrink",
        "many-full-shares",
        "wrong",
        "The merged sum is not rescaled when a later tile of parts raises the largest lse.",
    ),
    Mistake(
        "parts-not-weighted",
        _O,
        "o = shrink * o + tl.sum(o_s, 0)",
        "four-shares",
        "wrong",
        "The parts are added without their weights w.",
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
    Mistake(
        "split-and-head-swapped",
        "split = pid % num_splits",
        "split = pid // (B * H_kv)",
        "four-shares",
        "race",
        "split and head are cut out of pid in two orders: pid % num_splits goes with pid // "
        "num_splits.",
    ),
    Mistake(
        "program-for-each-query-head",
        "split_kv_kernel[(num_splits * B * H_kv,)]",
        "split_kv_kernel[(num_splits * B * H,)]",
        "grouped-heads",
        "oob",
        "The grid has programs for every query head: a program serves all heads of a key head.",
    ),
)

MISTAKES = _SHARES + _TILE + _PARTS + _MERGE + _GIVEN
