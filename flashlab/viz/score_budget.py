"""How much on-chip memory complete score rows need, and how much a tile of them."""

from dataclasses import dataclass

import torch

from flashlab import hardware
from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.picture import Picture, svg

FP32 = 4


@dataclass(frozen=True)
class Budget:
    """Bytes of one program that works on ``block_m`` query rows of one head.

    Args:
        limit: Shared memory that one block may have.
        rows: ``block_m`` complete rows of scores.
        tile: A ``block_m`` x ``block_n`` tile of scores.
        held: What a tiled program holds at once: tiles of q, k, v and the scores in the inputs'
            dtype; the output and two statistics a row in fp32.
        matrix: All scores of the head.
    """

    limit: int
    rows: int
    tile: int
    held: int
    matrix: int


def budget(
    N: int, block_m: int, block_n: int, dtype: str = "float16", gpu: str = "A100-80", D: int = 64
) -> Budget:
    """The sizes in bytes.

    Args:
        N: Keys of a head.
        block_m, block_n: Query rows and keys of a tile.
        dtype: Of q, k, v and the scores.
        gpu: Key of ``hardware.GPUS``.
        D: Head dimension.
    """
    size = getattr(torch, dtype).itemsize
    tile = block_m * block_n * size
    operands = (block_m + 2 * block_n) * D * size
    state = block_m * D * FP32 + 2 * block_m * FP32
    return Budget(
        limit=hardware.GPUS[gpu].shared_per_block,
        rows=block_m * N * size,
        tile=tile,
        held=operands + tile + state,
        matrix=N * N * size,
    )


def on_chip(size: int) -> str:
    """A size that competes for the chip, in KB of 1,024 bytes, as data sheets of SRAM say it."""
    return f"{size / 1024:,.4g} KB" if size < 1000 << 10 else f"{size / 1024:,.0f} KB"


def in_memory(size: int) -> str:
    """A size in device memory, in MB of 1,000,000 bytes, as data sheets of DRAM say it."""
    return f"{size / 1e6:,.3g} MB" if size < 1e9 else f"{size / 1e6:,.0f} MB"


def share(size: int, limit: int) -> str:
    """A size as a part of the limit: 50 %, or 12.6 x."""
    return f"{size / limit:,.1f} x" if size > limit else f"{100 * size / limit:.0f} %"


WIDTH, HEIGHT, LEFT, BAR = 720, 240, 190, 26
Bars = tuple[tuple[str, int, str], ...]  # name, bytes, the bytes in words


def _draw(bars: Bars, limit: int, name: str) -> str:
    """Bars on a logarithmic scale, with a line where the limit is."""
    axis = chart.LogAxis(3, 11, LEFT, WIDTH - 100)
    edge = axis.at(limit)
    parts = []
    for number, (label, size, words) in enumerate(bars):
        y = 46 + number * (BAR + 16)
        colour = "orange" if size > limit else "green"
        parts.append(chart.rect(LEFT, y, axis.at(size) - LEFT, BAR, colour))
        parts.append(chart.text(LEFT - 8, y + 19, label, "end"))
        parts.append(chart.text(WIDTH - 6, y + 19, words, "end"))
    scale = "logarithmic scale; KB are 1,024 bytes, MB are 1,000,000"
    parts += [
        chart.line(edge, 30, edge, HEIGHT - 26, "ink", 'stroke-width="2.5"'),
        chart.text(edge, 22, f"{name}: {on_chip(limit)} a block", "middle"),
        chart.text(LEFT, HEIGHT - 8, scale, size=12, ink="soft"),
    ]
    return "".join(parts)


def picture(N: int, block_m: int, block_n: int, dtype: str, gpu: str) -> Picture:
    """What a program would hold and what it holds, beside the limit."""
    b = budget(N, block_m, block_n, dtype, gpu)
    bars = (
        (f"all scores, {N:,} x {N:,}", b.matrix, in_memory(b.matrix)),
        (f"{block_m} complete rows", b.rows, on_chip(b.rows)),
        (f"a tiled program, {block_m} x {block_n}", b.held, on_chip(b.held)),
        ("its scores alone", b.tile, on_chip(b.tile)),
    )
    fits = "fit" if b.rows <= b.limit else "do not fit"
    caption = (
        f"{block_m} complete rows of {N:,} scores take {on_chip(b.rows)}, "
        f"{share(b.rows, b.limit)} of what a block may have: they {fits}. A tiled program holds "
        f"{on_chip(b.held)} at once, {share(b.held, b.limit)} of the limit, whatever N is "
        "(part of it in registers)."
    )
    rows = [("", "bytes", "size", "of the limit")]
    rows += [(name, f"{size:,}", words, share(size, b.limit)) for name, size, words in bars]
    alt = f"Bars of memory beside the limit of {on_chip(b.limit)}. {caption}"
    drawing = _draw(bars, b.limit, hardware.GPUS[gpu].name)
    return Picture("What has to fit on the chip", svg(WIDTH, HEIGHT, alt, drawing), caption, rows)


def score_budget() -> Explorer:
    """Complete score rows against a tile of them, beside the shared memory of a block."""
    lengths = [256, 512, 1024, 2048, 4096, 8192, 16384, 65536]
    return Explorer(
        "What has to fit on the chip",
        picture,
        (
            Control("N", "sequence length N", lengths, 8192, "{:,}".format),
            Control("block_m", "query rows BLOCK_M", [16, 32, 64, 128, 256], 128),
            Control("block_n", "keys BLOCK_N", [16, 32, 64, 128], 64),
            Control("dtype", "dtype of scores", ["float16", "float32"], "float16"),
            Control("gpu", "GPU", ["T4", "A100-80", "RTX-4090", "H100-SXM"], "A100-80"),
        ),
    )
