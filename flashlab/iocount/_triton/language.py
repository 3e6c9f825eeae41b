"""`triton.language` for the time of a launch, bound to the interpreter's semantics."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import triton.language as tl
import triton.runtime.interpreter as interp
from triton.runtime.jit import JITFunction

from flashlab.iocount._triton.patch import Patches

_table: list[tuple[Any, str, Any]] = []


class _Collect:
    """Stands in for Triton's patch scope: notes what would be set, sets nothing."""

    last: dict[tuple[int, str], tuple[Any, str, Any]] = {}

    def __init__(self) -> None:
        _Collect.last = self.items = {}

    def set_attr(self, owner: Any, name: str, value: Any) -> None:
        self.items[id(owner), name] = (owner, name, value)

    def restore(self) -> None:
        pass


def _upstream() -> list[tuple[Any, str, Any]]:
    """What Triton's interpreter sets while a kernel runs, with a faster binding of builtins."""
    if not _table:
        patches = Patches()
        patches.put(interp, "_LangPatchScope", _Collect)
        try:
            interp._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
        finally:
            patches.undo()
        for owner, name, value in _Collect.last.values():
            bound = (getattr(value, "__kwdefaults__", None) or {}).get("member")
            _table.append((owner, name, value if bound is None else _bound(bound)))
    return _table


def _bound(member: Callable) -> Callable:
    """A builtin with the interpreter's semantics passed along."""
    semantic = interp.interpreter_semantic
    function = member
    if (
        getattr(member, "__code__", None) is tl.core.load.__code__
    ):  # the @builtin layer: skip its check
        function = member.__wrapped__

    def call(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = semantic
        return function(*args, **kwargs)

    return call


class LoopRange:
    """`range` and `tl.range` in a kernel: int32 scalars (int64 when a bound is), as compiled."""

    def __init__(self, first: Any, stop: Any = None, step: Any = 1, **_: Any) -> None:
        bounds = (0, first, step) if stop is None else (first, stop, 1 if step is None else step)
        self.values = range(*(int(getattr(b, "value", b)) for b in bounds))
        wide = any(getattr(b, "dtype", None) in (tl.int64, tl.uint64) for b in bounds)
        limit = 1 << 31
        wide = wide or any(not -limit <= v < limit for v in self.values[:1])
        wide = wide or any(not -limit <= v < limit for v in self.values[-1:])
        self.dtype, self.np_dtype = (tl.int64, np.int64) if wide else (tl.int32, np.int32)

    def __iter__(self):
        for value in self.values:
            handle = interp.TensorHandle(np.array([value], self.np_dtype), self.dtype)
            yield tl.tensor(handle, self.dtype)


def _static_range(first: Any, stop: Any = None, step: Any = None) -> list[int]:
    bounds = (0, first) if stop is None else (first, stop)
    return list(
        range(*(int(getattr(b, "value", b)) for b in (*bounds, 1 if step is None else step)))
    )


def _static_assert(condition: Any, message: Any = "") -> None:
    if not getattr(condition, "value", condition):
        raise StaticAssertion(getattr(message, "value", message) or "tl.static_assert failed")


class StaticAssertion(Exception):
    """A tl.static_assert that does not hold: the compiler would refuse the kernel."""


def _transpose(self: Any) -> Any:
    rank = len(self.shape)
    order = [*range(rank - 2), rank - 1, rank - 2]
    handle = interp.interpreter_builder.create_trans(self.handle, order)
    shape = [self.shape[i] for i in order]
    return tl.tensor(handle, tl.block_type(self.dtype, shape))


def install(patches: Patches, truth: Callable[[Any], bool], index: Callable[[Any], int]) -> None:
    """Make `tl` ready for a launch.

    Args:
        patches: Where to note the changes.
        truth: ``bool(tensor)``.
        index: ``int(tensor)`` of a scalar.
    """
    for owner, name, value in _upstream():
        patches.put(owner, name, value)
    for name, member in list(vars(tl.tensor).items()):  # x.sum(): a JITFunction does not bind self
        if isinstance(member, JITFunction):
            patches.put(tl.tensor, name, _method(member))
    for owner in (tl, tl.core):
        patches.put(owner, "range", LoopRange)
        patches.put(owner, "static_range", _static_range)
        patches.put(owner, "static_assert", _static_assert)
    patches.put(tl.tensor, "__bool__", truth)
    patches.put(tl.tensor, "__index__", index)
    patches.put(tl.tensor, "T", property(_transpose))


def _method(member: Any) -> Callable:
    return lambda self, *args, **kwargs: member(self, *args, **kwargs)
