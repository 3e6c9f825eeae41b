"""Count every byte a Triton kernel moves, on the CPU. Floor: core."""

from flashlab.iocount.errors import (
    KernelError,
    MissingOther,
    OutOfBounds,
    RaceError,
    UninitialisedRead,
    UnwrittenOutput,
)
from flashlab.iocount.recording import active, count_io, expect_output
from flashlab.iocount.redzone import redzone
from flashlab.iocount.steps import Launch, Step
from flashlab.iocount.tally import Tally

__all__ = [
    "KernelError",
    "Launch",
    "MissingOther",
    "OutOfBounds",
    "RaceError",
    "Step",
    "Tally",
    "UninitialisedRead",
    "UnwrittenOutput",
    "active",
    "count_io",
    "expect_output",
    "redzone",
]
