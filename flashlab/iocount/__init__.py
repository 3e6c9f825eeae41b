"""Count every byte a Triton kernel moves, on the CPU. Floor: core."""

from flashlab.iocount._triton.trace import (
    KernelError,
    OutOfBounds,
    RaceError,
    UninitialisedRead,
    redzone,
)
from flashlab.iocount._triton.trace import Trace as Tally
from flashlab.iocount._triton.trace import trace as count_io

__all__ = [
    "KernelError",
    "OutOfBounds",
    "RaceError",
    "Tally",
    "UninitialisedRead",
    "count_io",
    "redzone",
]
