"""The steps round softmax as kernels of their own and as one: bytes as the recorder counts."""

import functools
from dataclasses import dataclass

import torch

from flashlab import hardware
from flashlab.iocount import count_io
from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.memory_ladder import amount, duration
from flashlab.viz.picture import Picture, svg
from flashlab.worked import chain

CHAINS = (
    ("softmax",),
    ("mask", "softmax"),
    ("scale", "mask", "softmax"),
    ("scale", "mask", "softmax", "dropout"),
)
ONE = "one kernel"


@dataclass(frozen=True)
class Fusion:
    """Bytes loaded and stored by each kernel of a chain, and by the fused one; one head."""

    N: int
    matrix: int
    apart: dict[str, tuple[int, int]]
    one: tuple[int, int]
    difference: float

    @property
    def apart_bytes(self) -> int:
        """What all separate kernels move."""
        return sum(map(sum, self.apart.values()))

    @property
    def one_bytes(self) -> int:
        """What the fused kernel moves."""
        return sum(self.one)


@functools.cache
def fusion(N: int, steps: tuple[str, ...], dtype: str = "float16") -> Fusion:
    """Run both forms on random scores under the recorder.

    Args:
        N: Queries and keys of the head.
        steps: Of ``chain.STEPS``, in that order.
        dtype: Of every matrix in memory.
    """
    generator = torch.Generator().manual_seed(N)
    s = torch.randn(N, N, generator=generator).to(getattr(torch, dtype))
    x, apart = s, {}
    for name in steps:
        with count_io(races=False) as tally:
            x = chain.step(name, x, factor=0.125)
        apart[name] = (tally.load_bytes(), tally.store_bytes())
    with count_io(races=False) as tally:
        y = chain.fused(s, steps, factor=0.125)
    one = (tally.load_bytes(), tally.store_bytes())
    return Fusion(N, s.nbytes, apart, one, float((x.float() - y.float()).abs().max()))


WIDTH, LEFT, BAR, GAP = 720, 120, 24, 10


def picture(steps: int, N: int, dtype: str) -> Picture:
    """A bar a kernel, bytes in and out, the fused kernel below; ``steps`` counts into CHAINS."""
    names = CHAINS[steps - 1]
    f = fusion(N, names, dtype)
    longest = max(f.apart_bytes, f.one_bytes)
    scale = (WIDTH - LEFT - 110) / longest
    parts = [
        chart.rect(LEFT, 6, 14, 14, "blue") + chart.text(LEFT + 20, 18, "loaded"),
        chart.rect(LEFT + 110, 6, 14, 14, "orange") + chart.text(LEFT + 130, 18, "stored"),
    ]
    bars = [*f.apart.items(), ("all of them", _sum(f)), (ONE, f.one)]
    rows = [("kernel", "loaded", "stored", "together", "matrices")]
    y = 36
    for name, (loaded, stored) in bars:
        y += 14 if name in ("all of them", ONE) else 0
        middle, end = LEFT + loaded * scale, LEFT + (loaded + stored) * scale
        parts += [
            chart.text(LEFT - 8, y + 17, name, "end"),
            chart.rect(LEFT, y, middle - LEFT - 1, BAR, "blue"),
            chart.rect(middle, y, end - middle, BAR, "orange"),
            chart.text(end + 6, y + 17, amount(loaded + stored)),
        ]
        y += BAR + GAP
        times = f"{(loaded + stored) / f.matrix:.1f}"
        rows.append((name, f"{loaded:,}", f"{stored:,}", f"{loaded + stored:,}", times))
    caption = _caption(f, dtype)
    alt = f"Bars of bytes loaded and stored. {caption}"
    return Picture(
        f"{len(names)} kernel{'s' if len(names) > 1 else ''} against one, N {N}, {dtype}",
        svg(WIDTH, y + 6, alt, "".join(parts)),
        caption,
        rows,
    )


def _sum(f: Fusion) -> tuple[int, int]:
    loaded, stored = zip(*f.apart.values(), strict=True)
    return sum(loaded), sum(stored)


def _caption(f: Fusion, dtype: str) -> str:
    gpu, large = hardware.GPUS["A100-80"], 8192
    matrix = large * large * getattr(torch, dtype).itemsize
    apart, one = (
        duration(moved / f.matrix * matrix / (gpu.bandwidth_gbs * 1e9))
        for moved in (f.apart_bytes, f.one_bytes)
    )
    times = f.apart_bytes / f.one_bytes
    less = f", which is {times:.0f} x less" if times > 1 else ", as many"
    return (
        f"Counted: apart {f.apart_bytes / f.matrix:.0f} matrices move, fused "
        f"{f.one_bytes / f.matrix:.0f}{less}. At N "
        f"{large:,} that is at least {apart} against {one} on an A100. The results differ by "
        f"{f.difference:.0e} at most."
    )


def fusion_explorer() -> Explorer:
    """How many steps, how long, which dtype; counted anew at each place."""
    return Explorer(
        "Kernels apart against one kernel",
        picture,
        (
            Control("steps", "steps round softmax", [1, 2, 3, 4], 4),
            Control("N", "N (counted here)", [16, 37, 64, 100], 64),
            Control("dtype", "dtype", ["float16", "float32"], "float16"),
        ),
    )
