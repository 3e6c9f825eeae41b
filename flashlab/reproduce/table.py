"""A paper's numbers beside ours, as rows and as text."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One number.

    Args:
        what: What it is of.
        paper, ours: In ``unit``.
        unit: Empty for a plain ratio.
    """

    what: str
    paper: float
    ours: float
    unit: str = ""

    @property
    def ratio(self) -> float:
        """Ours, as a multiple of the paper's."""
        return self.ours / self.paper


@dataclass(frozen=True, repr=False)
class Table:
    """Rows under a title, with the source and what to know about ours; shows itself as text."""

    title: str
    source: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()

    def __repr__(self) -> str:
        width = max(len(row.what) for row in self.rows)
        lines = [f"{self.title} ({self.source})"]
        lines.append(f"{'':{width}s}  {'paper':>8s}  {'ours':>8s}  {'ours/paper':>10s}")
        for row in self.rows:
            digits = 3 if abs(row.paper) < 10 else 0
            lines.append(
                f"{row.what:{width}s}  {row.paper:8.{digits}f}  {row.ours:8.{digits}f}  "
                f"{row.ratio:10.3f}  {row.unit}".rstrip()
            )
        return "\n".join([*lines, *self.notes])
