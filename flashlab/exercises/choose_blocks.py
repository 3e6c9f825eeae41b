"""Cases and hints of ``choose_blocks``: plain integers, compared exactly. Floor: course."""

import torch

from flashlab.exercise import Case, Exercise, Inputs, Output, Sizes
from flashlab.exercises.mistakes.choose_blocks import MISTAKES


def make_inputs(sizes: Sizes, dtype: torch.dtype, generator: torch.Generator) -> dict:
    """The sizes themselves: sram_elements and D; nothing is drawn."""
    return dict(sizes)


def honest(inputs: Inputs) -> list:
    """No honest answer is off: the comparison is exact."""
    return []


def _sizes(sram_elements: int, D: int) -> Sizes:
    return {"sram_elements": sram_elements, "D": D}


CASES = (
    Case(
        "by-hand",
        "core",
        lambda t: _sizes(40, 2),
        "40 numbers on chip, D 2: 4 tiles of 5 rows fill it; block_m stops at D.",
    ),
    Case(
        "few-rows",
        "core",
        lambda t: _sizes(12_288, 128),
        "12,288 numbers, D 128: 24 rows, fewer than D, for queries and keys alike.",
    ),
    Case(
        "a100",
        "core",
        lambda t: _sizes(98_304, 64),
        "An A100's 192 KB hold 98,304 numbers in fp16; D 64.",
    ),
    Case(
        "rounds-up",
        "core",
        lambda t: _sizes(1_000, 64),
        "1,000 / 256 is 3.9: the rule rounds up.",
    ),
    Case(
        "exactly-d",
        "hostile",
        lambda t: _sizes(4 * 48 * 48, 48),
        "M is 4 * D * D: both blocks have D rows.",
    ),
    Case(
        "tiny-chip",
        "hostile",
        lambda t: _sizes(3, 64),
        "Less than one row of a tile fits: the rule still says 1.",
    ),
    Case(
        "one-column",
        "hostile",
        lambda t: _sizes(1_001, 1),
        "D is 1: block_m cannot be more.",
    ),
    Case(
        "huge",
        "hostile",
        lambda t: _sizes(2**60 + 1, 16),
        "More numbers than 2**53: a division of floats is not exact any more.",
    ),
)

EXERCISE = Exercise(
    slug="choose_blocks",
    chapter="05",
    title="How large a tile may be",
    kind="python",
    reference="flashlab.reference.cost:choose_blocks",
    outputs=(Output("block_m"), Output("block_n")),
    make_inputs=make_inputs,
    honest=honest,
    cases=CASES,
    mistakes=MISTAKES,
    hints=(
        "Four tiles share the chip: of q, k, v and o. Each has D columns. If each takes a quarter "
        "of the M numbers, how many rows has it?",
        "M is a count of numbers, not of bytes: nothing is divided by the size of an element. The "
        "rule rounds up; -(-a // b) does that with integers, and is exact however large they are.",
        "block_n = -(-sram_elements // (4 * D)). The tile of scores has block_m * block_n "
        "numbers: with block_m at most D it is no larger than a tile of keys.",
    ),
    steps=("Rows of a tile of keys", "Rows of a tile of queries"),
    minutes=10,
)
