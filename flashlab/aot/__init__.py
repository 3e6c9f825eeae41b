"""Compile captured launches for GPUs that are not there. Floor: core.

Describes a launch as data, compiles it in a subprocess and says what came out: shared memory,
registers, spills, instructions, or one sentence when a target refuses. Correctness is not its
business.
"""

from collections.abc import Callable, Sequence
from typing import Any

from flashlab.aot.compiled import Compiled, table
from flashlab.aot.launch import Launch, capture, describe_launch
from flashlab.aot.pool import Compiler, compile_launches, warm
from flashlab.loading import load_module

ARCHS = (75, 80, 86, 89, 90, 100, 120)

__all__ = [
    "ARCHS",
    "Compiled",
    "Compiler",
    "Launch",
    "capture",
    "compile_launches",
    "describe_launch",
    "inspect",
    "table",
    "warm",
]


def inspect(
    text: str,
    filename: str,
    call: Callable[[Any], Any],
    archs: Sequence[int] = ARCHS,
    timeout: float = 60.0,
) -> list[Compiled]:
    """Compile whatever ``call(module)`` launches, where ``module`` is ``text`` loaded here.

    No kernel runs: the launcher does, on tensors of any device.

    Args:
        text: Python text with kernels and launcher.
        filename: What messages call it.
        call: Makes the launches, such as ``lambda m: m.flash_forward(q, k, v)``.
        archs: Compute capabilities.
        timeout: Seconds for one launch and target.
    """
    module = load_module(text, filename)
    return compile_launches(text, filename, capture(lambda: call(module)), archs, timeout)
