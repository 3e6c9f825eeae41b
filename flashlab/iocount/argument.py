"""Tensors as a launch sees them: windows of virtual addresses, holes of views.

Every tensor argument of a launch owns a window of 2^40 virtual byte addresses. A pointer therefore
says which argument it came from even where two arguments share memory, and a stray address is
seen before memory is touched.
"""

import ctypes

import numpy as np
import torch
from torch import Tensor

from flashlab.iocount.heat import Touch, span_elements
from flashlab.iocount.shadow import DENSE_ELEMENTS, Key
from flashlab.iocount.storage import LaunchShadow

WINDOW_BITS = 40
_MIDDLE = 1 << (WINDOW_BITS - 1)


class Argument:
    """One tensor argument of one launch.

    Args:
        number: Its window.
        name: Its name in the kernel's signature.
        tensor: The tensor on the host whose memory is used.
        shadow: The launch's shadow of its storage.
        touch: Its counts.
        offset: Bytes from the start of the storage to the first element.
    """

    def __init__(
        self, number: int, name: str, tensor: Tensor, shadow: LaunchShadow, touch: Touch
    ) -> None:
        self.number, self.name, self.tensor = number, name, tensor
        self.shadow, self.touch = shadow, touch
        self.item = tensor.element_size()
        self.shape, self.strides = list(tensor.shape), list(tensor.stride())
        self.elements = span_elements(tensor)
        self.span = self.elements * self.item
        self.real = tensor.data_ptr()
        self.virtual = np.uint64((number << WINDOW_BITS) + _MIDDLE + (self.real & 0xFFF))
        self.delta = np.uint64((self.real - int(self.virtual)) % 2**64)
        self.base = tensor.storage_offset() * self.item // shadow.unit
        self.wide = self.item // shadow.unit
        self._memory: dict[np.dtype, np.ndarray] = {}
        self._holes = self._find_holes()

    def memory(self, dtype: np.dtype) -> np.ndarray:
        """The argument's memory from its first element on, as a flat array of ``dtype``."""
        flat = self._memory.get(dtype)
        if flat is None:
            size = self.span // dtype.itemsize
            raw = (ctypes.c_char * (size * dtype.itemsize)).from_address(self.real)
            flat = self._memory[dtype] = np.frombuffer(raw, dtype)
        return flat

    def _find_holes(self) -> np.ndarray | list[tuple[int, int]] | None:
        """Elements inside the span that the view does not own: a mask, or (stride, size) pairs."""
        if self.elements <= self.tensor.numel() or 0 in self.strides:
            return None
        if self.elements <= DENSE_ELEMENTS:
            owned = torch.zeros(self.elements, dtype=torch.bool)
            owned.as_strided(self.shape, self.strides).fill_(True)
            return ~owned.numpy()
        axes = sorted(zip(self.strides, self.shape, strict=True), reverse=True)
        inner = 1
        for stride, size in reversed(axes):
            if stride < inner:
                return None  # overlapping rows: no simple rule says what the view owns
            inner = stride * size
        return axes

    def in_hole(self, key: Key) -> np.ndarray | None:
        """For each element of ``key`` whether it lies in padding; None when none does."""
        if self._holes is None:
            return None
        if isinstance(self._holes, np.ndarray):
            bad = self._holes[key]
        else:
            rest = np.arange(key.start, key.stop) if isinstance(key, slice) else key
            bad = np.zeros(rest.shape, bool)
            for stride, size in self._holes:
                index = rest // stride
                bad |= index >= size
                rest = rest - index * stride
            bad |= rest != 0
        return bad if bad.any() else None

    def index(self, element: int) -> list[int]:
        """Index in the tensor of an element given by its distance from the first one."""
        out = [0] * len(self.shape)
        for d in sorted(range(len(self.shape)), key=lambda d: -self.strides[d]):
            if self.strides[d] and self.shape[d] > 1:
                out[d], element = divmod(element, self.strides[d])
        return out
