"""The figures of ``flashlab bench flash_forward`` on the card's measured roofline; no GPU."""

import json
import math
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from flashlab import hardware
from flashlab.bench.attention import flops
from flashlab.iocount import bounds
from flashlab.viz import chart, palette
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.picture import Picture, svg
from flashlab.worked import flash1

FP16 = 2
NAMES = {  # version in the record -> what a reader calls it
    "ours": "this course",
    "sdpa flash": "SDPA, flash",
    "cudnn": "SDPA, cuDNN",
    "standard": "standard, three kernels",
    "FA1 order": "keys outside, as FA1",
}


@dataclass(frozen=True)
class Point:
    """One version at one size: what it reached, and what the card's ceilings would allow.

    Args:
        name: As in ``NAMES``.
        intensity: FLOPs per byte of the traffic that its algorithm asks for.
        tflops: Measured TFLOP/s.
        attainable: TFLOP/s under the measured matmul and copy ceilings at that intensity.
        ms: Measured milliseconds.
    """

    name: str
    intensity: float
    tflops: float
    attainable: float
    ms: float


def asked_bytes(version: str, B: int, H: int, N: int, D: int) -> int:
    """Bytes between memory and chip that a version's algorithm asks for, by closed form.

    The fused kernels count q, k, v, o and lse once each: queries of one head run side by side
    and find K and V in the L2 cache. Standard attention adds four passes over N x N.
    """
    if version == "standard":
        return bounds.total_bytes(bounds.standard_forward_bytes(B, H, N, N, D, FP16))
    if version == "FA1 order":
        blocks = flash1.BLOCK_M, flash1.BLOCK_N
        return bounds.total_bytes(bounds.flash1_forward_bytes(B, H, N, N, D, *blocks, FP16))
    return bounds.total_bytes(bounds.flash_forward_bytes(B, H, N, N, D, N, N, FP16))


def points(record: dict[str, Any], row: dict[str, Any]) -> list[Point]:
    """The versions measured in one row of a record, the fastest first."""
    sizes = {name: row[name] for name in ("B", "H", "N", "D")}
    work = flops(**sizes, causal=row["causal"])
    top = record["ceilings"]
    found = []
    for version, ms in row["ms"].items():
        if ms is None or math.isnan(ms):
            continue
        intensity = work / asked_bytes(version, **sizes)
        roof = hardware.roofline(top["matmul_tflops"], top["copy_tbs"], intensity)
        found.append(Point(NAMES.get(version, version), intensity, work / ms / 1e9, roof, ms))
    return sorted(found, key=lambda point: -point.tflops)


def versions(facts: dict[str, Any]) -> str:
    """Card, date and versions in one line."""
    found = [f"torch {facts['torch'].split('+')[0]}", f"Triton {facts['triton']}"]
    if facts.get("cudnn", "").isdigit():  # torch gives 91900 for 9.19.0
        number = int(facts["cudnn"])
        found.append(f"cuDNN {number // 10000}.{number // 100 % 100}")
    return f"{facts['card']}, {facts['date']}, {', '.join(found)}"


def title(record: dict[str, Any]) -> str:
    """What was measured, where and when."""
    return f"Forward pass, fp16: {versions(record['facts'])}"


def sizes_of(row: dict[str, Any]) -> str:
    """A row's sizes in words."""
    return f"D {row['D']}, {'causal' if row['causal'] else 'full'}, N {row['N']:,}"


WIDTH, HEIGHT = 720, 430
_SHAPES = {"this course": "diamond", "SDPA, flash": "square", "SDPA, cuDNN": "square"}


def picture(record: dict[str, Any], row: dict[str, Any]) -> Picture:
    """The measured roofline, with the points of one row of the record."""
    found, top = points(record, row), record["ceilings"]
    x = chart.LogAxis(1, 4, 74, WIDTH - 190)
    slowest = min(p.tflops for p in found)
    y = chart.LogAxis(min(1, math.floor(math.log10(slowest))), 3, HEIGHT - 56, 40)
    peak, slope = top["matmul_tflops"], top["copy_tbs"]
    corner = x.at(peak / slope), y.at(peak)
    start = x.at(10.0**x.low), y.at(10.0**x.low * slope)
    parts = [
        chart.log_grid(x, y, "FLOPs per byte that the algorithm asks for", "TFLOP/s"),
        chart.line(*start, *corner, "ink", 'stroke-width="2.5"'),
        chart.line(*corner, x.end, corner[1], "ink", 'stroke-width="2.5"'),
        chart.text(x.end, corner[1] - 8, f"matmul measured: {peak:.0f} TFLOP/s", "end", 12),
        chart.text(x.at(24), y.start - 30, f"copy measured: {slope:.2f} TB/s", size=12),
        chart.line(x.at(22), y.start - 38, x.at(15), y.at(15 * slope), "soft"),
        *_marks(found, x, y),
    ]
    best = found[0]
    caption = (
        f"{sizes_of(row)}, B {row['B']}, H {row['H']}. The fastest is {best.name} with "
        f"{best.tflops:.0f} TFLOP/s, {100 * best.tflops / peak:.0f} % of the matmul ceiling."
    )
    table = [("version", "ms", "TFLOP/s", "FLOPs a byte", "of its roof")]
    table += [
        (p.name, f"{p.ms:.3f}", f"{p.tflops:.0f}", f"{p.intensity:,.0f}",
         f"{100 * p.tflops / p.attainable:.0f} %")
        for p in found
    ]  # fmt: skip
    alt = f"Roofline with measured points. {caption}"
    return Picture(title(record), svg(WIDTH, HEIGHT, alt, "".join(parts)), caption, table)


def _marks(found: list[Point], x: chart.LogAxis, y: chart.LogAxis) -> list[str]:
    """Marks at their places, ours on top; names in a column at the right, none on another."""
    names, marks, last = [], [], 0.0
    for point in found:
        at = x.at(point.intensity), y.at(point.tflops)
        last = max(at[1], last + 18)
        names += [
            chart.line(at[0] + 8, at[1], x.end + 8, last, "soft", 'stroke-opacity="0.5"'),
            chart.text(x.end + 12, last + 4, f"{point.name} {point.tflops:.0f}", size=12),
        ]
        ours = point.name == NAMES["ours"]
        shape, colour = _SHAPES.get(point.name, "circle"), "orange" if ours else "blue"
        marks.append((ours, chart.mark(*at, shape, colour)))
    return [*names, *(mark for _, mark in sorted(marks, key=lambda row: row[0]))]


def bench_roofline(record: dict[str, Any]) -> Explorer:
    """Every size of a record, one at a time.

    Raises:
        ValueError: the record holds no rows.
    """
    if not record["rows"]:
        raise ValueError("the record holds no rows: run `flashlab bench flash_forward --out FILE`")
    rows = {sizes_of(row): row for row in record["rows"]}
    most = max(rows, key=lambda name: (len(rows[name]["ms"]), rows[name]["N"]))
    return Explorer(
        "Forward pass, measured",
        lambda size: picture(record, rows[size]),
        (Control("size", "size", list(rows), most),),
    )


def load(path: Path | str) -> dict[str, Any]:
    """A record that ``flashlab bench flash_forward --out`` saved.

    Raises:
        ValueError: the file cannot be read, or is no such record.
    """
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read as a record: {error}") from None
    if not isinstance(record, dict) or not {"facts", "ceilings", "rows"} <= set(record):
        raise ValueError(f"{path} is no record of `flashlab bench flash_forward --out`")
    return record


def page(record: dict[str, Any]) -> str:
    """All sizes of a record as one HTML document without outside requests."""
    figures = "".join(picture(record, row)._repr_html_() for row in record["rows"])
    look = f"<style>{palette.css()}body{{background:var(--fl-paper)}}</style>"
    head = f'<meta charset="utf-8"><title>{escape(title(record))}</title>{look}'
    return f'<!doctype html><html lang="en">{head}{figures}</html>\n'


def main(saved: str) -> int:
    """Print a saved record as tables and draw it as a page beside the file; exit code 0."""
    record = load(saved)
    target = Path(saved).with_suffix(".html")
    for row in record["rows"]:
        print(f"{picture(record, row)!r}\n")
    target.write_text(page(record), encoding="utf-8")
    print(f"drawn: {target}")
    return 0
