"""How a call of a learner's code runs: recorded on the CPU, compiled on a GPU. Floor: core."""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import triton

from flashlab.iocount import Tally, count_io


@contextlib.contextmanager
def running(
    function: Callable, kernels: Sequence[triton.JITFunction], args: tuple, kwargs: Mapping
) -> Iterator[Tally | None]:
    """Surround a call of ``function``: with the recorder where its tensors are on the CPU.

    Args:
        function: Names the arguments in messages.
        kernels: What the call may launch; without any it runs as it is.
        args, kwargs: What it is called with.

    Yields:
        The recorder's tally, the enclosing one if there is one; None where nothing is recorded.

    Raises:
        ValueError: the tensors lie on several devices.
    """
    if not kernels or device_of(function, args, kwargs) != "cpu":
        yield None
        return
    with count_io() as tally:
        yield tally


def device_of(function: Callable, args: tuple, kwargs: Mapping) -> str | None:
    """The device of all tensors among the arguments, None without tensors.

    Raises:
        ValueError: they lie on several devices; names the arguments.
    """
    parameters = inspect.signature(function).parameters.values()
    names = [p.name for p in parameters if p.kind < p.VAR_POSITIONAL][: len(args)]
    names += [f"argument {n}" for n in range(len(names) + 1, len(args) + 1)]
    places: dict[str, list[str]] = {}
    for name, value in [*zip(names, args, strict=True), *kwargs.items()]:
        for tensor in _tensors(value):
            places.setdefault(str(tensor.device), []).append(name)
    if len(places) > 1:
        told = " and ".join(f"{', '.join(dict.fromkeys(n))} on {d}" for d, n in places.items())
        raise ValueError(f"expected all tensors on one device, got {told}: move them with .to()")
    return next(iter(places), None)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif isinstance(base := getattr(value, "base", None), torch.Tensor):  # a tensor descriptor
        yield base
