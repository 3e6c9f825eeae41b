"""One row of scores, a tile at a time: running maximum, running sum, and what is rescaled."""

import math
from dataclasses import dataclass

import torch

from flashlab.viz import chart
from flashlab.viz.player import Frame, Player


@dataclass(frozen=True)
class Step:
    """The state after one half of a tile's work.

    Args:
        phase: ``"start"``, ``"rescale"`` (old terms fitted to the new maximum), ``"add"``.
        j: The tile; -1 at the start.
        m, l: Running maximum and sum.
        alpha: exp(m_old - m), by which this tile multiplied the old sum.
        terms: exp(s - m) of every score that is in the sum.
    """

    phase: str
    j: int
    m: float
    l: float  # noqa: E741 (the paper's name)
    alpha: float
    terms: tuple[float, ...]


@dataclass(frozen=True)
class Walk:
    """All steps over one row, with ordinary softmax's maximum and sum to compare with."""

    scores: tuple[float, ...]
    tile: int
    steps: tuple[Step, ...]
    exact_m: float
    exact_l: float


def row_of(n: int, seed: int) -> tuple[float, ...]:
    """``n`` scores to one decimal, the larger ones towards the end so that the maximum grows."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(n, generator=generator, dtype=torch.float64)
    return tuple(round(float(x), 1) for x in noise + torch.linspace(0, 2, n, dtype=torch.float64))


def walk(scores: tuple[float, ...], tile: int) -> Walk:
    """Online softmax's statistics in fp64, every step kept.

    Args:
        scores: The row.
        tile: Scores that arrive together.
    """
    m, total, terms = -math.inf, 0.0, []
    steps = [Step("start", -1, m, total, 1.0, ())]
    for j, start in enumerate(range(0, len(scores), tile)):
        arrived = scores[start : start + tile]
        m_new = max(m, *arrived)
        alpha = math.exp(m - m_new)
        total, terms = total * alpha, [t * alpha for t in terms]
        steps.append(Step("rescale", j, m_new, total, alpha, tuple(terms)))
        new = [math.exp(s - m_new) for s in arrived]
        total, terms, m = total + sum(new), terms + new, m_new
        steps.append(Step("add", j, m, total, alpha, tuple(terms)))
    exact = torch.tensor(scores, dtype=torch.float64)
    top = float(exact.max())
    return Walk(scores, tile, tuple(steps), top, float(torch.exp(exact - top).sum()))


LEFT, WIDTH, HEIGHT = 64, 460, 340
SCORES, TERMS = (150, 30), (300, 190)  # lower and upper pixel of both panels


def draw(w: Walk, step: Step) -> str:
    """Above the scores with the running maximum, below the terms of the sum."""
    pitch = (WIDTH - LEFT - 10) / len(w.scores)
    low, high = min(*w.scores, 0.0) - 0.3, max(w.scores) + 0.3

    def y(score: float) -> float:
        return SCORES[0] + (score - low) / (high - low) * (SCORES[1] - SCORES[0])

    m = "minus infinity" if step.j < 0 else f"{step.m:.1f}"
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="scores of a row above, terms '
        f'of its sum below; {step.phase}, tile {step.j}, maximum {m}">',
        chart.text(4, 18, "scores s"),
        chart.text(4, TERMS[1] - 8, "terms exp(s - m_i) in the sum"),
        chart.line(LEFT, TERMS[0], WIDTH - 8, TERMS[0], "line"),
    ]
    seen = (step.j + 1) * w.tile
    for k, score in enumerate(w.scores):
        x = LEFT + k * pitch
        now = step.j >= 0 and k // w.tile == step.j
        fill = "orange" if now else "blue" if k < seen else "line"
        parts.append(chart.line(x + pitch / 2, y(0), x + pitch / 2, y(score), "line"))
        parts.append(chart.mark(x + pitch / 2, y(score), "diamond" if now else "circle", fill, 5))
        if k < len(step.terms):
            height = step.terms[k] * (TERMS[0] - TERMS[1])
            parts.append(chart.rect(x + 2, TERMS[0] - height, pitch - 4, max(height, 1), fill))
        if k % w.tile == 0:
            parts.append(chart.line(x, SCORES[1], x, TERMS[0], "line", 'stroke-dasharray="2 4"'))
            parts.append(chart.text(x + 3, TERMS[0] + 18, f"tile {k // w.tile}", size=12))
    if step.j >= 0:
        dashed = 'stroke-width="2" stroke-dasharray="6 4"'
        parts.append(chart.line(LEFT, y(step.m), WIDTH - 8, y(step.m), "green", dashed))
        parts.append(chart.text(4, y(step.m) + 4, f"m_i {step.m:.1f}", size=12))
    parts.append(chart.text(4, HEIGHT - 6, "diamond, orange: on chip now", size=12, ink="soft"))
    return "".join(parts) + "</svg>"


def caption(w: Walk, step: Step) -> str:
    """What this step does, in one or two sentences."""
    if step.phase == "start":
        return "Nothing has been seen: the maximum is minus infinity and the sum is 0."
    if step.phase == "rescale":
        if step.j == 0:
            return (
                f"Tile 0 arrives. Its largest score is {step.m:.1f}; there is nothing to rescale."
            )
        if step.alpha == 1.0:
            return f"Tile {step.j} brings no larger score: alpha is exp(0) = 1, all terms stay."
        return (
            f"Tile {step.j} brings a larger score, {step.m:.1f}. Every old term shrinks by "
            f"alpha = {step.alpha:.4f}: the bars below, and with them their sum."
        )
    if step.j * w.tile + w.tile < len(w.scores):
        return f"The terms of tile {step.j} are added. The scores can be thrown away."
    error = abs(step.l - w.exact_l)
    apart = f"they differ by {error:.0e}" if error else "not a digit differs"
    return (
        f"The row is over: l_i = {step.l:.6f}. Ordinary softmax, with the maximum known from the "
        f"start, has {w.exact_l:.6f}; {apart}."
    )


def online_walk(n: int = 12, tile: int = 3, seed: int = 43) -> Player:
    """A player that takes a row of scores a tile at a time.

    Args:
        n: Scores in the row, 2 to 24.
        tile: Scores of a tile.
        seed: Of the scores.
    """
    if not (2 <= n <= 24 and 1 <= tile <= n):
        raise ValueError(f"n must be 2 to 24 and tile 1 to n, not {n} and {tile}")
    w = walk(row_of(n, seed), tile)
    frames = []
    for step in w.steps:
        m = "-inf" if step.j < 0 else f"{step.m:.1f}"
        facts = (
            ("maximum m_i", m),
            ("alpha = exp(m_old - m_i)", f"{step.alpha:.4f}" if step.j >= 0 else "-"),
            ("sum l_i", f"{step.l:.6f}"),
            ("log-sum-exp so far", f"{step.m + math.log(step.l):.6f}" if step.l else "-inf"),
            ("scores seen", f"{len(step.terms)} of {n}"),
            ("numbers kept", "2"),
        )
        frames.append(Frame(draw(w, step), caption(w, step), facts))
    return Player("Softmax of a row that arrives in tiles", frames, height=560)
