"""Patches for the time of a recording: the interpreter's operations, and what a launch does."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import triton.runtime.interpreter as interp
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from flashlab.iocount._triton import arithmetic, memory, repairs
from flashlab.iocount._triton.launch import Launcher
from flashlab.iocount._triton.patch import Patches
from flashlab.iocount.recorder import Recorder


@contextmanager
def activate(
    rec: Recorder, *, order: str | int, tf32: bool, on_launch: Callable | None
) -> Iterator[None]:
    """Launches go to ``rec`` until the block ends."""
    patches, launcher = Patches(), Launcher(rec, order, on_launch)
    try:
        repairs.install(patches)
        arithmetic.install(patches, rec, tf32)
        memory.install(patches, rec)
        for cls in (JITFunction, interp.InterpretedFunction):
            patches.put(cls, "run", lambda fn, *args, **kwargs: launcher.run(fn, *args, **kwargs))
        patches.put(Autotuner, "run", _first_configuration)
        yield
    finally:
        patches.undo()


def _first_configuration(tuner: Any, *args: Any, **kwargs: Any) -> Any:
    """An autotuned kernel without a GPU to time it on: its first configuration."""
    tuner.nargs = dict(zip(tuner.arg_names, args, strict=False))
    try:
        config = tuner.prune_configs(kwargs)[0]
        options = config.all_kwargs()
        if config.pre_hook is not None:
            config.pre_hook({**tuner.nargs, **kwargs, **options})
        return tuner.fn.run(*args, **{**kwargs, **options})
    finally:
        tuner.nargs = None
