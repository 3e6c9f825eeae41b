"""Pieces of charts as SVG text: axes with ticks, marks that differ in shape as well as colour."""

import math
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class LogAxis:
    """A logarithmic axis from ``low`` to ``high`` (powers of ten) between two pixels."""

    low: int
    high: int
    start: float
    end: float

    def at(self, value: float) -> float:
        """The pixel of a value; values beyond the ends stay at the ends."""
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + min(max(share, 0.0), 1.0) * (self.end - self.start)

    @property
    def ticks(self) -> list[float]:
        """The powers of ten, ends included."""
        return [10.0**k for k in range(self.low, self.high + 1)]


def text(x: float, y: float, words: str, anchor: str = "start", size: int = 13, ink="ink") -> str:
    """A line of text; ``anchor`` is start, middle or end."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" '
        f'style="fill:var(--fl-{ink})">{escape(words)}</text>'
    )


def line(x1: float, y1: float, x2: float, y2: float, ink: str = "line", extra: str = "") -> str:
    """A straight line in a colour of the palette."""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'style="stroke:var(--fl-{ink})" {extra}/>'
    )


def rect(x: float, y: float, width: float, height: float, fill: str, extra: str = "") -> str:
    """A filled rectangle in a colour of the palette."""
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}" '
        f'style="fill:var(--fl-{fill})" {extra}/>'
    )


def mark(x: float, y: float, shape: str, fill: str, size: float = 6) -> str:
    """A circle, square or diamond with a thin edge, so that it reads on any ground."""
    edge = f'style="fill:var(--fl-{fill});stroke:var(--fl-paper);stroke-width:1.5"'
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{size}" {edge}/>'
    half = size if shape == "square" else size * 1.35
    points = [(-half, -half), (half, -half), (half, half), (-half, half)]
    if shape == "diamond":
        points = [(0, -half), (half, 0), (0, half), (-half, 0)]
    corners = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in points)
    return f'<polygon points="{corners}" {edge}/>'


def short(value: float) -> str:
    """A tick's number: 0.01, 1, 100, 10,000."""
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def log_grid(x: LogAxis, y: LogAxis, x_title: str, y_title: str) -> str:
    """Grid lines and labels of both axes; y grows upwards, so ``y.start`` is its lower pixel."""
    parts = []
    for value in x.ticks:
        at = x.at(value)
        parts.append(line(at, y.start, at, y.end, extra='stroke-opacity="0.6"'))
        parts.append(text(at, y.start + 18, short(value), "middle", 12, "soft"))
    for value in y.ticks:
        at = y.at(value)
        parts.append(line(x.start, at, x.end, at, extra='stroke-opacity="0.6"'))
        parts.append(text(x.start - 6, at + 4, short(value), "end", 12, "soft"))
    parts.append(text((x.start + x.end) / 2, y.start + 38, x_title, "middle"))
    parts.append(text(x.start - 44, y.end - 10, y_title))
    return "".join(parts)
