"""Partial softmax results merged in several orders: a tree for one of them, a table for all."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.picture import Picture, svg

ORDERS = ("left to right", "right to left", "in pairs", "shuffled")
RULES = ("rescale", "plain mean")
KEYS = 24  # scores of the row, split into parts as evenly as it goes


@dataclass(frozen=True)
class State:
    """What is known of some keys: maximum, sum of exp(s - m), sum of exp(s - m) v."""

    m: float
    l: float  # noqa: E741 (the paper's name)
    acc: float

    @property
    def o(self) -> float:
        """The output so far."""
        return self.acc / self.l


@dataclass(frozen=True)
class Node:
    """A part, or two nodes merged; ``x`` is its place among the parts, ``depth`` its height."""

    state: State
    children: tuple["Node", ...] = ()
    x: float = 0.0
    depth: int = 0


def inputs(spread: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores and values of one row in fp64; ``spread`` is the scores' standard deviation."""
    generator = np.random.default_rng(seed)
    return spread * generator.standard_normal(KEYS), generator.standard_normal(KEYS)


def of_part(s: np.ndarray, v: np.ndarray) -> State:
    """The state of some keys, in the dtype of ``s``."""
    m = s.max()
    p = np.exp(s - m)
    return State(m, p.sum(dtype=s.dtype), (p * v).sum(dtype=s.dtype))


def merge(a: State, b: State) -> State:
    """Both parts' keys together: each sum is fitted to the larger maximum, then they are added."""
    m = max(a.m, b.m)
    fit_a, fit_b = np.exp(a.m - m), np.exp(b.m - m)
    return State(m, a.l * fit_a + b.l * fit_b, a.acc * fit_a + b.acc * fit_b)


def mean(a: State, b: State) -> State:
    """A rule that looks natural and is wrong: the mean of both outputs, weights forgotten."""
    half = type(a.m)(0.5)
    return State(max(a.m, b.m), type(a.m)(1), half * (a.acc / a.l) + half * (b.acc / b.l))


def tree(parts: list[State], order: str, rule: Callable = merge) -> Node:
    """Merge all parts in one of ``ORDERS``."""
    nodes = [Node(state, x=float(i)) for i, state in enumerate(parts)]
    if order == "shuffled":
        places = np.random.default_rng(len(parts)).permutation(len(parts))
        nodes = [nodes[i] for i in places]
    while len(nodes) > 1:
        if order == "right to left":
            nodes[-2:] = [_joined(nodes[-2], nodes[-1], rule)]
        elif order == "in pairs":
            pairs = [nodes[i : i + 2] for i in range(0, len(nodes), 2)]
            nodes = [_joined(*pair, rule) if len(pair) == 2 else pair[0] for pair in pairs]
        else:
            nodes[:2] = [_joined(nodes[0], nodes[1], rule)]
    return nodes[0]


def _joined(a: Node, b: Node, rule: Callable) -> Node:
    depth = max(a.depth, b.depth) + 1
    return Node(rule(a.state, b.state), (a, b), (a.x + b.x) / 2, depth)


@dataclass(frozen=True)
class Merged:
    """The roots of all orders beside the answer over all keys at once in fp64."""

    roots: dict[str, Node]
    exact: State


def merged(parts: int, spread: float, dtype: str = "float64", rule: str = RULES[0]) -> Merged:
    """Split one row into parts, work each out in ``dtype``, merge them in every order.

    Args:
        parts: 2 to ``KEYS``.
        spread: Standard deviation of the scores.
        dtype: float16, float32 or float64; of every number.
        rule: Of ``RULES``.
    """
    s, v = inputs(spread)
    s16, v16 = s.astype(np.float16), v.astype(np.float16)  # the same numbers in every dtype
    exact = of_part(s16.astype(np.float64), v16.astype(np.float64))
    cast = getattr(np, dtype)
    pieces = [
        of_part(a.astype(cast), b.astype(cast))
        for a, b in zip(np.array_split(s16, parts), np.array_split(v16, parts), strict=True)
    ]
    joins = merge if rule == RULES[0] else mean
    return Merged({order: tree(pieces, order, joins) for order in ORDERS}, exact)


WIDTH, LEVEL = 720, 58


def picture(order: str, parts: int, spread: float, dtype: str, rule: str) -> Picture:
    """The tree of one order; the table has them all."""
    found = merged(parts, spread, dtype, rule)
    root = found.roots[order]
    height = root.depth * LEVEL + 84
    pitch = (WIDTH - 90) / max(parts - 1, 1)
    drawing: list[str] = []
    _draw(root, drawing, lambda node: (45 + node.x * pitch, height - 44 - node.depth * LEVEL))
    drawing.append(
        chart.text(
            4, height - 6, "parts of the row; each box: m above, o = acc / l below", size=12
        )
    )
    rows = [("order", "maximum m", "sum l", "output o", "off the fp64 answer")]
    rows.append(_row("all keys at once, float64", found.exact, found.exact))
    rows += [_row(name, node.state, found.exact) for name, node in found.roots.items()]
    outputs = [float(node.state.o) for node in found.roots.values()]
    apart, off = max(outputs) - min(outputs), max(abs(o - found.exact.o) for o in outputs)
    caption = (
        f"{parts} parts, {dtype}, scores with a spread of {spread:g}, rule: {rule}. The four "
        f"orders differ by {apart:.1e} in o, and are off the answer by {off:.1e} at most."
    )
    alt = f"A tree that merges {parts} parts {order}. {caption}"
    title = f"Merging {parts} parts: {order}"
    return Picture(title, svg(WIDTH, height, alt, "".join(drawing)), caption, rows)


def _row(name: str, state: State, exact: State) -> tuple[str, ...]:
    numbers = f"{float(state.m):.4f}", f"{float(state.l):.6f}", f"{float(state.o):.6f}"
    return (name, *numbers, f"{abs(float(state.o) - exact.o):.1e}")


def _draw(node: Node, out: list[str], place: Callable[[Node], tuple[float, float]]) -> None:
    x, y = place(node)
    for child in node.children:
        at = place(child)
        out.append(chart.line(x, y + 17, at[0], at[1] - 17, "soft", 'stroke-width="1.5"'))
        _draw(child, out, place)
    out.append(chart.rect(x - 31, y - 17, 62, 34, "sky" if node.children else "grey", 'rx="4"'))
    out.append(chart.text(x, y - 3, f"m {float(node.state.m):.1f}", "middle", 12))
    out.append(chart.text(x, y + 12, f"o {float(node.state.o):.3f}", "middle", 12))


def merge_explorer() -> Explorer:
    """Order, number of parts, spread of the scores, precision, and a wrong rule to try."""
    return Explorer(
        "Merging parts in any order",
        picture,
        (
            Control("order", "order of merging", ORDERS, "left to right"),
            Control("parts", "parts", [2, 3, 4, 5, 6, 8], 5),
            Control(
                "spread",
                "spread of scores",
                [0.1, 0.5, 1.0, 5.0, 30.0, 1000.0],
                1.0,
                "{:g}".format,
            ),
            Control("dtype", "precision", ["float16", "float32", "float64"], "float64"),
            Control("rule", "rule", RULES, RULES[0]),
        ),
    )


def worst_difference(
    trials: int = 200, keys: int = 64, spread: float = 3.0, seed: int = 0
) -> float:
    """Cut random rows at random places, merge in a random order: the largest relative error of o.

    Args:
        trials: Rows.
        keys: Scores of a row.
        spread: Standard deviation of the scores.
        seed: Of everything random.
    """
    generator, worst = np.random.default_rng(seed), 0.0
    for _ in range(trials):
        s, v = spread * generator.standard_normal(keys), generator.standard_normal(keys)
        cuts = np.sort(generator.choice(np.arange(1, keys), generator.integers(1, 9), False))
        pieces = [of_part(a, b) for a, b in zip(np.split(s, cuts), np.split(v, cuts), strict=True)]
        while len(pieces) > 1:
            i, j = generator.choice(len(pieces), 2, False)
            joined = merge(pieces[i], pieces[j])
            pieces = [p for k, p in enumerate(pieces) if k not in (i, j)] + [joined]
        exact = of_part(s, v)
        scale = float((np.exp(s - exact.m) * np.abs(v)).sum() / exact.l)
        worst = max(worst, abs(pieces[0].o - exact.o) / scale)
    return float(worst)
