"""Shadow memory: small arrays beside a tensor that remember who wrote, who read, how often.

Dense for ordinary tensors; for tensors of many elements (offsets past 2^31) pages are made where a
kernel touches them, so that memory follows what is used and not what is addressed.
"""

import numpy as np

PAGE_BITS = 12
PAGE_MASK = (1 << PAGE_BITS) - 1
DENSE_ELEMENTS = 1 << 23

Key = slice | np.ndarray


class Shadow:
    """Named arrays over ``n`` elements, zero until set.

    Args:
        n: Number of elements shadowed.
        fields: Array name -> numpy dtype.
        sparse: True: pages on demand; False: dense; None: by size.
    """

    def __init__(self, n: int, fields: dict[str, type], sparse: bool | None = None) -> None:
        self.n = n
        self.sparse = n > DENSE_ELEMENTS if sparse is None else sparse
        size = 0 if self.sparse else n
        self._arrays = {name: np.zeros(size, dtype) for name, dtype in fields.items()}
        if self.sparse:
            self._table = np.full((n >> PAGE_BITS) + 1, -1, np.int32)
            self._pages: list[int] = []

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def locate(self, key: Key) -> Key:
        """Where the elements ``key`` (a slice or int64 indices) lie in the arrays."""
        if not self.sparse:
            return key
        if isinstance(key, slice):
            key = np.arange(key.start, key.stop, dtype=np.int64)
        page = key >> PAGE_BITS
        slot = self._table[page]
        if slot.size and slot.min() < 0:
            new = np.unique(page[slot < 0])
            self._table[new] = np.arange(len(self._pages), len(self._pages) + new.size)
            self._pages.extend(new.tolist())
            self._grow(len(self._pages) << PAGE_BITS)
            slot = self._table[page]
        return (slot.astype(np.int64) << PAGE_BITS) | (key & PAGE_MASK)

    def _grow(self, size: int) -> None:
        for name, old in self._arrays.items():
            if old.size < size:
                new = np.zeros(max(size, old.size * 3 // 2), old.dtype)
                new[: old.size] = old
                self._arrays[name] = new

    def dense(self, name: str) -> np.ndarray:
        """The array over all n elements; ValueError where that would not be small."""
        if not self.sparse:
            return self._arrays[name]
        if self.n > 1 << 28:
            raise ValueError(
                f"a map of {self.n:,d} elements does not fit: look at a smaller tensor"
            )
        out = np.zeros(((self.n >> PAGE_BITS) + 1) << PAGE_BITS, self._arrays[name].dtype)
        for slot, page in enumerate(self._pages):
            span = slice(page << PAGE_BITS, (page + 1) << PAGE_BITS)
            out[span] = self._arrays[name][slot << PAGE_BITS : (slot + 1) << PAGE_BITS]
        return out[: self.n]

    def spread(self, more: int) -> dict[str, np.ndarray]:
        """The arrays with every element in ``more`` parts, where they are dense."""
        return {} if self.sparse else {n: np.repeat(a, more) for n, a in self._arrays.items()}

    def nonzero(self, name: str) -> int:
        """How many elements of the array are not zero."""
        return int(np.count_nonzero(self._arrays[name]))


def add_counts(counts: np.ndarray, where: Key) -> None:
    """counts[where] += 1, an index that comes twice counting twice."""
    if isinstance(where, slice):
        counts[where] += 1
        return
    low, high = int(where.min()), int(where.max())
    if high - low < 16 * where.size:
        counts[low : high + 1] += np.bincount(where - low, minlength=high - low + 1).astype(
            counts.dtype
        )
    else:
        np.add.at(counts, where, 1)
