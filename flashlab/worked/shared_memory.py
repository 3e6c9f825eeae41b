"""A block's shared memory as a simulation of warps sees it: counted, and strict about barriers."""

from typing import Any

from torch import Tensor

HALF, SINGLE = 2, 4  # bytes of an operand, and of a sum or statistic


class Shared:
    """Shared memory of a block.

    Attributes:
        operands: Bytes of q, k and v that warps loaded from it for their products.
        written, read: Bytes that warps left for other warps, and took from them.
        barriers: How often all warps waited for each other.
    """

    def __init__(self) -> None:
        self.operands = self.written = self.read = self.barriers = 0
        self._left: dict[Any, Tensor] = {}
        self._new: set[Any] = set()
        self._taken: set[Any] = set()

    def operand(self, x: Tensor) -> Tensor:
        """A tile of q, k or v, loaded by one warp."""
        self.operands += x.numel() * HALF
        return x

    def put(self, place: Any, x: Tensor) -> None:
        """Leave fp32 numbers for other warps.

        Raises:
            RuntimeError: another warp may still be reading that place.
        """
        if place in self._taken:
            raise RuntimeError(f"{place} is written again before a barrier follows its reading")
        self._left[place] = x
        self._new.add(place)
        self.written += x.numel() * SINGLE

    def barrier(self) -> None:
        """All warps wait for each other."""
        self._new.clear()
        self._taken.clear()
        self.barriers += 1

    def take(self, place: Any) -> Tensor:
        """What another warp left.

        Raises:
            RuntimeError: no barrier stands between leaving and taking.
        """
        if place in self._new:
            raise RuntimeError(f"{place} is read before a barrier follows its writing")
        self._taken.add(place)
        x = self._left[place]
        self.read += x.numel() * SINGLE
        return x
