"""From bytes asked for to bytes of DRAM: a model of the L2 between a flash kernel and memory."""

import functools
from collections import OrderedDict
from dataclasses import dataclass
from math import ceil

from flashlab import hardware
from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.memory_ladder import amount
from flashlab.viz.picture import Picture, svg

FP16, BLOCK_M = 2, 128
PARTS = 16  # pieces of K and V of a head that the model follows
NO_L2 = "no L2"


@dataclass(frozen=True)
class Reuse:
    """Bytes that a forward pass loads, all heads together.

    Args:
        asked: What its programs ask for: q once, k and v once for each block of queries.
        dram: What comes from DRAM under the model.
        distinct: q, k and v once.
        running: Heads that run at a time, at most.
        wanted: K and V of those.
    """

    asked: int
    dram: int
    distinct: int
    running: int
    wanted: int


@functools.cache
def reuse(N: int, D: int, heads: int, sms: int, l2_bytes: float) -> Reuse:
    """Programs of BLOCK_M queries start in order, one an SM, and walk along the keys in step.

    The L2 keeps what was used last (LRU). Requests for the same piece in the same step count once,
    unless there is no L2 at all. q is read once and takes no room.

    Args:
        N, D: Sequence length and head dimension, fp16.
        heads: Heads of all batches.
        sms: Programs that run at a time.
        l2_bytes: Size of the L2; 0 for none.
    """
    blocks, head = ceil(N / BLOCK_M), 2 * N * D * FP16
    queries = heads * N * D * FP16
    asked, distinct = queries + heads * blocks * head, queries + heads * head
    programs = heads * blocks
    waves = [(start, min(start + sms, programs) - 1) for start in range(0, programs, sms)]
    most = max(last // blocks - start // blocks + 1 for start, last in waves)
    held: OrderedDict[tuple[int, int], None] = OrderedDict()
    room, missed = int(l2_bytes // (head / PARTS)), 0
    for start, last in waves if l2_bytes else ():
        running = range(start // blocks, last // blocks + 1)
        for part in range(PARTS):
            for h in running:
                if (h, part) in held:
                    held.move_to_end((h, part))
                    continue
                missed += 1
                held[h, part] = None
                if len(held) > room:
                    held.popitem(last=False)
    dram = queries + missed * head // PARTS if l2_bytes else asked
    return Reuse(asked, dram, distinct, most, most * head)


WIDTH, HEIGHT, LEFT, BAR = 720, 150, 190, 26


def picture(gpu: str, N: int, D: int, heads: int) -> Picture:
    """Three bars on a logarithmic scale: asked for, from DRAM, distinct."""
    card = hardware.GPUS["H200" if gpu == NO_L2 else gpu]
    l2 = 0.0 if gpu == NO_L2 else card.l2_mb * 2.0**20
    r = reuse(N, D, heads, card.sms, l2)
    bars = (
        ("asked for", r.asked, "grey"),
        ("from DRAM (model)", r.dram, "orange"),
        ("distinct: q, k, v", r.distinct, "blue"),
    )
    axis, parts = chart.LogAxis(5, 14, LEFT, WIDTH - 90), []
    for number, (name, size, colour) in enumerate(bars):
        y = 12 + number * (BAR + 12)
        end = axis.at(size)
        parts += [
            chart.text(LEFT - 8, y + 18, name, "end"),
            chart.rect(LEFT, y, end - LEFT, BAR, colour),
            chart.text(end + 8, y + 18, amount(size)),
        ]
    parts.append(chart.text(LEFT, HEIGHT - 12, "logarithmic scale", size=12, ink="soft"))
    if gpu == NO_L2:
        said = "Without an L2 every request goes to DRAM."
    else:
        fits = "which fit" if r.wanted <= l2 else "which do not fit"
        many = f"{r.running} heads run" if r.running > 1 else "one head runs"
        said = (
            f"At most {many} at a time, with {amount(r.wanted)} of K and V, {fits} into the "
            f"{card.l2_mb:g} MB of the {card.name}. DRAM gives {_share(r)}."
        )
    alt = f"Bars of bytes. {said}"
    rows = [("", "bytes", "size", "times distinct")]
    rows += [(name, f"{n:,}", amount(n), f"{n / r.distinct:.2f}") for name, n, _ in bars]
    title = f"What the L2 leaves for DRAM, {heads} heads, N {N:,}, D {D}, BLOCK_M {BLOCK_M}, fp16"
    return Picture(title, svg(WIDTH, HEIGHT, alt, "".join(parts)), said, rows)


def _share(r: Reuse) -> str:
    if r.dram <= 1.005 * r.distinct:
        return f"each byte once, {r.asked / r.dram:.0f} times less than is asked for"
    return (
        f"{r.dram / r.distinct:.1f} times the distinct bytes, {r.asked / r.dram:.0f} times less "
        "than is asked for, since programs in step share what they load"
    )


def l2_reuse() -> Explorer:
    """A card or none of its L2, and the sizes of a forward pass."""
    cards = [NO_L2, "T4", "A100-80", "RTX-4090", "H200"]
    return Explorer(
        "What the L2 leaves for DRAM",
        picture,
        (
            Control("gpu", "GPU", cards, "H200"),
            Control("N", "N", [1024, 4096, 16384, 65536, 262144], 4096, "{:,}".format),
            Control("D", "head dimension D", [64, 128], 64),
            Control("heads", "heads of all batches", [1, 16, 64], 64),
        ),
    )
