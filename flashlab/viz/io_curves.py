"""Bytes of one head over the size of the chip: standard attention, both flash loop orders."""

from dataclasses import dataclass
from math import ceil, floor, log10

from flashlab.iocount import bounds
from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.memory_ladder import amount
from flashlab.viz.picture import Picture, svg

FP16 = 2
RULE = "largest in M"
TILES = {"64 x 64": (64, 64), "128 x 64": (128, 64), "128 x 128": (128, 128)}
WAYS = {  # way -> colour, mark, what a reader calls it
    "standard": ("soft", "square", "standard, three kernels"),
    "flash1": ("orange", "circle", "flash, keys outside"),
    "flash2": ("blue", "diamond", "flash, queries outside"),
}


@dataclass(frozen=True)
class Io:
    """What one head moves.

    Args:
        tiles: (block_m, block_n) by way.
        held: Elements that q, k, v and o tiles of that size take together, by way.
        moved: Bytes by way and tensor.
    """

    tiles: dict[str, tuple[int, int]]
    held: dict[str, int]
    moved: dict[str, dict[str, int]]

    def total(self, way: str) -> int:
        """All bytes of a way."""
        return sum(self.moved[way].values())


def rule(sram_elements: int, D: int) -> dict[str, tuple[int, int]]:
    """Tiles for M elements on chip: FA1's rule, and a quarter of M for each tile of the other."""
    quarter = bounds.fa1_blocks(sram_elements, D)[1]
    return {"flash1": bounds.fa1_blocks(sram_elements, D), "flash2": (quarter, quarter)}


def io(N: int, D: int, tiles: dict[str, tuple[int, int]]) -> Io:
    """The closed forms at those tiles; standard attention counts each input once.

    Args:
        N, D: Sequence length and head dimension, fp16.
        tiles: (block_m, block_n) of ``"flash1"`` and ``"flash2"``.
    """
    size = (1, 1, N, N, D)
    moved = {
        "standard": bounds.standard_forward_bytes(*size, FP16),
        "flash1": bounds.flash1_forward_bytes(*size, *tiles["flash1"], FP16),
        "flash2": bounds.flash_forward_bytes(*size, *tiles["flash2"], FP16),
    }
    held = {way: 2 * (m + n) * D for way, (m, n) in tiles.items()}
    return Io(tiles, held, {way: bounds.moved_bytes(t) for way, t in moved.items()})


def elements(kilobytes: float) -> int:
    """How many fp16 numbers so many KB (of 1,024 bytes) hold."""
    return int(kilobytes * 1024) // FP16


WIDTH, HEIGHT = 720, 400
SAMPLES = [10 ** (k / 10) for k in range(3, 31)]  # KB, from 2 to 1,000


def picture(N: int, D: int, sram: int, tiles: str) -> Picture:
    """Bytes over M for each way, the theorem's two laws, and marks at the chosen size."""
    M = elements(sram)
    chosen = rule(M, D) if tiles == RULE else dict.fromkeys(("flash1", "flash2"), TILES[tiles])
    now = io(N, D, chosen)
    curves = {kb: io(N, D, rule(elements(kb), D)) for kb in SAMPLES}
    totals = [c.total(way) / 1e6 for c in curves.values() for way in WAYS]
    laws = [
        {kb: FP16 * bounds.theta(kind, N, D, elements(kb)) / 1e6 for kb in SAMPLES}
        for kind in ("standard", "flash")
    ]
    least = min(*totals, *laws[0].values(), *laws[1].values())
    low, high = floor(log10(least)), ceil(log10(max(totals)))
    x, y = chart.LogAxis(0, 3, 86, WIDTH - 20), chart.LogAxis(low, high, HEIGHT - 56, 56)
    parts = [chart.log_grid(x, y, "M, what fits on chip, KB", "MB moved")]
    parts += [_line(x, y, law, "soft", "4 4") for law in laws]
    for number, (way, (colour, shape, name)) in enumerate(WAYS.items()):
        parts.append(_line(x, y, {kb: c.total(way) / 1e6 for kb, c in curves.items()}, colour))
        at = sram if tiles == RULE or way == "standard" else now.held[way] * FP16 / 1024
        parts.append(chart.mark(x.at(at), y.at(now.total(way) / 1e6), shape, colour, 7))
        parts.append(chart.mark(180 + 190 * number, 16, shape, colour))
        parts.append(chart.text(190 + 190 * number, 21, name, size=12))
    parts += _crossing(x, y, D)
    caption = _caption(now, D, M, tiles)
    alt = f"Bytes over the size of the chip, log scales. {caption}"
    title = f"One head, N {N:,}, D {D}, fp16; dashed: N D + N^2 and N^2 D^2 / M without factors"
    return Picture(title, svg(WIDTH, HEIGHT, alt, "".join(parts)), caption, _table(now))


def _line(x: chart.LogAxis, y: chart.LogAxis, points: dict, colour: str, dashes: str = "") -> str:
    places = " ".join(f"{x.at(kb):.1f},{y.at(mb):.1f}" for kb, mb in points.items())
    look = f"fill:none;stroke:var(--fl-{colour});stroke-width:{1.5 if dashes else 3}"
    return f'<polyline points="{places}" stroke-dasharray="{dashes or "none"}" style="{look}"/>'


def _crossing(x: chart.LogAxis, y: chart.LogAxis, D: int) -> list[str]:
    """A line where M is D^2."""
    at = x.at(D * D * FP16 / 1024)
    return [
        chart.line(at, y.start, at, y.end - 4, "ink", 'stroke-dasharray="6 4"'),
        chart.text(at, y.end - 9, "D^2 / M = 1", "middle", 12),
    ]


def _caption(now: Io, D: int, M: int, tiles: str) -> str:
    ratios = " and ".join(
        f"{_times(now.total('standard') / now.total(way))} ({name.split(', ')[1]})"
        for way, (_, _, name) in WAYS.items()
        if way != "standard"
    )
    said = f"D^2 / M is {D * D / M:.3g}. FlashAttention moves {ratios}."
    if tiles == RULE:
        return said
    needed = max(now.held.values())
    fits = "fit" if needed <= M else "do not fit"
    return f"{said} Those tiles take {needed * FP16 / 1024:.0f} KB, so they {fits} into M."


def _times(ratio: float) -> str:
    if 0.95 < ratio < 1.05:
        return "about as many bytes"
    return f"{ratio:.1f} times fewer bytes" if ratio >= 1 else f"{1 / ratio:.1f} times more bytes"


def _table(now: Io) -> list[tuple[str, ...]]:
    rows = [("way", "tiles", "q", "k, v", "o", "s, p", "statistics", "all")]
    for way, (_, _, name) in WAYS.items():
        t, tile = now.moved[way], now.tiles.get(way)
        parts = [t["q"], t["k"] + t["v"], t["o"], t.get("s", 0) + t.get("p", 0)]
        parts += [sum(t.get(key, 0) for key in ("m", "l", "lse")), now.total(way)]
        cells = (amount(n) if n else "-" for n in parts)
        rows.append((name, f"{tile[0]} x {tile[1]}" if tile else "-", *cells))
    return rows


def io_curves() -> Explorer:
    """N, D, the size of the chip and the tiles; closed forms at each place."""
    return Explorer(
        "Bytes over the size of the chip",
        picture,
        (
            Control("N", "sequence length N", [1024, 4096, 16384, 65536], 4096, "{:,}".format),
            Control("D", "head dimension D", [32, 64, 128, 256], 64),
            Control("sram", "M, KB on chip", [4, 8, 16, 32, 64, 100, 163, 227, 512], 100),
            Control("tiles", "tiles", [RULE, *TILES], RULE),
        ),
    )
