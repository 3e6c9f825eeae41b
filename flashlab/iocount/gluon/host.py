"""A launch's tensors as a Gluon kernel sees them: pointers, and descriptors for TMA.

Every access goes through the recorder, which counts its bytes and knows a tensor's limits.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import triton.experimental.gluon.language as gl

from flashlab.iocount._triton.repairs import bf16_bits, bf16_values
from flashlab.iocount.argument import Argument
from flashlab.iocount.errors import OutOfBounds
from flashlab.iocount.gluon.tile import Int, Pointer, Tile
from flashlab.iocount.recorder import Recorder

DTYPES = {
    torch.float16: gl.float16, torch.bfloat16: gl.bfloat16, torch.float32: gl.float32,
    torch.int32: gl.int32, torch.int64: gl.int64,
}  # fmt: skip
STORED = {torch.float16: np.float16, torch.bfloat16: np.uint16, torch.float32: np.float32,
          torch.int32: np.int32, torch.int64: np.int64}  # fmt: skip


class Tensor:
    """One tensor argument: values of its elements by their distance from the first one."""

    def __init__(self, rec: Recorder, argument: Argument) -> None:
        self.rec, self.argument, self.item = rec, argument, argument.item
        kind = argument.tensor.dtype
        self.dtype, self.bf16 = DTYPES[kind], kind == torch.bfloat16
        # Tickets and counters are what programs agree by: no race, whatever their order
        self.counted = kind.is_floating_point
        self.memory = argument.memory(np.dtype(STORED[kind]))

    def _places(self, how: str, offset: Any, mask: Any) -> tuple[np.ndarray, np.ndarray]:
        where = np.asarray(offset.data if isinstance(offset, Tile) else offset, np.int64)
        active = np.asarray(mask.data if isinstance(mask, Tile) else mask, bool)
        where, active = np.broadcast_arrays(where, active)
        if self.counted:
            pointers = (self.argument.virtual + (where * self.item).view(np.uint64)).astype(
                np.uint64
            )
            self.rec.access(how, pointers, active, self.item)
        elif (active & ((where < 0) | (where >= self.argument.elements))).any():
            what = f"gl.{how} leaves {self.argument.name}"
            raise self.rec.error(OutOfBounds, what, argument=self.argument.name)
        return np.where(active, where, 0), active

    def _there(self, where: np.ndarray) -> np.ndarray:
        data = self.memory[where]
        return bf16_values(data) if self.bf16 else data

    def _seen(self, data: np.ndarray, offset: Any) -> Any:
        if isinstance(offset, Tile):
            return Tile(data, self.dtype, offset.layout)
        if np.ndim(offset):
            return data.astype(np.float32)
        return Int(data) if data.dtype.kind == "i" else float(data)

    def load(self, offset: Any, mask: Any = True, other: Any = None) -> Any:
        """What a load gives: a tile of a tile of offsets, a number of a number."""
        where, active = self._places("load", offset, mask)
        data = self._there(where)
        data = np.where(active, data, np.zeros((), data.dtype) if other is None else other)
        return self._seen(data, offset)

    def store(self, offset: Any, value: Any, mask: Any = True, add: bool = False) -> Any:
        """Write a tile or a number, rounded to the tensor's dtype.

        ``add``: add it to what is there, at once; returns what was there.
        """
        where, active = self._places("atomic" if add else "store", offset, mask)
        data = np.broadcast_to(value.data if isinstance(value, Tile) else value, where.shape)
        before = None
        if add:
            before = self._there(where)
            data = data + before
        data = bf16_bits(np.asarray(data, np.float32)) if self.bf16 else data
        with np.errstate(over="ignore"):
            self.memory[where[active]] = data[active].astype(self.memory.dtype)
        return self._seen(before, offset) if add else None


class Block:
    """What a kernel asks of a descriptor's blocks."""

    def __init__(self, shape: list[int], itemsize: int) -> None:
        self.shape, self.nbytes = shape, int(np.prod(shape)) * itemsize


class Descriptor:
    """A tensor as TMA sees it; what lies outside is read as 0 and not written."""

    def __init__(self, tensor: Tensor, given: Any) -> None:
        self.tensor, self.dtype, self.layout = tensor, tensor.dtype, given.layout
        self.shape, self.strides = [*given.shape], [*given.strides]
        self.block_shape = [*given.block_shape]
        self.size = int(np.prod(self.block_shape))
        self.block_type = Block(self.block_shape, tensor.item)
        self.nbytes_per_cta = self.block_type.nbytes

    def _box(self, coord: Any) -> tuple[np.ndarray, np.ndarray]:
        if len(coord) != len(self.shape):
            raise TypeError(f"TMA needs {len(self.shape)} coordinates here, not {len(coord)}")
        where, inside = np.array(0), np.array(True)
        for at, n, step, extent in zip(
            coord, self.shape, self.strides, self.block_shape, strict=True
        ):
            line = int(at) + np.arange(extent)
            where = where[..., None] + line * step
            inside = inside[..., None] & (line >= 0) & (line < n)
        return where, inside

    def read(self, coord: Any) -> np.ndarray:
        """The values of a block."""
        where, inside = self._box(coord)
        return self.tensor.load(np.where(inside, where, 0), inside, 0.0)

    def write(self, coord: Any, values: np.ndarray, add: bool = False) -> None:
        """Store a block, or add it to what is there (fp32)."""
        where, inside = self._box(coord)
        if add and self.dtype.name != "fp32":
            raise TypeError(f"TMA adds to float32 here, not to {self.dtype.name}")
        self.tensor.store(np.where(inside, where, 0), values.reshape(where.shape), inside, add)


def bind(rec: Recorder, values: Mapping[str, Any]) -> dict[str, Any]:
    """A launch's arguments by name as the kernel gets them."""
    bases = {name: getattr(v, "base", v) for name, v in values.items()}
    tensors = [(n, x, x.detach()) for n, x in bases.items() if isinstance(x, torch.Tensor)]
    for name, x, _ in tensors:
        if x.device.type != "cpu" or x.dtype not in STORED:
            raise TypeError(f"{name} is {x.dtype} on {x.device}: this runs on CPU tensors alone")
    seen = {a.name: Tensor(rec, a) for a in rec.bind(tensors)}
    return {name: _argument(seen.get(name), value) for name, value in values.items()}


def _argument(tensor: Tensor | None, value: Any) -> Any:
    if tensor is not None:
        return Descriptor(tensor, value) if hasattr(value, "block_shape") else Pointer(tensor)
    if isinstance(value, gl.constexpr):
        return value.value
    return Int(value) if type(value) is int else value
