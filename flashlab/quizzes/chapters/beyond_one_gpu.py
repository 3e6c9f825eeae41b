"""Chapter 11: beyond one GPU."""

import math

from flashlab.quizzes.question import Question, Wrong

QUESTIONS = (
    Question(
        key="owner",
        prompt="Eight ranks, blocks go to the right, and round 0 is a rank's own block. Whose "
        "block does rank 2 work on in round 5?",
        answer=lambda: (2 - 5) % 8,
        unit="",
        because="Blocks come from the left, one rank a round: 2 - 5 = -3, counted round the ring.",
        wrong=(
            Wrong(lambda: (2 + 5) % 8, "They come from the left, so the owner is rank - round."),
            Wrong(lambda: -3, "A rank has a number from 0 to 7: count on round the ring."),
        ),
        tolerance=0.0,
    ),
    Question(
        key="message",
        prompt="131,072 tokens on 8 ranks, 8 key heads, D 128, bf16. How many MB (10^6 bytes) of "
        "keys and values does a rank send in a round?",
        answer=lambda: 131072 / 8 * 8 * 128 * 2 * 2 / 1e6,
        unit="MB",
        because="16,384 tokens, 8 heads, 128 channels, two tensors, two bytes.",
        wrong=(
            Wrong(lambda: 131072 / 8 * 8 * 128 * 2 / 1e6, "Keys and values: two tensors."),
            Wrong(lambda: 131072 * 8 * 128 * 4 / 1e6, "A rank holds an eighth of the tokens."),
        ),
    ),
    Question(
        key="share-of-a-part",
        prompt="A query has lse 1 over the keys so far, and a new part has lse 3. What is the "
        "weight of the new part?",
        answer=lambda: 1 / (1 + math.exp(1 - 3)),
        unit="",
        because="`exp(3) / (exp(1) + exp(3))`, the sigmoid of 3 - 1.",
        wrong=(
            Wrong(lambda: 0.75, "3 / (1 + 3) forgets that they are logarithms."),
            Wrong(lambda: 0.5, "Parts weigh as much as their keys do, not the same."),
            Wrong(lambda: 1 / (1 + math.exp(3 - 1)), "That is the weight of the old part."),
        ),
        tolerance=0.01,
    ),
    Question(
        key="in-order",
        prompt="16 ranks hold a long causal sequence in order. At most what percentage of the "
        "ideal speed does the ring reach?",
        answer=lambda: 100 * 16 / (2 * 16 - 1),
        unit="%",
        because="The last rank works on 15 blocks and half a one; an even share is 8 blocks.",
        wrong=(
            Wrong(lambda: 100, "Rank 0 is done after round 0, and waits."),
            Wrong(lambda: 100 / 16, "Others work too; only the last rank works in every round."),
        ),
        tolerance=0.01,
    ),
    Question(
        key="zigzag",
        prompt="Five ranks, zigzag, ten chunks from 0. Rank 1 holds chunk 1 and which other one?",
        answer=lambda: 2 * 5 - 1 - 1,
        unit="",
        because="The k-th from the front and the k-th from the back: 2 * 5 - 1 - 1.",
        wrong=(
            Wrong(lambda: 9, "The last chunk goes with chunk 0."),
            Wrong(lambda: 6, "That is world + rank; zigzag counts from the back."),
        ),
        tolerance=0.0,
    ),
    Question(
        key="least-tokens",
        prompt="989 TFLOP/s, a link of 50 GB/s each way, 8 key heads for 32 query heads, no mask, "
        "two bytes an element. From how many tokens a rank on is a message of the forward pass "
        "hidden?",
        answer=lambda: 989e12 / 50e9 * 8 / 32,
        unit="tokens",
        because="FLOP/s over bytes/s is 19,780, and a quarter as many key heads send a quarter.",
        wrong=(
            Wrong(lambda: 989e12 / 50e9, "Grouped heads send a quarter of the bytes."),
            Wrong(lambda: 989e12 / 50e9 * 4, "Fewer key heads make messages shorter, not longer."),
        ),
        tolerance=0.01,
    ),
    Question(
        key="backward-bytes",
        prompt="Four ranks. Forward, each sends its keys and values on in 3 rounds, two bytes an "
        "element. Backward each still has the block that came last and does its own at the end; "
        "gradients travel in four bytes. How many times the bytes of the forward pass does a rank "
        "send backward?",
        answer=lambda: (2 + 3 * 2) / 3,
        unit="times",
        because="2 blocks bring what nobody kept, and 3 gradients of twice the size travel home, "
        "against 3 blocks.",
        wrong=(
            Wrong(lambda: (3 + 3 * 2) / 3, "One block was kept: 2 messages bring the others."),
            Wrong(lambda: (2 + 3) / 3, "Gradients travel in four bytes: twice the size."),
            Wrong(lambda: (2 + 4 * 2) / 3, "Its own share stays at home: 3 gradients travel."),
            Wrong(lambda: (2 + 2 * 2) / 3, "The last gradient travels too, to come home."),
        ),
        tolerance=0.01,
    ),
)
