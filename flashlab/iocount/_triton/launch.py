"""One launch on the CPU: argument checks, windows, program order, errors with their line."""

import dataclasses
import difflib
import inspect
import random
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
import triton.runtime.interpreter as interp
from triton.backends.nvidia.compiler import CUDAOptions
from triton.runtime.interpreter import TensorHandle
from triton.runtime.jit import TensorWrapper
from triton.tools.tensor_descriptor import TensorDescriptor

from flashlab.iocount._triton import language, rewrite
from flashlab.iocount._triton.memory import missing_other
from flashlab.iocount._triton.patch import Patches
from flashlab.iocount.argument import Argument
from flashlab.iocount.errors import KernelError
from flashlab.iocount.recorder import Recorder

_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_OPTIONS = {field.name for field in dataclasses.fields(CUDAOptions)}
_RESERVED = {"grid", "warmup", "debug", "instrumentation_mode", "stream", "device"}


class Launcher:
    """Runs kernels on behalf of one recording."""

    def __init__(self, rec: Recorder, order: str | int, on_launch: Callable | None) -> None:
        self.rec, self.order, self.on_launch = rec, order, on_launch
        self.names = {
            rewrite.LOOP: rec_loop,
            rewrite.RANGE: language.LoopRange,
            "interpreter_semantic": interp.interpreter_semantic,
        }
        if hasattr(interp, "_InterpreterComparison"):
            self.names["_InterpreterComparison"] = interp._InterpreterComparison

    def twin(self, jit_function: Any) -> rewrite.Twin:
        """The interpreted twin, its file and lines made known to the recorder."""
        twin = rewrite.twin(jit_function, self.names)
        if twin.user:
            self.rec.files.add(twin.filename)
            sources = self.rec.tally.sources
            for line, text in twin.lines.items():
                sources[twin.filename, line] = text
        return twin

    def call(self, jit_function: Any, *args: Any, **kwargs: Any) -> Any:
        """One jit function called by another."""
        return self.twin(jit_function).function(*args, **kwargs)

    def run(
        self, jit_function: Any, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any
    ) -> None:
        """``kernel[grid](*args, **kwargs)``."""
        if warmup:
            return
        name = getattr(jit_function, "__name__", "kernel")
        bound, options = _bind(name, jit_function, args, kwargs)
        grid = _grid(name, grid, bound)
        if self.on_launch is not None:
            self.on_launch(jit_function, grid, bound, options)
        for hook in getattr(jit_function, "pre_run_hooks", ()):
            hook(*args, **kwargs)
        twin = self.twin(jit_function)
        rec = self.rec
        if rec.running:
            raise KernelError(
                "a kernel was launched from inside a kernel", kernel=name, kind="compile"
            )
        rec.start_launch(name, grid)
        global _running
        outer, _running = _running, rec
        try:
            self._run(twin, bound, grid)
        finally:
            _running = outer
            rec.end_launch()

    def _run(self, twin: rewrite.Twin, bound: dict[str, Any], grid: tuple[int, int, int]) -> None:
        host = _Host()
        values = {name: host.take(name, value) for name, value in bound.items()}
        rec, patches = self.rec, Patches()
        made = iter(rec.bind(host.tensors))
        try:
            with triton.knobs.runtime.scope(), np.errstate(all="ignore"):
                triton.knobs.runtime.interpret = True
                language.install(patches, lambda x: self._truth(x), lambda x: self._index(x))
                self._install_calls(patches)
                call = {
                    name: value if name in twin.constexprs else _convert(value, made)
                    for name, value in values.items()
                }
                interp.interpreter_builder.set_grid_dim(*grid)
                for pid in _programs(grid, self.order):
                    rec.start_program(pid)
                    interp.interpreter_builder.grid_idx = pid
                    twin.function(**call)
                rec.end_programs()
        except KernelError as error:
            raise error.with_traceback(None) from None
        except Exception as error:
            raise self._explain(error) from None
        finally:
            patches.undo()
        host.give_back()

    def _install_calls(self, patches: Patches) -> None:
        call = self.call
        for cls in (triton.runtime.jit.JITFunction, interp.InterpretedFunction):
            patches.put(cls, "__call__", lambda fn, *args, **kwargs: call(fn, *args, **kwargs))

    # ---- scalars that decide what Python does
    def _truth(self, tensor: Any) -> bool:
        data = tensor.handle.data
        if sys._getframe(2).f_code.co_filename not in self.rec.files:
            return data.size > 1 or bool(
                data.reshape(-1)[0]
            )  # Triton's own code asks "is it given"
        if data.size > 1:
            raise self.rec.error(
                KernelError,
                f"a tile of shape {list(data.shape)} has no single truth value",
                "Use tl.where(cond, a, b) instead of `if`, and & | ~ instead of `and or not`",
                kind="compile",
            )
        self._clean(tensor, "an `if` or `while`")
        return bool(data.reshape(-1)[0])

    def _index(self, tensor: Any) -> int:
        self._clean(tensor, "the bound of a loop")
        return int(tensor.handle.data.item())

    def _clean(self, tensor: Any, use: str) -> None:
        if self.rec.tainted and getattr(tensor.handle, "_taint", None) is not None:
            self.rec.report(missing_other(self.rec, tensor.handle, use))

    # ---- errors
    def _explain(self, error: Exception) -> KernelError:
        """Any exception of a kernel as one sentence with the kernel's line."""
        rec = self.rec
        while isinstance(error, interp.InterpreterError) and error.__cause__ is not None:
            error = error.__cause__
        frames = traceback.extract_tb(error.__traceback__)
        mine = [f for f in frames if f.filename in rec.files]
        where = (mine[-1].filename, mine[-1].lineno) if mine else ("", 0)
        text = str(error) or type(error).__name__
        kind = "crash"
        if isinstance(error, language.StaticAssertion):
            kind = "compile"
        elif isinstance(error, AssertionError):
            text = f"assertion failed: {text}"
        else:
            text = f"{type(error).__name__}: {text}"
            inside = any("language" in f.filename and "triton" in f.filename for f in frames[-3:])
            if inside or isinstance(error, (NameError, SyntaxError)):
                kind = "compile"
        return rec.error(KernelError, text, "", where, kind=kind)


_running: Recorder | None = None


def rec_loop(iterable: Any, line: int) -> Any:
    """The loop of a rewritten kernel: steps are told to the recorder whose launch runs."""
    return _running.loop(iterable, line)


def _bind(name: str, jit_function: Any, args: tuple, kwargs: dict) -> tuple[dict, dict]:
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


def _grid(name: str, grid: Any, bound: dict[str, Any]) -> tuple[int, int, int]:
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


def _programs(grid: tuple[int, int, int], order: str | int) -> list[tuple[int, int, int]]:
    """Program ids in the order in which they run."""
    pids = [(x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]
    if order == "reversed":
        pids.reverse()
    elif order != "forward":
        random.Random(order).shuffle(pids)
    return pids


class _Host:
    """Tensors of a launch in host memory; a CUDA storage is copied, and given back at the end."""

    def __init__(self) -> None:
        self.tensors: list[tuple[str, torch.Tensor, torch.Tensor]] = []
        self._copies: dict[int, tuple[Any, Any]] = {}

    def take(self, name: str, value: Any) -> Any:
        """The value with its tensors on the host; every tensor is noted."""
        if isinstance(value, TensorDescriptor):
            base = self.take(name, value.base)
            return dataclasses.replace(value, base=base)
        if isinstance(value, TensorWrapper):
            raw = self._move(value.base)
            self.tensors.append((name, value.base, raw))
            return TensorWrapper(raw, value.dtype)
        if isinstance(value, torch.Tensor):
            raw = self._move(value)
            self.tensors.append((name, value, raw))
            return raw
        if isinstance(value, tuple):
            items = [self.take(f"{name}[{i}]", v) for i, v in enumerate(value)]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        return value

    def _move(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.device.type == "cpu":
            return tensor.detach()
        device = tensor.untyped_storage()
        if device.data_ptr() not in self._copies:
            self._copies[device.data_ptr()] = (device, device.cpu())
        host = self._copies[device.data_ptr()][1]
        out = torch.empty(0, dtype=tensor.dtype)
        return out.set_(host, tensor.storage_offset(), tensor.size(), tensor.stride())

    def give_back(self) -> None:
        """Copy what the kernel wrote back to the device."""
        for device, host in self._copies.values():
            device.copy_(host)


def _convert(value: Any, made: Any) -> Any:
    """An argument as kernel code sees it; tensors become pointers into their windows."""
    if isinstance(value, bool):
        return tl.tensor(TensorHandle(np.array([value]), tl.int1), tl.int1)
    if isinstance(value, (torch.Tensor, TensorWrapper)):
        argument: Argument = next(made)
        pointer = interp._implicit_cvt(value)
        pointer.handle.data = np.array([argument.virtual], np.uint64)
        return pointer
    if isinstance(value, TensorDescriptor):
        return _descriptor(value, made)
    if isinstance(value, tuple):
        items = [_convert(v, made) for v in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    return interp._implicit_cvt(value)


def _descriptor(value: TensorDescriptor, made: Any) -> Any:
    base = _convert(value.base, made)
    strides = [interp._implicit_cvt(s) for s in value.strides[:-1]] + [tl.constexpr(1)]
    described = interp.interpreter_semantic.make_tensor_descriptor(
        base=base,
        shape=[interp._implicit_cvt(s) for s in value.shape],
        strides=strides,
        block_shape=[tl.constexpr(b) for b in value.block_shape],
        padding_option=value.padding,
    )
    if hasattr(described.handle, "round_f32_to_tf32"):
        described.handle.round_f32_to_tf32 = value.round_f32_to_tf32
    return described
