"""What learners write instead of ``solutions/attention_cost.py``. Floor: course."""

from flashlab.exercise import Mistake

_QUERIES = "queries = B * H * N_q * D"
_KEYS = "keys = B * H * N_k * D"
_SCORES = "scores = B * H * N_q * N_k"
_QK_FLOPS = "qk_flops = 2 * scores * D"
_SOFTMAX_FLOPS = "softmax_flops = 5 * scores"
_PV_FLOPS = "pv_flops = 2 * queries * N_k"
_QK_BYTES = "qk_bytes = (queries + keys + scores) * dtype_bytes"
_SOFTMAX_BYTES = "softmax_bytes = (scores + scores) * dtype_bytes"
_PV_BYTES = "pv_bytes = (scores + keys + queries) * dtype_bytes"

MISTAKES = (
    Mistake(
        "heads-forgotten-in-queries",
        _QUERIES,
        "queries = B * N_q * D",
        "layer",
        "wrong",
        "q is counted for one head only: every head has its own.",
    ),
    Mistake(
        "heads-share-keys",
        _KEYS,
        "keys = B * N_k * D",
        "layer",
        "wrong",
        "k and v are counted once for all heads: here every head has its own.",
    ),
    Mistake(
        "scores-of-one-head",
        _SCORES,
        "scores = N_q * N_k",
        "layer",
        "wrong",
        "s is counted for one head only: there are B * H such matrices.",
    ),
    Mistake(
        "scores-square",
        _SCORES,
        "scores = B * H * N_q * N_q",
        "by-hand",
        "wrong",
        "s is taken to be square: it is [N_q, N_k].",
    ),
    Mistake(
        "keys-as-many-as-queries",
        _KEYS,
        "keys = B * H * N_q * D",
        "by-hand",
        "wrong",
        "k and v are taken to have N_q rows: they have N_k.",
    ),
    Mistake(
        "multiply-add-is-one",
        _QK_FLOPS,
        "qk_flops = scores * D",
        "by-hand",
        "wrong",
        "A multiply-add counts as one FLOP in q k^T; it is two.",
    ),
    Mistake(
        "multiply-add-is-one-in-pv",
        _PV_FLOPS,
        "pv_flops = queries * N_k",
        "by-hand",
        "wrong",
        "A multiply-add counts as one FLOP in p v; it is two.",
    ),
    Mistake(
        "qk-without-d",
        _QK_FLOPS,
        "qk_flops = 2 * scores",
        "by-hand",
        "wrong",
        "Every score is a sum of D products: q k^T takes 2 * D FLOPs a score.",
    ),
    Mistake(
        "qk-sums-over-keys",
        _QK_FLOPS,
        "qk_flops = 2 * queries * keys",
        "by-hand",
        "wrong",
        "The elements of q and k are multiplied: D is counted twice, and so are batch and heads.",
    ),
    Mistake(
        "pv-sums-over-queries",
        _PV_FLOPS,
        "pv_flops = 2 * queries * N_q",
        "by-hand",
        "wrong",
        "Every element of o is a sum over the N_k keys, not over the queries.",
    ),
    Mistake(
        "softmax-one-flop",
        _SOFTMAX_FLOPS,
        "softmax_flops = scores",
        "by-hand",
        "wrong",
        "Softmax is counted as one FLOP an element: maximum, subtract, exp, sum, divide are five.",
    ),
    Mistake(
        "scale-counted",
        _SOFTMAX_FLOPS,
        "softmax_flops = 6 * scores",
        "by-hand",
        "wrong",
        "Softmax is counted as six FLOPs an element: the scaling of the scores does not count.",
    ),
    Mistake(
        "scores-not-written",
        _QK_BYTES,
        "qk_bytes = (queries + keys) * dtype_bytes",
        "by-hand",
        "wrong",
        "q k^T reads q and k, but it also writes s to memory.",
    ),
    Mistake(
        "softmax-reads-only",
        _SOFTMAX_BYTES,
        "softmax_bytes = scores * dtype_bytes",
        "by-hand",
        "wrong",
        "Softmax moves two matrices: it reads s and writes p.",
    ),
    Mistake(
        "weights-not-read",
        _PV_BYTES,
        "pv_bytes = (keys + queries) * dtype_bytes",
        "by-hand",
        "wrong",
        "p v reads v and writes o, but it also reads p from memory.",
    ),
    Mistake(
        "elements-for-bytes",
        f"    {_QK_BYTES}  # q and k in, s out\n    {_SOFTMAX_BYTES}  # s in, p out\n"
        f"    {_PV_BYTES}",
        "    qk_bytes = queries + keys + scores\n    softmax_bytes = scores + scores\n"
        "    pv_bytes = scores + keys + queries",
        "one-head",
        "wrong",
        "Elements are counted, not bytes: multiply by dtype_bytes.",
    ),
    Mistake(
        "always-fp16",
        f"    {_QK_BYTES}  # q and k in, s out\n    {_SOFTMAX_BYTES}  # s in, p out\n"
        f"    {_PV_BYTES}",
        "    qk_bytes = 2 * (queries + keys + scores)\n    softmax_bytes = 2 * (scores + scores)\n"
        "    pv_bytes = 2 * (scores + keys + queries)",
        "fp32",
        "wrong",
        "Every element is taken to have 2 bytes: use dtype_bytes.",
    ),
    Mistake(
        "floats",
        _SCORES,
        "scores = float(B * H * N_q * N_k)",
        "by-hand",
        "wrong",
        "The answer holds floats: counts are integers, and floats are not exact beyond 2**53.",
    ),
    Mistake(
        "pairs-swapped",
        '"qk": (qk_flops, qk_bytes),',
        '"qk": (qk_bytes, qk_flops),',
        "by-hand",
        "wrong",
        "The pair of q k^T is swapped: FLOPs come first, then bytes.",
    ),
)
