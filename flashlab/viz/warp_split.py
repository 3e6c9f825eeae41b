"""How the warps of a block share a tile, and what goes through shared memory for it."""

from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.picture import Picture, svg
from flashlab.worked.warp_split import SPLITS, Traffic, traffic

BLOCK_N = 64  # keys of a tile
INKS = (("blue", "paper"), ("sky", "ink"))  # of neighbours: stripe, number
KB = 1024


WIDTH, SIDE, LEFT, TOP = 720, 132, 64, 66
BARS = 372  # where the bars begin


def picture(split: str, warps: int, tiles: int, block_m: int, D: int) -> Picture:
    """One tile divided among warps, beside the traffic of all three splits."""
    sizes = {"block_m": block_m, "block_n": BLOCK_N, "D": D, "tiles": tiles, "warps": warps}
    found = {name: traffic(name, **sizes) for name in SPLITS}
    now = found[split]
    told = now.written + now.read
    exchange = (
        f"{told:,} bytes between warps and {now.barriers} barriers"
        if told
        else "0 bytes between warps and no barrier"
    )
    caption = (
        f"Split by {split}: over {tiles} tile{'s' * (tiles != 1)} {exchange}. A warp holds "
        f"{now.sums_bytes / KB:g} KB of sums for the output."
    )
    rows = [("split by", "operands loaded", "left for others", "taken", "barriers", "sums a warp")]
    for name, took in found.items():
        sizes_kb = (*_bytes(took), took.sums_bytes)
        cells = [f"{size / KB:,.1f} KB" for size in sizes_kb]
        rows.append((name, *cells[:3], f"{took.barriers}", cells[3]))
    drawing = _tile(split, warps) + _bars(found, split)
    alt = f"A tile of scores in stripes, one a warp, and bars of bytes. {caption}"
    return Picture(
        "Shared memory that the warps of one block use",
        svg(WIDTH, 268, alt, drawing),
        caption,
        rows,
    )


def _tile(split: str, warps: int) -> str:
    """q at the left, k and v above, scores in stripes, the output at the right."""
    rows = split == "queries"
    parts = [
        chart.text(LEFT + SIDE / 2, TOP - 30, "k, v", "middle"),
        chart.text(LEFT - 34, TOP - 8, "q", "middle"),
        chart.text(LEFT + SIDE / 2, TOP + SIDE + 18, "scores", "middle"),
        chart.text(LEFT + SIDE + 60, TOP - 8, "o", "middle"),
    ]
    for w in range(warps):
        (ink, number), at, size = INKS[w % len(INKS)], SIDE * w / warps, SIDE / warps - 1
        if rows:
            parts.append(chart.rect(LEFT - 46, TOP + at, 24, size, ink))
            parts.append(chart.rect(LEFT, TOP + at, SIDE, size, ink))
        else:
            parts.append(chart.rect(LEFT + at, TOP - 24, size, 16, ink))
            parts.append(chart.rect(LEFT + at, TOP, size, SIDE, ink))
        parts.append(chart.rect(LEFT + SIDE + 48, TOP + at, 24, size, ink))
        middle = TOP + at + size / 2 + 4
        across = (LEFT + SIDE / 2, middle) if rows else (LEFT + at + size / 2, TOP + SIDE / 2)
        for place in (across, (LEFT + SIDE + 60, middle)):
            parts.append(chart.text(*place, f"{w}", "middle", 11, number))
    whole = (LEFT, TOP - 24, SIDE, 16) if rows else (LEFT - 46, TOP, 24, SIDE)
    parts.append(chart.rect(*whole, "grey"))
    y = TOP + SIDE / 2
    parts.append(chart.text(LEFT + SIDE + 24, y + 6, "→", "middle", 22))
    words = "rows stay in their warp" if rows else "each row is summed across warps"
    parts.append(chart.text(LEFT - 46, TOP + SIDE + 44, words))
    parts.append(
        chart.text(LEFT - 46, TOP + SIDE + 62, "numbers are warps; grey: read by all", size=12)
    )
    return "".join(parts)


def _bars(found: dict[str, Traffic], split: str) -> str:
    """For each split what its warps load of q, k, v, and what they exchange."""
    kinds = {"operands loaded": "green", "left for others": "orange", "taken": "sand"}
    most = max(sum(_bytes(took)) for took in found.values())
    parts, y = [], 30
    for at, (name, ink) in enumerate(kinds.items()):
        parts.append(chart.rect(BARS + at * 130, 8, 12, 12, ink))
        parts.append(chart.text(BARS + at * 130 + 18, 18, name, size=12))
    for name, took in found.items():
        chosen = "ink" if name == split else "soft"
        parts.append(chart.text(BARS, y + 22, f"by {name}", ink=chosen))
        x = float(BARS)
        for size, ink in zip(_bytes(took), kinds.values(), strict=True):
            length = size / most * (WIDTH - BARS - 76)
            parts.append(chart.rect(x, y + 28, length, 22, ink))
            x += length
        parts.append(chart.text(x + 6, y + 44, f"{sum(_bytes(took)) / KB:,.0f} KB", size=12))
        y += 70
    return "".join(parts)


def _bytes(took: Traffic) -> tuple[int, int, int]:
    return took.operands, took.written, took.read


def warp_split() -> Explorer:
    """The three splits over warps, tiles and sizes."""
    return Explorer(
        "Work of one block, split among warps",
        picture,
        (
            Control("split", "split by", list(SPLITS), "keys"),
            Control("warps", "warps", [2, 4, 8], 4),
            Control("tiles", "tiles of keys", [1, 2, 4, 8, 16], 8),
            Control("block_m", "query rows", [16, 64, 128], 128),
            Control("D", "head dimension D", [32, 64, 128], 64),
        ),
    )
