"""Incoherent processing: what an outlier does to scores in FP8, and what a rotation changes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from flashlab.reference.fp8 import hadamard_matrix
from flashlab.reference.honest_fp8 import rounded
from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.picture import Picture, svg

WIDTH, HEIGHT = 720, 400
KEYS, EVERY = 256, 8  # keys; every eighth has an outlier, in the query's column
COLUMN = 5  # where outliers are
WAYS = {"as it is": ("orange", "circle"), "rotated": ("blue", "diamond")}


@dataclass(frozen=True)
class Scores:
    """One query against keys, in fp64 and in FP8.

    Args:
        row: The query by way: [D].
        exact: Scores: [KEYS].
        error: Scores in FP8 less the exact ones, by way: [KEYS].
    """

    row: dict[str, Tensor]
    exact: Tensor
    error: dict[str, Tensor]

    def rms(self, way: str, large: bool) -> float:
        """RMS error of the scores that hold a product of two outliers, or of the others."""
        chosen = torch.arange(KEYS) % EVERY == 0
        return float(self.error[way][chosen if large else ~chosen].square().mean().sqrt())


def through(x: Tensor) -> Tensor:
    """fp64 numbers as e4m3 with one scale, and back."""
    scale = x.abs().max() / 400  # not 448: the largest number would come back exactly
    return rounded((x / scale).float()).double() * scale


def scores(outlier: float, D: int, seed: int = 0) -> Scores:
    """Normal q [D] and k [KEYS, D]; q and every eighth k have an outlier in the same column."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(D, generator=generator, dtype=torch.float64)
    k = torch.randn(KEYS, D, generator=generator, dtype=torch.float64)
    signs = torch.randint(0, 2, (D,), generator=generator) * 2.0 - 1.0
    q[COLUMN] = outlier
    sizes = 0.6 + 0.8 * torch.rand(KEYS // EVERY, generator=generator, dtype=torch.float64)
    k[::EVERY, COLUMN] = outlier * sizes * torch.sign(k[::EVERY, COLUMN])
    h = hadamard_matrix(D) * D**-0.5
    turned = {"as it is": (q, k), "rotated": ((q * signs) @ h, (k * signs) @ h)}
    exact = k @ q / D**0.5
    error = {way: through(b) @ through(a) / D**0.5 - exact for way, (a, b) in turned.items()}
    return Scores({way: a for way, (a, _) in turned.items()}, exact, error)


def picture(outlier: float, D: int, way: str) -> Picture:
    """Above the query's numbers, below the error of each score over the score itself."""
    found = scores(outlier, D)
    parts = _bars(found.row[way], WAYS[way][0]) + _cloud(found)
    small, large = ({w: found.rms(w, at) for w in WAYS} for at in (False, True))
    top = float(found.row[way].abs().max())
    caption = (
        f"The largest number of the query ({way}) is {top:.1f}. Where both have an outlier, "
        f"scores are off by {large['as it is']:.3f} as they are and by {large['rotated']:.3f} "
        f"rotated; elsewhere by {small['as it is']:.3f} and {small['rotated']:.3f}."
    )
    rows = [("", "largest of the query", "error where outliers meet", "error elsewhere")]
    for name in WAYS:
        top = float(found.row[name].abs().max())
        rows.append((name, f"{top:.2f}", f"{large[name]:.4f}", f"{small[name]:.4f}"))
    title = f"A query {way}: its {D} numbers, and the errors of its {KEYS} scores in FP8"
    drawing = svg(WIDTH, HEIGHT, f"Bars, and a cloud of points. {caption}", "".join(parts))
    return Picture(title, drawing, caption, rows)


def _bars(row: Tensor, colour: str) -> list[str]:
    """The query's numbers as bars, cut to 120 pixels in height."""
    top, step = float(row.abs().max()), (WIDTH - 90) / len(row)
    parts = [chart.text(6, 16, "numbers of the query", size=12, ink="soft")]
    for at, value in enumerate(row.abs().tolist()):
        height = 100 * value / top
        parts.append(chart.rect(74 + at * step, 128 - height, step * 0.75, height, colour))
    parts.append(chart.text(68, 34, f"{top:.1f}", "end", 12, "soft"))
    parts.append(chart.line(74, 128, WIDTH - 16, 128))
    return parts


def _cloud(found: Scores) -> list[str]:
    """The errors over the sizes of scores, log scales, in two shapes and colours."""
    x, y = chart.LogAxis(-2, 3, 74, WIDTH - 16), chart.LogAxis(-4, 2, HEIGHT - 46, 178)
    parts = [chart.log_grid(x, y, "size of the score", "error of the score")]
    for number, (way, (colour, shape)) in enumerate(WAYS.items()):
        for score, error in zip(found.exact.tolist(), found.error[way].tolist(), strict=True):
            at = x.at(max(abs(score), 1e-9)), y.at(max(abs(error), 1e-9))
            parts.append(chart.mark(*at, shape, colour, 2.5))
        parts.append(chart.mark(420 + 130 * number, 160, shape, colour))
        parts.append(chart.text(432 + 130 * number, 165, way, size=13))
    return parts


def incoherent() -> Explorer:
    """The size of the outliers, D, and which query is drawn."""
    return Explorer(
        "An outlier, and a rotation",
        picture,
        (
            Control("outlier", "outliers near", [1, 3, 10, 30, 100], 30),
            Control("D", "head dimension D", [32, 64, 128], 64),
            Control("way", "the query is drawn", list(WAYS), "as it is"),
        ),
    )
