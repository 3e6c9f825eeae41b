"""The tiles that each program visited, as recorded: programs down, passes of their loop across."""

from dataclasses import dataclass

from flashlab.iocount import Tally
from flashlab.viz import chart
from flashlab.viz.picture import Picture, svg

MOST_ROWS, MOST_COLUMNS = 16, 24


@dataclass(frozen=True)
class Visits:
    """What the passes of one launch loaded.

    Args:
        kernel: Its name.
        loaded: loaded[p][t] bytes that program p loaded in pass t of its outermost loop; None
            where it made no such pass.
        outside: Bytes that each program moved outside of its loop.
    """

    kernel: str
    loaded: tuple[tuple[int | None, ...], ...]
    outside: tuple[int, ...]

    @property
    def passes(self) -> int:
        """Passes of all programs that loaded something."""
        return sum(1 for row in self.loaded for size in row if size)


def visited(tally: Tally, launch: int = 0) -> Visits:
    """The visits of one launch, programs in their order.

    Raises:
        ValueError: nothing was launched under that number.
    """
    if launch not in range(len(tally.launches)):
        raise ValueError(f"{len(tally.launches)} launches were recorded, so there is no {launch}")
    found: dict[tuple[int, int, int], dict[int, int]] = {}
    outside: dict[tuple[int, int, int], int] = {}
    for step in tally.per_step:
        if step.launch != launch:
            continue
        passes = found.setdefault(step.program, {})
        loaded = sum(step.load.values())
        if step.loops:
            number = step.loops[0][1]
            passes[number] = passes.get(number, 0) + loaded
        else:
            moved = loaded + sum(step.store.values()) + sum(step.atomic.values())
            outside[step.program] = outside.get(step.program, 0) + moved
    programs = sorted(found)
    width = max((max(p, default=-1) + 1 for p in found.values()), default=0)
    return Visits(
        tally.launches[launch].kernel,
        tuple(tuple(found[p].get(t) for t in range(width)) for p in programs),
        tuple(outside.get(p, 0) for p in programs),
    )


SIDE, LEFT, TOP = 34, 110, 44


def visits(tally: Tally, launch: int = 0) -> Picture:
    """A map of the tiles that each program loaded; at most 16 programs and 24 passes of it.

    Args:
        tally: Of ``flashlab.count_io``.
        launch: Which launch, from 0.
    """
    v = visited(tally, launch)
    shown = [row[:MOST_COLUMNS] for row in v.loaded[:MOST_ROWS]]
    most = max((size or 0 for row in shown for size in row), default=0)
    parts = [chart.text(LEFT, 18, "pass of the loop: one tile of keys and values each")]
    for t in range(len(shown[0]) if shown else 0):
        parts.append(chart.text(LEFT + t * SIDE + SIDE / 2 - 2, TOP - 6, str(t), "middle", 11))
    for p, row in enumerate(shown):
        y = TOP + p * SIDE
        parts.append(chart.text(LEFT - 10, y + 21, f"program {p}", "end", 12))
        parts += [_tile(LEFT + t * SIDE, y, size, most) for t, size in enumerate(row)]
    width = max(LEFT + SIDE * max(map(len, shown), default=0) + 10, 460)
    drawing = svg(max(width, 620), TOP + SIDE * len(shown) + 8, _caption(v), "".join(parts))
    return Picture(
        f"Tiles that the programs of {v.kernel} loaded", drawing, _caption(v), _table(v)
    )


def _tile(x: float, y: float, size: int | None, most: int) -> str:
    if not size:
        return chart.rect(x, y, SIDE - 4, SIDE - 4, "paper", 'stroke="currentColor"')
    part = size / most
    whole = chart.rect(x, y, SIDE - 4, SIDE - 4, "grey")
    return whole + chart.rect(x, y, (SIDE - 4) * part, SIDE - 4, "blue")


def _caption(v: Visits) -> str:
    longest = max(map(len, v.loaded), default=0)
    said = (
        f"{len(v.loaded)} programs visited {v.passes} tiles, "
        f"{f'{longest} each' if v.passes == len(v.loaded) * longest else f'{longest} at most'}."
    )
    sizes = {size for row in v.loaded for size in row if size}
    if len(sizes) > 1:
        said += " A tile that is partly blue is ragged: it loaded less than the others."
    if len(v.loaded) > MOST_ROWS or longest > MOST_COLUMNS:
        said += f" Shown are the first {MOST_ROWS} programs and {MOST_COLUMNS} passes at most."
    return said


def _table(v: Visits) -> list[tuple[str, ...]]:
    rows = [("program", "tiles", "bytes loaded in its loop", "moved outside of it")]
    for p, (loaded, outside) in enumerate(zip(v.loaded, v.outside, strict=True)):
        if p >= 4:
            rows.append((f"... {len(v.loaded) - p} more", "", "", ""))
            break
        tiles = [size for size in loaded if size]
        rows.append((f"{p}", f"{len(tiles)}", f"{sum(tiles):,}", f"{outside:,}"))
    return rows
