"""Chapter 08: FlashAttention-3."""

from flashlab.quizzes.question import Question, Wrong

PEAK, SMS, CLOCK = 989e12, 132, 1.83e9  # H100 SXM, fp16
EXPS = 16 * SMS * CLOCK

QUESTIONS = (
    Question(
        key="exps-a-second",
        prompt="A GPU has 132 multiprocessors at 1.83 GHz, and each takes 16 exponentials in a "
        "clock. How many T (10^12) exponentials is that in a second?",
        answer=lambda: EXPS / 1e12,
        unit="T exponentials",
        because="16 x 132 x 1.83e9 are 3.9e12.",
        wrong=(
            Wrong(lambda: 16 * CLOCK / 1e12, "That is one multiprocessor; there are 132."),
            Wrong(lambda: SMS * CLOCK / 1e12, "Each of them takes 16 in a clock."),
        ),
    ),
    Question(
        key="exp-share-64",
        prompt="Products run at 989 TFLOP/s, exponentials at 3.87 T a second. At D = 64, how "
        "long do the exponentials of a tile take, as a share of the time of its two products?",
        answer=lambda: PEAK / EXPS / (4 * 64),
        unit="",
        tolerance=0.02,
        because="A score costs 4 x 64 = 256 FLOPs in products, and products run 256 times as "
        "fast: both take equally long.",
        wrong=(
            Wrong(lambda: PEAK / EXPS / (2 * 64), "There are two products: 4 D FLOPs a score."),
            Wrong(lambda: PEAK / EXPS / (4 * 128), "That is D = 128."),
        ),
    ),
    Question(
        key="serial-use",
        prompt="A tile's products take 1,024 clocks, its softmax 900, and nothing overlaps. "
        "Which share of the time do the tensor cores work, from 0 to 1?",
        answer=lambda: 1024 / (1024 + 900),
        unit="",
        because="1,024 of 1,924 clocks.",
        wrong=(
            Wrong(lambda: 1.0, "They wait for the softmax: nothing overlaps."),
            Wrong(lambda: 900 / 1024, "Divide by the whole time, not by that of the products."),
            Wrong(lambda: 900 / 1924, "That is the share in which they wait."),
        ),
    ),
    Question(
        key="ideal-overlap",
        prompt="Two warpgroups share the tensor cores. Each has products of 1,024 clocks a tile "
        "and a softmax of 900. If all overlaps perfectly, how many clocks does a round of one "
        "tile for each of them take?",
        answer=lambda: max(2 * 1024, 1024 + 900),
        unit="clocks",
        because="The tensor cores need 2,048 clocks for both; one warpgroup alone would be done "
        "after 1,924, so the tensor cores are the limit.",
        wrong=(
            Wrong(lambda: 1024 + 900, "The tensor cores serve both warpgroups: 2 x 1,024."),
            Wrong(lambda: 2 * (1024 + 900), "That is without any overlap."),
            Wrong(lambda: 1024, "That is the products of one of the two."),
        ),
    ),
    Question(
        key="phase-of-a-tile",
        prompt="A ring has 3 slots. Tile 10 goes into slot 10 mod 3. Which parity does the "
        "consumer name when it waits at that slot's full barrier?",
        answer=lambda: 10 // 3 & 1,
        unit="",
        tolerance=0.0,
        because="Tile 10 is the fourth one in slot 1, so it completes phase 3, whose parity is 1.",
        wrong=(
            Wrong(lambda: 0, "10 // 3 is 3: the fourth fill, phase 3."),
            Wrong(lambda: 3, "That is the phase; a wait names its parity, 0 or 1."),
        ),
    ),
    Question(
        key="producer-first-wait",
        prompt="On a new barrier phase 0 is running. Which parity may a wait name that has to "
        "pass at once?",
        answer=lambda: 1,
        unit="",
        tolerance=0.0,
        because="A wait goes on when the running phase has the other parity.",
        wrong=(Wrong(lambda: 0, "Phase 0 has parity 0 and is not complete: the wait stays."),),
    ),
    Question(
        key="consumer-registers",
        prompt="A multiprocessor has 65,536 registers. A block has one producer warpgroup with "
        "24 registers a thread and two consumers of 128 threads each. How many registers a "
        "thread can each consumer have, rounded down to a multiple of 8?",
        answer=lambda: (65536 - 24 * 128) // 256 // 8 * 8,
        unit="registers",
        tolerance=0.0,
        because="62,464 are left for 256 threads: 244, so 240.",
        wrong=(
            Wrong(lambda: 65536 // 384 // 8 * 8, "That is equal shares for all three."),
            Wrong(lambda: (65536 - 24 * 128) // 256, "In steps of 8: round down."),
            Wrong(lambda: 65536 // 256, "The producer keeps 24 registers a thread."),
        ),
    ),
    Question(
        key="share-of-peak",
        prompt="A forward pass with B = 1, H = 16, N = 16,384, D = 128, no mask, takes 3.15 ms "
        "on a GPU whose peak is 989 TFLOP/s. Which share of the peak is that, from 0 to 1?",
        answer=lambda: 4 * 16 * 16384**2 * 128 / 3.15e-3 / PEAK,
        unit="",
        tolerance=0.02,
        because="4 B H N^2 D are 2.2e12 FLOPs, so 698 TFLOP/s.",
        wrong=(
            Wrong(
                lambda: 2 * 16 * 16384**2 * 128 / 3.15e-3 / PEAK,
                "Two products with 2 FLOPs a multiply-add each: 4 B H N^2 D.",
            ),
            Wrong(
                lambda: 4 * 16 * 16384**2 * 128 / 3.15e-3 / 1e12,
                "Those are TFLOP/s; divide by the peak.",
            ),
        ),
    ),
)
