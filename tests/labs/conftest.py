"""The autograded tests in pytest: ``pytest tests/labs -k SLUG --kernels WHOSE --tier cpu``.

One check of an exercise answers for all of its tests, in the processes and with the verdicts of
``flashlab check``; of its cases only the selected ones run.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from flashlab import exercises, sources
from flashlab.grader.report import Report
from flashlab.grader.run import check
from flashlab.workspace import Workspace

TIERS = ("cpu", "gpu", "hopper")
DEFAULT = "solutions"


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--kernels`` and ``--tier``; a run of all tests takes their defaults."""
    parser.addoption(
        "--kernels",
        default=DEFAULT,
        metavar="workspace|stubs|solutions|FILE",
        help="whose kernels tests/labs checks; FILE is called after its exercise",
    )
    parser.addoption("--tier", default="cpu", choices=TIERS, help="where tests/labs runs")


def _answers(kernels: str) -> dict[str, tuple[str, str]]:
    """Text and path by exercise. Read before any test, which gets a home of its own."""
    if kernels == "solutions":
        return {s: (sources.solution_text(s), str(sources.solution_path(s))) for s in _slugs()}
    if kernels == "stubs":
        return {s: (sources.stub_text(s), "") for s in _slugs()}
    if kernels == "workspace":
        answers = {s: Workspace.current().answer(s) for s in _slugs()}
        return {s: (a.text, str(a.path or "")) for s, a in answers.items()}
    path = Path(kernels)
    if not path.is_file() or path.stem not in _slugs():
        raise pytest.UsageError(
            f"--kernels takes workspace, stubs, solutions or a file called after an exercise, "
            f"such as flash_forward.py; got {kernels!r}"
        )
    return {path.stem: (path.read_text(encoding="utf-8"), str(path.resolve()))}


def _slugs() -> tuple[str, ...]:
    return exercises.SYLLABUS


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a case of every exercise that there is an answer for."""
    if "lab" in metafunc.fixturenames:
        answers = _answers(metafunc.config.getoption("--kernels", DEFAULT))
        metafunc.config.stash[ANSWERS] = answers
        labs = [(slug, case.name) for slug in answers for case in exercises.get(slug).cases]
        metafunc.parametrize("lab", labs, ids=["-".join(lab) for lab in labs])


ANSWERS = pytest.StashKey[dict[str, tuple[str, str]]]()
REPORTS = pytest.StashKey[dict[str, Report]]()


@pytest.fixture
def report_of(request: pytest.FixtureRequest) -> Callable[[str], Report]:
    """The report of an exercise, made when its first test asks for it."""
    stash = request.config.stash
    reports = stash.setdefault(REPORTS, {})

    def report(slug: str) -> Report:
        if slug not in reports:
            text, path = stash[ANSWERS][slug]
            names = {
                item.callspec.params["lab"][1]
                for item in request.session.items
                if "lab" in getattr(getattr(item, "callspec", None), "params", {})
                and item.callspec.params["lab"][0] == slug
            }
            every = names == {case.name for case in exercises.get(slug).cases}
            reports[slug] = check(
                slug,
                text,
                tier=request.config.getoption("--tier", "cpu"),
                path=path,
                cases=None if every else sorted(names),
                all_cases=True,
                diagnose=False,
            )
        return reports[slug]

    return report
