"""How many bytes of tiles one program holds at once, from the data flow between its operations.

Float tiles only (pointers, masks and offsets live in registers that the compiler folds); shared
memory and registers are not told apart. A tile lives from the operation that makes it to its last
use; an element-wise operation may overwrite its input, a matrix product only its accumulator.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

_LIMIT = 20_000


class Liveness:
    """Tiles of one program. Tiles carry their number as the attribute ``_tile``."""

    def __init__(self) -> None:
        self._now = 0
        self._sizes: dict[int, int] = {}
        self._born: dict[int, int] = {}
        self._last: dict[int, int] = {}
        self._where: dict[int, tuple[str, int]] = {}
        self._keeps: dict[int, bool] = {}  # does the operation at this time keep its inputs alive
        self._updated: dict[int, int] = {}  # tile -> time of the product that adds to it in place

    @property
    def full(self) -> bool:
        """Whether the record ends here (a very long program repeats itself)."""
        return self._now > _LIMIT

    def use(self, inputs: Iterable[Any], keeps: bool = False, accumulator: Any = None) -> int:
        """An operation reads ``inputs``; returns its time."""
        self._now += 1
        now = self._now
        self._keeps[now] = keeps
        tile = getattr(accumulator, "_tile", None)
        if tile is not None:
            self._updated[tile] = now
        for handle in inputs:
            tile = getattr(handle, "_tile", None)
            if tile is not None:
                self._last[tile] = now
        return now

    def make(self, handle: Any, n_bytes: int, where: tuple[str, int], now: int) -> None:
        """The operation at ``now`` makes a tile."""
        tile = len(self._sizes) + 1
        handle._tile = tile
        self._sizes[tile], self._where[tile] = n_bytes, where
        self._born[tile] = now
        self._last[tile] = now

    def peak(self) -> tuple[int, tuple[str, int] | None]:
        """(most bytes alive at once, line of the tile that made it so)."""
        change: Counter[int] = Counter()
        for tile, size in self._sizes.items():
            born, last = self._born[tile], self._last[tile]
            change[born] += size
            keep = last == born or (
                self._keeps.get(last, False) and self._updated.get(tile) != last
            )
            change[last + keep] -= size
        alive = best = at = 0
        for time in sorted(change):
            alive += change[time]
            if alive > best:
                best, at = alive, time
        made = [tile for tile in self._sizes if self._born[tile] <= at]
        return best, self._where[max(made)] if made else None
