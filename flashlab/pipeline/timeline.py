"""Who did what when: the result of a simulation."""

from collections import Counter
from dataclasses import dataclass

UNITS = ("tma", "tensor", "exp", "alu")


@dataclass(frozen=True)
class Span:
    """Work of one unit, or a wait.

    Args:
        who: ``"producer"``, or the number of the consumer for whom it was done.
        unit: ``"tma"``, ``"tensor"``, ``"exp"``, ``"alu"`` or ``"wait"``.
        what: Such as ``"load K"``, ``"Q K"``, ``"P V"``, ``"softmax"``, or what was waited for.
        tile: Number of the tile, from 0; -1 where a wait has none.
        start, end: In clocks.
    """

    who: str
    unit: str
    what: str
    tile: int
    start: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """A whole run.

    Args:
        spans: In the order in which they ended.
        cycles: From the first operation to the last.
        tiles: For each consumer the tiles whose product with V is in its accumulator, in order.
    """

    spans: tuple[Span, ...]
    cycles: float
    tiles: tuple[tuple[int, ...], ...]

    def busy(self, unit: str) -> float:
        """The part of all cycles in which ``unit`` did something for somebody."""
        edges: Counter[float] = Counter()
        for span in self.spans:
            if span.unit == unit:
                edges[span.start] += 1
                edges[span.end] -= 1
        total = depth = last = 0.0
        for at in sorted(edges):
            total += (at - last) * (depth > 0)
            depth, last = depth + edges[at], at
        return total / self.cycles if self.cycles else 0.0

    def period(self) -> float:
        """Cycles a tile in steady state: from product to product with V.

        The first quarter counts as the start; the last round may lack a product with K, and does
        not count. The mean of all consumers, whose lead over one another may still change.

        Raises:
            ValueError: fewer than four tiles.
        """
        found = []
        for w in range(len(self.tiles)):
            ends = [s.end for s in self.spans if s.what == "P V" and s.who == str(w)][:-1]
            if len(ends) < 3:
                raise ValueError(f"a steady state needs 4 tiles, not {len(self.tiles[w])}")
            first = len(ends) // 4
            found.append((ends[-1] - ends[first]) / (len(ends) - 1 - first))
        return sum(found) / len(found)
