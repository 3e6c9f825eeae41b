"""Simulate a class: 200 submissions of lab 04, graded, killed three times on the way, checked.

    python scripts/simulate_class.py DIR [--students 200] [--kills 3] [--workers 0]

Correct variants, every mistake, empty, broken and hostile submissions. Says how long each run
took, in wall time and in core-seconds of the machine, and whether every mark is as expected; then
projects the cost of 1,000 ordinary submissions, of which 70 % are right.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from flashlab import exercises, sources  # noqa: E402
from flashlab.authoring.verify import variants  # noqa: E402
from flashlab.classroom import build, store  # noqa: E402
from flashlab.classroom.course import Course  # noqa: E402
from flashlab.workspace import cell_source  # noqa: E402

LAB, SLUGS = "lab04", ("flash_forward_tiles", "flash_forward")
BROKEN = ("not JSON", "deep", "empty folder", "syntax", "renamed", "cut off")
ORDINARY_RIGHT = 0.7


def main() -> int:
    """Build, hand in, grade with kills, grade again, compare; 0 if all is as expected."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", type=Path)
    parser.add_argument("--students", type=int, default=200)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()
    course = build.build(args.dir, ["04"], "simulated")
    wanted = hand_in(course, args.students)
    grade_and_kill(course, args)
    seconds, _ = grade(course, args.workers)
    print(f"second full run: {seconds:.1f} s")
    faults = compare(course, wanted)
    for fault in faults[:40]:
        print(f"NOT AS EXPECTED: {fault}")
    print(f"{len(wanted)} submissions, {len(faults)} marks not as expected")
    project(course, wanted)
    return 1 if faults or seconds > 60 else 0


def hand_in(course: Course, students: int) -> dict[str, dict]:
    """Write the submissions; what each must get, by student."""
    plans = list(submissions())
    kinds = [kind for kind, _, _ in plans]
    chooser = random.Random(4)
    while len(plans) < students:  # ordinary ones, 70 % right
        kind = "right" if chooser.random() < ORDINARY_RIGHT else "mistake"
        plans.append(chooser.choice([p for p, k in zip(plans, kinds, strict=False) if k == kind]))
    wanted = {}
    for number, (kind, texts, expected) in enumerate(plans[:students]):
        student = f"s{number:03d}-{kind}"
        write(course, student, kind, texts)
        wanted[student] = expected
    return wanted


def submissions():
    """(kind, texts, expected status by exercise) of every distinct submission."""
    right = {slug: sources.solution_text(slug) for slug in SLUGS}
    for slug in SLUGS:
        for _, text in variants(slug):
            yield "right", {**right, slug: text}, dict.fromkeys(SLUGS, "pass")
    yield "right", right, dict.fromkeys(SLUGS, "pass")
    for slug in SLUGS:
        for mistake in exercises.get(slug).mistakes:
            if mistake.tier == "cpu":
                text = sources.mutant(right[slug], mistake)
                expected = dict.fromkeys(SLUGS, "pass") | {slug: f"mistake {mistake.slug}"}
                yield "mistake", {**right, slug: text}, expected
    stubs = {slug: sources.stub_text(slug) for slug in SLUGS}
    yield "empty", stubs, dict.fromkeys(SLUGS, "unfilled")
    for kind in BROKEN:
        yield kind.replace(" ", "-"), right, {"broken": kind}
    for path in sorted((ROOT / "tests" / "grader" / "exploits").glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if "Exercise: flash_forward" in text:
            slug = "flash_forward_tiles" if "flash_forward_tiles" in text else "flash_forward"
            yield "hostile", {**right, slug: text}, {slug: "no points"}
    for name in ("fork_bomb", "disk_fill", "endless_loop", "exit_zero", "segmentation_fault"):
        [path] = (ROOT / "tests").glob(f"*/*/{name}.py")
        text = path.read_text(encoding="utf-8")
        text += "\n\ndef flash_forward(q, k, v, *, causal=False, sm_scale=None):\n"
        text += "    return vector_scale(q, 1.0)\n"
        yield "hostile", {**right, "flash_forward": text}, {"flash_forward": "no points"}


def write(course: Course, student: str, kind: str, texts: dict[str, str]) -> None:
    folder = course.dir / "submitted" / student / LAB
    folder.mkdir(parents=True, exist_ok=True)
    cells = [
        {"cell_type": "code", "id": slug.replace("_", "-"), "outputs": [],
         "metadata": {"nbgrader": {"grade_id": f"{slug}-stub"}},
         "execution_count": None, "source": cell_source(slug, text)}
        for slug, text in texts.items()
    ]  # fmt: skip
    stamp = {"flashlab": course.stamp(LAB)}
    book = json.dumps({"cells": cells, "metadata": stamp, "nbformat": 4, "nbformat_minor": 5})
    contents = {"not-JSON": "{", "deep": "[" * 100_000, "cut-off": book[: len(book) // 2]}
    if kind == "syntax":
        book = book.replace("def flash_forward(", "def flash_forward((")
    name = f"{LAB} (1).ipynb" if kind == "renamed" else f"{LAB}.ipynb"
    if kind != "empty-folder":
        (folder / name).write_text(contents.get(kind, book), encoding="utf-8")


def results(course: Course) -> dict[str, dict]:
    kept = store.Store(course.dir / store.FOLDER)
    return {r["student"]: r for key in kept.keys() if (r := kept.get(key))}


def graded(course: Course) -> int:
    """How many have a result."""
    return len(store.Store(course.dir / store.FOLDER).keys())


def command(course: Course, workers: int) -> list[str]:
    words = [sys.executable, "-m", "flashlab", "class", "grade", str(course.dir)]
    return [*words, "--workers", str(workers)] if workers else words


def grade_and_kill(course: Course, args: argparse.Namespace) -> None:
    """Grade everything; kill -9 when a quarter, a half, three quarters are done."""
    start, total = time.monotonic(), args.students
    for number in range(1, args.kills + 1):
        run = subprocess.Popen(command(course, args.workers), cwd=ROOT)
        while run.poll() is None and graded(course) < total * number / (args.kills + 1):
            time.sleep(1)
        if run.poll() is None:
            os.kill(run.pid, signal.SIGKILL)
        run.wait()
        print(f"killed when {graded(course)} were graded", flush=True)
    grade(course, args.workers)
    print(f"all graded after {time.monotonic() - start:.0f} s of wall time, kills included")


def grade(course: Course, workers: int) -> tuple[float, int]:
    start = time.monotonic()
    code = subprocess.call(command(course, workers), cwd=ROOT, stderr=subprocess.DEVNULL)
    return time.monotonic() - start, code


def compare(course: Course, wanted: dict[str, dict]) -> list[str]:
    """What is not as expected, a sentence each."""
    found, faults = results(course), []
    named = mistakes = 0
    for student, expected in wanted.items():
        if "broken" in expected:
            faults += broken(student, expected["broken"], found.get(student))
            continue
        for slug, status in expected.items():
            entry = found[student]["exercises"].get(slug, {}) if student in found else {}
            if status.startswith("mistake "):
                mistakes += 1
                named += ((entry.get("shown") or {}).get("mistake") or {}).get("slug") in status
                wrong = entry.get("status") in ("pass", None, "grader_error")
            elif status == "no points":
                wrong = entry.get("points") != 0 or entry.get("status") == "grader_error"
            else:
                wrong = entry.get("status") != status
            if wrong:
                faults.append(f"{student}, {slug}: {entry.get('status')}, wanted {status}")
    print(f"mistakes: {mistakes - sum('mistake' in f for f in faults)} of {mistakes} fail, "
          f"{named} are named")  # fmt: skip
    return faults


def broken(student: str, kind: str, result: dict | None) -> list[str]:
    """A renamed notebook is graded, a wrong syntax gets its status, others give no result."""
    if kind in ("renamed", "syntax"):
        status = result and result["exercises"]["flash_forward"]["status"]
        right = status == ("pass" if kind == "renamed" else "contract")
    else:
        right = result is None
    return [] if right else [f"{student}: {kind} was not dealt with as expected"]


def project(course: Course, wanted: dict[str, dict]) -> None:
    """Core-hours of 1,000 submissions from the mean cost of right ones and of mistakes."""
    found = results(course)
    means = {}
    for kind in ("right", "mistake"):
        costs = [found[s]["cpu_seconds"] for s in wanted if s.endswith(kind) and s in found]
        means[kind] = sum(costs) / max(1, len(costs))
        print(f"{kind}: {len(costs)} submissions, {means[kind]:.1f} core-seconds each")
    mean = ORDINARY_RIGHT * means["right"] + (1 - ORDINARY_RIGHT) * means["mistake"]
    print(f"1,000 ordinary submissions: {mean * 1000 / 3600:.2f} core-hours (at most 6)")


if __name__ == "__main__":
    sys.exit(main())
