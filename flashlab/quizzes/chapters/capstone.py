"""Chapter 12: the capstone."""

import math

from flashlab.quizzes.question import Question, Wrong

QUESTIONS = (
    Question(
        key="untrained",
        prompt="A model with a vocabulary of 50,304 tokens has learnt nothing yet. What is its "
        "loss, in nats a token?",
        answer=lambda: math.log(50304),
        unit="nats",
        because="Each token gets the probability 1 / 50,304, and the loss is its negative "
        "logarithm.",
        wrong=(
            Wrong(lambda: math.log2(50304), "That is in bits: nats take the natural logarithm."),
            Wrong(lambda: math.log(30), "That is the alphabet of the small model's text."),
            Wrong(
                lambda: 1 / 50304, "That is the probability of a token; the loss is -log of it."
            ),
        ),
    ),
    Question(
        key="bottom-right",
        prompt="A cache holds 7 keys, and 3 more tokens arrive: 3 queries, 10 keys, "
        "`causal=True`. How many keys does the first of the three queries see?",
        answer=lambda: 0 + 10 - 3 + 1,
        unit="keys",
        because="Query i sees the keys j <= i + N_k - N_q: the 7 before it and its own.",
        wrong=(
            Wrong(lambda: 1, "That is the top-left mask of torch's is_causal."),
            Wrong(lambda: 7, "It sees its own key too."),
            Wrong(lambda: 10, "The last of the three sees all ten."),
        ),
        tolerance=0.0,
    ),
    Question(
        key="decode-calls",
        prompt="A model of 24 layers reads the 50 tokens of a beginning at once. Then 100 more "
        "tokens come one at a time, with a cache. How many calls of attention take the decode "
        "route?",
        answer=lambda: 24 * 100,
        unit="calls",
        because="Each later token is one query row in each layer; the beginning takes the other "
        "route.",
        wrong=(
            Wrong(lambda: 100, "Each layer calls attention."),
            Wrong(lambda: 24 * 101, "The call for the beginning has many query rows."),
            Wrong(lambda: 24, "That is one token."),
        ),
        tolerance=0.0,
    ),
    Question(
        key="kept",
        prompt="12 layers, 12 heads, one sequence of 4,096 tokens, bf16. How many GB of attention "
        "weights does standard attention keep for the backward pass (without the masks)?",
        answer=lambda: 12 * 12 * 4096**2 * 2 / 1e9,
        unit="GB",
        because="Each layer keeps H N N weights of 2 bytes.",
        wrong=(
            Wrong(lambda: 12 * 4096**2 * 2 / 1e9, "That is one layer."),
            Wrong(lambda: 12 * 12 * 4096**2 * 4 / 1e9, "A number in bf16 has 2 bytes."),
            Wrong(lambda: 12 * 12 * 4096 * 4 / 1e9, "That is lse, which FlashAttention keeps."),
        ),
    ),
    Question(
        key="mfu",
        prompt="A model of 1 billion weights, 16 layers of 2,048, N 2,048, trains at 50,000 "
        "tokens a second on a card of 989 TFLOP/s. What is its MFU in percent, attention counted "
        "in full?",
        answer=lambda: 100 * 50000 * (6e9 + 12 * 16 * 2048 * 2048) / 989e12,
        unit="%",
        because="6 FLOPs a weight and token, and 12 x layers x width x N for attention.",
        wrong=(
            Wrong(lambda: 100 * 50000 * 6e9 / 989e12, "Attention is missing."),
            Wrong(lambda: 100 * 50000 * 2e9 / 989e12, "A step is forward and backward: 6, not 2."),
            Wrong(
                lambda: 100 * 50000 * (6e9 + 6 * 16 * 2048 * 2048) / 989e12,
                "That halves attention; here it is counted in full.",
            ),
        ),
    ),
    Question(
        key="twice-the-memory",
        prompt="Standard attention just fits at N tokens, its weights taking nearly all of the "
        "memory. A card has 4 times as much. How many times as long a sequence fits?",
        answer=lambda: math.sqrt(4),
        unit="times",
        because="The weights grow as N squared.",
        wrong=(
            Wrong(lambda: 4, "That would be memory that grows with N."),
            Wrong(lambda: 16, "N squared grows faster than N, so less fits, not more."),
        ),
        tolerance=0.0,
    ),
)
