"""What a launch says, checked: arguments by name, compile options, the grid, the order."""

import dataclasses
import difflib
import inspect
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from triton.backends.nvidia.compiler import CUDAOptions

from flashlab.iocount.errors import KernelError

_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_OPTIONS = {field.name for field in dataclasses.fields(CUDAOptions)}
_RESERVED = {"grid", "warmup", "debug", "instrumentation_mode", "stream", "device"}


def bind(name: str, jit_function: Any, args: tuple, kwargs: dict) -> tuple[dict, dict]:
    """(arguments by name in the signature's order, compile options)."""
    signature = inspect.signature(_plain(jit_function))
    mine = {k: v for k, v in kwargs.items() if k in signature.parameters}
    options = {k: v for k, v in kwargs.items() if k not in mine and k not in _RESERVED}
    for key in options:
        if key not in _OPTIONS:
            near = difflib.get_close_matches(key, [*signature.parameters, *_OPTIONS], 1)
            hint = (
                f"Did you mean {near[0]}?" if near else "It is neither an argument nor an option"
            )
            raise KernelError(
                f"kernel {name} got an unknown keyword {key!r}", hint, kind="compile"
            )
    try:
        bound = signature.bind(*args, **mine)
    except TypeError as error:
        raise KernelError(
            f"kernel {name}: {error}",
            f"Its arguments are {', '.join(signature.parameters)}",
            kind="compile",
        ) from None
    bound.apply_defaults()
    for key, value in bound.arguments.items():
        if isinstance(value, (np.ndarray, list)):
            kind = type(value).__name__
            hint = "Pass a torch tensor"
            raise KernelError(
                f"argument '{key}' of kernel {name} is a {kind}",
                hint,
                argument=key,
                kind="compile",
            )
    return dict(bound.arguments), options


def _plain(jit_function: Any) -> Callable:
    fn = jit_function.fn
    while hasattr(fn, "fn"):
        fn = fn.fn
    return fn


def grid_of(name: str, grid: Any, bound: dict[str, Any]) -> tuple[int, int, int]:
    """The grid as three integers."""
    if grid is None:
        raise KernelError(
            f"kernel {name} has no grid", f"Launch it as {name}[grid](...)", kind="compile"
        )
    if callable(grid):
        grid = grid(bound)
    if not isinstance(grid, (tuple, list, torch.Size)) or not 1 <= len(grid) <= 3:
        hint = "Write it as a tuple of one to three integers, such as (4,)"
        raise KernelError(f"kernel {name}: the grid is {grid!r}", hint, kind="compile")
    try:
        sizes = [n.__index__() for n in grid]
    except (AttributeError, TypeError):
        hint = "Its sizes must be integers: use triton.cdiv or //"
        raise KernelError(
            f"kernel {name}: the grid is {tuple(grid)!r}", hint, kind="compile"
        ) from None
    for axis, (n, limit) in enumerate(zip(sizes, _GRID_LIMITS, strict=False)):
        if not 0 <= n <= limit:
            hint = f"A GPU allows 0 to {limit:,d} there" + (
                ": put the long axis first" if axis else ""
            )
            raise KernelError(
                f"kernel {name}: axis {axis} of the grid is {n:,d}", hint, kind="compile"
            )
    return tuple(sizes + [1] * (3 - len(sizes)))


def programs(grid: tuple[int, int, int], order: str | int) -> Iterator[tuple[int, int, int]]:
    """Program ids in the order in which they run; x changes fastest."""
    count = grid[0] * grid[1] * grid[2]
    numbers: Sequence[int] = range(count)
    if order == "reversed":
        numbers = range(count - 1, -1, -1)
    elif order != "forward":
        numbers = random.Random(order).sample(numbers, count)
    for number in numbers:
        rest, x = divmod(number, grid[0])
        z, y = divmod(rest, grid[1])
        yield x, y, z
