"""Chapter 10: in practice."""

import math

from flashlab.quizzes.question import Question, Wrong

QUESTIONS = (
    Question(
        key="decode-intensity",
        prompt="Decode in fp16, 32 query heads on 4 key heads, a long cache. How many FLOPs are "
        "done for each byte of k and v?",
        answer=lambda: 4 * 32 / (2 * 2 * 4),
        unit="FLOPs a byte",
        because="A key head of N D elements, k and v, has 4 N D bytes and serves 8 queries with "
        "4 N D FLOPs each.",
        wrong=(
            Wrong(lambda: 1, "That is a key head for each query head; here 8 share one."),
            Wrong(lambda: 16, "An element takes 2 bytes."),
            Wrong(lambda: 4, "8 query heads share a key head, not 4."),
        ),
    ),
    Question(
        key="idle",
        prompt="An A100 has 108 SMs. B is 2, there are 8 key heads, and the keys are cut into 4 "
        "shares. How many SMs have nothing to do?",
        answer=lambda: 108 - 2 * 8 * 4,
        unit="SMs",
        because="There are 64 programs, one a share of a key head of a sequence.",
        wrong=(
            Wrong(lambda: 108 - 2 * 8, "Each share is a program of its own."),
            Wrong(lambda: 108 - 8 * 4, "There are two sequences."),
            Wrong(lambda: 2 * 8 * 4, "That many are busy."),
        ),
        tolerance=0.0,
    ),
    Question(
        key="fewest-shares",
        prompt="An H200 has 132 SMs. One sequence, 8 key heads: how many shares at least, so that "
        "every SM has a program?",
        answer=lambda: math.ceil(132 / 8),
        unit="shares",
        because="16 shares make 128 programs; 17 make 136.",
        wrong=(
            Wrong(lambda: 16, "16 shares make 128 programs, and four SMs idle."),
            Wrong(lambda: 132, "Each share is cut for each of the 8 heads."),
        ),
        tolerance=0.0,
    ),
    Question(
        key="keys-of-a-share",
        prompt="10,000 keys, tiles of 32, 12 shares of whole tiles, rounded up. How many keys has "
        "the first share?",
        answer=lambda: math.ceil(math.ceil(10000 / 32) / 12) * 32,
        unit="keys",
        because="313 tiles; a share has 27 of them.",
        wrong=(
            Wrong(lambda: 26 * 32, "26 tiles in 12 shares are 312: one tile would be forgotten."),
            Wrong(lambda: math.ceil(10000 / 12), "A share is a whole number of tiles."),
        ),
        tolerance=0.0,
    ),
    Question(
        key="merge",
        prompt="Two shares: `lse` 2 with output 1, and `lse` 0 with output 3. What is the merged "
        "output?",
        answer=lambda: (math.exp(2) * 1 + math.exp(0) * 3) / (math.exp(2) + math.exp(0)),
        unit="",
        because="Each output counts by exp(lse): 7.389 times 1 and once 3, over 8.389.",
        wrong=(
            Wrong(lambda: 2, "A plain mean forgets that the first share has most of the weight."),
            Wrong(lambda: 1, "With weights 2 and 0; they are exp(2) and exp(0)."),
            Wrong(
                lambda: (1 + 3 * math.exp(2)) / (1 + math.exp(2)),
                "The other way round: the larger lse belongs to output 1.",
            ),
        ),
    ),
    Question(
        key="padding",
        prompt="Sequences of 1,000, 200, 300 and 500 tokens. How many percent of the scores of "
        "the padded batch are padding?",
        answer=lambda: 100 * (1 - (1000**2 + 200**2 + 300**2 + 500**2) / (4 * 1000**2)),
        unit="%",
        because="1.38 of 4 million scores are real.",
        wrong=(
            Wrong(lambda: 50, "That is tokens; scores grow with the square."),
            Wrong(lambda: 34.5, "That is the share that is real."),
        ),
    ),
    Question(
        key="pages",
        prompt="Sequences of 130, 17 and 480 keys in pages of 16. How many places are taken?",
        answer=lambda: 16 * (9 + 2 + 30),
        unit="places",
        because="9, 2 and 30 pages.",
        wrong=(
            Wrong(lambda: 130 + 17 + 480, "Each sequence has whole pages."),
            Wrong(lambda: 41, "That is pages; each has 16 places."),
            Wrong(lambda: 3 * 480, "That is room for the longest, for everybody."),
        ),
        tolerance=0.0,
    ),
    Question(
        key="speculative",
        prompt="A draft proposes 3 tokens, each right with probability 0.5, independent of the "
        "others. The model checks all in one step. How many tokens does a round yield on average?",
        answer=lambda: (1 - 0.5**4) / (1 - 0.5),
        unit="tokens",
        because="1 + 0.5 + 0.25 + 0.125: the model itself always gives one.",
        wrong=(
            Wrong(lambda: 1.5, "A proposal counts only if all before it were right."),
            Wrong(lambda: 0.5 + 0.25 + 0.125, "The model's own token comes for free."),
            Wrong(lambda: 2.5, "A proposal counts only if all before it were right."),
        ),
    ),
)
