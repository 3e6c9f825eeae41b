"""tests/labs gives the verdicts of ``flashlab check``, case by case."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from flashlab import exercises, sources
from flashlab.grader.run import check
from flashlab.sources import course_dir

SLUG = "vector_scale"
MISTAKES = {m.slug: m for m in exercises.get(SLUG).mistakes}
OUTCOME = re.compile(rf"test_lab\[{SLUG}-([\w-]+)\] (PASSED|FAILED|SKIPPED)")


def _outcomes(kernels: str, *options: str) -> tuple[dict[str, str], str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "tests/labs",
        "-k",
        SLUG,
        "--kernels",
        kernels,
        "-v",
    ]
    command += ["-p", "no:cacheprovider", *options]
    done = subprocess.run(command, cwd=course_dir(), capture_output=True, text=True, timeout=300)
    return dict(OUTCOME.findall(done.stdout)), done.stdout + done.stderr


@pytest.mark.parametrize("mistake", ["mask-one-too-many", "adds"])
def test_the_same_verdicts(mistake: str, tmp_path: Path) -> None:
    text = sources.mutant(sources.solution_text(SLUG), MISTAKES[mistake])
    path = tmp_path / f"{SLUG}.py"
    path.write_text(text, encoding="utf-8")

    outcomes, said = _outcomes(str(path))
    report = check(SLUG, text, all_cases=True, diagnose=False)

    failed = {case.name for case in report.cases if case.status != "pass"}
    assert {name for name, outcome in outcomes.items() if outcome == "FAILED"} == failed, said
    assert set(outcomes) == {case.name for case in exercises.get(SLUG).cases}
    assert report.first_failure.why in said
    assert f'flashlab.debug("{SLUG}", "{report.first_failure.name}"' in said


def test_stubs_fail_and_say_which_step() -> None:
    outcomes, said = _outcomes("stubs")

    assert set(outcomes.values()) == {"FAILED"}
    assert "Step 1 is not written yet" in said


def test_another_file_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("", encoding="utf-8")
    outcomes, said = _outcomes(str(path))

    assert not outcomes
    assert "a file called after an exercise" in said
