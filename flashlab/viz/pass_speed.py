"""Rates of a pass beside each other, from ``flashlab bench flash2_forward`` or ``_backward``."""

import math
from collections.abc import Sequence
from typing import Any

from flashlab.viz import chart
from flashlab.viz.bench_roofline import versions
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.picture import Picture, svg

WIDTH, LEFT, BAR = 720, 190, 20
NAMES = {  # a version beside ours -> what a reader calls it
    "sdpa flash": "SDPA, flash",
    "cudnn": "SDPA, cuDNN",
    "flex": "FlexAttention",
    "with quantisation": "this course, with rounding",
    "cudnn fp16": "SDPA, cuDNN, fp16",
    "sdpa flash fp16": "SDPA, flash, fp16",
    "standard": "standard, five kernels",
    "deterministic": "dq in its own pass",
    "flash2_backward": "chapter 07's",
}
PASSES = {  # the bench -> what it times, and the FLOPs of the convention over B H N^2 D
    "flash2_forward": ("forward", 4),
    "tma_forward": ("forward", 4),
    "flash3_forward": ("forward", 4),
    "flash3_variants": ("forward", 4),
    "flash3_steps": ("forward", 4),
    "fp8_hopper": ("forward", 4),
    "flash2_backward": ("backward", 10),
    "flash3_backward": ("backward", 10),
    "flash3_backward_steps": ("backward", 10),
}
FILLS = {"ours": "orange", "standard": "grey"}  # other versions are blue


def rates(row: dict[str, Any]) -> dict[str, float]:
    """Version -> TFLOP/s of one row, in the record's order; what was not measured is left out."""
    return {
        name: row["work"] / ms / 1e9
        for name, ms in row["ms"].items()
        if ms is not None and not math.isnan(ms)
    }


def against(found: dict[str, float]) -> str:
    """The version that others are compared with: ours, or the fastest where none is ours."""
    return "ours" if "ours" in found else max(found, key=found.__getitem__)


def _called(name: str) -> str:
    return "this course" if name == "ours" else NAMES.get(name, name)


def causal(row: dict[str, Any], slug: str) -> bool:
    """Whether a row is of a causal mask: then the convention counts half of the FLOPs."""
    return row["work"] < PASSES[slug][1] * row["B"] * row["H"] * row["N"] ** 2 * row["D"]


def setting(row: dict[str, Any], slug: str) -> str:
    """What the rows of one picture have in common."""
    return f"D {row['D']}, {'causal' if causal(row, slug) else 'full'}"


def picture(record: dict[str, Any], which: str) -> Picture:
    """Bars of TFLOP/s by version, a group for each N."""
    slug = record["slug"]
    rows = [row for row in record["rows"] if setting(row, slug) == which]
    y, parts = 6, []
    most = max(rate for row in rows for rate in rates(row).values())
    for row in rows:
        parts.append(chart.text(4, y + 15, f"N {row['N']:,}", size=14))
        for name, rate in rates(row).items():
            length = rate / most * (WIDTH - LEFT - 60)
            parts += [
                chart.text(LEFT - 8, y + 15, _called(name), "end", 12),
                chart.rect(LEFT, y, length, BAR - 3, FILLS.get(name, "blue")),
                chart.text(LEFT + length + 6, y + 14, f"{rate:.0f}", size=12),
            ]
            y += BAR
        y += 12
    caption = f"{which}, {_caption(rows[-1], slug)}"
    title = f"{PASSES[slug][0].capitalize()} pass, {_dtype(slug)}: {versions(record['facts'])}"
    drawing = svg(WIDTH, y, f"Bars of TFLOP/s. {caption}", "".join(parts))
    return Picture(title, drawing, caption, _table(rows))


def _dtype(slug: str) -> str:
    return "FP8" if slug.startswith("fp8") else "fp16"


def _caption(longest: dict[str, Any], slug: str) -> str:
    found = rates(longest)
    first = against(found)
    name, flops = PASSES[slug]
    near = " and ".join(
        f"{found[first] / rate:.2f} times that of {_called(other)}"
        for other, rate in found.items()
        if other != first
    )
    compared = f"the speed of the course's {name} pass is {near}"
    if first != "ours":
        compared = f"the fastest here is: {first}"
    return (
        f"TFLOP/s, where a {name} pass counts {flops} B H N^2 D FLOPs, half under a causal mask. "
        f"At N = {longest['N']:,} {compared}."
    )


def _table(rows: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    ours = all("ours" in rates(row) for row in rows)
    table = [("N", "version", "ms", "TFLOP/s", "times ours" if ours else "times the fastest")]
    for row in rows:
        found = rates(row)
        for name, rate in found.items():
            ms, ratio = row["ms"][name], rate / found[against(found)]
            cells = f"{ms:.3g}", f"{rate:.0f}", f"{ratio:.2f}"
            table.append((f"{row['N']:,}", _called(name), *cells))
    return table


def pass_speed(record: dict[str, Any], only: Sequence[str] = ()) -> Explorer:
    """A record's figures, one head dimension and mask at a time; ``only`` these versions, if any.

    Raises:
        ValueError: the record holds no rows.
    """
    slug = record["slug"]
    if not record["rows"]:
        raise ValueError(f"the record holds no rows: run `flashlab bench {slug} --out FILE`")
    if only:
        kept = [
            row | {"ms": {name: row["ms"][name] for name in only if name in row["ms"]}}
            for row in record["rows"]
        ]
        record = record | {"rows": kept}
    settings = list(dict.fromkeys(setting(row, slug) for row in record["rows"]))
    return Explorer(
        f"{PASSES[slug][0].capitalize()} pass, measured",
        lambda which: picture(record, which),
        (Control("which", "sizes", settings, settings[0]),),
    )
