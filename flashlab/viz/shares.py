"""Stacked bars of shares: who takes how much of a total. One bar a row, parts labelled inside."""

from collections.abc import Mapping, Sequence

from flashlab.viz import chart
from flashlab.viz.picture import Picture, svg

FILLS = ("sky", "orange", "sand", "green", "blue", "grey")  # neighbours differ in lightness too
_INK = {"orange": "paper", "green": "paper", "blue": "paper"}
WIDTH, BAR, GAP, LEFT = 700, 34, 22, 130
NARROW = 0.085  # of the bar: a smaller part has no room for its share


def table(bars: Mapping[str, Mapping[str, float]]) -> list[tuple[str, ...]]:
    """Shares in percent as rows of text, the heading first."""
    parts = _parts(bars)
    rows = [("", *parts)]
    for name, values in bars.items():
        total = sum(values.values())
        rows.append((name, *(f"{100 * values.get(p, 0) / total:.1f} %" for p in parts)))
    return rows


def _parts(bars: Mapping[str, Mapping[str, float]]) -> Sequence[str]:
    return list(dict.fromkeys(part for values in bars.values() for part in values))


def shares(title: str, bars: Mapping[str, Mapping[str, float]], caption: str) -> Picture:
    """One 100 % bar a row with a legend above, and the shares as a table.

    Args:
        title: One line.
        bars: What a bar stands for -> part -> amount, in any unit; the same parts in each bar.
        caption: What there is to see.
    """
    parts = _parts(bars)
    if len(parts) > len(FILLS):
        raise ValueError(f"shares can tell {len(FILLS)} parts apart, not {len(parts)}")
    fills = dict(zip(parts, FILLS, strict=False))
    out = _legend(fills)
    for row, (name, values) in enumerate(bars.items()):
        y, total, x = 40 + row * (BAR + GAP), sum(values.values()), float(LEFT)
        out.append(chart.text(LEFT - 10, y + BAR / 2 + 5, name, "end"))
        for part, value in values.items():
            share, fill = value / total, fills[part]
            width = share * (WIDTH - LEFT - 10)
            out.append(chart.rect(x, y, width - 1, BAR, fill))
            if share >= NARROW:
                words, ink = f"{100 * share:.0f} %", _INK.get(fill, "ink")
                out.append(chart.text(x + width / 2, y + BAR / 2 + 5, words, "middle", 13, ink))
            x += width
    height = 44 + len(bars) * (BAR + GAP)
    alt = f"Bars of shares. {title}. {caption}"
    return Picture(title, svg(WIDTH, height, alt, "".join(out)), caption, table(bars))


def _legend(fills: Mapping[str, str]) -> list[str]:
    step = (WIDTH - LEFT) / len(fills)
    return [
        chart.rect(LEFT + k * step, 8, 14, 14, fill)
        + chart.text(LEFT + k * step + 20, 20, part, size=13)
        for k, (part, fill) in enumerate(fills.items())
    ]
