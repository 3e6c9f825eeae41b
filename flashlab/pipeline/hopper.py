"""An H100 as a ``Machine``, and what a schedule on it gives in TFLOP/s.

Everything comes from data sheets but two numbers, ``REACHED`` and ``ALONE``, which were measured
once on an H200 (the same SM), not fitted to any attention kernel of a table here.
"""

import math
from collections.abc import Callable

from flashlab import hardware
from flashlab.pipeline.machine import Machine
from flashlab.pipeline.simulate import simulate
from flashlab.pipeline.timeline import Timeline

GPU = hardware.GPUS["H100-SXM"]
HALF, ROWS = 2, 64  # bytes of fp16; query rows of a warpgroup, as wgmma wants them

# Operations a clock and SM: CUDA C++ Programming Guide, table of arithmetic throughput, 9.0.
MULTIPLY_ADD, MAXIMUM, CONVERT, SHUFFLE, EXPONENTIAL = 128, 64, 64, 32, 16

# Measured. The share of the data sheet's peak that matrix products reach under the card's power
# limit: fp16, 8192 x 8192 x 8192 by torch (cuBLAS) in a short burst, 758 of 989 TFLOP/s
# (H200, 2026-11-29, torch 2.11). Every clock of the model is that much longer.
REACHED = 758 / 989

# Measured. The share of the exponential and arithmetic units that a lone warpgroup keeps busy: in
# a Gluon kernel of two warpgroups, D 128, blocks of 128 keys, 1,730 to 1,850 clocks a tile went
# into all that is not the issue of products (clock reads on an H200). The rates above ask for 896.
ALONE = 0.5


def machine(
    D: int, block_n: int, *, consumers: int = 2, arbitration: str = "one at a time"
) -> Machine:
    """The clocks of a tile of ``block_n`` keys in fp16, for warpgroups of 64 query rows.

    Args:
        D: Head dimension.
        block_n: Keys of a tile.
        consumers: Warpgroups that compute.
        arbitration: See ``Machine``.
    """
    scores = ROWS * block_n
    product = 2 * scores * D / flops_per_clock()
    return Machine(
        load=block_n * D * HALF / bytes_per_clock(),
        qk=product,
        pv=product,
        exp=scores / EXPONENTIAL,
        before=scores / MAXIMUM + 2 * 4 * ROWS / SHUFFLE,  # four threads hold a row: two exchanges
        # scale and subtract, add to the row's sum, and two numbers in one conversion to fp16
        after=2 * scores / MULTIPLY_ADD + scores / 2 / CONVERT,
        rescale=ROWS * D / MULTIPLY_ADD,
        alone=ALONE,
        consumers=consumers,
        arbitration=arbitration,
    )


def flops_per_clock() -> float:
    """Of the tensor cores of one SM in fp16."""
    return GPU.peak() / (GPU.sms * GPU.clock_mhz * 1e6)


def bytes_per_clock() -> float:
    """What one SM gets of the L2 when all of them load."""
    return GPU.l2_bytes_per_clock / GPU.sms


def tflops(
    producer: Callable | None,
    consumer: Callable,
    at: Machine,
    *,
    B: int,
    H: int,
    N: int,
    D: int,
    block_n: int,
    stages: int = 2,
) -> tuple[float, Timeline]:
    """Speed of full attention, N queries on N keys, and one block's timeline.

    Blocks of queries are dealt to the SMs in waves. A producer runs ahead: while a block ends, the
    next one's queries and first keys come in and its output leaves. Without one, all that adds up.
    """
    timeline = simulate(producer, consumer, at, n_tiles=math.ceil(N / block_n), stages=stages)
    rows = ROWS * at.consumers
    waves = math.ceil(B * H * math.ceil(N / rows) / GPU.sms)
    moved = 2 * rows * D * HALF / bytes_per_clock()  # q in, o out
    ahead = 0.0 if producer is None else (waves - 1) * (moved + at.load)
    clocks = waves * (timeline.cycles + moved) - ahead
    seconds = clocks / (GPU.clock_mhz * 1e6 * REACHED)
    return 4 * B * H * N * N * D / seconds / 1e12, timeline
