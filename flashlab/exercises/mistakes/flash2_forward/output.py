"""Mistakes in what ``flash2_forward`` makes of the sums after its loop. Floor: course."""

from flashlab.exercise import Mistake

_L_SAFE = "l_safe = tl.where(l_i == 0.0, 1.0, l_i)"
_O = "o = acc * (1.0 / l_safe)[:, None]"
_LSE = "lse = (m_log2 + tl.log2(l_safe)) / LOG2E"

OUTPUT = (
    Mistake(
        "never-divided",
        _O,
        "o = acc",
        "one-tile",
        "wrong",
        "acc is never divided by l.",
    ),
    Mistake(
        "multiplied-by-the-sum",
        _O,
        "o = acc * l_safe[:, None]",
        "one-tile",
        "wrong",
        "acc is multiplied by l where it has to be divided.",
    ),
    Mistake(
        "empty-row-sum-unguarded",
        _L_SAFE,
        "l_safe = l_i",
        "causal-many-queries",
        "nan",
        "A row that has seen no key divides 0 by 0, which is NaN: divide by 1 there.",
    ),
    Mistake(
        "lse-in-base-2",
        _LSE,
        "lse = m_log2 + tl.log2(l_safe)",
        "one-tile",
        "wrong",
        "lse is left in base 2: it has to be in nats, so divide it by log2(e).",
    ),
    Mistake(
        "lse-times-log2e",
        _LSE,
        "lse = (m_log2 + tl.log2(l_safe)) * LOG2E",
        "one-tile",
        "wrong",
        "lse is multiplied by log2(e): from base 2 to nats one divides.",
    ),
    Mistake(
        "lse-maximum-in-base-2",
        _LSE,
        "lse = m_log2 + tl.log(l_safe)",
        "one-tile",
        "wrong",
        "lse adds a maximum in base 2 to a natural logarithm.",
    ),
    Mistake(
        "lse-maximum-times-log2e",
        _LSE,
        "lse = m_log2 * LOG2E + tl.log(l_safe)",
        "one-tile",
        "wrong",
        "lse multiplies the maximum by log2(e): from base 2 to nats one divides.",
    ),
    Mistake(
        "lse-logarithm-in-base-2",
        _LSE,
        "lse = m_log2 / LOG2E + tl.log2(l_safe)",
        "one-tile",
        "wrong",
        "lse adds a logarithm in base 2 to a maximum in nats.",
    ),
    Mistake(
        "lse-without-maximum",
        _LSE,
        "lse = tl.log2(l_safe) / LOG2E",
        "one-tile",
        "wrong",
        "lse is log l alone: the maximum m is missing.",
    ),
    Mistake(
        "lse-is-maximum",
        _LSE,
        "lse = m_log2 / LOG2E",
        "one-tile",
        "wrong",
        "lse is the maximum m alone: log l is missing.",
    ),
)
