"""What learners write instead of ``solutions/backward_delta.py``. Floor: course."""

from flashlab.exercise import Mistake

_MASK = "mask = mask_m[:, None] & (offs_d < D)[None, :]"
_O = "o = tl.load(o_ptrs, mask=mask, other=0.0).to(tl.float32)  # [BLOCK_M, BLOCK_D], read once"
_DO = "do = tl.load(do_ptrs, mask=mask, other=0.0).to(tl.float32)"
_PRODUCT = "product = do * o "
_SUM = "delta = tl.sum(product, 1)"
_STORE = "tl.store(delta_ptrs, delta, mask=mask_m)"

MISTAKES = (
    Mistake(
        "sum-over-rows",
        _SUM,
        "delta = tl.sum(product, 0)",
        "one-block",
        "compile",
        "The sum is taken over axis 0, the rows, instead of axis 1, the columns.",
    ),
    Mistake(
        "sum-of-o-times-o",
        _PRODUCT,
        "product = o * o ",
        "one-block",
        "wrong",
        "o is multiplied by itself: delta needs do * o.",
    ),
    Mistake(
        "sum-of-do",
        _PRODUCT,
        "product = do ",
        "one-block",
        "wrong",
        "delta is the row sum of do alone: o is missing.",
    ),
    Mistake(
        "mean-for-sum",
        _SUM,
        "delta = tl.sum(product, 1) / D",
        "one-block",
        "wrong",
        "delta is the mean over the columns: it has to be the sum.",
    ),
    Mistake(
        "sign",
        _SUM,
        "delta = -tl.sum(product, 1)",
        "one-block",
        "wrong",
        "delta has the wrong sign: the minus belongs to dp - delta, where delta is used.",
    ),
    Mistake(
        "scaled",
        _SUM,
        "delta = tl.sum(product, 1) * (1.0 / D**0.5)",
        "one-block",
        "wrong",
        "delta is multiplied by 1/sqrt(D): the scale belongs to the scores, not here.",
    ),
    Mistake(
        "maximum-for-sum",
        _SUM,
        "delta = tl.max(product, 1)",
        "one-block",
        "wrong",
        "delta is the largest product of a row: it has to be their sum.",
    ),
    Mistake(
        "product-in-short-dtype",
        _PRODUCT,
        "product = (do.to(do_ptr.dtype.element_ty) * o.to(do_ptr.dtype.element_ty)) ",
        "one-block",
        "wrong",
        "do and o are multiplied in their own dtype: a product of two fp16 numbers may overflow, "
        "so turn them into fp32 first.",
    ),
    Mistake(
        "row-mask-one-too-many",
        "mask_m = offs_m < N_q",
        "mask_m = offs_m <= N_q",
        "ragged-rows",
        "oob",
        "The row mask uses <= where < is meant: row N_q does not exist.",
    ),
    Mistake(
        "columns-unmasked",
        _MASK,
        "mask = mask_m[:, None] & (offs_d >= 0)[None, :]",
        "odd-head-dim",
        "oob",
        "o and do are read beyond column D: those columns belong to the next row.",
    ),
    Mistake(
        "rows-unmasked",
        _MASK,
        "mask = (offs_m >= 0)[:, None] & (offs_d < D)[None, :]",
        "ragged-rows",
        "oob",
        "The loads have no mask for rows: the last block reads past the last row.",
    ),
    Mistake(
        "o-without-other",
        _O,
        "o = tl.load(o_ptrs, mask=mask).to(tl.float32)",
        "odd-head-dim",
        "uninitialised",
        "o is loaded with a mask but without other=: the lanes that are off hold garbage, and "
        "they take part in the sum.",
    ),
    Mistake(
        "lanes-off-count-as-one",
        f"{_DO}  # [BLOCK_M, BLOCK_D], read once\n",
        "do = tl.load(do_ptrs, mask=mask, other=1.0).to(tl.float32)\n"
        "    o = tl.where(mask, o, 1.0)\n",
        "odd-head-dim",
        "wrong",
        "Lanes that are masked off are filled with 1, not 0, and add to the sum.",
    ),
    Mistake(
        "store-unmasked",
        _STORE,
        "tl.store(delta_ptrs, delta)",
        "ragged-rows",
        "oob",
        "delta is stored without a mask: the last block writes past the last row.",
    ),
    Mistake(
        "not-stored",
        f"    {_STORE}",
        "    pass",
        "one-block",
        "uninitialised",
        "delta is computed but never stored.",
    ),
    Mistake(
        "do-with-strides-of-o",
        "do_head + offs_m[:, None] * stride_dom + offs_d[None, :] * stride_dod",
        "do_head + offs_m[:, None] * stride_om + offs_d[None, :] * stride_od",
        "sum-backward",
        "oob",
        "do is addressed with the strides of o.",
    ),
    Mistake(
        "do-taken-as-contiguous",
        "do_head + offs_m[:, None] * stride_dom + offs_d[None, :] * stride_dod",
        "do_head + offs_m[:, None] * D + offs_d[None, :]",
        "sum-backward",
        "oob",
        "do is taken as contiguous: the gradient of o.sum() is one number with strides 0.",
    ),
    Mistake(
        "one-head-for-all",
        "do_head = do_ptr + b * stride_dob + h * stride_doh",
        "do_head = do_ptr",
        "two-blocks",
        "wrong",
        "The offset of batch and head is missing for do: every head reads the first one's.",
    ),
    Mistake(
        "grid-rounds-down",
        "triton.cdiv(N_q, BLOCK_M) * B * H",
        "max(N_q // BLOCK_M, 1) * B * H",
        "ragged-rows",
        "uninitialised",
        "The grid rounds N_q / BLOCK_M down: nobody owns the last, partly filled block.",
    ),
)
