"""Tensors as a launch sees them: windows of virtual addresses, holes of views, storages.

Every tensor argument of a launch owns a window of 2^40 virtual byte addresses. A pointer therefore
says which argument it came from even where two arguments share memory, and a stray address is
seen before memory is touched.
"""

import ctypes

import numpy as np
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from flashlab.iocount.heat import Touch, span_elements
from flashlab.iocount.shadow import DENSE_ELEMENTS, Key, Shadow

WINDOW_BITS = 40
_MIDDLE = 1 << (WINDOW_BITS - 1)


class Storage:
    """One torch storage for as long as it lives: where it is, which elements are written.

    ``written`` is None where every element counts as written: all tensors but declared outputs.
    ``unit`` is the smallest element size, in bytes, under which the storage was seen.
    """

    def __init__(self, number: int, tensor: Tensor, sparse: bool | None = None) -> None:
        raw = tensor.untyped_storage()
        self.number, self.pointer, self.nbytes = number, raw.data_ptr(), raw.nbytes()
        self._ref = StorageWeakRef(raw)
        self.unit = tensor.element_size()
        self.sparse = sparse
        self.written: Shadow | None = None
        self.outputs: list[tuple[str, tuple[int, ...], tuple[int, ...], int]] = []

    @property
    def expired(self) -> bool:
        """Whether the tensor's memory was freed (and its address perhaps used again)."""
        return self._ref.expired()

    def see(self, item: int) -> None:
        """Note that the storage is used with elements of ``item`` bytes."""
        if item < self.unit:
            if self.written is not None and not self.written.sparse:
                old, self.written = self.written["written"], None
                self.written = Shadow(self.nbytes // item, {"written": bool}, False)
                self.written["written"][: old.size * (self.unit // item)] = np.repeat(
                    old, self.unit // item
                )
            else:
                self.written = None
            self.unit = item

    def expect(self, name: str, tensor: Tensor) -> bool:
        """Let ``tensor`` count as not yet written; False when it was declared before."""
        self.see(tensor.element_size())
        view = (tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())
        if any(view == tuple(known) for _, *known in self.outputs):
            return False
        if self.written is None:
            self.written = Shadow(self.nbytes // self.unit, {"written": bool}, self.sparse)
            if not self.written.sparse:
                self.written["written"][:] = True
        self.outputs.append((name, *view))
        if not self.written.sparse and tensor.numel():
            self._view(*view, tensor.element_size())[...] = False
        return True

    def _view(
        self, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, item: int
    ) -> np.ndarray:
        """The written flags of a view, with a last axis for the units of an element."""
        wide = item // self.unit
        return np.lib.stride_tricks.as_strided(
            self.written["written"][offset * wide :],
            (*shape, wide),
            [*(s * wide for s in strides), 1],
        )

    def unwritten(self, shape, strides, offset: int, item: int) -> tuple[int, list[int] | None]:
        """(number of elements never stored, index of the first) of one declared output."""
        if 0 in shape:
            return 0, None
        if self.written.sparse:
            total = int(np.prod(shape))
            return max(0, total - self.written.nonzero("written")), None
        missing = ~self._view(shape, strides, offset, item).all(-1)
        count = int(np.count_nonzero(missing))
        first = np.argwhere(missing)[0].tolist() if count else None
        return count, first


class LaunchShadow:
    """Who wrote and who read first each element of a storage, in one launch.

    Programs are labelled 1, 2, ... in the order in which they run; ``writer`` holds minus the
    label for an atomic update. Programs run one after another, so the first reader and the last
    writer are all that a race check needs.
    """

    def __init__(self, storage: Storage) -> None:
        self.storage, self.unit = storage, storage.unit
        fields = {"writer": np.int32, "reader": np.int32, "lane": np.int32}
        self.maps = Shadow(storage.nbytes // storage.unit, fields, storage.sparse)
        self.stored = False  # has this launch written the storage at all


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
