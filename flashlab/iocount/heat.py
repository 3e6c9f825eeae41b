"""How often each element of a tensor was read and written, as data for a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from flashlab.iocount.shadow import Key, Shadow, add_counts

if TYPE_CHECKING:
    from flashlab.iocount.storage import Storage


def span_elements(tensor: Tensor) -> int:
    """Elements from the first to the last one of a view, holes included."""
    if tensor.numel() == 0:
        return 0
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return sum((size - 1) * stride for size, stride in steps) + 1


class Touch:
    """Read and write counts of one view of one tensor, under one argument name.

    Counts are per element of the view's span (its first to its last element in memory).
    """

    def __init__(
        self, name: str, tensor: Tensor, storage: Storage, sparse: bool | None = None
    ) -> None:
        self.name, self.storage = name, storage
        self.pointer = tensor.data_ptr()
        self.bytes = {"load": 0, "store": 0, "atomic": 0}
        self.shape, self.strides = tuple(tensor.shape), tuple(tensor.stride())
        self.item = tensor.element_size()
        self._counts: Shadow | None = Shadow(
            span_elements(tensor), {"load": np.int32, "store": np.int32}, sparse
        )
        self._unique: dict[str, int] = {}

    def add(self, kind: str, key: Key) -> None:
        """Count one access; an atomic update counts as a store."""
        where = self._counts.locate(key)
        add_counts(self._counts["load" if kind == "load" else "store"], where)

    def unique_bytes(self, kind: str) -> int:
        """Bytes of distinct elements loaded or stored."""
        if self._counts is not None:
            return self._counts.nonzero(kind) * self.item
        return self._unique[kind]

    def heat(self, kind: str = "load") -> np.ndarray:
        """Accesses per element, in the tensor's own shape."""
        if self._counts is None:
            raise ValueError(f"the counts of '{self.name}' were dropped when its tensor was freed")
        flat = self._counts.dense(kind)
        if 0 in self.shape:
            return np.zeros(self.shape, np.int32)
        step = flat.itemsize
        view = np.lib.stride_tricks.as_strided(flat, self.shape, [s * step for s in self.strides])
        return view.copy()

    def forget(self) -> None:
        """Keep the totals and free the maps (the tensor is gone)."""
        if self._counts is not None:
            self._unique = {kind: self.unique_bytes(kind) for kind in ("load", "store")}
            self._counts = None
