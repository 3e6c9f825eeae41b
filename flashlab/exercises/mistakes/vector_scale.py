"""What learners write instead of ``solutions/vector_scale.py``. Floor: course."""

from flashlab.exercise import Mistake

_LOAD = "x = tl.load(x_ptr + offs * stride_x, mask=mask, other=0.0)"
_STORE = "tl.store(y_ptr + offs, y, mask=mask)"

MISTAKES = (
    Mistake(
        "no-program-id",
        "offs = pid * BLOCK + tl.arange(0, BLOCK)",
        "offs = tl.arange(0, BLOCK)",
        "three-blocks",
        "race",
        "Every program works on the first block: the program id is not in the indices.",
    ),
    Mistake(
        "arange-of-n",
        "tl.arange(0, BLOCK)",
        "tl.arange(0, N)",
        "one-block",
        "compile",
        "tl.arange gets N, which the compiler does not know: a tile's size must be a constexpr.",
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
        "load-unmasked",
        _LOAD,
        "x = tl.load(x_ptr + offs * stride_x)",
        "ragged-tail",
        "oob",
        "The load has no mask: the last program reads past the end of x.",
    ),
    Mistake(
        "store-unmasked",
        _STORE,
        "tl.store(y_ptr + offs, y)",
        "ragged-tail",
        "oob",
        "The store has no mask: the last program writes past the end of y.",
    ),
    Mistake(
        "copies",
        "y = a * x  # [BLOCK]",
        "y = x",
        "one-block",
        "wrong",
        "y is x itself: the factor a is never used.",
    ),
    Mistake(
        "adds",
        "y = a * x  # [BLOCK]",
        "y = a + x",
        "one-block",
        "wrong",
        "a is added to x, not multiplied with it.",
    ),
    Mistake(
        "scales-twice",
        "y = a * x  # [BLOCK]",
        "y = a * a * x",
        "one-block",
        "wrong",
        "x is scaled twice: y is a * a * x.",
    ),
    Mistake(
        "stores-to-x",
        _STORE,
        "tl.store(x_ptr + offs, y, mask=mask)",
        "one-block",
        "uninitialised",
        "The result is stored over the input x, and y is never written.",
    ),
    Mistake(
        "stride-ignored",
        _LOAD,
        "x = tl.load(x_ptr + offs, mask=mask, other=0.0)",
        "strided",
        "oob",
        "The stride of x is ignored: x_i lies at i * stride_x, and neighbours belong to others.",
    ),
    Mistake(
        "stride-on-y",
        _STORE,
        "tl.store(y_ptr + offs * stride_x, y, mask=mask)",
        "strided",
        "oob",
        "The stride of x is used for y, which is contiguous.",
    ),
    Mistake(
        "grid-rounds-down",
        "triton.cdiv(N, BLOCK)",
        "max(N // BLOCK, 1)",
        "ragged-tail",
        "uninitialised",
        "The grid rounds N / BLOCK down: nobody owns the last, partly filled block.",
    ),
)
