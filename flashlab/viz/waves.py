"""Programs dealt to multiprocessors: one a head against one a block of queries."""

import heapq
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from flashlab import hardware
from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.picture import Picture, svg

ORDERS = ("a program a head", "a program a block of queries")
MASKS = ("full", "causal")
BLOCK = 128  # query rows and keys of a tile


@dataclass(frozen=True)
class Deal:
    """Who worked how long, in tiles; multiprocessors do one program at a time.

    Args:
        lanes: For each multiprocessor the tiles of its programs, in their order.
    """

    lanes: tuple[tuple[int, ...], ...]

    @property
    def programs(self) -> int:
        """How many there were."""
        return sum(map(len, self.lanes))

    @property
    def ends(self) -> list[int]:
        """For each multiprocessor, when its last program ended; 0 if it had none."""
        return [sum(lane) for lane in self.lanes]

    @property
    def work(self) -> int:
        """Tiles of all programs together."""
        return sum(self.ends)

    @property
    def time(self) -> int:
        """When the last program ended."""
        return max(self.ends)

    @property
    def busy(self) -> float:
        """The part of all multiprocessors' time, until then, that was spent on tiles."""
        return self.work / (len(self.lanes) * self.time)

    @property
    def used(self) -> int:
        """Multiprocessors that had a program at all."""
        return sum(end > 0 for end in self.ends)


def deal(lengths: Sequence[int], sms: int) -> Deal:
    """Deal programs in their order, each to the multiprocessor that is free first.

    Args:
        lengths: Tiles of each program.
        sms: Multiprocessors.
    """
    free = [(0, sm) for sm in range(sms)]
    lanes: list[list[int]] = [[] for _ in range(sms)]
    for length in lengths:
        end, sm = free[0]
        heapq.heapreplace(free, (end + length, sm))
        lanes[sm].append(length)
    return Deal(tuple(map(tuple, lanes)))


def tiles_by_block(N: int, causal: bool, last_first: bool = True) -> list[int]:
    """Tiles that each block of queries of one head visits, in the order of the programs."""
    blocks = math.ceil(N / BLOCK)
    if not causal:
        return [blocks] * blocks
    rising = list(range(1, blocks + 1))
    return rising[::-1] if last_first else rising


def deals(heads: int, N: int, sms: int, causal: bool = False) -> tuple[Deal, Deal]:
    """Both orders: one program a head, one a block of queries (the longest of a head first).

    Args:
        heads: B x H.
        N: Sequence length.
        sms: Multiprocessors.
        causal: Tiles above the diagonal are left out, in both orders.
    """
    head = tiles_by_block(N, causal)
    return deal([sum(head)] * heads, sms), deal(head * heads, sms)


WIDTH, LEFT, PANEL = 720, 12, 132
NARROW = 12  # pixels: programs are drawn apart if they are wider than this, on average
CRISP = 'shape-rendering="crispEdges"'  # thin rows beside each other leave no seams


def picture(heads: int, N: int, gpu: str, mask: str) -> Picture:
    """A row a multiprocessor, time to the right, one panel an order."""
    sms = hardware.GPUS[gpu].sms
    both = deals(heads, N, sms, mask == "causal")
    longest = max(found.time for found in both)
    parts = []
    for number, (name, found) in enumerate(zip(ORDERS, both, strict=True)):
        parts.append(_panel(name, found, longest, 24 + number * (PANEL + 44)))
    first, second = both
    caption = (
        f"{hardware.GPUS[gpu].name}, {sms} multiprocessors: {_words(first)} with a program a "
        f"head; {_words(second)} with a program a block of {BLOCK} queries, which ends "
        f"{first.time / second.time:.1f} x sooner."
    )
    rows = [("order", "programs", "multiprocessors used", "busy", "time, in tiles")]
    rows += [
        (name, f"{d.programs:,}", f"{d.used}", f"{100 * d.busy:.0f} %", f"{d.time:,}")
        for name, d in zip(ORDERS, both, strict=True)
    ]
    alt = f"Two panels, a thin row for each multiprocessor, time to the right. {caption}"
    height = 2 * (PANEL + 44) + 12
    words = "a thin row is a multiprocessor: blue works, grey waits; time runs to the right"
    parts.append(chart.text(LEFT, height - 12, words, size=12))
    return Picture(
        "Who works, and who waits", svg(WIDTH, height, alt, "".join(parts)), caption, rows
    )


def _words(found: Deal) -> str:
    verb = "has" if found.used == 1 else "have"
    return f"{found.used} of them {verb} work and {100 * found.busy:.0f} % of all time is used"


def _panel(name: str, found: Deal, longest: int, y: float) -> str:
    scale, row = (WIDTH - 2 * LEFT) / longest, PANEL / len(found.lanes)
    count = f"{found.programs:,} program{'s' * (found.programs != 1)}"
    parts = [
        chart.text(LEFT, y - 6, f"{name}: {count}"),
        chart.rect(LEFT, y, WIDTH - 2 * LEFT, PANEL, "grey"),
    ]
    first, apart = 0, found.programs * NARROW < (WIDTH - 2 * LEFT) * found.used
    for lane, same in itertools.groupby(found.lanes):
        rows, x = len(list(same)), float(LEFT)
        at, height = y + first * row, rows * row
        for length in lane if apart else (sum(lane),):
            parts.append(chart.rect(x, at, length * scale - apart, height, "blue", CRISP))
            x += length * scale
        first += rows
    return "".join(parts)


def waves() -> Explorer:
    """Both orders over heads, sequence length, GPU and mask."""
    return Explorer(
        "Programs against multiprocessors",
        picture,
        (
            Control("heads", "batch x heads", [1, 2, 4, 8, 16, 32, 64, 128, 256], 16),
            Control(
                "N", "sequence length N", [1024, 2048, 4096, 8192, 16384], 8192, "{:,}".format
            ),
            Control("gpu", "GPU", ["L4", "A100-80", "RTX-4090", "H200"], "A100-80"),
            Control("mask", "mask", list(MASKS), "full"),
        ),
    )
