"""The evidence page: every claim, every figure measured on a GPU, papers' numbers beside ours."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from flashlab import claims, reproduce
from flashlab.bench import records

MOST_VERSIONS = 6  # beside each other in one table
UNSAID = "not measured"
COLUMNS = {  # keys of records whose unit or meaning is not in their name
    "us": "µs",
    "dram_read": "bytes read from DRAM",
    "dram_written": "bytes written to DRAM",
    "l2_to_sm": "bytes from L2 to SMs",
    "received_by_sms": "bytes received by SMs",
    "l2_below_count_percent": "% by which the L2's bytes lie below the count",
    "intensity": "FLOPs a byte",
    "flops": "FLOP/s",
}
PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"))


def page(chapters: Mapping[str, str], tables: Sequence[str]) -> str:
    """The page as Markdown.

    Args:
        chapters: Two digits -> the stem of a page of the site.
        tables: ``reproduced(name)`` of each table that is shown.
    """
    parts = [
        "# Evidence",
        "What the course says, and how you can see that it is so. Computed, counted and simulated "
        "numbers are made anew each time this site is built; a number that no longer agrees with "
        "its claim stops the tests. Measured figures name card, date and versions.",
        "## Claims",
        _claims(chapters),
        "## Papers' tables, recomputed",
        *tables,
        "## Measured on GPUs",
        *[_record(path.stem) for path in sorted(records.FOLDER.glob("*.json"))],
    ]
    return "\n\n".join(parts) + "\n"


def _claims(chapters: Mapping[str, str]) -> str:
    rows = []
    for claim in sorted(claims.every(), key=lambda c: (c.chapters, c.id)):
        where = ", ".join(
            f"[{number}](chapters/{chapters[number]}.ipynb)" if number in chapters else number
            for number in claim.chapters
        )
        rows.append((where, claim.words, ", ".join(claim.shown), claim.source))
    return table(("chapter", "claim", "shown", "source"), rows)


def reproduced(name: str) -> str:
    """A paper's table, computed now: some take a minute."""
    made = reproduce.make(name)
    rows = [
        (
            row.what,
            _number(row.paper),
            _number(row.ours),
            f"{row.ratio:.3f}",
            row.unit,
        )
        for row in made.rows
    ]
    return "\n\n".join(
        [
            f"### {made.title}",
            f"Source: {made.source}. Made by `flashlab reproduce {name}`.",
            table(("", "paper", "ours", "ours/paper", ""), rows),
            " ".join(made.notes),
        ]
    )


def _number(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _record(name: str) -> str:
    record = records.load(name)
    rows = record["rows"]
    head = f"### `{name}`\n\n{records.said(record)}"
    if "sizes" in record:
        head += f" {_sizes(record['sizes'])}."
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], dict):
        return f"{head} {len(rows)} groups of entries, drawn in the chapters."
    if "ms" in rows[0]:
        return "\n\n".join([head, *map(_rates, _together(rows))])
    flat = [key for key, value in rows[0].items() if not isinstance(value, list | dict)]
    body = [[_plain(row.get(key)) for key in flat] for row in rows]
    return f"{head}\n\n{table([COLUMNS.get(key, key) for key in flat], body)}"


Rows = Sequence[Mapping[str, Any]]


def _together(rows: Rows) -> list[Rows]:
    """All rows as one table, or a table for each set of versions where one would be too wide."""
    if len({name for row in rows for name in row["ms"]}) <= MOST_VERSIONS:
        return [rows]
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row["ms"]), []).append(row)
    return list(groups.values())


def _rates(rows: Rows) -> str:
    """Rates where the work is known, else milliseconds; the corner says the unit."""
    versions = list(dict.fromkeys(name for row in rows for name in row["ms"]))
    body = []
    for row in rows:
        cells = [_cell(row)]
        for name in versions:
            ms = row["ms"].get(name)
            if ms is None or math.isnan(ms):
                cells.append("")
            elif "work" in row:
                cells.append(f"{row['work'] / ms / 1e9:.{row['digits']}f}")
            else:
                cells.append(f"{ms:.3f}")
        body.append(cells)
    units = dict.fromkeys(row.get("unit", "ms") for row in rows)
    return table([", ".join(units), *versions], body)


def _cell(row: Mapping[str, Any]) -> str:
    if "cell" in row:
        return " ".join(str(row["cell"]).split())
    counted = {key: value for key, value in row.items() if not key.endswith("_bytes")}
    return _sizes({key: value for key, value in counted.items() if isinstance(value, int)})


def _sizes(sizes: Mapping[str, Any]) -> str:
    """``B 16, N 1,024, causal``: a False is left out."""
    told = {k: f"{v:,}" if isinstance(v, int) else v for k, v in sizes.items() if v is not False}
    return ", ".join(
        key if sizes[key] is True else f"{key} {value}" for key, value in told.items()
    )


def _plain(value: Any) -> str:
    if value is None:
        return UNSAID
    if isinstance(value, float):
        by, letter = next((p for p in PREFIXES if abs(value) >= p[0]), (1, ""))
        return f"{value / by:,.4g} {letter}".strip()
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; text columns left, numbers right."""
    right = [bool(rows) and all(_numeric(row[at]) for row in rows) for at in range(len(heading))]
    lines = [
        _line(heading),
        "|" + "|".join("---:" if number else "---" for number in right) + "|",
        *map(_line, rows),
    ]
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def _numeric(text: str) -> bool:
    return text in ("", UNSAID) or re.fullmatch(r"-?[\d,.]+(e-\d+)?( [TGM])?", text) is not None
