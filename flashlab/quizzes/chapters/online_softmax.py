"""Chapter 03: online softmax."""

import math

from flashlab.quizzes.question import Question, Wrong

FP32 = 4

QUESTIONS = (
    Question(
        key="safe-bytes",
        prompt="Safe softmax in three passes over a matrix of 1,000 rows and 50,000 columns in "
        "fp32, rows too long for the chip. How many bytes move?",
        answer=lambda: 4 * 1000 * 50_000 * FP32,
        unit="bytes",
        because="Each element is loaded three times and its weight stored once, at 4 bytes.",
        wrong=(
            Wrong(lambda: 3 * 1000 * 50_000 * FP32, "The weights have to be stored as well."),
            Wrong(lambda: 2 * 1000 * 50_000 * FP32, "That is a row that stays on chip."),
            Wrong(lambda: 4 * 50_000 * FP32, "That is one row of the thousand."),
        ),
    ),
    Question(
        key="online-gain",
        prompt="By which factor is online softmax faster than safe softmax, if both wait for "
        "memory all the time?",
        answer=lambda: 4 / 3,
        unit="times",
        because="Three accesses an element for four.",
        wrong=(
            Wrong(lambda: 3 / 4, "That is its time as a share: turn it round."),
            Wrong(lambda: 3 / 2, "The store counts too: four accesses against three."),
            Wrong(lambda: 2, "One of four accesses is saved, not two."),
        ),
    ),
    Question(
        key="old-sum",
        prompt="`m_i` is 2.0 and `l_i` is 3.0. A tile arrives whose largest score is 2.5. What "
        "becomes of the old sum before the tile's terms are added?",
        answer=lambda: 3.0 * math.exp(2.0 - 2.5),
        unit="",
        because="It is multiplied by alpha = exp(2.0 - 2.5), about 0.607.",
        wrong=(
            Wrong(lambda: 3.0 * math.exp(2.5 - 2.0), "Old terms shrink when the maximum grows."),
            Wrong(lambda: 3.0 * math.exp(-2.5), "The old terms carry exp(-2.0) already."),
            Wrong(lambda: math.exp(2.0 - 2.5), "That is alpha; the sum was 3.0."),
            Wrong(lambda: 3.0, "The maximum grew, so the sum has to be rescaled."),
        ),
    ),
    Question(
        key="no-new-maximum",
        prompt="`m_i` is 1.0 and `l_i` is 5.0. A tile with the scores 0.0 and 1.0 arrives. What "
        "is `l_i` afterwards?",
        answer=lambda: 5.0 + math.exp(0.0 - 1.0) + math.exp(1.0 - 1.0),
        unit="",
        because="The maximum stays 1.0, alpha is 1, and exp(-1) + exp(0) is added.",
        wrong=(
            Wrong(lambda: 5.0 + math.exp(0.0) + math.exp(1.0), "The maximum was not subtracted."),
            Wrong(lambda: 7.0, "The score 0.0 adds exp(0.0 - 1.0), not 1."),
            Wrong(
                lambda: 5.0 * math.exp(-1.0) + math.exp(-1.0) + 1.0,
                "The maximum did not grow: alpha is exp(1.0 - 1.0) = 1.",
            ),
        ),
    ),
    Question(
        key="telescope",
        prompt="The running maximum of a row goes 1, 4, 4, 6 over its four tiles. By which number "
        "has a term of the first tile been multiplied in the end?",
        answer=lambda: math.exp(1 - 6),
        unit="",
        because="It is exp(1 - 4) exp(4 - 4) exp(4 - 6), and the inner maxima cancel.",
        wrong=(
            Wrong(lambda: math.exp(4 - 6), "That is the last alpha; there were two before it."),
            Wrong(lambda: math.exp(1 - 4), "That is the second tile's alpha alone."),
            Wrong(lambda: math.exp(-6), "The term carries exp(-1) from the start."),
            Wrong(lambda: math.exp(6 - 1), "The sign is turned round: terms shrink."),
        ),
    ),
    Question(
        key="kept",
        prompt="A row has 65,536 fp32 scores. How many bytes does online softmax keep between two "
        "tiles of it?",
        answer=lambda: 2 * FP32,
        unit="bytes",
        because="The maximum and the sum, whatever the length of the row.",
        wrong=(
            Wrong(lambda: FP32, "Two numbers are kept: maximum and sum."),
            Wrong(lambda: 65536 * FP32, "That is the whole row; nothing of it is kept."),
        ),
        tolerance=0.0,
    ),
    Question(
        key="merged-sum",
        prompt="One part of a row has m = 0 and l = 2, another m = ln 4 and l = 3. What is l of "
        "both together?",
        answer=lambda: 2 * math.exp(0 - math.log(4)) + 3,
        unit="",
        because="The first sum is fitted to the maximum ln 4: 2 / 4. Then 3 is added.",
        wrong=(
            Wrong(lambda: 2 + 3, "The first sum belongs to another maximum: fit it first."),
            Wrong(
                lambda: 2 * 4 + 3,
                "The factor is exp(0 - ln 4) = 1/4: the smaller maximum's sum shrinks.",
            ),
            Wrong(lambda: 2 + 3 / 4, "It is the part with the smaller maximum that shrinks."),
        ),
    ),
    Question(
        key="part-weight",
        prompt="Two parts of a row have the log-sum-exps 1.0 and 3.0. With which weight does the "
        "second part's output enter the merged output?",
        answer=lambda: math.exp(3) / (math.exp(1) + math.exp(3)),
        unit="",
        because="A part weighs exp(lse), as a single key weighs exp(score).",
        wrong=(
            Wrong(lambda: 3 / 4, "The log-sum-exps are logarithms: take exp of both."),
            Wrong(lambda: 0.5, "Equal weights are right only for equal log-sum-exps."),
            Wrong(lambda: math.exp(1) / (math.exp(1) + math.exp(3)), "That is the first part."),
            Wrong(lambda: math.exp(3), "Divide by the sum of both weights."),
        ),
    ),
)
