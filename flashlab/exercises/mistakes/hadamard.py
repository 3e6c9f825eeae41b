"""What learners write instead of ``solutions/hadamard.py``. Floor: course."""

from flashlab.exercise import Mistake

_FIRST = "first = a + b"
_SECOND = "second = a - b"
_X = "x = tl.load(x_ptrs, mask=mask, other=0.0).to(tl.float32)"
_SIGNS = "signs = tl.load(signs_ptr + offs_d * stride_s).to(tl.float32)  # [D]"
_Y = "y = x * signs[None, :]"
_SCALE = "y = y * (D**-0.5)"
_STORE = "tl.store(y_ptrs, y, mask=mask)"
_ROUNDS = """
    # Given: the rounds: partners are 1, 2, 4, ... columns apart
    for step in tl.static_range(LOG_D):
        y = butterfly(y, BLOCK_M, D, 2**step)

    # 3. Scale and store
"""

MISTAKES = (
    Mistake(
        "both-summed",
        _SECOND,
        "second = a + b",
        "one-program",
        "wrong",
        "Both partners become the sum: the second becomes the difference.",
    ),
    Mistake(
        "difference-turned",
        _SECOND,
        "second = b - a",
        "one-program",
        "wrong",
        "The difference is b - a: the first row and column of H_D are all +1, so it is a - b.",
    ),
    Mistake(
        "sum-and-difference-swapped",
        f"    {_FIRST}\n    {_SECOND}",
        "    first = a - b\n    second = a + b",
        "one-program",
        "wrong",
        "Sum and difference are swapped: the sum takes the first partner's place.",
    ),
    Mistake(
        "halved-in-every-round",
        f"    {_FIRST}\n    {_SECOND}",
        "    first = (a + b) * 0.5\n    second = (a - b) * 0.5",
        "one-program",
        "wrong",
        "Every round halves its results, and step 3 divides again: scale once.",
    ),
    Mistake(
        "partner-overwritten",
        f"    {_FIRST}\n    {_SECOND}",
        "    a = a + b\n    b = a - b\n    first = a\n    second = b",
        "one-program",
        "wrong",
        "The difference is taken of the new a, which is the sum already: a + b - b is a.",
    ),
    Mistake(
        "scaled-in-every-round-too",
        f"    {_FIRST}\n    {_SECOND}",
        "    first = (a + b) * 0.7071067811865476\n    second = (a - b) * 0.7071067811865476",
        "one-program",
        "wrong",
        "Every round divides by sqrt(2), which makes sqrt(D) in all, and step 3 divides again.",
    ),
    Mistake(
        "neighbours-in-every-round",
        "butterfly(y, BLOCK_M, D, 2**step)",
        "butterfly(y, BLOCK_M, D, 1)",
        "one-program",
        "wrong",
        "Partners are neighbours in every round: they are 1, 2, 4, ... columns apart.",
    ),
    Mistake(
        "partners-copied",
        f"    {_FIRST}\n    {_SECOND}",
        "    first = a\n    second = b",
        "one-program",
        "wrong",
        "A round changes nothing: partners become their sum and their difference.",
    ),
    Mistake(
        "no-signs",
        _Y,
        "y = x * 1.0",
        "one-program",
        "wrong",
        "The signs are never multiplied in.",
    ),
    Mistake(
        "signs-at-the-end",
        f"    {_Y}\n{_ROUNDS}    {_SCALE}",
        f"    y = x\n{_ROUNDS}    {_SCALE} * signs[None, :]",
        "one-program",
        "wrong",
        "The signs are multiplied in after the rounds: they belong to the columns of x.",
    ),
    Mistake(
        "signs-of-rows",
        _Y,
        "y = x * tl.sum(signs, 0)",
        "one-program",
        "wrong",
        "x is multiplied by the sum of the signs: each column has a sign of its own.",
    ),
    Mistake(
        "first-sign-for-all",
        _SIGNS,
        "signs = tl.load(signs_ptr + offs_d * 0).to(tl.float32)  # [D]",
        "one-program",
        "wrong",
        "All columns get the first sign: sign d lies d * stride_s behind signs_ptr.",
    ),
    Mistake(
        "signs-taken-as-contiguous",
        _SIGNS,
        "signs = tl.load(signs_ptr + offs_d).to(tl.float32)  # [D]",
        "strided",
        "oob",
        "The signs are taken as neighbours in memory: they are stride_s apart.",
    ),
    Mistake(
        "loaded-without-mask",
        _X,
        "x = tl.load(x_ptrs).to(tl.float32)",
        "ragged-rows",
        "oob",
        "x is loaded without a mask: the last program has rows that do not exist.",
    ),
    Mistake(
        "rounds-in-the-input-dtype",
        _Y,
        "y = (x * signs[None, :]).to(y_ptr.dtype.element_ty)",
        "large",
        "wrong",
        "The rounds add up in the dtype of x: sums pass 65,504 in fp16. Keep y in fp32.",
    ),
    Mistake(
        "rounded-before-the-scale",
        _SCALE,
        "y = y.to(tl.float16) * (D**-0.5)",
        "outliers",
        "wrong",
        "y is rounded to fp16 before it is scaled: only the store rounds.",
    ),
    Mistake(
        "not-scaled",
        _SCALE,
        "y = y * 1.0",
        "one-program",
        "wrong",
        "y is not divided by sqrt(D): rows grow, and dot products by a factor of D.",
    ),
    Mistake(
        "divided-by-d",
        _SCALE,
        "y = y / D",
        "one-program",
        "wrong",
        "y is divided by D instead of sqrt(D): rows shrink.",
    ),
    Mistake(
        "root-of-few-digits",
        _SCALE,
        "y = y * 0.7071**LOG_D",
        "outliers",
        "wrong",
        "0.7071 has too few digits of 1/sqrt(2): the error grows with every factor.",
    ),
    Mistake(
        "multiplied-by-the-root",
        _SCALE,
        "y = y * (D**0.5)",
        "one-program",
        "wrong",
        "y is multiplied by sqrt(D): divide by it.",
    ),
    Mistake(
        "stored-without-mask",
        _STORE,
        "tl.store(y_ptrs, y)",
        "ragged-rows",
        "oob",
        "y is stored without a mask: the last program has rows that do not exist.",
    ),
    Mistake(
        "stored-over-x",
        _STORE,
        "tl.store(x_ptrs, y, mask=mask)",
        "one-program",
        "uninitialised",
        "The result is stored over x: y_ptrs is where it belongs.",
    ),
    Mistake(
        "returned-in-place",
        "    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)\n",
        "    y = x\n",
        "one-program",
        "contract",
        "The result overwrites x: y is a tensor of its own.",
    ),
    Mistake(
        "strides-of-x",
        "*x4.stride(), signs.stride(0), *y4.stride(),",
        "*x4.stride(), signs.stride(0), *x4.stride(),",
        "one-program",
        "oob",
        "y is addressed with the strides of x: it is contiguous.",
    ),
    Mistake(
        "one-round-missing",
        "tl.static_range(LOG_D)",
        "tl.static_range(LOG_D - 1)",
        "one-program",
        "wrong",
        "A round is missing: log2(D) rounds, up to partners D / 2 columns apart.",
    ),
    Mistake(
        "grid-rounds-down",
        "triton.cdiv(B * H * N, BLOCK_M)",
        "max(B * H * N // BLOCK_M, 1)",
        "ragged-rows",
        "uninitialised",
        "The grid rounds down: nobody owns the last, partly filled block of rows.",
    ),
)
