"""The list of exercises with what a learner has passed, for the terminal. Floor: front."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

MARKS = {"pass": "passed", "not started": "-"}


def print_progress(rows: Sequence[Mapping[str, Any]], console: Console | None = None) -> None:
    """Print ``rows`` of ``flashlab.learner.progress()`` as one table and a sentence.

    Args:
        rows: One an exercise, in the order of the syllabus.
        console: Where to; None is standard output.
    """
    console = console or Console(highlight=False)
    table = Table(box=None, pad_edge=False)
    table.add_column("ch")
    table.add_column("exercise", no_wrap=True)
    table.add_column("what")
    table.add_column("minutes", justify="right")
    table.add_column("you")
    for row in rows:
        mark = MARKS.get(row["status"], row["status"])
        points = "" if row["points"] is None else f", {row['points']:g} points"
        hints = f", {row['hints']} hints" if row["hints"] else ""
        style = "bold" if row["status"] == "pass" else ""
        table.add_row(
            row["chapter"], row["slug"], row["title"], str(row["minutes"]),
            f"{mark}{points}{hints}", style=style,
        )  # fmt: skip
    console.print(table)
    passed = sum(row["status"] == "pass" for row in rows)
    following = next((row for row in rows if row["status"] != "pass"), None)
    more = f" Next: `flashlab start {following['slug']}`." if following else ""
    console.print(f"{passed} of {len(rows)} exercises passed.{more}", soft_wrap=True)
