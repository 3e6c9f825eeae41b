"""A training run: a bar and a curve while it goes on, and several runs' losses in one picture."""

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from flashlab.notebook import in_notebook
from flashlab.viz import chart
from flashlab.viz.picture import Picture, style, svg

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 260, 60, 20, 34, 44
LINES = (("orange", 6, ""), ("blue", 2, "7 5"), ("green", 2, "2 4"))  # colour, width, dashes
EVERY_S = 0.3  # between two drawings


class Watch:
    """What ``capstone.train.train`` tells its progress to: a bar, and the loss as a curve.

    Args:
        name: Whose run it is.
    """

    def __init__(self, name: str) -> None:
        self.name, self.losses, self.handle = name, [], None
        self.start = self.drawn = time.monotonic()

    def __call__(self, done: int, total: int, loss: float) -> None:
        """Step ``done`` of ``total`` had this loss."""
        self.losses.append(loss)
        now = time.monotonic()
        if done < total and self.handle and now - self.drawn < EVERY_S:
            return
        self.drawn = now
        self._show(self.html(done, total, now - self.start), done == total)

    def html(self, done: int, total: int, seconds: float) -> str:
        """The bar, a sentence and the curve so far."""
        left = seconds / done * (total - done)
        told = (
            f"{self.name}: step {done} of {total}, loss {self.losses[-1]:.3f}, "
            f"{seconds:.0f} s gone, about {left:.0f} s to go"
        )
        if done == total:
            told = f"{self.name}: {total} steps in {seconds:.0f} s, loss {self.losses[-1]:.3f}"
        bar = f'<progress max="{total}" value="{done}" aria-label="steps"></progress>'
        curve = losses(f"Loss of {self.name}", {self.name: self.losses}).figure()
        return f'{style()}<div role="status">{bar} {told}</div>{curve}'

    def _show(self, html: str, last: bool) -> None:
        if not in_notebook():
            if last:
                print(f"{self.name}: {len(self.losses)} steps, loss {self.losses[-1]:.3f}")
            return
        from IPython.display import HTML, display

        if self.handle is None:
            self.handle = display(HTML(html), display_id=True)
        else:
            self.handle.update(HTML(html))


def losses(title: str, runs: Mapping[str, Sequence[float]], every: int = 1) -> Picture:
    """Loss by step, a line for each run; the last point of each as a table.

    Args:
        title: One line.
        runs: Name -> losses, in nats, the first one drawn widest so that others show above it.
        every: Steps from one loss to the next.
    """
    steps = every * max(map(len, runs.values()))
    most = max(max(found) for found in runs.values())
    high = max(1.0, math.ceil(most))
    across, down = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def at(step: int, loss: float) -> tuple[float, float]:
        return LEFT + across * step / max(1, steps - 1), HEIGHT - BOTTOM - down * loss / high

    parts = [*_grid(high, steps, at)]
    for (name, found), (ink, width, dashes) in zip(runs.items(), LINES, strict=False):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(every * n, v) for n, v in _of(found)))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke-width="{width}" '
            f'stroke-dasharray="{dashes}" style="stroke:var(--fl-{ink})"/>'
        )
        x = LEFT + 170 * list(runs).index(name)
        parts.append(chart.rect(x, 8, 22, 10, ink))
        parts.append(chart.text(x + 28, 18, name, size=13))
    table = [("run", "first loss", "last loss", "lowest")]
    for name, found in runs.items():
        table.append((name, *(f"{v:.4f}" for v in (found[0], found[-1], min(found)))))
    caption = f"Loss in nats a character, over {steps} steps."
    drawing = svg(WIDTH, HEIGHT, f"Lines of loss by step. {caption}", "".join(parts))
    return Picture(title, drawing, caption, table)


def _of(found: Sequence[float]) -> list[tuple[int, float]]:
    return [(n, value) for n, value in enumerate(found) if math.isfinite(value)]


def _grid(high: float, steps: int, at: Any) -> list[str]:
    parts = []
    for loss in range(int(high) + 1):
        (x, y), (end, _) = at(0, loss), at(steps - 1, loss)
        parts.append(chart.line(x, y, end, y, extra='stroke-opacity="0.6"'))
        parts.append(chart.text(x - 8, y + 4, str(loss), "end", 12, "soft"))
    for step in sorted({0, (steps - 1) // 2, steps - 1}):
        x, y = at(step, 0)
        parts.append(chart.text(x, y + 18, f"{step + 1:,}", "middle", 12, "soft"))
    parts.append(chart.text(WIDTH / 2, HEIGHT - 6, "step", "middle"))
    return parts
