"""Chapter 09: FP8 and incoherent processing."""

import math

from flashlab import hardware
from flashlab.quizzes.question import Question, Wrong


def _peak(dtype: str) -> float:
    return hardware.find("NVIDIA H200").tflops[dtype]


QUESTIONS = (
    Question(
        key="next-number",
        prompt="FP8 numbers of the kind e4m3 have 3 bits of mantissa. Which of them follows 16?",
        answer=lambda: 16 * (1 + 2.0**-3),
        unit="",
        because="Between 16 and 32 there are 8 steps of 2.",
        wrong=(
            Wrong(lambda: 16 + 2.0**-3, "Steps grow with the number: 2^-3 of 16."),
            Wrong(lambda: 17, "That would be 4 bits of mantissa."),
            Wrong(lambda: 20, "That is e5m2, with 2 bits of mantissa."),
        ),
        tolerance=0.0,
    ),
    Question(
        key="scale",
        prompt="The largest magnitude of a block is 5.6. By which scale is the block divided?",
        answer=lambda: 5.6 / 448,
        unit="",
        because="5.6 has to become 448, the largest e4m3 number: 5.6 / 448.",
        wrong=(
            Wrong(lambda: 448 / 5.6, "That is what the block is multiplied by: turn it round."),
            Wrong(lambda: 5.6, "Then the largest becomes 1, and most of the range stays empty."),
            Wrong(lambda: 5.6 / 127, "127 is int8's largest number."),
        ),
    ),
    Question(
        key="rotated-outlier",
        prompt="A row of 64 numbers holds one of 40, all others are 0. After signs and H_64 / 8, "
        "how large is each number in magnitude?",
        answer=lambda: 40 / math.sqrt(64),
        unit="",
        because="The length of the row stays 40, shared out over 64 equal numbers.",
        wrong=(
            Wrong(lambda: 40 / 64, "Lengths add up by squares: divide by the root of 64."),
            Wrong(lambda: 40, "H_64 is divided by 8, the root of 64."),
        ),
    ),
    Question(
        key="butterfly",
        prompt="How many sums and differences rotate one row of 128 numbers?",
        answer=lambda: 128 * math.log2(128),
        unit="",
        because="7 rounds, log2(128), of 128 each.",
        wrong=(
            Wrong(lambda: 128 * 128, "That is the product with the whole matrix."),
            Wrong(lambda: 7, "That is the rounds; each has 128 sums or differences."),
            Wrong(lambda: 64 * 7, "64 pairs a round, and each has a sum and a difference."),
        ),
        tolerance=0.0,
    ),
    Question(
        key="scale-in-scores",
        prompt="The product q8 . k8 is 50,000, the scales are 0.01 for q and 0.02 for k, and D is "
        "64. What is the score?",
        answer=lambda: 50_000 * 0.01 * 0.02 / 8,
        unit="",
        because="Both scales and 1/sqrt(64) multiply the product.",
        wrong=(
            Wrong(lambda: 50_000 * 0.01 * 0.02, "1/sqrt(D) is missing."),
            Wrong(lambda: 50_000 * 0.01 / 8, "The scale of k is missing."),
            Wrong(lambda: 50_000 / 0.01 / 0.02 / 8, "Multiply: q is q8 times its scale."),
        ),
    ),
    Question(
        key="lost-weight",
        prompt="Weights are multiplied by 2^8 before they are rounded to e4m3. Half of its "
        "smallest number, 2^-9, is the border to 0. Below which weight is everything 0?",
        answer=lambda: 2.0**-10 / 2**8,
        unit="",
        because="2^-10 / 2^8 = 2^-18.",
        wrong=(
            Wrong(lambda: 2.0**-10, "That is without the factor 2^8."),
            Wrong(lambda: 2.0**-2, "The factor makes small weights larger: divide by it."),
            Wrong(lambda: 2.0**-17, "Half of the smallest number still rounds to 0."),
        ),
    ),
    Question(
        key="peak",
        prompt="By which factor is an H200's peak in FP8 above its peak in FP16?",
        answer=lambda: _peak("float8_e4m3fn") / _peak("float16"),
        unit="times",
        because="1,979 against 989 TFLOP/s on the data sheet, dense.",
        wrong=(
            Wrong(lambda: 4, "A matrix of 2:4 sparse FP8 against dense FP16 would be 4."),
            Wrong(lambda: 1.49, "That is what attention reached; the peak is the data sheet's."),
        ),
        tolerance=0.01,
    ),
)
