"""One launch of a Gluon kernel on the CPU: its functions, Gluon's names replaced, run in turn."""

import inspect
from collections.abc import Iterable
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

import torch
import triton
import triton.experimental.gluon.language as gl

from flashlab.iocount.errors import KernelError
from flashlab.iocount.gluon.host import Argument, Descriptor
from flashlab.iocount.gluon.language import names
from flashlab.iocount.gluon.shared import Machine
from flashlab.iocount.gluon.tile import Int, Pointer
from flashlab.iocount.recorder import Recorder

DTYPES = {
    torch.float16: gl.float16, torch.bfloat16: gl.bfloat16, torch.float32: gl.float32,
    torch.int32: gl.int32, torch.int64: gl.int64,
}  # fmt: skip


class Unknown(KernelError):
    """A name of Gluon's that is not emulated: nothing is known of the kernel's numbers."""

    kind = "unknown"


def run(rec: Recorder, kernel: Any, bound: dict, grid: tuple, programs: Iterable[tuple]) -> None:
    """Run every program of a launch; ``bound`` are the arguments by name."""
    arguments: dict[int, Argument] = {}
    values = {name: _argument(rec, name, v, arguments) for name, v in bound.items()}
    for pid in programs:
        rec.start_program(pid)
        machine = Machine(rec)
        twins = Twins(rec, names(machine, pid, grid))
        twins.function(kernel)(**values)
        machine.end()
    rec.end_programs()
    for argument in arguments.values():
        argument.give_back()


def _argument(rec: Recorder, name: str, value: Any, arguments: dict[int, Argument]) -> Any:
    if isinstance(value, torch.Tensor):
        return Pointer(_tensor(rec, name, value, arguments))
    if hasattr(value, "block_shape"):
        return Descriptor(_tensor(rec, name, value.base, arguments), value)
    if isinstance(value, bool) or not isinstance(value, int):
        return getattr(value, "value", value) if isinstance(value, gl.constexpr) else value
    return Int(value)


def _tensor(rec: Recorder, name: str, x: torch.Tensor, arguments: dict[int, Argument]) -> Argument:
    key = x.untyped_storage().data_ptr(), x.storage_offset(), x.shape, x.stride()
    if key not in arguments:
        arguments[key] = Argument(rec, name, x, DTYPES[x.dtype])
    return arguments[key]


class Twins:
    """Functions of kernels with Gluon's names replaced; those of one file share their globals."""

    def __init__(self, rec: Recorder, emulated: dict[str, Any]) -> None:
        self.rec, self.emulated = rec, emulated
        self.language = _Names("gl", emulated)
        self.files: dict[int, dict[str, Any]] = {}

    def function(self, jitted: Any) -> FunctionType:
        """The plain function behind ``@gluon.jit``, able to run here."""
        plain = jitted.fn
        self.rec.files.add(plain.__code__.co_filename)
        self._sources(plain)
        known = self._globals(plain.__globals__)
        twin = FunctionType(plain.__code__, known, plain.__name__, None, plain.__closure__)
        defaults = plain.__defaults__ or ()
        twin.__defaults__ = tuple(self._value("", v) for v in defaults)
        return twin

    def _sources(self, plain: FunctionType) -> None:
        sources = self.rec.tally.sources
        if (plain.__code__.co_filename, plain.__code__.co_firstlineno) in sources:
            return
        try:
            lines, first = inspect.getsourcelines(plain)
        except OSError:
            return
        for number, text in enumerate(lines, first):
            sources[plain.__code__.co_filename, number] = text

    def _globals(self, given: dict[str, Any]) -> dict[str, Any]:
        if id(given) not in self.files:
            made = self.files[id(given)] = {"__builtins__": __builtins__}
            for name, value in given.items():
                if not name.startswith("__"):
                    made[name] = self._value(name, value)
        return self.files[id(given)]

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, gl.constexpr):
            return value.value
        owner = str(getattr(value, "__module__", None) or "")
        if isinstance(value, ModuleType):
            return self._module(value)
        if isinstance(value, triton.JITFunction) and not owner.startswith("triton."):
            return self.function(value)
        if owner.startswith("triton.") and callable(value):
            return self.emulated.get(getattr(value, "__name__", name)) or self._missing(name)
        return value

    def _module(self, module: ModuleType) -> Any:
        last = module.__name__.rpartition(".")[2]
        if module.__name__ == gl.__name__:
            return self.language
        if module.__name__.startswith(gl.__name__):
            return self.emulated.get(last) or _Names(last, self.emulated)
        return module

    def _missing(self, name: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            raise Unknown(f"{name} is not among the names that run without a GPU")

        return call


class _Names(SimpleNamespace):
    """A module of Gluon's: its emulated names; any other says so when it is used."""

    def __init__(self, title: str, emulated: dict[str, Any]) -> None:
        super().__init__(**emulated)
        self._title = title

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if hasattr(gl, name):
            raise Unknown(f"{self._title}.{name} is not among the names that run without a GPU")
        raise AttributeError(f"module '{gl.__name__}' has no attribute {name!r}")
