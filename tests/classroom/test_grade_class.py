"""A class from folders to marks: killed and taken up again, the same marks every time."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flashlab import exercises, sources
from flashlab.classroom import grade, grade_pool, report_write, shards, store
from flashlab.classroom.course import Course
from flashlab.classroom.grade import Options
from flashlab.exercise import Mistake
from tests.classroom.conftest import ROOT, hand_in, make_course

SLUG, LAB = "vector_scale", "lab00"
HOSTILE = '<img src=x onerror="alert(1)">\x1b[2J'


def wrong_answer() -> Mistake:
    """A mistake that makes wrong numbers."""
    return next(m for m in exercises.get(SLUG).mistakes if m.expect == "wrong")


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """Six submissions; the first run is killed as soon as there is a result."""
    course = make_course(tmp_path_factory.mktemp("class") / "course", "00")
    solution = sources.solution_text(SLUG)
    mistake = wrong_answer()
    hand_in(course, LAB, "ann", {SLUG: solution})
    hand_in(course, LAB, "bob", {SLUG: sources.mutant(solution, mistake)}, files=True)
    hand_in(course, LAB, "cid", {SLUG: sources.stub_text(SLUG)})
    hand_in(course, LAB, HOSTILE, {SLUG: f"raise ValueError({HOSTILE!r})"})
    (course.dir / "submitted" / HOSTILE / LAB / "timestamp.txt").write_text("noon")
    hand_in(course, LAB, "eve", {})
    (course.dir / "submitted" / "fay").mkdir()
    run = subprocess.Popen(
        [sys.executable, "-m", "flashlab", "class", "grade", str(course.dir), "--workers", "1"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    jobs, deadline = course.dir / store.FOLDER / "jobs", time.monotonic() + 240
    while not list(jobs.glob("*/*.json")):
        assert run.poll() is None, run.stdout.read().decode()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    run.stdout.close()
    return course


def results(course: Course) -> dict[str, dict]:
    kept = store.Store(course.dir / store.FOLDER)
    return {r["student"]: r for key in kept.keys() if (r := kept.get(key))}


def test_a_killed_run_is_taken_up_and_nothing_is_done_twice(
    graded: Course, capsys: pytest.CaptureFixture
) -> None:
    _no_process_of(graded)
    before = results(graded)
    assert 1 <= len(before) < 4
    times = {p: p.stat().st_mtime_ns for p in graded.dir.glob("flashlab_grades/jobs/*/*.json")}

    assert grade.main(str(graded.dir), Options(workers=1)) == 1

    after = results(graded)
    assert set(after) == {"ann", "bob", "cid", HOSTILE}
    assert before.items() <= after.items()
    assert all(p.stat().st_mtime_ns == t for p, t in times.items())
    said = capsys.readouterr()
    assert f"4 submissions, {len(before)} of them graded before" in said.out
    assert "commitment of the hidden cases" in said.out
    assert "eve: " in said.err and "\x1b" not in said.out + said.err


def test_marks_are_as_expected(graded: Course) -> None:
    table = (graded.dir / report_write.TABLE).read_text()
    rows = {r.split(",")[0]: r.split(",") for r in table.splitlines()[1:] if r.count(",") < 9}

    assert rows["ann"][2:6] == ["100", "100", "100", "pass"]
    assert float(rows["bob"][2]) < 100 and rows["bob"][5] == "wrong"
    assert rows["cid"][2:6] == ["0", "100", "0", "unfilled"]
    assert rows["eve"][2:6] == ["0", "100", "0", "not handed in"]
    assert rows["fay"][2:6] == ["0", "100", "0", "not handed in"]
    assert "bubblewrap" in rows["ann"][-2]
    assert "\x1b" not in table


def test_a_second_run_runs_nothing(graded: Course, monkeypatch: pytest.MonkeyPatch) -> None:
    table = (graded.dir / report_write.TABLE).read_text()
    monkeypatch.setattr(grade_pool, "Worker", None)

    grade.main(str(graded.dir))

    assert (graded.dir / report_write.TABLE).read_text() == table


def test_a_regrade_from_nothing_reproduces_every_mark(
    graded: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a part of an array job (here the only one), which is then put together."""
    table = (graded.dir / report_write.TABLE).read_text()
    kept = graded.dir / store.FOLDER
    os.rename(kept, graded.dir / "old")
    assert grade.main(str(graded.dir), Options(shard="1/1", workers=1)) == 0
    assert not list(kept.glob("jobs/*/*.json"))

    grade.merge(str(graded.dir), [])

    assert (graded.dir / report_write.TABLE).read_text() == table
    assert shards.merge(store.Store(kept), []) == (0, [])


def test_a_page_tells_no_hidden_number_and_runs_nothing(graded: Course) -> None:
    hidden = {}
    for student, result in results(graded).items():
        page = (graded.dir / report_write.FEEDBACK / student / f"{LAB}.html").read_text()
        assert "<script" not in page and "onerror=" not in page.replace("onerror=&quot;", "")
        assert "<img" not in page and "\x1b" not in page
        hidden[student] = page, result["exercises"][SLUG]["hidden"]
    page, report = hidden["bob"]
    failing = [case for case in report["cases"] if case["status"] != "pass"]
    assert failing and all(case["name"] in page for case in failing)
    for case in failing:
        where = case["where"] or {}
        for number in (case["error"], where.get("got"), where.get("expected")):
            assert number is None or f"{number:.3g}" not in page
    mistake = wrong_answer()
    assert mistake.says.split(":")[0][:30] in page
    assert json.dumps(report["text_hash"]) not in page
    whole = (graded.dir / report_write.CLASS_PAGE).read_text()
    assert "<img" not in whole and "&lt;img" in whole
    assert "Unsandboxed" not in whole


def test_unsandboxed_is_stamped_on_everything(tmp_path: Path, capsys) -> None:
    course = make_course(tmp_path / "course", "00")
    hand_in(course, LAB, "ann", {SLUG: sources.stub_text(SLUG)})

    grade.main(str(course.dir), Options(sandbox="unsandboxed", workers=1))

    assert "WARNING" in capsys.readouterr().out
    page = course.dir / report_write.FEEDBACK / "ann" / f"{LAB}.html"
    for path in (page, course.dir / report_write.CLASS_PAGE):
        assert "Unsandboxed" in path.read_text()
    assert ",unsandboxed," in (course.dir / report_write.TABLE).read_text()


def _no_process_of(course: Course) -> None:
    """Wait until nothing that the killed run started is left."""
    end, mine = time.monotonic() + 20, b"flashlab.classroom.grade_worker"
    left = [0]
    while left and time.monotonic() < end:
        left = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                where = os.readlink(path / "cwd")
                if mine in (path / "cmdline").read_bytes() and where == str(ROOT):
                    left.append(int(path.name))
            except OSError:
                continue
        time.sleep(0.1)
    assert not left
