"""What a class's reports say: likeness, groups of unknown mistakes, a table that runs nothing."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flashlab import exercises, sources
from flashlab.classroom import report_class, report_csv, report_feedback, report_similar
from flashlab.classroom.answers import Submission
from flashlab.classroom.course import Lab, Points
from flashlab.classroom.grade_marks import Graded, graded
from flashlab.grader.report import CaseResult, Report, Where
from tests.browser.conftest import BROWSER, HOW, QUIET, SCREENSHOTS

SLUG = "flash_forward"
LAB = Lab("lab04", "04_flash_forward", {SLUG: Points(75, (5,) * 5)})


def wrong(got: float = 3.5, mistake: dict | None = None) -> Report:
    case = CaseResult("one-tile", "core", {"BLOCK_M": 16}, {"N_q": 16}, "wrong")
    case.where = Where("o", [0, 0, 1, 2], 1.0, got, rows=[1])
    return Report(SLUG, "cpu", "wrong", "o is wrong", cases=[case], mistake=mistake)


def entry(report: Report, text: str) -> dict:
    data = json.loads(report.to_json())
    return {
        "status": report.status,
        "points": report.points,
        "steps": [report.passed] * 5,
        "hidden": data,
        "shown": None if report.passed else data,
        "signature": report_similar.signature(report),
        "shape": report_similar.shape(text),
    }


def one(student: str, report: Report, text: str = "", sandbox: str = "bubblewrap 1") -> Graded:
    result = {"exercises": {SLUG: entry(report, text)}, "sandbox": sandbox, "seconds": 9.0}
    return graded(Submission(student, "lab04", {SLUG: text}), LAB, "k", result)


def renamed(text: str) -> str:
    """The same program with other names and no comments."""
    text = re.sub(r"#.*", "", text)
    for old, new in (("acc", "total"), ("m_new", "top"), ("alpha", "shrink")):
        text = re.sub(rf"\b{old}\b", new, text)
    return text


def test_a_renamed_copy_is_alike_and_the_stub_says_nothing() -> None:
    solution = sources.solution_text(SLUG)
    mine = report_similar.own(report_similar.shape(solution), SLUG)

    assert report_similar.share(
        mine, report_similar.own(report_similar.shape(renamed(solution)), SLUG)
    ) == 1.0  # fmt: skip
    stub = report_similar.own(report_similar.shape(sources.stub_text(SLUG)), SLUG)
    assert not stub and report_similar.share(mine, stub) == 0
    other = sources.course_dir() / "tests" / "variants" / SLUG / "two_passes.py"
    theirs = report_similar.own(report_similar.shape(other.read_text()), SLUG)
    assert report_similar.share(mine, theirs) < 0.6


def test_a_text_that_does_not_parse_has_no_shape() -> None:
    for text in ("def (", "(" * 10_000, "-" * 100_000 + "1", "x\0"):
        assert report_similar.shape(text) == []


def test_answers_that_go_wrong_alike_have_one_signature() -> None:
    known = {"slug": "a", "says": "b", "confidence": "c"}

    assert report_similar.signature(wrong()) == report_similar.signature(wrong(3.5001))
    assert report_similar.signature(wrong()) != report_similar.signature(wrong(4.5))
    assert report_similar.signature(wrong(mistake=known)) == ""
    assert report_similar.signature(Report(SLUG, "cpu", "pass", "fine")) == ""


def test_the_class_page_groups_names_and_counts() -> None:
    solution = sources.solution_text(SLUG)
    mistake = exercises.get(SLUG).mistakes[0]
    known = {"slug": mistake.slug, "says": mistake.says, "confidence": "certain"}
    right = Report(SLUG, "cpu", "pass", "fine", points=100)
    lost = Report(SLUG, "cpu", "grader_error", "lost")
    rows = [
        one("ann", right, solution),
        one("bob", right, renamed(solution)),
        one("cid", wrong(), "x = 1"),
        one("dan", wrong(), "x = 2"),
        one("eve", wrong(mistake=known), "x = 3"),
        one("<b>fay</b>", lost, "x = 4"),
    ]

    page = report_class.class_page("demo", [report_class.LabReport("lab04", rows, "c0ffee")])

    assert "cid, dan" in page and "the next mistake to add" in page
    assert mistake.says.split("'")[0] in page
    assert "<td>100%</td><td>ann</td><td>bob</td>" in page
    assert "Like the course&#x27;s solution" in page or "Like the course's solution" in page
    assert "&lt;b&gt;fay" in page and "<b>fay" not in page
    assert "c0ffee" in page and "9 s a submission" in page
    assert "<script" not in page and "Unsandboxed" not in page


def test_an_error_of_the_grader_costs_nothing_and_says_so() -> None:
    lost = one("ann", Report(SLUG, "cpu", "grader_error", "lost"))

    assert lost.points is None
    assert "costs you nothing" in report_feedback.feedback(lost, "c0ffee")
    assert report_csv.table([lost]).splitlines()[1].startswith("ann,lab04,,100,,grader_error")


def test_no_cell_of_the_table_is_a_formula() -> None:
    names = ["=1+1", "+1", "-1", "@a", '=cmd|"/c calc"!A0', "a\nb,c", "\x1b[2J"]
    table = report_csv.table([one(n, Report(SLUG, "cpu", "pass", "", points=100)) for n in names])

    assert len(table.splitlines()) == len(names) + 1
    assert not any(row.startswith(("=", "+", "-", "@", '"=')) for row in table.splitlines())
    assert "\x1b" not in table


def test_an_answer_that_fails_on_a_gpu_alone_is_told_so() -> None:
    cases = [
        CaseResult("one-tile", "core", {"BLOCK_M": 16}, {"N_q": 16}, "pass"),
        CaseResult("one-tile", "core", {"BLOCK_M": 16}, {"N_q": 16}, "pass", tier="gpu"),
        CaseResult("one-tile bf16", "core", {"BLOCK_M": 16}, {"N_q": 16}, "wrong", tier="gpu"),
    ]
    failed = one("ann", Report(SLUG, "gpu", "wrong", "o is wrong", cases=cases))
    failed.marks[0].entry["shown"] = json.loads(Report(SLUG, "cpu", "pass", "").to_json())

    page = report_feedback.feedback(failed, "c0ffee")

    assert "Every case passes on the CPU" in page and "fits the public numbers" not in page
    assert "Hidden cases: 0 of " in page and "<td>one-tile</td><td>wrong</td>" in page


def test_unsandboxed_stands_on_the_page_of_each_student() -> None:
    page = report_feedback.feedback(one("ann", wrong(), sandbox="unsandboxed"), "c0ffee")

    assert "Unsandboxed" in page and "tier none, without a sandbox" in page
    safe = report_feedback.feedback(one("ann", wrong()), "c0ffee")
    assert "Unsandboxed" not in safe and "in bubblewrap 1." in safe


@pytest.mark.browser
@pytest.mark.skipif(not BROWSER, reason=HOW)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_names_of_any_kind_leave_the_pages_whole(tmp_path: Path, scheme: str) -> None:
    """Markup, escapes, a turned direction, no blank: shown as text; the page keeps its width."""
    from playwright.sync_api import Playwright, sync_playwright

    SCREENSHOTS.mkdir(exist_ok=True)
    names = ["<script>document.title='x'</script>", "\x1b[31mred", "\u202egnihton", "a" * 200]
    right = Report(SLUG, "cpu", "pass", "fine", points=100)
    rows = [one(name, right, sources.solution_text(SLUG)) for name in names]
    pages = {
        "class": report_class.class_page(
            "demo", [report_class.LabReport("lab04", rows, "c0" * 32)]
        ),
        "feedback": report_feedback.feedback(one(names[3], wrong()), "c0" * 32),
    }

    def look(playwright: Playwright) -> None:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=QUIET)
        for name, text in pages.items():
            (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
            page = browser.new_page(color_scheme=scheme, viewport={"width": 900, "height": 800})
            page.goto((tmp_path / f"{name}.html").as_uri())
            page.screenshot(path=SCREENSHOTS / f"{name}-{scheme}.png", full_page=True)
            assert page.title() != "x"
            assert page.evaluate("document.documentElement.scrollWidth") <= 900
            assert not {"\x1b", "\u202e"} & set(page.content())
        browser.close()

    def alone() -> None:
        with sync_playwright() as playwright:
            look(playwright)

    with ThreadPoolExecutor(1) as thread:  # this one may have a browser already
        thread.submit(alone).result()
