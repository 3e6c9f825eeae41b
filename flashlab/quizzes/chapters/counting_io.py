"""Chapter 05: counting the IO."""

from flashlab.quizzes.question import Question, Wrong

FP16 = 2

QUESTIONS = (
    Question(
        key="ratio",
        prompt="A chip has 96 KB (of 1,024 bytes) for a block, numbers are fp16, D is 128. "
        "What is `D^2 / M`?",
        answer=lambda: 128**2 / (96 * 1024 / FP16),
        unit="",
        because="M is 49,152 numbers, three times 128 x 128.",
        wrong=(
            Wrong(lambda: 128**2 / (96 * 1024), "M counts numbers, and each takes 2 bytes."),
            Wrong(lambda: 128 / (96 * 1024 / FP16), "D counts twice: rows and rounds."),
            Wrong(lambda: 96 * 1024 / FP16 / 128**2, "That is M / D^2."),
        ),
    ),
    Question(
        key="twice-the-chip",
        prompt="FlashAttention with keys outside has 16 rounds. On a chip twice as large it has "
        "8. By which factor do the bytes of q, k, v and o change?",
        answer=lambda: (3 * 8 + 1) / (3 * 16 + 1),
        unit="",
        because="They are 3 rounds + 1 times N D: k and v come in once, o is not read at first.",
        wrong=(
            Wrong(lambda: 8 / 16, "Nearly: k and v do not come in more often with more rounds."),
            Wrong(lambda: 16 / 8, "A larger chip means fewer bytes."),
            Wrong(lambda: 1.0, "That would be standard attention, which does not use the chip."),
        ),
    ),
    Question(
        key="twice-the-head",
        prompt="D grows from 64 to 128 on the same chip, N stays. By which factor does "
        "`N^2 D^2 / M` grow?",
        answer=lambda: 128**2 / 64**2,
        unit="times",
        because="Rows are twice as long, and half as many fit, so there are twice the rounds.",
        wrong=(
            Wrong(lambda: 2, "Longer rows alone give 2; fewer of them fit, which gives 2 again."),
            Wrong(lambda: 8, "D counts twice, not three times."),
            Wrong(lambda: 1, "D stands in the formula, squared."),
        ),
        tolerance=0.0,
    ),
    Question(
        key="keys-outside",
        prompt="One head, N = 2,048, D = 64, fp16, keys outside in blocks of 256. How many bytes "
        "of q, k, v and o move?",
        answer=lambda: (3 * 8 + 1) * 2048 * 64 * FP16,
        unit="bytes",
        because="Eight rounds: q 8 times, o 15 times, k and v once each, 25 tensors in all.",
        wrong=(
            Wrong(
                lambda: (3 * 8 + 2) * 2048 * 64 * FP16,
                "In the first round there is no o to read yet.",
            ),
            Wrong(
                lambda: (2 * 8 + 2) * 2048 * 64 * FP16,
                "With keys outside o comes in and goes out in every round.",
            ),
            Wrong(lambda: 4 * 2048 * 64 * FP16, "That is each tensor once; there are 8 rounds."),
            Wrong(lambda: (3 * 8 + 1) * 2048 * 64, "Each number takes 2 bytes."),
        ),
    ),
    Question(
        key="queries-outside",
        prompt="The same head with queries outside in blocks of 256. How many bytes of q, k, v "
        "and o move?",
        answer=lambda: (2 * 8 + 2) * 2048 * 64 * FP16,
        unit="bytes",
        because="Eight times k and v, once q and o: 18 tensors.",
        wrong=(
            Wrong(lambda: (3 * 8 + 1) * 2048 * 64 * FP16, "That is keys outside."),
            Wrong(
                lambda: (2 * 8 + 1) * 2048 * 64 * FP16,
                "Both move once: q comes in, and o goes out.",
            ),
            Wrong(lambda: (8 + 3) * 2048 * 64 * FP16, "Both k and v come in once a round."),
        ),
    ),
    Question(
        key="matrices-kept",
        prompt="A training step keeps four N x N matrices in fp16 for each of 128 heads. How many "
        "GB (of 10^9 bytes) are they at N = 8,192?",
        answer=lambda: 4 * 128 * 8192**2 * FP16 / 1e9,
        unit="GB",
        because="17 GB for each of the four; they do not fit into 40 GB.",
        wrong=(
            Wrong(lambda: 128 * 8192**2 * FP16 / 1e9, "That is one matrix a head; there are 4."),
            Wrong(lambda: 4 * 128 * 8192**2 / 1e9, "Each number takes 2 bytes."),
            Wrong(lambda: 4 * 8192**2 * FP16 / 1e9, "That is one head; there are 128."),
        ),
    ),
    Question(
        key="sparse-keys",
        prompt="One head, N = 8,192, D = 64, fp16, tiles of 128 x 128; each query block keeps 8 "
        "tiles of its row. How many bytes of k and v are loaded?",
        answer=lambda: 64 * 8 * 2 * 128 * 64 * FP16,
        unit="bytes",
        because="64 query blocks meet 8 tiles each; a tile of k and one of v have 16,384 bytes.",
        wrong=(
            Wrong(lambda: 64 * 64 * 2 * 128 * 64 * FP16, "That is dense: all 64 tiles of a row."),
            Wrong(lambda: 64 * 8 * 128 * 64 * FP16, "That is k alone."),
            Wrong(lambda: 8 * 2 * 128 * 64 * FP16, "That is one query block; there are 64."),
        ),
    ),
    Question(
        key="from-dram",
        prompt="16 heads, N = 8,192, D = 128, fp16, queries outside in blocks of 128. The L2 "
        "holds K and V of all heads that run. How many bytes does DRAM give?",
        answer=lambda: 3 * 16 * 8192 * 128 * FP16,
        unit="bytes",
        because="Once q, k and v; all repetitions come from the L2.",
        wrong=(
            Wrong(
                lambda: (1 + 2 * 64) * 16 * 8192 * 128 * FP16,
                "That is what the SMs ask for; the L2 answers what was asked before.",
            ),
            Wrong(lambda: 2 * 16 * 8192 * 128 * FP16, "Also q comes from DRAM."),
            Wrong(
                lambda: 4 * 16 * 8192 * 128 * FP16, "The output goes to DRAM; it does not come."
            ),
        ),
    ),
)
