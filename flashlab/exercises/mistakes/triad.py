"""What learners write instead of ``solutions/triad.py``. Floor: course."""

from flashlab.exercise import Mistake

_LOAD_X = "x = tl.load(x_ptr + offs * stride_x, mask=mask, other=0.0).to(tl.float32)"
_LOAD_Y = "y = tl.load(y_ptr + offs * stride_y, mask=mask, other=0.0).to(tl.float32)"
_Z = "z = x + a * y  # fp32: the store rounds once; in fp16 each operation would round"
_STORE = "tl.store(z_ptr + offs, z, mask=mask)"
_GRID = "grid = (triton.cdiv(N, BLOCK),)"

_KERNEL = (
    Mistake(
        "no-program-id",
        "offs = pid * BLOCK + tl.arange(0, BLOCK)",
        "offs = tl.arange(0, BLOCK)",
        "three-blocks",
        "race",
        "Every program works on the first block: the program id is not in the indices.",
    ),
    Mistake(
        "program-id-not-multiplied",
        "offs = pid * BLOCK + tl.arange(0, BLOCK)",
        "offs = pid + tl.arange(0, BLOCK)",
        "three-blocks",
        "race",
        "The blocks overlap: the program id has to be multiplied by BLOCK.",
    ),
    Mistake(
        "mask-one-too-many",
        "mask = offs < N",
        "mask = offs <= N",
        "ragged-tail",
        "oob",
        "The mask uses <= where < is meant: index N is one past the last element.",
    ),
    Mistake(
        "x-unmasked",
        _LOAD_X,
        "x = tl.load(x_ptr + offs * stride_x).to(tl.float32)",
        "ragged-tail",
        "oob",
        "x is loaded without a mask: the last program reads past its end.",
    ),
    Mistake(
        "y-unmasked",
        _LOAD_Y,
        "y = tl.load(y_ptr + offs * stride_y).to(tl.float32)",
        "ragged-tail",
        "oob",
        "y is loaded without a mask: the last program reads past its end.",
    ),
    Mistake(
        "store-unmasked",
        _STORE,
        "tl.store(z_ptr + offs, z)",
        "ragged-tail",
        "oob",
        "z is stored without a mask: the last program writes past its end.",
    ),
    Mistake(
        "stride-of-x-for-y",
        _LOAD_Y,
        "y = tl.load(y_ptr + offs * stride_x, mask=mask, other=0.0).to(tl.float32)",
        "strided",
        "oob",
        "y is addressed with the stride of x.",
    ),
    Mistake(
        "strides-ignored",
        f"    {_LOAD_X}  # one read each\n    {_LOAD_Y}",
        "    x = tl.load(x_ptr + offs, mask=mask, other=0.0).to(tl.float32)\n"
        "    y = tl.load(y_ptr + offs, mask=mask, other=0.0).to(tl.float32)",
        "strided",
        "oob",
        "The strides are ignored: x_i lies at i * stride_x, y_i at i * stride_y.",
    ),
    Mistake(
        "stride-on-z",
        _STORE,
        "tl.store(z_ptr + offs * stride_x, z, mask=mask)",
        "strided",
        "oob",
        "The stride of x is used for z, which is contiguous.",
    ),
    Mistake(
        "factor-on-x",
        _Z,
        "z = a * x + y",
        "one-block",
        "wrong",
        "The factor is at the wrong vector, or x and y are swapped in the launch: z is a * x + y.",
    ),
    Mistake(
        "factor-missing",
        _Z,
        "z = x + y",
        "one-block",
        "wrong",
        "The factor a is never used: z is x + y.",
    ),
    Mistake(
        "factor-on-both",
        _Z,
        "z = a * (x + y)",
        "one-block",
        "wrong",
        "The sum is multiplied by a: z is a * (x + y).",
    ),
    Mistake(
        "product-for-sum",
        _Z,
        "z = x * a * y",
        "one-block",
        "wrong",
        "x is multiplied with a * y, not added to it.",
    ),
    Mistake(
        "computed-in-fp16",
        _Z,
        "z = x.to(tl.float16) + (a * y).to(tl.float16)",
        "cancelling",
        "wrong",
        "a * y is rounded to fp16 before the sum: turn both tiles into fp32 first.",
    ),
)

_LAUNCH = (
    Mistake(
        "grid-rounds-down",
        _GRID,
        "grid = (max(N // BLOCK, 1),)",
        "ragged-tail",
        "uninitialised",
        "The grid rounds N / BLOCK down: nobody owns the last, partly filled block.",
    ),
    Mistake(
        "one-program",
        _GRID,
        "grid = (1,)",
        "three-blocks",
        "uninitialised",
        "A single program is started, so only the first block is computed.",
    ),
)

MISTAKES = _KERNEL + _LAUNCH
