"""A student's page: status, likely mistake, picture, hidden cases by name. Floor: front.

Numbers, sizes and pictures come from the public cases alone. Of a hidden case the page says its
class and its status; nothing here can tell more, since no hidden number reaches it.
"""

import html
import json

from flashlab import exercises
from flashlab.classroom.grade_marks import NOT_GRADED, NOT_HANDED_IN, Graded, Mark
from flashlab.classroom.sandbox import NONE
from flashlab.grader.report import Report
from flashlab.render.html import report_html
from flashlab.render.safe import one_line

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title><style>
:root{{color-scheme:light dark}}body{{font:15px/1.5 system-ui,sans-serif;max-width:900px;
margin:24px auto;padding:0 16px}}table{{border-collapse:collapse;margin:8px 0}}
th,td{{text-align:left;padding:3px 14px 3px 0;border-top:1px solid #8886;vertical-align:top}}
h1,p,td{{overflow-wrap:anywhere}}
.num{{text-align:right;font-variant-numeric:tabular-nums}}.soft{{opacity:.75}}
.stamp{{border:2px solid #b84a00;padding:8px 12px;font-weight:600}}
h2{{margin-top:32px}}.bad{{font-weight:600}}</style></head><body>
{body}
</body></html>
"""
STAMP = (
    "Unsandboxed: this code was run without a sandbox, with all rights of the person who graded. "
    "These marks are no proof of anything."
)


def page(title: str, body: str) -> str:
    """A whole document: no script, nothing fetched; ``body`` must be escaped."""
    return PAGE.format(title=html.escape(title), body=body)


def line(text: object, limit: int = 400) -> str:
    """Text of others as one escaped line."""
    return html.escape(one_line(text, limit))


def feedback(graded: Graded, commitment: str) -> str:
    """The page of one submission."""
    student, lab = graded.submission.student, graded.submission.lab
    body = [f"<h1>{line(lab)}: {line(student, 80)}</h1>", stamp(graded.sandbox)]
    body.append(f"<p><strong>{_points(graded.points, graded.of)}</strong></p>")
    body += [f'<p class="bad">{line(said)}</p>' for said in graded.submission.said]
    body += [_mark(mark) for mark in graded.marks]
    body.append(
        f'<p class="soft">Hidden cases were drawn for you by a key whose SHA-256 commitment is '
        f"<code>{line(commitment)}</code>. Graded on tier {line(graded.tier or 'none')}, "
        f"{_where(graded.sandbox)}.</p>"
    )
    return page(f"{lab}: {one_line(student, 80)}", "\n".join(body))


def stamp(sandbox: str) -> str:
    """The mark of a page whose code ran unprotected; empty else."""
    return f'<p class="stamp">{STAMP}</p>' if sandbox == NONE else ""


def _where(sandbox: str) -> str:
    return f"in {line(sandbox)}" if sandbox not in ("", NONE) else "without a sandbox"


def _points(got: float | None, of: float) -> str:
    return f"{got:g} of {of:g} points" if got is not None else "no mark yet: the grader failed"


def _mark(mark: Mark) -> str:
    title = f"<h2>{line(mark.slug)}: {_points(mark.points, mark.of)}</h2>"
    if mark.status in (NOT_HANDED_IN, NOT_GRADED):
        return f"{title}<p>{line(mark.status)}</p>"
    if mark.status == "grader_error":
        return (
            f"{title}<p>The grader failed on this answer. That is our fault or the machine's, "
            "and costs you nothing: your instructor grades it again.</p>"
        )
    return title + _parts(mark) + _hidden(mark) + _shown(mark)


def _parts(mark: Mark) -> str:
    """Points of the check and of each step."""
    names = exercises.get(mark.slug).steps
    rows = [("check", mark.check)]
    rows += [
        (f"step {i}: {n}", p) for i, (n, p) in enumerate(zip(names, mark.steps, strict=True), 1)
    ]
    cells = "".join(
        f'<tr><td>{line(name)}</td><td class="num">{points:g}</td></tr>' for name, points in rows
    )
    return f"<table><tr><th>part</th><th>points</th></tr>{cells}</table>"


def _hidden(mark: Mark) -> str:
    """Hidden cases by class, with the worst status of each."""
    hidden = _report(mark.entry["hidden"])
    if not hidden.cases:
        return ""
    worst: dict[str, str] = {}
    for case in hidden.cases:
        name = case.name.split(" ")[0]  # on a GPU some run in bfloat16 too
        if worst.get(name, "pass") == "pass":
            worst[name] = case.status
    passed = sum(status == "pass" for status in worst.values())
    exercise = exercises.get(mark.slug)
    not_run = [c.name for c in exercise.cases if c.name not in worst]
    rows = "".join(
        f"<tr><td>{line(name)}</td><td>{line(status)}</td></tr>"
        for name, status in worst.items()
        if status != "pass"
    )
    said = f"<p>Hidden cases: {passed} of {len(exercise.cases)} classes pass"
    if not_run:
        said += f"; not run, since earlier ones fail: {line(', '.join(not_run), 600)}"
    lost = [p for p, (got, of) in hidden.points_by_part.items() if 0 <= got < of]
    if passed == len(exercise.cases) and lost:
        said += f"; points were lost for {line(', '.join(lost))}"
    table = f"<table><tr><th>class</th><th>status</th></tr>{rows}</table>" if rows else ""
    return f"{said}.</p>{table}"


def _shown(mark: Mark) -> str:
    """The report of the public cases, with the points that count."""
    if mark.entry["shown"] is None:
        return "<p>Everything passes.</p>" if mark.status == "pass" else ""
    hidden = _report(mark.entry["hidden"])
    shown = _report(mark.entry["shown"])
    failing = {case.tier for case in hidden.cases if case.status != "pass"}
    if shown.passed and failing and "cpu" not in failing:
        return (
            "<p>Every case passes on the CPU. Compiled and run on a GPU, the classes above fail: "
            "look at what differs there, such as alignment, programs at the same time, low "
            "precision and what your launcher does with CUDA tensors.</p>"
        )
    if shown.passed:
        return (
            "<p>All public cases pass, but hidden ones of the classes above do not: the answer "
            "fits the public numbers or sizes only.</p>"
        )
    shown.points, shown.points_by_part = hidden.points, hidden.points_by_part
    shown.path = f"{mark.slug}.py"
    return f"<p>On the public cases:</p>{report_html(shown)}"


def _report(data: object) -> Report:
    return Report.from_json(json.dumps(data))
