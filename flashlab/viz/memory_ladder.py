"""The memories of a GPU as a ladder: size, speed, the time that the scores take on each rung."""

from dataclasses import dataclass

import torch

from flashlab import hardware
from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.picture import Picture, svg

KNOWN = tuple(key for key, gpu in hardware.GPUS.items() if gpu.l2_bytes_per_clock)
BYTES_PER_FMA = 16  # three operands of 4 bytes are read, one is written


@dataclass(frozen=True)
class Level:
    """One memory of the whole GPU: capacity in bytes, bytes/s, and how much an SM has of it."""

    name: str
    bytes: float
    bandwidth: float
    per_sm: int = 0

    def seconds(self, moved: float) -> float:
        """The time of moving some bytes once."""
        return moved / self.bandwidth


def ladder(gpu: str = "A100-80") -> tuple[Level, ...]:
    """The levels from the registers down to the memory of the card.

    The speed of registers is what the fp32 units draw at their peak; that of shared memory is 128
    bytes an SM and clock; the others are the data sheet's.

    Args:
        gpu: A key of ``hardware.GPUS`` whose L2 bandwidth is known: one of ``KNOWN``.
    """
    row = hardware.GPUS[gpu]
    if row.l2_bandwidth_gbs is None:
        raise ValueError(
            f"the course has no L2 bandwidth of {row.name}; it has {', '.join(KNOWN)}"
        )
    registers = row.register_kb << 10
    return (
        Level(
            "registers",
            row.sms * registers,
            row.peak("float32") / 2 * BYTES_PER_FMA,
            registers,
        ),
        Level(
            "shared memory",
            row.sms * row.shared_per_sm,
            row.shared_bandwidth_gbs * 1e9,
            row.shared_per_sm,
        ),
        Level("L2 cache", row.l2_mb * 2**20, row.l2_bandwidth_gbs * 1e9),
        Level("HBM", row.memory_gb * 1e9, row.bandwidth_gbs * 1e9),
    )


def amount(size: float) -> str:
    """Bytes in KB, MB, GB, TB or PB of 1,000, to three digits."""
    for unit, scale in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if size >= scale:
            return f"{size / scale:,.3g} {unit}"
    return f"{size:g} bytes"


def duration(seconds: float) -> str:
    """Seconds in ms, us or ns, to three digits."""
    for unit, scale in (("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:,.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


WIDTH, TOP, RUNG = 720, 64, 46
SIZE, SPEED = (120, 380), (440, 630)


def picture(gpu: str, N: int, heads: int, dtype: str) -> Picture:
    """Two bars a rung, size and speed, both logarithmic; a line marks how large the scores are."""
    levels, scores = ladder(gpu), heads * N * N * getattr(torch, dtype).itemsize
    size, speed = chart.LogAxis(5, 12, *SIZE), chart.LogAxis(11, 15, *SPEED)
    parts = [
        chart.text(SIZE[0], 20, "size", size=14),
        chart.text(SPEED[0], 20, "speed, and the time to move S once", size=14),
    ]
    rows = [("memory", "an SM has", "in all", "TB/s", "time to move S", "S fits")]
    for number, level in enumerate(levels):
        y, fits = TOP + number * RUNG, scores <= level.bytes
        ink = "paper" if fits else "ink"
        parts += [
            chart.text(SIZE[0] - 8, y + 19, level.name, "end"),
            chart.rect(
                SIZE[0], y, size.at(level.bytes) - SIZE[0], 28, "green" if fits else "grey"
            ),
            chart.text(SIZE[0] + 6, y + 19, amount(level.bytes), size=12, ink=ink),
            chart.rect(SPEED[0], y, speed.at(level.bandwidth) - SPEED[0], 28, "sky"),
            chart.text(SPEED[0] + 6, y + 19, f"{level.bandwidth / 1e12:,.3g} TB/s", size=12),
            chart.text(WIDTH - 6, y + 19, duration(level.seconds(scores)), "end"),
        ]
        per_sm = f"{level.per_sm >> 10} KB" if level.per_sm else "-"
        cells = (amount(level.bytes), f"{level.bandwidth / 1e12:,.3g}")
        time = duration(level.seconds(scores))
        rows.append((level.name, per_sm, *cells, time, "yes" if fits else "no"))
    edge, bottom = size.at(scores), TOP + len(levels) * RUNG
    parts.append(chart.line(edge, 46, edge, bottom - 8, "orange", 'stroke-width="3"'))
    parts.append(chart.text(edge, 40, f"S: {amount(scores)}", "middle", 12))
    parts.append(chart.text(SIZE[0], bottom + 8, "bars are logarithmic", size=12, ink="soft"))
    memory, shared = levels[-1], levels[1]
    who = "one head" if heads == 1 else f"{heads} heads"
    caption = (
        f"{hardware.GPUS[gpu].name}: the scores S of {who} at N {N:,} are {amount(scores)}. "
        f"Moving them once takes {duration(memory.seconds(scores))} from HBM and "
        f"{duration(shared.seconds(scores))} at the speed of shared memory, which is "
        f"{shared.bandwidth / memory.bandwidth:.1f} x faster than HBM."
    )
    alt = f"A ladder of four memories, smallest and fastest at the top. {caption}"
    drawing = svg(WIDTH, bottom + 18, alt, "".join(parts))
    return Picture("The memory ladder", drawing, caption, rows)


def ladder_explorer() -> Explorer:
    """GPU, length, heads and dtype of the scores."""
    lengths = [512, 1024, 2048, 4096, 8192, 16384, 32768]
    return Explorer(
        "The memory ladder",
        picture,
        (
            Control("gpu", "GPU", KNOWN, "A100-80"),
            Control("N", "sequence length N", lengths, 8192, "{:,}".format),
            Control("heads", "heads", [1, 16, 64], 1),
            Control("dtype", "dtype of S", ["float16", "float32"], "float16"),
        ),
    )
