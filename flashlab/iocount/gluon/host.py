"""A launch's tensors as a Gluon kernel sees them: pointers with bounds, descriptors for TMA."""

from typing import Any

import numpy as np
import torch

from flashlab.iocount._triton.repairs import bf16_values
from flashlab.iocount.errors import OutOfBounds
from flashlab.iocount.gluon.tile import NUMPY, Int, Pointer, Tile, rounded
from flashlab.iocount.recorder import Recorder


class Argument:
    """A tensor: its storage as numpy, and which of its elements belong to it."""

    def __init__(self, rec: Recorder, name: str, tensor: torch.Tensor, dtype: Any) -> None:
        self.rec, self.name, self.dtype, self.tensor = rec, name, dtype, tensor
        base = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage().cpu())
        bits = base.view(torch.int16) if base.dtype == torch.bfloat16 else base
        flat = bits.numpy()
        flat = bf16_values(flat.view(np.uint16)) if base.dtype == torch.bfloat16 else flat
        self.flat = flat.astype(NUMPY[dtype.name])
        own = torch.zeros(len(base), dtype=torch.bool)
        self._view(own).fill_(True)
        self.own, self.first = own.numpy(), tensor.storage_offset()
        self.stored = np.zeros(len(base), bool)

    def _view(self, flat: torch.Tensor) -> torch.Tensor:
        x = self.tensor
        return flat.as_strided(x.shape, x.stride(), x.storage_offset())

    def at(self, offset: Any, mask: Any, how: str) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the storage and active lanes; raises where a lane leaves the tensor."""
        where = np.asarray(offset.data if isinstance(offset, Tile) else offset, np.int64)
        active = np.asarray(mask.data if isinstance(mask, Tile) else mask, bool)
        where, active = np.broadcast_arrays(where + self.first, active)
        outside = (where < 0) | (where >= len(self.own))
        outside = outside | ~self.own[np.where(outside, 0, where)]
        bad = active & outside
        if bad.any():
            what = f"gl.{how} of {self.name} leaves the tensor in {int(bad.sum())} lanes"
            hint = "Is a mask missing or wrong?"
            raise self.rec.error(OutOfBounds, what, hint, argument=self.name)
        return np.where(active, where, 0), active

    def load(self, offset: Any, mask: Any, other: Any) -> Any:
        """What a load gives: a tile, or a number for a number."""
        where, active = self.at(offset, mask, "load")
        data = np.where(active, self.flat[where], 0 if other is None else other)
        if isinstance(offset, Tile):
            return Tile(data, self.dtype, offset.layout)
        return Int(data) if data.dtype.kind == "i" else float(data)

    def store(self, offset: Any, value: Any, mask: Any) -> None:
        where, active = self.at(offset, mask, "store")
        data = np.broadcast_to(value.data if isinstance(value, Tile) else value, where.shape)
        self.put(where[active], data[active])

    def put(self, where: np.ndarray, data: np.ndarray) -> None:
        """Values into the storage, rounded to the tensor's dtype."""
        self.flat[where] = rounded(np.asarray(data), self.dtype)
        self.stored[where] = True

    def give_back(self) -> None:
        """Write what was stored into the tensor."""
        if self.stored.any():
            values = self._view(torch.from_numpy(np.ascontiguousarray(self.flat)))
            mine = self._view(torch.from_numpy(self.stored))
            values = values.to(self.tensor.dtype).to(self.tensor.device)
            self.tensor.copy_(torch.where(mine.to(self.tensor.device), values, self.tensor))


class Block:
    """What a kernel asks of a descriptor's blocks."""

    def __init__(self, shape: list[int], itemsize: int) -> None:
        self.shape, self.nbytes = shape, int(np.prod(shape)) * itemsize


class Descriptor:
    """A tensor as TMA sees it; what lies outside is read as 0 and not written."""

    def __init__(self, argument: Argument, given: Any) -> None:
        self.argument, self.dtype, self.layout = argument, argument.dtype, given.layout
        self.shape, self.strides = [*given.shape], [*given.strides]
        self.block_shape = [*given.block_shape]
        self.size = int(np.prod(self.block_shape))
        self.block_type = Block(self.block_shape, argument.tensor.element_size())

    def _places(self, coord: Any) -> tuple[np.ndarray, np.ndarray]:
        if len(coord) != len(self.shape):
            raise TypeError(f"TMA needs {len(self.shape)} coordinates here, not {len(coord)}")
        where, inside = np.array(self.argument.first), np.array(True)
        for at, n, step, extent in zip(
            coord, self.shape, self.strides, self.block_shape, strict=True
        ):
            line = int(at) + np.arange(extent)
            where = where[..., None] + line * step
            inside = inside[..., None] & (line >= 0) & (line < n)
        return np.where(inside, where, 0), inside

    def read(self, coord: Any) -> np.ndarray:
        where, inside = self._places(coord)
        return np.where(inside, self.argument.flat[where], 0.0).astype(np.float32)

    def write(self, coord: Any, values: np.ndarray) -> None:
        where, inside = self._places(coord)
        self.argument.put(where[inside], values.reshape(where.shape)[inside])


def pointer(argument: Argument) -> Pointer:
    """A tensor argument as a pointer to its first element."""
    return Pointer(argument)
