"""The walk of the backward pass: keys stay for dk and dv, then queries stay for dq."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from flashlab.viz import chart
from flashlab.viz.picture import svg
from flashlab.viz.player import Frame, Player


@dataclass(frozen=True)
class Step:
    """One step: ``phase`` is "load", "tile" or "finish"; ``owner`` is "keys" or "queries".

    ``row`` is the watched key or query, ``sums`` its gradients so far by name, ``off`` the largest
    difference of the tile's recomputed weights from softmax, ``tiles`` how many were computed.
    """

    owner: str
    phase: str
    i: int
    j: int
    row: int
    sums: dict[str, tuple[float, ...]]
    off: float
    tiles: int


@dataclass(frozen=True)
class Walk:
    """All steps, the sizes they belong to, and the gradients that autograd gives."""

    N: int
    block: int
    causal: bool
    steps: tuple[Step, ...]
    exact: dict[str, Tensor]  # dq, dk, dv [N, D] in fp64


class _Head:
    """One head's tensors in fp64: inputs, weights and gradients of PyTorch, and lse and delta."""

    def __init__(self, N: int, D: int, block: int, causal: bool, seed: int) -> None:
        draw = torch.Generator().manual_seed(seed)
        q, k, v, do = (torch.randn(N, D, generator=draw, dtype=torch.float64) for _ in range(4))
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        p = torch.softmax(_scores(*leaves[:2], causal), 1)
        o = p @ leaves[2]
        grads = torch.autograd.grad(o, leaves, do)
        self.exact = dict(zip(("dq", "dk", "dv"), grads, strict=True))
        self.q, self.k, self.v, self.do, self.p = q, k, v, do, p.detach()
        self.s, self.block, self.scale = _scores(q, k, causal), block, D**-0.5
        self.lse = torch.logsumexp(self.s, 1)  # with delta, all that is known of a row
        self.delta = (do * o.detach()).sum(1)

    def tile(self, i: int, j: int) -> tuple[slice, slice, Tensor, Tensor]:
        """Rows, keys, and the tile's p and ds, computed again from lse and delta."""
        rows, keys = slice(i, i + self.block), slice(j, j + self.block)
        p = torch.exp(self.s[rows, keys] - self.lse[rows, None])
        dp = self.do[rows] @ self.v[keys].T
        return rows, keys, p, p * (dp - self.delta[rows, None])

    def off(self, i: int, j: int) -> float:
        """The largest difference of a tile's recomputed weights from softmax."""
        rows, keys, p, _ = self.tile(i, j)
        return float((p - self.p[rows, keys]).abs().max())


def walk(N: int = 12, D: int = 2, block: int = 4, causal: bool = False, seed: int = 0) -> Walk:
    """The backward pass by recomputation on random numbers in fp64, every step kept."""
    head = _Head(N, D, block, causal, seed)
    steps = tuple(_number([*_keys_stay(head, causal), *_queries_stay(head, causal)]))
    return Walk(N, block, causal, steps, head.exact)


def _keys_stay(head: _Head, causal: bool) -> Iterator[Step]:
    """A program owns keys; watched is its first one, which the most queries see."""
    dk, dv = torch.zeros_like(head.k), torch.zeros_like(head.v)
    starts, block = range(0, len(head.k), head.block), head.block
    for j in starts:
        sums = {"dk": dk, "dv": dv}
        first = j if causal else 0
        yield _step("keys", "load", first // block, j // block, j, sums)
        for i in starts[first // block :]:
            rows, keys, p, ds = head.tile(i, j)
            dv[keys] += p.T @ head.do[rows]
            dk[keys] += head.scale * ds.T @ head.q[rows]
            yield _step("keys", "tile", i // block, j // block, j, sums, head.off(i, j))
        yield _step("keys", "finish", i // block, j // block, j, sums)


def _queries_stay(head: _Head, causal: bool) -> Iterator[Step]:
    """A program owns queries; watched is its last one, which sees the most keys."""
    dq, block = torch.zeros_like(head.q), head.block
    starts = range(0, len(head.q), block)
    for i in starts:
        row = min(i + block, len(head.q)) - 1
        yield _step("queries", "load", i // block, 0, row, {"dq": dq})
        for j in starts[: i // block + 1 if causal else None]:
            rows, keys, _, ds = head.tile(i, j)
            dq[rows] += head.scale * ds @ head.k[keys]
            yield _step("queries", "tile", i // block, j // block, row, {"dq": dq}, head.off(i, j))
        yield _step("queries", "finish", i // block, j // block, row, {"dq": dq})


def _step(owner: str, phase: str, i: int, j: int, row: int, sums: dict, off: float = 0.0) -> Step:
    now = {name: tuple(x[row].tolist()) for name, x in sums.items()}
    return Step(owner, phase, i, j, row, now, off, 0)


def _number(steps: list[Step]) -> Iterator[Step]:
    """The steps with the number of tiles computed until then."""
    tiles = 0
    for step in steps:
        tiles += step.phase == "tile"
        yield replace(step, tiles=tiles)


def _scores(q: Tensor, k: Tensor, causal: bool) -> Tensor:
    s = q @ k.T / math.sqrt(q.shape[1])
    hidden = torch.ones(s.shape, dtype=torch.bool).triu(1)
    return s.masked_fill(hidden, -math.inf) if causal else s


CELL, LEFT, TOP = 26, 66, 66


def draw(w: Walk, step: Step) -> str:
    """The score matrix: which block stays on chip, which tile is computed, which ones were."""
    starts, size = range(0, w.N, w.block), w.N * CELL
    parts = [
        chart.text(LEFT, 20, "blocks of keys and values", size=14),
        chart.text(4, TOP - 8, "queries", size=14),
    ]
    keys = step.owner == "keys"
    for at in starts:
        length = min(w.block, w.N - at) * CELL - 2
        number, place = at // w.block, at * CELL + 1
        passing = step.phase == "tile"
        mine = number == step.j if keys else passing and number == step.j
        fill = ("blue" if keys else "sky") if mine else "grey"
        parts.append(chart.rect(LEFT + place, 30, length, 24, fill))
        mine = number == step.i if not keys else passing and number == step.i
        fill = ("sky" if keys else "blue") if mine else "grey"
        parts.append(chart.rect(30, TOP + place, 24, length, fill))
        parts += [_tile(w, step, number, at, j) for j in starts]
    x, y = LEFT + step.row * CELL, TOP + step.row * CELL
    look = 'stroke-dasharray="4 3" style="fill:none;stroke:var(--fl-ink)"'
    box = (x + 3, TOP, CELL - 6, size) if keys else (LEFT, y + 3, size, CELL - 6)
    parts.append(f'<rect x="{box[0]}" y="{box[1]}" width="{box[2]}" height="{box[3]}" {look}/>')
    words = (
        "strong blue: stays on chip; framed: computed now,",
        "then thrown away (pale blue); dashed: watched",
    )
    for line, text in enumerate(words):
        parts.append(chart.text(4, TOP + size + 22 + 18 * line, text, size=13))
    alt = (
        f"score matrix, {step.owner} stay, query block {step.i}, key block {step.j}, {step.phase}"
    )
    return svg(max(LEFT + size + 12, 400), TOP + size + 52, alt, "".join(parts))


def _tile(w: Walk, step: Step, i: int, start: int, at: int) -> str:
    j, keys = at // w.block, step.owner == "keys"
    width, height = ((min(w.block, w.N - x) * CELL - 2) for x in (at, start))
    x, y = LEFT + at * CELL + 1, TOP + start * CELL + 1
    if w.causal and j > i:
        return chart.rect(x, y, width, height, "paper")
    if step.phase == "tile" and (i, j) == (step.i, step.j):
        frame = 'stroke-width="3" stroke="var(--fl-orange)"'
        return chart.rect(x + 1, y + 1, width - 2, height - 2, "sand", frame)
    mine, passing, now = (j, i, (step.j, step.i)) if keys else (i, j, (step.i, step.j))
    done = mine < now[0] or mine == now[0] and (
        step.phase == "finish" or step.phase == "tile" and passing < now[1]
    )  # fmt: skip
    return chart.rect(x, y, width, height, "sky" if done else "grey")


def _numbers(values: tuple[float, ...]) -> str:
    return ", ".join(f"{x:.3f}" for x in values)


def caption(w: Walk, step: Step) -> str:
    """One or two sentences on what happens in this step."""
    keys, made = step.owner == "keys", " and ".join(step.sums)
    if step.phase == "load":
        held = f"k and v of key block {step.j}" if keys else f"q, do, lse, delta of block {step.i}"
        which = "First" if keys else "Second"
        return f"{which} pass: {held} are loaded and stay on chip. Sums for {made} start at 0."
    if step.phase == "finish":
        error = max(
            abs(a - float(b))
            for name, values in step.sums.items()
            for a, b in zip(values, w.exact[name][step.row], strict=True)
        )
        who = "key" if keys else "query"
        return (
            f"All tiles of the block are done: store {made}, once. At {who} {step.row} the "
            f"difference from autograd is {error:.0e}."
        )
    passing = f"Query block {step.i} passes" if keys else f"Key block {step.j} passes"
    return (
        f"{passing}. The weights of the tile are computed again from lse, {step.off:.0e} from "
        f"softmax at most; they add to {made} and are thrown away."
    )


def backward_walk(N: int = 12, block: int = 4, causal: bool = False, seed: int = 0) -> Player:
    """A player that steps through both passes on real numbers.

    Args:
        N: Queries and keys, at most 24 so that the picture stays readable.
        block: Rows and keys of a tile.
        causal: Queries see no later key, and tiles without a visible key are skipped.
        seed: Of the random numbers.
    """
    if not 1 <= N <= 24:
        raise ValueError(f"N must be 1 to 24 for a readable picture, not {N}")
    w = walk(N=N, block=block, causal=causal, seed=seed)
    frames = []
    for step in w.steps:
        keys, tile = step.owner == "keys", step.phase == "tile"
        facts = [
            ("pass", "dk and dv" if keys else "dq"),
            ("stays on chip", "a block of keys" if keys else "a block of queries"),
            ("watched", f"{'key' if keys else 'query'} {step.row}"),
            *((f"{name} so far", _numbers(values)) for name, values in step.sums.items()),
            ("weights on chip", str(w.block**2) if tile else "0"),
            ("weights kept in memory", "0"),
            ("tiles computed", str(step.tiles)),
        ]
        frames.append(Frame(draw(w, step), caption(w, step), tuple(facts)))
    return Player("The backward pass walks twice", frames, height=660)
