"""Chapter 07: FlashAttention-2."""

from flashlab.quizzes.question import Question, Wrong

FP32 = 4
PRODUCTS = 2 * 2 * 64 * 64 * 64  # FLOPs of a tile's two products, 64 x 64, D 64
WEIGHTS, ATTENTION = 6 * 2.7e9, 12 * 32 * 2560 * 8192  # FLOPs a token: GPT3-2.7B at N 8,192

QUESTIONS = (
    Question(
        key="other-share",
        prompt="A tile of 64 x 64 with D = 64 takes its two products and 20,000 other "
        "operations, each of which costs as much as 16 inside a product. Nothing overlaps. "
        "Which share of the time is not spent in products, from 0 to 1?",
        answer=lambda: 16 * 20000 / (16 * 20000 + PRODUCTS),
        unit="",
        tolerance=0.01,
        because="320,000 against 1,048,576: nearly a quarter, for 2 % of the operations.",
        wrong=(
            Wrong(lambda: 20000 / (20000 + PRODUCTS), "Each of them costs 16 times as much."),
            Wrong(
                lambda: 16 * 20000 / PRODUCTS,
                "Divide by all of the time, not by that of the products.",
            ),
            Wrong(
                lambda: 16 * 20000 / (16 * 20000 + PRODUCTS / 2),
                "There are two products, with 2 FLOPs a multiply-add.",
            ),
        ),
    ),
    Question(
        key="divisions-gone",
        prompt="One head, N = 4,096, no mask, tiles of 64 x 64. Chapter 04's kernel takes one "
        "division a row and tile. How many fewer are left if each row is divided once?",
        answer=lambda: 4096 * 64 - 4096,
        unit="divisions",
        because="64 tiles a row become one division a row.",
        wrong=(
            Wrong(lambda: 4096 * 64, "One division a row is left: subtract those."),
            Wrong(lambda: 64 * 64 - 64, "Every row has them, and there are 4,096 rows."),
            Wrong(lambda: 4096 * 4096 - 4096, "One division a row and tile, not a score."),
        ),
    ),
    Question(
        key="programs",
        prompt="B = 2, H = 8, N = 16,384, blocks of 128 queries. How many programs does a "
        "forward pass with queries outside have?",
        answer=lambda: 2 * 8 * 16384 // 128,
        unit="programs",
        because="128 blocks in each of 16 heads.",
        wrong=(
            Wrong(lambda: 2 * 8, "That is one a head, as in the first FlashAttention."),
            Wrong(lambda: 16384 // 128, "That is one head; there are 16 with the batch."),
            Wrong(lambda: 2 * 8 * 16384, "One a block of 128 queries, not one a query."),
        ),
    ),
    Question(
        key="last-wave",
        prompt="160 equal programs run on 132 multiprocessors, one at a time. Which share of "
        "their time is used until the last one ends, from 0 to 1?",
        answer=lambda: 160 / (2 * 132),
        unit="",
        tolerance=0.01,
        because="Two waves of 132 places for 160 programs; in the second one 104 wait.",
        wrong=(
            Wrong(lambda: 132 / 160, "The second wave takes as long as the first one."),
            Wrong(lambda: 28 / 132, "That is the second wave alone."),
            Wrong(lambda: 1.0, "In the second wave only 28 multiprocessors have work."),
        ),
    ),
    Question(
        key="causal-tiles",
        prompt="Causal, N_q = N_k = 2,048, tiles of 64 x 64, one head. How many tiles are "
        "visited?",
        answer=lambda: 32 * 33 // 2,
        unit="tiles",
        because="1 + 2 + ... + 32: the diagonal belongs to them.",
        wrong=(
            Wrong(lambda: 32 * 32, "That is without a mask."),
            Wrong(lambda: 32 * 32 // 2, "The tiles on the diagonal are visited whole."),
            Wrong(lambda: 32 * 31 // 2, "The tiles on the diagonal hold visible keys too."),
        ),
    ),
    Question(
        key="warp-exchange",
        prompt="A block of 64 queries with D = 128 has 4 warps that split the keys. After a "
        "tile, each warp leaves the fp32 output of those rows that it does not own. How many "
        "bytes do all four leave?",
        answer=lambda: 4 * 48 * 128 * FP32,
        unit="bytes",
        because="Each warp owns 16 rows and leaves the other 48, of 128 numbers of 4 bytes.",
        wrong=(
            Wrong(lambda: 48 * 128 * FP32, "That is one warp; there are four."),
            Wrong(lambda: 4 * 64 * 128 * FP32, "A warp keeps its own 16 rows in registers."),
            Wrong(lambda: 4 * 48 * 128 * 2, "The sums are fp32: 4 bytes."),
            Wrong(lambda: 0, "That is what warps exchange that split the queries."),
        ),
    ),
    Question(
        key="flops-per-token",
        prompt="A model with 2.7e9 parameters, 32 layers, hidden size 2,560, trains on sequences "
        "of 8,192. How many model FLOPs does a token cost, forward and backward?",
        answer=lambda: WEIGHTS + ATTENTION,
        unit="FLOPs",
        tolerance=0.01,
        because="6 a parameter, and 12 x 32 x 2,560 x 8,192 for attention: a third of all.",
        wrong=(
            Wrong(lambda: WEIGHTS, "Attention is missing: 12 x layers x hidden x N."),
            Wrong(lambda: (WEIGHTS + ATTENTION) / 3, "That is the forward pass alone."),
            Wrong(
                lambda: WEIGHTS + ATTENTION / 2,
                "The convention counts attention in full, under a causal mask too.",
            ),
        ),
    ),
    Question(
        key="mfu",
        prompt="That model runs at 6,000 tokens a second on each A100 of 312 TFLOP/s. "
        "What is its MFU, from 0 to 1?",
        answer=lambda: 6000 * (WEIGHTS + ATTENTION) / 312e12,
        unit="",
        tolerance=0.02,
        because="6,000 x 24.3 GFLOPs are 146 TFLOP/s.",
        wrong=(
            Wrong(lambda: 6000 * WEIGHTS / 312e12, "The FLOPs of attention count as well."),
            Wrong(
                lambda: 6000 * (WEIGHTS + ATTENTION) / 1e12,
                "Those are TFLOP/s; divide by the peak.",
            ),
        ),
    ),
)
