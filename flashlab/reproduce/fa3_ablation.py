"""FlashAttention-3's ablation and three of its speeds, by the model of an SM."""

from collections.abc import Callable

from flashlab.pipeline import hopper
from flashlab.reference import schedules
from flashlab.reproduce import fa3
from flashlab.reproduce.table import Row, Table

# Keys of a tile and warpgroups by D: the published kernels' own (Dao-AILab/flash-attention,
# hopper/flash_fwd_launch_template.h of the first release), 2 slots for K and for V each.
TILES = {64: (128, 3), 128: (176, 2), 256: (80, 2)}
ABLATION = {"B": 4, "H": 16, "N": 8448, "D": 128}
HIDDEN, TOKENS = 2048, 16384


def speed(
    producer: Callable | None, consumer: Callable, *, arbitration: str = "one at a time", **sizes
) -> float:
    """TFLOP/s of full attention at these sizes with the published tiles."""
    block_n, consumers = TILES[sizes["D"]]
    at = hopper.machine(sizes["D"], block_n, consumers=consumers, arbitration=arbitration)
    return hopper.tflops(producer, consumer, at, block_n=block_n, **sizes)[0]


def ablation(arbitration: str = "one at a time") -> tuple[float, float, float]:
    """TFLOP/s of Table 2: the whole, without overlap of P V and softmax, without a producer."""
    programs = (
        (schedules.producer, schedules.overlapped_in_turns),
        (schedules.producer, schedules.in_turns),
        (None, schedules.without_producer),
    )
    whole, serial, alone = (speed(*p, arbitration=arbitration, **ABLATION) for p in programs)
    return whole, serial, alone


def longest(D: int) -> float:
    """TFLOP/s at 16,384 tokens in one sequence, hidden size 2,048."""
    sizes = {"B": 1, "H": HIDDEN // D, "N": TOKENS, "D": D}
    return speed(schedules.producer, schedules.overlapped_in_turns, **sizes)


def table() -> Table:
    """Table 2 and the 16k points of the forward figures, full attention."""
    whole, serial, alone = ablation()
    unit = "TFLOP/s"
    theirs, without, single = fa3.ABLATION.values()
    rows = (
        Row("FlashAttention-3", theirs, whole, unit),
        Row("without P V under softmax", without, serial, unit),
        Row("without a producer warp", single, alone, unit),
        Row("gain of P V under softmax", theirs / without, whole / serial),
        Row("gain of a producer warp", theirs / single, whole / alone),
        *(
            Row(f"D {D}, 16k", fa3.FORWARD[D, False]["FA3"][-1], longest(D), unit)
            for D in (64, 128, 256)
        ),
    )
    notes = (
        "Ours: a model of one SM with data sheet rates and two numbers measured on an H200:",
        f"products reach {100 * hopper.REACHED:.0f} % of the peak under the power limit,",
        f"and a lone warpgroup keeps the arithmetic units {100 * hopper.ALONE:.0f} % busy.",
    )
    return Table(
        "H100, fp16, full attention", "Shah et al. 2024, Table 2 and forward figures", rows, notes
    )
