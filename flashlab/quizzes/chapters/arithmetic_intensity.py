"""Chapter 01: arithmetic intensity."""

from flashlab.quizzes.question import Question, Wrong

FP16, FP32 = 2, 4
A100_PEAK, A100_BANDWIDTH = 312e12, 2.04e12

QUESTIONS = (
    Question(
        key="ridge",
        prompt="A GPU does 500 TFLOP/s and moves 2.5 TB/s. From which intensity on is arithmetic "
        "its limit?",
        answer=lambda: 500e12 / 2.5e12,
        unit="FLOPs a byte",
        because="500 FLOPs in the time of 2.5 bytes: a byte has to bring work for 200.",
        wrong=(
            Wrong(lambda: 2.5 / 500, "That is bytes a FLOP: turn the fraction round."),
            Wrong(lambda: 500 / (8 * 2.5), "TB/s counts bytes already; there are no bits here."),
            Wrong(lambda: 500 * 2.5, "Divide: how many FLOPs fit into the time of one byte?"),
        ),
    ),
    Question(
        key="bias",
        prompt="A kernel adds a bias to an fp32 matrix: `z = x + b`, with one number of `b` for "
        "each of its thousands of columns. How many FLOPs does it do for each byte that it moves?",
        answer=lambda: 1 / (2 * FP32),
        unit="FLOPs a byte",
        because="An element is read and written, 4 bytes each, for one addition. `b` is small.",
        wrong=(
            Wrong(lambda: 1 / FP32, "It is read and written: 8 bytes an element."),
            Wrong(lambda: 1 / (3 * FP32), "`b` is loaded once a column, not once an element."),
            Wrong(lambda: 2 * FP32, "That is bytes a FLOP: turn the fraction round."),
        ),
    ),
    Question(
        key="product-bytes",
        prompt="`a` is [4096, 128] and `b` is [128, 1024], both fp16, and so is `a b`. How many "
        "bytes move at least?",
        answer=lambda: (4096 * 128 + 128 * 1024 + 4096 * 1024) * FP16,
        unit="bytes",
        because="Each input once and the product once: 4,849,664 elements of 2 bytes.",
        wrong=(
            Wrong(
                lambda: 4096 * 128 + 128 * 1024 + 4096 * 1024,
                "Those are elements; each has 2 bytes.",
            ),
            Wrong(
                lambda: (4096 * 128 + 128 * 1024) * FP16,
                "The product has to be written too, and here it is the largest of the three.",
            ),
            Wrong(
                lambda: 2 * 4096 * 128 * 1024 * FP16,
                "That follows the FLOPs; a loaded element can be used many times.",
            ),
        ),
    ),
    Question(
        key="long-scores",
        prompt="`s = q k^T` in fp16 with D = 128 and a sequence so long that only the bytes of "
        "`s` count. What is its intensity?",
        answer=lambda: 2 * 128 / FP16,
        unit="FLOPs a byte",
        because="A score takes 128 multiplications and 128 additions, and is written in 2 bytes.",
        wrong=(
            Wrong(lambda: 128 / FP16, "A multiplication and an addition are two FLOPs."),
            Wrong(lambda: 2 * 128, "That is FLOPs a score; a score has 2 bytes."),
            Wrong(lambda: 128 / 2 / FP16, "Each of the 128 steps has two FLOPs, not half of one."),
        ),
    ),
    Question(
        key="least-time",
        prompt="A kernel does 8 GFLOP on matrix units and moves 1 GB, on an A100 of 312 TFLOP/s "
        "and 2.04 TB/s. How long does it take at least?",
        answer=lambda: 1e6 * max(8e9 / A100_PEAK, 1e9 / A100_BANDWIDTH),
        unit="microseconds",
        because="Its bytes take 490 us, its arithmetic 26. They overlap: the longer counts.",
        wrong=(
            Wrong(lambda: 1e6 * 8e9 / A100_PEAK, "That is its arithmetic; its bytes take longer."),
            Wrong(
                lambda: 1e6 * (8e9 / A100_PEAK + 1e9 / A100_BANDWIDTH),
                "That is the sum. A good kernel computes while it loads: the longer counts.",
            ),
            Wrong(lambda: max(8e9 / A100_PEAK, 1e9 / A100_BANDWIDTH), "That is in seconds."),
        ),
    ),
    Question(
        key="share",
        prompt="On the same A100 softmax does 1.25 FLOPs a byte. What is the most it can reach?",
        answer=lambda: 1.25 * A100_BANDWIDTH / 1e12,
        unit="TFLOP/s",
        because="2.04 TB/s times 1.25: below one hundredth of what the matrix units could do.",
        wrong=(
            Wrong(lambda: A100_PEAK / 1e12, "That is the flat roof; 1.25 lies far left of it."),
            Wrong(lambda: A100_BANDWIDTH / 1.25 / 1e12, "Multiply bytes/s by FLOPs a byte."),
            Wrong(lambda: 1.25 * A100_BANDWIDTH, "That is FLOP/s; a TFLOP is 1e12 of them."),
        ),
    ),
    Question(
        key="faster-chip",
        prompt="A maker doubles a GPU's arithmetic and leaves its memory alone. The ridge "
        "point was 150. What is the least time of a kernel at 10 FLOPs a byte now?",
        answer=lambda: 1,
        unit="times the old time",
        because="The kernel waits for memory, which did not change. Only the ridge point moves.",
        wrong=(
            Wrong(lambda: 0.5, "That holds right of the ridge point; this kernel is left of it."),
            Wrong(lambda: 2, "Nothing gets slower either."),
        ),
        tolerance=0.0,
    ),
)
