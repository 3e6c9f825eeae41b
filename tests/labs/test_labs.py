"""One test a case; a failure says why the case is there and how to run it alone."""

from collections.abc import Callable

import pytest

from flashlab import exercises
from flashlab.grader.report import Report
from flashlab.grader.wording import failing_call


def test_lab(lab: tuple[str, str], report_of: Callable[[str], Report]) -> None:
    slug, name = lab
    report = report_of(slug)
    runs = [run for run in report.cases if run.name.split(" ")[0] == name]
    if not runs and report.passed:
        pytest.skip(f"{name}: not run on tier {report.tier}")
    if not runs:
        pytest.fail(f"{report.status}: {report.headline}", pytrace=False)
    bad = next((run for run in runs if run.status != "pass"), None)
    if bad is not None:
        why = exercises.get(slug).case(name).why
        said = f"{bad.status} at {bad.tiles}: {bad.detail}"
        call = failing_call(slug, bad)
        pytest.fail("\n".join([why, said, bad.line, call]), pytrace=False)
    if report.status == "forbidden":
        pytest.fail(report.headline, pytrace=False)
