"""Cases and hints of ``attention_cost``: plain integers, compared exactly. Floor: course."""

import torch

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes
from flashlab.exercises.mistakes.attention_cost import MISTAKES


def make_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict:
    """The sizes themselves: B H N_q N_k D dtype_bytes; nothing is drawn."""
    return dict(sizes)


def honest(inputs: Inputs) -> list:
    """No honest answer is off: the comparison is exact."""
    return []


def _sizes(B: int, H: int, N_q: int, N_k: int, D: int, dtype_bytes: int) -> Sizes:
    return {"B": B, "H": H, "N_q": N_q, "N_k": N_k, "D": D, "dtype_bytes": dtype_bytes}


CASES = (
    Case(
        "by-hand",
        "core",
        lambda t: _sizes(1, 1, 3, 4, 5, 1),
        "One head, 3 queries, 4 keys, D 5, one byte an element: count it on paper.",
    ),
    Case(
        "one-head",
        "core",
        lambda t: _sizes(1, 1, 8192, 8192, 64, 2),
        "One head of 8,192 tokens in fp16: its scores are 67 million elements.",
    ),
    Case(
        "layer",
        "core",
        lambda t: _sizes(2, 12, 1024, 1024, 64, 2),
        "2 batches of 12 heads: every head has its own q, k, v, s, p and o.",
    ),
    Case(
        "fp32",
        "core",
        lambda t: _sizes(1, 4, 256, 256, 128, 4),
        "4 bytes an element: the FLOPs stay, the bytes double.",
    ),
    Case(
        "more-keys",
        "core",
        lambda t: _sizes(3, 2, 128, 4096, 80, 2),
        "More keys than queries: q and o have N_q rows, k and v N_k.",
    ),
    Case(
        "decode",
        "hostile",
        lambda t: _sizes(1, 32, 1, 8192, 128, 2),
        "A single query: the keys and values are nearly all that moves.",
    ),
    Case(
        "no-keys",
        "hostile",
        lambda t: _sizes(1, 2, 5, 0, 16, 2),
        "No keys: q is still read and o written, and nothing is computed.",
    ),
    Case(
        "huge",
        "hostile",
        lambda t: _sizes(1024, 128, 1048577, 1048577, 255, 2),
        "A million tokens, a thousand batches: beyond 2**53, where only integers are exact.",
    ),
)

EXERCISE = Exercise(
    slug="attention_cost",
    chapter="01",
    title="What standard attention costs",
    kind="python",
    reference="flashlab.reference.cost:attention_cost",
    outputs=(Output("cost"),),
    make_inputs=make_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "Write down the shapes first. For one head q and o are [N_q, D], k and v are [N_k, D], s "
        "and p are [N_q, N_k]. All of it happens B * H times.",
        "A product of [M, K] and [K, N] has M * N elements, each a sum of K products: "
        "2 * M * N * K FLOPs. Which lengths are M, N and K for q k^T, and which for p v?",
        "Every step is a kernel of its own. q k^T reads q and k and writes s; softmax reads s and "
        "writes p; p v reads p and v and writes o. Multiply elements by dtype_bytes, and divide "
        "nothing: the answers are integers.",
    ),
    steps=(
        "How large the matrices are",
        "FLOPs of the three steps",
        "Bytes of the three steps",
    ),
    minutes=15,
)
