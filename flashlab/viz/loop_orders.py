"""Two loop orders over the same tiles, side by side: what crosses between HBM and the chip."""

import math
from collections import Counter
from dataclasses import dataclass

from flashlab.viz.player import Frame, Player

ORDERS = ("keys outside (FlashAttention-1)", "queries outside (FlashAttention-2)")


@dataclass(frozen=True)
class Visit:
    """One tile visit: its place, what it moved, and the bytes moved so far by tensor."""

    i: int
    j: int
    moved: tuple[str, ...]
    totals: dict[str, int]


def visits(
    N: int, D: int, block_m: int, block_n: int, itemsize: int = 2
) -> tuple[list[Visit], list[Visit]]:
    """Every tile visit of both orders, in order, with running byte totals for one head.

    Keys outside: K_j and V_j stay on chip while all query blocks pass; each loads Q_i and O_i
    with its statistics and stores O_i again (the first visit of a row has no O to load).
    Queries outside: Q_i stays on chip while all K_j, V_j pass; O_i is stored once.

    Args:
        N, D: Sequence length and head dimension.
        block_m, block_n: Query rows and keys of a tile.
        itemsize: Bytes of an element of q, k, v and o; statistics have 4.
    """
    rows = [min(block_m, N - i) for i in range(0, N, block_m)]
    columns = [min(block_n, N - j) for j in range(0, N, block_n)]
    keys_outside, queries_outside = [], []
    totals: Counter[str] = Counter()
    for j, width in enumerate(columns):
        for i, height in enumerate(rows):
            move = {"load Q": height * D * itemsize, "store O": height * D * itemsize}
            move["store m, l"] = 2 * height * 4
            if i == 0:
                move["load K, V"] = 2 * width * D * itemsize
            if j > 0:
                move["load O"] = height * D * itemsize
                move["load m, l"] = 2 * height * 4
            totals.update(move)
            keys_outside.append(Visit(i, j, tuple(move), dict(totals)))
    totals = Counter()
    for i, height in enumerate(rows):
        for j, width in enumerate(columns):
            move = {"load K, V": 2 * width * D * itemsize}
            if j == 0:
                move["load Q"] = height * D * itemsize
            if j == len(columns) - 1:
                move["store O"] = height * D * itemsize
                move["store lse"] = height * 4
            totals.update(move)
            queries_outside.append(Visit(i, j, tuple(move), dict(totals)))
    return keys_outside, queries_outside


def _matrix(x0: int, title: str, done: list[Visit], rows: int, columns: int) -> str:
    side, top, now = 34, 58, done[-1]
    seen = {(v.i, v.j) for v in done}
    parts = [f'<text x="{x0}" y="20" font-size="13">{title}</text>']
    for i in range(rows):
        for j in range(columns):
            fill = "sand" if (i, j) == (now.i, now.j) else "sky" if (i, j) in seen else "grey"
            stroke = "stroke:var(--fl-orange);stroke-width:3" if fill == "sand" else ""
            parts.append(
                f'<rect x="{x0 + 30 + j * side}" y="{top + i * side}" width="{side - 3}" '
                f'height="{side - 3}" style="fill:var(--fl-{fill});{stroke}"/>'
            )
    held_row = title == ORDERS[1]
    for k in range(rows if held_row else columns):
        held = k == (now.i if held_row else now.j)
        x, y = (x0 + 4, top + k * side) if held_row else (x0 + 30 + k * side, top - 26)
        w, h = (18, side - 3) if held_row else (side - 3, 18)
        fill = "blue" if held else "grey"
        parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" style="fill:var(--fl-{fill})"/>'
        )
    return "".join(parts)


def loop_orders(N: int = 512, D: int = 64, block: int = 128) -> Player:
    """A player with both loop orders side by side and their running byte totals.

    Args:
        N: Sequence length; at most 6 blocks of it.
        D: Head dimension.
        block: Rows and keys of a tile.
    """
    n = math.ceil(N / block)
    if not 1 <= n <= 6:
        raise ValueError(f"N / block must be 1 to 6 for a readable picture, not {n}")
    both = visits(N, D, block, block)
    frames = []
    for t in range(n * n):
        now = [order[t] for order in both]
        width = 44 + 34 * n
        matrices = "".join(
            _matrix(x * max(width, 250), name, order[: t + 1], n, n)
            for x, (name, order) in enumerate(zip(ORDERS, both, strict=True))
        )
        svg = (
            f'<svg viewBox="0 0 {2 * max(width, 250)} {70 + 34 * n}" role="img" aria-label="'
            f'tile visit {t + 1} of {n * n} in both loop orders">{matrices}</svg>'
        )
        words = [f"{name}: {', '.join(v.moved)}." for name, v in zip(ORDERS, now, strict=True)]
        frames.append(Frame(svg, " ".join(words), _facts(now)))
    return Player("The same tiles in two orders: what is moved", frames, height=500)


def _facts(now: list[Visit]) -> tuple[tuple[str, ...], ...]:
    """KB moved so far, a row a kind, a column an order."""
    kinds = sorted({name for v in now for name in v.totals})
    rows = [("KB so far", *(order.split(" (")[0] for order in ORDERS))]
    for kind in kinds:
        rows.append((kind, *(f"{v.totals.get(kind, 0) / 1024:.1f}" for v in now)))
    rows.append(("all", *(f"{sum(v.totals.values()) / 1024:.1f}" for v in now)))
    return tuple(rows)
