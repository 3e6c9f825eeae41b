"""One launch on the CPU: programs in order, jit functions that call others, errors with lines."""

import linecache
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import triton
import triton.runtime.interpreter as interp

from flashlab.iocount import gluon, habits
from flashlab.iocount._triton import language, rewrite
from flashlab.iocount._triton.binding import bind, grid_of, programs
from flashlab.iocount._triton.host import Host, convert
from flashlab.iocount._triton.memory import missing_other
from flashlab.iocount._triton.patch import Patches
from flashlab.iocount.argument import WINDOW_BITS
from flashlab.iocount.errors import KernelError
from flashlab.iocount.recorder import Recorder


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
        bound, options = bind(name, jit_function, args, kwargs)
        grid = grid_of(name, grid, bound)
        if self.on_launch is not None:
            self.on_launch(jit_function, grid, bound, options)
        for hook in getattr(jit_function, "pre_run_hooks", ()):
            hook(*args, **kwargs)
        in_gluon = getattr(jit_function, "is_gluon", bool)()
        twin = None if in_gluon else self.twin(jit_function)
        rec = self.rec
        if rec.running:
            raise KernelError(
                "a kernel was launched from inside a kernel", kernel=name, kind="compile"
            )
        rec.start_launch(name, grid)
        global _running
        outer, _running = _running, rec
        try:
            if in_gluon:
                self._run_gluon(jit_function, bound, grid)
            else:
                self._run(twin, bound, grid)
        finally:
            _running = outer
            rec.end_launch()

    def _run(self, twin: rewrite.Twin, bound: dict[str, Any], grid: tuple[int, int, int]) -> None:
        host = Host()
        values = {name: host.take(name, value) for name, value in bound.items()}
        rec, patches, failure = self.rec, Patches(), None
        arguments = rec.bind(host.tensors)
        try:
            with triton.knobs.runtime.scope(), np.errstate(all="ignore"):
                triton.knobs.runtime.interpret = True
                language.install(patches, lambda x: self._truth(x), lambda x: self._index(x))
                self._install_calls(patches)
                call = _converted(twin, values, iter(arguments))
                interp.interpreter_builder.set_grid_dim(*grid)
                for pid in programs(grid, self.order):
                    rec.start_program(pid)
                    interp.interpreter_builder.grid_idx = pid
                    twin.function(**call)
                rec.end_programs()
        except KernelError as error:
            failure = error.with_traceback(None)
        except Exception as error:
            failure = self._explain(error)
        finally:
            patches.undo()
        if failure is not None:  # raised here, it keeps no frame of the kernel alive
            failure.__context__ = failure.__cause__ = None
            raise failure
        host.give_back(arguments)

    def _run_gluon(self, kernel: Any, bound: dict[str, Any], grid: tuple[int, int, int]) -> None:
        failure = None
        try:
            order = programs(grid, self.order)
            gluon.run(self.rec, kernel, bound, grid, order, turn=self.order != "forward")
        except KernelError as error:
            failure = error.with_traceback(None)
        except Exception as error:
            failure = self._explain(error)
        if failure is not None:
            failure.__context__ = failure.__cause__ = None
            raise failure

    def _install_calls(self, patches: Patches) -> None:
        call = self.call
        for cls in (triton.runtime.jit.JITFunction, interp.InterpretedFunction):
            patches.put(cls, "__call__", lambda fn, *args, **kwargs: call(fn, *args, **kwargs))

    # ---- scalars that decide what Python does
    def _truth(self, tensor: Any) -> bool:
        data = tensor.handle.data
        if sys._getframe(2).f_code.co_filename not in self.rec.files:
            return data.size > 1 or bool(data.reshape(-1)[0])  # Triton asks whether it is given
        if data.size > 1:
            file, line = self.rec.where()
            advised = habits.advice("".join(linecache.getlines(file)), line, "truth value")
            what = advised or f"a tile of shape {list(data.shape)} has no single truth value"
            hint = "Use tl.where(cond, a, b) instead of `if`, and & | ~ instead of `and or not`"
            hint = "" if advised else hint
            raise self.rec.error(KernelError, what, hint, kind="compile")
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
        advised = habits.advice("".join(linecache.getlines(where[0])), where[1], text)
        if advised:
            return rec.error(KernelError, advised, "", where, kind="compile")
        kind = "crash"
        if isinstance(error, language.StaticAssertion):
            kind = "compile"
        elif isinstance(error, AssertionError):
            text = self._described(error, text) or f"assertion failed: {text}"
        else:
            text = f"{type(error).__name__}: {text}"
            inside = any("language" in f.filename and "triton" in f.filename for f in frames[-3:])
            if inside or isinstance(error, (NameError, SyntaxError)):
                kind = "compile"
        return rec.error(KernelError, text, "", where, kind=kind)

    def _described(self, error: AssertionError, text: str) -> str:
        """What no descriptor can be made of, if that is what Triton refused; else empty."""
        steps = [at for at, _ in traceback.walk_tb(error.__traceback__)]
        handle = steps[-1].f_locals.get("self") if steps else None
        if not isinstance(handle, interp.TensorDescHandle) or "16-byte" not in text:
            return ""
        number = int(handle.base.data.item()) >> WINDOW_BITS
        named = [arg.name for arg in self.rec.arguments[number : number + 1] if number]
        of = named[0] if named else "this address"
        return (
            f"no descriptor can be made of {of} ({text}): where it starts, and how far apart its "
            "rows lie, have to be multiples of 16 bytes"
        )


def _converted(twin: rewrite.Twin, values: dict[str, Any], made: Any) -> dict[str, Any]:
    """The arguments as the kernel's code gets them; ``made`` gives the tensors' in order."""
    return {
        name: value if name in twin.constexprs else convert(value, made, twin.types.get(name))
        for name, value in values.items()
    }


_running: Recorder | None = None


def rec_loop(iterable: Any, line: int) -> Any:
    """The loop of a rewritten kernel: steps are told to the recorder whose launch runs."""
    return _running.loop(iterable, line)
