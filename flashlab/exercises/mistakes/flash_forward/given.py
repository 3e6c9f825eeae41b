"""Mistakes in the lines that ``flash_forward`` gives, should they be changed. Floor: course."""

from flashlab.exercise import Mistake

_LOOP = "for start_n in range(0, N_k, BLOCK_N):"

GIVEN = (
    Mistake(
        "last-key-tile-dropped",
        _LOOP,
        "for start_n in range(0, N_k // BLOCK_N * BLOCK_N, BLOCK_N):",
        "ragged-keys",
        "wrong",
        "The loop drops the last key tile when it is not full.",
    ),
    Mistake(
        "loop-over-queries",
        _LOOP,
        "for start_n in range(0, N_q, BLOCK_N):",
        "two-tiles",
        "wrong",
        "The loop runs to N_q, the number of queries, instead of N_k.",
    ),
    Mistake(
        "grid-rounds-down",
        "triton.cdiv(N_q, block_m) * B * H",
        "max(N_q // block_m, 1) * B * H",
        "ragged-queries",
        "uninitialised",
        "The grid rounds N_q / BLOCK_M down: nobody owns the last, partly filled block.",
    ),
    Mistake(
        "block-index-not-multiplied",
        "start_m = pid % blocks * BLOCK_M",
        "start_m = pid % blocks",
        "two-tiles",
        "race",
        "start_m is the number of the block: it has to be multiplied by BLOCK_M.",
    ),
    Mistake(
        "batch-and-head-swapped",
        "b, h = head // H, head % H",
        "b, h = head % H, head // H",
        "two-tiles",
        "oob",
        "Batch and head are swapped: head % H is h, head // H is b.",
    ),
    Mistake(
        "one-batch-for-all-keys",
        "k_ptr + b * stride_kb + h * stride_kh",
        "k_ptr + h * stride_kh",
        "two-tiles",
        "wrong",
        "The batch offset of k is missing: every batch reads the keys of batch 0.",
    ),
    Mistake(
        "one-head-for-all-values",
        "v_ptr + b * stride_vb + h * stride_vh",
        "v_ptr + b * stride_vb",
        "two-tiles",
        "wrong",
        "The head offset of v is missing: every head reads the values of head 0.",
    ),
    Mistake(
        "row-stride-of-q-for-k",
        "offs_n.to(tl.int64)[:, None] * stride_kn",
        "offs_n.to(tl.int64)[:, None] * stride_qm",
        "permuted",
        "oob",
        "k is addressed with the row stride of q.",
    ),
    Mistake(
        "strides-of-k-for-v",
        "offs_n.to(tl.int64)[:, None] * stride_vn",
        "offs_n.to(tl.int64)[:, None] * stride_kn",
        "permuted",
        "oob",
        "v is addressed with the row stride of k.",
    ),
    Mistake(
        "key-columns-taken-as-contiguous",
        "k_ptr + b * stride_kb + h * stride_kh + offs_d[None, :] * stride_kd",
        "k_ptr + b * stride_kb + h * stride_kh + offs_d[None, :]",
        "expanded",
        "nan",
        "The columns of k are taken as neighbours in memory: multiply offs_d by stride_kd.",
    ),
    Mistake(
        "columns-taken-as-contiguous",
        "+ rows * stride_qm + offs_d[None, :] * stride_qd",
        "+ rows * stride_qm + offs_d[None, :]",
        "expanded",
        "oob",
        "The columns of q are taken as neighbours in memory: use stride_qd.",
    ),
)
