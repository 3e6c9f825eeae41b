"""Marks in nbgrader's gradebook, written through its own API over its own marks."""

import os
import sys
from pathlib import Path

import pytest

from flashlab import exercises
from flashlab.classroom import gradebook
from flashlab.classroom.answers import Submission
from flashlab.classroom.course import Course
from flashlab.classroom.grade_marks import Graded, graded
from tests.classroom.conftest import make_course

SLUG, LAB = "vector_scale", "lab00"
pytestmark = pytest.mark.filterwarnings("ignore:Object of type .* not in session")  # nbgrader's


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Course:
    beside = Path(sys.executable).parent  # nbgrader starts `alembic` for a new gradebook
    monkeypatch.setenv("PATH", f"{beside}:{os.environ['PATH']}")
    return make_course(tmp_path / "course", "00")


def mark(course: Course, student: str, status: str, points: float, right: bool) -> Graded:
    steps = [right] * len(exercises.get(SLUG).steps)
    entry = {"status": status, "points": points, "steps": steps}
    one = Submission(student, LAB, {SLUG: "text"})
    return graded(one, course.labs[LAB], "k", {"exercises": {SLUG: entry}})


def test_without_nbgrader_it_says_what_to_install(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nbgrader.api", None)

    assert gradebook.write_scores(course, LAB, []) == [gradebook.INSTALL]


@pytest.mark.classroom
def test_scores_replace_practice_marks_and_no_mark_is_no_zero(course: Course) -> None:
    from nbgrader.api import Gradebook

    points = course.labs[LAB].points[SLUG]
    assert "generate_assignment" in gradebook.write_scores(course, LAB, [])[0]
    names = {f"{SLUG}-check": points.check}
    names |= {f"{SLUG}-step-{i}": worth for i, worth in enumerate(points.steps, 1)}
    with Gradebook(f"sqlite:///{course.dir / 'gradebook.db'}", course.name) as book:
        book.add_assignment(LAB)
        book.add_notebook(LAB, LAB)
        for name, worth in names.items():
            book.add_grade_cell(name, LAB, LAB, max_score=worth, cell_type="code")
        book.add_student("ann")
        book.add_submission(LAB, "ann")
        book.find_grade(f"{SLUG}-check", LAB, LAB, "ann").auto_score = 3
        book.db.commit()
    rows = [mark(course, "ann", "pass", 100, True), mark(course, "bob <b>", "wrong", 50, False),
            mark(course, "\udcff", "pass", 100, True),
            mark(course, "cid", "grader_error", 0, False)]  # fmt: skip

    said = gradebook.write_scores(course, LAB, rows)
    again = gradebook.write_scores(course, LAB, rows)

    assert said == again and len(said) == 2
    assert "is no text that a gradebook can hold" in said[0] and said[1].startswith("cid")
    with Gradebook(f"sqlite:///{course.dir / 'gradebook.db'}", course.name) as book:
        scores = {s.student_id: s.score for s in book.assignment_submissions(LAB)}
        assert scores["ann"] == points.total
        assert scores["bob <b>"] == points.check / 2
        assert book.find_grade(f"{SLUG}-check", LAB, LAB, "cid").manual_score is None


@pytest.mark.classroom
def test_a_cell_that_is_not_there_is_named(course: Course) -> None:
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course.dir / 'gradebook.db'}", course.name) as book:
        book.add_assignment(LAB)
        book.add_notebook(LAB, LAB)

    said = gradebook.write_scores(course, LAB, [mark(course, "ann", "pass", 100, True)])

    assert any(f"{SLUG}-check" in text for text in said)
