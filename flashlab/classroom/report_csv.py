"""Marks as a table for a learning management system. Floor: front."""

import csv
import io
from collections.abc import Sequence

from flashlab.classroom.grade_marks import Graded

BLANK = "(blank)"  # an id of blanks alone
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def table(graded: Sequence[Graded]) -> str:
    """A row for each student and lab; an empty number is no mark yet, which is not 0."""
    slugs = list(dict.fromkeys(mark.slug for one in graded for mark in one.marks))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    heads = [h for slug in slugs for h in (slug, f"{slug} status")]
    writer.writerow(["student", "lab", "points", "of", *heads, "to look at", "sandbox", "tier"])
    for one in graded:
        marks = {mark.slug: mark for mark in one.marks}
        cells: list[object] = []
        for slug in slugs:
            mark = marks.get(slug)
            cells += [_number(mark.points), mark.status] if mark else ["", ""]
        said = "; ".join(one.submission.said)
        student = one.submission.student if one.submission.student.strip() else BLANK
        row = [student, one.submission.lab, _number(one.points), f"{one.of:g}", *cells, said]
        writer.writerow([_safe(cell) for cell in (*row, one.sandbox, one.tier)])
    return file.getvalue()


def _number(points: float | None) -> str:
    return "" if points is None else f"{points:g}"


def _safe(cell: object) -> str:
    """A cell that no spreadsheet takes for a formula, on one line."""
    text = " ".join(str(cell).split())
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return f"'{text}" if text.startswith(FORMULA) else text
