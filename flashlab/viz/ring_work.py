"""Who works when under a causal mask: pairs of query and key in every round of a ring."""

from dataclasses import dataclass

import numpy as np

from flashlab.ring.shards import held
from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.picture import Picture, svg

LAYOUTS = ("in order", "zigzag", "striped")
MASKS = ("causal", "none")
ROWS = 64  # tokens a rank in the count


def positions(layout: str, rank: int, world: int, rows: int = ROWS) -> np.ndarray:
    """Places in the sequence of the tokens that lie on a rank.

    Args:
        layout: in order: one chunk after the other; zigzag: an early and a late chunk; striped:
            every world-th token.
        rank, world: This rank, of how many.
        rows: Tokens a rank, even.
    """
    if layout == "striped":
        return np.arange(rows) * world + rank
    if layout == "in order":
        return rank * rows + np.arange(rows)
    half = rows // 2
    return np.concatenate([chunk * half + np.arange(half) for chunk in held(rank, world)])


@dataclass(frozen=True)
class Work:
    """Pairs that each rank works on in each round, as parts of a whole block of rows x rows.

    Args:
        of: [rank][round].
        masked: [rank][round]; whether some pairs of a block that is worked on are hidden inside a
            chunk, so that a kernel needs a mask.
    """

    of: tuple[tuple[float, ...], ...]
    masked: tuple[tuple[bool, ...], ...]

    @property
    def busiest(self) -> float:
        """Blocks that the rank with most to do works on."""
        return max(map(sum, self.of))

    @property
    def even(self) -> float:
        """Blocks that each would work on if all did the same."""
        return sum(map(sum, self.of)) / len(self.of)

    @property
    def share(self) -> float:
        """Of the ideal speed, if nothing but the busiest rank counts."""
        return self.even / self.busiest


def work(layout: str, world: int, mask: str = "causal", rows: int = ROWS) -> Work:
    """Count pairs j <= i, by the places of the tokens; the block in round t is rank - t's."""
    places = [positions(layout, rank, world, rows) for rank in range(world)]
    of, masked = [], []
    for rank in range(world):
        counts, inside = [], []
        for number in range(world):
            theirs = places[(rank - number) % world]
            seen = (
                theirs[None, :] <= places[rank][:, None]
                if mask == "causal"
                else (np.ones((rows, rows), bool))
            )
            counts.append(float(seen.mean()))
            halves = seen.reshape(2, rows // 2, 2, rows // 2).mean(axis=(1, 3))
            inside.append(bool(((halves > 0) & (halves < 1)).any()))
        of.append(tuple(counts))
        masked.append(tuple(inside))
    return Work(tuple(of), tuple(masked))


WIDTH, LEFT, HIGH = 720, 70, 30


def picture(layout: str, world: int, mask: str) -> Picture:
    """Ranks down, rounds across; each cell is filled as far as there is work in it."""
    w = work(layout, world, mask)
    wide = (WIDTH - LEFT - 120) / world
    parts = [chart.text(LEFT + wide * t + 4, 16, f"round {t}", size=12, ink="soft")
             for t in range(world)]  # fmt: skip
    for rank, counts in enumerate(w.of):
        y = 24 + rank * (HIGH + 6)
        parts.append(chart.text(LEFT - 8, y + 20, f"rank {rank}", "end", 13))
        for number, part in enumerate(counts):
            x = LEFT + wide * number
            parts.append(chart.rect(x, y, wide - 4, HIGH, "grey"))
            parts.append(chart.rect(x, y, (wide - 4) * part, HIGH, "sky"))
            label = f"{part:.2f}" + (" ◣" if w.masked[rank][number] else "")
            parts.append(chart.text(x + 6, y + 20, label, size=12))
        parts.append(chart.text(WIDTH - 110, y + 20, f"{sum(counts):.2f} blocks", size=13))
    named = sum(map(sum, w.masked)) / world
    said = (
        f"The busiest rank works on {w.busiest:.2f} blocks, an even share is {w.even:.2f}: the "
        f"ring reaches at most {100 * w.share:.0f} % of the ideal speed."
    )
    said += f" A rank needs a mask in {named:g} of {world} rounds (◣)."
    rows = [("rank", *(f"round {t}" for t in range(world)), "blocks in all")]
    rows += [(str(r), *(f"{p:.2f}" for p in c), f"{sum(c):.2f}") for r, c in enumerate(w.of)]
    alt = f"Work of {world} ranks in {world} rounds. {said}"
    drawing = svg(WIDTH, 30 + world * (HIGH + 6), alt, "".join(parts))
    return Picture(f"Tokens {layout}, mask: {mask}", drawing, said, rows)


def work_explorer() -> Explorer:
    """Layouts of the sequence, ranks, with and without a mask."""
    return Explorer(
        "Work in every round",
        picture,
        (
            Control("layout", "layout of tokens", LAYOUTS, "in order"),
            Control("world", "ranks", [2, 4, 8], 4),
            Control("mask", "mask", MASKS, "causal"),
        ),
    )
