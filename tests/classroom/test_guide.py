"""The instructors' guide, run as it is written: ten commands from install to grades.

Three students hand in after the fifth command. What the commands leave is looked at from every
side: gradebook, feedback, table, formgrader.
"""

import csv
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from flashlab import sources
from flashlab.authoring import canonical
from flashlab.workspace import cell_source
from tests.browser.conftest import BROWSER, HOW, QUIET, SCREENSHOTS

pytestmark = pytest.mark.classroom

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "instructors.md"
LAB, SLUG, HAND_IN = "lab00", "vector_scale", "nbgrader autograde"
WRONG = "y = a * x  #", "y = a + x  #"
PORT, SLOWLY_MS = 8947, 120_000
KEPT = ("PATH", "LANG", "CI", "TORCH", "PYTHON", "TRITON_CACHE_DIR", "SSL_CERT_FILE")


def commands() -> list[str]:
    """The guide's first block of commands."""
    block = re.search(r"```console\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    return block[1].strip().splitlines()


def mark_query(book: Path, column: str) -> dict[str, float]:
    """Points of every student by one of nbgrader's columns of scores."""
    with sqlite3.connect(book) as base:
        rows = base.execute(
            f"SELECT a.student_id, SUM(g.{column}) FROM grade g "
            "JOIN submitted_notebook n ON g.notebook_id = n.id "
            "JOIN submitted_assignment a ON n.assignment_id = a.id GROUP BY a.student_id"
        )
        return dict(rows.fetchall())


def hand_in(course: Path) -> None:
    """A notebook with a right answer, one with a wrong answer, and a right kernel file."""
    right = sources.without_markers(sources.solution_text(SLUG))
    wrong = right.replace(*WRONG)
    assert wrong != right
    released = course / "release" / LAB / f"{LAB}.ipynb"
    for student, text in (("ada", right), ("grace", wrong)):
        notebook = canonical.read(released)
        for cell in notebook["cells"]:
            if canonical.fill_slug(cell):
                cell["source"] = cell_source(SLUG, text)
        folder = course / "submitted" / student / LAB
        folder.mkdir(parents=True)
        (folder / released.name).write_text(json.dumps(notebook))
    folder = course / "submitted" / "alan" / LAB
    folder.mkdir(parents=True)
    (folder / f"{SLUG}.py").write_text(right)


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The course that the ten commands leave; ``practice.db`` is the gradebook in between."""
    home = tmp_path_factory.mktemp("instructor")
    env = {name: os.environ[name] for name in KEPT if name in os.environ} | {"HOME": str(home)}
    lines = commands()
    assert len(lines) == 10
    before = next(i for i, line in enumerate(lines) if line.startswith(HAND_IN))
    folder = home / "course"
    parts = [lines[:before], ["cd ~/course", *lines[before : before + 1]]]
    parts.append(["cd ~/course", *lines[before + 1 :]])
    for number, part in enumerate(parts):
        if number == 1:
            hand_in(folder)
        if number == 2:
            shutil.copy(folder / "gradebook.db", folder / "practice.db")
        shell = ["set -euo pipefail", *([lines[1]] if number else []), *part]
        run = subprocess.run(
            ["bash", "-c", "\n".join(shell)], cwd=ROOT, env=env, capture_output=True, text=True
        )
        assert run.returncode == 0, f"{part}\n{run.stdout[-3000:]}\n{run.stderr[-3000:]}"
    return folder


def test_the_release_holds_the_labs_stub_and_no_solution(course):
    [lab] = (ROOT / "labs").glob("00_*.ipynb")
    stubs = [
        {canonical.fill_slug(c): canonical.source(c) for c in canonical.read(path)["cells"]}[SLUG]
        for path in (lab, course / "release" / LAB / f"{LAB}.ipynb")
    ]
    assert stubs[0] == stubs[1]
    assert [p.name for p in (course / "release").rglob("*.*")] == [f"{LAB}.ipynb"]
    assert "SOLUTION" not in (course / "release" / LAB / f"{LAB}.ipynb").read_text()


def test_practice_marks_are_all_or_nothing_for_the_core(course):
    practice = mark_query(course / "practice.db", "auto_score")
    assert practice == {"ada": 100.0, "alan": 100.0, "grace": 0.0}


def test_the_marks_of_the_sandboxed_run_are_in_the_gradebook(course):
    marks = mark_query(course / "gradebook.db", "manual_score")
    assert marks["ada"] == marks["alan"] == 100.0
    assert marks["grace"] == 5.0  # the step that is right counts
    with (course / "grades.csv").open() as table:
        rows = {row["student_id"]: row for row in csv.DictReader(table)}
    assert {name: float(row["score"]) for name, row in rows.items()} == marks
    assert all(float(row["max_score"]) == 100 for row in rows.values())


def test_feedback_pages_and_the_class_page(course):
    for student, score in (("ada", 100), ("alan", 100), ("grace", 5)):
        page = (course / "feedback" / student / LAB / f"{LAB}.html").read_text()
        assert f"(Score: {score}.0 / 100.0)" in page
    assert "<td>handed in</td><td>3</td>" in (course / "report.html").read_text()


def test_nothing_of_a_submission_is_left_in_the_instructors_home(course):
    names = {path.name for path in course.parent.iterdir()} - {"course"}
    assert not [name for name in names if "work" in name or "flashlab" in name]


@pytest.fixture
def formgrader(course: Path) -> Iterator[str]:
    """nbgrader's pages in JupyterLab, in the course's folder; the address of its server."""
    if not BROWSER:
        if os.environ.get("CI") == "true":
            pytest.fail("formgrader: " + HOW)
        pytest.skip("formgrader: " + HOW)
    env = {**os.environ, "HOME": str(course.parent)}
    options = [
        "--no-browser",
        "--allow-root",
        "--ip=127.0.0.1",
        f"--port={PORT}",
        "--IdentityProvider.token=t",
    ]
    jupyter = str(ROOT / ".venv-class" / "bin" / "jupyter")
    with (course.parent / "lab.log").open("w") as log:
        server = subprocess.Popen([jupyter, "lab", *options], cwd=course, env=env, stderr=log)
        try:
            _wait(f"http://127.0.0.1:{PORT}/api/status?token=t")
            yield f"http://127.0.0.1:{PORT}"
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)


def _wait(url: str) -> None:
    for _ in range(240):
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.5)
    pytest.fail("JupyterLab did not start")


@pytest.mark.browser
def test_formgrader_shows_the_class(formgrader):
    from playwright.sync_api import expect, sync_playwright

    SCREENSHOTS.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=QUIET)
        page = browser.new_page()
        page.goto(f"{formgrader}/formgrader?token=t")
        expect(page.get_by_role("link", name=LAB, exact=True)).to_be_visible(timeout=SLOWLY_MS)
        page.goto(f"{formgrader}/formgrader/manage_submissions/{LAB}")
        expect(page.get_by_role("row", name="grace")).to_contain_text("5 / 100", timeout=SLOWLY_MS)
        expect(page.get_by_role("row", name="alan")).to_contain_text("100 / 100")
        page.screenshot(path=SCREENSHOTS / "formgrader-submissions.png")
        page.goto(f"{formgrader}/formgrader/gradebook/{LAB}/{LAB}")
        page.set_default_timeout(SLOWLY_MS)
        page.get_by_role("link", name="Submission #1").click()
        expect(page.get_by_text("Student's answer").first).to_be_visible(timeout=SLOWLY_MS)
        expect(page.locator("body")).to_contain_text(f"{SLUG}-step-2")
        page.screenshot(path=SCREENSHOTS / "formgrader-notebook.png", full_page=True)
        browser.close()
