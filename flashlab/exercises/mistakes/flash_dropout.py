"""What learners write instead of ``solutions/flash_dropout.py``. Floor: course."""

from flashlab.exercise import Mistake

_ROWS = "rows = head * N_q + offs_m.to(tl.int64)"
_NUMBERS = "numbers = rows[:, None] * N_k + offs_n[None, :]"
_U = "u = tl.rand(seed, numbers)"
_KEEP = "keep = u >= p_drop"
_SUM = "l_i = alpha * l_i + tl.sum(p, 1)  # before dropout: it scales weights, it does not norm\n"
_DROP = "        p = tl.where(keep, p, 0.0)\n"
_O = "o = acc / (l_safe * (1.0 - p_drop))[:, None]"
_DP_4 = (
    "        dp = tl.where(keep, dp / (1.0 - p_drop), 0.0)\n"
    "        ds = p * (dp - delta[:, None])\n"
    '        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")'
)
_DP_5 = (
    "        dp = tl.where(keep, dp / (1.0 - p_drop), 0.0)\n"
    "        ds = p * (dp - delta[:, None])\n"
    '        dk = tl.dot(tl.trans(ds.to(q.dtype)), q, dk, input_precision="ieee")'
)
_SCORES = "        s = scores(q, k, offs_m, offs_n, N_q, N_k, sm_scale, CAUSAL)"
_DROPPED = "dropped = tl.where(keep, p / (1.0 - p_drop), 0.0)"
_SEED_5 = "keep = keep_mask(seed, p_drop, head, offs_m, offs_n, N_q, N_k)\n        dropped"

MISTAKES = (
    Mistake(
        "same-bits-in-every-head",
        _ROWS,
        "rows = offs_m.to(tl.int64)",
        "two-tiles",
        "wrong",
        "The numbers of the weights leave out the head: every head drops the same weights.",
    ),
    Mistake(
        "numbers-of-the-tile",
        _NUMBERS,
        "numbers = (rows - tl.min(offs_m, 0))[:, None] * N_k + (offs_n - tl.min(offs_n, 0))"
        "[None, :]",
        "two-tiles",
        "wrong",
        "Every tile counts its weights from 0, so all tiles drop alike: a weight's number must "
        "not depend on its tile.",
    ),
    Mistake(
        "rows-of-n-q",
        _NUMBERS,
        "numbers = rows[:, None] * N_q + offs_n[None, :]",
        "one-tile",
        "wrong",
        "A row holds N_k weights, not N_q.",
    ),
    Mistake(
        "columns-first",
        _NUMBERS,
        "numbers = (head * N_k + offs_n.to(tl.int64))[None, :] * N_q + offs_m[:, None]",
        "one-tile",
        "wrong",
        "The weights are numbered column by column: row by row is agreed.",
    ),
    Mistake(
        "one-number-a-row",
        _U,
        "u = tl.rand(seed, rows)[:, None] + tl.zeros_like(offs_n)[None, :]",
        "one-tile",
        "wrong",
        "One random number is drawn for a row: whole rows are dropped or kept.",
    ),
    Mistake(
        "keeps-what-should-go",
        _KEEP,
        "keep = u < p_drop",
        "one-tile",
        "wrong",
        "The comparison is reversed: weights are kept with probability p, the probability of "
        "dropping them.",
    ),
    Mistake(
        "normal-numbers",
        _U,
        "u = tl.randn(seed, numbers)",
        "one-tile",
        "wrong",
        "tl.randn draws from a normal distribution: tl.rand is uniform in [0, 1).",
    ),
    Mistake(
        "seed-ignored",
        _U,
        "u = tl.rand(0, numbers)",
        "one-tile",
        "wrong",
        "The seed is not used: every call drops the same weights.",
    ),
    Mistake(
        "sum-after-dropout",
        f"{_SUM}        keep = keep_mask(seed, p_drop, head, offs_m, offs_n, N_q, N_k)\n{_DROP}",
        f"keep = keep_mask(seed, p_drop, head, offs_m, offs_n, N_q, N_k)\n{_DROP}"
        "        l_i = alpha * l_i + tl.sum(p, 1)\n",
        "one-tile",
        "wrong",
        "l_i sums the weights after dropout: the kept ones are normed to 1 again, and lse is off.",
    ),
    Mistake(
        "nothing-dropped",
        _DROP,
        "",
        "one-tile",
        "wrong",
        "The mask is drawn but never used: no weight is dropped in the forward pass.",
    ),
    Mistake(
        "scores-dropped",
        f"{_SCORES}  # [BLOCK_M, BLOCK_N]\n        m_new",
        f"{_SCORES}\n"
        "        s = tl.where(keep_mask(seed, p_drop, head, offs_m, offs_n, N_q, N_k), s, "
        'float("-inf"))\n        m_new',
        "one-tile",
        "wrong",
        "Scores are dropped before the softmax: the others share their weight, and lse is off.",
    ),
    Mistake(
        "not-grown",
        _O,
        "o = acc / l_safe[:, None]",
        "one-tile",
        "wrong",
        "The kept weights are not divided by 1 - p: o shrinks on average.",
    ),
    Mistake(
        "divided-by-p",
        _O,
        "o = acc / (l_safe * p_drop)[:, None]",
        "one-tile",
        "wrong",
        "The kept weights are divided by p: it has to be 1 - p.",
    ),
    Mistake(
        "lse-with-dropout",
        "lse = m_i + tl.log(l_safe)",
        "lse = m_i + tl.log(l_safe * (1.0 - p_drop))",
        "one-tile",
        "wrong",
        "lse holds the factor 1 - p: it is that of the scores, without dropout.",
    ),
    Mistake(
        "empty-row-unguarded",
        "l_safe = tl.where(l_i == 0.0, 1.0, l_i)",
        "l_safe = l_i",
        "causal-many-queries",
        "nan",
        "A row that sees no key divides 0 by 0, which is NaN: divide by 1 there.",
    ),
    Mistake(
        "dp-not-dropped",
        _DP_4,
        _DP_4.replace("        dp = tl.where(keep, dp / (1.0 - p_drop), 0.0)\n", ""),
        "backward-one-tile",
        "wrong",
        "dp does not pass through dropout in dq: a dropped weight has no gradient.",
    ),
    Mistake(
        "dp-not-grown",
        _DP_4,
        _DP_4.replace("dp / (1.0 - p_drop)", "dp"),
        "backward-one-tile",
        "wrong",
        "dp is not divided by 1 - p in dq: the kept weights were.",
    ),
    Mistake(
        "delta-dropped-too",
        _DP_4,
        _DP_4.replace(
            "ds = p * (dp - delta[:, None])", "ds = p * tl.where(keep, dp - delta[:, None], 0.0)"
        ),
        "backward-one-tile",
        "wrong",
        "ds is 0 for dropped weights in dq: they still share in the softmax, so -p * delta stays.",
    ),
    Mistake(
        "dq-from-dropped-weights",
        _DP_4,
        _DP_4.replace("ds = p *", "ds = tl.where(keep, p / (1.0 - p_drop), 0.0) *"),
        "backward-one-tile",
        "wrong",
        "ds multiplies with the dropped weights in dq: it needs p before dropout.",
    ),
    Mistake(
        "dv-from-all-weights",
        _DROPPED,
        "dropped = p",
        "backward-one-tile",
        "wrong",
        "dv comes from the weights before dropout: v was multiplied by the dropped ones.",
    ),
    Mistake(
        "dv-not-grown",
        _DROPPED,
        "dropped = tl.where(keep, p, 0.0)",
        "backward-one-tile",
        "wrong",
        "dv lacks the factor 1 / (1 - p) of the kept weights.",
    ),
    Mistake(
        "dk-dp-not-dropped",
        _DP_5,
        _DP_5.replace("        dp = tl.where(keep, dp / (1.0 - p_drop), 0.0)\n", ""),
        "backward-one-tile",
        "wrong",
        "dp does not pass through dropout in dk: a dropped weight has no gradient.",
    ),
    Mistake(
        "other-bits-in-the-backward-pass",
        _SEED_5,
        _SEED_5.replace("seed, p_drop", "seed + 1, p_drop"),
        "backward-one-tile",
        "wrong",
        "The backward pass draws with another seed than the forward pass: dk and dv drop other "
        "weights.",
    ),
    Mistake(
        "mask-transposed",
        _SEED_5,
        "keep = tl.trans(keep_mask(seed, p_drop, head, offs_n, offs_m, N_k, N_q))\n"
        "        dropped",
        "backward-two-tiles",
        "wrong",
        "The pass over queries numbers the weights with keys as rows: number them as the forward "
        "pass does.",
    ),
    Mistake(
        "seed-of-32-bits",
        "H, N_q, N_k, scale, float(p), seed, **shared,",
        "H, N_q, N_k, scale, float(p), seed % 2**32, **shared,",
        "long-seed",
        "wrong",
        "The seed is cut to 32 bits: seeds that differ above would drop alike.",
    ),
)
