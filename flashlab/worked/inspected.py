"""Calls of worked kernels for Hopper, which ``flashlab inspect`` compiles offline. Floor: core."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from flashlab import aot


def _backward(name: str) -> Callable[[Any], None]:
    def call(module: Any) -> None:
        for D in (64, 128):
            x, lse = torch.zeros(1, 1, 1024, D, dtype=torch.float16), torch.zeros(1, 1, 1024)
            for causal in (False, True):
                getattr(module, name)(x, x, x, x, lse, x, causal=causal)

    return call


def _dq(module: Any) -> None:
    for D in (64, 128):
        x, row = torch.zeros(1, 1, 1024, D, dtype=torch.float16), torch.zeros(1, 1024)
        for causal in (False, True):
            module.flash3_dq(x, x, x, x, row, row, causal=causal, scale=1.0)


def _forward(name: str) -> Callable[[Any], None]:
    def call(module: Any) -> None:
        for D, N in ((64, 1024), (128, 1024)):
            x = torch.zeros(1, 1, N, D, dtype=torch.float16)
            for causal in (False, True):
                getattr(module, name)(x, x, x, causal=causal)

    return call


CALLS: dict[str, Callable[[Any], None]] = {
    "flash3_backward": _backward("flash3_backward"),
    "flash3_backward_dq": _dq,
    "flash3_backward_in_order": _backward("backward_in_order"),
    "flash3_backward_roles": _backward("backward_roles"),
    **{name: _forward(name) for name in ("flash3_one_warpgroup", "flash3_pingpong")},
}


def inspect(name: str, archs: Sequence[int]) -> list[aot.Compiled]:
    """Compile the kernels of a worked file for its usual calls; one row a launch and target.

    Args:
        name: One of ``CALLS``: a file of this folder.
        archs: Compute capabilities.
    """
    path = Path(__file__).parent / f"{name}.py"
    text = path.read_text(encoding="utf-8")
    rows = aot.inspect(text, str(path), CALLS[name], archs)
    return [row for row in rows if f"def {row.kernel}(" in text]
