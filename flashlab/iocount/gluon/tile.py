"""Values of a kernel: integers that divide as C does, tiles in registers, pointers to tensors."""

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.experimental.gluon.language as gl

from flashlab.iocount._triton.repairs import to_bf16
from flashlab.iocount.errors import KernelError

NUMPY = {"fp16": np.float32, "bf16": np.float32, "fp32": np.float32, "int32": np.int32,
         "int64": np.int64, "int1": np.bool_}  # fmt: skip


class Unknown(KernelError):
    """A name of Gluon's that is not known here: nothing can be said of the kernel's numbers."""

    kind = "unknown"


def strange(owner: Any, name: str) -> Exception:
    """What to raise for an attribute: Gluon may know it, though this does not."""
    if hasattr(owner, name) and not name.startswith("__"):
        title = getattr(owner, "__name__", "gl").rpartition(".")[2]
        return Unknown(f"{title}.{name} is not known here, where kernels run without a GPU")
    return AttributeError(f"{owner} has no attribute {name!r}")


class Int(int):
    """An integer of the kernel: ``//`` and ``%`` round towards zero, as C does."""

    def __floordiv__(self, other: Any) -> Any:
        return _divided(self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _divided(other, self)

    def __mod__(self, other: Any) -> Any:
        return self - other * _divided(self, other)

    def __rmod__(self, other: Any) -> Any:
        return other - self * _divided(other, self)

    def to(self, dtype: Any) -> "Int":
        return self

    def __getattr__(self, name: str) -> Any:
        raise strange(gl.tensor, name)


def _divided(a: int, b: int) -> Any:
    if not isinstance(a, int) or not isinstance(b, int):
        return NotImplemented
    return Int(abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1))


def _closed(name: str) -> Callable:
    method = getattr(int, name)

    def call(self: Int, *args: Any) -> Any:
        found = method(self, *args)
        return Int(found) if type(found) is int else found

    return call


for _name in ("add radd sub rsub mul rmul and rand or ror xor rxor lshift rshift neg").split():
    setattr(Int, f"__{_name}__", _closed(f"__{_name}__"))


class Type:
    """What a kernel may ask of a tile's type."""

    def __init__(self, tile: "Tile") -> None:
        self.layout, self.shape, self.element_ty = tile.layout, tile.shape, tile.dtype


class Tile:
    """A tensor of the kernel: numpy values (16-bit floats as fp32), dtype, layout as given."""

    def __init__(self, data: Any, dtype: Any, layout: Any = None) -> None:
        self.data = np.asarray(data, NUMPY[dtype.name])
        self.dtype, self.layout = dtype, layout

    def __getattr__(self, name: str) -> Any:
        raise strange(gl.tensor, name)

    @property
    def shape(self) -> list[int]:
        return list(self.data.shape)

    @property
    def type(self) -> Type:
        return Type(self)

    def to(self, dtype: Any) -> "Tile":
        """The values rounded to ``dtype``."""
        return Tile(rounded(self.data, dtype), dtype, self.layout)

    def reshape(self, *shape: Any) -> "Tile":
        shape = shape[0] if isinstance(shape[0], list | tuple) else shape
        return Tile(self.data.reshape(shape), self.dtype)

    def permute(self, *order: Any) -> "Tile":
        order = order[0] if isinstance(order[0], list | tuple) else order
        return Tile(self.data.transpose(order), self.dtype)

    def __getitem__(self, key: Any) -> "Tile":
        return Tile(self.data[key], self.dtype, self.layout)

    def __neg__(self) -> "Tile":
        return Tile(-self.data, self.dtype, self.layout)

    def __invert__(self) -> "Tile":
        return Tile(~self.data, self.dtype, self.layout)

    def __bool__(self) -> bool:
        raise TypeError("a tile has no single truth value: use gl.where, & and |")


def rounded(data: np.ndarray, dtype: Any) -> np.ndarray:
    """``data`` as ``dtype`` holds it."""
    if dtype.name == "fp16":
        with np.errstate(over="ignore"):
            return data.astype(np.float16).astype(np.float32)
    if dtype.name == "bf16":
        return to_bf16(data.astype(np.float32))
    return data.astype(NUMPY[dtype.name])


def apply(function: Callable, *values: Any, dtype: Any = None) -> Any:
    """``function`` of tiles and numbers; numbers alone give a number."""
    tiles = [v for v in values if isinstance(v, Tile)]
    if not tiles:
        found = function(*values)
        return Int(found) if type(found) is int else found
    wide = max(tiles, key=lambda t: (t.data.dtype.kind == "f", t.data.dtype.itemsize))
    kind, low = wide.data.dtype, ("fp16", "bf16")
    plain = [v.data if isinstance(v, Tile) else _number(v, kind) for v in values]
    with np.errstate(all="ignore"):
        data = function(*plain)
    if dtype is None:
        dtype = wide.dtype if data.dtype != np.bool_ else gl.int1
    if dtype.name in low:
        data = rounded(data, dtype)
    return Tile(data, dtype, max(tiles, key=lambda t: t.data.ndim).layout)


def _number(value: Any, kind: np.dtype) -> Any:
    if isinstance(value, float) and kind.kind != "f":
        return np.float32(value)
    return value if isinstance(value, bool) else kind.type(value)


def _install(name: str, function: Callable) -> None:
    setattr(Tile, f"__{name}__", lambda a, b: apply(function, a, b))
    setattr(Tile, f"__r{name}__", lambda a, b: apply(function, b, a))


for _name in "add sub mul truediv and_ or_ xor lshift rshift".split():
    _install(_name.strip("_"), getattr(operator, _name))


def _quotient(a: Any, b: Any) -> Any:
    """Integers divide towards zero, as C does."""
    return np.trunc(np.true_divide(a, b)).astype(np.result_type(a, b))


def _remainder(a: Any, b: Any) -> Any:
    return a - b * _quotient(a, b)


_install("floordiv", _quotient)
_install("mod", _remainder)


def _applied(a: Tile, function: Callable, b: Any) -> Any:
    return apply(function, a, b)


for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    _compare = getattr(operator, _name)
    setattr(Tile, f"__{_name}__", functools.partialmethod(_applied, _compare))


class Pointer:
    """A tensor argument, moved by an offset: a number or a tile of numbers of elements."""

    def __init__(self, argument: Any, offset: Any = 0) -> None:
        self.argument, self.offset = argument, offset

    def __add__(self, other: Any) -> "Pointer":
        return Pointer(self.argument, self.offset + other)

    def __sub__(self, other: Any) -> "Pointer":
        return self + (-other)

    __radd__ = __add__
