"""Memory behind tensors: which elements of an output are written, who uses what in a launch."""

from dataclasses import dataclass

import numpy as np
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

from flashlab.iocount.shadow import Shadow


@dataclass
class Output:
    """A tensor that must be stored whole; ``offset`` counts elements of ``item`` bytes."""

    name: str
    storage: "Storage"
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    item: int
    _gap: tuple[int, list[int] | None] | None = None

    @property
    def flags(self) -> np.ndarray:
        """The written flags, in the tensor's shape and with a last axis for an element's units."""
        wide = self.item // self.storage.unit
        return np.lib.stride_tricks.as_strided(
            self.storage.written["written"][self.offset * wide :],
            (*self.shape, wide),
            [*(s * wide for s in self.strides), 1],
        )

    def gap(self) -> tuple[int, list[int] | None]:
        """(number of elements never stored, index of the first, where known)."""
        if self._gap is not None:
            return self._gap
        written = self.storage.written
        if written is None:
            return 0, None
        if 0 in self.shape:
            return 0, None
        if written.sparse:
            return max(0, int(np.prod(self.shape)) - written.nonzero("written")), None
        missing = ~self.flags.all(-1)
        count = int(np.count_nonzero(missing))
        return count, np.argwhere(missing)[0].tolist() if count else None

    def settle(self) -> None:
        """The tensor is gone: what is missing now stays missing."""
        self._gap = self.gap()


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
        self.outputs: list[Output] = []

    @property
    def expired(self) -> bool:
        """Whether the tensor's memory was freed (and its address perhaps used again)."""
        return self._ref.expired()

    def see(self, item: int) -> None:
        """Note that the storage is used with elements of ``item`` bytes."""
        if item >= self.unit:
            return
        old, more = self.written, self.unit // item
        self.unit = item
        if old is not None:
            self.written = Shadow(self.nbytes // item, {"written": bool}, old.sparse)
            for name, flags in old.spread(more).items():
                self.written[name][: flags.size] = flags

    def expect(self, name: str, tensor: Tensor) -> Output | None:
        """Let ``tensor`` count as not yet written; None when it was declared before."""
        self.see(tensor.element_size())
        output = self.output(name, tensor)
        view = (output.shape, output.strides, output.offset)
        if any(view == (o.shape, o.strides, o.offset) for o in self.outputs):
            return None
        if self.written is None:
            self.written = Shadow(self.nbytes // self.unit, {"written": bool}, self.sparse)
            if not self.written.sparse:
                self.written["written"][:] = True
        self.outputs.append(output)
        if not self.written.sparse:
            output.flags[...] = False
        return output

    def output(self, name: str, tensor: Tensor) -> Output:
        """A view of this storage as an output."""
        view = (tuple(tensor.shape), tuple(tensor.stride()), tensor.storage_offset())
        return Output(name, self, *view, tensor.element_size())

    def settle(self) -> None:
        """The memory is gone: keep what was found out, free the map."""
        for output in self.outputs:
            output.settle()
        self.written = None


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
