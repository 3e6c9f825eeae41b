"""Chapter 02: memory hierarchy and fusion."""

from flashlab.quizzes.question import Question, Wrong

FP16, FP32 = 2, 4
BLOCK_A100 = 163 * 1024  # shared memory of one block

QUESTIONS = (
    Question(
        key="shared-in-all",
        prompt="A GPU has 58 SMs with 100 KB of shared memory each. How much is that in all?",
        answer=lambda: 58 * 100,
        unit="KB",
        because="A few megabytes on the whole chip, beside gigabytes of HBM.",
        wrong=(
            Wrong(lambda: 100, "That is one SM; there are 58."),
            Wrong(lambda: 58 * 100 * 1024, "That is in bytes."),
        ),
    ),
    Question(
        key="chain-passes",
        prompt="A bias, a GELU and a dropout run as three kernels over a tensor. How many times "
        "does a tensor of that size cross between HBM and the chip?",
        answer=lambda: 3 * 2,
        unit="times",
        because="Each kernel reads one tensor and writes one.",
        wrong=(
            Wrong(lambda: 3, "Each kernel reads, and it also writes."),
            Wrong(lambda: 4, "What a kernel writes is read again from HBM by the next one."),
            Wrong(lambda: 2, "That is the fused kernel."),
        ),
        tolerance=0.0,
    ),
    Question(
        key="chain-fused",
        prompt="The same three steps in one kernel, which waits for memory as they did. By which "
        "factor does its least time fall?",
        answer=lambda: 3 * 2 / 2,
        unit="times",
        because="Six crossings become two, and time follows the bytes.",
        wrong=(
            Wrong(lambda: 6, "The fused kernel still reads once and writes once."),
            Wrong(lambda: 2, "Two crossings are left of six."),
        ),
        tolerance=0.0,
    ),
    Question(
        key="rows-that-fit",
        prompt="How many complete fp32 rows of 4,096 scores fit into the 163 KB of shared memory "
        "that a block of an A100 may have?",
        answer=lambda: BLOCK_A100 // (4096 * FP32),
        unit="rows",
        because="A row takes 16 KB. Tiles of attention have 64 or 128 rows.",
        wrong=(
            Wrong(lambda: BLOCK_A100 // (4096 * FP16), "That is fp16; an fp32 score has 4 bytes."),
            Wrong(lambda: BLOCK_A100 // 4096, "A score has 4 bytes."),
            Wrong(lambda: BLOCK_A100 / (4096 * FP32), "Only complete rows count."),
        ),
        tolerance=0.0,
    ),
    Question(
        key="move-scores",
        prompt="How long does an H200 with 4.8 TB/s take at least to read the fp16 scores of one "
        "head at N = 16,384?",
        answer=lambda: 1e6 * 16384**2 * FP16 / 4.8e12,
        unit="microseconds",
        because="537 MB at 4.8 TB/s. Standard attention moves them four times.",
        wrong=(
            Wrong(lambda: 1e6 * 16384**2 / 4.8e12, "Each score has 2 bytes."),
            Wrong(lambda: 4e6 * 16384**2 * FP16 / 4.8e12, "Asked is one crossing, not all four."),
            Wrong(lambda: 16384**2 * FP16 / 4.8e12, "That is in seconds."),
        ),
    ),
    Question(
        key="score-traffic",
        prompt="Standard attention in three kernels, one head, N = 4,096, fp16. How many bytes of "
        "scores and weights move in all?",
        answer=lambda: 4 * 4096**2 * FP16,
        unit="bytes",
        because="`s` is written and read, `p` is written and read: four matrices of 33.6 MB.",
        wrong=(
            Wrong(
                lambda: 2 * 4096**2 * FP16,
                "Each of the two matrices is written and read, at 2 bytes an element.",
            ),
            Wrong(lambda: 4096**2 * FP16, "That is one crossing of one matrix."),
            Wrong(lambda: 3 * 4096**2 * FP16, "Both `s` and `p` are written and read."),
        ),
    ),
    Question(
        key="behind-the-cache",
        prompt="A kernel loads K and V of one head (N = 8,192, D = 64, fp16) once for each of 64 "
        "query blocks. The L2 holds them all the time. How many bytes of them come from HBM?",
        answer=lambda: 2 * 8192 * 64 * FP16,
        unit="bytes",
        because="Once; the other 63 times the L2 answers. The recorder counts all 64.",
        wrong=(
            Wrong(lambda: 64 * 2 * 8192 * 64 * FP16, "That is what the SMs ask for."),
            Wrong(lambda: 8192 * 64 * FP16, "That is K alone."),
            Wrong(lambda: 63 * 2 * 8192 * 64 * FP16, "Those are the ones that the L2 answers."),
        ),
    ),
)
