"""What learners write instead of ``solutions/quantize_fp8.py``. Floor: course."""

from flashlab.exercise import Mistake

_AMAX = "amax = tl.max(tl.max(tl.abs(kept), 1), 0)"
_MORE = "        amax = tl.maximum(amax, tl.max(tl.max(tl.abs(tile), 1), 0))"
_SCALE = "scale = tl.where(amax == 0.0, 1.0, amax / MOST)"
_KEPT = "store_tile(x8_head, kept / scale, start, end,"
_TILE = "store_tile(x8_head, tile / scale, at, end,"
_CAST = "tl.store(ptrs, x.to(tl.float8e4nv), mask=mask)"
_PTRS = (
    "ptrs = x8_head + rows.to(tl.int64)[:, None] * stride_ym + offs_d[None, :] * stride_yd\n"
    "    mask = (rows < end)[:, None] & (offs_d < D)[None, :]"
)
_YM = "ptrs = x8_head + rows.to(tl.int64)[:, None] * stride_ym + offs_d[None, :] * stride_yd"

_LARGEST = (
    Mistake(
        "largest-without-abs",
        f"    {_AMAX}",
        "    amax = tl.max(tl.max(kept, 1), 0)",
        "three-blocks",
        "wrong",
        "amax is the largest number, not the largest magnitude: negative numbers count too.",
    ),
    Mistake(
        "first-tile-only",
        _MORE,
        "        amax = tl.maximum(amax, 0.0 * tl.max(tl.max(tl.abs(tile), 1), 0))",
        "long-block",
        "wrong",
        "amax is that of the first tile: a longer block has its largest number anywhere.",
    ),
    Mistake(
        "last-tile-only",
        _MORE,
        "        amax = tl.max(tl.max(tl.abs(tile), 1), 0)",
        "block-of-a-tile-and-a-bit",
        "wrong",
        "Each tile overwrites amax: keep the larger of both.",
    ),
    Mistake(
        "mean-for-maximum",
        f"    {_AMAX}",
        "    amax = tl.sum(tl.sum(tl.abs(kept), 1), 0) / (BLOCK_M * D)",
        "one-tile",
        "wrong",
        "The scale comes from the mean magnitude: everything above it is cut off at 448.",
    ),
    Mistake(
        "rows-to-n",
        "end = tl.minimum(start + block_rows, N)",
        "end = N + 0 * block_rows",
        "three-blocks",
        "race",
        "My rows run to N: they end where the next block begins, at start + block_rows.",
    ),
    Mistake(
        "last-block-too-long",
        "end = tl.minimum(start + block_rows, N)",
        "end = start + block_rows",
        "short-last-block",
        "oob",
        "The last block may have fewer rows: end is N at most.",
    ),
    Mistake(
        "loop-steps-over-a-tile",
        "    for at in range(start + BLOCK_M, end, BLOCK_M):\n"
        "        tile = load_tile(x_head, at, end, stride_xm, stride_xd, D, BLOCK_M, BLOCK_D)\n"
        "        amax",
        "    for at in range(start + BLOCK_M, end - BLOCK_M, BLOCK_M):\n"
        "        tile = load_tile(x_head, at, end, stride_xm, stride_xd, D, BLOCK_M, BLOCK_D)\n"
        "        amax",
        "long-block",
        "wrong",
        "The loop for amax ends a tile early: the last tile is never looked at.",
    ),
)

_SCALES = (
    Mistake(
        "scale-is-amax",
        _SCALE,
        "scale = tl.where(amax == 0.0, 1.0, amax)",
        "one-tile",
        "wrong",
        "The scale is amax instead of amax / 448: x8 stays within -1 and 1, and e4m3's range is "
        "wasted.",
    ),
    Mistake(
        "scale-inverted",
        _SCALE,
        "scale = tl.where(amax == 0.0, 1.0, MOST / amax)",
        "one-tile",
        "wrong",
        "The scale is 448 / amax: it is what x8 is multiplied by, amax / 448.",
    ),
    Mistake(
        "range-of-e5m2",
        _SCALE,
        "scale = tl.where(amax == 0.0, 1.0, amax / 57344.0)",
        "one-tile",
        "wrong",
        "57,344 is the largest number of e5m2: e4m3 ends at 448.",
    ),
    Mistake(
        "range-of-int8",
        _SCALE,
        "scale = tl.where(amax == 0.0, 1.0, amax / 127.0)",
        "one-tile",
        "wrong",
        "127 is the largest number of int8: e4m3 ends at 448.",
    ),
    Mistake(
        "zero-block-unguarded",
        _SCALE,
        "scale = amax / MOST",
        "zeros",
        "nan",
        "A block of zeros gets scale 0, and 0 / 0 is NaN: its scale is 1.",
    ),
    Mistake(
        "zero-block-kept-small",
        _SCALE,
        "scale = tl.maximum(amax, 1e-30) / MOST",
        "zeros",
        "wrong",
        "A block of zeros gets a tiny scale: the contract asks for 1.",
    ),
    Mistake(
        "scale-kept-away-from-zero",
        _SCALE,
        "scale = tl.where(amax <= 1e-12, 1.0, amax / MOST)",
        "tiny",
        "wrong",
        "A small amax counts as zero: the scale is 1 for a block of zeros alone.",
    ),
    Mistake(
        "a-little-added",
        _SCALE,
        "scale = tl.where(amax == 0.0, 1.0, (amax + 1e-12) / MOST)",
        "tiny",
        "wrong",
        "A small number is added to amax, which is large beside a small block: compare with 0 "
        "instead.",
    ),
    Mistake(
        "scale-in-the-dtype-of-x",
        _SCALE,
        "near = (amax / MOST).to(x_ptr.dtype.element_ty).to(tl.float32)\n"
        "    scale = tl.where(amax == 0.0, 1.0, near)",
        "one-tile",
        "wrong",
        "The scale is rounded to the dtype of x: it is float32, whatever x is.",
    ),
    Mistake(
        "power-of-two",
        _SCALE,
        "up = tl.exp2(tl.ceil(tl.log2(tl.maximum(amax, 1e-30) / MOST)))\n"
        "    scale = tl.where(amax == 0.0, 1.0, up)",
        "one-tile",
        "wrong",
        "The scale is rounded up to a power of two: here the largest number becomes 448 exactly.",
    ),
)

_ROUNDING = (
    Mistake(
        "not-scaled",
        f"    {_KEPT}",
        "    store_tile(x8_head, kept, start, end,",
        "one-tile",
        "wrong",
        "x is rounded as it is: divide it by the scale first.",
    ),
    Mistake(
        "multiplied-by-the-scale",
        f"    {_KEPT}",
        "    store_tile(x8_head, kept * scale, start, end,",
        "one-tile",
        "wrong",
        "x is multiplied by the scale: divide, so that x8 * scale gives x back.",
    ),
    Mistake(
        "later-tiles-not-scaled",
        _TILE,
        "store_tile(x8_head, tile, at, end,",
        "long-block",
        "wrong",
        "Only the first tile is divided by the scale: the others are rounded as they are.",
    ),
    Mistake(
        "first-tile-everywhere",
        _TILE,
        "store_tile(x8_head, kept / scale, at, end,",
        "long-block",
        "wrong",
        "The first tile is stored in place of the later ones.",
    ),
    Mistake(
        "rounded-to-e5m2",
        f"    {_CAST}",
        "    tl.store(ptrs, x.to(tl.float8e5).to(tl.float32).to(tl.float8e4nv), mask=mask)",
        "one-tile",
        "precision",
        "x is rounded to e5m2 on its way, which has two mantissa bits: the error doubles.",
    ),
    Mistake(
        "rounded-to-integers",
        f"    {_CAST}",
        "    tl.store(ptrs, tl.floor(x + 0.5).to(tl.float8e4nv), mask=mask)",
        "subnormal",
        "precision",
        "x is rounded to whole numbers first, as for int8: e4m3 has steps of 2^-9 near 0.",
    ),
    Mistake(
        "rounded-twice",
        f"    {_CAST}",
        "    tl.store(ptrs, x.to(tl.bfloat16).to(tl.float8e4nv), mask=mask)",
        "one-tile",
        "precision",
        "x / scale is rounded to bf16 before it is rounded to e4m3: what lay beside a tie then "
        "goes to the wrong side.",
    ),
    Mistake(
        "rounded-twice-in-fp16",
        f"    {_CAST}",
        "    tl.store(ptrs, x.to(tl.float16).to(tl.float8e4nv), mask=mask)",
        "one-tile",
        "precision",
        "x / scale is rounded to fp16 before it is rounded to e4m3: what lay beside a tie then "
        "goes to the wrong side.",
    ),
    Mistake(
        "bits-cut-off",
        f"    {_CAST}",
        "    bits = x.to(tl.int32, bitcast=True) & -1048576  # 3 bits of the mantissa stay\n"
        "    tl.store(ptrs, bits.to(tl.float32, bitcast=True).to(tl.float8e4nv), mask=mask)",
        "one-tile",
        "precision",
        "Numbers are cut off toward zero: the cast to e4m3 goes to the nearest by itself.",
    ),
    Mistake(
        "subnormals-to-zero",
        f"    {_CAST}",
        "    x = tl.where(tl.abs(x) < 0.015625, 0.0, x)\n"
        "    tl.store(ptrs, x.to(tl.float8e4nv), mask=mask)",
        "subnormal",
        "precision",
        "Numbers below 2^-6 become 0: e4m3 has subnormal ones there, in steps of 2^-9.",
    ),
    Mistake(
        "rows-unmasked",
        f"    {_PTRS}",
        f"    {_YM}\n    mask = (rows >= 0)[:, None] & (offs_d < D)[None, :]",
        "short-last-block",
        "race",
        "x8 is stored without a mask of the rows: they end at end.",
    ),
    Mistake(
        "columns-unmasked",
        f"    {_PTRS}",
        f"    {_YM}\n    mask = (rows < end)[:, None] & (offs_d >= 0)[None, :]",
        "odd-head-dim",
        "race",
        "x8 is stored without a mask of the columns: from D on the next row begins.",
    ),
    Mistake(
        "rows-of-the-tile",
        f"    {_YM}",
        "    ptrs = x8_head + (rows - at).to(tl.int64)[:, None] * stride_ym "
        "+ offs_d[None, :] * stride_yd",
        "three-blocks",
        "race",
        "Rows are counted from the tile's own start: row at is the first one of this tile.",
    ),
    Mistake(
        "strides-of-x",
        "        *x.stride(), *x8.stride(), *scale.stride(),",
        "        *x.stride(), *x.stride(), *scale.stride(),",
        "strided",
        "oob",
        "x8 is addressed with the strides of x; it is contiguous.",
    ),
)

MISTAKES = _LARGEST + _SCALES + _ROUNDING
