"""What learners write instead of ``solutions/tiled_matmul.py``. Floor: course."""

from flashlab.exercise import Mistake

_OFFS_M = "offs_m = pid_m * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)"
_OFFS_N = "offs_n = pid_n * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)"
_MASK_K = "mask_k = offs_k < K"
_LOAD_A = "a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=0.0)"
_LOAD_B = "b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=0.0)"
_DOT = 'acc = tl.dot(a, b, acc, input_precision="ieee")'
_C_PTRS = "c_ptrs = c_ptr + offs_m[:, None] * stride_cm + offs_n[None, :] * stride_cn"
_STORE = "tl.store(c_ptrs, acc, mask=mask_m[:, None] & mask_n[None, :])"
_LOOP = "for start_k in range(0, K, BLOCK_K):"
_OFFS_K = "offs_k = start_k + tl.arange(0, BLOCK_K).to(tl.int64)"

_PLACE = (
    Mistake(
        "rows-not-multiplied",
        _OFFS_M,
        "offs_m = pid_m + tl.arange(0, BLOCK_M).to(tl.int64)",
        "grid",
        "race",
        "The row blocks overlap: pid_m has to be multiplied by BLOCK_M.",
    ),
    Mistake(
        "columns-not-multiplied",
        _OFFS_N,
        "offs_n = pid_n + tl.arange(0, BLOCK_N).to(tl.int64)",
        "grid",
        "race",
        "The column blocks overlap: pid_n has to be multiplied by BLOCK_N.",
    ),
    Mistake(
        "tile-row-and-column-swapped",
        f"{_OFFS_M}  # [BLOCK_M]\n    {_OFFS_N}",
        "offs_m = pid_n * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)\n"
        "    offs_n = pid_m * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)",
        "grid",
        "uninitialised",
        "pid_m and pid_n are swapped: pid_m counts row blocks, pid_n column blocks.",
    ),
    Mistake(
        "pid-for-both",
        f"{_OFFS_M}  # [BLOCK_M]\n    {_OFFS_N}",
        "offs_m = pid * BLOCK_M + tl.arange(0, BLOCK_M).to(tl.int64)\n"
        "    offs_n = pid * BLOCK_N + tl.arange(0, BLOCK_N).to(tl.int64)",
        "grid",
        "uninitialised",
        "Rows and columns both use pid: only the tiles on the diagonal are computed.",
    ),
)

_PRODUCT = (
    Mistake(
        "k-not-masked-in-a",
        _LOAD_A,
        "a = tl.load(a_ptrs, mask=mask_m[:, None], other=0.0)",
        "ragged-k",
        "oob",
        "a is not masked along k: its columns from K on belong to the next row.",
    ),
    Mistake(
        "k-not-masked-in-b",
        _LOAD_B,
        "b = tl.load(b_ptrs, mask=mask_n[None, :], other=0.0)",
        "ragged-k",
        "oob",
        "b is not masked along k: it has no rows from K on.",
    ),
    Mistake(
        "k-mask-one-too-many",
        _MASK_K,
        "mask_k = offs_k <= K",
        "ragged-k",
        "oob",
        "The mask of k uses <= where < is meant: index K does not exist.",
    ),
    Mistake(
        "rows-not-masked-in-a",
        _LOAD_A,
        "a = tl.load(a_ptrs, mask=mask_k[None, :], other=0.0)",
        "ragged-edges",
        "oob",
        "a is not masked along its rows: the last tile reads past row M.",
    ),
    Mistake(
        "columns-not-masked-in-b",
        _LOAD_B,
        "b = tl.load(b_ptrs, mask=mask_k[:, None], other=0.0)",
        "ragged-edges",
        "oob",
        "b is not masked along its columns: those from N on belong to the next row.",
    ),
    Mistake(
        "loaded-without-other",
        f"        {_LOAD_A}\n        {_LOAD_B}",
        "        a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :])\n"
        "        b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :])",
        "ragged-k",
        "uninitialised",
        "a and b are loaded with a mask but without other=: lanes that are off hold garbage, "
        "which is added to every sum.",
    ),
    Mistake(
        "padded-with-one",
        f"        {_LOAD_A}\n        {_LOAD_B}",
        "        a = tl.load(a_ptrs, mask=mask_m[:, None] & mask_k[None, :], other=1.0)\n"
        "        b = tl.load(b_ptrs, mask=mask_k[:, None] & mask_n[None, :], other=1.0)",
        "ragged-k",
        "wrong",
        "Lanes beyond K are loaded as 1, so each adds 1 to every sum: load 0.",
    ),
    Mistake(
        "accumulator-overwritten",
        _DOT,
        'acc = tl.dot(a, b, input_precision="ieee")',
        "deep",
        "wrong",
        "acc is overwritten: only the last tile along k is left.",
    ),
    Mistake(
        "accumulated-twice",
        _DOT,
        'acc += tl.dot(a, b, acc, input_precision="ieee")',
        "deep",
        "wrong",
        "acc is added twice: tl.dot(a, b, acc) already adds it.",
    ),
    Mistake(
        "accumulator-in-fp16",
        _DOT,
        'acc = tl.dot(a, b, acc, input_precision="ieee").to(tl.float16).to(tl.float32)',
        "cancelling",
        "wrong",
        "acc passes through fp16 after every tile: sums beyond 65,504 become infinite.",
    ),
    Mistake(
        "factors-swapped",
        _DOT,
        'acc = tl.dot(b, a, acc, input_precision="ieee")',
        "one-tile",
        "compile",
        "The factors are swapped: tl.dot(b, a) is another product.",
    ),
    Mistake(
        "product-element-by-element",
        _DOT,
        "acc += a * b",
        "one-tile",
        "compile",
        "a * b multiplies element by element: a matrix product is tl.dot(a, b).",
    ),
)

_STORING = (
    Mistake(
        "c-unmasked",
        _STORE,
        "tl.store(c_ptrs, acc)",
        "ragged-edges",
        "oob",
        "c is stored without a mask: the last tiles write past its edges.",
    ),
    Mistake(
        "c-masked-by-rows-alone",
        _STORE,
        "tl.store(c_ptrs, acc, mask=mask_m[:, None])",
        "ragged-edges",
        "race",
        "The mask of the store looks at the rows alone: columns from N on are in the next row.",
    ),
    Mistake(
        "c-transposed",
        _C_PTRS,
        "c_ptrs = c_ptr + offs_m[:, None] * stride_cn + offs_n[None, :] * stride_cm",
        "one-tile",
        "race",
        "The strides of c are swapped: its transpose is stored.",
    ),
    Mistake(
        "strides-of-a-for-c",
        _C_PTRS,
        "c_ptrs = c_ptr + offs_m[:, None] * stride_am + offs_n[None, :] * stride_ak",
        "one-tile",
        "oob",
        "c is addressed with the strides of a.",
    ),
)

_GIVEN = (
    Mistake(
        "k-does-not-move",
        _OFFS_K,
        "offs_k = tl.arange(0, BLOCK_K).to(tl.int64)",
        "deep",
        "wrong",
        "offs_k does not contain start_k: every step uses the first tiles of a and b.",
    ),
    Mistake(
        "loop-drops-the-tail",
        _LOOP,
        "for start_k in range(0, K // BLOCK_K * BLOCK_K, BLOCK_K):",
        "ragged-k",
        "wrong",
        "The loop drops the last step along k when it is not full.",
    ),
    Mistake(
        "loop-over-columns",
        _LOOP,
        "for start_k in range(0, N, BLOCK_K):",
        "deep",
        "wrong",
        "The loop runs to N, the number of columns of c, instead of K.",
    ),
    Mistake(
        "columns-of-a-taken-as-contiguous",
        "a_ptrs = a_rows + offs_k[None, :] * stride_ak",
        "a_ptrs = a_rows + offs_k[None, :]",
        "transposed",
        "wrong",
        "The columns of a are taken as neighbours in memory: use stride_ak.",
    ),
    Mistake(
        "stride-of-a-for-b",
        "b_ptrs = b_columns + offs_k[:, None] * stride_bk",
        "b_ptrs = b_columns + offs_k[:, None] * stride_am",
        "grid",
        "oob",
        "The rows of b are addressed with the row stride of a.",
    ),
    Mistake(
        "groups-all-full",
        "height = tl.minimum(tl.cdiv(M, BLOCK_M) - first_m, GROUP_M)",
        "height = GROUP_M",
        "grid",
        "uninitialised",
        "Every group is taken to have GROUP_M row blocks; the last one may be lower.",
    ),
    Mistake(
        "grid-rounds-down",
        "grid = (triton.cdiv(M, BLOCK_M) * triton.cdiv(N, BLOCK_N),)",
        "grid = (max(M // BLOCK_M, 1) * max(N // BLOCK_N, 1),)",
        "ragged-edges",
        "uninitialised",
        "The grid rounds down: nobody owns the partly filled tiles at the edges of c.",
    ),
)

MISTAKES = _PLACE + _PRODUCT + _STORING + _GIVEN
