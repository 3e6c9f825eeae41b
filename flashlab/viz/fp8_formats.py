"""What one byte loses: the relative error of rounding over the size of a number, by format."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from flashlab.reference.fp8 import E4M3, MOST
from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.picture import Picture, svg

WIDTH, HEIGHT = 720, 320
LOW, HIGH = -6, 5  # powers of ten of the axis
LOST = 1.0  # relative error of a number that becomes 0, or is cut off to half and less
NORMAL = 4000  # numbers drawn to say what a scale does


@dataclass(frozen=True)
class Format:
    """A number format.

    Args:
        colour, shape: Of its curve and mark.
        largest: Its largest finite number.
        smallest: Its smallest number above 0.
        round: fp64 -> fp64 through the format, cut off at ``largest``.
    """

    colour: str
    shape: str
    largest: float
    smallest: float
    round: Callable[[torch.Tensor], torch.Tensor]


def _through(dtype: torch.dtype, largest: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: x.clamp(-largest, largest).float().to(dtype).double()


def _whole(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(-127, 127).round()


FORMATS = {
    "e4m3": Format("orange", "circle", MOST, 2.0**-9, _through(E4M3, MOST)),
    "e5m2": Format("blue", "diamond", 57344.0, 2.0**-16, _through(torch.float8_e5m2, 57344.0)),
    "int8": Format("green", "square", 127.0, 1.0, _whole),
}


def worst(name: str, x: float) -> float:
    """The largest relative error of numbers between 0.7 and 1.4 times ``x``, at most ``LOST``."""
    near = x * torch.linspace(0.7, 1.4, 211, dtype=torch.float64)
    error = ((FORMATS[name].round(near) - near).abs() / near).max()
    return min(LOST, float(error))


def normal_error(name: str, scale: float) -> tuple[float, float, float]:
    """(relative RMSE, share that became 0, share cut off) of N(0, 1) numbers times ``scale``."""
    x = torch.randn(NORMAL, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    x = x * scale
    got = FORMATS[name].round(x)
    rmse = float((got - x).norm() / x.norm())
    lost = float(((got == 0) & (x != 0)).double().mean())
    return rmse, lost, float((x.abs() > FORMATS[name].largest).double().mean())


SIZES = [10 ** (k / 12) for k in range(12 * LOW, 12 * HIGH + 1)]


def picture(scale: int) -> Picture:
    """Error over size for every format, and where normal numbers times 2^scale lie."""
    x = chart.LogAxis(LOW, HIGH, 74, WIDTH - 34)
    y = chart.LogAxis(-2, 0, HEIGHT - 52, 46)
    factor = 2.0**scale
    from_, to = x.at(factor / 10), x.at(factor * 3)
    parts = [chart.rect(from_, y.end, to - from_, y.start - y.end, "grey")]
    parts.append(chart.log_grid(x, y, "size of the number", "largest relative error"))
    for number, (name, kind) in enumerate(FORMATS.items()):
        places = " ".join(f"{x.at(v):.1f},{y.at(max(worst(name, v), 1e-3)):.1f}" for v in SIZES)
        look = f"fill:none;stroke:var(--fl-{kind.colour});stroke-width:2.5"
        parts.append(f'<polyline points="{places}" style="{look}"/>')
        parts.append(chart.mark(320 + 130 * number, 18, kind.shape, kind.colour))
        parts.append(chart.text(332 + 130 * number, 23, name, size=13))
    found = {name: normal_error(name, factor) for name in FORMATS}
    best = min(found, key=lambda name: found[name][0])
    rmse, lost, cut = found["e4m3"]
    caption = (
        f"Normal numbers times 2^{scale} (grey: most of them) lose {rmse:.1%} in e4m3, and "
        f"{lost:.1%} of them become 0, {cut:.1%} are cut off. Here {best} loses least."
    )
    title = "Relative error of rounding, over the size of a number"
    drawing = svg(WIDTH, HEIGHT, f"Curves of three formats, log scales. {caption}", "".join(parts))
    return Picture(title, drawing, caption, _table(found))


def _table(found: dict[str, tuple[float, float, float]]) -> list[tuple[str, ...]]:
    rows = [("format", "smallest", "largest", "range", "relative RMSE", "became 0", "cut off")]
    for name, (rmse, lost, cut) in found.items():
        kind = FORMATS[name]
        span = f"2^{math.log2(kind.largest / kind.smallest):.1f}"
        rows.append(
            (name, f"{kind.smallest:.3g}", f"{kind.largest:,.0f}", span)
            + tuple(f"{share:.1%}" for share in (rmse, lost, cut))
        )
    return rows


def formats() -> Explorer:
    """The scale of normal numbers, in powers of two."""
    return Explorer(
        "What one byte loses",
        picture,
        (Control("scale", "numbers times 2^", [-14, -10, -6, -3, 0, 3, 5, 7, 10, 14], 0),),
    )
