"""A grid of tiles to keep or to drop, and what block-sparse attention over them moves."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from flashlab.iocount import bounds
from flashlab.viz import chart, explorer
from flashlab.viz.explorer import Control
from flashlab.viz.memory_ladder import amount
from flashlab.viz.picture import Picture, svg

SIDE, BLOCK, FP16 = 8, 128, 2  # squares of the grid; rows and keys of the kernel's tiles
PATTERNS = {  # row, column -> is the square kept
    "all": lambda i, j: True,
    "causal": lambda i, j: j <= i,
    "near": lambda i, j: abs(i - j) <= 1,
    "near and first": lambda i, j: abs(i - j) <= 1 or j == 0,
    "every second": lambda i, j: (i + j) % 2 == 0,
    "a quarter": lambda i, j: (i + 3 * j) % 4 == 0,
    "none": lambda i, j: False,
}


def pattern(name: str) -> Tensor:
    """[SIDE, SIDE] bool."""
    return torch.tensor([[PATTERNS[name](i, j) for j in range(SIDE)] for i in range(SIDE)])


@dataclass(frozen=True)
class Sparse:
    """Bytes of one head by tensor, over all tiles and over those kept, and the share kept."""

    dense: dict[str, int]
    sparse: dict[str, int]
    share: float
    empty_rows: int


def sparse(squares: Tensor, N: int, D: int) -> Sparse:
    """The closed forms, fp16, tiles of BLOCK x BLOCK.

    Args:
        squares: [SIDE, SIDE] bool; each stands for N/SIDE queries and as many keys.
        N, D: Sequence length (SIDE * BLOCK divides it) and head dimension.
    """
    repeat = N // (SIDE * BLOCK)
    mask = squares.repeat_interleave(repeat, 0).repeat_interleave(repeat, 1)[None]
    size = (1, 1, N, N, D, BLOCK, BLOCK, FP16)
    return Sparse(
        bounds.moved_bytes(bounds.flash_forward_bytes(*size)),
        bounds.moved_bytes(bounds.block_sparse_forward_bytes(*size, mask)),
        float(squares.double().mean()),
        int((~squares.any(1)).sum()) * N // SIDE,
    )


WIDTH, CELL, LEFT, BAR = 720, 20, 290, 22


def draw(squares: Tensor, N: int, D: int) -> Picture:
    """The grid, and bars of what moves dense and sparse."""
    s = sparse(squares, N, D)
    parts = [chart.text(4, 16, "keys across, queries down; blue: kept", size=12)]
    for i, row in enumerate(squares.tolist()):
        for j, keep in enumerate(row):
            place = 4 + j * (CELL + 2), 26 + i * (CELL + 2), CELL, CELL
            parts.append(chart.rect(*place, "blue" if keep else "grey"))
    groups = {"q": ["q"], "k and v": ["k", "v"], "o and lse": ["o", "lse"]}
    totals = [sum(s.dense.values()), sum(s.sparse.values())]
    rows = [("tensor", "all tiles", "kept tiles")]
    for name, keys in groups.items():
        rows.append((name, *(amount(sum(t[k] for k in keys)) for t in (s.dense, s.sparse))))
    rows += [("flags", "-", amount(s.sparse["block_mask"])), ("all", *map(amount, totals))]
    for number, (name, t) in enumerate(zip(rows[0][1:], (s.dense, s.sparse), strict=True)):
        y, x = 40 + number * 62, float(LEFT)
        parts.append(chart.text(LEFT, y - 6, f"{name}: {rows[-1][1 + number]}"))
        scale = (WIDTH - LEFT - 10) / max(totals)
        for colour, keys in (("orange", ["k", "v"]), ("green", ["q", "o", "lse"])):
            width = sum(t[k] for k in keys) * scale
            parts.append(chart.rect(x, y, width, BAR, colour))
            x += width
    for x, colour, words in ((LEFT, "orange", "k and v"), (LEFT + 100, "green", "q, o and lse")):
        parts.append(chart.rect(x, 158, 13, 13, colour) + chart.text(x + 19, 169, words, size=12))
    caption = _caption(s, totals)
    alt = f"A grid of {SIDE} x {SIDE} squares and two bars of bytes. {caption}"
    title = f"One head, N {N:,}, D {D}, fp16, tiles of {BLOCK} x {BLOCK}"
    return Picture(title, svg(WIDTH, 30 + SIDE * (CELL + 2), alt, "".join(parts)), caption, rows)


def _caption(s: Sparse, totals: list[int]) -> str:
    said = (
        f"{100 * s.share:.0f} % of the tiles are kept, and {100 * totals[1] / totals[0]:.0f} % of "
        "the bytes move."
    )
    if s.empty_rows:
        said += f" {s.empty_rows:,} queries see no key: their output is 0 and their lse is -inf."
    return said


class PatternEditor(explorer.Explorer):
    """Squares to press, patterns to start from; ``squares`` is what stands there now."""

    def __init__(self) -> None:
        self.squares = pattern("near and first")
        controls = (
            Control("name", "start from", list(PATTERNS), "near and first"),
            Control("N", "sequence length N", [1024, 4096, 16384], 4096, "{:,}".format),
            Control("D", "head dimension D", [64, 128], 64),
        )
        super().__init__("Which tiles to keep", _from_pattern, controls)

    @property
    def mask(self) -> Tensor:
        """[1, SIDE, SIDE] bool, as ``block_sparse_forward`` takes it for SIDE tiles a side."""
        return self.squares[None].clone()

    def widget(self) -> Any:
        """Sliders, a button for each square, and the picture; ipywidgets 7.7 and 8."""
        import ipywidgets as widgets

        box = super().widget()
        page, sliders, shown = box.children
        start, *sizes = sliders.children
        shape = {"width": "34px", "height": "28px", "margin": "1px", "padding": "0"}
        buttons = [
            widgets.ToggleButton(value=keep, layout=widgets.Layout(**shape))
            for keep in self.squares.flatten().tolist()
        ]

        def redraw(_: Any = None) -> None:
            for at, button in enumerate(buttons):
                button.button_style = "info" if button.value else ""
                button.layout.border = "none" if button.value else "2px dashed grey"
                button.tooltip = _place(at, button.value)
            kept = [button.value for button in buttons]
            self.squares = torch.tensor(kept).view(SIDE, SIDE)
            shown.value = draw(self.squares, *(slider.value for slider in sizes)).figure()

        def restart(_: Mapping[str, Any]) -> None:
            for button, keep in zip(buttons, pattern(start.value).flatten().tolist(), strict=True):
                button.unobserve(redraw, "value")
                button.value = keep
                button.observe(redraw, "value")
            redraw()

        start.observe(restart, "value")
        for part in (*sizes, *buttons):
            part.observe(redraw, "value")
        redraw()
        columns = widgets.Layout(grid_template_columns=f"repeat({SIDE}, 36px)")
        box.children = (page, sliders, widgets.GridBox(buttons, layout=columns), shown)
        return box


def _place(at: int, on: bool) -> str:
    """What a reader of the screen hears of a square, which has no text of its own."""
    return f"queries {at // SIDE}, keys {at % SIDE}: {'kept' if on else 'dropped'}"


def _from_pattern(name: str, N: int, D: int) -> Picture:
    return draw(pattern(name), N, D)
