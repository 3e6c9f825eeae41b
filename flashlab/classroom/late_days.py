"""Late days: some for free over the whole course, then a share of the marks for each."""

import math
from datetime import datetime
from pathlib import Path

from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins import BasePlugin
from nbgrader.utils import parse_utc
from traitlets import Float, Integer

from flashlab.classroom import handed_in
from flashlab.classroom.course import Course, Late

DAY_SECONDS = 24 * 3600


class LateDays(BasePlugin):
    """What nbgrader asks when a submission is late."""

    free_days = Integer(0).tag(config=True)
    percent_a_day = Float(0.0).tag(config=True)

    def late_submission_penalty(self, student_id: str, score: float, seconds: float) -> float:
        late = Late(self.free_days, self.percent_a_day)
        book, lab = self.parent.gradebook, self.parent.assignment_id
        return penalty(late, book, student_id, lab, score)


def settle(book: Gradebook, course: Course, lab: str, student: str) -> None:
    """Note in the gradebook when a submission came, and what its late days cost of its score."""
    when = _handed_in(course.dir / "submitted" / student / lab / "timestamp.txt")
    if when is not None:
        book.update_or_create_submission(lab, student, timestamp=when)
    book.db.commit()  # scores are sums that the database makes
    try:
        notebook = book.find_submission_notebook(lab, lab, student)
    except MissingEntry:  # the assignment was added by hand and has no cells yet
        return
    notebook.late_submission_penalty = penalty(course.late, book, student, lab, notebook.score)


def _handed_in(path: Path) -> datetime | None:
    """The time in nbgrader's timestamp.txt, in UTC; None without one that can be read."""
    try:
        return parse_utc(handed_in.read_text(path, 200).strip())
    except (handed_in.Unreadable, ValueError, OverflowError):
        return None


def penalty(late: Late, gradebook: Gradebook, student: str, lab: str, score: float) -> float:
    """Points to take off a submission's ``score``; labs use up free days in order of due date.

    The due date is the gradebook's; a student's extension counts.
    """
    mine = [s for s in gradebook.student_submissions(student) if s.duedate is not None]
    mine.sort(key=lambda s: (s.duedate, s.name))
    free = late.free_days
    for submission in mine:
        days = math.ceil(submission.total_seconds_late / DAY_SECONDS)
        if submission.name == lab:
            return score * min(1.0, max(0, days - free) * late.percent_a_day / 100)
        free = max(0, free - days)
    return 0.0
