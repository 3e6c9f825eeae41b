"""What learners write instead of ``solutions/merge_partials.py``. Floor: course."""

from flashlab.exercise import Mistake

_LOAD_LSE = 'lse_s = tl.load(lse_ptrs, mask=mask_m, other=float("-inf"))'
_LOAD_O = "o_s = tl.load(o_ptrs, mask=mask, other=0.0).to(tl.float32)"
_EMPTY = 'o_s = tl.where((lse_s == float("-inf"))[:, None], 0.0, o_s)'
_MAX = "m_new = tl.maximum(m_i, lse_s)"
_SAFE = 'm_safe = tl.where(m_new == float("-inf"), 0.0, m_new)'
_ALPHA = "alpha = tl.exp(m_i - m_safe)"
_W = "w = tl.exp(lse_s - m_safe)"
_L = "l_i = alpha * l_i + w"
_ACC = "acc = alpha[:, None] * acc + w[:, None] * o_s"
_L_SAFE = "l_safe = tl.where(l_i == 0.0, 1.0, l_i)"
_STORE_O = "tl.store(o_out_ptrs, acc / l_safe[:, None], mask=mask)"
_STORE_LSE = "tl.store(lse_out_ptrs, m_i + tl.log(l_safe), mask=mask_m)"

_PARTS = (
    Mistake(
        "plain-mean",
        _W,
        'w = tl.where(lse_s == float("-inf"), 0.0, 1.0 + 0.0 * m_safe)',
        "two-parts",
        "wrong",
        "Every part gets the same weight: o is the plain mean of the parts.",
    ),
    Mistake(
        "nan-of-empty-parts",
        _EMPTY,
        "o_s = o_s",
        "empty-parts",
        "nan",
        "An empty part's o is multiplied by 0, but it may be NaN, and 0 * NaN is NaN.",
    ),
    Mistake(
        "only-first-part",
        "for _ in range(S):",
        "for _ in range(1):",
        "two-parts",
        "wrong",
        "Only part 0 is read: the loop does not run over all S parts.",
    ),
    Mistake(
        "last-part-missing",
        "for _ in range(S):",
        "for _ in range(S - 1):",
        "two-parts",
        "wrong",
        "The loop stops one part early: the last part is never read.",
    ),
    Mistake(
        "o-pointer-stands-still",
        "        o_ptrs += stride_os\n",
        "",
        "two-parts",
        "wrong",
        "The pointers of o do not move on: every part uses the o of part 0.",
    ),
    Mistake(
        "lse-pointer-stands-still",
        "        lse_ptrs += stride_ls\n",
        "",
        "two-parts",
        "wrong",
        "The pointers of lse do not move on: every part uses the lse of part 0.",
    ),
    Mistake(
        "lse-unmasked",
        _LOAD_LSE,
        "lse_s = tl.load(lse_ptrs)",
        "ragged-rows",
        "oob",
        "lse is loaded without a mask: the last block reads past the last row.",
    ),
    Mistake(
        "o-unmasked",
        _LOAD_O,
        "o_s = tl.load(o_ptrs).to(tl.float32)",
        "ragged-rows",
        "oob",
        "o is loaded without a mask: the last block reads past the last row.",
    ),
    Mistake(
        "o-masked-by-rows-alone",
        _LOAD_O,
        "o_s = tl.load(o_ptrs, mask=mask_m[:, None], other=0.0).to(tl.float32)",
        "odd-head-dim",
        "oob",
        "The columns from D to BLOCK_D are not masked off in o: they belong to the next row.",
    ),
)

_WEIGHTS = (
    Mistake(
        "no-maximum",
        _MAX,
        "m_new = tl.zeros([BLOCK_M], tl.float32)",
        "large-lse",
        "nan",
        "No maximum is subtracted: exp(lse) overflows beyond 88 and is 0 below -104.",
    ),
    Mistake(
        "maximum-of-this-part",
        _MAX,
        "m_new = lse_s",
        "empty-parts",
        "wrong",
        "m_new is the lse of this part alone, not the largest so far.",
    ),
    Mistake(
        "exp2-for-exp",
        f"        {_ALPHA}\n        {_W}",
        "        alpha = tl.exp2(m_i - m_safe)\n        w = tl.exp2(lse_s - m_safe)",
        "two-parts",
        "wrong",
        "exp2 is used for exp: lse is in nats, so the weights are too even.",
    ),
    Mistake(
        "alpha-inverted",
        _ALPHA,
        "alpha = tl.exp(m_safe - m_i)",
        "two-parts",
        "nan",
        "alpha is upside down: exp(m_new - m_i) grows what should shrink.",
    ),
    Mistake(
        "empty-rows-unguarded",
        _SAFE,
        "m_safe = m_new",
        "empty-rows",
        "nan",
        "A row of only empty parts computes -inf - -inf, which is NaN: subtract 0 there.",
    ),
)

_MERGE = (
    Mistake(
        "sum-not-rescaled",
        _L,
        "l_i = l_i + w",
        "two-parts",
        "wrong",
        "The sum of weights l_i is not rescaled by alpha when the maximum grows.",
    ),
    Mistake(
        "output-not-rescaled",
        _ACC,
        "acc = acc + w[:, None] * o_s",
        "two-parts",
        "wrong",
        "acc is not rescaled by alpha when the maximum grows: early parts weigh too much.",
    ),
    Mistake(
        "output-not-weighted",
        _ACC,
        "acc = alpha[:, None] * acc + o_s",
        "two-parts",
        "wrong",
        "o_s is added without its weight w.",
    ),
    Mistake(
        "output-overwritten",
        _ACC,
        "acc = w[:, None] * o_s",
        "two-parts",
        "wrong",
        "acc is overwritten by the new part: only the last one is left.",
    ),
    Mistake(
        "maximum-not-kept",
        "        m_i = m_new\n",
        "",
        "two-parts",
        "wrong",
        "m_i is never updated: every part is treated as the first one.",
    ),
    Mistake(
        "never-divided",
        _STORE_O,
        "tl.store(o_out_ptrs, acc, mask=mask)",
        "two-parts",
        "wrong",
        "acc is never divided by the sum of the weights.",
    ),
    Mistake(
        "weights-summed-over-rows",
        _STORE_O,
        "tl.store(o_out_ptrs, acc / tl.sum(l_safe, 0), mask=mask)",
        "two-parts",
        "wrong",
        "The weights are summed over the rows of the block instead of over the parts.",
    ),
    Mistake(
        "divided-by-the-number-of-parts",
        _STORE_O,
        "tl.store(o_out_ptrs, acc / S, mask=mask)",
        "two-parts",
        "wrong",
        "acc is divided by the number of parts S, not by the sum of their weights.",
    ),
    Mistake(
        "empty-rows-divided-by-zero",
        _L_SAFE,
        "l_safe = l_i",
        "empty-rows",
        "nan",
        "A row of only empty parts divides 0 by 0, which is NaN: divide by 1 there.",
    ),
    Mistake(
        "lse-is-the-maximum",
        _STORE_LSE,
        "tl.store(lse_out_ptrs, m_i, mask=mask_m)",
        "two-parts",
        "wrong",
        "The merged lse is the largest lse alone: the log of the sum of weights is missing.",
    ),
    Mistake(
        "lse-without-maximum",
        _STORE_LSE,
        "tl.store(lse_out_ptrs, tl.log(l_safe), mask=mask_m)",
        "two-parts",
        "wrong",
        "The merged lse is log l alone: the maximum m is missing.",
    ),
    Mistake(
        "lse-base-2",
        _STORE_LSE,
        "tl.store(lse_out_ptrs, m_i + tl.log2(l_safe), mask=mask_m)",
        "two-parts",
        "wrong",
        "The merged lse uses log2: it has to be in nats, a natural logarithm.",
    ),
    Mistake(
        "merged-in-fp16",
        _ACC,
        "acc = (alpha[:, None] * acc + w[:, None] * o_s).to(tl.float16).to(tl.float32)",
        "fp32",
        "wrong",
        "acc passes through fp16 after every part: keep it in fp32 until the store.",
    ),
    Mistake(
        "o-stored-unmasked",
        _STORE_O,
        "tl.store(o_out_ptrs, acc / l_safe[:, None])",
        "ragged-rows",
        "race",
        "o is stored without a mask: the last block writes past the last row.",
    ),
    Mistake(
        "lse-stored-unmasked",
        _STORE_LSE,
        "tl.store(lse_out_ptrs, m_i + tl.log(l_safe))",
        "ragged-rows",
        "race",
        "lse is stored without a mask: the last block writes past the last row.",
    ),
)

_GIVEN = (
    Mistake(
        "batch-and-head-swapped",
        "b, h = head // H, head % H",
        "b, h = head % H, head // H",
        "four-parts",
        "oob",
        "Batch and head are swapped: head % H is h, head // H is b.",
    ),
    Mistake(
        "grid-rounds-down",
        "triton.cdiv(N, BLOCK_M) * B * H",
        "max(N // BLOCK_M, 1) * B * H",
        "ragged-rows",
        "uninitialised",
        "The grid rounds N / BLOCK_M down: nobody owns the last, partly filled block.",
    ),
)

MISTAKES = _PARTS + _WEIGHTS + _MERGE + _GIVEN
