"""A training step with three attentions, from ``flashlab bench gpt``: time, memory, MFU by N."""

from typing import Any

from flashlab import hardware
from flashlab.capstone import flops
from flashlab.capstone.gpt import GPT2_MEDIUM
from flashlab.reproduce import fa2
from flashlab.viz import chart
from flashlab.viz.bench_roofline import versions
from flashlab.viz.explorer import Control, Explorer
from flashlab.viz.picture import Picture, svg

WIDTH, LEFT, BAR = 720, 190, 24
NAMES = {"ours": "this course", "sdpa flash": "SDPA, flash", "standard": "standard attention"}
FILLS = {"ours": "orange", "sdpa flash": "blue", "standard": "green"}
WHAT = ("time", "memory", "tokens a second", "MFU")
OUT = "out of memory"


def values(record: dict[str, Any], row: dict[str, Any], what: str) -> dict[str, float | None]:
    """Attention -> one figure of a row, in ms, GB, thousand tokens a second, or percent."""
    peak = hardware.find(record["facts"]["card"]).peak("bfloat16")
    work, tokens = flops.step_flops(GPT2_MEDIUM, row["B"], row["N"]), row["B"] * row["N"]
    found = {}
    for name, ms in row["ms"].items():
        figures = None
        if ms is not None:
            figures = {
                "time": ms,
                "memory": row["peak_bytes"][name] / 1e9,
                "tokens a second": tokens / ms,
                "MFU": 100 * fa2.mfu(1e3 * work / ms, peak),
            }
        found[name] = figures and figures[what]
    return found


UNITS = {"time": "ms", "memory": "GB", "tokens a second": "thousand", "MFU": "%"}


def picture(record: dict[str, Any], which: int, what: str) -> Picture:
    """Bars of one figure at one length."""
    row = record["rows"][which]
    found, unit = values(record, row, what), UNITS[what]
    most = max(value for value in found.values() if value is not None)
    parts, y = [], 8
    for name, value in found.items():
        length = 0.0 if value is None else value / most * (WIDTH - LEFT - 150)
        parts += [
            chart.text(LEFT - 8, y + 16, NAMES[name], "end"),
            chart.rect(LEFT, y, length, BAR - 2, FILLS[name]),
            chart.text(LEFT + length + 6, y + 16, _words(value, unit)),
        ]
        y += BAR + 6
    title = f"A training step of GPT-2 medium's shape, {what}: {versions(record['facts'])}"
    caption = f"B {row['B']}, N {row['N']:,}, bf16. {_caption(found, what)}"
    drawing = svg(WIDTH, y, f"Bars. {caption}", "".join(parts))
    table = [("N", "B", *(f"{NAMES[name]}, {unit}" for name in found))]
    for other in record["rows"]:
        figures = values(record, other, what).values()
        cells = (OUT if value is None else _number(value) for value in figures)
        table.append((f"{other['N']:,}", str(other["B"]), *cells))
    return Picture(title, drawing, caption, table)


def _number(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def _words(value: float | None, unit: str) -> str:
    return OUT if value is None else f"{_number(value)} {unit}"


def _caption(found: dict[str, float | None], what: str) -> str:
    ours, told = found["ours"], []
    for name, value in found.items():
        if name == "ours":
            continue
        if value is None:
            told.append(f"{NAMES[name]} does not fit")
        else:
            told.append(f"{NAMES[name]} has {value / ours:.2f} times this course's {what}")
    return ", ".join(told) + "."


def gpt_step(record: dict[str, Any]) -> Explorer:
    """The record's rows, one figure at a time."""
    rows = record["rows"]
    return Explorer(
        "A training step, measured",
        lambda which, what: picture(record, which, what),
        (
            Control(
                "which", "sequences", range(len(rows)), 0,
                lambda n: f"B {rows[n]['B']}, N {rows[n]['N']:,}",
            ),
            Control("what", "figure", WHAT, WHAT[0]),
        ),
    )  # fmt: skip
