"""Writes marks into nbgrader's gradebook through its own API, from one process. Floor: front."""

import contextlib
import warnings
from collections.abc import Iterator, Sequence

from flashlab.classroom import answers
from flashlab.classroom.course import Course
from flashlab.classroom.grade_marks import Graded

DATABASE = "gradebook.db"
INSTALL = "nbgrader is not installed here: pip install 'flashlab-course[classroom]'"


def write_scores(course: Course, lab: str, graded: Sequence[Graded]) -> list[str]:
    """Put every mark into the gradebook as the manual score of its cell.

    nbgrader's own automatic scores stay beside them and no longer count.

    Returns:
        Sentences on what could not be written; the first says so if nothing could.
    """
    try:
        from nbgrader.api import Gradebook, MissingEntry

        from flashlab.classroom import late_days
    except ImportError:
        return [INSTALL]
    path = course.dir / DATABASE
    if not path.exists():
        return [f"{DATABASE} is not there: run `nbgrader generate_assignment {lab}` first"]
    said = []
    with _quiet(), Gradebook(f"sqlite:///{path}", course.name) as book:
        try:
            book.find_assignment(lab)
        except MissingEntry:
            return [f"{lab} is not in {DATABASE}: run `nbgrader generate_assignment {lab}` first"]
        for one in graded:
            if not answers.is_text(one.submission.student):
                said.append(f"{answers.shown(one.submission.student)} {answers.NO_TEXT}")
            elif one.submission.there:
                said += _submission(book, lab, one)
                late_days.settle(book, course, lab, one.submission.student)
        book.db.commit()
    return said


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """nbgrader 0.9.6 makes SQLAlchemy 2 warn of objects that join their session a little later."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Object of type .* not in session")
        yield


def _submission(book, lab: str, one: Graded) -> list[str]:
    """The scores of one submission; cells that the gradebook lacks are named."""
    student = one.submission.student
    book.update_or_create_student(student)
    book.update_or_create_submission(lab, student)
    said = []
    for mark in one.marks:
        if mark.points is None:
            said.append(f"{student}, {mark.slug}: no mark to write ({mark.status})")
            continue
        scores = {f"{mark.slug}-check": mark.check}
        scores |= {f"{mark.slug}-step-{i}": p for i, p in enumerate(mark.steps, 1)}
        for name, score in scores.items():
            if not _score(book, lab, student, name, score):
                said.append(f"{student}: {lab} has no cell {name} in the gradebook")
    return said


def _score(book, lab: str, student: str, name: str, score: float) -> bool:
    """Set one cell's manual score; False if there is no such cell."""
    from nbgrader.api import MissingEntry

    try:
        grade = book.find_grade(name, lab, lab, student)
    except MissingEntry:
        return False
    grade.manual_score = min(float(score), float(grade.cell.max_score))
    grade.needs_manual_grade = False
    return True
