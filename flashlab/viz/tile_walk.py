"""The walk of a program over the score matrix: what is on chip, the running softmax state."""

import math
from dataclasses import dataclass

import torch

from flashlab.viz.player import Frame, Player


@dataclass(frozen=True)
class Step:
    """One step of the walk of query block ``i``.

    ``phase`` is "load q", "tile", "finish"; the numbers belong to the watched row ``row``.
    ``m``, ``l``, ``alpha`` are floats; ``acc`` is [D], not divided; ``o`` is acc / l.
    """

    phase: str
    i: int
    j: int
    row: int
    m: float
    l: float  # noqa: E741 (the paper's name)
    alpha: float
    acc: tuple[float, ...]
    o: tuple[float, ...]
    scores: tuple[float, ...]


@dataclass(frozen=True)
class Walk:
    """The steps of all query blocks, with the sizes they belong to."""

    N: int
    D: int
    block_m: int
    block_n: int
    causal: bool
    steps: tuple[Step, ...]
    exact: tuple[tuple[float, ...], ...]  # [N, D], softmax(s) v in fp64


def walk(
    N: int = 12,
    D: int = 2,
    block_m: int = 4,
    block_n: int = 4,
    causal: bool = False,
    seed: int = 0,
) -> Walk:
    """Tiled attention on random numbers in fp64, every step kept (one watched row a block)."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(N, D, generator=generator, dtype=torch.float64) for _ in range(3))
    s = 2.0 * q @ k.T / math.sqrt(D)
    if causal:
        s = s.masked_fill(torch.ones(N, N, dtype=torch.bool).triu(1), -math.inf)
    steps = []
    for i in range(math.ceil(N / block_m)):
        row = min((i + 1) * block_m, N) - 1  # the last row of the block sees the most keys
        m, l_sum, acc = -math.inf, 0.0, torch.zeros(D, dtype=torch.float64)
        steps.append(_step("load q", i, 0, row, m, l_sum, 1.0, acc, ()))
        for j in range(math.ceil(N / block_n)):
            if causal and j * block_n > row:
                break
            tile = s[row, j * block_n : (j + 1) * block_n]
            m_new = max(m, float(tile.max()))
            alpha = math.exp(m - m_new) if m > -math.inf else 0.0
            p = torch.exp(tile - m_new)
            l_sum = l_sum * alpha + float(p.sum())
            acc = acc * alpha + p @ v[j * block_n : (j + 1) * block_n]
            m = m_new
            steps.append(_step("tile", i, j, row, m, l_sum, alpha, acc, tile.tolist()))
        steps.append(_step("finish", i, j, row, m, l_sum, 1.0, acc, ()))
    exact = torch.softmax(s, -1) @ v
    return Walk(N, D, block_m, block_n, causal, tuple(steps), tuple(map(tuple, exact.tolist())))


def _step(phase, i, j, row, m, l_sum, alpha, acc, scores) -> Step:
    o = (acc / l_sum if l_sum else acc).tolist()
    return Step(phase, i, j, row, m, l_sum, alpha, tuple(acc.tolist()), tuple(o), tuple(scores))


CELL, LEFT, TOP = 24, 64, 64


def _rect(x: float, y: float, w: float, h: float, fill: str, extra: str = "") -> str:
    return (
        f'<rect x="{x}" y="{y}" width="{w}" height="{h}" style="fill:var(--fl-{fill})" {extra}/>'
    )


def draw(w: Walk, step: Step) -> str:
    """The score matrix with its tiles: done, on chip now, not yet, masked."""
    columns, size = math.ceil(w.N / w.block_n), w.N * CELL
    parts = [
        f'<svg viewBox="0 0 {LEFT + size + 12} {TOP + size + 44}" role="img" '
        f'aria-label="score matrix, query block {step.i}, key block {step.j}, {step.phase}">'
    ]
    parts.append(
        f'<text x="{LEFT}" y="18" font-size="14">{columns} blocks of keys and values</text>'
    )
    parts.append(f'<text x="4" y="{TOP - 8}" font-size="14">queries</text>')
    parts += _blocks(w, step)
    y = TOP + step.row * CELL
    parts.append(
        f'<rect x="{LEFT}" y="{y + 2}" width="{size}" height="{CELL - 4}" '
        'style="fill:none;stroke:var(--fl-ink)" stroke-dasharray="4 3"/>'
    )
    y = TOP + size + 20
    parts.append(f'<text x="4" y="{y}" font-size="13">framed: on chip now; blue: done,</text>')
    parts.append(
        f'<text x="4" y="{y + 17}" font-size="13">thrown away; dashed: watched row</text>'
    )
    parts.append("</svg>")
    return "".join(parts)


def _blocks(w: Walk, step: Step) -> list[str]:
    """The blocks of keys above, of queries at the left, and every tile of scores."""
    rows, columns = math.ceil(w.N / w.block_m), math.ceil(w.N / w.block_n)
    now, parts = step.phase == "tile", []
    for j in range(columns):
        x, width = LEFT + j * w.block_n * CELL, min(w.block_n, w.N - j * w.block_n) * CELL
        parts.append(_rect(x + 1, 28, width - 2, 24, "blue" if now and j == step.j else "grey"))
    for i in range(rows):
        y, height = TOP + i * w.block_m * CELL, min(w.block_m, w.N - i * w.block_m) * CELL
        parts.append(_rect(28, y + 1, 24, height - 2, "blue" if i == step.i else "grey"))
        for j in range(columns):
            x, width = LEFT + j * w.block_n * CELL, min(w.block_n, w.N - j * w.block_n) * CELL
            parts.append(_rect(x + 1, y + 1, width - 2, height - 2, _fill(w, step, i, j)))
            if now and (i, j) == (step.i, step.j):
                parts.append(
                    f'<rect x="{x + 2}" y="{y + 2}" width="{width - 4}" height="{height - 4}" '
                    'style="fill:none;stroke:var(--fl-orange)" stroke-width="3"/>'
                )
    return parts


def _fill(w: Walk, step: Step, i: int, j: int) -> str:
    if w.causal and j * w.block_n > min((i + 1) * w.block_m, w.N) - 1:
        return "paper"
    if i == step.i and j == step.j and step.phase == "tile":
        return "sand"
    done = i < step.i or (i == step.i and (j < step.j or step.phase == "finish"))
    return "sky" if done and not (step.phase == "load q" and i == step.i) else "grey"


def _numbers(values: tuple[float, ...]) -> str:
    return ", ".join(f"{x:.3f}" for x in values)


def caption(w: Walk, step: Step) -> str:
    """One or two sentences on what happens in this step."""
    if step.phase == "load q":
        return (
            f"Query block {step.i} is loaded and stays on chip. Nothing is known yet: "
            "the maximum is minus infinity, the sum 0, the output 0."
        )
    if step.phase == "finish":
        error = max(abs(a - b) for a, b in zip(step.o, w.exact[step.row], strict=True))
        return (
            f"All keys seen: divide by the sum and store. Row {step.row} is "
            f"{_numbers(step.o)}, {error:.0e} from ordinary softmax attention."
        )
    if step.alpha == 0.0:
        change = "This is the first tile, so nothing has to be rescaled."
    elif step.alpha == 1.0:
        change = "The maximum did not grow, so what was summed so far stays (factor 1)."
    else:
        change = f"The maximum grew, so sum and output are multiplied by {step.alpha:.3f} first."
    return f"Scores of key block {step.j} for the watched row: {_numbers(step.scores)}. {change}"


def tile_walk(
    N: int = 12, block_m: int = 4, block_n: int = 4, causal: bool = False, seed: int = 0
) -> Player:
    """A player that steps through tiled attention on real numbers.

    Args:
        N: Rows and keys, at most 24 so that the picture stays readable.
        block_m: Query rows a block.
        block_n: Keys a block.
        causal: Skip and mask the keys after each query.
        seed: Of the random numbers.
    """
    if not 1 <= N <= 24:
        raise ValueError(f"N must be 1 to 24 for a readable picture, not {N}")
    w = walk(N=N, block_m=block_m, block_n=block_n, causal=causal, seed=seed)
    frames = []
    for step in w.steps:
        m = "-inf" if step.m == -math.inf else f"{step.m:.3f}"
        facts = (
            ("watched row", str(step.row)),
            ("maximum m_i", m),
            ("sum l_i", f"{step.l:.3f}"),
            ("rescale alpha", f"{step.alpha:.3f}" if step.phase == "tile" else "-"),
            ("output so far, acc / l_i", _numbers(step.o)),
            ("scores on chip", str(w.block_m * w.block_n) if step.phase == "tile" else "0"),
            ("scores in all", str(w.N * w.N)),
        )
        frames.append(Frame(draw(w, step), caption(w, step), facts))
    return Player("One program walks over the tiles", frames, height=700)
