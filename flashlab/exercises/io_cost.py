"""Cases and hints of ``io_cost``: plain integers, compared exactly. Floor: course."""

import torch

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes
from flashlab.exercises.mistakes.io_cost import MISTAKES


def make_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict:
    """The sizes themselves: N D block_m block_n dtype_bytes kind; nothing is drawn."""
    return dict(sizes)


def honest(inputs: Inputs) -> list:
    """No honest answer is off: the comparison is exact."""
    return []


def _sizes(kind: str, N: int, D: int, block_m: int, block_n: int, dtype_bytes: int = 2) -> Sizes:
    tiles = {"block_m": block_m, "block_n": block_n, "dtype_bytes": dtype_bytes}
    return {"N": N, "D": D, **tiles, "kind": kind}


CASES = (
    Case(
        "standard-by-hand",
        "core",
        lambda t: _sizes("standard", 4, 3, 2, 2, 1),
        "4 tokens, D 3, blocks of 2 rows, one byte an element: count it on paper.",
    ),
    Case(
        "standard",
        "core",
        lambda t: _sizes("standard", 1024, 64, 128, 64),
        "One head of 1,024 tokens: s and p are written once and read once.",
    ),
    Case(
        "flash1-by-hand",
        "core",
        lambda t: _sizes("flash1", 6, 2, 3, 2, 1),
        "6 tokens, 3 blocks of 2 keys: o goes out three times and comes in twice.",
    ),
    Case(
        "flash1",
        "core",
        lambda t: _sizes("flash1", 1024, 64, 128, 64),
        "16 blocks of keys, fp16: m and l are fp32 all the same.",
    ),
    Case(
        "flash2-by-hand",
        "core",
        lambda t: _sizes("flash2", 6, 2, 3, 2, 1),
        "6 tokens, 2 blocks of 3 queries: each meets all the keys.",
    ),
    Case(
        "flash2",
        "core",
        lambda t: _sizes("flash2", 1024, 64, 128, 64),
        "8 blocks of queries, fp16: one statistic a row, lse.",
    ),
    Case(
        "standard-ragged",
        "ragged",
        lambda t: _sizes("standard", 100, 24, 64, 32),
        "64 does not divide 100: the second block of rows is smaller, but it meets all the keys.",
    ),
    Case(
        "flash1-ragged",
        "ragged",
        lambda t: _sizes("flash1", 100, 24, 64, 32),
        "The fourth block has 4 keys only: it is a round like the others.",
    ),
    Case(
        "flash2-ragged",
        "ragged",
        lambda t: _sizes("flash2", 100, 24, 64, 32, 4),
        "The second block has 36 queries, and fp32 has 4 bytes an element.",
    ),
    Case(
        "one-block",
        "hostile",
        lambda t: _sizes("flash1", 16, 8, 64, 32),
        "All keys fit in one block: o, m and l are never read.",
    ),
    Case(
        "one-byte",
        "hostile",
        lambda t: _sizes("flash2", 512, 128, 64, 128, 1),
        "FP8 has one byte an element; lse keeps its four.",
    ),
    Case(
        "no-tokens",
        "hostile",
        lambda t: _sizes("flash1", 0, 64, 128, 64),
        "N is 0: nothing moves, and no count is negative.",
    ),
    Case(
        "huge",
        "hostile",
        lambda t: _sizes("standard", 100_000_001, 255, 128, 64),
        "A hundred million tokens: beyond 2**53, where only integers are exact.",
    ),
)

EXERCISE = Exercise(
    slug="io_cost",
    chapter="05",
    title="What three loop orders move",
    kind="python",
    reference="flashlab.reference.cost:io_cost",
    outputs=(Output("cost"),),
    make_inputs=make_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "For every tensor ask two questions: how many bytes has it, and how often does it pass? "
        "What stays on chip while the inner loop runs passes once. What the inner loop walks over "
        "passes once for every round of the outer loop.",
        "Blocks of queries: N / block_m, rounded up; blocks of keys: N / block_n, rounded up. A "
        "tensor that is walked over moves whole, so the last, smaller block needs no extra "
        "formula. -(-a // b) divides integers and rounds up.",
        "Standard: q and o once, k and v once for each block of queries, s and p out and in. "
        "FlashAttention-1: the outer loop is over keys, so k and v pass once and q once a block "
        "of keys; o, m and l go out in every round and come in in all but the first: "
        "2 * k_blocks - 1 times. FlashAttention-2: q, o and lse once, k and v once for each block "
        "of queries. m, l and lse have N numbers of 4 bytes.",
    ),
    steps=(
        "Sizes",
        "Standard attention",
        "FlashAttention-1: keys outside",
        "FlashAttention-2: queries outside",
    ),
    minutes=25,
)
