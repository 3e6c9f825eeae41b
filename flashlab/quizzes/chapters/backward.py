"""Chapter 06: backward by recomputation."""

import math

from flashlab.quizzes.question import Question, Wrong

FP16, FP32 = 2, 4

QUESTIONS = (
    Question(
        key="autograd-keeps",
        prompt="Plain attention, no mask, no dropout: B = 4, H = 16, N = 2,048, fp16, 12 layers. "
        "How many bytes does autograd keep beside `q`, `k` and `v`?",
        answer=lambda: 12 * 4 * 16 * 2048**2 * FP16,
        unit="bytes",
        because="One `p` of N x N numbers a head, in each layer until its turn comes.",
        wrong=(
            Wrong(lambda: 4 * 16 * 2048**2 * FP16, "That is one layer; all 12 wait."),
            Wrong(lambda: 12 * 16 * 2048**2 * FP16, "Each of the 4 sequences has its own `p`."),
            Wrong(lambda: 12 * 4 * 16 * 2048**2, "An fp16 number takes 2 bytes."),
            Wrong(
                lambda: 2 * 12 * 4 * 16 * 2048**2 * FP16,
                "Softmax and the product save the same `p`; the scores `s` are not saved.",
            ),
        ),
    ),
    Question(
        key="flash-keeps",
        prompt="The same model with FlashAttention and D = 64. How many bytes of `o` and `lse` "
        "are kept in all?",
        answer=lambda: 12 * 4 * 16 * 2048 * (64 * FP16 + FP32),
        unit="bytes",
        because="A row of `o` has 64 fp16 numbers, and `lse` is one fp32 number a row.",
        wrong=(
            Wrong(lambda: 12 * 4 * 16 * 2048 * FP32, "That is `lse` alone."),
            Wrong(lambda: 4 * 16 * 2048 * (64 * FP16 + FP32), "That is one layer; there are 12."),
            Wrong(lambda: 12 * 4 * 16 * 2048 * (64 + 1) * FP32, "`o` is fp16: 2 bytes."),
            Wrong(lambda: 12 * 4 * 16 * 2048 * 65 * FP16, "`lse` is fp32: 4 bytes."),
        ),
    ),
    Question(
        key="weight-again",
        prompt="A row ended with `m_i` = 3.0 and `l_i` = 2.0. One of its scores is 2.5. "
        "What is that weight?",
        answer=lambda: math.exp(2.5 - (3.0 + math.log(2.0))),
        unit="",
        because="`lse` is 3 + log 2, and exp(2.5 - lse) = exp(-0.5) / 2.",
        wrong=(
            Wrong(lambda: math.exp(2.5 - 3.0), "The division by `l_i` is missing: use lse."),
            Wrong(lambda: math.exp(2.5 - 3.0 - 2.0), "The `lse` holds the logarithm of `l_i`."),
            Wrong(lambda: math.exp(2.5) / 2.0, "The maximum is missing: lse = m + log l."),
        ),
    ),
    Question(
        key="jacobian-entry",
        prompt="A row has two keys with weights 0.8 and 0.2. The gradient that arrives at the "
        "weights is `dp` = (1, 0). What is `ds` of the first key?",
        answer=lambda: 0.8 * (1 - 0.8),
        unit="",
        because="Here delta = 0.8 x 1 + 0.2 x 0 = 0.8, and ds = p (dp - delta) = 0.8 x 0.2.",
        wrong=(
            Wrong(lambda: 0.8, "That is p dp, without delta."),
            Wrong(lambda: 1 - 0.8, "That is dp - delta; it is multiplied by p."),
            Wrong(lambda: -0.8 * 0.2, "That is `ds` of the second key: what it loses."),
        ),
    ),
    Question(
        key="delta-value",
        prompt="A row has `o` = (2, -1) and `do` = (0.5, 3). What is its `delta`?",
        answer=lambda: 2 * 0.5 + -1 * 3,
        unit="",
        because="It is do . o = 1 - 3, and may be negative.",
        wrong=(
            Wrong(lambda: 2 * 0.5 + 1 * 3, "Mind the sign of the second entry of `o`."),
            Wrong(lambda: (2 - 1) * (0.5 + 3), "Multiply entry by entry, then add."),
            Wrong(lambda: (2 * 0.5 + -1 * 3) / 2, "It is a sum, not a mean."),
        ),
    ),
    Question(
        key="products",
        prompt="By which factor do the matrix FLOPs of the backward pass grow, from the standard "
        "one that reads `p` to two passes that recompute it?",
        answer=lambda: (4 + 3) / 4,
        unit="times",
        because="Four products become four for dk and dv and three for dq: s and dp twice.",
        wrong=(
            Wrong(lambda: 5 / 4, "That is one pass; two passes recompute `s` and `dp` twice."),
            Wrong(lambda: 7 / 5, "The standard pass reads `p`, so it has four products."),
            Wrong(lambda: 2, "Not everything is done twice: dq, dk and dv are computed once."),
        ),
    ),
    Question(
        key="passing-bytes",
        prompt="One head, N = 4,096, D = 64, fp16, no mask. Keys stay on chip in blocks of 128. "
        "How many bytes of `q` and `do` do all programs of this pass load together?",
        answer=lambda: (4096 // 128) * 2 * 4096 * 64 * FP16,
        unit="bytes",
        because="32 programs each see all of `q` and `do` once.",
        wrong=(
            Wrong(lambda: 2 * 4096 * 64 * FP16, "That is once; there are 32 programs."),
            Wrong(lambda: 32 * 4096 * 64 * FP16, "That is `q` alone; `do` comes with it."),
            Wrong(lambda: 4096 * 2 * 4096 * 64 * FP16, "Once a block of keys, not once a key."),
        ),
    ),
    Question(
        key="real-rate",
        prompt="A backward pass of seven products runs at 400 TFLOP/s by the convention of five. "
        "How many TFLOP/s do its matrix products reach?",
        answer=lambda: 400 * 7 / 5,
        unit="TFLOP/s",
        because="The time is the same, and seven products were done in it.",
        wrong=(
            Wrong(lambda: 400 * 5 / 7, "More was done than the convention counts, not less."),
            Wrong(lambda: 400, "The convention counts five products; seven are done."),
            Wrong(lambda: 400 * 7 / 4, "The convention counts five products, not four."),
        ),
    ),
)
