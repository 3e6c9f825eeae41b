"""Writes what comes of grading: feedback pages, the class's page, the table. Floor: front."""

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from flashlab.classroom import report_class, report_csv, report_feedback
from flashlab.classroom.course import Course
from flashlab.classroom.report_class import LabReport

FEEDBACK, CLASS_PAGE, TABLE = "flashlab_feedback", "report.html", "marks.csv"


def write(course: Course, labs: Sequence[LabReport]) -> list[Path]:
    """Write everything anew; the files that a person opens first."""
    for lab in labs:
        for one in lab.graded:
            if one.submission.there:
                folder = course.dir / FEEDBACK / one.submission.student
                text = report_feedback.feedback(one, lab.commitment)
                replace(folder / f"{lab.lab}.html", text)
    graded = [one for lab in labs for one in lab.graded]
    page, table = course.dir / CLASS_PAGE, course.dir / TABLE
    replace(page, report_class.class_page(course.name, labs))
    replace(table, report_csv.table(graded))
    return [page, table, course.dir / FEEDBACK]


def replace(path: Path, text: str) -> None:
    """A file with a new text, whole at every moment, readable by its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    number, name = tempfile.mkstemp(prefix=".new-", dir=path.parent)
    with os.fdopen(number, "w", encoding="utf-8", errors="replace") as file:
        file.write(text)
    os.replace(name, path)
