"""Decode with split keys: a head's keys as shares, and how many programs each SM gets."""

from dataclasses import dataclass
from math import ceil

from flashlab import hardware
from flashlab.iocount import bounds
from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.memory_ladder import amount
from flashlab.viz.picture import Picture, svg

FP16, BLOCK_N, D = 2, 32, 128  # BLOCK_N: keys of a tile in lab 10


@dataclass(frozen=True)
class Work:
    """How a decode step is spread.

    Args:
        programs: One a share of a key head of a sequence.
        share: Keys of a full share, whole tiles.
        empty: Shares of each head that have no key.
        on_sm: Programs that each SM gets if they are dealt out in turn.
        busiest: Keys that the SM with most of them reads.
        even: Keys that each SM would read if all had the same.
        cache, parts: Bytes of k and v; bytes of q, parts, o and lse.
    """

    programs: int
    share: int
    empty: int
    on_sm: tuple[int, ...]
    busiest: int
    even: float
    cache: int
    parts: int

    @property
    def busy(self) -> int:
        """SMs that have a program."""
        return sum(count > 0 for count in self.on_sm)


def work(B: int, H_kv: int, group: int, N: int, splits: int, sms: int) -> Work:
    """Deal ``splits * B * H_kv`` programs to SMs in turn; an empty share takes a place too.

    Args:
        B, H_kv, group, N: Sequences, key heads, query heads of a key head, cached keys.
        splits: Shares of the keys of each key head.
        sms: SMs of the GPU.
    """
    programs, tiles = splits * B * H_kv, ceil(N / BLOCK_N)
    share = ceil(tiles / splits) * BLOCK_N
    keys = [max(0, min(N - s * share, share)) for s in range(splits)]
    on_sm, read = [0] * sms, [0] * sms
    for program in range(programs):
        on_sm[program % sms] += 1
        read[program % sms] += keys[program % splits]
    form = bounds.split_kv_bytes(B, H_kv * group, H_kv, N, D, splits, FP16)
    moved = bounds.moved_bytes(form)
    cache = moved["k"] + moved["v"]
    even = B * H_kv * N / sms
    rest = sum(moved.values()) - cache
    return Work(programs, share, keys.count(0), tuple(on_sm), max(read), even, cache, rest)


WIDTH, LEFT, SIDE, ROW = 720, 10, 26, 24
FILLS = (("grey", "ink"), ("sky", "ink"), ("blue", "paper"))  # of 0, 1 and more programs


def picture(gpu: str, B: int, H_kv: int, group: int, N: int, splits: int) -> Picture:
    """One head's keys cut into shares; the SMs with the number of their programs."""
    card = hardware.GPUS[gpu]
    w = work(B, H_kv, group, N, splits, card.sms)
    parts = [chart.text(LEFT, 18, f"the {N:,} keys of one head, num_splits {splits}")]
    scale = (WIDTH - 2 * LEFT) / N
    for split in range(splits - w.empty):
        first = split * w.share
        width = min(w.share, N - first) * scale
        fill = ("blue", "sky")[split % 2]
        parts.append(
            chart.rect(LEFT + first * scale, 26, width - (0.5 if width > 3 else 0), 22, fill)
        )
    parts.append(chart.text(LEFT, 76, f"the {card.sms} SMs, each with its number of programs"))
    for sm, count in enumerate(w.on_sm):
        x, y = LEFT + sm % ROW * (SIDE + 3), 86 + sm // ROW * (SIDE + 3)
        fill, ink = FILLS[min(count, 2)]
        parts.append(chart.rect(x, y, SIDE, SIDE, fill))
        parts.append(chart.text(x + SIDE / 2, y + 18, f"{count}", "middle", 12, ink))
    caption, share = _caption(w, card.sms), 100 * w.parts / (w.parts + w.cache)
    rows = [
        ("what", "how many"),
        ("programs", f"{w.programs:,}"),
        ("SMs with work", f"{w.busy} of {card.sms}"),
        ("keys of a share", f"{w.share:,}"),
        ("keys of the busiest SM", f"{w.busiest:,}"),
        ("keys of each, if even", f"{w.even:,.0f}"),
        ("k and v", amount(w.cache)),
        ("q, parts, o, lse", f"{amount(w.parts)} ({share:.1f} %)"),
    ]
    height = 92 + ceil(card.sms / ROW) * (SIDE + 3)
    alt = f"A bar of shares and a grid of SMs. {caption}"
    title = f"{card.name}: B {B}, H {H_kv * group}, H_kv {H_kv}, N {N:,}, D {D}, fp16"
    return Picture(title, svg(WIDTH, height, alt, "".join(parts)), caption, rows)


def _caption(w: Work, sms: int) -> str:
    idle = sms - w.busy
    said = f"{idle} of {sms} SMs have nothing to do." if idle else "Every SM has work."
    said += f" The busiest reads {w.busiest / w.even:.2f} times its even part."
    if w.empty:
        said += f" {w.empty} shares of each head are empty."
    return said


def splits_explorer() -> Explorer:
    """A card, a cache, and the number of shares."""
    return Explorer(
        "Shares of the keys and the SMs",
        picture,
        (
            Control("splits", "num_splits", [1, 2, 3, 4, 8, 16, 17, 32, 64, 128], 1),
            Control("N", "cached keys N", [1000, 8192, 65536], 65536, "{:,}".format),
            Control("B", "sequences B", [1, 2, 16], 1),
            Control("H_kv", "key heads H_kv", [1, 8, 32], 8),
            Control("group", "query heads of each", [1, 4, 8], 4),
            Control("gpu", "GPU", ["T4", "A100-80", "H200"], "H200"),
        ),
    )
