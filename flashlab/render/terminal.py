"""A report as text of one screen. Floor: front.

Colours follow the terminal (none in a file, with NO_COLOR or TERM=dumb); every colour has a word
or a shade beside it.
"""

import io
import sys
from typing import Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.rule import Rule
from rich.status import Status
from rich.table import Table
from rich.text import Text

from flashlab.grader.report import CaseResult, Report, Where
from flashlab.render import summary
from flashlab.render.safe import one_line, plain

WIDEST = 100
NARROWEST = 40
SHADES = ("··", "░░", "▒▒", "██", "XX")
ASCII_SHADES = ("..", "--", "++", "##", "XX")
STYLES = ("dim", "yellow", "yellow", "red", "bold red")
LEGEND = "{} right; {} {} {} over 1, 10, 100 limits; {} NaN or infinity"
LABELS = 9  # width of the left column


def report_text(
    report: Report, width: int = 80, color: bool = False, ascii_only: bool = False
) -> str:
    """The report as text.

    Args:
        report: What a check found.
        width: Columns, 40 to 100.
        color: Put colours in as terminal escapes.
        ascii_only: Use no characters but ASCII for pictures and rules.
    """
    system: Any = "standard" if color else None
    console = Console(
        file=io.StringIO(),
        width=max(NARROWEST, min(width, WIDEST)),
        force_terminal=color,
        color_system=system,
        no_color=not color,
        legacy_windows=False,
        highlight=False,
    )
    _show(console, report, ascii_only)
    text = console.file.getvalue()
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


def print_report(report: Report, file: TextIO | None = None) -> None:
    """Print the report to a stream (stdout) as wide and as colourful as it allows."""
    out = file or sys.stdout
    console = Console(file=out, highlight=False)
    ascii_only = "utf" not in (getattr(out, "encoding", None) or "utf-8").lower()
    text = report_text(report, console.width, console.color_system is not None, ascii_only)
    if console.no_color:
        text = report_text(report, console.width, False, ascii_only)
    encoding = (getattr(out, "encoding", None) or "utf-8") if ascii_only else "utf-8"
    out.write(text.encode(encoding, "replace").decode(encoding))
    out.flush()


def status_line(text: str) -> Status:
    """A context manager that shows ``text`` on stderr while it runs; ``update`` changes it.

    Nothing is shown where stderr is no terminal.
    """
    console = Console(stderr=True, highlight=False)
    return console.status(Text(text), spinner="line")


def _show(console: Console, report: Report, ascii_only: bool) -> None:
    console.print(
        Rule(_title(report), align="left", style="none", characters="-" if ascii_only else "─")
    )
    console.print(Text(one_line(report.headline, 600), style="bold"))
    console.print()
    above, call, below = _parts(report, ascii_only)
    console.print(_grid(above))
    if call:
        console.print(Text("Repeat   the smallest run that fails, in a notebook or in Python:"))
        console.print(Text(plain(call), style="cyan"), soft_wrap=True)
    console.print(_grid(below))


def _title(report: Report) -> Text:
    good = report.passed
    word = "pass" if good else report.status.replace("_", " ")
    mark, style = ("PASS", "bold green") if good else ("FAIL", "bold red")
    if report.status == "grader_error":
        mark, style = "ERROR", "bold yellow"
    title = Text.assemble((mark, style), " ", (one_line(report.slug, 40), "bold"))
    if not good:
        title.append(f", {word}")
    return title.append(f", {report.points:g} of 100 points, tier {one_line(report.tier)}")


Rows = list[tuple[str, RenderableType]]


def _parts(report: Report, ascii_only: bool) -> tuple[Rows, str, Rows]:
    """Rows above the failing call, the call, and rows below it."""
    above: Rows = [
        ("Status", Text(summary.status(report))),
        ("Tested", Text(summary.tested(report))),
    ]
    above += [
        ("", Text(one_line(s.name) + ": " + one_line(s.detail, 240)))
        for s in summary.failed_stages(report)
    ]
    case = report.first_failure
    if case is not None:
        above += _broken(case, one_line(report.headline, 600), ascii_only)
    return above, report.failing_call, [*_causes(report), *_facts(report)]


def _broken(case: CaseResult, headline: str, ascii_only: bool) -> Rows:
    said = one_line(case.detail)
    detail = f" ({case.status})" if said and said in headline else f": {summary.broke(case)}"
    rows: Rows = [
        ("Broke", Text(f"{summary.run_name(case)}{detail}")),
        ("", Text(summary.sizes(case), style="dim")),
    ]
    if case.why:
        rows.append(("", Text(one_line(case.why), style="italic")))
    if case.where is not None:
        rows.append(("Where", Text(summary.where(case.where))))
        if case.where.tile_map:
            rows.append(("", _tile_picture(case.where, ascii_only)))
    if case.traceback and case.status in ("crash", "compile"):
        shown = "\n".join(summary.last_lines(case.traceback, 4))
        rows.append(("Trace", Text(shown, style="dim")))
    if case.printed:
        shown = "\n".join(summary.last_lines(case.printed, 3))
        rows.append(("Printed", Text(shown, style="dim")))
    return rows


def _tile_picture(spot: Where, ascii_only: bool) -> Text:
    shades = ASCII_SHADES if ascii_only else SHADES
    rows = summary.tile_rows(spot)
    picture = Text(no_wrap=False)
    for row in rows[: summary.MOST_TILES]:
        for level in row:
            picture.append(shades[level], style=STYLES[level])
        picture.append("\n")
    if len(rows) > summary.MOST_TILES:
        picture.append(f"... and {len(rows) - summary.MOST_TILES} more rows of tiles\n")
    axes = (
        "tiles of rows from left to right"
        if len(rows) == 1
        else "tiles of rows down, columns across"
    )
    picture.append(f"{axes}\n{LEGEND.format(*shades)}", style="dim")
    return picture


def _causes(report: Report) -> Rows:
    rows: Rows = []
    if report.mistake:
        rows.append(("Cause", Text(summary.cause(report))))
    for number, sentence in enumerate(report.structure[:3]):
        rows.append(("Numbers" if number == 0 else "", Text(one_line(sentence))))
    if report.step is not None and report.status != "unfilled":
        rows.append(("Step", Text(f"{report.step} is the first that is wrong")))
    if report.hint:
        level, of = report.hint.get("level"), report.hint.get("of")
        rows.append(
            ("Hint", Text(f"{level} of {of}: {one_line(report.hint.get('text', ''), 500)}"))
        )
    return rows


def _facts(report: Report) -> Rows:
    rows: Rows = [("File", Text(summary.file_graded(report), overflow="fold"))]
    rows += _listed("Not run", report.not_run)
    rows += _listed("Note", report.notes)
    rows.append(("Points", Text(summary.points(report))))
    compiled = summary.resources(report)
    if compiled:
        rows.append(("Compiled", Text("; ".join(compiled))))
    return rows + _io(report)


def _io(report: Report) -> Rows:
    """Bytes against the budget; where the report is long, only of tensors that are over it."""
    case = summary.io_case(report)
    if case is None:
        return []
    moved = summary.io_rows(case)
    shown = moved if report.passed else [row for row in moved if row.over]
    rest = ", ".join(row.tensor for row in moved if row not in shown)
    title = f"bytes of {summary.run_name(case)}" + (f"; within budget: {rest}" if rest else "")
    means = Text(summary.IO_MEANS, style="dim")
    parts = [Text(title), *([means, _io_table(shown)] if shown else [])]
    return [("IO", Group(*parts))]


def _listed(label: str, texts: list[str]) -> Rows:
    return [(label if i == 0 else "", Text(one_line(t, 240))) for i, t in enumerate(texts[:3])]


def _io_table(rows: list[summary.Moved]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("")
    for name in ("loaded", "budget", "stored", "budget"):
        table.add_column(name, justify="right")
    table.add_column("")
    for row in rows:
        cells = [row.loaded, row.loads_allowed, row.stored, row.stores_allowed]
        shown = ["-" if c is None else f"{c:,}" for c in cells]
        verdict = Text("over", style="bold red") if row.over else Text("ok", style="green")
        table.add_row(Text(row.tensor), *shown, verdict)
    return table


def _grid(rows: Rows) -> Table:
    grid = Table.grid(padding=(0, 0))
    grid.add_column(width=LABELS, no_wrap=True)
    grid.add_column(overflow="fold")
    for label, content in rows:
        if not isinstance(content, Text) or content.plain:
            grid.add_row(Text(label, style="bold"), content)
    return grid
