"""Chapter 04: tiling."""

import math

from flashlab.quizzes.question import Question, Wrong

FP16, FP32 = 2, 4

QUESTIONS = (
    Question(
        key="score-rows",
        prompt="A program keeps the complete score rows of 64 queries at N = 16,384 in fp16. "
        "How much memory is that?",
        answer=lambda: 64 * 16384 * FP16,
        unit="bytes",
        because="64 rows of 16,384 scores of 2 bytes; a block of an A100 has 163 KB.",
        wrong=(
            Wrong(lambda: 64 * 16384, "That is the number of scores; each takes 2 bytes."),
            Wrong(lambda: 64 * 16384 * FP32, "That is fp32; an fp16 number takes 2 bytes."),
            Wrong(lambda: 16384**2 * FP16, "That is all of S; the program keeps 64 of its rows."),
        ),
    ),
    Question(
        key="alpha",
        prompt="A row's running maximum is 1.0. A new tile arrives whose largest score is 3.0. "
        "By which number are `l_i` and `acc` multiplied?",
        answer=lambda: math.exp(1.0 - 3.0),
        unit="",
        because="Old terms carry exp(-1); times exp(1 - 3) they carry exp(-3), as new ones do.",
        wrong=(
            Wrong(
                lambda: math.exp(3.0 - 1.0),
                "The sign is turned round: old terms have to shrink when the maximum grows.",
            ),
            Wrong(lambda: math.exp(-3.0), "That forgets that old terms carry exp(-1) already."),
            Wrong(
                lambda: 1.0 / 3.0, "The ratio of the maxima does not matter, their distance does."
            ),
            Wrong(lambda: 1.0, "A factor of 1 is right only while the maximum does not grow."),
        ),
    ),
    Question(
        key="running-sum",
        prompt="The scores of a row are 1, 1 in its first tile and 3, 3 in its second. "
        "What is `l_i` after the second tile?",
        answer=lambda: 2 * math.exp(1 - 3) + 2 * math.exp(3 - 3),
        unit="",
        because="After the first tile it is 2; rescaled by exp(-2), then 2 more for the new ones.",
        wrong=(
            Wrong(lambda: 4.0, "The first tile's sum was not rescaled: its terms are exp(1 - 3)."),
            Wrong(lambda: 2.0, "That is the second tile alone."),
            Wrong(
                lambda: 2 * math.exp(1) + 2 * math.exp(3),
                "No maximum was subtracted: `l_i` is a sum of exp(s - m_i).",
            ),
            Wrong(lambda: 2 * math.exp(2) + 2, "The sign is turned round: rescale by exp(1 - 3)."),
        ),
    ),
    Question(
        key="causal-tiles",
        prompt="N = 4,096, tiles of 128 x 128, causal mask. How many tiles of a head hold at "
        "least one visible key?",
        answer=lambda: sum(i + 1 for i in range(4096 // 128)),
        unit="tiles",
        because="Query block i meets i + 1 key blocks, and 1 + 2 + ... + 32 is 528 of 1,024.",
        wrong=(
            Wrong(lambda: (4096 // 128) ** 2, "That is every tile; those above are skipped."),
            Wrong(
                lambda: sum(range(4096 // 128)),
                "The tiles on the diagonal are missing: half of each is visible.",
            ),
            Wrong(
                lambda: (4096 // 128) ** 2 / 2,
                "Not quite half: the tiles on the diagonal count in full.",
            ),
        ),
        tolerance=0.0,
    ),
    Question(
        key="keys-loaded",
        prompt="One head, N = 8,192, D = 64, fp16, `BLOCK_M` = 128, no mask, queries outside. "
        "How many bytes of K and V do all programs load together?",
        answer=lambda: (8192 // 128) * 2 * 8192 * 64 * FP16,
        unit="bytes",
        because="64 programs each load K and V once: 64 x 2 tensors of 8,192 x 64 x 2 bytes.",
        wrong=(
            Wrong(lambda: 2 * 8192 * 64 * FP16, "That is once: each of the programs loads them."),
            Wrong(lambda: 64 * 8192 * 64 * FP16, "That is K alone; V is loaded as often."),
            Wrong(
                lambda: 8192 * 2 * 8192 * 64 * FP16,
                "Once a program, not once a query: a program has 128 queries.",
            ),
        ),
    ),
    Question(
        key="output-stored",
        prompt="The same head with keys outside and key blocks of 256 keys. How many times is "
        "each element of O stored?",
        answer=lambda: 8192 // 256,
        unit="times",
        because="O_i comes and goes once per key block, and there are 32 of them.",
        wrong=(
            Wrong(lambda: 1, "Once is the other order, queries outside."),
            Wrong(
                lambda: 8192 // 256 - 1, "That is how often it is loaded: not before the first."
            ),
            Wrong(lambda: 8192, "Once per key block, not once per key."),
        ),
        tolerance=0.0,
    ),
    Question(
        key="lse-memory",
        prompt="B = 2, H = 16, N = 8,192. How much memory does a tiled forward pass keep beside "
        "O, as one fp32 `lse` a row?",
        answer=lambda: 2 * 16 * 8192 * FP32,
        unit="bytes",
        because="One 4-byte number for each row of each head: it grows with N, not with N x N.",
        wrong=(
            Wrong(lambda: 8192 * FP32, "That is one head; there are B x H = 32."),
            Wrong(lambda: 2 * 16 * 8192 * FP16, "`lse` is kept in fp32: 4 bytes."),
            Wrong(lambda: 2 * 16 * 8192 * 2 * FP32, "One number a row, not both m and l."),
            Wrong(lambda: 2 * 16 * 8192**2 * FP16, "That is all of S, which is never stored."),
        ),
    ),
    Question(
        key="lse-value",
        prompt="A row ends with `m_i` = 2.0 and `l_i` = 4.0. What is its `lse`?",
        answer=lambda: 2.0 + math.log(4.0),
        unit="nats",
        because="`l_i` is the sum of exp(s - 2): the sum of exp(s) is 4 exp(2); take its log.",
        wrong=(
            Wrong(lambda: math.log(4.0), "The maximum is missing: every term carries exp(-m_i)."),
            Wrong(lambda: 2.0 + math.log2(4.0), "That is base 2; `lse` is a natural logarithm."),
            Wrong(
                lambda: math.log(2.0 + 4.0),
                "The logarithm is of `l_i` alone; `m_i` comes after it.",
            ),
            Wrong(lambda: 2.0 * math.log(4.0), "`m_i` is added to the logarithm, not multiplied."),
        ),
    ),
)
