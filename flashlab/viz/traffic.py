"""Bytes by tensor as bars, beside what they may be."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from flashlab.iocount import Tally
from flashlab.iocount.report import rows as tally_rows
from flashlab.viz import chart
from flashlab.viz.picture import Picture, svg

Moved = Mapping[str, tuple[int, int]]  # tensor -> bytes (loaded, stored)


@dataclass(frozen=True)
class Row:
    """One tensor: bytes loaded and stored, what they may be, and its distinct bytes loaded."""

    name: str
    loaded: int
    stored: int
    budget: tuple[int, int] | None = None
    unique: int | None = None

    @property
    def often(self) -> float | None:
        """How many times its bytes were loaded on average, where that is known."""
        return self.loaded / self.unique if self.unique else None

    @property
    def over(self) -> bool:
        """Whether it moves more than it may."""
        b = self.budget
        return b is not None and (self.loaded > b[0] or self.stored > b[1])


def rows_of(
    tally: Tally, budget: Moved | None = None, tensors: Mapping[str, Tensor] | None = None
) -> list[Row]:
    """One row a tensor of a recording; arguments named ``q_ptr`` read as ``q``."""
    return [
        Row(
            row["name"].removesuffix("_ptr"),
            row["loaded"],
            row["stored"],
            row["bound"],
            row["unique"],
        )
        for row in tally_rows(tally, budget, tensors)
    ]


def traffic(
    tally: Tally,
    budget: Moved | None = None,
    tensors: Mapping[str, Tensor] | None = None,
    title: str = "Bytes that your kernel moved",
) -> Picture:
    """What a recording moved.

    Args:
        tally: Of ``flashlab.count_io``.
        budget: Tensor -> bytes (loaded, stored) that it may move.
        tensors: Host tensors by name; the bars are then these instead of kernel arguments.
        title: Heading of the picture.
    """
    return picture(rows_of(tally, budget, tensors), title)


WIDTH, LEFT, STEP, BAR = 720, 70, 24, 17


def picture(rows: list[Row], title: str) -> Picture:
    """A bar for each tensor that is loaded or stored; a line marks the budget, if there is one."""
    most = max((n for r in rows for n in (r.loaded, r.stored, *(r.budget or ()))), default=0)
    scale = (WIDTH - LEFT - 260) / max(most, 1)
    parts, y = [], 8
    for row in rows:
        may = row.budget or (None, None)
        bars = [("loaded", row.loaded, may[0]), ("stored", row.stored, may[1])]
        bars = [bar for bar in bars if any(bar[1:])]
        for at, (kind, size, limit) in enumerate(bars):
            name = row.name if at == 0 else ""
            parts += [
                chart.text(LEFT - 10, y + 14, name, "end", 14),
                _bar(y, size, limit, scale, kind),
            ]
            y += STEP
        y += 8
    caption = _caption(rows)
    drawing = svg(WIDTH, y, f"Bars of bytes. {caption}", "".join(parts))
    return Picture(title, drawing, caption, _table(rows))


def _table(rows: list[Row]) -> list[tuple[str, ...]]:
    """The numbers, without columns that would be empty."""
    table = [("tensor", "loaded", "stored", "each byte loaded", "may load", "may store")]
    for row in rows:
        may = [f"{n:,}" for n in row.budget] if row.budget else ["", ""]
        often = f"{row.often:.1f} times" if row.often else ""
        table.append((row.name, f"{row.loaded:,}", f"{row.stored:,}", often, *may))
    keep = [i for i in range(6) if i < 3 or any(line[i] for line in table[1:])]
    return [tuple(line[i] for i in keep) for line in table]


def _bar(y: float, size: int, limit: int | None, scale: float, kind: str) -> str:
    over = limit is not None and size > limit
    colour = "orange" if over else "blue" if kind == "loaded" else "green"
    words = f"{size:,} {kind}" + (f", {size - limit:,} too many" if over else "")
    parts = [chart.rect(LEFT, y, size * scale, BAR, colour)]
    if limit:
        edge = LEFT + limit * scale
        parts.append(chart.line(edge, y - 3, edge, y + BAR + 3, "ink", 'stroke-width="2.5"'))
    after = LEFT + max(size, limit or 0) * scale + 8
    return "".join([*parts, chart.text(after, y + 13, words, size=12)])


def _caption(rows: list[Row]) -> str:
    loaded, stored = sum(r.loaded for r in rows), sum(r.stored for r in rows)
    said = f"{loaded + stored:,} bytes in all: {loaded:,} loaded, {stored:,} stored."
    if over := [r.name for r in rows if r.over]:
        return f"{said} More than it may: {', '.join(over)} (the line marks the budget)."
    if any(r.budget for r in rows):
        return f"{said} No tensor moves more than it may (the lines mark the budget)."
    often = max((r.often for r in rows if r.often), default=1.0)
    if often > 1:
        names = " and ".join(r.name for r in rows if r.often == often)
        said += f" Each byte of {names} is loaded {often:.1f} times."
    return said
