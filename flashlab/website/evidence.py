"""The evidence page: every claim, every figure measured on a GPU, papers' numbers beside ours."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from flashlab import claims, reproduce
from flashlab.bench import records


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
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], dict):
        return f"{head} {len(rows)} groups of entries, drawn in the chapters."
    if "ms" in rows[0]:
        return f"{head}\n\n{_rates(rows)}"
    flat = [key for key, value in rows[0].items() if not isinstance(value, list | dict)]
    body = [[_plain(row.get(key)) for key in flat] for row in rows]
    return f"{head}\n\n{table(flat, body)}"


def _rates(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rates of all versions where the work is known, else milliseconds."""
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
        body.append([*cells, row.get("unit", "ms")])
    return table(["", *versions, "unit"], body)


def _cell(row: Mapping[str, Any]) -> str:
    if "cell" in row:
        return " ".join(str(row["cell"]).split())
    sizes = [f"{key} {value}" for key, value in row.items() if isinstance(value, int)]
    return ", ".join(sizes)


def _plain(value: Any) -> str:
    if value is None:
        return "not measured"
    if isinstance(value, float):
        return f"{value:,.4g}"
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
    return text.replace(",", "").replace(".", "").replace("-", "").strip().isdigit() or not text
