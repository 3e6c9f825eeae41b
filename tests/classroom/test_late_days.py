"""Late days: free ones over the whole course, then a share of the marks."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

from flashlab.classroom import build
from flashlab.classroom.course import Course, Late

pytestmark = [
    pytest.mark.classroom,
    pytest.mark.filterwarnings("ignore:Object of type"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
if importlib.util.find_spec("nbgrader"):
    from nbgrader.api import Gradebook

    from flashlab.classroom import late_days

DUE = {"lab00": "2026-10-01 12:00:00 UTC", "lab04": "2026-10-08 12:00:00 UTC"}
LATE = Late(free_days=2, percent_a_day=10)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A course whose gradebook has both labs, one cell each of 50 points."""
    made = build.build(tmp_path_factory.mktemp("late") / "c", list(DUE))
    with pytest.MonkeyPatch.context() as patch:
        programs = Path(sys.executable).parent  # nbgrader starts alembic by its name
        patch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        with open_book(made) as found:
            for lab, due in DUE.items():
                found.add_assignment(lab, duedate=due)
                found.add_notebook(lab, lab)
                found.add_grade_cell("check", lab, lab, max_score=50, cell_type="code")
            found.add_student("ada")
    return made


def open_book(course: Course):
    return Gradebook(f"sqlite:///{course.dir / 'gradebook.db'}", course.name)


@pytest.fixture
def course(template: Course, tmp_path: Path) -> Course:
    shutil.copytree(template.dir, tmp_path / "c")
    return Course(tmp_path / "c", template.name, template.version, template.labs, LATE)


@pytest.fixture
def book(course: Course):
    with open_book(course) as found:
        yield found


def hand_in(course: Course, book, lab: str, when: str, score: float = 50) -> float:
    """What the late days of a submission cost that has these marks."""
    folder = course.dir / "submitted" / "ada" / lab
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "timestamp.txt").write_text(when)
    book.update_or_create_submission(lab, "ada")
    book.find_grade("check", lab, lab, "ada").manual_score = score
    late_days.settle(book, course, lab, "ada")
    book.db.commit()
    submission = book.find_submission(lab, "ada")
    assert submission.score == pytest.approx(score)
    return submission.late_submission_penalty


@pytest.mark.parametrize(
    "when, cost",
    [
        ("2026-10-01 11:59:00 UTC", 0),
        ("2026-10-01 12:00:01 UTC", 0),  # the first free day
        ("2026-10-03 12:00:00 UTC", 0),
        ("2026-10-03 12:00:01 UTC", 5),  # a third day has started
        ("2026-10-02 12:00:01 +0000", 0),
        ("2026-12-01 12:00:00 UTC", 50),  # never more than the marks
    ],
)
def test_free_days_come_first(course, book, when, cost):
    assert hand_in(course, book, "lab00", when) == pytest.approx(cost)


def test_free_days_are_those_of_the_whole_course(course, book):
    assert hand_in(course, book, "lab00", "2026-10-02 13:00:00 UTC") == 0
    assert hand_in(course, book, "lab04", "2026-10-08 13:00:00 UTC", 40) == pytest.approx(4)
    assert hand_in(course, book, "lab04", "2026-10-08 11:00:00 UTC", 40) == 0


def test_an_extension_counts(course, book):
    book.update_or_create_submission("lab00", "ada")
    book.grant_extension("lab00", "ada", days=3)
    assert hand_in(course, book, "lab00", "2026-10-04 11:00:00 UTC") == 0


@pytest.mark.parametrize("text", ["yesterday", "", "\0", "9" * 400, "99999-01-01 00:00:00 UTC"])
def test_a_time_that_is_none_costs_nothing(course, book, text):
    assert hand_in(course, book, "lab00", text) == 0


def test_without_a_deadline_nothing_is_late(course, book):
    book.update_or_create_assignment("lab00", duedate=None)
    assert hand_in(course, book, "lab00", "2031-01-01 00:00:00 UTC") == 0
