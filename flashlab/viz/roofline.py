"""The roofline of a GPU with the steps of attention on it: what each of them waits for."""

import math
from dataclasses import dataclass

import torch

from flashlab import hardware
from flashlab.reference.cost import attention_cost, elementwise_cost
from flashlab.viz import chart
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.picture import Picture, svg
from flashlab.viz.shares import shares

STEPS = {  # in the order in which attention runs them; does it run on the tensor cores?
    "q k^T": True,
    "mask": False,
    "softmax": False,
    "dropout": False,
    "p v": True,
}
FUSED = "all in one kernel"
DTYPES = ("float32", "tfloat32", "float16", "bfloat16", "float8_e4m3fn")


@dataclass(frozen=True)
class Point:
    """One kernel on the roofline.

    Args:
        name: A step of attention, or ``FUSED``.
        flops, bytes: What it computes and moves.
        peak, bandwidth: FLOP/s of the units it runs on, bytes/s of the GPU's memory.
    """

    name: str
    flops: int
    bytes: int
    peak: float
    bandwidth: float

    @property
    def intensity(self) -> float:
        """FLOPs a byte."""
        return self.flops / self.bytes

    @property
    def attainable(self) -> float:
        """FLOP/s at most."""
        return hardware.roofline(self.peak, self.bandwidth, self.intensity)

    @property
    def arithmetic_s(self) -> float:
        """Seconds of its arithmetic alone."""
        return self.flops / self.peak

    @property
    def memory_s(self) -> float:
        """Seconds of its traffic alone."""
        return self.bytes / self.bandwidth

    @property
    def seconds(self) -> float:
        """Seconds at least."""
        return max(self.arithmetic_s, self.memory_s)

    @property
    def waits_for(self) -> str:
        """``"memory"`` or ``"arithmetic"``: the slower of the two."""
        return "memory" if self.memory_s > self.arithmetic_s else "arithmetic"


@dataclass(frozen=True)
class Roofline:
    """A GPU at one dtype, and the points of one head on it."""

    gpu: hardware.Gpu
    dtype: str
    N: int
    D: int
    points: tuple[Point, ...]

    @property
    def peak(self) -> float:
        """FLOP/s of the matrix units."""
        return self.gpu.peak(self.dtype)

    @property
    def plain_peak(self) -> float:
        """FLOP/s of everything that is not a matrix product: the fp32 units."""
        return self.gpu.peak("float32")

    @property
    def bandwidth(self) -> float:
        """Bytes/s of the memory."""
        return self.gpu.bandwidth_gbs * 1e9

    @property
    def ridge(self) -> float:
        """FLOPs a byte where the roofs of the matrix units and of memory meet."""
        return self.gpu.ridge(self.dtype)

    def point(self, name: str) -> Point:
        """The point called ``name``."""
        return next(p for p in self.points if p.name == name)


def itemsize(dtype: str) -> int:
    """Bytes of an element in memory; TF32 is stored as fp32."""
    return 4 if dtype == "tfloat32" else getattr(torch, dtype).itemsize


def roofline(gpu: str = "A100-80", dtype: str = "float16", N: int = 8192, D: int = 64) -> Roofline:
    """The five steps of attention for one head, and the same work in one kernel.

    The one kernel does all five steps' FLOPs and moves only q, k, v and o, once each: nobody can
    do with less.

    Args:
        gpu: Key of ``hardware.GPUS``.
        dtype: Of every tensor in memory, and of the matrix units.
        N: Queries and keys.
        D: Head dimension.

    Raises:
        KeyError: no such GPU, or it has no peak for ``dtype``.
    """
    row, size = hardware.GPUS[gpu], itemsize(dtype)
    cost = attention_cost(1, 1, N, N, D, dtype_bytes=size)
    extra = elementwise_cost(1, 1, N, N, dtype_bytes=size)
    costs = {"q k^T": cost["qk"], "mask": extra["mask"], "softmax": cost["softmax"]}
    costs |= {"dropout": extra["dropout"], "p v": cost["pv"]}
    bandwidth = row.bandwidth_gbs * 1e9
    points = [
        Point(name, *costs[name], row.peak(dtype if matmul else "float32"), bandwidth)
        for name, matmul in STEPS.items()
    ]
    all_flops = sum(flops for flops, _ in costs.values())
    points.append(Point(FUSED, all_flops, 4 * N * D * size, row.peak(dtype), bandwidth))
    return Roofline(row, dtype, N, D, tuple(points))


def table(r: Roofline) -> list[tuple[str, ...]]:
    """The same facts as rows of text, the heading first."""
    rows = [("kernel", "FLOPs", "bytes", "FLOPs a byte", "at least", "waits for")]
    for p in r.points:
        rows.append(
            (
                p.name,
                _count(p.flops),
                f"{p.bytes / 1e6:,.1f} MB",
                f"{p.intensity:,.{0 if p.intensity >= 100 else 2}f}",
                f"{1e6 * p.seconds:,.1f} us",
                p.waits_for,
            )
        )
    return rows


def _count(flops: int) -> str:
    """FLOPs in G, or in M where there are few."""
    return f"{flops / 1e9:,.2f} G" if flops >= 1e8 else f"{flops / 1e6:,.2f} M"


def summary(r: Roofline, step: str) -> str:
    """What the picture says of one step, in two sentences."""
    p = r.point(step)
    share = 100 * p.attainable / r.peak
    return (
        f"{r.gpu.name}, {r.dtype}: {r.peak / 1e12:,.4g} TFLOP/s and {r.bandwidth / 1e12:.2f} TB/s "
        f"meet at {r.ridge:.0f} FLOPs a byte. {p.name} does {p.intensity:,.3g} FLOPs a byte: it "
        f"waits for {p.waits_for} and reaches {p.attainable / 1e12:,.3g} TFLOP/s at most, "
        f"{share:.{0 if share >= 10 else 1}f} % of the peak."
    )


def step_shares(r: Roofline) -> Picture:
    """Who of the five steps computes, who moves, who takes the time, as shares."""
    steps = [p for p in r.points if p.name != FUSED]
    bars = {
        "FLOPs": {p.name: p.flops for p in steps},
        "bytes": {p.name: p.bytes for p in steps},
        "time at least": {p.name: p.seconds for p in steps},
    }
    flops, _, time = (
        sum(v for name, v in bar.items() if not STEPS[name]) / sum(bar.values())
        for bar in bars.values()
    )
    return shares(
        f"Who computes, who moves, who takes the time ({r.gpu.name}, N {r.N:,}, D {r.D})",
        bars,
        f"Mask, softmax and dropout do {100 * flops:.0f} % of the FLOPs and take "
        f"{100 * time:.0f} % of the least time.",
    )


WIDTH, HEIGHT = 700, 430
_SHAPES = {"q k^T": "square", "p v": "square", FUSED: "diamond"}


def picture(gpu: str, dtype: str, N: int, D: int, step: str) -> Picture:
    """The roofline with ``step`` picked out, as a picture with words and a table."""
    has = hardware.GPUS[gpu].tflops
    note = ""
    if dtype not in has:
        note = f"There are no {dtype} units on this GPU: shown is float16. "
        dtype = "float16"
    r = roofline(gpu, dtype, N, D)
    x = chart.LogAxis(-1, 5, 70, WIDTH - 34)
    y = chart.LogAxis(-2, 4, HEIGHT - 50, 40)
    caption = note + summary(r, step)
    parts = [
        chart.log_grid(x, y, "FLOPs a byte", "TFLOP/s at most"),
        _roofs(r, x, y),
        *(_point(p, x, y, picked=p.name == step) for p in r.points),
    ]
    alt = f"A roofline. {caption} Orange waits for memory, green for arithmetic."
    title = f"Roofline: {r.gpu.name}, one head, N {N:,}, D {D}"
    return Picture(title, svg(WIDTH, HEIGHT, alt, "".join(parts)), caption, table(r))


def roofline_explorer() -> Explorer:
    """GPU, dtype, sizes and the step to look at."""
    lengths = [256, 512, 1024, 2048, 4096, 8192, 16384]
    return Explorer(
        "Where the steps of attention fall",
        picture,
        (
            Control("gpu", "GPU", list(hardware.GPUS), "A100-80"),
            Control("step", "step", [*STEPS, FUSED], "softmax"),
            Control("N", "sequence length N", lengths, 8192, "{:,}".format),
            Control("D", "head dimension D", [16, 32, 64, 128, 256], 64),
            Control("dtype", "dtype", DTYPES, "float16"),
        ),
    )


def _roofs(r: Roofline, x: chart.LogAxis, y: chart.LogAxis) -> str:
    """Both flat roofs, the slope that they share, and the ridge point."""
    low = 10.0**x.low
    units = "fp32 units" if r.dtype == "float32" else "matrix units"
    top, plain = r.peak / 1e12, r.plain_peak / 1e12
    ridge, plain_ridge = r.ridge, r.plain_peak / r.bandwidth
    slope_start = (x.at(low), y.at(low * r.bandwidth / 1e12))
    corner = (x.at(ridge), y.at(top))
    dashed = 'stroke-width="2" stroke-dasharray="6 4"'
    parts = [
        chart.line(*slope_start, *corner, "ink", 'stroke-width="2.5"'),
        chart.line(*corner, x.end, corner[1], "ink", 'stroke-width="2.5"'),
        chart.line(x.at(plain_ridge), y.at(plain), x.end, y.at(plain), "soft", dashed),
        chart.line(*corner, corner[0], y.start, "soft", 'stroke-dasharray="2 4"'),
        chart.text(x.end, corner[1] - 16, f"{units}: {top:,.4g} TFLOP/s", "end"),
        chart.text(corner[0] + 6, y.start - 8, f"ridge point {ridge:.3g}", size=12, ink="soft"),
    ]
    if plain < top:
        words = f"other arithmetic (fp32): {plain:,.4g}"
        parts.append(chart.text(x.end, y.at(plain) + 17, words, "end", 12, "soft"))
    return "".join(parts)


def _point(p: Point, x: chart.LogAxis, y: chart.LogAxis, picked: bool) -> str:
    """One kernel: a square for a product, a circle for elementwise work, a diamond for all."""
    at = x.at(p.intensity), y.at(p.attainable / 1e12)
    colour = "orange" if p.waits_for == "memory" else "green"
    shape = _SHAPES.get(p.name, "circle")
    ring = ""
    if picked:
        ring = (
            f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="13" '
            'style="fill:none;stroke:var(--fl-blue);stroke-width:3"/>'
        )
    words = {"q k^T": "q k^T and p v", "p v": ""}.get(p.name, p.name)  # they share a place
    left = p.name == "q k^T" or (p.name == FUSED and at[0] > 0.7 * x.end)
    place = at[0] + (-12 if left else 12), at[1] + (-12 if p.name == "q k^T" else 20)
    label = chart.text(*place, words, "end" if left else "start")
    return ring + chart.mark(*at, shape, colour) + label


def measured(record: dict) -> Picture:
    """A measured roofline (``bench.roofline.measure``): both roofs and the sweep below them."""
    peak, bandwidth = record["peak"], record["bandwidth"]
    top = math.ceil(math.log10(peak / 1e9) + 0.1)
    x = chart.LogAxis(-1, 4, 70, WIDTH - 34)
    y = chart.LogAxis(top - 4, top, HEIGHT - 50, 40)
    low, ridge = 10.0**x.low, peak / bandwidth
    corner = x.at(ridge), y.at(peak / 1e9)
    parts = [
        chart.log_grid(x, y, "FLOPs a byte", "GFLOP/s"),
        chart.line(x.at(low), y.at(low * bandwidth / 1e9), *corner, "ink", 'stroke-width="2.5"'),
        chart.line(*corner, x.end, corner[1], "ink", 'stroke-width="2.5"'),
        chart.line(*corner, corner[0], y.start, "soft", 'stroke-dasharray="2 4"'),
        chart.text(corner[0] + 6, y.start - 8, f"ridge point {ridge:.3g}", size=12, ink="soft"),
    ]
    rows = [("K", "FLOPs a byte", "GFLOP/s", "of the roof")]
    for row in record["rows"]:
        roof = hardware.roofline(peak, bandwidth, row["intensity"])
        at = x.at(row["intensity"]), y.at(row["flops"] / 1e9)
        parts.append(chart.mark(*at, "circle", "orange" if row["intensity"] < ridge else "green"))
        parts.append(chart.text(at[0] + 10, at[1] + 18, f"K {row['K']}", size=12))
        share = f"{100 * row['flops'] / roof:.0f} %"
        rate = f"{row['flops'] / 1e9:,.1f}"
        rows.append((str(row["K"]), f"{row['intensity']:.1f}", rate, share))
    facts = record["facts"]
    caption = (
        f"{facts['card']}, {facts['date']}, {record['dtype']}: {peak / 1e9:,.0f} GFLOP/s and "
        f"{bandwidth / 1e9:,.0f} GB/s at best ({facts['how']}). They meet at {ridge:.3g} FLOPs a "
        "byte."
    )
    alt = f"A measured roofline. {caption}"
    drawing = svg(WIDTH, HEIGHT, alt, "".join(parts))
    return Picture("A measured roofline", drawing, caption, rows if record["rows"] else ())
