"""What the class's tests share: courses with submissions, hashes of a folder, totals of suites."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashlab.classroom import build, sandbox_bwrap
from flashlab.classroom.course import Course
from flashlab.workspace import cell_source

TOTALS: Counter[str] = Counter()
ROOT = Path(__file__).parents[2]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The totals of the three suites."""
    for name, count in sorted(TOTALS.items()):
        terminalreporter.write_line(f"class: {count} {name}")


@pytest.fixture(scope="session")
def totals() -> Counter[str]:
    """Counts that are printed at the end, by what was counted."""
    return TOTALS


@pytest.fixture(scope="session", autouse=True)
def never_without_bubblewrap() -> Iterator[None]:
    """Say at once what is missing, instead of 20 failures."""
    if not sandbox_bwrap.program():
        pytest.skip("not run: `apt install bubblewrap` and `make test` run the class's tests")
    yield


def make_course(folder: Path, *labs: str) -> Course:
    """A course with a secret that is the same in every test."""
    course = build.build(folder, list(labs), "demo")
    (folder / "secret").write_text("07" * 32)
    (folder / "submitted").mkdir(exist_ok=True)
    return course


def hand_in(course: Course, lab: str, student: str, texts: dict[str, str], files: bool = False):
    """A submission: a notebook with a cell an exercise, or kernel files."""
    folder = course.dir / "submitted" / student / lab
    folder.mkdir(parents=True)
    if files:
        for slug, text in texts.items():
            (folder / f"{slug}.py").write_text(text, encoding="utf-8")
        return
    cells = [
        {
            "cell_type": "code",
            "id": f"cell-{number}",
            "metadata": {"nbgrader": {"grade_id": f"{slug}-stub"}},
            "outputs": [],
            "execution_count": None,
            "source": cell_source(slug, text),
        }
        for number, (slug, text) in enumerate(texts.items())
    ]
    metadata = {"flashlab": course.stamp(lab), "kernelspec": {"name": "python3"}}
    notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    (folder / f"{lab}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")


def hashes(folder: Path, *leave_out: str) -> dict[str, str]:
    """SHA-256 of every file below a folder, but for some names at its top."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] not in leave_out
    }


def expected(text: str) -> tuple[str, set[str], float]:
    """Exercise, statuses and most points that an exploit may get, as its first comment says."""
    slug = re.search(r"^# .*?Exercise: (\w+)", text, re.M)
    status = re.search(r"^# .*?Status: ([a-z_, ]+)$", text, re.M)
    most = re.search(r"^# .*?At most: (\d+) points", text, re.M)
    return (
        slug[1] if slug else "vector_scale",
        {word.strip() for word in status[1].split(",")},
        float(most[1]) if most else 0.0,
    )
