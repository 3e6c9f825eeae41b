"""Pictures of a report as SVG with words: map of tiles, attention matrix. Floor: front."""

import html
import math
from collections.abc import Sequence

from flashlab.grader.report import Where
from flashlab.render import summary
from flashlab.render.safe import one_line

CELL, TEXT = 18, 13  # pixels of a tile, of a line of text
LEGEND = ("right", "over 1x", "over 10x", "over 100x", "NaN, inf")
MARKS = ("", "", "", "", "×")


def tile_map(spot: Where) -> str:
    """The tiles of the first wrong head, shaded by their worst error over the limit."""
    rows = [[summary.shade(u) for u in row] for row in spot.tile_map]
    if not rows or not rows[0]:
        return ""
    cells = "".join(
        _tile(4 + j * CELL, 4 + i * CELL, shade)
        for i, row in enumerate(rows)
        for j, shade in enumerate(row)
    )
    wrong = sum(shade > 0 for row in rows for shade in row)
    total = len(rows) * len(rows[0])
    title = f"Map of the tiles of {one_line(spot.output, 40)}: {wrong} of {total} tiles are wrong"
    side = len(rows[0]) * CELL + 18
    legend = "".join(
        _tile(side, 4 + i * (CELL + 2), i) + _text(side + CELL + 6, 17 + i * (CELL + 2), name)
        for i, name in enumerate(LEGEND)
    )
    height = 8 + max(len(rows) * CELL, len(LEGEND) * (CELL + 2))
    return _svg(side + 110, height, title, cells + legend)


def attention_matrix(p: Sequence[Sequence[float]]) -> str:
    """The learner's P, a query a row, a key a column, darker for more weight; with row sums."""
    if not p or not p[0]:
        return ""
    size = 12
    top = TEXT + 6
    cells = "".join(
        _weight(38 + j * size, top + i * size, size, weight)
        for i, row in enumerate(p)
        for j, weight in enumerate(row)
    )
    right = 38 + len(p[0]) * size + 6
    sums = "".join(_text(right, top + 10 + i * size, _sum(row), 9) for i, row in enumerate(p))
    labels = "".join(
        _text(4, top + 10 + i * size, f"q {i}", 9) for i in range(0, len(p), 4)
    ) + "".join(_text(38 + j * size, TEXT, f"k {j}", 9) for j in range(0, len(p[0]), 4))
    title = (
        f"Your attention matrix: {len(p)} queries down, {len(p[0])} keys across, row sums right"
    )
    return _svg(right + 44, top + len(p) * size + 6, title, cells + sums + labels)


def _sum(row: Sequence[float]) -> str:
    total = sum(row)
    return f"{total:.2f}" if math.isfinite(total) else "NaN"


def _weight(x: int, y: int, size: int, weight: float) -> str:
    if not math.isfinite(weight):
        cross = _text(x + 2, y + 10, "×", 10)
        return f'<rect x="{x}" y="{y}" width="{size}" height="{size}" fill="none"/>{cross}'
    opacity = max(0.0, min(1.0, abs(weight))) ** 0.5
    return (
        f'<rect x="{x}" y="{y}" width="{size}" height="{size}" style="fill:var(--fl-blue)" '
        f'fill-opacity="{opacity:.3f}"/>'
    )


def _tile(x: int, y: int, shade: int) -> str:
    mark = ""
    if MARKS[shade]:
        mark = f'<text x="{x + 5}" y="{y + 13}" style="fill:var(--fl-paper)">{MARKS[shade]}</text>'
    return (
        f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" '
        f'style="fill:var(--fl-shade{shade})"/>{mark}'
    )


def _text(x: int, y: int, text: str, size: int = 11) -> str:
    return f'<text x="{x}" y="{y}" style="font-size:{size}px">{html.escape(text)}</text>'


def _svg(width: int, height: int, title: str, body: str) -> str:
    name = html.escape(title)
    return (
        f'<svg role="img" aria-label="{name}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{name}</title>{body}</svg>"
    )
